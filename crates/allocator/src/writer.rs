//! The ledger writer: whoever holds the corp's row turns the log after the ledger's last entry into rows and effects,
//! one transaction a batch. Its place in the log is in that row, so a writer that dies leaves nothing half-done.

mod next;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use allocation::{CorpId, LogEntry};
use ledger::{Change, Entry, LogRow, WriteBatch, Written};
use metrics::{counter, gauge};
use roster::LogReader;
use tokio_util::sync::CancellationToken;

use crate::{
    app::{App, CorpApp, Redis},
    backoff::{Backoff, sleep},
    faults::{Part, with_causes},
    fission::inviters,
    lost,
    payload::Payload,
    people,
    reception::rules,
};
pub use next::Instead;

/// How long an idle writer waits for the log before it looks again.
const IDLE: Duration = Duration::from_secs(1);
/// How long an entry whose payload we cannot read is left to other processes, which may be newer.
const PAYLOAD_MS: u64 = 60_000;
/// How long to leave the row to the writer that holds it.
const TAKEN: Duration = Duration::from_millis(25);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("ledger")]
    Ledger(#[from] ledger::Error),
    #[error("roster")]
    Roster(#[from] roster::Error),
    #[error("connection for waiting")]
    Inbox(#[from] inbox::Error),
    /// Redis lost a part of the log, or all of it: the corp must be rebuilt.
    #[error("the log does not go on after entry {written}, where the ledger ends: {instead}")]
    Lost { written: u64, instead: Instead },
    #[error("the payload of log entry {seq} cannot be read")]
    Payload { seq: u64, source: serde_json::Error },
}

impl Error {
    /// What the log holds is to blame, and no store that is away: trying again alone does not help.
    pub fn is_of_the_data(&self) -> bool {
        match self {
            Error::Lost { .. } | Error::Payload { .. } => true,
            Error::Ledger(error) => error.is_of_the_data(),
            Error::Roster(error) => matches!(error, roster::Error::Entry { .. }),
            Error::Inbox(_) => false,
        }
    }

    /// For a person: what it is, and the way out if there is none without him.
    pub(crate) fn told(&self, corp: &CorpId) -> String {
        match self {
            // It is rebuilt by itself.
            Error::Lost { .. } => self.to_string(),
            Error::Payload { .. } => {
                format!("{self}: it is written without it when it is a minute old")
            }
            _ => format!(
                "{}; `allocator rebuild --corp {corp} --drop-rest` goes on without what was logged from there on",
                with_causes(self)
            ),
        }
    }
}

/// The last entry that this process wrote, or found in the ledger: it need not be read again.
#[derive(Debug, Default)]
pub struct Remembered(Mutex<Option<LogRow>>);

impl Remembered {
    fn get(&self) -> Option<LogRow> {
        self.lock().clone()
    }

    fn set(&self, row: LogRow) {
        *self.lock() = Some(row);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<LogRow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one turn came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Wrote(usize),
    /// Nothing after this entry.
    Idle {
        log_seq: u64,
    },
    /// Another writer, or a rebuilder, holds the row.
    Taken,
}

/// Writes until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    let mut reader: Option<LogReader<Redis>> = None;
    while !stop.is_cancelled() {
        match turn(&app, &corp).await {
            Ok(Turn::Wrote(_)) => {
                corp.faults.clear(Part::Log);
                backoff.reset();
            }
            Ok(Turn::Taken) => {
                backoff.reset();
                sleep(TAKEN, &stop).await;
            }
            Ok(Turn::Idle { log_seq }) => {
                corp.faults.clear(Part::Log);
                backoff.reset();
                tokio::select! {
                    waited = wait(&app, &corp, &mut reader, log_seq) => if let Err(error) = waited {
                        tracing::warn!(corp = %corp.id, error = %error, "the log cannot be watched");
                        reader = None;
                        backoff.wait(&stop).await;
                    },
                    () = corp.log_grew.notified() => {}
                    () = stop.cancelled() => {}
                }
            }
            Err(error) => {
                if matches!(
                    error,
                    Error::Lost { .. } | Error::Roster(roster::Error::NotReady)
                ) {
                    corp.not_ready.notify_one();
                }
                if error.is_of_the_data() {
                    corp.faults.set(Part::Log, error.told(&corp.id));
                }
                tracing::warn!(corp = %corp.id, error = %with_causes(&error), "the log was not written");
                backoff.wait(&stop).await;
            }
        }
    }
}

async fn wait(
    app: &App,
    corp: &CorpApp,
    reader: &mut Option<LogReader<Redis>>,
    after_seq: u64,
) -> Result<(), Error> {
    let reader = match reader {
        Some(reader) => reader,
        None => reader.insert(LogReader::new(app.blocking().await?, &corp.id)),
    };
    reader.log_wait(after_seq, 1, IDLE).await?;
    Ok(())
}

/// Writes what stands in the log after the ledger's last entry, at most one batch.
pub async fn turn(app: &App, corp: &CorpApp) -> Result<Turn, Error> {
    let known = corp.last_written.get();
    let known_seq = known.as_ref().map_or(0, |row| row.seq);
    let begun = app.ledger.begin_log_write_after(&corp.id, known_seq);
    let Some(mut write) = begun.await? else {
        return Ok(Turn::Taken);
    };
    let log_seq = write.log_seq();
    let next = match next::next(app, corp, &mut write, known.as_ref()).await {
        Ok(next) => next,
        Err(error) => {
            write.release().await?;
            return Err(error);
        }
    };
    if next.entries.is_empty() {
        write.release().await?;
        if let Some(row) = next.last.filter(|row| known.as_ref() != Some(row)) {
            corp.last_written.set(row);
        }
        return Ok(Turn::Idle { log_seq });
    }
    let entries = match changes(app, corp, &next.entries).await {
        Ok(entries) => entries,
        Err(error) => {
            write.release().await?;
            return Err(error);
        }
    };
    let last = entries
        .len()
        .checked_sub(1)
        .and_then(|at| next.entries.get(at));
    let row = last.map(|last| LogRow::of(last, next.generation));
    let batch = WriteBatch {
        generation: next.generation,
        entries,
    };
    let written = write.commit(&batch).await?;
    if let Some(row) = row {
        corp.last_written.set(row);
    }
    counter!("paidan_log_entries_written_total", "corp" => corp.id.to_string())
        .increment(written.entries as u64);
    gauge!("paidan_log_written_seq", "corp" => corp.id.to_string()).set(written.log_seq as f64);
    corp.effects_due.notify_waiters();
    inviters::tally(corp, &written.edges);
    for_a_person(corp, &batch.entries);
    refused(app, corp, &written).await;
    // All but the last one: the next writer compares it.
    corp.roster.log_trim(written.log_seq).await?;
    Ok(Turn::Wrote(written.entries))
}

/// What the entries lead to, up to one whose payload cannot be read; it is an error once it is the first.
async fn changes(app: &App, corp: &CorpApp, entries: &[LogEntry]) -> Result<Vec<Entry>, Error> {
    let mut read = Vec::with_capacity(entries.len());
    for entry in entries {
        match payload(app, corp, entry) {
            Ok(payload) => read.push((entry, payload)),
            Err(error) if read.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    // The process that decided may have been told of a channel that this one has not heard of, and it has a welcome.
    let channels: BTreeSet<&str> = read
        .iter()
        .flat_map(|(_, payload)| &payload.contexts)
        .filter_map(|context| context.channel.as_deref())
        .collect();
    let routes = corp.routes();
    if channels.into_iter().any(|channel| !routes.knows(channel)) {
        people::look_again(app, corp).await;
    }
    let routes = corp.routes();
    let entries = read.iter();
    Ok(entries
        .map(|(entry, payload)| Entry::new(entry, rules::changes(entry, payload, &routes)))
        .collect())
}

/// The rules do not need the payload, so one that nobody could read in time holds up nothing: decision and load are
/// written, and the deliveries behind the entry stay without an outcome, as those that may be replayed.
fn payload(app: &App, corp: &CorpApp, entry: &LogEntry) -> Result<Payload, Error> {
    Payload::read(entry.payload.as_deref()).or_else(|source| {
        if app.now_ms() < entry.at_ms.saturating_add(PAYLOAD_MS) {
            let seq = entry.seq;
            return Err(Error::Payload { seq, source });
        }
        counter!("paidan_log_payloads_unreadable_total", "corp" => corp.id.to_string()).increment(1);
        tracing::error!(corp = %corp.id, seq = entry.seq, op = entry.op.name(), "a log entry is written without its payload, which cannot be read: its deliveries have no outcome and can be replayed");
        Ok(Payload::default())
    })
}

/// Nobody is left to ask, or somebody waited for too long: a person should know.
fn for_a_person(corp: &CorpApp, entries: &[Entry]) {
    let changes = entries.iter().flat_map(|entry| &entry.changes);
    let count = changes
        .filter(|change| matches!(change, Change::Undecided { .. }))
        .count();
    if count > 0 {
        counter!("paidan_undecided_total", "corp" => corp.id.to_string()).increment(count as u64);
        tracing::warn!(corp = %corp.id, count, "customers wait for a person: nobody accepted them, or nobody served them in time; GET …/allocations?state=undecided");
    }
}

/// The ledger had an open row already: it stands, and the newer allocation ends in Redis. So does one that is the echo
/// of a transfer. Whether Redis can be told now or not: the ledger knows them, and they are told again until it is done.
async fn refused(app: &App, corp: &CorpApp, written: &Written) {
    let (conflicts, echoes) = (written.conflicts.len(), written.echoes.len());
    if conflicts + echoes == 0 {
        return;
    }
    counter!("paidan_conflicts_total", "corp" => corp.id.to_string()).increment(conflicts as u64);
    tracing::warn!(corp = %corp.id, conflicts, echoes, "the ledger had open allocations of the same subjects, or knows of their transfers; the newer ones end");
    if let Err(error) = lost::end(app, corp).await {
        tracing::warn!(corp = %corp.id, error = %error, "they end in Redis later");
    }
}
