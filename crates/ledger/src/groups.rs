//! Customer groups at WeCom that we know of: where operators put them, and what WeCom said of them when they were last read.
//! Who is in a group is not here.

use allocation::{ChatId, CorpId, GroupPoolId, GroupTag, MAX_GROUPS};
use serde_json::{Value, json};

use crate::Error;
use crate::audit::Trail;
use crate::configured::{self, Configured, Found};
use crate::connection::{Db, Work};
use crate::cursor::{Page, PageRequest, Window};
use crate::group_caps::{GroupCaps, OwnCaps};
use crate::log_write::column;
use crate::put::{Deleted, Precondition, Put};
use crate::row::{Columns, small};
use crate::times::at;

mod due;
mod reads;
mod rows;
mod versions;
mod ways;
mod words;

pub use due::{Doubt, GroupCounts, GroupDoubt, GroupKnown};
pub use reads::{GroupRead, Imported, NewImport};
pub(crate) use rows::{n_groups, pool_caps};
use rows::{read, tags_column};
pub use versions::GroupVersion;
pub use words::{GroupSource, GroupState};

const LIST: &str = "groups";

#[derive(Debug, Clone)]
pub struct Groups {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub id: ChatId,
    /// None: filled by nobody.
    pub pool: Option<GroupPoolId>,
    pub rank: u32,
    pub own_caps: OwnCaps,
    /// With those of its pool; None where it is in none.
    pub caps: Option<GroupCaps>,
    /// Distinct, in order.
    pub tags: Vec<GroupTag>,
    pub state: GroupState,
    pub source: GroupSource,
    /// None: it was never read.
    pub said: Option<GroupSaid>,
    /// Why it could not be read the last time.
    pub problem: Option<GroupProblem>,
    /// Since when a code of a campaign has led into it; None: none ever did, and nobody is shown it.
    pub way_ms: Option<u64>,
    pub version: u64,
    pub created_ms: u64,
    pub updated_ms: u64,
}

/// What WeCom says of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSaid {
    /// Empty when it has none of its own.
    pub name: String,
    /// As WeCom spells it.
    pub owner: String,
    /// Everybody who is in it, the corp's own people too.
    pub member_count: u32,
    pub member_version: Option<String>,
    pub read_ms: u64,
}

/// Why a group could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupProblem {
    /// WeCom's number, where it gave one.
    pub errcode: Option<i64>,
    pub error: String,
}

/// What a caller wants a group to be. Its state is not `Dismissed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGroup {
    pub pool: Option<GroupPoolId>,
    pub rank: u32,
    pub caps: OwnCaps,
    /// Distinct, in order.
    pub tags: Vec<GroupTag>,
    pub state: GroupState,
}

/// Why a group cannot be like this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupRefused {
    NoPool,
    /// The pool has as many groups as it can have.
    PoolFull(usize),
    /// With the pool's numbers its own make no sense.
    Caps(GroupCaps),
    /// It is no more at WeCom.
    Dismissed,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFilter {
    pub pool: Option<GroupPoolId>,
    pub state: Option<GroupState>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT g.chat_id, g.group_pool_id, g.rank, g.scan_cap, g.hard_cap, g.buffer, g.tags, g.state, g.source, g.name,
                g.owner, g.member_count, g.member_version, g.read_at, g.last_errcode, g.last_error, g.way_at,
                g.version,
                g.created_at, g.updated_at, g.deleted_at,
                p.scan_cap AS pool_scan_cap, p.hard_cap AS pool_hard_cap, p.buffer AS pool_buffer
             FROM groups AS g
             LEFT JOIN group_pools AS p ON p.corp_id = g.corp_id AND p.group_pool_id = g.group_pool_id
             WHERE g.corp_id = $1 ",
            $rest
        )
    };
}

macro_rules! list {
    ($rest:literal) => {
        concat!(
            select!(
                "AND g.deleted_at IS NULL AND ($2::text IS NULL OR g.group_pool_id = $2)
                 AND ($3::text IS NULL OR g.state = $3) "
            ),
            $rest
        )
    };
}

const FORWARD: &str = list!(
    "AND ($4::timestamptz IS NULL OR (g.created_at, g.chat_id) < ($4, $5))
     ORDER BY g.created_at DESC, g.chat_id DESC LIMIT $6"
);
const BACKWARD: &str = list!(
    "AND ($4::timestamptz IS NULL OR (g.created_at, g.chat_id) > ($4, $5))
     ORDER BY g.created_at, g.chat_id LIMIT $6"
);

impl Groups {
    pub async fn get(&self, corp: &CorpId, id: &ChatId) -> Result<Option<Group>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(select!("AND g.chat_id = $2 AND g.deleted_at IS NULL"))
            .bind(corp.as_str())
            .bind(id.as_str().to_owned());
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(read).transpose()
    }

    /// Those of these that are not deleted.
    pub async fn get_many(&self, corp: &CorpId, ids: &[ChatId]) -> Result<Vec<Group>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(select!(
                "AND g.chat_id = ANY($2) AND g.deleted_at IS NULL ORDER BY g.chat_id"
            ))
            .bind(corp.as_str())
            .bind(column(ids, |id| id.as_str().to_owned()));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read).collect()
    }

    /// Those of a pool that are not deleted, in its order.
    pub async fn of_pool(&self, corp: &CorpId, pool: &GroupPoolId) -> Result<Vec<Group>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(select!(
                "AND g.group_pool_id = $2 AND g.deleted_at IS NULL ORDER BY g.rank, g.chat_id COLLATE \"C\""
            ))
            .bind(corp.as_str())
            .bind(pool.as_str().to_owned());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read).collect()
    }

    /// The latest first.
    pub async fn list(
        &self,
        corp: &CorpId,
        filter: &GroupFilter,
        page: &PageRequest,
    ) -> Result<Page<Group>, Error> {
        let window = Window::read(page, LIST)?;
        let mut work = self.db.single().await?;
        let query = work
            .query_once(if window.is_backward() {
                BACKWARD
            } else {
                FORWARD
            })
            .bind(corp.as_str())
            .bind(filter.pool.as_ref().map(|pool| pool.as_str().to_owned()))
            .bind(filter.state.map(GroupState::as_str))
            .bind(window.time())
            .bind(window.id().map(str::to_owned))
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let groups = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(window.page(LIST, groups, |group| {
            (at(group.created_ms), group.id.as_str().to_owned())
        }))
    }

    pub async fn put(
        &self,
        corp: &CorpId,
        id: &ChatId,
        new: &NewGroup,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Put<Group, GroupRefused>, Error> {
        configured::put(&self.db, corp, id, new, precondition, trail).await
    }

    /// Forgets it; at WeCom it stays as it is.
    pub async fn delete(
        &self,
        corp: &CorpId,
        id: &ChatId,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Deleted<Group, std::convert::Infallible>, Error> {
        configured::delete(&self.db, corp, id, precondition, trail).await
    }
}

impl Configured for Group {
    type Id = ChatId;
    type New = NewGroup;
    type Misfit = GroupRefused;
    type Use = std::convert::Infallible;
    const KIND: &'static str = "group";

    fn version(&self) -> u64 {
        self.version
    }

    fn json(&self) -> Value {
        json!({
            "group_pool": self.pool,
            "rank": self.rank,
            "scan_cap": self.own_caps.scan_cap,
            "hard_cap": self.own_caps.hard_cap,
            "buffer": self.own_caps.buffer,
            "tags": self.tags,
            "state": self.state.as_str(),
            "source": self.source.as_str(),
        })
    }

    fn is(&self, new: &NewGroup) -> bool {
        self.pool == new.pool
            && self.rank == new.rank
            && self.own_caps == new.caps
            && self.tags == new.tags
            && self.state == new.state
    }

    async fn lock(
        work: &mut Work,
        corp: &CorpId,
        id: &ChatId,
    ) -> Result<Option<Found<Group>>, Error> {
        let query = work
            .query(select!("AND g.chat_id = $2 FOR UPDATE OF g"))
            .bind(corp.as_str())
            .bind(id.as_str().to_owned());
        let Some(row) = work.fetch_optional(query).await? else {
            return Ok(None);
        };
        let deleted = row.ms_option("deleted_at")?.is_some();
        let row = read(&row)?;
        Ok(Some(Found { row, deleted }))
    }

    async fn misfit(
        work: &mut Work,
        corp: &CorpId,
        id: &ChatId,
        new: &NewGroup,
    ) -> Result<Option<GroupRefused>, Error> {
        let query = work
            .query(
                "SELECT FROM groups WHERE corp_id = $1 AND chat_id = $2 AND deleted_at IS NULL AND state = 'dismissed'",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned());
        if work.fetch_optional(query).await?.is_some() {
            return Ok(Some(GroupRefused::Dismissed));
        }
        let Some(pool) = &new.pool else {
            return Ok(None);
        };
        let Some(caps) = pool_caps(work, corp, pool).await? else {
            return Ok(Some(GroupRefused::NoPool));
        };
        let caps = new.caps.in_pool(caps);
        if !caps.is_sound() {
            return Ok(Some(GroupRefused::Caps(caps)));
        }
        let others = n_groups(work, corp, pool, Some(id)).await?;
        Ok((others >= MAX_GROUPS).then_some(GroupRefused::PoolFull(MAX_GROUPS)))
    }

    async fn save(
        work: &mut Work,
        corp: &CorpId,
        id: &ChatId,
        new: &NewGroup,
        found: Option<&Found<Group>>,
        now_ms: u64,
    ) -> Result<bool, Error> {
        // What WeCom said of it outlasts a deletion; who brought it back does not.
        let query = work
            .query(
                "INSERT INTO groups AS g
                    (corp_id, chat_id, group_pool_id, rank, scan_cap, hard_cap, buffer, tags, state, source, version,
                     created_at, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1, $11, $11)
                 ON CONFLICT (corp_id, chat_id) DO UPDATE SET group_pool_id = $3, rank = $4, scan_cap = $5, hard_cap = $6,
                    buffer = $7, tags = $8, state = $9, version = g.version + 1, updated_at = $11, deleted_at = NULL,
                    unplaced = false,
                    way_at = CASE WHEN g.group_pool_id IS NOT DISTINCT FROM $3 THEN g.way_at END,
                    source = CASE WHEN g.deleted_at IS NULL THEN g.source ELSE $10 END,
                    created_at = CASE WHEN g.deleted_at IS NULL THEN g.created_at ELSE $11 END
                 WHERE $12",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(new.pool.as_ref().map(|pool| pool.as_str().to_owned()))
            .bind(small(new.rank))
            .bind(new.caps.scan_cap.map(small))
            .bind(new.caps.hard_cap.map(small))
            .bind(new.caps.buffer.map(small))
            .bind(tags_column(&new.tags))
            .bind(new.state.as_str())
            .bind(GroupSource::Console.as_str())
            .bind(at(now_ms))
            .bind(found.is_some());
        Ok(work.execute(query).await? > 0)
    }

    async fn in_use(
        _: &mut Work,
        _: &CorpId,
        _: &ChatId,
    ) -> Result<Option<std::convert::Infallible>, Error> {
        Ok(None)
    }

    async fn remove(work: &mut Work, corp: &CorpId, id: &ChatId, now_ms: u64) -> Result<(), Error> {
        let query = work
            .query(
                "UPDATE groups SET deleted_at = $3, updated_at = $3, version = version + 1, group_pool_id = NULL,
                    way_at = NULL
                 WHERE corp_id = $1 AND chat_id = $2",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(at(now_ms));
        work.execute(query).await?;
        Ok(())
    }
}
