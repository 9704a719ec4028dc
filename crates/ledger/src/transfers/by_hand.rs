//! Ends that a person gives to a transfer of which nobody else could say what became of it.

use allocation::CorpId;
use serde_json::json;
use uuid::Uuid;

use super::{Transfer, TransferState, Transfers};
use crate::Error;
use crate::audit::{Trail, write};
use crate::error::retry;
use crate::times::at;

/// What the person found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The taker has the customer.
    Done,
    /// The giver has kept him.
    Kept,
    /// Nothing was started: it is to be asked for once more.
    Retry,
}

impl Found {
    pub fn as_str(self) -> &'static str {
        match self {
            Found::Done => "done",
            Found::Kept => "kept",
            Found::Retry => "retry",
        }
    }

    fn state(self) -> TransferState {
        match self {
            Found::Done => TransferState::Done,
            Found::Kept => TransferState::Failed,
            Found::Retry => TransferState::Planned,
        }
    }
}

/// What came of it, and the transfer as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    Changed(Transfer),
    /// It is as the person says already.
    Before(Transfer),
    /// It is nobody's turn, or has ended otherwise.
    NotStuck(Transfer),
    /// Its allocation is closed, carried out, or another member's: there is nothing to try again for.
    NoUse(Transfer),
}

impl Transfers {
    /// Writes down what a person found out about a transfer in `human`, in one transaction with the effect that would
    /// start it and with the audit. None: there is no such transfer.
    pub async fn resolve(
        &self,
        corp: &CorpId,
        id: Uuid,
        found: Found,
        trail: &Trail,
    ) -> Result<Option<Resolved>, Error> {
        let changed = retry(|| self.try_resolve(corp, id, found, trail)).await?;
        let Some(transfer) = self.get(corp, id).await? else {
            return Ok(None);
        };
        let as_said = match found {
            Found::Done | Found::Kept => transfer.state == found.state(),
            // It is under way again, or still.
            Found::Retry => transfer.ended_ms.is_none() && transfer.state != TransferState::Human,
        };
        Ok(Some(match transfer.state {
            _ if changed => Resolved::Changed(transfer),
            _ if as_said => Resolved::Before(transfer),
            TransferState::Human => Resolved::NoUse(transfer),
            _ => Resolved::NotStuck(transfer),
        }))
    }

    async fn try_resolve(
        &self,
        corp: &CorpId,
        id: Uuid,
        found: Found,
        trail: &Trail,
    ) -> Result<bool, Error> {
        // Tables in the order of the log's writer.
        let mut work = self.db.transaction().await?;
        if found == Found::Retry {
            let query = work
                .query(
                    "SELECT FROM allocations AS a WHERE a.corp_id = $1 AND a.closed_at IS NULL
                        AND a.settled_at IS NULL AND (a.id, a.member) =
                            (SELECT t.allocation_id, t.taker FROM transfers AS t WHERE t.id = $2)
                     FOR UPDATE",
                )
                .bind(corp.as_str())
                .bind(id);
            if work.fetch_optional(query).await?.is_none() {
                work.roll_back().await?;
                return Ok(false);
            }
        }
        // A call that is under way ends by itself; it changes nothing of what is said here.
        let query = match found {
            Found::Retry => work.query(
                "UPDATE outbox SET state = 'pending', due_at = $3, deadline_at = NULL, settled_at = NULL,
                    tries = 0, unknown_since = NULL, outcome = NULL, last_errcode = NULL, last_error = NULL
                 WHERE corp_id = $1 AND transfer_id = $2 AND state <> 'running' AND payload <> '{}'",
            ),
            Found::Done | Found::Kept => work.query(
                "UPDATE outbox SET state = 'cancelled', settled_at = $3
                 WHERE corp_id = $1 AND transfer_id = $2 AND state IN ('pending', 'unknown', 'dead')",
            ),
        };
        let effects = work
            .execute(query.bind(corp.as_str()).bind(id).bind(at(trail.now_ms)))
            .await?;
        if found == Found::Retry && effects == 0 {
            work.roll_back().await?;
            return Ok(false);
        }
        // What was not started spends none of the customer's moves.
        let query = work
            .query(
                "UPDATE transfers SET state = $3, next_check_at = NULL, unknown_since = NULL,
                    ended_at = CASE WHEN NOT $4 THEN $5 END,
                    started_at = CASE WHEN NOT $4 THEN started_at END,
                    takeover_at = CASE WHEN NOT $4 THEN takeover_at END,
                    raw_status = CASE WHEN NOT $4 THEN raw_status END,
                    checks = CASE WHEN $4 THEN 0 ELSE checks END
                 WHERE corp_id = $1 AND id = $2 AND state = 'human'",
            )
            .bind(corp.as_str())
            .bind(id)
            .bind(found.state().as_str())
            .bind(found == Found::Retry)
            .bind(at(trail.now_ms));
        if work.execute(query).await? == 0 {
            work.roll_back().await?;
            return Ok(false);
        }
        let record = trail.record(
            "transfer.resolve",
            format!("transfers/{id}"),
            Some(json!({"state": TransferState::Human.as_str()})),
            Some(json!({"found": found.as_str(), "state": found.state().as_str()})),
        );
        write(&mut work, corp, &[&record]).await?;
        work.commit().await?;
        Ok(true)
    }
}
