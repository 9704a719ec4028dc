//! Customers on their way from one member to another. Our own record is what a transfer is recognised by: the
//! events and answers of WeCom name neither the giver nor the attempt.

mod by_hand;
mod list;
mod onward;
mod state;
mod step;

use std::collections::HashMap;

use allocation::{AllocationId, CorpId, MemberId, SubjectKey};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::Error;
use crate::change::NewTransfer;
use crate::connection::Db;
use crate::error::retry;
use crate::log_write::column;
use crate::row::Columns;
use crate::times::at;

pub use by_hand::{Found, Resolved};
pub use list::TransferFilter;
pub use state::{TransferKind, TransferState};
pub use step::TransferStep;

#[derive(Debug, Clone)]
pub struct Transfers {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    pub id: Uuid,
    pub corp: CorpId,
    pub allocation: Option<AllocationId>,
    pub customer: Uuid,
    pub subject: SubjectKey,
    pub giver: MemberId,
    pub taker: MemberId,
    pub kind: TransferKind,
    pub state: TransferState,
    pub errcode: Option<i32>,
    pub raw_status: Option<i32>,
    pub created_ms: u64,
    /// Accepted, or possibly so.
    pub started_ms: Option<u64>,
    pub takeover_ms: Option<u64>,
    pub next_check_ms: Option<u64>,
    pub checks: i32,
    pub unknown_since_ms: Option<u64>,
    pub ended_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planned {
    New(Uuid),
    /// The same transfer is under way.
    UnderWay(Uuid),
    /// The subject has no customer row.
    UnknownCustomer,
}

macro_rules! insert {
    ($rest:literal) => {
        concat!(
            "INSERT INTO transfers (corp_id, id, allocation_id, customer_id, subject, giver, taker, kind, created_at,
                state, ended_at)
             SELECT $1, n.id, n.allocation_id, n.customer_id, n.subject, n.giver, n.taker, n.kind, n.created_at,
                CASE WHEN n.cancelled THEN 'cancelled' ELSE 'planned' END,
                CASE WHEN n.cancelled THEN n.created_at END
             FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[],
                    $9::timestamptz[], $10::boolean[])
                AS n (id, allocation_id, customer_id, subject, giver, taker, kind, created_at, cancelled)",
            $rest
        )
    };
}

/// $1 corp, then one array for each column. Answers the ids of those that were not there and are not under way.
pub(crate) const INSERT: &str = insert!(" ON CONFLICT DO NOTHING RETURNING id");
/// The same, but one that is there, or under way, is an error.
pub(crate) const INSERT_NEW: &str = insert!("");

/// $1 time, $2 allocations. What may have been started is not touched; what WeCom refused to start, and would have been
/// asked for again, is over like what was never asked for.
pub(crate) const CANCEL_PLANNED: &str =
    "UPDATE transfers AS t SET state = 'cancelled', ended_at = $1,
        next_check_at = NULL
    WHERE t.allocation_id = ANY($2) AND t.started_at IS NULL AND t.ended_at IS NULL AND NOT EXISTS (
        SELECT FROM outbox AS o WHERE o.transfer_id = t.id AND o.state IN ('running', 'unknown'))";

macro_rules! columns {
    () => {
        "t.id, t.corp_id, t.allocation_id, t.customer_id, t.subject, t.giver, t.taker, t.kind, t.state, t.errcode,
         t.raw_status, t.created_at, t.started_at, t.takeover_at, t.next_check_at, t.checks, t.unknown_since,
         t.ended_at"
    };
}
use columns;

/// Where a window of `days` natural days ends with today begins: at a local midnight.
pub fn window_start(now_ms: u64, days: u32, utc_offset_minutes: i32) -> u64 {
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    let now = i64::try_from(now_ms).unwrap_or(i64::MAX / 2);
    let offset = i64::from(utc_offset_minutes) * 60 * 1000;
    let today = (now + offset).div_euclid(DAY_MS);
    let first = today - (i64::from(days) - 1).max(0);
    u64::try_from(first * DAY_MS - offset).unwrap_or(0)
}

impl Transfers {
    /// For a transfer that no log entry asks for.
    pub async fn plan(
        &self,
        corp: &CorpId,
        new: &NewTransfer,
        now_ms: u64,
    ) -> Result<Planned, Error> {
        retry(|| self.try_plan(corp, new, now_ms)).await
    }

    async fn try_plan(
        &self,
        corp: &CorpId,
        new: &NewTransfer,
        now_ms: u64,
    ) -> Result<Planned, Error> {
        let mut work = self.db.transaction().await?;
        let query = work
            .query(crate::customers::IDS)
            .bind(corp.as_str())
            .bind(vec![new.subject.to_string()]);
        let Some(customer) = work.fetch_optional(query).await? else {
            work.commit().await?;
            return Ok(Planned::UnknownCustomer);
        };
        let query = work
            .query(INSERT)
            .bind(corp.as_str())
            .bind(vec![new.id])
            .bind(vec![new.allocation.map(|id| id.0)])
            .bind(vec![customer.value::<Uuid>("id")?])
            .bind(vec![new.subject.to_string()])
            .bind(vec![new.giver.as_str()])
            .bind(vec![new.taker.as_str()])
            .bind(vec![new.kind.as_str()])
            .bind(vec![at(now_ms)])
            .bind(vec![false]);
        if work.fetch_optional(query).await?.is_some() {
            work.commit().await?;
            return Ok(Planned::New(new.id));
        }
        let query = work
            .query(
                "SELECT id FROM transfers WHERE id = $5 OR corp_id = $1 AND subject = $2 AND giver = $3
                    AND taker = $4 AND ended_at IS NULL ORDER BY id = $5 DESC LIMIT 1",
            )
            .bind(corp.as_str())
            .bind(new.subject.to_string())
            .bind(new.giver.as_str())
            .bind(new.taker.as_str())
            .bind(new.id);
        let found = work.fetch_optional(query).await?;
        work.commit().await?;
        match found {
            // Planned before, by this very call.
            Some(row) if row.value::<Uuid>("id")? == new.id => Ok(Planned::New(new.id)),
            Some(row) => Ok(Planned::UnderWay(row.value("id")?)),
            None => Ok(Planned::UnknownCustomer),
        }
    }

    pub async fn get(&self, corp: &CorpId, id: Uuid) -> Result<Option<Transfer>, Error> {
        Ok(self.get_many(corp, &[id]).await?.pop())
    }

    /// In no particular order.
    pub async fn get_many(&self, corp: &CorpId, ids: &[Uuid]) -> Result<Vec<Transfer>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM transfers AS t WHERE t.corp_id = $1 AND t.id = ANY($2)"
            ))
            .bind(corp.as_str())
            .bind(ids.to_vec());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        read_all(&rows)
    }

    /// The corp's transfers whose next check is due, earliest first. They are put off by the lease, so that another
    /// process does not take them too; each counts a check.
    pub async fn claim_due(
        &self,
        corp: &CorpId,
        limit: u32,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Vec<Transfer>, Error> {
        let mut due = retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query_once(concat!(
                    "WITH picked AS (
                        SELECT id FROM transfers
                        WHERE corp_id = $4 AND ended_at IS NULL AND next_check_at <= $1
                        ORDER BY next_check_at, id LIMIT $3 FOR UPDATE SKIP LOCKED)
                     UPDATE transfers AS t SET next_check_at = $2, checks = t.checks + 1
                     FROM picked WHERE t.id = picked.id RETURNING ",
                    columns!()
                ))
                .bind(at(now_ms))
                .bind(at(now_ms.saturating_add(lease_ms)))
                .bind(i64::from(limit))
                .bind(corp.as_str());
            let rows = work.fetch_all(query).await?;
            work.end().await?;
            read_all(&rows)
        })
        .await?;
        due.sort_by_key(|transfer| (transfer.created_ms, transfer.id));
        Ok(due)
    }

    /// Accepted starts of each subject since a time (`window_start`), those that may have been accepted included.
    /// Who had none is left out. Only in-service moves count: the rule is WeCom's for those.
    pub async fn moves_since(
        &self,
        corp: &CorpId,
        subjects: &[SubjectKey],
        since_ms: u64,
    ) -> Result<HashMap<SubjectKey, u32>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT subject, count(*) AS n FROM transfers
                 WHERE corp_id = $1 AND subject = ANY($2) AND started_at >= $3 AND kind = 'in_service'
                 GROUP BY subject",
            )
            .bind(corp.as_str())
            .bind(column(subjects, SubjectKey::to_string))
            .bind(at(since_ms));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| {
                Ok((
                    row.parsed("subject")?,
                    u32::try_from(row.number("n")?).unwrap_or(u32::MAX),
                ))
            })
            .collect()
    }

    /// Those of the subject that are not at an end, oldest first.
    pub async fn open_for(
        &self,
        corp: &CorpId,
        subject: &SubjectKey,
    ) -> Result<Vec<Transfer>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM transfers AS t WHERE t.corp_id = $1 AND t.subject = $2 AND t.ended_at IS NULL
                 ORDER BY t.created_at, t.id"
            ))
            .bind(corp.as_str())
            .bind(subject.to_string());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        read_all(&rows)
    }

    /// Of some allocations, oldest first. Looked up one by one (LATERAL with OFFSET): joined, a planner with old statistics
    /// reads the whole table.
    pub async fn of_allocations(
        &self,
        corp: &CorpId,
        allocations: &[AllocationId],
    ) -> Result<Vec<Transfer>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM unnest($2::uuid[]) AS n (id)
                 CROSS JOIN LATERAL (SELECT * FROM transfers WHERE allocation_id = n.id OFFSET 0) AS t
                 WHERE t.corp_id = $1 ORDER BY t.created_at, t.id"
            ))
            .bind(corp.as_str())
            .bind(column(allocations, |id| id.0));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        read_all(&rows)
    }
}

fn read_all(rows: &[PgRow]) -> Result<Vec<Transfer>, Error> {
    rows.iter().map(read).collect()
}

fn read(row: &PgRow) -> Result<Transfer, Error> {
    Ok(Transfer {
        id: row.value("id")?,
        corp: row.parsed("corp_id")?,
        allocation: row
            .value::<Option<Uuid>>("allocation_id")?
            .map(AllocationId),
        customer: row.value("customer_id")?,
        subject: row.parsed("subject")?,
        giver: row.parsed("giver")?,
        taker: row.parsed("taker")?,
        kind: row.parsed("kind")?,
        state: row.parsed("state")?,
        errcode: row.value("errcode")?,
        raw_status: row.value("raw_status")?,
        created_ms: row.ms("created_at")?,
        started_ms: row.ms_option("started_at")?,
        takeover_ms: row.ms_option("takeover_at")?,
        next_check_ms: row.ms_option("next_check_at")?,
        checks: row.value("checks")?,
        unknown_since_ms: row.ms_option("unknown_since")?,
        ended_ms: row.ms_option("ended_at")?,
    })
}

#[cfg(test)]
mod tests {
    use super::window_start;

    const DAY_MS: u64 = 24 * 60 * 60 * 1000;

    /// Case 82 in a transfer's dress: days are those of the corp, not of the machine.
    #[test]
    fn windows_begin_at_a_local_midnight() {
        // 2026-10-15 00:00:05 in Shanghai is 2026-10-14 16:00:05 UTC.
        let midnight = 1_791_993_600_000;
        assert_eq!(window_start(midnight + 5_000, 1, 480), midnight);
        assert_eq!(window_start(midnight - 1, 1, 480), midnight - DAY_MS);
        assert_eq!(
            window_start(midnight + 5_000, 90, 480),
            midnight - 89 * DAY_MS
        );
        assert_eq!(
            window_start(midnight + 5_000, 1, 0),
            midnight - 16 * 60 * 60 * 1000
        );
        assert_eq!(window_start(0, 90, 480), 0);
    }
}
