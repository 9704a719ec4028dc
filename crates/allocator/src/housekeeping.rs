//! What keeps the stores small and ready: deliveries that both groups have acknowledged leave the inbox, tomorrow's
//! partitions are there today, consumers of dead processes and answers of yesterday are forgotten. And the sizes that
//! somebody on call wants to see.

use std::{sync::Arc, time::Duration};

use inbox::Group;
use ledger::EffectState;
use metrics::gauge;
use tokio_util::sync::CancellationToken;

use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
    effect::kind,
};

const TURN: Duration = Duration::from_millis(500);
/// Effects are counted row by row.
const EFFECTS_MS: u64 = 10_000;
const UNFINISHED: [EffectState; 3] = [
    EffectState::Pending,
    EffectState::Running,
    EffectState::Unknown,
];
const HOURLY_MS: u64 = 60 * 60 * 1000;
const DAY_MS: u64 = 24 * HOURLY_MS;
/// A process that starts at midnight must not be the first to need a partition.
const PARTITIONS_AHEAD: u32 = 3;
const PRUNE: u32 = 5_000;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("inbox: {0}")]
    Inbox(#[from] inbox::Error),
    #[error("ledger: {0}")]
    Ledger(#[from] ledger::Error),
}

/// Tidies until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    let (mut hourly_ms, mut effects_ms) = (0, 0);
    while sleep(TURN, &stop).await {
        let now_ms = app.now_ms();
        let tidied = async {
            corp.inbox.trim().await?;
            inbox_sizes(&corp).await?;
            if now_ms >= effects_ms {
                effect_sizes(&app, &corp).await?;
                effects_ms = now_ms + EFFECTS_MS;
            }
            if now_ms >= hourly_ms {
                hourly(&app, &corp, now_ms).await?;
                hourly_ms = now_ms + HOURLY_MS;
            }
            Ok::<_, Error>(())
        };
        match tidied.await {
            Ok(()) => backoff.reset(),
            Err(error) => {
                tracing::warn!(corp = %corp.id, error = %error, "housekeeping waits");
                backoff.wait(&stop).await;
            }
        }
    }
}

async fn hourly(app: &App, corp: &CorpApp, now_ms: u64) -> Result<(), Error> {
    app.ledger
        .deliveries()
        .make_partitions_ahead(now_ms, PARTITIONS_AHEAD)
        .await?;
    app.ledger
        .idempotency()
        .prune(now_ms.saturating_sub(DAY_MS), PRUNE)
        .await?;
    for group in Group::ALL {
        corp.inbox.forget_consumers(group, HOURLY_MS).await?;
    }
    Ok(())
}

async fn inbox_sizes(corp: &CorpApp) -> Result<(), Error> {
    let id = || corp.id.to_string();
    let stats = corp.inbox.stats(None).await?;
    gauge!("paidan_inbox_length", "corp" => id()).set(stats.length as f64);
    gauge!("paidan_inbox_dead", "corp" => id()).set(stats.dead as f64);
    gauge!("paidan_inbox_oldest_seconds", "corp" => id()).set(stats.oldest_age_ms as f64 / 1000.0);
    Ok(())
}

async fn effect_sizes(app: &App, corp: &CorpApp) -> Result<(), Error> {
    let unfinished = app.ledger.outbox().unfinished(Some(&corp.id)).await?;
    for kind in kind::ALL {
        for state in UNFINISHED {
            let one = unfinished
                .iter()
                .find(|one| one.kind == kind && one.state == state);
            gauge!("paidan_effects", "corp" => corp.id.to_string(), "kind" => kind, "state" => state.as_str())
                .set(one.map_or(0.0, |one| one.count as f64));
        }
    }
    Ok(())
}
