//! What must happen without an event: waiting customers whose wake-up was lost, and loads that a pool lets go after
//! its window; and allocations that the ledger refused and Redis still has.

use std::{sync::Arc, time::Duration};

use allocation::{Closing, MAX_BATCH, PoolId, Reason};
use tokio_util::sync::CancellationToken;

use crate::{
    app::{App, CorpApp},
    backoff::sleep,
    lost,
};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("roster")]
    Roster(#[from] roster::Error),
    #[error("ledger")]
    Ledger(#[from] ledger::Error),
}

/// Looks at every pool, every `roster.wake_every_ms`.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let pause = Duration::from_millis(app.config.roster.wake_every_ms);
    while sleep(pause, &stop).await {
        match lost::end(&app, &corp).await {
            Ok(_) => {}
            Err(lost::Error::Roster(roster::Error::NotReady)) => corp.not_ready.notify_one(),
            Err(error) => {
                tracing::warn!(corp = %corp.id, error = %error, "refused allocations were not ended");
            }
        }
        let routes = corp.routes();
        for (pool, settings) in &routes.pools {
            let looked = async {
                wake(&corp, pool).await?;
                if let Some(window_ms) = settings.load_window_ms {
                    let_go(&app, &corp, pool, app.now_ms().saturating_sub(window_ms)).await?;
                }
                Ok::<_, Error>(())
            };
            match looked.await {
                Ok(()) => {}
                Err(Error::Roster(roster::Error::NotReady)) => corp.not_ready.notify_one(),
                Err(error) => {
                    tracing::warn!(corp = %corp.id, pool = %pool, error = %error, "the waiting list was not looked at");
                }
            }
        }
    }
}

/// Hands out what waits while somebody is free. Usually nothing: presence and closings wake by themselves. Where nobody
/// waits nothing is asked for, because every operation is an entry in the log.
async fn wake(corp: &CorpApp, pool: &PoolId) -> Result<(), Error> {
    if corp.roster.waiting(pool).await? == 0 {
        return Ok(());
    }
    let limit = u32::try_from(allocation::MAX_WAKE).unwrap_or(u32::MAX);
    loop {
        let applied = corp.roster.wake(pool.clone(), limit, "", None).await?;
        if !applied.woken.is_empty() {
            corp.log_grew.notify_one();
        }
        if !applied.more {
            return Ok(());
        }
    }
}

/// Ends allocations that were decided before the window began, one batch a look: the rows close with the log, so
/// more at once would find the same ones again.
async fn let_go(app: &App, corp: &CorpApp, pool: &PoolId, before_ms: u64) -> Result<(), Error> {
    let Ok(reason) = Reason::new(super::WINDOW_PASSED) else {
        return Ok(());
    };
    let limit = u32::try_from(MAX_BATCH).unwrap_or(u32::MAX);
    let open = app
        .ledger
        .allocations()
        .open_before(&corp.id, pool, before_ms, limit)
        .await?;
    if open.is_empty() {
        return Ok(());
    }
    let closings = open
        .iter()
        .map(|row| Closing {
            subject: row.subject,
            pool: Some(row.pool.clone()),
            member: None,
            allocation: Some(row.id),
            reason: reason.clone(),
        })
        .collect();
    corp.roster.close(closings, "", None).await?;
    corp.log_grew.notify_one();
    Ok(())
}
