//! Reading and writing the rows of a pool, inside a transaction.

use allocation::{CorpId, Limits, MemberId, OfferRule, PoolId, Strategy, Weight};
use sqlx::postgres::PgRow;

use super::{NewPool, Pool, PoolMember, Routing, select};
use crate::Error;
use crate::configured::Found;
use crate::connection::Work;
use crate::log_write::column;
use crate::members::limit;
use crate::row::{Columns, signed};
use crate::text::clean;
use crate::times::at;

pub(super) async fn lock(
    work: &mut Work,
    corp: &CorpId,
    id: &PoolId,
) -> Result<Option<Found<Pool>>, Error> {
    let query = work
        .query(select!("AND p.pool_id = $2 FOR UPDATE"))
        .bind(corp.as_str())
        .bind(id.as_str().to_owned());
    let Some(row) = work.fetch_optional(query).await? else {
        return Ok(None);
    };
    let deleted = row.ms_option("deleted_at")?.is_some();
    let pools = with_members(work, corp, vec![read(&row)?]).await?;
    Ok(pools.into_iter().next().map(|row| Found { row, deleted }))
}

/// False: somebody else has just made the row.
pub(super) async fn save(
    work: &mut Work,
    corp: &CorpId,
    id: &PoolId,
    new: &NewPool,
    found: Option<&Found<Pool>>,
    now_ms: u64,
) -> Result<bool, Error> {
    // The version of a deleted pool goes on: Redis refuses an older one.
    let version = found.map_or(1, |found| found.row.version + 1);
    let query = if found.is_some() {
        work.query(
            "UPDATE pools SET name = $3, strategy = $4, load_window_seconds = $5, version = $6, updated_at = $7,
                offer_accept_seconds = $9, offer_tries = $10, routing = $11, deleted_at = NULL, created_at = CASE WHEN $8 THEN created_at ELSE $7 END
             WHERE corp_id = $1 AND pool_id = $2",
        )
    } else {
        work.query(
            "INSERT INTO pools (corp_id, pool_id, name, strategy, load_window_seconds, version, created_at, updated_at,
                offer_accept_seconds, offer_tries, routing)
             SELECT $1, $2, $3, $4, $5, $6, $7, $7, $9, $10, $11 WHERE NOT $8 ON CONFLICT DO NOTHING",
        )
    };
    let query = query
        .bind(corp.as_str())
        .bind(id.as_str().to_owned())
        .bind(clean(&new.name).into_owned())
        .bind(new.strategy.as_str())
        .bind(new.load_window_seconds.map(signed))
        .bind(signed(version))
        .bind(at(now_ms))
        .bind(found.is_some_and(|found| !found.deleted))
        .bind(new.offers.map(|rule| signed(rule.accept_ms / 1_000)))
        .bind(
            new.offers
                .map(|rule| i32::try_from(rule.tries).unwrap_or(i32::MAX)),
        )
        .bind(new.routing.column());
    Ok(work.execute(query).await? > 0)
}

pub(super) async fn save_members(
    work: &mut Work,
    corp: &CorpId,
    id: &PoolId,
    members: &[(MemberId, Weight, Limits)],
) -> Result<(), Error> {
    let query = work
        .query("DELETE FROM pool_members WHERE corp_id = $1 AND pool_id = $2 AND member <> ALL($3)")
        .bind(corp.as_str())
        .bind(id.as_str().to_owned())
        .bind(column(members, |(member, ..)| member.as_str().to_owned()));
    work.execute(query).await?;
    let query = work
        .query(
            "INSERT INTO pool_members (corp_id, pool_id, member, weight, cap, per_hour, per_day)
             SELECT $1, $2, m.member, m.weight::numeric, m.cap, m.per_hour, m.per_day
             FROM unnest($3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
                AS m (member, weight, cap, per_hour, per_day)
             ON CONFLICT (corp_id, pool_id, member) DO UPDATE SET weight = excluded.weight, cap = excluded.cap,
                per_hour = excluded.per_hour, per_day = excluded.per_day",
        )
        .bind(corp.as_str())
        .bind(id.as_str().to_owned())
        .bind(column(members, |(member, ..)| member.as_str().to_owned()))
        .bind(column(members, |(_, weight, _)| weight.to_string()))
        .bind(column(members, |(.., limits)| {
            limits.at_a_time.map(i64::from)
        }))
        .bind(column(members, |(.., limits)| {
            limits.per_hour.map(i64::from)
        }))
        .bind(column(members, |(.., limits)| limits.per_day.map(i64::from)));
    work.execute(query).await?;
    Ok(())
}

pub(super) async fn with_members(
    work: &mut Work,
    corp: &CorpId,
    mut pools: Vec<Pool>,
) -> Result<Vec<Pool>, Error> {
    let query = work
        .query(
            "SELECT p.pool_id, p.member, m.userid, p.weight::text AS weight, m.blocked,
                p.cap, p.per_hour, p.per_day
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
                limits: Limits {
                    at_a_time: limit(&row, "cap")?,
                    per_hour: limit(&row, "per_hour")?,
                    per_day: limit(&row, "per_day")?,
                },
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

pub(super) fn read(row: &PgRow) -> Result<Pool, Error> {
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
        offers: read_offers(row)?,
        routing: Routing::read(row)?,
        members: Vec::new(),
        version: row.number("version")?,
        created_ms: row.ms("created_at")?,
        updated_ms: row.ms("updated_at")?,
    })
}

fn read_offers(row: &PgRow) -> Result<Option<OfferRule>, Error> {
    let seconds: Option<i64> = row.value("offer_accept_seconds")?;
    let tries: Option<i32> = row.value("offer_tries")?;
    Ok(seconds.zip(tries).map(|(seconds, tries)| OfferRule {
        accept_ms: seconds.unsigned_abs() * 1_000,
        tries: tries.unsigned_abs(),
    }))
}
