//! Offers that came to nothing: their time is over, or their member has gone. The next member is asked, or a person must
//! decide. Any number of processes may do it; an offer moves once.

use std::{sync::Arc, time::Duration};

use allocation::MAX_WAKE;
use rand::RngExt;
use tokio_util::sync::CancellationToken;

use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
};

/// Longest sleep: a member may go, and all that he was offered with him, at any time.
const LOOK_EVERY_MS: u64 = 500;
/// Between two batches: a member with hundreds of offers does not hold up those who decide.
const BETWEEN_MS: u64 = 100;
/// Processes that wait for the same end do not all come at once.
const APART_MS: u64 = 50;

pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    while !stop.is_cancelled() {
        match turn(&app, &corp).await {
            Ok(Turn { moved, next_ms }) => {
                backoff.reset();
                let pause_ms = match (moved, next_ms) {
                    (0, Some(next_ms)) => {
                        next_ms.saturating_sub(app.now_ms()).clamp(1, LOOK_EVERY_MS)
                    }
                    (0, None) => LOOK_EVERY_MS,
                    _ => BETWEEN_MS,
                };
                let apart_ms = rand::rng().random_range(0..=APART_MS);
                sleep(Duration::from_millis(pause_ms + apart_ms), &stop).await;
            }
            Err(error) => {
                if matches!(error, roster::Error::NotReady) {
                    corp.not_ready.notify_one();
                } else {
                    tracing::warn!(corp = %corp.id, error = %error, "offers that are over were not moved on");
                }
                backoff.wait(&stop).await;
            }
        }
    }
}

/// What one look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    pub moved: usize,
    /// When the first offer ends, if none had.
    pub next_ms: Option<u64>,
}

/// Moves on at most one batch. Looks before it asks, because every operation is an entry in the log.
pub async fn turn(app: &App, corp: &CorpApp) -> Result<Turn, roster::Error> {
    let next_ms = corp.roster.first_offer_end().await?;
    if next_ms.is_none_or(|end_ms| end_ms > app.now_ms()) {
        return Ok(Turn { moved: 0, next_ms });
    }
    let limit = u32::try_from(MAX_WAKE).unwrap_or(u32::MAX);
    let applied = corp.roster.reclaim(limit, "", None).await?;
    let moved = applied.answer.len();
    corp.log_grew.notify_one();
    metrics::counter!("paidan_offers_reclaimed_total", "corp" => corp.id.to_string())
        .increment(moved as u64);
    Ok(Turn {
        moved,
        next_ms: None,
    })
}
