//! Groups that came: found by themselves, or named by an operator.

use allocation::{ChatId, CorpId, GroupPoolId, MAX_GROUPS};
use serde_json::json;
use uuid::Uuid;

use super::{SupplyTask, SupplyTasks, columns, read};
use crate::Error;
use crate::audit::{Trail, write};
use crate::connection::Work;
use crate::error::retry;
use crate::group_pools::SupplySource;
use crate::groups::{GroupSource, n_groups, pool_caps};
use crate::row::Columns;
use crate::times::at;

/// A group that a task waited for.
#[derive(Debug, Clone, PartialEq)]
pub struct Adopted {
    /// As it is now.
    pub task: SupplyTask,
}

/// What came of naming a group to a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Completed {
    /// The group is in the pool, and open.
    Taken(SupplyTask),
    /// It was so already.
    Before(SupplyTask),
    NoTask,
    /// It has ended otherwise.
    Ended(SupplyTask),
    /// It is another pool's.
    Elsewhere(GroupPoolId),
    /// It is no more at WeCom.
    Dismissed,
    PoolFull(usize),
    /// The pool was deleted.
    NoPool,
}

/// A group that nobody knew before, as WeCom says it.
#[derive(Debug, Clone, Copy)]
pub struct FoundGroup<'a> {
    pub chat: &'a ChatId,
    pub owner: &'a str,
    pub name: &'a str,
    pub made_ms: u64,
}

/// WeCom tells the second of a group's making, by its own clock.
const CLOCKS_MS: u64 = 5_000;
/// A room that is opened so long after its task has ended is still its.
const LATE_MS: u64 = 600_000;

impl SupplyTasks {
    /// A group was found that was in no pool. If its owner was asked to make one, or WeCom to open one in his name, and it was made
    /// since, it comes into the pool, last and open, and the task is done by it. A room that is called as the task's is taken though
    /// the task has just ended: WeCom may open more than one. None: nobody waited for it.
    pub async fn found(
        &self,
        corp: &CorpId,
        found: &FoundGroup<'_>,
        trail: &Trail,
    ) -> Result<Option<Adopted>, Error> {
        retry(|| self.try_found(corp, found, trail)).await
    }

    async fn try_found(
        &self,
        corp: &CorpId,
        found: &FoundGroup<'_>,
        trail: &Trail,
    ) -> Result<Option<Adopted>, Error> {
        let FoundGroup {
            chat,
            owner,
            name,
            made_ms,
        } = *found;
        let mut work = self.db.transaction().await?;
        let query = work
            .query(
                "SELECT s.task_id, s.group_pool_id FROM supply_tasks AS s, LATERAL (SELECT s.source = 'auto_room'
                    AND starts_with($4, s.room_name) AND substr($4, length(s.room_name) + 1) ~ '^[0-9]+$' AS is_called_so) AS n
                 WHERE s.corp_id = $1 AND lower(s.keeper) = lower($2) AND CASE s.source
                    WHEN 'person' THEN s.settled_at IS NULL AND s.tries > 0 AND s.created_at <= $3
                    WHEN 'auto_room' THEN s.armed_at <= $3 AND (s.settled_at IS NULL OR is_called_so AND s.settled_at >= $5)
                    ELSE false END
                 ORDER BY CASE WHEN is_called_so THEN 0 WHEN s.source = 'person' THEN 1 ELSE 2 END,
                    s.settled_at IS NOT NULL, s.created_at, s.task_id LIMIT 1",
            )
            .bind(corp.as_str())
            .bind(owner.to_owned())
            .bind(at(made_ms.saturating_add(CLOCKS_MS)))
            .bind(name.to_owned())
            .bind(at(made_ms.saturating_sub(LATE_MS)));
        let Some(row) = work.fetch_optional(query).await? else {
            work.roll_back().await?;
            return Ok(None);
        };
        let (id, pool): (Uuid, GroupPoolId) = (row.value("task_id")?, row.parsed("group_pool_id")?);
        // The pool first, as everybody has it.
        let is_there = pool_caps(&mut work, corp, &pool).await?.is_some();
        let is_full = n_groups(&mut work, corp, &pool, Some(chat)).await? >= MAX_GROUPS;
        let Some(task) = locked(&mut work, corp, id).await? else {
            work.roll_back().await?;
            return Ok(None);
        };
        let standing = standing(&mut work, corp, chat).await?;
        let is_free = matches!(
            standing,
            Some(Standing {
                pool: None,
                is_gone: false
            })
        );
        let is_over = task.settled_ms.is_some() && task.source != SupplySource::AutoRoom;
        if !is_there || is_full || is_over || !is_free {
            work.roll_back().await?;
            return Ok(None);
        }
        take(&mut work, corp, &task, chat, trail).await?;
        let task = came(&mut work, corp, id, chat, trail).await?;
        work.commit().await?;
        Ok(task.map(|task| Adopted { task }))
    }

    /// An operator says that this group is one of those that the task waits for. One that nobody knew is known from now on.
    pub async fn complete(
        &self,
        corp: &CorpId,
        task: Uuid,
        chat: &ChatId,
        trail: &Trail,
    ) -> Result<Completed, Error> {
        retry(|| self.try_complete(corp, task, chat, false, trail)).await
    }

    /// WeCom says that it opened this room for the task: the same, whether or not the task has ended.
    pub async fn opened(
        &self,
        corp: &CorpId,
        task: Uuid,
        chat: &ChatId,
        trail: &Trail,
    ) -> Result<Completed, Error> {
        retry(|| self.try_complete(corp, task, chat, true, trail)).await
    }

    async fn try_complete(
        &self,
        corp: &CorpId,
        id: Uuid,
        chat: &ChatId,
        is_room: bool,
        trail: &Trail,
    ) -> Result<Completed, Error> {
        let Some(task) = self.get(corp, id).await? else {
            return Ok(Completed::NoTask);
        };
        let mut work = self.db.transaction().await?;
        let refused = async {
            if pool_caps(&mut work, corp, &task.pool).await?.is_none() {
                return Ok(Some(Completed::NoPool));
            }
            let others = n_groups(&mut work, corp, &task.pool, Some(chat)).await?;
            let Some(task) = locked(&mut work, corp, id).await? else {
                return Ok(Some(Completed::NoTask));
            };
            if task.chats.contains(chat) {
                return Ok(Some(Completed::Before(task)));
            }
            if task.settled_ms.is_some() && !is_room {
                return Ok(Some(Completed::Ended(task)));
            }
            Ok::<_, Error>(match standing(&mut work, corp, chat).await? {
                Some(Standing { is_gone: true, .. }) => Some(Completed::Dismissed),
                Some(Standing {
                    pool: Some(pool), ..
                }) if pool != task.pool => Some(Completed::Elsewhere(pool)),
                _ if others >= MAX_GROUPS => Some(Completed::PoolFull(MAX_GROUPS)),
                _ => None,
            })
        };
        if let Some(refused) = refused.await? {
            work.roll_back().await?;
            return Ok(refused);
        }
        take(&mut work, corp, &task, chat, trail).await?;
        let Some(task) = came(&mut work, corp, id, chat, trail).await? else {
            work.roll_back().await?;
            return Ok(Completed::NoTask);
        };
        work.commit().await?;
        Ok(Completed::Taken(task))
    }
}

async fn locked(work: &mut Work, corp: &CorpId, id: Uuid) -> Result<Option<SupplyTask>, Error> {
    let query = work
        .query(concat!(
            "SELECT ",
            columns!(),
            " FROM supply_tasks AS s WHERE s.corp_id = $1 AND s.task_id = $2 FOR UPDATE"
        ))
        .bind(corp.as_str())
        .bind(id);
    let row = work.fetch_optional(query).await?;
    row.as_ref().map(read).transpose()
}

/// Where a group that is known is.
struct Standing {
    pool: Option<GroupPoolId>,
    is_gone: bool,
}

async fn standing(
    work: &mut Work,
    corp: &CorpId,
    chat: &ChatId,
) -> Result<Option<Standing>, Error> {
    let query = work
        .query(
            "SELECT group_pool_id, state = 'dismissed' AS is_gone FROM groups
             WHERE corp_id = $1 AND chat_id = $2 AND deleted_at IS NULL FOR UPDATE",
        )
        .bind(corp.as_str())
        .bind(chat.as_str().to_owned());
    let row = work.fetch_optional(query).await?;
    row.map(|row| {
        Ok(Standing {
            pool: row.parsed_option("group_pool_id")?,
            is_gone: row.value("is_gone")?,
        })
    })
    .transpose()
}

/// It is in the pool from now on, after all others, and open.
async fn take(
    work: &mut Work,
    corp: &CorpId,
    task: &SupplyTask,
    chat: &ChatId,
    trail: &Trail,
) -> Result<(), Error> {
    let pool = &task.pool;
    let source = match task.source {
        SupplySource::AutoRoom => GroupSource::AutoRoom,
        SupplySource::Person | SupplySource::Spare => GroupSource::Console,
    };
    let query = work
        .query(
            "INSERT INTO groups AS g (corp_id, chat_id, group_pool_id, rank, state, source, version, created_at, updated_at)
             SELECT $1, $2, $3, coalesce(max(o.rank) + 1, 0), 'open', $5, 1, $4, $4
             FROM groups AS o WHERE o.corp_id = $1 AND o.group_pool_id = $3 AND o.state <> 'dismissed' AND o.chat_id <> $2
             ON CONFLICT (corp_id, chat_id) DO UPDATE SET group_pool_id = $3, state = 'open', deleted_at = NULL,
                version = g.version + 1, updated_at = $4, source = CASE WHEN $5 = 'auto_room' THEN $5 ELSE g.source END,
                rank = CASE WHEN g.group_pool_id = $3 THEN g.rank ELSE excluded.rank END,
                way_at = CASE WHEN g.group_pool_id = $3 THEN g.way_at END",
        )
        .bind(corp.as_str())
        .bind(chat.as_str().to_owned())
        .bind(pool.as_str().to_owned())
        .bind(at(trail.now_ms))
        .bind(source.as_str());
    work.execute(query).await?;
    let after = Some(json!({"group_pool": pool, "state": "open"}));
    let record = trail.record("group.put", format!("groups/{chat}"), None, after);
    write(work, corp, &[&record]).await
}

/// One of a task's groups came.
async fn came(
    work: &mut Work,
    corp: &CorpId,
    id: Uuid,
    chat: &ChatId,
    trail: &Trail,
) -> Result<Option<SupplyTask>, Error> {
    let query = work
        .query(concat!(
            "UPDATE supply_tasks AS s SET chats = s.chats || $3::text,
                state = CASE WHEN s.settled_at IS NULL AND is_last THEN 'done' ELSE s.state END,
                next_try_at = CASE WHEN s.settled_at IS NULL AND is_last THEN NULL ELSE s.next_try_at END,
                settled_at = CASE WHEN s.settled_at IS NULL AND is_last THEN $4::timestamptz ELSE s.settled_at END
             FROM (SELECT cardinality(chats) + 1 >= n_groups AS is_last FROM supply_tasks
                WHERE corp_id = $1 AND task_id = $2) AS o
             WHERE s.corp_id = $1 AND s.task_id = $2 AND (s.settled_at IS NULL OR s.source = 'auto_room') RETURNING ",
            columns!()
        ))
        .bind(corp.as_str())
        .bind(id)
        .bind(chat.as_str().to_owned())
        .bind(at(trail.now_ms));
    let row = work.fetch_optional(query).await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let after = Some(json!({"chat": chat}));
    let entity = format!("supply-tasks/{id}");
    let record = trail.record("supply_task.came", entity, None, after);
    write(work, corp, &[&record]).await?;
    read(&row).map(Some)
}
