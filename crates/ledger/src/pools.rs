//! Pools of members that share incoming customers. Redis is told what stands here.

use allocation::{ChannelId, CorpId, MemberId, PoolId, Reason, Strategy, Weight};
use serde_json::{Value, json};

use crate::Error;
use crate::audit::{Trail, write};
use crate::connection::Db;
use crate::cursor::{Page, PageRequest, Window};
use crate::error::retry;
use crate::log_write::column;
use crate::members;
use crate::put::{Deleted, Precondition, Put};
use crate::row::Columns;
use crate::times::at;

mod rows;

use rows::{Found, lock, read, save, save_members, with_members};

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
    pub blocked: Option<Reason>,
}

/// What a caller wants a pool to be. Members are distinct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPool {
    pub name: String,
    pub strategy: Strategy,
    pub load_window_seconds: Option<u64>,
    pub members: Vec<(MemberId, Weight)>,
}

/// What Redis is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolVersion {
    pub id: PoolId,
    pub version: u64,
    pub deleted: bool,
}

impl Pool {
    /// As the audit shows it.
    fn json(&self) -> Value {
        let members = self.members.iter();
        let members =
            members.map(|member| json!({"member": member.userid, "weight": member.weight}));
        json!({
            "name": self.name,
            "strategy": self.strategy,
            "load_window_seconds": self.load_window_seconds,
            "members": members.collect::<Value>(),
        })
    }

    fn weights(&self) -> Vec<(MemberId, Weight)> {
        let members = self.members.iter();
        members
            .map(|member| (member.member.clone(), member.weight))
            .collect()
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT p.pool_id, p.name, p.strategy, p.load_window_seconds, p.version, p.created_at, p.updated_at,
                p.deleted_at FROM pools AS p WHERE p.corp_id = $1 ",
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

    /// Refused: the members that are not known.
    pub async fn put(
        &self,
        corp: &CorpId,
        id: &PoolId,
        new: &NewPool,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Put<Pool, Vec<MemberId>>, Error> {
        loop {
            let put = retry(|| self.try_put(corp, id, new, precondition, trail)).await?;
            if let Some(put) = put {
                return Ok(put);
            }
        }
    }

    /// None: somebody else has just made the row.
    async fn try_put(
        &self,
        corp: &CorpId,
        id: &PoolId,
        new: &NewPool,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Option<Put<Pool, Vec<MemberId>>>, Error> {
        let mut work = self.db.transaction().await?;
        let found = lock(&mut work, corp, id).await?;
        let before = found.as_ref().filter(|found| !found.deleted);
        let before = before.map(|found| found.pool.clone());
        if !precondition.holds(before.as_ref().map(|pool| pool.version)) {
            work.roll_back().await?;
            return Ok(Some(Put::Stale(before)));
        }
        let mut wanted = new.members.clone();
        wanted.sort();
        let ids = column(&wanted, |(member, _)| member.clone());
        let unknown = members::unknown(&mut work, corp, &ids).await?;
        if !unknown.is_empty() {
            work.roll_back().await?;
            return Ok(Some(Put::Refused(unknown)));
        }
        if let Some(before) = &before
            && before.name == new.name
            && before.strategy == new.strategy
            && before.load_window_seconds == new.load_window_seconds
            && before.weights() == wanted
        {
            let before = before.clone();
            work.roll_back().await?;
            return Ok(Some(Put::Same(before)));
        }
        // The version of a deleted pool goes on: Redis refuses an older one.
        let version = found.as_ref().map_or(1, |found| found.pool.version + 1);
        if !save(
            &mut work,
            corp,
            id,
            new,
            version,
            found.is_some(),
            before.is_some(),
            trail,
        )
        .await?
        {
            work.roll_back().await?;
            return Ok(None);
        }
        save_members(&mut work, corp, id, &wanted).await?;
        let after = lock(&mut work, corp, id).await?.map(|found| found.pool);
        let after = after.ok_or_else(|| Error::unreadable("pool", "it is gone"))?;
        let record = trail.record(
            "pool.put",
            format!("pools/{id}"),
            before.as_ref().map(Pool::json),
            Some(after.json()),
        );
        write(&mut work, corp, &[&record]).await?;
        work.commit().await?;
        Ok(Some(match before {
            Some(_) => Put::Changed(after),
            None => Put::Created(after),
        }))
    }

    /// Refused: the channels that lead to it.
    pub async fn delete(
        &self,
        corp: &CorpId,
        id: &PoolId,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Deleted<Pool, Vec<ChannelId>>, Error> {
        retry(|| self.try_delete(corp, id, precondition, trail)).await
    }

    async fn try_delete(
        &self,
        corp: &CorpId,
        id: &PoolId,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Deleted<Pool, Vec<ChannelId>>, Error> {
        let mut work = self.db.transaction().await?;
        let found = lock(&mut work, corp, id).await?;
        let Some(Found {
            pool: before,
            deleted: false,
        }) = found
        else {
            work.roll_back().await?;
            return Ok(Deleted::Absent);
        };
        if !precondition.holds(Some(before.version)) {
            work.roll_back().await?;
            return Ok(Deleted::Stale(before));
        }
        let query = work
            .query(
                "SELECT channel_id FROM channels WHERE corp_id = $1 AND pool_id = $2 AND deleted_at IS NULL
                 ORDER BY channel_id",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned());
        let rows = work.fetch_all(query).await?;
        if !rows.is_empty() {
            work.roll_back().await?;
            let channels = rows.iter().map(|row| row.parsed("channel_id"));
            return Ok(Deleted::Refused(channels.collect::<Result<_, _>>()?));
        }
        save_members(&mut work, corp, id, &[]).await?;
        let query = work
            .query(
                "UPDATE pools SET deleted_at = $3, updated_at = $3, version = version + 1
                 WHERE corp_id = $1 AND pool_id = $2",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(at(trail.now_ms));
        work.execute(query).await?;
        let record = trail.record(
            "pool.delete",
            format!("pools/{id}"),
            Some(before.json()),
            None,
        );
        write(&mut work, corp, &[&record]).await?;
        work.commit().await?;
        Ok(Deleted::Deleted(before))
    }
}
