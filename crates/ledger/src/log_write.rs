//! The one writer of a corp's log: whoever holds the corp's row.

mod allocations;
mod customers;
mod edges;
mod fold;
mod offers;
mod people;
mod rows;
mod seats;
mod visits;

use allocation::{AllocationId, CorpId};
use uuid::Uuid;

use crate::change::WriteBatch;
use crate::connection::Work;
use crate::corps::{LogRow, read_log_row};
use crate::row::{Columns, signed};
use crate::{Error, Ledger};
pub use edges::EdgesWritten;
use fold::Folded;
pub(crate) use rows::{Meeting, column};

/// Holds the corp's row. Dropped, it writes nothing and gives the row back.
#[derive(Debug)]
pub struct LogWrite {
    work: Work,
    corp: CorpId,
    log_seq: u64,
    generation: u64,
    opened_generation: u64,
    found: Option<LogRow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// Last entry that is in the ledger now.
    pub log_seq: u64,
    /// Entries of the batch that were not there before.
    pub entries: usize,
    /// The corp's generation; above the batch's when somebody rebuilds: the batch is written and the rebuilder,
    /// who confirms at last, will find it and read again.
    pub generation: u64,
    /// New allocations that lost: the ledger had an open one of the same pool and subject. They are written as
    /// closed, nothing is done for them, and they are to be closed in Redis: `Allocations::lost` has them until then.
    pub conflicts: Vec<Conflict>,
    /// New allocations that only a transfer of ours brought about: it ended with the member whom the event names, and
    /// the allocation it was for is closed or somebody else's. They are treated as those that lost.
    pub echoes: Vec<AllocationId>,
    /// Transfers that were not planned, because the same one is under way already; their effects neither.
    pub transfers_under_way: Vec<Uuid>,
    /// Whom inviters brought, and what that came to.
    pub edges: EdgesWritten,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    pub lost: AllocationId,
    pub stands: AllocationId,
}

impl Ledger {
    /// Takes the corp's row, waiting for nobody. None: another writer or a rebuilder holds it (or the corp was new
    /// until now).
    pub async fn begin_log_write(&self, corp: &CorpId) -> Result<Option<LogWrite>, Error> {
        self.begin(corp, None).await
    }

    /// The same, and reads the entry that the ledger ends with in the same round trip, unless it is `known` to the
    /// caller (0: he knows none).
    pub async fn begin_log_write_after(
        &self,
        corp: &CorpId,
        known: u64,
    ) -> Result<Option<LogWrite>, Error> {
        let Some(mut write) = self.begin(corp, Some(known)).await? else {
            return Ok(None);
        };
        // The row may have been written between the statement's snapshot and its lock: then the entry is newer than
        // the snapshot.
        if write.found.is_none() && write.log_seq > 0 && write.log_seq != known {
            write.found = write.last().await?;
        }
        Ok(Some(write))
    }

    async fn begin(&self, corp: &CorpId, known: Option<u64>) -> Result<Option<LogWrite>, Error> {
        let mut work = self.db.transaction().await?;
        let query = work
            .query(
                "WITH held AS MATERIALIZED (
                    SELECT log_seq, generation AS newest, opened_generation FROM corps WHERE corp_id = $1
                    FOR UPDATE SKIP LOCKED)
                 SELECT held.*, l.* FROM held LEFT JOIN LATERAL (
                    SELECT seq, at_ms, generation, op, args, result FROM log
                    WHERE corp_id = $1 AND seq = held.log_seq AND seq <> $2) AS l ON true",
            )
            .bind(corp.as_str())
            .bind(known.map(signed));
        match work.fetch_optional(query).await? {
            Some(row) => {
                let there: Option<i64> = row.value("seq")?;
                Ok(Some(LogWrite {
                    corp: corp.clone(),
                    log_seq: row.number("log_seq")?,
                    generation: row.number("newest")?,
                    opened_generation: row.number("opened_generation")?,
                    found: there.map(|_| read_log_row(&row)).transpose()?,
                    work,
                }))
            }
            None => {
                let query = work
                    .query("INSERT INTO corps (corp_id) VALUES ($1) ON CONFLICT DO NOTHING")
                    .bind(corp.as_str());
                work.execute(query).await?;
                work.commit().await?;
                Ok(None)
            }
        }
    }
}

impl LogWrite {
    /// Last entry in the ledger: the batch goes on after it.
    pub fn log_seq(&self) -> u64 {
        self.log_seq
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The generation that was opened last: entries of a corp that is closed for a rebuild are of this one.
    pub fn opened_generation(&self) -> u64 {
        self.opened_generation
    }

    /// The entry that the ledger ends with, as it was read at the beginning.
    pub fn found(&self) -> Option<&LogRow> {
        self.found.as_ref()
    }

    /// The same, read now. It is an error if the connection broke meanwhile: somebody else may hold the row by now.
    pub async fn last(&mut self) -> Result<Option<LogRow>, Error> {
        let query = self
            .work
            .query(
                "SELECT seq, at_ms, generation, op, args, result FROM log WHERE corp_id = $1 AND seq = $2",
            )
            .bind(self.corp.as_str())
            .bind(signed(self.log_seq));
        let row = self.work.fetch_optional(query).await?;
        row.as_ref().map(read_log_row).transpose()
    }

    /// Writes nothing. Dropping does the same, at the price of a connection.
    pub async fn release(self) -> Result<(), Error> {
        self.work.roll_back().await
    }

    /// Writes the entries that are not there yet, with their changes, in one transaction.
    pub async fn commit(mut self, batch: &WriteBatch) -> Result<Written, Error> {
        if batch.generation < self.opened_generation {
            return Err(Error::Stale {
                generation: batch.generation,
                opened: self.opened_generation,
            });
        }
        let new = self.new_entries(batch)?;
        let Some(last) = new.last() else {
            let written = Written {
                log_seq: self.log_seq,
                generation: self.generation,
                ..Written::default()
            };
            self.release().await?;
            return Ok(written);
        };
        rows::log(&mut self.work, &self.corp, batch.generation, new).await?;
        let changed = self.changes(&Folded::of(new)).await?;
        let written = Written {
            log_seq: last.seq,
            entries: new.len(),
            generation: self.generation,
            ..changed
        };
        let query = self
            .work
            .query("UPDATE corps SET log_seq = $2 WHERE corp_id = $1")
            .bind(self.corp.as_str())
            .bind(signed(last.seq));
        self.work.execute(query).await?;
        match self.work.commit().await {
            Ok(()) => Ok(written),
            Err(Error::Unavailable(source)) => Err(Error::CommitUnknown(source)),
            Err(error) => Err(error),
        }
    }

    /// Brings rows to what Redis has, without an entry of the log: for what is found to differ. As much as the log's own
    /// changes do it may be done again.
    pub async fn mend(mut self, at_ms: u64, changes: Vec<crate::Change>) -> Result<(), Error> {
        let entry = crate::Entry {
            seq: self.log_seq,
            at_ms,
            changes,
            ..crate::Entry::default()
        };
        let mut folded = Folded::of(std::slice::from_ref(&entry));
        folded.edges.is_mend = true;
        self.changes(&folded).await?;
        self.work.commit().await
    }

    /// As if nothing stood in the way; if something does, once more with a look for it.
    async fn changes(&mut self, folded: &Folded<'_>) -> Result<Written, Error> {
        let mut written = Written::default();
        self.work.script("SAVEPOINT changes").await?;
        let (work, corp) = (&mut self.work, &self.corp);
        match rows::changes(work, corp, folded, Meeting::Nothing, &mut written).await {
            Err(error) if error.is_duplicate() => {
                written = Written::default();
                work.script("ROLLBACK TO changes").await?;
                rows::changes(work, corp, folded, Meeting::Rows, &mut written).await?;
            }
            changed => changed?,
        }
        Ok(written)
    }

    fn new_entries<'b>(&self, batch: &'b WriteBatch) -> Result<&'b [crate::Entry], Error> {
        let known = batch
            .entries
            .partition_point(|entry| entry.seq <= self.log_seq);
        let new = &batch.entries[known..];
        for (entry, expected) in new.iter().zip(self.log_seq + 1..) {
            if entry.seq != expected {
                return Err(Error::Gap {
                    expected,
                    found: entry.seq,
                });
            }
        }
        Ok(new)
    }
}
