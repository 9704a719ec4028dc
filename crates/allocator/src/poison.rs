//! Deliveries that fail by their own fault. A batch that failed so is halved until each of them is alone; those count a
//! try, wait longer each time and become dead letters, and all others pass. What a store that is away, or a closed corp,
//! holds up is nobody's fault and counts no try.

use std::{fmt, future::Future, panic::AssertUnwindSafe, time::Duration};

use allocation::CorpId;
use futures_util::FutureExt;
use inbox::{Consumer, Delivery, Failed};
use metrics::counter;
use tokio_util::sync::CancellationToken;

use crate::{app::Redis, backoff::sleep, decide};

/// What is over within moments is waited for so often, in such steps.
const MOMENTS: u32 = 200;
const MOMENT: Duration = Duration::from_millis(25);

/// What is done with deliveries; doing it twice is doing it once.
pub(crate) trait Work: Sync {
    type Error: Blame + fmt::Display + Send;

    /// `again`: an earlier try may have had its effect.
    fn run(
        &self,
        batch: &[Delivery],
        again: bool,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Whose fault an error is.
pub(crate) trait Blame {
    /// The same deliveries would fail again whatever the stores do.
    fn is_theirs(&self) -> bool;

    /// Over within moments, and no reason to begin again with everything.
    fn is_momentary(&self) -> bool {
        false
    }
}

/// Why a batch was not done.
#[derive(Debug)]
pub(crate) enum Failure<E> {
    Error(E),
    /// A mistake of ours that these deliveries bring out; the others need not suffer for it.
    Panic,
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(error) => error.fmt(f),
            Failure::Panic => f.write_str("a panic"),
        }
    }
}

impl<E: Blame> Failure<E> {
    pub(crate) fn is_theirs(&self) -> bool {
        match self {
            Failure::Error(error) => error.is_theirs(),
            Failure::Panic => true,
        }
    }
}

impl Blame for decide::Error {
    fn is_theirs(&self) -> bool {
        match self {
            decide::Error::Inbox(error) => inbox_blames(error),
            decide::Error::Roster(error) => match error {
                roster::Error::TooMany | roster::Error::Entry { .. } | roster::Error::Answer(_) => {
                    true
                }
                roster::Error::Redis(error) => refused(error),
                roster::Error::NotReady | roster::Error::Stale => false,
            },
            decide::Error::Ledger(error) => error.is_theirs(),
            decide::Error::LedgerBehind => false,
        }
    }

    fn is_momentary(&self) -> bool {
        matches!(self, decide::Error::LedgerBehind)
    }
}

impl Blame for ledger::Error {
    fn is_theirs(&self) -> bool {
        self.is_of_the_data()
    }
}

fn inbox_blames(error: &inbox::Error) -> bool {
    match error {
        inbox::Error::Refused(error) => refused(error),
        inbox::Error::Answer(_) => true,
        _ => false,
    }
}

/// A script that broke, or a key of another type. A password or a right that is missing is everybody's trouble, and so
/// is whatever else Redis may refuse: too many clients are an `ERR` too.
fn refused(error: &redis::RedisError) -> bool {
    match error.code() {
        Some("WRONGTYPE") => true,
        Some("ERR") => error.to_string().contains("user_script"),
        _ => false,
    }
}

/// One try. A panic ends it, not the loop that called.
pub(crate) async fn attempt<W: Work>(
    work: &W,
    batch: &[Delivery],
    again: bool,
) -> Result<(), Failure<W::Error>> {
    match AssertUnwindSafe(work.run(batch, again))
        .catch_unwind()
        .await
    {
        Ok(done) => done.map_err(Failure::Error),
        Err(_) => Err(Failure::Panic),
    }
}

/// Does what can be done of a batch that failed by the fault of some of it. Answers what is left: something else
/// stands in the way, and it is to be tried again, or the program stops.
pub(crate) async fn sift<W: Work>(
    corp: &CorpId,
    consumer: &Consumer<Redis>,
    batch: Vec<Delivery>,
    work: &W,
    stop: &CancellationToken,
) -> Vec<Delivery> {
    let (mut parts, mut moments) = (vec![batch], MOMENTS);
    while let Some(mut part) = parts.pop() {
        let done = match attempt(work, &part, true).await {
            Ok(()) => consumer.ack(&part).await.map(|_| ()),
            Err(Failure::Error(error)) if error.is_momentary() && moments > 0 => {
                moments -= 1;
                parts.push(part);
                if !sleep(MOMENT, stop).await {
                    break;
                }
                continue;
            }
            Err(failure) if !failure.is_theirs() => {
                tracing::debug!(corp = %corp, error = %failure, "the rest of a batch waits");
                parts.push(part);
                break;
            }
            Err(failure) if part.len() == 1 => {
                give_back(corp, consumer, &part, &failure.to_string()).await
            }
            Err(_) => {
                // The first half comes first: order matters among events of one customer.
                let second = part.split_off(part.len() / 2);
                parts.push(second);
                parts.push(part);
                continue;
            }
        };
        if let Err(error) = done {
            tracing::warn!(corp = %corp, error = %error, "deliveries were not taken off the inbox");
            parts.push(part);
            break;
        }
    }
    // The last one is the first in order.
    parts.into_iter().rev().flatten().collect()
}

async fn give_back(
    corp: &CorpId,
    consumer: &Consumer<Redis>,
    alone: &[Delivery],
    reason: &str,
) -> Result<(), inbox::Error> {
    let entries: Vec<_> = alone.iter().map(|delivery| delivery.entry).collect();
    let group = consumer.group();
    for failed in consumer.inbox().fail(group, &entries, reason, None).await? {
        let what = match failed {
            Failed::Waits => "waits",
            Failed::Dead => "dead",
            Failed::Gone | Failed::Lost => "gone",
        };
        counter!("paidan_deliveries_failed_total", "corp" => corp.to_string(), "group" => group.as_str(), "what" => what)
            .increment(1);
        tracing::warn!(corp = %corp, group = group.as_str(), what, reason, "a delivery fails by its own fault");
    }
    Ok(())
}

#[cfg(test)]
#[path = "poison_tests.rs"]
mod tests;
