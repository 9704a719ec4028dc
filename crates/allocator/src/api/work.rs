//! Carries operations out, a batch at a time. After each batch it is written down how far it is; whoever takes over
//! from a dead process goes on there, and does at most one batch twice, which is harmless.

use std::time::Duration;

use inbox::{DeliveryId, EntryId, Selection};
use ledger::{
    Delivery, GROUP_IMPORTS, GivenUp, Operation, OperationState, PageRequest, Progress, SIMULATIONS,
};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{dead_effects::of_a_transfer, simulate::Simulation, when::When};
use crate::{
    app::{App, CorpApp},
    backoff::Backoff,
    decide,
    fission::import::{self, Import},
};

mod lanes;

pub use lanes::{import_turn, run, run_imports, run_simulations, simulation_turn, turn};

/// Kinds of operations.
pub(crate) const DELIVERIES: &str = "deliveries.replay";
pub(super) const DEAD_DELIVERIES: &str = "dead_letters.replay_deliveries";
pub(super) const DEAD_EFFECTS: &str = "dead_letters.replay_effects";

/// Outcome of a dead delivery that a person gave up.
pub(super) const DISCARDED: &str = "discarded";

/// Much longer than a batch takes.
const LEASE_MS: u64 = 30_000;
/// Between two tries, within the lease.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Items of one batch: one script call.
const BATCH: u32 = 200;
const FIRST_ERRORS: usize = 10;
/// A batch that fails this often not because a store is away ends the operation.
const TRIES: u32 = 5;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("ledger: {0}")]
    Ledger(#[from] ledger::Error),
    #[error("inbox: {0}")]
    Inbox(#[from] inbox::Error),
    #[error("{0}")]
    Decide(#[from] decide::Error),
    #[error("the operation's request cannot be read: {0}")]
    Request(#[from] serde_json::Error),
    #[error("{0}")]
    Simulate(#[from] super::simulate::Error),
    #[error("{0}")]
    Import(#[from] import::Error),
    #[error("the operation stands at a place that this version does not know")]
    Cursor,
    #[error("an operation of an unknown kind: {0}")]
    Kind(String),
}

impl Error {
    /// A store is away, or the corp is closed: it goes on later.
    fn is_passing(&self) -> bool {
        match self {
            Self::Ledger(error) => error.is_passing(),
            Self::Inbox(error) => error.is_passing(),
            Self::Decide(_) => true,
            Self::Simulate(error) => error.is_passing(),
            Self::Import(error) => error.is_passing(),
            Self::Request(_) | Self::Cursor | Self::Kind(_) => false,
        }
    }

    /// Again would be the same.
    fn is_final(&self) -> bool {
        match self {
            Self::Simulate(error) => !error.is_passing(),
            Self::Import(error) => error.is_final(),
            _ => false,
        }
    }
}

async fn take(
    app: &App,
    corp: &CorpApp,
    stop: &CancellationToken,
    claimed: Option<(Operation, Uuid)>,
) -> Result<bool, ledger::Error> {
    let operations = app.ledger.operations();
    let Some((operation, claim)) = claimed else {
        return Ok(false);
    };
    let id = operation.id;
    let mut job = Job {
        app,
        corp,
        operation,
        claim,
        simulation: None,
        import: None,
        result: None,
    };
    if let Some(end) = job.run(stop).await? {
        let result = job.result.as_ref();
        let ended = operations.end_with(id, claim, end, result, app.now_ms());
        ended.await?;
    } else if stop.is_cancelled() {
        operations.release(id, claim).await?;
    }
    Ok(true)
}

struct Job<'a> {
    app: &'a App,
    corp: &'a CorpApp,
    operation: Operation,
    claim: Uuid,
    simulation: Option<Simulation>,
    import: Option<Import>,
    result: Option<serde_json::Value>,
}

impl Job<'_> {
    /// How it ended; None: it is not ours any more, or the program stops.
    async fn run(
        &mut self,
        stop: &CancellationToken,
    ) -> Result<Option<OperationState>, ledger::Error> {
        let mut backoff = match self.operation.kind.as_str() {
            GROUP_IMPORTS => Backoff::wecom(&self.app.config.outbox, LONGEST_PAUSE),
            _ => Backoff::store(),
        };
        let mut failed = 0;
        loop {
            match self.save().await? {
                Some(OperationState::Cancelling) => return Ok(Some(OperationState::Cancelled)),
                Some(_) => {}
                None => return Ok(None),
            }
            if stop.is_cancelled() {
                return Ok(None);
            }
            match self.batch().await {
                Ok(true) => {
                    backoff.reset();
                    failed = 0;
                }
                Ok(false) => {
                    self.save().await?;
                    return Ok(Some(OperationState::Done));
                }
                Err(error) => {
                    tracing::warn!(corp = %self.corp.id, operation = %self.operation.id, error = %error, "a batch was not done");
                    failed += match error.is_passing() {
                        true => 0,
                        false if error.is_final() => TRIES,
                        false => 1,
                    };
                    if failed >= TRIES {
                        note(
                            &mut self.operation.progress,
                            json!({"problem": error.to_string()}),
                        );
                        self.save().await?;
                        return Ok(Some(OperationState::Failed));
                    }
                    backoff.wait(stop).await;
                }
            }
        }
    }

    async fn save(&self) -> Result<Option<OperationState>, ledger::Error> {
        let (id, progress) = (self.operation.id, &self.operation.progress);
        self.app
            .ledger
            .operations()
            .save(id, self.claim, progress, LEASE_MS, self.app.now_ms())
            .await
    }

    /// False: there is nothing left.
    async fn batch(&mut self) -> Result<bool, Error> {
        match self.operation.kind.as_str() {
            DELIVERIES => self.deliveries().await,
            DEAD_DELIVERIES => self.dead_deliveries().await,
            DEAD_EFFECTS => self.dead_effects().await,
            SIMULATIONS => self.simulate().await,
            GROUP_IMPORTS => self.import().await,
            other => Err(Error::Kind(other.to_owned())),
        }
    }

    async fn deliveries(&mut self) -> Result<bool, Error> {
        let wanted: Replay = serde_json::from_value(self.operation.request.clone())?;
        let table = self.app.ledger.deliveries();
        let (rows, more) = match (
            &wanted.delivery,
            wanted.received_after,
            wanted.received_before,
        ) {
            (Some(id), ..) => (
                table.get(&self.corp.id, id).await?.into_iter().collect(),
                false,
            ),
            (None, Some(from), Some(before)) => {
                let after = self
                    .operation
                    .progress
                    .cursor
                    .as_deref()
                    .map(place)
                    .transpose()?;
                let after = after.as_ref().map(|(ms, id)| (*ms, id.as_str()));
                let rows = table
                    .range(
                        &self.corp.id,
                        (from.0, before.0),
                        wanted.pending,
                        after,
                        BATCH,
                    )
                    .await?;
                let more = rows.len() == BATCH as usize;
                (rows, more)
            }
            _ => return Err(Error::Cursor),
        };
        let last = rows
            .last()
            .map(|row: &Delivery| format!("{}:{}", row.delivery.received_ms, row.delivery.id));
        let rows: Vec<Delivery> = rows.into_iter().filter(|row| wanted.means(row)).collect();
        let batch: Vec<inbox::Delivery> = rows
            .iter()
            .filter(|row| is_replayable(row))
            .filter_map(again)
            .collect();
        if !batch.is_empty() {
            decide::decide(self.app, self.corp, &batch, false).await?;
        }
        let progress = &mut self.operation.progress;
        progress.done += batch.len() as u64;
        progress.skipped += (rows.len() - batch.len()) as u64;
        progress.cursor = last.or_else(|| progress.cursor.take());
        Ok(more)
    }

    async fn simulate(&mut self) -> Result<bool, Error> {
        let mut simulation = match self.simulation.take() {
            Some(simulation) => simulation,
            None => {
                let wanted = serde_json::from_value(self.operation.request.clone())?;
                self.operation.progress.done = 0;
                Simulation::begin(self.app, self.corp, wanted).await?
            }
        };
        if let Some(done) = simulation.step().await? {
            self.operation.progress.done = done;
            self.simulation = Some(simulation);
            return Ok(true);
        }
        let (entries, result) = simulation.end(self.app, self.corp).await?;
        self.operation.progress.done = entries;
        self.result = Some(result);
        Ok(false)
    }

    async fn import(&mut self) -> Result<bool, Error> {
        let (app, corp) = (self.app, self.corp);
        if let Some(import) = &mut self.import {
            let progress = &mut self.operation.progress;
            return Ok(import.step(app, corp, progress).await?);
        }
        let mut progress = self.operation.progress.clone();
        self.import = Some(Import::begin(app, corp, &self.operation, &mut progress).await?);
        self.operation.progress = progress;
        Ok(true)
    }

    async fn dead_deliveries(&mut self) -> Result<bool, Error> {
        let wanted: ReplayDead = serde_json::from_value(self.operation.request.clone())?;
        let to: EntryId = wanted.to.parse().map_err(|_| Error::Cursor)?;
        let from = match self.operation.progress.cursor.as_deref() {
            None => EntryId::MIN,
            Some(cursor) => {
                let last: EntryId = cursor.parse().map_err(|_| Error::Cursor)?;
                EntryId {
                    ms: last.ms,
                    seq: last.seq + 1,
                }
            }
        };
        let letters = self.corp.inbox.dead_list(from, to, BATCH as usize).await?;
        let ids: Vec<EntryId> = letters.iter().map(|letter| letter.id).collect();
        let Some(last) = ids.last().copied() else {
            return Ok(false);
        };
        let n_letters = ids.len();
        let replayed = self
            .corp
            .inbox
            .dead_replay(&Selection::Ids(ids), false)
            .await?
            .replayed;
        let progress = &mut self.operation.progress;
        progress.done += replayed;
        progress.skipped += n_letters as u64 - replayed.min(n_letters as u64);
        progress.cursor = Some(last.to_string());
        Ok(true)
    }

    async fn dead_effects(&mut self) -> Result<bool, Error> {
        let outbox = self.app.ledger.outbox();
        let page = PageRequest {
            limit: BATCH,
            cursor: self.operation.progress.cursor.clone(),
        };
        let page = outbox
            .given_up(&self.corp.id, GivenUp::Dead, None, &page)
            .await?;
        let ids: Vec<Uuid> = page.items.iter().map(|row| row.id).collect();
        let replayed = outbox
            .replay(&self.corp.id, &ids, self.app.now_ms())
            .await?;
        let progress = &mut self.operation.progress;
        progress.done += replayed.len() as u64;
        for row in page.items.iter().filter(|row| !replayed.contains(&row.id)) {
            progress.failed += 1;
            let problem = match row.transfer {
                Some(transfer) => of_a_transfer(transfer),
                None => "what it needs is erased; it cannot be tried again".to_owned(),
            };
            note(progress, json!({"id": row.id, "problem": problem}));
        }
        self.corp.effects_due.notify_waiters();
        let more = page.next.is_some();
        progress.cursor = page.next;
        Ok(more)
    }
}

fn note(progress: &mut Progress, error: serde_json::Value) {
    if progress.first_errors.len() < FIRST_ERRORS {
        progress.first_errors.push(error);
    }
}

/// `received_ms:id`, where the last batch ended.
fn place(cursor: &str) -> Result<(u64, String), Error> {
    let (ms, id) = cursor.split_once(':').ok_or(Error::Cursor)?;
    Ok((ms.parse().map_err(|_| Error::Cursor)?, id.to_owned()))
}

/// Which deliveries are meant: one, or those of a span of time.
#[derive(Debug, Deserialize)]
struct Replay {
    delivery: Option<String>,
    received_after: Option<When>,
    received_before: Option<When>,
    /// Only those without an outcome.
    #[serde(default)]
    pending: bool,
    endpoint: Option<String>,
    event: Option<String>,
    change_type: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ReplayDead {
    to: String,
}

impl Replay {
    fn means(&self, row: &Delivery) -> bool {
        let is = |wanted: &Option<String>, found: Option<&String>| {
            wanted.is_none() || wanted.as_ref() == found
        };
        is(&self.endpoint, Some(&row.delivery.endpoint))
            && is(&self.event, row.delivery.event.as_ref())
            && is(&self.change_type, row.delivery.change_type.as_ref())
    }
}

/// It had no effect: nothing came of it yet, or it was ignored or discarded.
pub(super) fn is_replayable(row: &Delivery) -> bool {
    row.scrubbed_ms.is_none()
        && row
            .outcome
            .as_deref()
            .is_none_or(|outcome| matches!(outcome, "ignored" | DISCARDED))
}

/// As the inbox would have handed it over.
fn again(row: &Delivery) -> Option<inbox::Delivery> {
    let mut id = [0; 32];
    hex::decode_to_slice(&row.delivery.id, &mut id).ok()?;
    Some(inbox::Delivery {
        entry: EntryId::MIN,
        id: DeliveryId(id),
        endpoint: row.delivery.endpoint.clone(),
        received_ms: row.delivery.received_ms,
        plaintext: row.delivery.body.clone(),
        tries: 0,
        again: false,
    })
}
