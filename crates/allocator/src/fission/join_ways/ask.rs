//! Asks WeCom for ways, as many at once as the budget and `visits.workers` allow.

use ledger::Made;
use metrics::counter;
use quota::Urgency;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wecom::client::api;

use super::{
    configuration, retire,
    verdict::{self, Verdict},
};
use crate::{
    app::{App, CorpApp},
    backoff::jittered,
    permit,
};

/// Calls for one way whose answers got lost, before it is given up for long: each may have left a way at WeCom that nobody
/// can find.
const MOST_LOST: i32 = 3;

/// Asks until nothing is due, the budget ends, or the turn is over.
pub(super) async fn run(
    app: &App,
    corp: &CorpApp,
    until: Instant,
    stop: &CancellationToken,
) -> Result<(), ledger::Error> {
    // A refusal that stands against the whole corp ends the turn for all workers.
    let paused = CancellationToken::new();
    let worker = async |_| {
        while !stop.is_cancelled() && !paused.is_cancelled() && Instant::now() < until {
            match next(app, corp).await? {
                Next::Goes => {}
                Next::Nothing => return Ok(()),
                Next::Paused => paused.cancel(),
            }
        }
        Ok(())
    };
    let workers = (0..app.config.visits.workers).map(worker);
    futures_util::future::join_all(workers)
        .await
        .into_iter()
        .collect()
}

enum Next {
    Goes,
    Nothing,
    Paused,
}

/// One way: a permit, the intent, the call, what came of it.
async fn next(app: &App, corp: &CorpApp) -> Result<Next, ledger::Error> {
    let Ok(permit) = permit::take(app, corp, api::ADD_JOIN_WAY, Urgency::Ordinary).await else {
        return Ok(Next::Nothing);
    };
    let ways = app.ledger.join_ways();
    let rules = &app.config.visits;
    let asked = ways
        .ask_next(&corp.id, rules.ask_lease_ms, app.now_ms())
        .await;
    let asked = match asked {
        Ok(Some(asked)) => asked,
        nothing => {
            permit::unused(app, corp, api::ADD_JOIN_WAY, &permit).await;
            return nothing.map(|_| Next::Nothing);
        }
    };
    let request = configuration(&asked.via, &asked.chats, None);
    let answer = corp.client.add_join_way(&request).await;
    permit::done(app, corp, api::ADD_JOIN_WAY, &permit, &answer).await;
    let error = match answer {
        Ok(added) => {
            count(corp, "made");
            let made = ways
                .made(&corp.id, &asked, &added.config_id, app.now_ms())
                .await?;
            if made == Made::Stray {
                count(corp, "stray");
                tracing::warn!(corp = %corp.id, way = asked.way, "a join way was made twice; the second is deleted");
                retire::stray(app, corp, &added.config_id).await;
            }
            return Ok(Next::Goes);
        }
        Err(error) => error,
    };
    match verdict::of_asking(&error, asked.attempt, rules, app.now_ms()) {
        Verdict::Unknown { until_ms } => {
            count(corp, "unknown");
            tracing::warn!(corp = %corp.id, way = asked.way, error = %error, "whether a join way was made is not known");
            let text = error.to_string();
            ways.unanswered(&corp.id, &asked.way, asked.attempt, &text, until_ms)
                .await?;
            Ok(Next::Goes)
        }
        Verdict::Refused(refusal) => {
            count(corp, if refusal.fails { "failed" } else { "refused" });
            if refusal.fails || refusal.pauses_corp {
                tracing::warn!(corp = %corp.id, way = asked.way, campaign = %asked.campaign, error = %error,
                    "a join way was not made");
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

/// Those whose answer did not come in its time.
pub(super) async fn lost(app: &App, corp: &CorpApp) -> Result<(), ledger::Error> {
    let now_ms = app.now_ms();
    let failed_until_ms = now_ms + jittered(app.config.visits.failed_ms);
    let ways = app.ledger.join_ways();
    let lost = ways
        .lost(&corp.id, MOST_LOST, failed_until_ms, now_ms)
        .await?;
    let n_lost = lost.again + lost.given_up;
    if n_lost > 0 {
        counter!("paidan_join_ways_lost_total", "corp" => corp.id.to_string()).increment(n_lost);
        tracing::warn!(corp = %corp.id, again = lost.again, given_up = lost.given_up,
            "WeCom did not say whether it made join ways; as many may be there that nobody sees");
    }
    Ok(())
}

pub(super) fn count(corp: &CorpApp, outcome: &'static str) {
    counter!("paidan_join_ways_asked_total", "corp" => corp.id.to_string(), "outcome" => outcome)
        .increment(1);
}
