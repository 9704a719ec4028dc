//! Asks WeCom for ways, as many at once as the budget and `visits.workers` allow.

use ledger::{Asked, Made};
use metrics::counter;
use quota::Urgency;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wecom::client::{AddContactWay, AddedContactWay, WayScene, WayType, api};

use super::{
    Error, retire,
    verdict::{self, Verdict},
};
use crate::{
    app::{App, CorpApp},
    permit,
};

/// Asks until nothing is due, the budget ends, or the turn is over.
pub(super) async fn run(
    app: &App,
    corp: &CorpApp,
    until: Instant,
    stop: &CancellationToken,
) -> Result<(), Error> {
    // A refusal that stands against the whole corp ends the turn for all workers.
    let paused = CancellationToken::new();
    let worker = |_| work(app, corp, until, stop, &paused);
    let workers = (0..app.config.visits.workers).map(worker);
    futures_util::future::join_all(workers)
        .await
        .into_iter()
        .collect()
}

async fn work(
    app: &App,
    corp: &CorpApp,
    until: Instant,
    stop: &CancellationToken,
    paused: &CancellationToken,
) -> Result<(), Error> {
    while !stop.is_cancelled() && !paused.is_cancelled() && Instant::now() < until {
        match next(app, corp).await? {
            Next::Goes => {}
            Next::Nothing => return Ok(()),
            Next::Paused => paused.cancel(),
        }
    }
    Ok(())
}

enum Next {
    Goes,
    Nothing,
    Paused,
}

/// One way: a permit, the intent, the call, what came of it.
async fn next(app: &App, corp: &CorpApp) -> Result<Next, Error> {
    let Ok(permit) = permit::take(app, corp, api::ADD_CONTACT_WAY, Urgency::Ordinary).await else {
        return Ok(Next::Nothing);
    };
    let ways = app.ledger.contact_ways();
    let rules = &app.config.visits;
    let asked = ways
        .ask_next(&corp.id, rules.ask_lease_ms, app.now_ms())
        .await;
    let asked = match asked {
        Ok(Some(asked)) => asked,
        nothing => {
            permit::unused(app, corp, api::ADD_CONTACT_WAY, &permit).await;
            return Ok(nothing.map(|_| Next::Nothing)?);
        }
    };
    let answer = corp.client.add_contact_way(&request(&asked)).await;
    permit::done(app, corp, api::ADD_CONTACT_WAY, &permit, &answer).await;
    let error = match answer {
        Ok(added) => {
            count(corp, "made");
            made(app, corp, &asked, &added).await?;
            return Ok(Next::Goes);
        }
        Err(error) => error,
    };
    match verdict::of_asking(&error, asked.attempt, rules, app.now_ms()) {
        Verdict::Unknown { look_ms } => {
            count(corp, "unknown");
            tracing::info!(corp = %corp.id, way = asked.way, error = %error, "whether a contact way was made is looked up");
            let text = error.to_string();
            ways.unanswered(&corp.id, &asked.way, asked.attempt, &text, look_ms)
                .await?;
            Ok(Next::Goes)
        }
        Verdict::Refused(refusal) => {
            count(corp, if refusal.fails { "failed" } else { "refused" });
            if refusal.fails || refusal.pauses_corp {
                tracing::warn!(corp = %corp.id, way = asked.way, member = %asked.member, error = %error,
                    "a contact way was not made");
            }
            ways.refused(&corp.id, &asked.way, asked.attempt, &refusal)
                .await?;
            Ok(if refusal.pauses_corp {
                Next::Paused
            } else {
                Next::Goes
            })
        }
    }
}

fn request(asked: &Asked) -> AddContactWay {
    AddContactWay {
        kind: WayType::Single,
        scene: WayScene::QrCode,
        remark: Some(format!("paidan {}", asked.kind.as_str())),
        skip_verify: Some(true),
        state: Some(asked.way.clone()),
        user: vec![asked.userid.clone()],
        ..AddContactWay::default()
    }
}

/// Writes down that it is there. An answer that came so late that the way was asked for once more is one too many at
/// WeCom, and goes.
async fn made(
    app: &App,
    corp: &CorpApp,
    asked: &Asked,
    added: &AddedContactWay,
) -> Result<(), Error> {
    let (id, qr_code) = (&added.config_id, added.qr_code.as_deref());
    let made = app
        .ledger
        .contact_ways()
        .made(
            &corp.id,
            &asked.way,
            asked.attempt,
            id,
            qr_code,
            app.now_ms(),
        )
        .await?;
    if made == Made::Stray {
        count(corp, "stray");
        tracing::warn!(corp = %corp.id, way = asked.way, "a contact way was made twice; the second is deleted");
        retire::stray(app, corp, id).await;
    }
    Ok(())
}

pub(super) fn count(corp: &CorpApp, outcome: &'static str) {
    counter!("paidan_slots_asked_total", "corp" => corp.id.to_string(), "outcome" => outcome)
        .increment(1);
}
