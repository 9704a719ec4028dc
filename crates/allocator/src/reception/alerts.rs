//! Who waits too long: figures for each pool and a line in the log now and then, where a pool says how long is too long.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use allocation::PoolId;
use ledger::PoolWait;
use metrics::gauge;
use tokio_util::sync::CancellationToken;

use super::routes::Routes;
use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
};

const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Between two warnings about one pool.
const WARN_EVERY_MS: u64 = 60_000;

pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    let mut seen = Seen::default();
    while !stop.is_cancelled() {
        match turn(&app, &corp, &mut seen).await {
            Ok(_) => {
                backoff.reset();
                sleep(LOOK_EVERY, &stop).await;
            }
            Err(error) => {
                tracing::warn!(corp = %corp.id, error = %error, "who waits too long could not be looked up");
                backoff.wait(&stop).await;
            }
        }
    }
}

/// What was shown before.
#[derive(Debug, Default)]
pub struct Seen {
    /// Have figures: they go back to 0.
    shown: BTreeSet<PoolId>,
    warned_ms: BTreeMap<PoolId, u64>,
}

impl Seen {
    /// Of whom to warn now.
    fn warn_of<'w>(&mut self, waits: &'w [PoolWait], now_ms: u64) -> Vec<&'w PoolWait> {
        let is_quiet = |warned_ms: &u64| warned_ms + WARN_EVERY_MS > now_ms;
        self.warned_ms.retain(|_, warned_ms| is_quiet(warned_ms));
        let mut warn = Vec::new();
        for wait in waits.iter().filter(|wait| wait.too_long > 0) {
            if !self.warned_ms.contains_key(&wait.pool) {
                self.warned_ms.insert(wait.pool.clone(), now_ms);
                warn.push(wait);
            }
        }
        warn
    }
}

/// Shows the figures of all pools; answers those that were warned of.
pub async fn turn(
    app: &App,
    corp: &CorpApp,
    seen: &mut Seen,
) -> Result<Vec<PoolId>, ledger::Error> {
    let routes = corp.routes();
    let now_ms = app.now_ms();
    let waits = match has_alerts(&routes) || !seen.shown.is_empty() {
        true => app.ledger.pools().waits(&corp.id, now_ms).await?,
        // Nobody asked to know.
        false => Vec::new(),
    };
    let mut before = std::mem::take(&mut seen.shown);
    for wait in &waits {
        let waited_s = now_ms.saturating_sub(wait.oldest_ms) / 1_000;
        show(corp, &wait.pool, waited_s, wait.too_long);
        before.remove(&wait.pool);
    }
    for pool in &before {
        show(corp, pool, 0, 0);
    }
    if has_alerts(&routes) {
        seen.shown = waits.iter().map(|wait| wait.pool.clone()).collect();
    }
    let warn = seen.warn_of(&waits, now_ms);
    for wait in &warn {
        let waited_s = now_ms.saturating_sub(wait.oldest_ms) / 1_000;
        tracing::warn!(corp = %corp.id, pool = %wait.pool, too_long = wait.too_long, waiting = wait.waiting, longest_seconds = waited_s, "customers have waited longer than the pool says they may");
    }
    Ok(warn.into_iter().map(|wait| wait.pool.clone()).collect())
}

fn has_alerts(routes: &Routes) -> bool {
    let mut pools = routes.pools.values();
    pools.any(|pool| pool.routing.alert_after_seconds.is_some())
}

fn show(corp: &CorpApp, pool: &PoolId, waited_s: u64, too_long: u64) {
    let labels = [("corp", corp.id.to_string()), ("pool", pool.to_string())];
    gauge!("paidan_pool_longest_wait_seconds", &labels).set(waited_s as f64);
    gauge!("paidan_pool_waiting_too_long", &labels).set(too_long as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(pool: &str, too_long: u64) -> PoolWait {
        PoolWait {
            pool: PoolId::new(pool).unwrap(),
            waiting: too_long + 1,
            oldest_ms: 0,
            too_long,
        }
    }

    #[test]
    fn each_pool_is_warned_of_once_a_minute_while_somebody_waits_too_long() {
        let mut seen = Seen::default();
        let mut warned = |waits: &[PoolWait], now_ms| {
            let warn = seen.warn_of(waits, now_ms).into_iter();
            warn.map(|wait| wait.pool.to_string()).collect::<Vec<_>>()
        };
        let (a, b) = (wait("a", 1), wait("b", 2));
        assert_eq!(warned(&[wait("c", 0)], 0), Vec::<String>::new());
        assert_eq!(warned(std::slice::from_ref(&a), 1_000), ["a"]);
        assert_eq!(warned(&[a.clone(), b.clone()], 30_000), ["b"]);
        assert_eq!(
            warned(&[a.clone(), b.clone()], 60_999),
            Vec::<String>::new()
        );
        assert_eq!(warned(&[a, b], 61_000), ["a"]);
    }
}
