//! Pools that hand out slowly whoever waits: one at a time, when the next is due. Without this they would be looked at as
//! rarely as any other waiting list. Any number of processes may do it; the script knows when the next is due.

use std::{collections::HashMap, sync::Arc, time::Duration};

use allocation::PoolId;
use rand::RngExt;
use tokio_util::sync::CancellationToken;

use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
};

/// Longest sleep: a pool may begin to hand out slowly, and somebody to wait, at any time.
const LOOK_EVERY_MS: u64 = 500;
/// Shortest: so many a second and process, however many members there are.
const LEAST_MS: u64 = 20;
/// Processes that wait for the same time do not all come at once.
const APART_MS: u64 = 20;

pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    let mut quiet = Quiet::default();
    while !stop.is_cancelled() {
        match turn_at(&app, &corp, &mut quiet, None).await {
            Ok(next_ms) => {
                backoff.reset();
                let apart_ms = rand::rng().random_range(0..=APART_MS);
                let pause_ms = pause_ms(next_ms, app.now_ms()) + apart_ms;
                sleep(Duration::from_millis(pause_ms), &stop).await;
            }
            Err(error) => {
                if matches!(error, roster::Error::NotReady) {
                    corp.not_ready.notify_one();
                } else {
                    tracing::warn!(corp = %corp.id, error = %error, "waiting customers were not handed out");
                }
                backoff.wait(&stop).await;
            }
        }
    }
}

/// Pools where nobody was free when the next was due, and until when they are not asked again: every operation is an entry
/// in the log, and whoever comes is given the next at once.
#[derive(Debug, Default)]
pub struct Quiet(HashMap<PoolId, u64>);

/// Hands out what is due, one of each pool; answers when the next is. None for `now_ms` asks the clocks.
pub async fn turn_at(
    app: &App,
    corp: &CorpApp,
    quiet: &mut Quiet,
    now_ms: Option<u64>,
) -> Result<Option<u64>, roster::Error> {
    let routes = corp.routes();
    let slow = routes.pools.iter();
    let slow = slow.filter(|(_, pool)| pool.routing.drip_seconds.is_some());
    let slow: Vec<PoolId> = slow.map(|(id, _)| id.clone()).collect();
    let at_ms = now_ms.unwrap_or_else(|| app.now_ms());
    quiet.0.retain(|_, until_ms| *until_ms > at_ms);
    let mut next_ms: Option<u64> = None;
    for (pool, drip_ms) in slow.iter().zip(corp.roster.next_drips(&slow).await?) {
        let Some(due_ms) = drip_ms else { continue };
        if quiet.0.contains_key(pool) || corp.roster.waiting(pool).await? == 0 {
            continue;
        }
        if due_ms > at_ms {
            next_ms = Some(next_ms.map_or(due_ms, |next_ms| next_ms.min(due_ms)));
            continue;
        }
        let applied = corp.roster.wake(pool.clone(), 1, "", now_ms).await?;
        corp.log_grew.notify_one();
        if applied.woken.is_empty() {
            let until_ms = at_ms + app.config.roster.wake_every_ms;
            quiet.0.insert(pool.clone(), until_ms);
        } else {
            next_ms = Some(at_ms);
        }
    }
    Ok(next_ms)
}

fn pause_ms(next_ms: Option<u64>, now_ms: u64) -> u64 {
    let pause_ms = next_ms.map_or(LOOK_EVERY_MS, |next_ms| next_ms.saturating_sub(now_ms));
    pause_ms.clamp(LEAST_MS, LOOK_EVERY_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_when_the_next_is_due_and_never_much_later() {
        assert_eq!(pause_ms(None, 1_000), LOOK_EVERY_MS);
        assert_eq!(pause_ms(Some(1_200), 1_000), 200);
        assert_eq!(pause_ms(Some(99_000), 1_000), LOOK_EVERY_MS);
        assert_eq!(pause_ms(Some(500), 1_000), LEAST_MS);
    }
}
