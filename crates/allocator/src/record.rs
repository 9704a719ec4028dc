//! Group `record`: every delivery as it came, into Postgres, whether or not anybody can read it. Nobody waits for it: the
//! inbox keeps what is not recorded yet. So it gives way to the log's writer, for whose rows a customer waits.

use std::{sync::Arc, time::Duration};

use allocation::{CorpId, SubjectKey};
use inbox::{Consumer, Delivery, Group};
use ledger::NewDelivery;
use metrics::counter;
use tokio_util::sync::CancellationToken;
use wecom::event::{Body, Event};

use crate::{
    app::{App, CorpApp, Redis},
    backoff::{Backoff, sleep},
    faults::with_causes,
    guard, people,
    poison::{self, Work},
    reception::intake::WECOM,
};

/// Deliveries written in one transaction.
const BATCH: usize = 1_000;
/// With more entries than this in the log, its writer is behind.
const BEHIND: u64 = 4;
/// How often the recorder looks whether the writer is still behind, how long a batch waits for it, and how long all of
/// them do, one after the other: the inbox must not grow without end.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);
const LONGEST_IN_A_ROW: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("inbox")]
    Inbox(#[from] inbox::Error),
    #[error("ledger")]
    Ledger(#[from] ledger::Error),
}

/// Reads and records until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    let work = Recording {
        app: &app,
        corp: &corp,
    };
    while !stop.is_cancelled() {
        let blocking = match app.blocking().await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(corp = %corp.id, error = %error, "no connection to read the inbox");
                backoff.wait(&stop).await;
                continue;
            }
        };
        let mut consumer = Consumer::new(
            corp.inbox.clone(),
            blocking,
            Group::Record,
            app.instance.clone(),
        );
        let block = Duration::from_millis(app.config.inbox.block_ms);
        let mut patience = LONGEST_IN_A_ROW;
        loop {
            let next = tokio::select! {
                next = consumer.next(BATCH, block) => next,
                () = stop.cancelled() => return,
            };
            let mut batch = match next {
                Ok(batch) => batch,
                Err(error) => {
                    tracing::warn!(corp = %corp.id, error = %error, "the inbox cannot be read");
                    backoff.wait(&stop).await;
                    break;
                }
            };
            let full = batch.len() == BATCH;
            if !full {
                patience = LONGEST_IN_A_ROW;
            }
            if !batch.is_empty() {
                // Who cannot look does not wait.
                let roster = &corp.roster;
                let behind = || async move {
                    let length = roster.log_length().await;
                    length.is_ok_and(|length| length > BEHIND)
                };
                give_way(behind, &mut patience, &stop).await;
            }
            while !batch.is_empty() {
                match poison::attempt(&work, &batch, false).await {
                    Ok(()) => match recorded(&app, &corp, &consumer, &batch).await {
                        Ok(()) => {
                            counter!("paidan_recorded_total", "corp" => corp.id.to_string())
                                .increment(batch.len() as u64);
                            break;
                        }
                        Err(error) => {
                            tracing::warn!(corp = %corp.id, error = %with_causes(&error), "recorded deliveries were not acknowledged");
                            if !backoff.wait(&stop).await {
                                return;
                            }
                        }
                    },
                    Err(failure) => {
                        tracing::warn!(corp = %corp.id, error = %failure, "deliveries were not recorded");
                        if failure.is_theirs() {
                            batch = poison::sift(&corp.id, &consumer, batch, &work, &stop).await;
                            if batch.is_empty() {
                                break;
                            }
                        }
                        if !backoff.wait(&stop).await {
                            return;
                        }
                    }
                }
            }
            backoff.reset();
        }
    }
}

/// Acknowledges what is in Postgres. If the inbox does not know of it any more, it was lost while this process had these in its
/// hands, and nobody else has them: a rebuild takes up only what was written down by then. What somebody else acknowledged
/// meanwhile looks the same, and is done twice, which is doing it once.
pub async fn recorded(
    app: &App,
    corp: &CorpApp,
    consumer: &Consumer<Redis>,
    batch: &[Delivery],
) -> Result<(), Error> {
    if consumer.ack(batch).await? >= batch.len() as u64 {
        return Ok(());
    }
    let received = || batch.iter().map(|delivery| delivery.received_ms);
    if let (Some(first), Some(last)) = (received().min(), received().max()) {
        guard::take_up_late(app, corp, first..=last).await?;
    }
    Ok(())
}

/// Waits while the log's writer is behind, as long as there is patience for it.
async fn give_way<F: Future<Output = bool>>(
    behind: impl Fn() -> F,
    patience: &mut Duration,
    stop: &CancellationToken,
) {
    let mut left = LONGEST.min(*patience);
    while !left.is_zero() && behind().await {
        let pause = LOOK_EVERY.min(left);
        if !sleep(pause, stop).await {
            return;
        }
        left -= pause;
        *patience -= pause;
    }
}

struct Recording<'a> {
    app: &'a App,
    corp: &'a CorpApp,
}

impl Work for Recording<'_> {
    type Error = ledger::Error;

    async fn run(&self, batch: &[Delivery], _again: bool) -> Result<(), ledger::Error> {
        record(self.app, self.corp, batch).await
    }
}

/// Writes a batch; writing it again changes nothing.
pub async fn record(app: &App, corp: &CorpApp, batch: &[Delivery]) -> Result<(), ledger::Error> {
    let mut userids = Vec::new();
    let rows: Vec<NewDelivery> = batch
        .iter()
        .map(|delivery| row(&corp.id, delivery, &mut userids))
        .collect();
    app.ledger.deliveries().record(&corp.id, &rows).await?;
    people::heard(app, corp, userids).await
}

/// The row; a member that the event names goes to `userids`, as WeCom spells him.
fn row(corp: &CorpId, delivery: &Delivery, userids: &mut Vec<String>) -> NewDelivery {
    let mut row = NewDelivery {
        id: delivery.id.to_string(),
        received_ms: delivery.received_ms,
        endpoint: delivery.endpoint.clone(),
        body: delivery.plaintext.clone(),
        event: None,
        change_type: None,
        event_ms: None,
        subject: None,
        problem: None,
    };
    match Event::parse(&delivery.plaintext) {
        Ok(event) => {
            if let Body::ExternalContact(contact) = &event.body {
                userids.push(contact.user_id.clone());
                let id = Some(&contact.external_user_id).filter(|id| !id.is_empty());
                row.subject = id.map(|id| SubjectKey::new(corp, WECOM, id));
            }
            row.event_ms = event
                .create_time
                .and_then(|s| u64::try_from(s).ok())
                .and_then(|s| s.checked_mul(1000));
            row.event = Some(event.name);
            row.change_type = event.change_type;
        }
        Err(error) => row.problem = Some(error.to_string()),
    }
    row
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// How often `give_way` looked at a writer that is behind for `looks` of them, and the patience it left.
    async fn looks(behind_for: usize, patience_ms: u64, stop: &CancellationToken) -> (usize, u64) {
        let looks = AtomicUsize::new(0);
        let mut patience = Duration::from_millis(patience_ms);
        let behind = || std::future::ready(looks.fetch_add(1, Relaxed) < behind_for);
        give_way(behind, &mut patience, stop).await;
        let left = u64::try_from(patience.as_millis()).unwrap();
        (looks.into_inner(), left)
    }

    #[tokio::test]
    async fn the_recorder_waits_for_the_writer_within_its_patience() {
        let stop = CancellationToken::new();
        assert_eq!(looks(0, 30_000, &stop).await, (1, 30_000), "not behind");
        assert_eq!(looks(2, 30_000, &stop).await, (3, 29_900), "it caught up");
        assert_eq!(looks(99, 120, &stop).await, (3, 0), "patience ends");
        assert_eq!(looks(99, 0, &stop).await, (0, 0), "and is not renewed");
        let batch = (20, 29_000);
        assert_eq!(
            looks(99, 30_000, &stop).await,
            batch,
            "a batch has its own limit"
        );
        stop.cancel();
        assert_eq!(looks(99, 30_000, &stop).await.0, 1, "nor past the end");
    }
}
