//! What supply must know of the pools that it supplies, as far as Postgres knows it.

use std::collections::{BTreeMap, HashMap};

use allocation::{CorpId, GroupPoolId};
use sqlx::postgres::PgRow;

use super::SupplyTasks;
use super::rooms::{MOST_OPENERS, SPARE_OPENERS, openable};
use crate::Error;
use crate::group_caps::GroupCaps;
use crate::group_pools::{Supply, SupplySource};
use crate::row::{Columns, signed};
use crate::times::at;

/// Parts of the time that the rate is reckoned from, the latest first.
pub const ASKED_PARTS: usize = 10;
pub const ASKED_PART_MS: u64 = 30_000;

/// A pool that is supplied: it has sources, and a campaign fills it or will.
#[derive(Debug, Clone, PartialEq)]
pub struct SuppliedPool {
    pub id: GroupPoolId,
    pub name: String,
    pub caps: GroupCaps,
    pub supply: Supply,
    /// Seats that were asked for and found, by when that was: the latest part of the time first.
    pub asked: [u64; ASKED_PARTS],
    /// Open groups with room that nobody is shown yet: no code leads into them, or this generation does not know who is in them.
    /// Those that wait for a code for long, and those that cannot be read, are not counted.
    pub coming: u64,
    /// Sources that rest after a failure, or as somebody called them off, and until when. A change of the
    /// pool's supply and a task by hand end that, and where no code could open a room one that can.
    pub resting: HashMap<SupplySource, u64>,
    /// How often in a row the keeper was asked and made no group.
    pub unanswered: u32,
}

impl SupplyTasks {
    /// All of them, by id. Groups that are open since before `coming_since_ms` and still have no code are given up.
    pub async fn pools(
        &self,
        corp: &CorpId,
        generation: u64,
        coming_since_ms: u64,
        now_ms: u64,
    ) -> Result<Vec<SuppliedPool>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT p.group_pool_id, p.name, p.scan_cap, p.hard_cap, p.buffer, p.supply,
                    (SELECT count(*) FROM groups AS g WHERE g.corp_id = $1 AND g.group_pool_id = p.group_pool_id
                        AND g.deleted_at IS NULL AND g.state = 'open'
                        AND coalesce(g.member_count < coalesce(g.scan_cap, p.scan_cap) - coalesce(g.buffer, p.buffer), true)
                        AND (g.way_at IS NULL AND g.updated_at > $3
                            OR (g.people_read_at IS NULL OR g.people_generation IS DISTINCT FROM $2)
                                AND g.last_error IS NULL AND (g.way_at IS NOT NULL OR g.updated_at > $3)))
                        AS coming,
                    (SELECT coalesce(jsonb_object_agg(r.source, (extract(epoch FROM r.until) * 1000)::bigint), '{}')
                        FROM (SELECT source, max(next_try_at) AS until FROM supply_tasks AS t
                            WHERE t.corp_id = $1 AND t.group_pool_id = p.group_pool_id
                                AND t.state IN ('failed', 'overdue', 'cancelled')
                                AND t.next_try_at > $4
                                AND (t.source <> 'person' OR lower(t.keeper) = lower(p.supply ->> 'keeper'))
                                AND NOT (t.state = 'failed' AND t.source = 'auto_room' AND t.last_errcode IS NULL
                                    AND EXISTS (SELECT ",
                openable!("p.group_pool_id", "$2", "$4", "$5", "$6"),
                "))
                            GROUP BY source) AS r) AS resting,
                    (SELECT count(*) FROM supply_tasks AS t
                        WHERE t.corp_id = $1 AND t.group_pool_id = p.group_pool_id AND t.source = 'person'
                            AND t.state IN ('failed', 'overdue') AND t.asked_at IS NOT NULL
                            AND lower(t.keeper) = lower(p.supply ->> 'keeper')
                            AND t.created_at > $4::timestamptz - interval '30 days' AND t.chats = '{}'
                            AND NOT EXISTS (SELECT FROM supply_tasks AS d
                                WHERE d.corp_id = $1 AND d.group_pool_id = p.group_pool_id AND d.source = 'person'
                                    AND d.created_at > t.created_at AND d.chats <> '{}')) AS unanswered
                 FROM group_pools AS p
                 WHERE p.corp_id = $1 AND p.deleted_at IS NULL AND p.supply -> 'sources' <> '[]'
                    AND EXISTS (SELECT FROM campaigns AS c WHERE c.corp_id = $1 AND c.group_pool_id = p.group_pool_id
                        AND c.deleted_at IS NULL AND c.state = 'open' AND (c.ends_at IS NULL OR c.ends_at > $4))
                 ORDER BY p.group_pool_id"
            ))
            .bind(corp.as_str())
            .bind(signed(generation))
            .bind(at(coming_since_ms))
            .bind(at(now_ms))
            .bind(SPARE_OPENERS as i32)
            .bind(MOST_OPENERS as i32);
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let mut pools = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if pools.is_empty() {
            return Ok(pools);
        }
        let asked = self.asked(corp, &pools, now_ms).await?;
        for pool in &mut pools {
            pool.asked = asked.get(&pool.id).copied().unwrap_or_default();
        }
        Ok(pools)
    }

    /// Whoever waits is not counted: he is known to the roster.
    async fn asked(
        &self,
        corp: &CorpId,
        pools: &[SuppliedPool],
        now_ms: u64,
    ) -> Result<HashMap<GroupPoolId, [u64; ASKED_PARTS]>, Error> {
        let since_ms = now_ms.saturating_sub(ASKED_PART_MS * ASKED_PARTS as u64);
        let ids: Vec<String> = pools.iter().map(|pool| pool.id.to_string()).collect();
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT group_pool_id, greatest(0, floor(extract(epoch FROM $3 - asked_at) * 1000 / $5))::bigint AS part,
                    count(*) AS n
                 FROM seats WHERE corp_id = $1 AND group_pool_id = ANY($2) AND asked_at > $4
                    AND state NOT IN ('waiting', 'lapsed')
                 GROUP BY 1, 2",
            )
            .bind(corp.as_str())
            .bind(ids)
            .bind(at(now_ms))
            .bind(at(since_ms))
            .bind(signed(ASKED_PART_MS));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let mut asked: HashMap<GroupPoolId, [u64; ASKED_PARTS]> = HashMap::new();
        for row in rows {
            let part = usize::try_from(row.number("part")?).unwrap_or(usize::MAX);
            let of_pool = asked.entry(row.parsed("group_pool_id")?).or_default();
            if let Some(count) = of_pool.get_mut(part) {
                *count = row.number("n")?;
            }
        }
        Ok(asked)
    }
}

fn read(row: &PgRow) -> Result<SuppliedPool, Error> {
    let resting: serde_json::Value = row.value("resting")?;
    let resting: BTreeMap<String, u64> =
        serde_json::from_value(resting).map_err(|problem| Error::unreadable("resting", problem))?;
    let resting = resting
        .into_iter()
        .filter_map(|(source, until_ms)| Some((source.parse().ok()?, until_ms)));
    Ok(SuppliedPool {
        id: row.parsed("group_pool_id")?,
        name: row.value("name")?,
        caps: GroupCaps {
            scan_cap: row.small("scan_cap")?,
            hard_cap: row.small("hard_cap")?,
            buffer: row.small("buffer")?,
        },
        supply: Supply::read(row)?,
        asked: [0; ASKED_PARTS],
        coming: row.number("coming")?,
        resting: resting.collect(),
        unanswered: u32::try_from(row.number("unanswered")?).unwrap_or(u32::MAX),
    })
}
