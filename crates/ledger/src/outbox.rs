//! Effects to be done outside: claimed under a lease, begun with a fence, finished once.
//!
//! The life of a row: `claim` makes it ours for a while and numbers the attempt; `begin` is the last look before the
//! call leaves the house (a row that was cancelled or lost meanwhile is not sent), writes down the fence of the locks
//! that were taken and leases the row for the call; `finish` writes what came of it, if attempt and fence are still the
//! present ones. `reap` takes back what its holder lost: a claim may be much shorter than a call, because nothing is
//! lost with a row that was not begun. Nothing here knows what an effect does: the caller says which kinds may be
//! repeated.

mod claim;
mod dead;
mod finish;

use allocation::{AllocationId, CorpId};
use serde_json::Value;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::Error;
use crate::connection::Db;
use crate::row::Columns;

pub use claim::{Claim, Reaped, Unfinished};
pub use dead::GivenUp;
pub use finish::{Finish, Outcome};

#[derive(Debug, Clone)]
pub struct Outbox {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectState {
    Pending,
    Running,
    /// An attempt may have had its effect; to be looked up.
    Unknown,
    Done,
    /// Refused for good, or too late.
    Failed,
    /// Given up; a person decides.
    Dead,
    Cancelled,
}

impl EffectState {
    pub fn as_str(self) -> &'static str {
        match self {
            EffectState::Pending => "pending",
            EffectState::Running => "running",
            EffectState::Unknown => "unknown",
            EffectState::Done => "done",
            EffectState::Failed => "failed",
            EffectState::Dead => "dead",
            EffectState::Cancelled => "cancelled",
        }
    }
}

impl std::str::FromStr for EffectState {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<EffectState, Self::Err> {
        use EffectState::{Cancelled, Dead, Done, Failed, Pending, Running, Unknown};
        let all = [Pending, Running, Unknown, Done, Failed, Dead, Cancelled];
        all.into_iter()
            .find(|state| state.as_str() == text)
            .ok_or("no state of an effect")
    }
}

/// Number of a lock's owner: a later owner has a greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    pub generation: u64,
    pub counter: u64,
}

/// Proof that a row is ours: the claim that may go on with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub id: Uuid,
    pub attempt: i32,
    /// Of the locks the effect needs, once they are taken.
    pub fence: Option<Fence>,
}

#[derive(Clone, PartialEq)]
pub struct OutboxRow {
    pub id: Uuid,
    pub corp: CorpId,
    pub kind: String,
    pub key: String,
    pub allocation: Option<AllocationId>,
    pub epoch: Option<u64>,
    pub transfer: Option<Uuid>,
    pub payload: Value,
    pub priority: i16,
    pub state: EffectState,
    pub due_ms: u64,
    pub deadline_ms: Option<u64>,
    /// Claims so far; this claim's number.
    pub attempt: i32,
    /// Calls so far that may have left the house.
    pub tries: i32,
    /// Since when the last attempt's effect is unknown.
    pub unknown_since_ms: Option<u64>,
    pub fence: Option<Fence>,
    pub last_errcode: Option<i32>,
    pub last_error: Option<String>,
    pub outcome: Option<Value>,
    pub created_ms: u64,
    pub settled_ms: Option<u64>,
}

impl OutboxRow {
    pub fn held(&self) -> Held {
        Held {
            id: self.id,
            attempt: self.attempt,
            fence: None,
        }
    }

    pub fn held_with(&self, fence: Fence) -> Held {
        Held {
            fence: Some(fence),
            ..self.held()
        }
    }
}

/// Payload and answers may hold ids of customers and codes: not for logs.
impl std::fmt::Debug for OutboxRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutboxRow")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("state", &self.state)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// $1 corp, then one array for each column. Asked for already: left as it is.
pub(crate) const INSERT: &str = "INSERT INTO outbox (corp_id, id, kind, effect_key, allocation_id, epoch,
        transfer_id, payload, erase_payload, priority, due_at, deadline_at, created_at, state, settled_at)
    SELECT $1, n.id, n.kind, n.effect_key, n.allocation_id, n.epoch, n.transfer_id,
        CASE WHEN n.cancelled AND n.erase_payload THEN '{}' ELSE n.payload END, n.erase_payload, n.priority,
        n.due_at, n.deadline_at, n.created_at, CASE WHEN n.cancelled THEN 'cancelled' ELSE 'pending' END,
        CASE WHEN n.cancelled THEN n.created_at END
    FROM unnest($2::uuid[], $3::text[], $4::text[], $5::uuid[], $6::bigint[], $7::uuid[], $8::jsonb[],
            $9::boolean[], $10::smallint[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[],
            $14::boolean[])
        AS n (id, kind, effect_key, allocation_id, epoch, transfer_id, payload, erase_payload, priority, due_at,
            deadline_at, created_at, cancelled)
    ON CONFLICT (corp_id, kind, effect_key) DO NOTHING";

/// $1 time, $2 allocations, $3 their epochs: what belongs to earlier ones; null: everything of the allocation. What
/// may have left the house is not touched.
pub(crate) const CANCEL: &str = "UPDATE outbox AS o SET state = 'cancelled', settled_at = $1, lease_until = NULL,
        payload = CASE WHEN o.erase_payload THEN '{}' ELSE o.payload END
    FROM unnest($2::uuid[], $3::bigint[]) AS c (allocation_id, epoch)
    WHERE o.allocation_id = c.allocation_id AND (c.epoch IS NULL OR o.epoch < c.epoch)
        AND (o.state = 'pending' OR o.state = 'running' AND o.sent_at IS NULL AND o.unknown_since IS NULL)";

macro_rules! columns {
    () => {
        "o.id, o.corp_id, o.kind, o.effect_key, o.allocation_id, o.epoch, o.transfer_id, o.payload, o.priority,
         o.state, o.due_at, o.deadline_at, o.attempts, o.tries, o.unknown_since, o.fence_generation,
         o.fence_counter, o.last_errcode, o.last_error, o.outcome, o.created_at, o.settled_at"
    };
}
use columns;

fn read(row: &PgRow) -> Result<OutboxRow, Error> {
    let number = |name| {
        Ok::<_, Error>(
            row.value::<Option<i64>>(name)?
                .and_then(|number| u64::try_from(number).ok()),
        )
    };
    let fence = number("fence_generation")?.zip(number("fence_counter")?);
    Ok(OutboxRow {
        id: row.value("id")?,
        corp: row.parsed("corp_id")?,
        kind: row.value("kind")?,
        key: row.value("effect_key")?,
        allocation: row
            .value::<Option<Uuid>>("allocation_id")?
            .map(AllocationId),
        epoch: number("epoch")?,
        transfer: row.value("transfer_id")?,
        payload: row.value("payload")?,
        priority: row.value("priority")?,
        state: row.parsed("state")?,
        due_ms: row.ms("due_at")?,
        deadline_ms: row.ms_option("deadline_at")?,
        attempt: row.value("attempts")?,
        tries: row.value("tries")?,
        unknown_since_ms: row.ms_option("unknown_since")?,
        fence: fence.map(|(generation, counter)| Fence {
            generation,
            counter,
        }),
        last_errcode: row.value("last_errcode")?,
        last_error: row.value("last_error")?,
        outcome: row.value("outcome")?,
        created_ms: row.ms("created_at")?,
        settled_ms: row.ms_option("settled_at")?,
    })
}

fn read_all(rows: &[PgRow]) -> Result<Vec<OutboxRow>, Error> {
    rows.iter().map(read).collect()
}
