//! Groups out of stock.

use allocation::{ChatId, CorpId, GroupPoolId};
use serde_json::json;
use uuid::Uuid;

use super::{ASKED_BY_SUPPLY, SupplyTasks, SupplyWhy, is_ours};
use crate::Error;
use crate::audit::{Trail, write};
use crate::error::retry;
use crate::group_pools::SupplySource;
use crate::groups::pool_caps;
use crate::outbox::Fence;
use crate::row::{Columns, signed};
use crate::times::at;

/// What came of opening a group out of stock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    Opened(ChatId),
    /// No group is in stock that could be shown.
    Nothing,
    /// A later lease has written for the pool, or the pool is gone.
    NotOurs,
}

impl SupplyTasks {
    /// Opens the pool's first group in stock that can be shown: it was read by this generation, has room, and a code leads into
    /// it, or will as soon as it is open (where ways have several groups). In the same transaction a task is done by it: the one
    /// that is wanted, or a new one.
    pub async fn open_spare(
        &self,
        corp: &CorpId,
        pool: &GroupPoolId,
        fence: Fence,
        why: SupplyWhy,
        generation: u64,
        now_ms: u64,
    ) -> Result<Opened, Error> {
        retry(|| self.try_open(corp, pool, fence, why, generation, now_ms)).await
    }

    async fn try_open(
        &self,
        corp: &CorpId,
        pool: &GroupPoolId,
        fence: Fence,
        why: SupplyWhy,
        generation: u64,
        now_ms: u64,
    ) -> Result<Opened, Error> {
        let mut work = self.db.transaction().await?;
        let is_there = pool_caps(&mut work, corp, pool).await?.is_some();
        if !is_there || !is_ours(&mut work, corp, pool, SupplySource::Spare, fence).await? {
            work.roll_back().await?;
            return Ok(Opened::NotOurs);
        }
        let query = work
            .query(
                "SELECT g.chat_id FROM groups AS g JOIN group_pools AS p USING (corp_id, group_pool_id)
                 WHERE g.corp_id = $1 AND g.group_pool_id = $2 AND g.deleted_at IS NULL AND g.state = 'spare'
                    AND g.last_error IS NULL AND g.people_read_at IS NOT NULL AND g.people_generation = $3
                    AND g.member_count < coalesce(g.scan_cap, p.scan_cap) - coalesce(g.buffer, p.buffer)
                    AND (EXISTS (SELECT FROM join_ways AS w JOIN campaigns AS c USING (corp_id, campaign_id)
                            WHERE w.corp_id = $1 AND c.group_pool_id = $2 AND w.state = 'ready'
                                AND g.chat_id = ANY(w.told_chats) AND g.chat_id = ANY(w.chats)
                                AND c.deleted_at IS NULL AND c.state = 'open' AND (c.ends_at IS NULL OR c.ends_at > $4))
                        OR NOT EXISTS (SELECT FROM campaigns AS c WHERE c.corp_id = $1 AND c.group_pool_id = $2
                            AND c.deleted_at IS NULL AND c.state = 'open' AND c.groups_per_way = 1))
                 ORDER BY g.rank, g.chat_id COLLATE \"C\" LIMIT 1 FOR UPDATE OF g",
            )
            .bind(corp.as_str())
            .bind(pool.as_str().to_owned())
            .bind(signed(generation))
            .bind(at(now_ms));
        let Some(row) = work.fetch_optional(query).await? else {
            work.roll_back().await?;
            return Ok(Opened::Nothing);
        };
        let chat: ChatId = row.parsed("chat_id")?;
        let query = work
            .query(
                "UPDATE groups SET state = 'open', version = version + 1, updated_at = $3
                 WHERE corp_id = $1 AND chat_id = $2",
            )
            .bind(corp.as_str())
            .bind(chat.as_str().to_owned())
            .bind(at(now_ms));
        work.execute(query).await?;
        let query = work
            .query(
                "UPDATE supply_tasks SET chats = chats || $3::text, generation = $4, counter = $5, asked_at = $6,
                    last_errcode = NULL, last_error = NULL,
                    state = CASE WHEN cardinality(chats) + 1 >= n_groups THEN 'done' ELSE state END,
                    settled_at = CASE WHEN cardinality(chats) + 1 >= n_groups THEN $6::timestamptz END
                 WHERE corp_id = $1 AND group_pool_id = $2 AND source = 'spare' AND state = 'wanted'",
            )
            .bind(corp.as_str())
            .bind(pool.as_str().to_owned())
            .bind(chat.as_str().to_owned())
            .bind(signed(fence.generation))
            .bind(signed(fence.counter))
            .bind(at(now_ms));
        if work.execute(query).await? == 0 {
            let query = work
                .query(
                    "INSERT INTO supply_tasks (corp_id, task_id, group_pool_id, source, state, n_groups, chats, asked_by, free,
                        waiting, rate, generation, counter, asked_at, created_at, settled_at)
                     VALUES ($1, $2, $3, 'spare', 'done', 1, ARRAY[$4], $5, $6, $7, $8, $9, $10, $11, $11, $11)",
                )
                .bind(corp.as_str())
                .bind(Uuid::now_v7())
                .bind(pool.as_str().to_owned())
                .bind(chat.as_str().to_owned())
                .bind(ASKED_BY_SUPPLY)
                .bind(signed(why.free))
                .bind(signed(why.waiting))
                .bind(why.rate)
                .bind(signed(fence.generation))
                .bind(signed(fence.counter))
                .bind(at(now_ms));
            work.execute(query).await?;
        }
        let record = Trail::system(now_ms, "supply").record(
            "group.put",
            format!("groups/{chat}"),
            Some(json!({"state": "spare"})),
            Some(json!({"state": "open"})),
        );
        write(&mut work, corp, &[&record]).await?;
        work.commit().await?;
        Ok(Opened::Opened(chat))
    }
}
