//! Pools of members that share incoming customers. Redis is told what stands here.

use allocation::{ChannelId, CorpId, MemberId, PoolId, Reason, Strategy, Weight};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::audit::{Trail, write};
use crate::connection::{Db, Work};
use crate::cursor::{Page, PageRequest, Window};
use crate::error::retry;
use crate::log_write::column;
use crate::members;
use crate::put::{Deleted, Precondition, Put};
use crate::row::{Columns, signed};
use crate::text::clean;
use crate::times::at;

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

#[derive(Debug)]
struct Found {
    pool: Pool,
    deleted: bool,
}

async fn lock(work: &mut Work, corp: &CorpId, id: &PoolId) -> Result<Option<Found>, Error> {
    let query = work
        .query(select!("AND p.pool_id = $2 FOR UPDATE"))
        .bind(corp.as_str())
        .bind(id.as_str().to_owned());
    let Some(row) = work.fetch_optional(query).await? else {
        return Ok(None);
    };
    let deleted = row.ms_option("deleted_at")?.is_some();
    let pools = with_members(work, corp, vec![read(&row)?]).await?;
    Ok(pools.into_iter().next().map(|pool| Found { pool, deleted }))
}

/// False: somebody else has just made the row.
#[expect(clippy::too_many_arguments, reason = "the columns of one row")]
async fn save(
    work: &mut Work,
    corp: &CorpId,
    id: &PoolId,
    new: &NewPool,
    version: u64,
    row_exists: bool,
    pool_exists: bool,
    trail: &Trail,
) -> Result<bool, Error> {
    let query = if row_exists {
        work.query(
            "UPDATE pools SET name = $3, strategy = $4, load_window_seconds = $5, version = $6, updated_at = $7,
                deleted_at = NULL, created_at = CASE WHEN $8 THEN created_at ELSE $7 END
             WHERE corp_id = $1 AND pool_id = $2",
        )
    } else {
        work.query(
            "INSERT INTO pools (corp_id, pool_id, name, strategy, load_window_seconds, version, created_at, updated_at)
             SELECT $1, $2, $3, $4, $5, $6, $7, $7 WHERE NOT $8 ON CONFLICT DO NOTHING",
        )
    };
    let query = query
        .bind(corp.as_str())
        .bind(id.as_str().to_owned())
        .bind(clean(&new.name).into_owned())
        .bind(new.strategy.as_str())
        .bind(new.load_window_seconds.map(signed))
        .bind(signed(version))
        .bind(at(trail.now_ms))
        .bind(pool_exists);
    Ok(work.execute(query).await? > 0)
}

async fn save_members(
    work: &mut Work,
    corp: &CorpId,
    id: &PoolId,
    members: &[(MemberId, Weight)],
) -> Result<(), Error> {
    let query = work
        .query("DELETE FROM pool_members WHERE corp_id = $1 AND pool_id = $2 AND member <> ALL($3)")
        .bind(corp.as_str())
        .bind(id.as_str().to_owned())
        .bind(column(members, |(member, _)| member.as_str().to_owned()));
    work.execute(query).await?;
    let query = work
        .query(
            "INSERT INTO pool_members (corp_id, pool_id, member, weight)
             SELECT $1, $2, m.member, m.weight::numeric FROM unnest($3::text[], $4::text[]) AS m (member, weight)
             ON CONFLICT (corp_id, pool_id, member) DO UPDATE SET weight = excluded.weight",
        )
        .bind(corp.as_str())
        .bind(id.as_str().to_owned())
        .bind(column(members, |(member, _)| member.as_str().to_owned()))
        .bind(column(members, |(_, weight)| weight.to_string()));
    work.execute(query).await?;
    Ok(())
}

async fn with_members(
    work: &mut Work,
    corp: &CorpId,
    mut pools: Vec<Pool>,
) -> Result<Vec<Pool>, Error> {
    let query = work
        .query(
            "SELECT p.pool_id, p.member, m.userid, p.weight::text AS weight, m.blocked
             FROM pool_members AS p JOIN members AS m ON m.corp_id = p.corp_id AND m.member = p.member
             WHERE p.corp_id = $1 AND p.pool_id = ANY($2)",
        )
        .bind(corp.as_str())
        .bind(column(&pools, |pool| pool.id.as_str().to_owned()));
    let mut places: std::collections::HashMap<PoolId, Vec<PoolMember>> =
        std::collections::HashMap::new();
    for row in work.fetch_all(query).await? {
        places
            .entry(row.parsed("pool_id")?)
            .or_default()
            .push(PoolMember {
                member: row.parsed("member")?,
                userid: row.value("userid")?,
                weight: row.parsed("weight")?,
                blocked: row.parsed_option("blocked")?,
            });
    }
    for pool in &mut pools {
        pool.members = places.remove(&pool.id).unwrap_or_default();
        // By bytes, as the roster has them, whatever the database's collation.
        pool.members.sort_by(|one, two| one.member.cmp(&two.member));
    }
    Ok(pools)
}

fn read(row: &PgRow) -> Result<Pool, Error> {
    let strategy: &str = row.value("strategy")?;
    let strategy = [Strategy::WeightedRoundRobin, Strategy::LeastLoad]
        .into_iter()
        .find(|one| one.as_str() == strategy)
        .ok_or_else(|| Error::unreadable("strategy", strategy))?;
    let window: Option<i64> = row.value("load_window_seconds")?;
    Ok(Pool {
        id: row.parsed("pool_id")?,
        name: row.value("name")?,
        strategy,
        load_window_seconds: window.and_then(|seconds| u64::try_from(seconds).ok()),
        members: Vec::new(),
        version: row.number("version")?,
        created_ms: row.ms("created_at")?,
        updated_ms: row.ms("updated_at")?,
    })
}
