//! Pools of members that share incoming customers. Redis is told what stands here.

use std::collections::BTreeMap;

use allocation::{
    ChannelId, CorpId, Limits, MemberId, OfferRule, PoolId, Reason, Strategy, Weight,
};
use serde_json::{Value, json};

use crate::Error;
use crate::audit::Trail;
use crate::configured::{self, Configured, Found};
use crate::connection::{Db, Work};
use crate::cursor::{Page, PageRequest, Window};
use crate::log_write::column;
use crate::members;
use crate::pool_versions;
use crate::put::{Deleted, Precondition, Put};
use crate::row::Columns;
use crate::times::at;

mod content;
mod routing;
mod rows;

pub use routing::{Fallback, Otherwise, PoolWait, Relax, Routing, Sticky};
use rows::{lock, read, save, save_members, with_members};

const LIST: &str = "pools";

#[derive(Debug, Clone)]
pub struct Pools {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub id: PoolId,
    pub name: String,
    pub strategy: Strategy,
    /// Open allocations end by themselves this long after the decision.
    pub load_window_seconds: Option<u64>,
    /// Members are asked before they are given anybody.
    pub offers: Option<OfferRule>,
    pub routing: Routing,
    /// By id.
    pub members: Vec<PoolMember>,
    pub version: u64,
    pub created_ms: u64,
    pub updated_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolMember {
    pub member: MemberId,
    pub userid: String,
    pub weight: Weight,
    /// In this pool, beside those over all pools.
    pub limits: Limits,
    pub blocked: Option<Reason>,
}

/// What a caller wants a pool to be. Members are distinct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPool {
    pub name: String,
    pub strategy: Strategy,
    pub load_window_seconds: Option<u64>,
    /// Whole seconds.
    pub offers: Option<OfferRule>,
    pub routing: Routing,
    pub members: Vec<(MemberId, Weight)>,
    /// Of those who have any in this pool.
    pub limits: BTreeMap<MemberId, Limits>,
}

impl NewPool {
    /// The members in the order of their keys: whoever locks several rows does it in this order.
    fn sorted(&self) -> Vec<(MemberId, Weight)> {
        let mut members = self.members.clone();
        members.sort();
        members
    }

    fn limits_of(&self, member: &MemberId) -> Limits {
        self.limits.get(member).copied().unwrap_or_default()
    }
}

/// Why a pool cannot be like this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolRefused {
    /// Members that are not known.
    Unknown(Vec<MemberId>),
    /// Pools that it leads to and that are not there.
    NoPools(Vec<PoolId>),
    /// It would ask its members, and these channels have a public page, which shows a member at once.
    Visits(Vec<ChannelId>),
}

/// What leads to a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolUsers {
    pub channels: Vec<ChannelId>,
    /// Whose fallback it is.
    pub pools: Vec<PoolId>,
}

/// What Redis is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolVersion {
    pub id: PoolId,
    pub version: u64,
    pub deleted: bool,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT p.pool_id, p.name, p.strategy, p.load_window_seconds, p.offer_accept_seconds, p.offer_tries, p.routing,
                p.version, p.created_at, p.updated_at, p.deleted_at FROM pools AS p WHERE p.corp_id = $1 ",
            $rest
        )
    };
}

use select;

const FORWARD: &str = select!(
    "AND p.deleted_at IS NULL AND ($2::timestamptz IS NULL OR (p.created_at, p.pool_id) < ($2, $3))
     ORDER BY p.created_at DESC, p.pool_id DESC LIMIT $4"
);
const BACKWARD: &str = select!(
    "AND p.deleted_at IS NULL AND ($2::timestamptz IS NULL OR (p.created_at, p.pool_id) > ($2, $3))
     ORDER BY p.created_at, p.pool_id LIMIT $4"
);

impl Pools {
    pub async fn get(&self, corp: &CorpId, id: &PoolId) -> Result<Option<Pool>, Error> {
        Ok(self.get_many(corp, std::slice::from_ref(id)).await?.pop())
    }

    /// In no particular order; deleted ones are left out.
    pub async fn get_many(&self, corp: &CorpId, ids: &[PoolId]) -> Result<Vec<Pool>, Error> {
        let mut work = self.db.transaction().await?;
        let query = work
            .query(select!("AND p.pool_id = ANY($2) AND p.deleted_at IS NULL"))
            .bind(corp.as_str())
            .bind(column(ids, |id| id.as_str().to_owned()));
        let rows = work.fetch_all(query).await?;
        let pools = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let pools = with_members(&mut work, corp, pools).await?;
        work.commit().await?;
        Ok(pools)
    }

    /// The latest first.
    pub async fn list(&self, corp: &CorpId, page: &PageRequest) -> Result<Page<Pool>, Error> {
        let window = Window::read(page, LIST)?;
        let mut work = self.db.transaction().await?;
        let query = work
            .query_once(if window.is_backward() {
                BACKWARD
            } else {
                FORWARD
            })
            .bind(corp.as_str())
            .bind(window.time())
            .bind(window.id().map(str::to_owned))
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        let pools = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let pools = with_members(&mut work, corp, pools).await?;
        work.commit().await?;
        Ok(window.page(LIST, pools, |pool| {
            (at(pool.created_ms), pool.id.as_str().to_owned())
        }))
    }

    /// Of all pools that ever were.
    pub async fn versions(&self, corp: &CorpId) -> Result<Vec<PoolVersion>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(select!("ORDER BY p.pool_id"))
            .bind(corp.as_str());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| {
                Ok(PoolVersion {
                    id: row.parsed("pool_id")?,
                    version: row.number("version")?,
                    deleted: row.ms_option("deleted_at")?.is_some(),
                })
            })
            .collect()
    }

    pub async fn put(
        &self,
        corp: &CorpId,
        id: &PoolId,
        new: &NewPool,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Put<Pool, PoolRefused>, Error> {
        configured::put(&self.db, corp, id, new, precondition, trail).await
    }

    /// Refused: what leads to it.
    pub async fn delete(
        &self,
        corp: &CorpId,
        id: &PoolId,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Deleted<Pool, PoolUsers>, Error> {
        configured::delete(&self.db, corp, id, precondition, trail).await
    }
}

impl Configured for Pool {
    type Id = PoolId;
    type New = NewPool;
    type Misfit = PoolRefused;
    type Use = PoolUsers;
    const KIND: &'static str = "pool";

    fn version(&self) -> u64 {
        self.version
    }

    fn json(&self) -> Value {
        let members = self.members.iter();
        let members = members.map(|member| {
            let limits = member.limits;
            json!({"member": member.userid, "weight": member.weight, "cap": limits.at_a_time,
                "per_hour": limits.per_hour, "per_day": limits.per_day})
        });
        json!({
            "name": self.name,
            "strategy": self.strategy,
            "load_window_seconds": self.load_window_seconds,
            "offers": self.offers.map(|rule|
                json!({"accept_seconds": rule.accept_ms / 1_000, "tries": rule.tries})),
            "routing": self.routing.column(),
            "members": members.collect::<Value>(),
        })
    }

    fn is(&self, new: &NewPool) -> bool {
        let members = self.members.iter();
        self.name == new.name
            && self.strategy == new.strategy
            && self.load_window_seconds == new.load_window_seconds
            && self.offers == new.offers
            && self.routing == new.routing
            && members
                .map(|place| (&place.member, place.weight, place.limits))
                .eq(new
                    .sorted()
                    .iter()
                    .map(|(member, weight)| (member, *weight, new.limits_of(member))))
    }

    async fn lock(
        work: &mut Work,
        corp: &CorpId,
        id: &PoolId,
    ) -> Result<Option<Found<Pool>>, Error> {
        lock(work, corp, id).await
    }

    async fn misfit(
        work: &mut Work,
        corp: &CorpId,
        id: &PoolId,
        new: &NewPool,
    ) -> Result<Option<PoolRefused>, Error> {
        let ids = column(&new.sorted(), |(member, _)| member.clone());
        let unknown = members::unknown(work, corp, &ids).await?;
        if !unknown.is_empty() {
            return Ok(Some(PoolRefused::Unknown(unknown)));
        }
        let missing = missing(work, corp, &new.routing.pools()).await?;
        if !missing.is_empty() {
            return Ok(Some(PoolRefused::NoPools(missing)));
        }
        if new.offers.is_none() {
            return Ok(None);
        }
        // The pool's row is ours: whoever leads a channel with a page here waits for it, or is seen.
        let query = work
            .query(
                "SELECT channel_id FROM channels WHERE corp_id = $1 AND pool_id = $2 AND deleted_at IS NULL
                    AND slots_per_member IS NOT NULL ORDER BY channel_id",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned());
        let channels = channel_ids(&work.fetch_all(query).await?)?;
        Ok((!channels.is_empty()).then_some(PoolRefused::Visits(channels)))
    }

    async fn save(
        work: &mut Work,
        corp: &CorpId,
        id: &PoolId,
        new: &NewPool,
        found: Option<&Found<Pool>>,
        now_ms: u64,
    ) -> Result<bool, Error> {
        if !save(work, corp, id, new, found, now_ms).await? {
            return Ok(false);
        }
        let members = new.sorted().into_iter();
        let members = members.map(|(member, weight)| {
            let limits = new.limits_of(&member);
            (member, weight, limits)
        });
        save_members(work, corp, id, &members.collect::<Vec<_>>()).await?;
        Ok(true)
    }

    async fn keep(
        work: &mut Work,
        corp: &CorpId,
        id: &PoolId,
        version: u64,
        after: Option<&Self>,
        trail: &Trail,
    ) -> Result<(), Error> {
        let content = after.map(Pool::content);
        pool_versions::keep(work, corp, id, version, content.as_ref(), trail).await
    }

    async fn in_use(
        work: &mut Work,
        corp: &CorpId,
        id: &PoolId,
    ) -> Result<Option<PoolUsers>, Error> {
        let query = work
            .query(
                "SELECT channel_id FROM channels WHERE corp_id = $1 AND pool_id = $2 AND deleted_at IS NULL
                 ORDER BY channel_id",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned());
        let channels = channel_ids(&work.fetch_all(query).await?)?;
        let query = work
            .query(
                "SELECT pool_id FROM pools WHERE corp_id = $1 AND deleted_at IS NULL AND routing->'fallbacks' @> $2
                 ORDER BY pool_id",
            )
            .bind(corp.as_str())
            .bind(json!([{"pool": id}]));
        let pools = pool_ids(&work.fetch_all(query).await?)?;
        let users = PoolUsers { channels, pools };
        Ok(Some(users).filter(|users| *users != PoolUsers::default()))
    }

    async fn remove(work: &mut Work, corp: &CorpId, id: &PoolId, now_ms: u64) -> Result<(), Error> {
        save_members(work, corp, id, &[]).await?;
        let query = work
            .query(
                "UPDATE pools SET deleted_at = $3, updated_at = $3, version = version + 1, routing = NULL
                 WHERE corp_id = $1 AND pool_id = $2",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(at(now_ms));
        work.execute(query).await?;
        Ok(())
    }
}

/// Those of these pools that are not there; the others stay while the transaction lasts.
async fn missing(work: &mut Work, corp: &CorpId, pools: &[PoolId]) -> Result<Vec<PoolId>, Error> {
    if pools.is_empty() {
        return Ok(Vec::new());
    }
    let query = work
        .query(
            "SELECT pool_id FROM pools WHERE corp_id = $1 AND pool_id = ANY($2) AND deleted_at IS NULL
             ORDER BY pool_id FOR SHARE",
        )
        .bind(corp.as_str())
        .bind(column(pools, |pool| pool.as_str().to_owned()));
    let there = pool_ids(&work.fetch_all(query).await?)?;
    let missing = pools.iter().filter(|pool| !there.contains(pool));
    Ok(missing.cloned().collect())
}

fn pool_ids(rows: &[sqlx::postgres::PgRow]) -> Result<Vec<PoolId>, Error> {
    rows.iter().map(|row| row.parsed("pool_id")).collect()
}

fn channel_ids(rows: &[sqlx::postgres::PgRow]) -> Result<Vec<ChannelId>, Error> {
    rows.iter().map(|row| row.parsed("channel_id")).collect()
}
