//! Who works on which row: claims, leases, and taking back what was lost.

use std::collections::HashSet;

use allocation::{AllocationId, CorpId};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::{EffectState, Fence, Held, Outbox, OutboxRow, columns, read, read_all};
use crate::Error;
use crate::error::retry;
use crate::log_write::column;
use crate::row::{Columns, signed};
use crate::times::at;

/// Which rows to take: of one corp and one kind, so that no claim walks over what waits of another. Those whose outcome
/// is unknown come too when they are due: to be looked up, not repeated.
#[derive(Debug, Clone)]
pub struct Claim {
    pub corp: CorpId,
    pub kind: String,
    pub limit: u32,
    /// Until the row is begun. Must be longer than what is done before that; `begin` sets the lease of the call.
    pub lease_ms: u64,
}

/// What `reap` took back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reaped {
    /// Nothing had left the house, or it may be repeated.
    pub pending: u64,
    pub unknown: u64,
    /// Their deadline had passed before they were sent.
    pub failed: u64,
}

/// Rows that are not at an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    pub corp: CorpId,
    pub kind: String,
    pub state: EffectState,
    pub count: u64,
    pub oldest_due_ms: u64,
}

impl Outbox {
    /// Takes rows that are due, earliest first: rows of one kind have one priority. Those that others are looking at are
    /// skipped; those past their deadline are left to `reap`.
    pub async fn claim(&self, claim: &Claim, now_ms: u64) -> Result<Vec<OutboxRow>, Error> {
        let mut rows = retry(|| self.try_claim(claim, now_ms)).await?;
        rows.sort_by_key(|row| (row.due_ms, row.id));
        Ok(rows)
    }

    async fn try_claim(&self, claim: &Claim, now_ms: u64) -> Result<Vec<OutboxRow>, Error> {
        let mut work = self.db.single().await?;
        // Planned each time: a plan kept from when the outbox was small may walk over all of it.
        let query = work
            .query_once(concat!(
                "WITH picked AS (
                    SELECT id FROM outbox
                    WHERE corp_id = $3 AND kind = $4 AND state IN ('pending', 'unknown') AND due_at <= $1
                        AND (state = 'unknown' OR deadline_at IS NULL OR deadline_at > $1)
                    ORDER BY due_at, id LIMIT $5 FOR UPDATE SKIP LOCKED)
                 UPDATE outbox AS o SET state = 'running', attempts = o.attempts + 1, lease_until = $2,
                    sent_at = NULL
                 FROM picked WHERE o.id = picked.id RETURNING ",
                columns!()
            ))
            .bind(at(now_ms))
            .bind(at(now_ms.saturating_add(claim.lease_ms)))
            .bind(claim.corp.as_str().to_owned())
            .bind(claim.kind.clone())
            .bind(i64::from(claim.limit));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        read_all(&rows)
    }

    /// The last look before the call: writes down fences and that the attempts may leave the house, and leases the
    /// rows for the call, whatever is left of the claim. Answers those that are still ours; the others (cancelled,
    /// lost, past their deadline, or a later owner of the lock was here) must not be sent.
    pub async fn begin(
        &self,
        held: &[Held],
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Vec<Held>, Error> {
        let mut held = held.to_vec();
        held.sort_by_key(|row| row.id);
        let rows = retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query(
                    "UPDATE outbox AS o SET sent_at = $1, tries = o.tries + 1, lease_until = $6,
                        fence_generation = coalesce(h.generation, o.fence_generation),
                        fence_counter = coalesce(h.counter, o.fence_counter)
                     FROM unnest($2::uuid[], $3::integer[], $4::bigint[], $5::bigint[])
                        AS h (id, attempt, generation, counter)
                     WHERE o.id = h.id AND o.attempts = h.attempt AND o.state = 'running' AND o.sent_at IS NULL
                        AND o.lease_until > $1
                        AND (o.deadline_at IS NULL OR o.deadline_at > $1 OR o.unknown_since IS NOT NULL)
                        AND (o.fence_generation IS NULL
                            OR (o.fence_generation, o.fence_counter) < (h.generation, h.counter)
                            OR (o.fence_generation, o.fence_counter) = (h.generation, h.counter))
                     RETURNING o.id",
                )
                .bind(at(now_ms))
                .bind(column(&held, |row| row.id))
                .bind(column(&held, |row| row.attempt))
                .bind(column(&held, |row| row.fence.map(|fence| signed(fence.generation))))
                .bind(column(&held, |row| row.fence.map(|fence| signed(fence.counter))))
                .bind(at(now_ms.saturating_add(lease_ms)));
            let rows = work.fetch_all(query).await?;
            work.end().await?;
            Ok(rows)
        })
        .await?;
        let ours = rows
            .iter()
            .map(|row| row.value("id"))
            .collect::<Result<HashSet<Uuid>, _>>()?;
        Ok(held
            .into_iter()
            .filter(|row| ours.contains(&row.id))
            .collect())
    }

    /// Takes back rows whose lease is over: what had not left the house goes back to its place in the queue, what is of
    /// a kind that may be repeated goes to its end; of the rest nobody knows. Ends what is past its deadline.
    pub async fn reap(
        &self,
        repeatable_kinds: &[&str],
        limit: u32,
        now_ms: u64,
    ) -> Result<Reaped, Error> {
        let rows = retry(|| async {
            let mut work = self.db.transaction().await?;
            let query = work
                .query_once(
                    "WITH picked AS (
                        SELECT id FROM outbox WHERE state = 'running' AND lease_until <= $1
                        ORDER BY lease_until LIMIT $2 FOR UPDATE SKIP LOCKED)
                     UPDATE outbox AS o SET lease_until = NULL, sent_at = NULL,
                        due_at = CASE WHEN o.sent_at IS NULL THEN o.due_at ELSE $1 END,
                        state = CASE WHEN o.unknown_since IS NOT NULL THEN 'unknown'
                            WHEN o.sent_at IS NULL OR o.kind = ANY($3) THEN 'pending' ELSE 'unknown' END,
                        unknown_since = CASE WHEN o.unknown_since IS NOT NULL THEN coalesce(o.sent_at, o.unknown_since)
                            WHEN o.sent_at IS NULL OR o.kind = ANY($3) THEN NULL ELSE o.sent_at END
                     FROM picked WHERE o.id = picked.id RETURNING o.state",
                )
                .bind(at(now_ms))
                .bind(i64::from(limit))
                .bind(column(repeatable_kinds, |kind| (*kind).to_owned()));
            let mut rows = work.fetch_all(query).await?;
            let query = work
                .query_once(
                    "WITH picked AS (
                        SELECT id FROM outbox WHERE state = 'pending' AND deadline_at <= $1
                        ORDER BY deadline_at LIMIT $2 FOR UPDATE SKIP LOCKED)
                     UPDATE outbox AS o SET state = 'failed', settled_at = $1, last_error = 'deadline',
                        payload = CASE WHEN o.erase_payload THEN '{}' ELSE o.payload END
                     FROM picked WHERE o.id = picked.id RETURNING o.state",
                )
                .bind(at(now_ms))
                .bind(i64::from(limit));
            rows.extend(work.fetch_all(query).await?);
            work.commit().await?;
            Ok(rows)
        })
        .await?;
        let mut reaped = Reaped::default();
        for row in &rows {
            match row.parsed("state")? {
                EffectState::Pending => reaped.pending += 1,
                EffectState::Failed => reaped.failed += 1,
                _ => reaped.unknown += 1,
            }
        }
        Ok(reaped)
    }

    pub async fn get(&self, corp: &CorpId, id: Uuid) -> Result<Option<OutboxRow>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM outbox AS o WHERE o.corp_id = $1 AND o.id = $2"
            ))
            .bind(corp.as_str())
            .bind(id);
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(read).transpose()
    }

    /// Everything that was to be done for an allocation, oldest first.
    pub async fn of_allocation(
        &self,
        corp: &CorpId,
        allocation: AllocationId,
    ) -> Result<Vec<OutboxRow>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM outbox AS o WHERE o.corp_id = $1 AND o.allocation_id = $2 ORDER BY o.created_at, o.id"
            ))
            .bind(corp.as_str())
            .bind(allocation.0);
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        read_all(&rows)
    }

    /// What is not at an end, of one corp or of all.
    pub async fn unfinished(&self, corp: Option<&CorpId>) -> Result<Vec<Unfinished>, Error> {
        let mut work = self.db.single().await?;
        // What runs is little, whosever it is; looked for by corp, it might be among all that this corp ever did.
        let query = work
            .query_once(
                "WITH running AS MATERIALIZED (
                    SELECT corp_id, kind, state, due_at FROM outbox WHERE state = 'running')
                 SELECT corp_id, kind, state, count(*) AS n, min(due_at) AS oldest FROM (
                    SELECT corp_id, kind, state, due_at FROM outbox WHERE state IN ('pending', 'unknown')
                    UNION ALL SELECT corp_id, kind, state, due_at FROM running) AS rows
                 WHERE $1::text IS NULL OR corp_id = $1 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
            )
            .bind(corp.map(|corp| corp.as_str().to_owned()));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read_unfinished).collect()
    }

    /// The greatest fence that an unfinished row knows: a new fence counter must begin above it.
    pub async fn greatest_fence(&self, corp: &CorpId) -> Result<Option<Fence>, Error> {
        let mut work = self.db.single().await?;
        // By the two indexes of what is unfinished, as above: no index has all of its states.
        let query = work
            .query(
                "WITH running AS MATERIALIZED (
                    SELECT corp_id, fence_generation, fence_counter FROM outbox WHERE state = 'running')
                 SELECT fence_generation, fence_counter FROM (
                    SELECT corp_id, fence_generation, fence_counter FROM outbox WHERE state IN ('pending', 'unknown')
                    UNION ALL SELECT corp_id, fence_generation, fence_counter FROM running) AS rows
                 WHERE corp_id = $1 AND fence_generation IS NOT NULL
                 ORDER BY fence_generation DESC, fence_counter DESC LIMIT 1",
            )
            .bind(corp.as_str());
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.map(|row| {
            Ok(Fence {
                generation: row.number("fence_generation")?,
                counter: row.number("fence_counter")?,
            })
        })
        .transpose()
    }
}

fn read_unfinished(row: &PgRow) -> Result<Unfinished, Error> {
    Ok(Unfinished {
        corp: row.parsed("corp_id")?,
        kind: row.value("kind")?,
        state: row.parsed("state")?,
        count: row.number("n")?,
        oldest_due_ms: row.ms("oldest")?,
    })
}
