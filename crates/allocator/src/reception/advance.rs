//! Plans of those who wait: other pools serve when their time has come, skills are done without, and who has waited long
//! enough waits for a person. Any number of processes may do it; a step opens once.

use std::{sync::Arc, time::Duration};

use allocation::{AdvancedTo, MAX_BATCH};
use metrics::counter;
use rand::RngExt;
use tokio_util::sync::CancellationToken;

use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
};

/// Longest sleep: somebody may begin to wait at any time whose plan goes on at once.
const LOOK_EVERY_MS: u64 = 500;
/// Between two batches: whoever decides must not wait for a whole night's customers.
const BETWEEN_MS: u64 = 50;
/// Processes that wait for the same time do not all come at once.
const APART_MS: u64 = 50;

pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    while !stop.is_cancelled() {
        match turn(&app, &corp).await {
            Ok(turn) => {
                backoff.reset();
                let apart_ms = rand::rng().random_range(0..=APART_MS);
                let pause_ms = turn.pause_ms(app.now_ms()) + apart_ms;
                sleep(Duration::from_millis(pause_ms), &stop).await;
            }
            Err(error) => {
                if matches!(error, roster::Error::NotReady) {
                    corp.not_ready.notify_one();
                } else {
                    tracing::warn!(corp = %corp.id, error = %error, "plans of those who wait did not go on");
                }
                backoff.wait(&stop).await;
            }
        }
    }
}

/// What one look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    pub advanced: usize,
    /// When the first plan goes on, if none did.
    pub next_ms: Option<u64>,
}

impl Turn {
    fn pause_ms(self, now_ms: u64) -> u64 {
        match (self.advanced, self.next_ms) {
            (0, Some(next_ms)) => next_ms.saturating_sub(now_ms).clamp(1, LOOK_EVERY_MS),
            (0, None) => LOOK_EVERY_MS,
            _ => BETWEEN_MS,
        }
    }
}

/// At most one batch goes on. Looks before it asks, because every operation is an entry in the log.
pub async fn turn(app: &App, corp: &CorpApp) -> Result<Turn, roster::Error> {
    turn_at(app, corp, None).await
}

/// The same at a time that is passed in; None asks the clocks.
pub async fn turn_at(
    app: &App,
    corp: &CorpApp,
    now_ms: Option<u64>,
) -> Result<Turn, roster::Error> {
    let next_ms = corp.roster.first_patience().await?;
    let at_ms = now_ms.unwrap_or_else(|| app.now_ms());
    if next_ms.is_none_or(|next_ms| next_ms > at_ms) {
        return Ok(Turn {
            advanced: 0,
            next_ms,
        });
    }
    let limit = u32::try_from(MAX_BATCH).unwrap_or(u32::MAX);
    let applied = corp.roster.advance(limit, "", now_ms).await?;
    corp.log_grew.notify_one();
    let count = |to: AdvancedTo, word: &'static str| {
        let n = applied.answer.iter().filter(|one| one.to == to).count() as u64;
        let labels = [("corp", corp.id.to_string()), ("to", word.to_owned())];
        counter!("paidan_plans_advanced_total", &labels).increment(n);
    };
    count(AdvancedTo::Steps, "steps");
    count(AdvancedTo::Person, "person");
    Ok(Turn {
        advanced: applied.answer.len(),
        next_ms: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_again_when_a_plan_goes_on_and_never_much_later() {
        let pause_ms = |advanced, next_ms| Turn { advanced, next_ms }.pause_ms(1_000);
        assert_eq!(pause_ms(0, None), LOOK_EVERY_MS);
        assert_eq!(pause_ms(0, Some(1_200)), 200);
        assert_eq!(pause_ms(0, Some(90_000)), LOOK_EVERY_MS);
        // Redis' clock is behind ours: not at once again and again.
        assert_eq!(pause_ms(0, Some(999)), 1);
        assert_eq!(pause_ms(5, None), BETWEEN_MS);
    }
}
