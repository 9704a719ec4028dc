//! What an answer of WeCom means for a row: done, again, never, or a person's turn.

use ledger::{Finish, Held, OutboxRow, Outcome};
use metrics::counter;
use wecom::error::Class;

use crate::{
    app::{App, CorpApp},
    backoff::jittered,
    config::Outbox as Rules,
    effect::kind::OF_CAMPAIGNS,
};

/// Probing whether WeCom takes this app again: slow, so that it is no storm.
const APP_STOPPED_MS: u64 = 15_000;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("ledger: {0}")]
    Ledger(#[from] ledger::Error),
    #[error("roster: {0}")]
    Roster(#[from] roster::Error),
    #[error("quota: {0}")]
    Quota(#[from] quota::Error),
}

/// After an error that certainly had no effect: when and whether to try again. `tries` counts calls that may have
/// left the house, this one included.
pub(super) fn after_refusal(
    app: &App,
    corp: &CorpApp,
    error: &wecom::Error,
    tries: i32,
) -> Outcome {
    if error.stops_the_app() {
        counter!("paidan_app_stopped_total", "corp" => corp.id.to_string(), "errcode" => error.errcode().unwrap_or_default().to_string())
            .increment(1);
        tracing::error!(corp = %corp.id, error = %error, "WeCom refuses this app; effects wait until that is mended");
        return Outcome::NotTried {
            due_ms: app.now_ms() + jittered(APP_STOPPED_MS),
        };
    }
    judge(&app.config.outbox, app.now_ms(), error.class(), tries)
}

fn judge(rules: &Rules, now_ms: u64, class: Class, tries: i32) -> Outcome {
    match class {
        Class::AlreadyDone => Outcome::Done,
        Class::RateLimited => Outcome::NotTried {
            due_ms: now_ms + jittered(1_000),
        },
        Class::RefreshToken | Class::RetryWithBackoff => later(rules, now_ms, tries),
        Class::PermanentCustomer => Outcome::Failed,
        // Somebody must look: a person, a request of ours, or a code nobody knew.
        _ => Outcome::Dead,
    }
}

/// Again after a growing pause, or given up.
pub(super) fn again(app: &App, tries: i32) -> Outcome {
    later(&app.config.outbox, app.now_ms(), tries)
}

fn later(rules: &Rules, now_ms: u64, tries: i32) -> Outcome {
    if tries >= rules.max_attempts {
        return Outcome::Dead;
    }
    let doublings = u32::try_from(tries.clamp(0, 16)).unwrap_or_default();
    let pause = rules
        .backoff_min_ms
        .saturating_mul(1 << doublings)
        .min(rules.backoff_max_ms);
    Outcome::Again {
        due_ms: now_ms + jittered(pause),
    }
}

/// An outcome with what WeCom said, for people.
pub(super) fn finish(held: Held, outcome: Outcome, error: Option<&wecom::Error>) -> Finish {
    let mut finish = Finish::new(held, outcome);
    if let Some(error) = error {
        finish.errcode = error.errcode().and_then(|code| i32::try_from(code).ok());
        finish.error = Some(error.to_string());
    }
    finish
}

/// Writes outcomes and counts them.
pub(super) async fn write(
    app: &App,
    corp: &CorpApp,
    kind: &'static str,
    finishes: &[Finish],
) -> Result<(), Error> {
    if finishes.is_empty() {
        return Ok(());
    }
    for finish in finishes {
        if OF_CAMPAIGNS.contains(&kind) && finish.outcome == Outcome::Failed {
            tracing::warn!(corp = %corp.id, kind, effect = %finish.held.id, errcode = finish.errcode,
                "refused for good; …/dead-letters/effects?state=failed says why");
        }
        let word = match finish.outcome {
            Outcome::Done => "done",
            Outcome::Failed => "failed",
            Outcome::Dead => "dead",
            Outcome::Cancelled => "cancelled",
            Outcome::Unknown { .. } => "unknown",
            Outcome::Again { .. } => "again",
            Outcome::NotTried { .. } => "waits",
        };
        counter!("paidan_effects_total", "corp" => corp.id.to_string(), "kind" => kind, "outcome" => word).increment(1);
    }
    let refused = app.ledger.outbox().finish(finishes, app.now_ms()).await?;
    if !refused.is_empty() {
        tracing::warn!(corp = %corp.id, kind, count = refused.len(), "somebody else holds these effects now; our outcome came too late");
    }
    Ok(())
}

/// Puts rows off without having tried them: something of their own is to be waited for.
pub(super) async fn put_off(
    app: &App,
    corp: &CorpApp,
    kind: &'static str,
    rows: &[OutboxRow],
    due_ms: u64,
) -> Result<(), Error> {
    let finishes: Vec<Finish> = rows
        .iter()
        .map(|row| Finish::new(row.held(), Outcome::NotTried { due_ms }))
        .collect();
    write(app, corp, kind, &finishes).await
}

/// Gives rows back untried, in one write. They keep their place in the queue: it is the lane that waits, not they.
pub(super) async fn put_back(
    app: &App,
    corp: &CorpApp,
    kind: &'static str,
    rows: &[OutboxRow],
) -> Result<(), Error> {
    let finishes: Vec<Finish> = rows
        .iter()
        .map(|row| Finish::new(row.held(), Outcome::NotTried { due_ms: row.due_ms }))
        .collect();
    write(app, corp, kind, &finishes).await
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_792_000_000_000;

    fn rules() -> Rules {
        Rules {
            workers: 1,
            batch: 1,
            claim_ms: 3_000,
            lease_ms: 10_000,
            max_attempts: 5,
            backoff_min_ms: 1_000,
            backoff_max_ms: 8_000,
            poll_ms: 1_000,
            cards_per_minute: 20,
        }
    }

    fn after(code: i64, tries: i32) -> Outcome {
        judge(&rules(), NOW_MS, wecom::error::classify(code).class, tries)
    }

    /// Cases 39 and 48: what passes is tried again a bounded number of times with growing pauses, what does not pass
    /// is tried once.
    #[test]
    fn what_passes_is_repeated_and_what_does_not_is_not() {
        let mut longest = 0;
        for tries in 1..5 {
            let Outcome::Again { due_ms } = after(-1, tries) else {
                panic!("given up after {tries}")
            };
            longest = longest.max(due_ms - NOW_MS);
            // Jitter adds a quarter at most.
            assert!(due_ms > NOW_MS && due_ms - NOW_MS <= 10_000);
        }
        assert!(longest > 1_000);
        assert_eq!(after(-1, 5), Outcome::Dead);
        assert_eq!(after(40096, 1), Outcome::Failed);
        assert_eq!(after(999_999, 1), Outcome::Dead);
    }

    /// Case 53: a call that the rate forbids counts no try, however often that happens.
    #[test]
    fn a_limit_of_the_rate_is_nobodys_fault() {
        for tries in [1, 5, 50] {
            assert!(matches!(after(45009, tries), Outcome::NotTried { .. }));
        }
    }
}
