//! What came of an attempt. Only the holder of the present attempt and fence may say so.

use std::collections::HashSet;

use serde_json::Value;
use uuid::Uuid;

use super::{EffectState, Held, Outbox};
use crate::Error;
use crate::error::retry;
use crate::log_write::column;
use crate::row::{Columns, signed};
use crate::text::{clean_json, clean_option};
use crate::times::{at, at_option};

#[derive(Clone, PartialEq)]
pub struct Finish {
    pub held: Held,
    pub outcome: Outcome,
    pub errcode: Option<i32>,
    /// For people; never an id, a name or a code.
    pub error: Option<String>,
    /// The answer, as far as it is worth keeping.
    pub answer: Option<Value>,
}

impl Finish {
    pub fn new(held: Held, outcome: Outcome) -> Finish {
        Finish {
            held,
            outcome,
            errcode: None,
            error: None,
            answer: None,
        }
    }
}

impl std::fmt::Debug for Finish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finish")
            .field("held", &self.held)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Refused for good.
    Failed,
    /// Given up.
    Dead,
    Cancelled,
    /// It may have had its effect: look it up from then on. It is unknown since its last attempt began.
    Unknown {
        due_ms: u64,
    },
    /// It had none: again from then on. What was unknown is known.
    Again {
        due_ms: u64,
    },
    /// It was not tried (a budget or a lock is to be waited for, or WeCom did not let it in): as it was, from then on. If
    /// it was begun, that was no try.
    NotTried {
        due_ms: u64,
    },
}

impl Outcome {
    fn state(self) -> EffectState {
        match self {
            Outcome::Done => EffectState::Done,
            Outcome::Failed => EffectState::Failed,
            Outcome::Dead => EffectState::Dead,
            Outcome::Cancelled => EffectState::Cancelled,
            Outcome::Unknown { .. } => EffectState::Unknown,
            Outcome::Again { .. } | Outcome::NotTried { .. } => EffectState::Pending,
        }
    }

    fn due_ms(self) -> Option<u64> {
        match self {
            Outcome::Unknown { due_ms }
            | Outcome::Again { due_ms }
            | Outcome::NotTried { due_ms } => Some(due_ms),
            _ => None,
        }
    }
}

impl Outbox {
    /// Writes outcomes. Answers the rows that were refused: another claim or a later fence holds them, or they are
    /// at an end already (after an answer that got lost, by this very call).
    pub async fn finish(&self, finishes: &[Finish], now_ms: u64) -> Result<Vec<Uuid>, Error> {
        let mut rows: Vec<&Finish> = finishes.iter().collect();
        rows.sort_by_key(|row| row.held.id);
        let written = retry(|| self.try_finish(&rows, now_ms)).await?;
        Ok(rows
            .iter()
            .map(|row| row.held.id)
            .filter(|id| !written.contains(id))
            .collect())
    }

    async fn try_finish(&self, rows: &[&Finish], now_ms: u64) -> Result<HashSet<Uuid>, Error> {
        let mut work = self.db.single().await?;
        // A fence is compared once `begin` has written it for this attempt; before that the attempt is enough.
        let query = work
            .query(
                "UPDATE outbox AS o SET
                    state = CASE WHEN f.not_tried AND o.unknown_since IS NOT NULL THEN 'unknown' ELSE f.state END,
                    due_at = coalesce(f.due_at, o.due_at),
                    lease_until = NULL,
                    tries = CASE WHEN f.not_tried AND o.sent_at IS NOT NULL THEN greatest(o.tries - 1, 0)
                        ELSE o.tries END,
                    sent_at = NULL,
                    unknown_since = CASE WHEN f.not_tried THEN o.unknown_since
                        WHEN f.state = 'unknown' THEN coalesce(o.sent_at, o.unknown_since, $1) END,
                    settled_at = CASE WHEN f.due_at IS NULL THEN $1 END,
                    payload = CASE WHEN f.due_at IS NULL AND o.erase_payload THEN '{}' ELSE o.payload END,
                    last_errcode = CASE WHEN f.not_tried THEN o.last_errcode ELSE f.errcode END,
                    last_error = CASE WHEN f.not_tried THEN o.last_error ELSE f.error END,
                    outcome = CASE WHEN f.not_tried THEN o.outcome ELSE f.answer END
                 FROM unnest($2::uuid[], $3::integer[], $4::bigint[], $5::bigint[], $6::text[], $7::timestamptz[],
                        $8::boolean[], $9::integer[], $10::text[], $11::jsonb[])
                    AS f (id, attempt, generation, counter, state, due_at, not_tried, errcode, error, answer)
                 WHERE o.id = f.id AND o.attempts = f.attempt AND o.state = 'running'
                    AND (o.sent_at IS NULL OR o.fence_generation IS NULL
                        OR (o.fence_generation, o.fence_counter) = (f.generation, f.counter))
                 RETURNING o.id",
            )
            .bind(at(now_ms))
            .bind(column(rows, |row| row.held.id))
            .bind(column(rows, |row| row.held.attempt))
            .bind(column(rows, |row| row.held.fence.map(|fence| signed(fence.generation))))
            .bind(column(rows, |row| row.held.fence.map(|fence| signed(fence.counter))))
            .bind(column(rows, |row| row.outcome.state().as_str()))
            .bind(column(rows, |row| at_option(row.outcome.due_ms())))
            .bind(column(rows, |row| matches!(row.outcome, Outcome::NotTried { .. })))
            .bind(column(rows, |row| row.errcode))
            .bind(column(rows, |row| clean_option(row.error.as_ref())))
            .bind(column(rows, |row| row.answer.as_ref().map(clean_json)));
        let written = work.fetch_all(query).await?;
        work.end().await?;
        written.iter().map(|row| row.value("id")).collect()
    }
}
