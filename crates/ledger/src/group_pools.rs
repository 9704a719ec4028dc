//! Pools of customer groups: campaigns fill them, one group after the other. Redis is told what stands here.

use allocation::{CampaignId, ChatId, CorpId, FillStrategy, GroupPoolId};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::audit::Trail;
use crate::configured::{self, Configured, Found, Listed};
use crate::connection::{Db, Work};
use crate::cursor::{Page, PageRequest};
use crate::group_caps::GroupCaps;
use crate::put::{Deleted, Precondition, Put};
use crate::row::{Columns, small};
use crate::supply::{ask_nobody, end_rests};
use crate::text::clean;
use crate::times::at;

mod rows;
mod supply;

use rows::{read, renew_groups};
pub use supply::{Supply, SupplySource};

/// Groups that are named where there may be many.
const MOST_NAMED: i64 = 20;

#[derive(Debug, Clone)]
pub struct GroupPools {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPool {
    pub id: GroupPoolId,
    pub name: String,
    pub strategy: FillStrategy,
    /// Of its groups that have no own ones.
    pub caps: GroupCaps,
    /// A visitor for whose tags no group has room gets any other group.
    pub any_group: bool,
    pub supply: Supply,
    pub version: u64,
    pub created_ms: u64,
    pub updated_ms: u64,
}

/// What a caller wants a group pool to be. Its caps are sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGroupPool {
    pub name: String,
    pub strategy: FillStrategy,
    pub caps: GroupCaps,
    pub any_group: bool,
    pub supply: Supply,
}

/// What is in a group pool or fills it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupPoolUsers {
    pub campaigns: Vec<CampaignId>,
    /// The first of them, by id.
    pub groups: Vec<ChatId>,
    pub n_groups: u64,
}

/// What Redis is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPoolVersion {
    pub id: GroupPoolId,
    pub version: u64,
    pub deleted: bool,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT p.group_pool_id, p.name, p.strategy, p.scan_cap, p.hard_cap, p.buffer, p.any_group, p.supply,
                p.version, p.created_at, p.updated_at, p.deleted_at FROM group_pools AS p WHERE p.corp_id = $1 ",
            $rest
        )
    };
}

impl GroupPools {
    pub async fn get(&self, corp: &CorpId, id: &GroupPoolId) -> Result<Option<GroupPool>, Error> {
        configured::get(&self.db, corp, id).await
    }

    /// All that are not deleted, by id.
    pub async fn all(&self, corp: &CorpId) -> Result<Vec<GroupPool>, Error> {
        configured::all(&self.db, corp).await
    }

    /// The latest first.
    pub async fn list(&self, corp: &CorpId, page: &PageRequest) -> Result<Page<GroupPool>, Error> {
        configured::list(&self.db, corp, page).await
    }

    /// Of all group pools that ever were.
    pub async fn versions(&self, corp: &CorpId) -> Result<Vec<GroupPoolVersion>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT group_pool_id, version, deleted_at FROM group_pools WHERE corp_id = $1
                 ORDER BY group_pool_id",
            )
            .bind(corp.as_str());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| {
                Ok(GroupPoolVersion {
                    id: row.parsed("group_pool_id")?,
                    version: row.number("version")?,
                    deleted: row.ms_option("deleted_at")?.is_some(),
                })
            })
            .collect()
    }

    /// Refused: its first groups whose own caps do not go with these. What changes its groups' caps is a new version of them.
    pub async fn put(
        &self,
        corp: &CorpId,
        id: &GroupPoolId,
        new: &NewGroupPool,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Put<GroupPool, Vec<ChatId>>, Error> {
        configured::put(&self.db, corp, id, new, precondition, trail).await
    }

    /// Refused: what is in it or fills it.
    pub async fn delete(
        &self,
        corp: &CorpId,
        id: &GroupPoolId,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Deleted<GroupPool, GroupPoolUsers>, Error> {
        configured::delete(&self.db, corp, id, precondition, trail).await
    }
}

impl Listed for GroupPool {
    const LIST: &'static str = "group_pools";
    const ONE: &'static str = select!("AND p.group_pool_id = $2 AND p.deleted_at IS NULL");
    const ALL: &'static str = select!("AND p.deleted_at IS NULL ORDER BY p.group_pool_id");
    const FORWARD: &'static str = select!(
        "AND p.deleted_at IS NULL AND ($2::timestamptz IS NULL OR (p.created_at, p.group_pool_id) < ($2, $3))
         ORDER BY p.created_at DESC, p.group_pool_id DESC LIMIT $4"
    );
    const BACKWARD: &'static str = select!(
        "AND p.deleted_at IS NULL AND ($2::timestamptz IS NULL OR (p.created_at, p.group_pool_id) > ($2, $3))
         ORDER BY p.created_at, p.group_pool_id LIMIT $4"
    );

    async fn read(_: &mut Work, _: &CorpId, rows: &[PgRow]) -> Result<Vec<Self>, Error> {
        rows.iter().map(read).collect()
    }

    fn place(&self) -> (u64, &str) {
        (self.created_ms, self.id.as_str())
    }
}

impl Configured for GroupPool {
    type Id = GroupPoolId;
    type New = NewGroupPool;
    type Misfit = Vec<ChatId>;
    type Use = GroupPoolUsers;
    const KIND: &'static str = "group_pool";

    fn version(&self) -> u64 {
        self.version
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "strategy": self.strategy,
            "scan_cap": self.caps.scan_cap,
            "hard_cap": self.caps.hard_cap,
            "buffer": self.caps.buffer,
            "any_group": self.any_group,
            "supply": self.supply.json(),
        })
    }

    fn is(&self, new: &NewGroupPool) -> bool {
        self.name == new.name
            && self.strategy == new.strategy
            && self.caps == new.caps
            && self.any_group == new.any_group
            && self.supply == new.supply
    }

    async fn lock(
        work: &mut Work,
        corp: &CorpId,
        id: &GroupPoolId,
    ) -> Result<Option<Found<GroupPool>>, Error> {
        let query = work
            .query(select!("AND p.group_pool_id = $2 FOR UPDATE"))
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
        id: &GroupPoolId,
        new: &NewGroupPool,
    ) -> Result<Option<Vec<ChatId>>, Error> {
        let query = work
            .query(
                "SELECT chat_id FROM groups WHERE corp_id = $1 AND group_pool_id = $2 AND deleted_at IS NULL
                    AND state <> 'dismissed' AND NOT (coalesce(buffer, $5) < coalesce(scan_cap, $3)
                        AND coalesce(scan_cap, $3) <= coalesce(hard_cap, $4))
                 ORDER BY chat_id LIMIT $6",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(small(new.caps.scan_cap))
            .bind(small(new.caps.hard_cap))
            .bind(small(new.caps.buffer))
            .bind(MOST_NAMED);
        let rows = work.fetch_all(query).await?;
        let groups = rows.iter().map(|row| row.parsed("chat_id"));
        let groups = groups.collect::<Result<Vec<_>, _>>()?;
        Ok(Some(groups).filter(|groups| !groups.is_empty()))
    }

    async fn save(
        work: &mut Work,
        corp: &CorpId,
        id: &GroupPoolId,
        new: &NewGroupPool,
        found: Option<&Found<GroupPool>>,
        now_ms: u64,
    ) -> Result<bool, Error> {
        let query = work
            .query(
                "INSERT INTO group_pools AS p
                    (corp_id, group_pool_id, name, strategy, scan_cap, hard_cap, buffer, any_group, supply, version,
                     created_at, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1, $10, $10)
                 ON CONFLICT (corp_id, group_pool_id) DO UPDATE SET name = $3, strategy = $4, scan_cap = $5, hard_cap = $6,
                    buffer = $7, any_group = $8, supply = $9, version = p.version + 1, updated_at = $10,
                    deleted_at = NULL, created_at = CASE WHEN p.deleted_at IS NULL THEN p.created_at ELSE $10 END
                 WHERE $11",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(clean(&new.name).into_owned())
            .bind(new.strategy.as_str())
            .bind(small(new.caps.scan_cap))
            .bind(small(new.caps.hard_cap))
            .bind(small(new.caps.buffer))
            .bind(new.any_group)
            .bind(new.supply.json())
            .bind(at(now_ms))
            .bind(found.is_some());
        if work.execute(query).await? == 0 {
            return Ok(false);
        }
        if let Some(before) = found.map(|found| found.row.caps) {
            renew_groups(work, corp, id, before, new.caps, now_ms).await?;
        }
        // What a source rests for may be mended by it.
        if let Some(before) = found
            .map(|found| &found.row.supply)
            .filter(|before| **before != new.supply)
        {
            end_rests(work, corp, id, None).await?;
            if before.keeper != new.supply.keeper {
                ask_nobody(work, corp, id, now_ms).await?;
            }
        }
        Ok(true)
    }

    async fn in_use(
        work: &mut Work,
        corp: &CorpId,
        id: &GroupPoolId,
    ) -> Result<Option<GroupPoolUsers>, Error> {
        let query = work
            .query(
                "SELECT campaign_id FROM campaigns WHERE corp_id = $1 AND group_pool_id = $2 AND deleted_at IS NULL
                 ORDER BY campaign_id",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned());
        let campaigns = work.fetch_all(query).await?;
        let campaigns = campaigns.iter().map(|row| row.parsed("campaign_id"));
        let campaigns = campaigns.collect::<Result<Vec<_>, _>>()?;
        let query = work
            .query(
                "SELECT chat_id, count(*) OVER () AS n_groups FROM groups WHERE corp_id = $1 AND group_pool_id = $2
                    AND deleted_at IS NULL AND state <> 'dismissed' ORDER BY chat_id LIMIT $3",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(MOST_NAMED);
        let rows = work.fetch_all(query).await?;
        let n_groups = rows.first().map(|row| row.number("n_groups")).transpose()?;
        let groups = rows.iter().map(|row| row.parsed("chat_id"));
        let users = GroupPoolUsers {
            campaigns,
            groups: groups.collect::<Result<Vec<_>, _>>()?,
            n_groups: n_groups.unwrap_or_default(),
        };
        Ok(Some(users).filter(|users| *users != GroupPoolUsers::default()))
    }

    async fn remove(
        work: &mut Work,
        corp: &CorpId,
        id: &GroupPoolId,
        now_ms: u64,
    ) -> Result<(), Error> {
        // Only groups that are no more can be left in it.
        let query = work
            .query(
                "UPDATE groups SET group_pool_id = NULL, version = version + 1, updated_at = $3
                 WHERE corp_id = $1 AND group_pool_id = $2",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(at(now_ms));
        work.execute(query).await?;
        let query = work
            .query(
                "UPDATE group_pools SET deleted_at = $3, updated_at = $3, version = version + 1
                 WHERE corp_id = $1 AND group_pool_id = $2",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(at(now_ms));
        work.execute(query).await?;
        Ok(())
    }
}
