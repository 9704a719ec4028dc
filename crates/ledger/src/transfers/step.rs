//! What becomes of transfers, step by step. A transfer never steps back, and an end is an end.

use std::collections::{BTreeMap, HashSet};

use uuid::Uuid;

use super::{TransferState, Transfers};
use crate::Error;
use crate::error::retry;
use crate::log_write::column;
use crate::row::Columns;
use crate::times::{at, at_option};

/// What was learnt about one transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferStep {
    pub id: Uuid,
    pub to: TransferState,
    pub errcode: Option<i32>,
    pub raw_status: Option<i32>,
    /// Set once: the first start stands.
    pub started_ms: Option<u64>,
    /// It turned out that it was never accepted: it counts as no move.
    pub never_started: bool,
    pub takeover_ms: Option<u64>,
    pub next_check_ms: Option<u64>,
    /// The next check as it was when WeCom was asked: an earlier one stands, because whoever asked for it meanwhile
    /// knows of something newer than the answer.
    pub asked_check_ms: Option<u64>,
}

impl TransferStep {
    pub fn new(id: Uuid, to: TransferState) -> TransferStep {
        TransferStep {
            id,
            to,
            errcode: None,
            raw_status: None,
            started_ms: None,
            never_started: false,
            takeover_ms: None,
            next_check_ms: None,
            asked_check_ms: None,
        }
    }
}

impl Transfers {
    /// Takes steps; answers the transfers that took theirs. The others are at an end, or further on: a later look
    /// knew more.
    pub async fn advance(
        &self,
        steps: &[TransferStep],
        now_ms: u64,
    ) -> Result<HashSet<Uuid>, Error> {
        // One step each in a call: the last.
        let last: BTreeMap<Uuid, &TransferStep> =
            steps.iter().map(|step| (step.id, step)).collect();
        let rows: Vec<&TransferStep> = last.into_values().collect();
        retry(|| self.try_advance(&rows, now_ms)).await
    }

    async fn try_advance(
        &self,
        rows: &[&TransferStep],
        now_ms: u64,
    ) -> Result<HashSet<Uuid>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE transfers AS t SET
                    state = s.state,
                    errcode = coalesce(s.errcode, t.errcode),
                    raw_status = coalesce(s.raw_status, t.raw_status),
                    started_at = CASE WHEN s.never_started THEN NULL ELSE coalesce(t.started_at, s.started_at) END,
                    takeover_at = coalesce(s.takeover_at, t.takeover_at),
                    next_check_at = CASE WHEN s.is_end THEN NULL
                        WHEN t.next_check_at < s.asked_check_at THEN least(t.next_check_at, s.next_check_at)
                        ELSE s.next_check_at END,
                    unknown_since = CASE WHEN s.state = 'unknown' THEN coalesce(t.unknown_since, $1) END,
                    ended_at = CASE WHEN s.is_end THEN $1 END
                 FROM unnest($2::uuid[], $3::text[], $4::integer[], $5::integer[], $6::integer[],
                        $7::timestamptz[], $8::boolean[], $9::timestamptz[], $10::timestamptz[],
                        $11::timestamptz[], $12::boolean[])
                    AS s (id, state, level, errcode, raw_status, started_at, never_started, takeover_at,
                        next_check_at, asked_check_at, is_end)
                 WHERE t.id = s.id AND t.ended_at IS NULL AND s.level >= CASE t.state
                    WHEN 'planned' THEN 0 WHEN 'submitted' THEN 1 WHEN 'unknown' THEN 1 ELSE 2 END
                 RETURNING t.id",
            )
            .bind(at(now_ms))
            .bind(column(rows, |step| step.id))
            .bind(column(rows, |step| step.to.as_str()))
            .bind(column(rows, |step| step.to.level()))
            .bind(column(rows, |step| step.errcode))
            .bind(column(rows, |step| step.raw_status))
            .bind(column(rows, |step| at_option(step.started_ms)))
            .bind(column(rows, |step| step.never_started))
            .bind(column(rows, |step| at_option(step.takeover_ms)))
            .bind(column(rows, |step| at_option(step.next_check_ms)))
            .bind(column(rows, |step| at_option(step.asked_check_ms)))
            .bind(column(rows, |step| step.to.is_end()));
        let taken = work.fetch_all(query).await?;
        work.end().await?;
        taken.iter().map(|row| row.value("id")).collect()
    }
}
