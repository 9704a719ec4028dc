//! The past of a corp, folded again from its log in Postgres: for questions about single decisions and about spans of time.
//!
//! Redis is not asked, and nothing is kept: each question begins at the snapshot before its first entry. What a question may
//! cost is bounded: so many entries, read in pages, folded beside the tasks that wait for stores, few questions at a time.

use std::{sync::Arc, time::Duration};

use allocation::{CorpId, Dump, LogEntry, model};
use ledger::{Ledger, LogRow, Snapshot};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Entries that one question may fold.
pub const MOST_ENTRIES: u64 = 200_000;
/// Entries that one simulation may fold.
pub const MOST_SIMULATED: u64 = 5_000_000;
/// Entries read at once.
const PAGE: u32 = 2_000;
/// Questions at a time: each holds a corp's state.
const AT_ONCE: usize = 2;
/// How long a question waits for others.
const WAIT: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    /// Other questions are being answered.
    #[error("busy")]
    Busy,
    #[error("{entries} entries would have to be folded, from {from} on")]
    TooMany { from: u64, entries: u64, most: u64 },
    /// Something of the log up to here is missing or damaged, or the rules answer otherwise.
    #[error("log entry {seq}: {problem}")]
    Incomplete { seq: u64, problem: String },
    #[error("folding stopped: {0}")]
    Stopped(#[from] tokio::task::JoinError),
}

/// How many questions are being answered.
#[derive(Debug, Clone)]
pub struct Questions {
    turns: Arc<Semaphore>,
    /// Entries that one of them may fold.
    most: u64,
}

impl Questions {
    /// Simulations, one at a time: each folds twice, and holds what it counts.
    pub fn of_simulations() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(1)),
            most: MOST_SIMULATED,
        }
    }
}

impl Default for Questions {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            most: MOST_ENTRIES,
        }
    }
}

/// A state that goes forward through the log.
#[derive(Debug)]
pub struct Walk {
    ledger: Ledger,
    corp: CorpId,
    state: model::Corp,
    /// Entries that may still be folded, of so many.
    left: u64,
    most: u64,
    /// As long as this question is being answered.
    _turn: OwnedSemaphorePermit,
}

impl Walk {
    /// Stands just before entry `seq`; `upto` (inclusive) is as far as it is to go.
    pub async fn before(
        ledger: &Ledger,
        questions: &Questions,
        corp: &CorpId,
        seq: u64,
        upto: u64,
    ) -> Result<Self, Error> {
        let turn = Arc::clone(&questions.turns);
        let turn = timeout(WAIT, turn.acquire_owned()).await;
        let turn = turn.ok().and_then(Result::ok).ok_or(Error::Busy)?;
        let before = seq.saturating_sub(1);
        let from = ledger.corps().snapshot_seq_before(corp, before).await?;
        let entries = upto.saturating_sub(from);
        if entries > questions.most {
            return Err(Error::TooMany {
                from: from + 1,
                entries,
                most: questions.most,
            });
        }
        let walk = Self {
            state: state_before(ledger, corp, before).await?,
            ledger: ledger.clone(),
            corp: corp.clone(),
            left: questions.most,
            most: questions.most,
            _turn: turn,
        };
        let (walk, ()) = walk.through(before, (), fold).await?;
        Ok(walk)
    }

    /// Stands behind the last entry.
    pub async fn present(
        ledger: &Ledger,
        questions: &Questions,
        corp: &CorpId,
    ) -> Result<Self, Error> {
        let row = ledger.corps().get(corp).await?;
        let last = row.map_or(0, |row| row.log_seq);
        Self::before(ledger, questions, corp, last + 1, last).await
    }

    pub fn state(&self) -> &model::Corp {
        &self.state
    }

    /// Folds up to entry `last`, each by `each`.
    pub async fn through<S: Send + 'static>(
        mut self,
        last: u64,
        mut seen: S,
        each: fn(&mut S, &mut model::Corp, &LogEntry) -> Result<(), allocation::Error>,
    ) -> Result<(Self, S), Error> {
        let entries = last.saturating_sub(self.state.seq());
        if entries > self.left {
            return Err(Error::TooMany {
                from: self.state.seq() + 1,
                entries,
                most: self.most,
            });
        }
        let corps = self.ledger.corps();
        let of_rows = corps.made_of_rows(&self.corp, self.state.seq(), last);
        if let Some(seq) = of_rows.await? {
            return Err(incomplete(seq, "the state after it was made of rows"));
        }
        while self.state.seq() < last {
            let after = self.state.seq();
            let limit = u32::try_from(last - after).map_or(PAGE, |rest| rest.min(PAGE));
            let rows = corps.read_log(&self.corp, after, limit).await?;
            if rows.is_empty() {
                return Err(incomplete(after + 1, MISSING));
            }
            self.left = self.left.saturating_sub(rows.len() as u64);
            let mut state = std::mem::take(&mut self.state);
            let folded = spawn_blocking(move || {
                for row in &rows {
                    let entry = next(&state, row)?;
                    let folded = each(&mut seen, &mut state, &entry);
                    folded.map_err(|error| incomplete(row.seq, error))?;
                }
                Ok::<_, Error>((state, seen))
            });
            (self.state, seen) = folded.await??;
        }
        Ok((self, seen))
    }
}

/// What a fold of the log came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    /// Where it began: after the snapshot before the span.
    pub first: u64,
    pub entries: u64,
    pub differences: u64,
}

/// Folds the log of a span of time, however long, from the snapshot before it on; an entry that the rules would have
/// answered otherwise is told and passed over, one that is missing or cannot be read ends it.
pub async fn replay(
    ledger: &Ledger,
    corp: &CorpId,
    (from_ms, to_ms): (u64, u64),
    mut differs: impl FnMut(allocation::Error),
) -> Result<Replayed, Error> {
    let corps = ledger.corps();
    let before = corps.first_since(corp, from_ms).await? - 1;
    let last = corps.first_since(corp, to_ms).await? - 1;
    let mut state = state_before(ledger, corp, before).await?;
    let mut replayed = Replayed {
        first: state.seq() + 1,
        entries: 0,
        differences: 0,
    };
    while state.seq() < last {
        let after = state.seq();
        // What was made of rows there does not follow from the entries before it.
        let of_rows = corps.made_of_rows(corp, after, last).await?;
        let until = of_rows.unwrap_or(last);
        let limit = u32::try_from(until - after).map_or(PAGE, |rest| rest.min(PAGE));
        let rows = corps.read_log(corp, after, limit).await?;
        for row in &rows {
            if let Err(error) = state.fold(&next(&state, row)?) {
                replayed.differences += 1;
                differs(error);
            }
        }
        if rows.is_empty() {
            return Err(incomplete(after + 1, MISSING));
        }
        replayed.entries += rows.len() as u64;
        if of_rows == Some(state.seq()) {
            state = state_before(ledger, corp, state.seq()).await?;
        }
    }
    Ok(replayed)
}

const MISSING: &str = "is missing";

fn incomplete(seq: u64, problem: impl ToString) -> Error {
    Error::Incomplete {
        seq,
        problem: problem.to_string(),
    }
}

/// The entry of this row, if it is the next one.
fn next(state: &model::Corp, row: &LogRow) -> Result<LogEntry, Error> {
    let seq = state.seq() + 1;
    match row.seq == seq {
        true => row.parse().map_err(|error| incomplete(seq, error)),
        false => Err(incomplete(seq, MISSING)),
    }
}

fn fold(_: &mut (), state: &mut model::Corp, entry: &LogEntry) -> Result<(), allocation::Error> {
    state.fold(entry)
}

/// The entries of a span of time, and the state before them.
impl Walk {
    /// Answers also the last entry of the span, which is before its first one where there are none.
    pub async fn over(
        ledger: &Ledger,
        questions: &Questions,
        corp: &CorpId,
        from_ms: u64,
        to_ms: u64,
    ) -> Result<(Self, u64), Error> {
        let corps = ledger.corps();
        let first = corps.first_since(corp, from_ms).await?;
        let last = corps.first_since(corp, to_ms).await? - 1;
        let walk = Self::before(ledger, questions, corp, first, last).await?;
        Ok((walk, last))
    }
}

/// The snapshot of entry `before` or an earlier one.
async fn state_before(ledger: &Ledger, corp: &CorpId, before: u64) -> Result<model::Corp, Error> {
    let Some(Snapshot { seq, dump }) = ledger.corps().snapshot_before(corp, before).await? else {
        return Ok(model::Corp::new());
    };
    let read = spawn_blocking(move || model::Corp::from_dump(&Dump::from_json(&dump)?));
    let read = read.await?;
    read.map_err(|error| incomplete(seq, format!("its snapshot: {error}")))
}
