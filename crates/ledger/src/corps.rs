//! Generations, the log and its snapshots: what a rebuild of the Redis state needs.
//!
//! A rebuild is: `begin_rebuild`, fold `latest_snapshot` and `read_log`, `confirm_generation`, write the state to Redis
//! and open it there, `end_rebuild`; with `renew_rebuild` meanwhile, so that nobody else begins one. Until it is confirmed, writers that hold entries of the old state may
//! still add them; the rebuilder then reads again. Afterwards such entries are refused.

mod past;

use allocation::{CorpId, LogEntry};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::connection::Db;
use crate::error::retry;
use crate::row::{Columns, signed};
use crate::text::clean;
use crate::times::at;

/// Older snapshots are dropped, but for the first of every few hours of the last days, from which the past is folded, and
/// those that were made of rows; the log stays.
const SNAPSHOTS_KEPT: i64 = 3;
const PAST_SNAPSHOTS_DAYS: i32 = 8;
const PAST_SNAPSHOTS_EVERY_S: i32 = 6 * 60 * 60;

#[derive(Debug, Clone)]
pub struct Corps {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Corp {
    pub generation: u64,
    /// The generation that Redis may serve; lower than `generation` while somebody rebuilds.
    pub opened_generation: u64,
    pub log_seq: u64,
    /// Somebody rebuilds it, or did and has not said that he ended.
    pub rebuilding: bool,
}

/// Who rebuilds, and until when the others should believe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebuildLease<'a> {
    pub who: &'a str,
    pub now_ms: u64,
    pub until_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmed {
    /// Open it in Redis now.
    Yes,
    /// The log went on to this entry meanwhile: fold the rest and confirm again.
    ReadOn { log_seq: u64 },
    /// Somebody else began a rebuild after this one: leave it to him.
    Superseded { generation: u64 },
}

/// One entry as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    pub seq: u64,
    pub at_ms: u64,
    pub generation: u64,
    pub op: String,
    pub args: String,
    pub result: String,
}

impl LogRow {
    /// The row that this entry makes.
    pub fn of(entry: &LogEntry, generation: u64) -> LogRow {
        let (op, args, result) = entry.parts();
        LogRow {
            seq: entry.seq,
            at_ms: entry.at_ms,
            generation,
            op: op.to_owned(),
            args: clean(&args).into_owned(),
            result: clean(&result).into_owned(),
        }
    }

    /// Whether this is the row of the entry, whichever generation it was read from, and whichever version wrote it.
    pub fn is_of(&self, entry: &LogEntry) -> bool {
        let reads_so = || {
            let row = self
                .parse()
                .map(|row| row.with_payload(entry.payload.clone()));
            row.is_ok_and(|row| row == *entry)
        };
        *self == LogRow::of(entry, self.generation) || reads_so()
    }

    pub fn parse(&self) -> Result<LogEntry, allocation::Error> {
        LogEntry::from_parts(self.seq, self.at_ms, &self.op, &self.args, &self.result)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub seq: u64,
    /// `allocation::Dump` as JSON.
    pub dump: String,
}

impl Corps {
    /// Makes sure the corp has its row.
    pub async fn ensure(&self, corp: &CorpId) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("INSERT INTO corps (corp_id) VALUES ($1) ON CONFLICT DO NOTHING")
            .bind(corp.as_str());
        work.execute(query).await?;
        work.end().await
    }

    /// None: never heard of.
    pub async fn get(&self, corp: &CorpId) -> Result<Option<Corp>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("SELECT generation, opened_generation, log_seq, rebuild_until IS NOT NULL AS is_rebuilding FROM corps WHERE corp_id = $1")
            .bind(corp.as_str());
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(read_corp).transpose()
    }

    /// When the corp was first heard of; relations older than that are not ours.
    pub async fn created_ms(&self, corp: &CorpId) -> Result<u64, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("SELECT created_at FROM corps WHERE corp_id = $1")
            .bind(corp.as_str());
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.map_or(Ok(u64::MAX), |row| row.ms("created_at"))
    }

    /// Begins a rebuild: waits for the present writer, then raises the generation. Answers the row as it is now. None:
    /// somebody else rebuilds, or has since the corp was `seen`, be it that he began then or ended. Without `seen` it is
    /// taken over from whoever is at it.
    pub async fn begin_rebuild(
        &self,
        corp: &CorpId,
        lease: &RebuildLease<'_>,
        seen: Option<Corp>,
    ) -> Result<Option<Corp>, Error> {
        self.ensure(corp).await?;
        retry(|| async {
            let mut work = self.db.single().await?;
            // The row's lock is that of `begin_log_write`.
            let query = work
                .query(
                    "UPDATE corps SET generation = generation + 1, rebuilder = $2, rebuild_until = $4
                     WHERE corp_id = $1 AND ($5::bigint IS NULL OR generation = $5
                        AND (rebuild_until IS NULL AND NOT $6 OR rebuild_until <= $3 OR rebuilder = $2))
                     RETURNING generation, opened_generation, log_seq, true AS is_rebuilding",
                )
                .bind(corp.as_str())
                .bind(lease.who)
                .bind(at(lease.now_ms))
                .bind(at(lease.until_ms))
                .bind(seen.map(|seen| signed(seen.generation)))
                .bind(seen.is_some_and(|seen| seen.rebuilding));
            let row = work.fetch_optional(query).await?;
            work.end().await?;
            row.as_ref().map(read_corp).transpose()
        })
        .await
    }

    /// Still at it. False: somebody took over.
    pub async fn renew_rebuild(
        &self,
        corp: &CorpId,
        lease: &RebuildLease<'_>,
        generation: u64,
    ) -> Result<bool, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE corps SET rebuild_until = $4 WHERE corp_id = $1 AND rebuilder = $2 AND generation = $3
                 RETURNING generation",
            )
            .bind(corp.as_str())
            .bind(lease.who)
            .bind(signed(generation))
            .bind(at(lease.until_ms));
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        Ok(row.is_some())
    }

    /// Done, or given up: others need not wait any more.
    pub async fn end_rebuild(
        &self,
        corp: &CorpId,
        who: &str,
        generation: u64,
    ) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE corps SET rebuilder = NULL, rebuild_until = NULL
                 WHERE corp_id = $1 AND rebuilder = $2 AND generation = $3",
            )
            .bind(corp.as_str())
            .bind(who)
            .bind(signed(generation));
        work.execute(query).await?;
        work.end().await
    }

    /// Opens the generation of a rebuild that folded the log up to `folded_seq`.
    pub async fn confirm_generation(
        &self,
        corp: &CorpId,
        generation: u64,
        folded_seq: u64,
    ) -> Result<Confirmed, Error> {
        retry(|| async {
            let mut work = self.db.transaction().await?;
            let query = work
                .query("SELECT generation, opened_generation, log_seq, rebuild_until IS NOT NULL AS is_rebuilding FROM corps
                     WHERE corp_id = $1 FOR UPDATE")
                .bind(corp.as_str());
            let row = work.fetch_optional(query).await?;
            let found = row.as_ref().map(read_corp).transpose()?.unwrap_or_default();
            if found.generation != generation {
                work.roll_back().await?;
                return Ok(Confirmed::Superseded { generation: found.generation });
            }
            if found.log_seq != folded_seq {
                work.roll_back().await?;
                return Ok(Confirmed::ReadOn { log_seq: found.log_seq });
            }
            let query = work
                .query("UPDATE corps SET opened_generation = generation WHERE corp_id = $1")
                .bind(corp.as_str());
            work.execute(query).await?;
            work.commit().await?;
            Ok(Confirmed::Yes)
        })
        .await
    }

    /// At most `limit` entries after `after_seq`, in order.
    pub async fn read_log(
        &self,
        corp: &CorpId,
        after_seq: u64,
        limit: u32,
    ) -> Result<Vec<LogRow>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT seq, at_ms, generation, op, args, result FROM log WHERE corp_id = $1 AND seq > $2
                 ORDER BY seq LIMIT $3",
            )
            .bind(corp.as_str())
            .bind(signed(after_seq))
            .bind(i64::from(limit));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read_log_row).collect()
    }

    /// The state after entry `seq`, which must be in the ledger. Of one entry there is one state: a second is
    /// the same.
    pub async fn save_snapshot(&self, corp: &CorpId, snapshot: &Snapshot) -> Result<(), Error> {
        let mut work = self.db.transaction().await?;
        let query = work
            .query(
                "INSERT INTO snapshots (corp_id, seq, dump)
                 SELECT $1, $2, $3 FROM corps WHERE corp_id = $1 AND log_seq >= $2 ON CONFLICT DO NOTHING",
            )
            .bind(corp.as_str())
            .bind(signed(snapshot.seq))
            .bind(snapshot.dump.clone());
        work.execute(query).await?;
        let query = work
            .query(
                "DELETE FROM snapshots WHERE corp_id = $1 AND NOT of_rows
                 AND seq NOT IN (SELECT seq FROM snapshots WHERE corp_id = $1 ORDER BY seq DESC LIMIT $2)
                 AND seq NOT IN (SELECT min(seq) FROM snapshots WHERE corp_id = $1 AND created_at >
                        (SELECT max(created_at) FROM snapshots WHERE corp_id = $1) - make_interval(days => $3)
                    GROUP BY floor(extract(epoch FROM created_at) / $4))",
            )
            .bind(corp.as_str())
            .bind(SNAPSHOTS_KEPT)
            .bind(PAST_SNAPSHOTS_DAYS)
            .bind(PAST_SNAPSHOTS_EVERY_S);
        work.execute(query).await?;
        work.commit().await
    }

    /// A state for the folds to come that was not folded itself, in the place of the one of that entry. A rebuilder that
    /// was overtaken leaves it to the newer one.
    pub async fn replace_snapshot(
        &self,
        corp: &CorpId,
        generation: u64,
        snapshot: &Snapshot,
    ) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "INSERT INTO snapshots (corp_id, seq, dump, of_rows)
                 SELECT $1, $2, $3, true FROM corps WHERE corp_id = $1 AND log_seq >= $2 AND generation = $4
                 ON CONFLICT (corp_id, seq) DO UPDATE SET dump = excluded.dump, of_rows = true",
            )
            .bind(corp.as_str())
            .bind(signed(snapshot.seq))
            .bind(snapshot.dump.clone())
            .bind(signed(generation));
        work.execute(query).await?;
        work.end().await
    }

    pub async fn latest_snapshot(&self, corp: &CorpId) -> Result<Option<Snapshot>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("SELECT seq, dump FROM snapshots WHERE corp_id = $1 ORDER BY seq DESC LIMIT 1")
            .bind(corp.as_str());
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(read_snapshot).transpose()
    }
}

fn read_snapshot(row: &PgRow) -> Result<Snapshot, Error> {
    Ok(Snapshot {
        seq: row.number("seq")?,
        dump: row.value("dump")?,
    })
}

pub(crate) fn read_log_row(row: &PgRow) -> Result<LogRow, Error> {
    Ok(LogRow {
        seq: row.number("seq")?,
        at_ms: row.number("at_ms")?,
        generation: row.number("generation")?,
        op: row.value("op")?,
        args: row.value("args")?,
        result: row.value("result")?,
    })
}

fn read_corp(row: &PgRow) -> Result<Corp, Error> {
    Ok(Corp {
        generation: row.number("generation")?,
        opened_generation: row.number("opened_generation")?,
        log_seq: row.number("log_seq")?,
        rebuilding: row.value("is_rebuilding")?,
    })
}
