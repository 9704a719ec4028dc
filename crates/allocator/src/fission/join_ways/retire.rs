//! Deletes ways that have rested, and ways that are one too many.

use ledger::Deletable;
use quota::Urgency;
use tokio_util::sync::CancellationToken;
use wecom::client::api;

use super::{ask, verdict::UNKNOWN_WAY};
use crate::{
    app::{App, CorpApp},
    backoff::jittered,
    permit,
};

const BATCH: u32 = 50;
/// One after the other, each within 5 s.
const LEASE_MS: u64 = 300_000;
/// Pauses of a deletion that is refused, doubled with each.
const PAUSE_MS: u64 = 10_000;
const LONGEST_PAUSE_MS: u64 = 6 * 60 * 60 * 1000;

/// Deletes what is due, as far as the budget goes. There is no last try: a way that stays counts against the corp.
pub(super) async fn run(
    app: &App,
    corp: &CorpApp,
    stop: &CancellationToken,
) -> Result<(), ledger::Error> {
    let ways = app.ledger.join_ways();
    let due = ways
        .deletable(&corp.id, BATCH, LEASE_MS, app.now_ms())
        .await?;
    let mut wait_until_ms = None;
    for one in due {
        if stop.is_cancelled() {
            return Ok(());
        }
        let deleted = match wait_until_ms {
            Some(until_ms) => Err(until_ms),
            None => delete(app, corp, &one.config_id).await,
        };
        match deleted {
            Ok(Ok(())) => {
                ask::count(corp, "deleted");
                ways.gone(&corp.id, &one.way, app.now_ms()).await?;
            }
            Ok(Err(error)) => {
                tracing::warn!(corp = %corp.id, way = one.way, error = %error, "a join way was not deleted");
                let (errcode, text) = (error.errcode(), error.to_string());
                let next_ms = app.now_ms() + jittered(pause_ms(&one));
                ways.not_gone(&corp.id, &one.way, errcode, &text, next_ms)
                    .await?;
            }
            Err(until_ms) => {
                let text = "the budget is used up";
                ways.not_gone(&corp.id, &one.way, None, text, until_ms)
                    .await?;
                wait_until_ms = Some(until_ms);
            }
        }
    }
    Ok(())
}

fn pause_ms(one: &Deletable) -> u64 {
    let doublings = u32::try_from(one.tries.clamp(1, 20) - 1).unwrap_or_default();
    PAUSE_MS
        .saturating_mul(1 << doublings)
        .min(LONGEST_PAUSE_MS)
}

/// Deletes a way that no row has. If that fails it stays: harmless, nobody has seen it.
pub(super) async fn stray(app: &App, corp: &CorpApp, config_id: &str) {
    match delete(app, corp, config_id).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(corp = %corp.id, error = %error, "a superfluous join way stays at WeCom")
        }
        Err(_) => {
            tracing::warn!(corp = %corp.id, "the budget is used up; a superfluous join way stays at WeCom")
        }
    }
}

/// Err: when there is a budget again.
async fn delete(
    app: &App,
    corp: &CorpApp,
    config_id: &str,
) -> Result<Result<(), wecom::Error>, u64> {
    let permit = permit::take(app, corp, api::DEL_JOIN_WAY, Urgency::Ordinary).await?;
    let answer = corp.client.del_join_way(config_id).await;
    permit::done(app, corp, api::DEL_JOIN_WAY, &permit, &answer).await;
    Ok(match answer {
        Err(error) if error.errcode() == Some(UNKNOWN_WAY) => Ok(()),
        other => other,
    })
}
