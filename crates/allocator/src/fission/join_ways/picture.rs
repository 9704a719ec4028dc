//! Pictures of made ways. WeCom says where one is only when the way is read; what comes is bounded as contact ways' are.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use ledger::{Refusal, UnpicturedJoinWay};
use metrics::counter;
use quota::Urgency;
use reqwest::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wecom::client::{JoinWayDetail, api};

use super::verdict::{self, UNKNOWN_WAY};
use crate::{
    app::{App, CorpApp},
    permit,
    reception::slots::{self, verdict::later},
};

const AT_ONCE: usize = 4;
const BATCH: u32 = 32;
/// A batch of reads and fetches that all time out, and some waiting.
const LEASE_MS: u64 = 90_000;
/// Between looks for new ways while others are made.
const LOOK: Duration = Duration::from_millis(100);

/// Fetches what is due, and what is made meanwhile: until all is made (`asked`) and fetched, or the turn is over.
pub(super) async fn run(
    app: &App,
    corp: &CorpApp,
    http: &Client,
    asked: &CancellationToken,
    until: Instant,
    stop: &CancellationToken,
) -> Result<(), ledger::Error> {
    while !stop.is_cancelled() && Instant::now() < until {
        let last = asked.is_cancelled();
        let ways = app.ledger.join_ways();
        let due = ways
            .unpictured(&corp.id, BATCH, LEASE_MS, app.now_ms())
            .await?;
        if due.is_empty() {
            if last {
                break;
            }
            crate::backoff::sleep(LOOK, stop).await;
            continue;
        }
        stream::iter(due)
            .map(|one| fill(app, corp, http, one))
            .buffer_unordered(AT_ONCE)
            .collect::<Vec<Result<(), ledger::Error>>>()
            .await
            .into_iter()
            .collect::<Result<(), ledger::Error>>()?;
    }
    Ok(())
}

async fn fill(
    app: &App,
    corp: &CorpApp,
    http: &Client,
    one: UnpicturedJoinWay,
) -> Result<(), ledger::Error> {
    let (ways, rules) = (app.ledger.join_ways(), &app.config.visits);
    let (refusal, remade) = match read(app, corp, &one.config_id).await {
        Ok(Ok(way)) => {
            let url = way.qr_code.unwrap_or_default();
            match slots::picture::fetch(http, &url).await {
                Ok((bytes, content_type)) => {
                    count(corp, "stored");
                    ways.pictured(&corp.id, &one.way, &url, &bytes, content_type, app.now_ms())
                        .await?;
                    return Ok(());
                }
                Err(problem) => {
                    let base = Refusal {
                        error: format!("picture: {problem}"),
                        ..Refusal::default()
                    };
                    (later(base, one.tries, false, rules, app.now_ms()), false)
                }
            }
        }
        // Somebody deleted it at WeCom before anybody saw it.
        Ok(Err(error)) if error.errcode() == Some(UNKNOWN_WAY) => {
            let wanted = Refusal {
                error: "deleted at WeCom by somebody else".to_owned(),
                next_try_ms: app.now_ms(),
                ..Refusal::default()
            };
            (wanted, true)
        }
        Ok(Err(error)) => {
            let refusal = verdict::refusal(&error, one.tries, rules, app.now_ms());
            (refusal, false)
        }
        Err(until_ms) => {
            let wait = Refusal {
                error: "the budget is used up".to_owned(),
                next_try_ms: until_ms,
                ..Refusal::default()
            };
            return ways.not_yet(&corp.id, &one.way, &wait, false).await;
        }
    };
    count(corp, if refusal.fails { "failed" } else { "again" });
    tracing::warn!(corp = %corp.id, way = one.way, problem = refusal.error, given_up = refusal.fails,
        "the picture of a join way cannot be fetched");
    ways.not_yet(&corp.id, &one.way, &refusal, remade).await
}

/// Err: when there is a budget again.
async fn read(
    app: &App,
    corp: &CorpApp,
    config_id: &str,
) -> Result<Result<JoinWayDetail, wecom::Error>, u64> {
    let permit = permit::take(app, corp, api::GET_JOIN_WAY, Urgency::Ordinary).await?;
    let answer = corp.client.get_join_way(config_id).await;
    permit::done(app, corp, api::GET_JOIN_WAY, &permit, &answer).await;
    Ok(answer)
}

fn count(corp: &CorpApp, outcome: &'static str) {
    counter!("paidan_join_ways_pictures_total", "corp" => corp.id.to_string(), "outcome" => outcome)
        .increment(1);
}
