//! Groups that pools lack: how much they lack, who was asked for some, and what came of it.
//!
//! One process works on it at a time, and its lease may end without its knowing. So every step that supply takes by itself names
//! the fence of its lease, and a source of a pool that a later lease has written for takes nothing of an earlier one; and a pool
//! has one open task of each source, whoever writes.

mod adopt;
mod ask;
mod lack;
mod list;
mod rooms;
mod spare;

use std::str::FromStr;

use allocation::{ChatId, CorpId, GroupPoolId};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::Error;
use crate::connection::{Db, Work};
use crate::group_pools::SupplySource;
use crate::outbox::Fence;
use crate::row::{Columns, signed};
use crate::times::at;

pub use adopt::{Adopted, Completed, FoundGroup};
pub use ask::{NewSupplyTask, SupplyStep};
pub use lack::{ASKED_PART_MS, ASKED_PARTS, SuppliedPool};
pub use list::SupplyTaskFilter;
pub use rooms::{Armed, ArmedWay, MOST_OPENERS, SPARE_OPENERS};
pub use spare::Opened;

#[derive(Debug, Clone)]
pub struct SupplyTasks {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SupplyTaskState {
    /// Nothing was done yet.
    Wanted,
    /// Groups are on their way.
    Asked,
    /// They did not come in time; they may still.
    Overdue,
    Done,
    /// Given up for a while.
    Failed,
    Cancelled,
}

impl SupplyTaskState {
    pub const ALL: [Self; 6] = [
        Self::Wanted,
        Self::Asked,
        Self::Overdue,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wanted => "wanted",
            Self::Asked => "asked",
            Self::Overdue => "overdue",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn is_end(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

impl FromStr for SupplyTaskState {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let state = Self::ALL.into_iter().find(|state| state.as_str() == text);
        state.ok_or("no state of a supply task")
    }
}

impl SupplySource {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spare => "spare",
            Self::AutoRoom => "auto_room",
            Self::Person => "person",
        }
    }
}

impl FromStr for SupplySource {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::Spare, Self::AutoRoom, Self::Person];
        let source = all.into_iter().find(|source| source.as_str() == text);
        source.ok_or("no source of groups")
    }
}

/// What a pool was like when groups were asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SupplyWhy {
    pub free: u64,
    pub waiting: u64,
    /// Seats asked for a second.
    pub rate: f64,
}

/// Groups that a pool is to get from one source.
#[derive(Debug, Clone, PartialEq)]
pub struct SupplyTask {
    pub id: Uuid,
    pub pool: GroupPoolId,
    pub source: SupplySource,
    pub state: SupplyTaskState,
    pub n_groups: u32,
    /// Those that came.
    pub chats: Vec<ChatId>,
    /// `supply`, or who asked over the API.
    pub asked_by: String,
    pub why: SupplyWhy,
    /// As WeCom spells him: who makes groups by hand, or in whose name WeCom opens a room.
    pub keeper: Option<String>,
    /// Since when WeCom may know that it is to open a room.
    pub armed_ms: Option<u64>,
    /// People who were shown the code of a full group, so that WeCom opens a room.
    pub openers: u32,
    pub asked_ms: Option<u64>,
    pub reminded_ms: Option<u64>,
    pub deadline_ms: Option<u64>,
    pub next_try_ms: Option<u64>,
    pub tries: u32,
    pub last_errcode: Option<i64>,
    pub last_error: Option<String>,
    pub created_ms: u64,
    pub settled_ms: Option<u64>,
}

/// Who asked when nobody did.
pub const ASKED_BY_SUPPLY: &str = "supply";

impl SupplyTask {
    /// Groups that have not come yet.
    pub fn lacking(&self) -> u32 {
        let came = u32::try_from(self.chats.len()).unwrap_or(u32::MAX);
        self.n_groups.saturating_sub(came)
    }
}

macro_rules! columns {
    () => {
        "s.task_id, s.group_pool_id, s.source, s.state, s.n_groups, s.chats, s.asked_by, s.free, s.waiting, s.rate, s.keeper,
         s.armed_at, cardinality(s.openers) AS openers, s.asked_at, s.reminded_at, s.deadline_at, s.next_try_at, s.tries, s.last_errcode, s.last_error, s.created_at,
         s.settled_at"
    };
}
use columns;

fn read(row: &PgRow) -> Result<SupplyTask, Error> {
    Ok(SupplyTask {
        id: row.value("task_id")?,
        pool: row.parsed("group_pool_id")?,
        source: row.parsed("source")?,
        state: row.parsed("state")?,
        n_groups: row.small("n_groups")?,
        chats: chats(row)?,
        asked_by: row.value("asked_by")?,
        why: SupplyWhy {
            free: row.number("free")?,
            waiting: row.number("waiting")?,
            rate: row.value("rate")?,
        },
        keeper: row.value("keeper")?,
        armed_ms: row.ms_option("armed_at")?,
        openers: row.small("openers")?,
        asked_ms: row.ms_option("asked_at")?,
        reminded_ms: row.ms_option("reminded_at")?,
        deadline_ms: row.ms_option("deadline_at")?,
        next_try_ms: row.ms_option("next_try_at")?,
        tries: row.small("tries")?,
        last_errcode: row.value("last_errcode")?,
        last_error: row.value("last_error")?,
        created_ms: row.ms("created_at")?,
        settled_ms: row.ms_option("settled_at")?,
    })
}

fn chats(row: &PgRow) -> Result<Vec<ChatId>, Error> {
    let chats: Vec<String> = row.value("chats")?;
    let chats = chats.into_iter().map(ChatId::new);
    chats
        .collect::<Result<_, _>>()
        .map_err(|problem| Error::unreadable("chats", problem))
}

/// Nobody has written for the pool's source under a later lease. The pool is locked: nobody does meanwhile.
async fn is_ours(
    work: &mut Work,
    corp: &CorpId,
    pool: &GroupPoolId,
    source: SupplySource,
    fence: Fence,
) -> Result<bool, Error> {
    let query = work
        .query(
            "SELECT NOT EXISTS (SELECT FROM supply_tasks WHERE corp_id = $1 AND group_pool_id = $2 AND source = $5
                AND (generation, counter) > ($3, $4)) AS ours",
        )
        .bind(corp.as_str())
        .bind(pool.as_str().to_owned())
        .bind(signed(fence.generation))
        .bind(signed(fence.counter))
        .bind(source.as_str());
    work.fetch_one(query).await?.value("ours")
}

/// These sources of a pool are tried again at once; None: all of them. The pool is locked: nobody asks meanwhile.
pub(crate) async fn end_rests(
    work: &mut Work,
    corp: &CorpId,
    pool: &GroupPoolId,
    source: Option<SupplySource>,
) -> Result<(), Error> {
    let query = work
        .query(
            "UPDATE supply_tasks SET next_try_at = NULL
             WHERE corp_id = $1 AND group_pool_id = $2 AND ($3::text IS NULL OR source = $3)
                AND state IN ('failed', 'overdue', 'cancelled') AND next_try_at IS NOT NULL",
        )
        .bind(corp.as_str())
        .bind(pool.as_str().to_owned())
        .bind(source.map(SupplySource::as_str));
    work.execute(query).await?;
    Ok(())
}

/// Another keeper makes groups from now on: nobody waits for those of the one before.
pub(crate) async fn ask_nobody(
    work: &mut Work,
    corp: &CorpId,
    pool: &GroupPoolId,
    now_ms: u64,
) -> Result<(), Error> {
    let query = work
        .query(
            "UPDATE supply_tasks SET state = 'cancelled', settled_at = $3, next_try_at = NULL,
                last_error = 'the pool has another keeper by now'
             WHERE corp_id = $1 AND group_pool_id = $2 AND source = 'person' AND settled_at IS NULL",
        )
        .bind(corp.as_str())
        .bind(pool.as_str().to_owned())
        .bind(at(now_ms));
    work.execute(query).await?;
    Ok(())
}

impl crate::Ledger {
    /// Groups that pools lack.
    pub fn supply_tasks(&self) -> SupplyTasks {
        SupplyTasks {
            db: self.db.clone(),
        }
    }
}
