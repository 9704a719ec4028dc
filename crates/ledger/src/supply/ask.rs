//! Asking for groups, and how far that is.

use allocation::{CorpId, GroupPoolId};
use serde_json::json;
use uuid::Uuid;

use super::{
    SupplyTask, SupplyTaskState, SupplyTasks, SupplyWhy, columns, end_rests, is_ours, read,
};
use crate::Error;
use crate::audit::{Trail, write};
use crate::error::retry;
use crate::group_pools::SupplySource;
use crate::groups::pool_caps;
use crate::outbox::Fence;
use crate::row::{signed, small};
use crate::text::{clean, clean_option};
use crate::times::{at, at_option};

/// Groups that are to be asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSupplyTask {
    pub pool: GroupPoolId,
    pub source: SupplySource,
    pub n_groups: u32,
    pub asked_by: String,
    pub why: SupplyWhy,
    /// As WeCom spells him.
    pub keeper: Option<String>,
    pub deadline_ms: Option<u64>,
    /// Why nothing is done yet.
    pub error: Option<String>,
}

/// How far a task is from now on. What is None stays as it is, but for the error, which is of the last step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SupplyStep {
    pub state: Option<SupplyTaskState>,
    pub next_try_ms: Option<u64>,
    pub asked_ms: Option<u64>,
    pub reminded_ms: Option<u64>,
    /// Its time begins: of a task that has no end yet.
    pub deadline_ms: Option<u64>,
    /// Tries that are counted by it.
    pub tries: i32,
    pub errcode: Option<i64>,
    pub error: Option<String>,
}

impl SupplyTasks {
    /// Writes down that groups are wanted. One of the same source that is overdue has failed by that. None: such a task is open,
    /// or it is not for this lease to say. `fence` None: a person asks; the source rests no more.
    pub async fn ask(
        &self,
        corp: &CorpId,
        new: &NewSupplyTask,
        fence: Option<Fence>,
        trail: &Trail,
    ) -> Result<Option<SupplyTask>, Error> {
        retry(|| self.try_ask(corp, new, fence, trail)).await
    }

    async fn try_ask(
        &self,
        corp: &CorpId,
        new: &NewSupplyTask,
        fence: Option<Fence>,
        trail: &Trail,
    ) -> Result<Option<SupplyTask>, Error> {
        let mut work = self.db.transaction().await?;
        let is_there = pool_caps(&mut work, corp, &new.pool).await?.is_some();
        let is_ours = match fence {
            Some(fence) => is_ours(&mut work, corp, &new.pool, new.source, fence).await?,
            None => true,
        };
        if !is_there || !is_ours {
            work.roll_back().await?;
            return Ok(None);
        }
        let by_hand = fence.is_none();
        let fence = fence.unwrap_or(Fence {
            generation: 0,
            counter: 0,
        });
        let query = work
            .query(concat!(
                "INSERT INTO supply_tasks AS s (corp_id, task_id, group_pool_id, source, state, n_groups, asked_by, free,
                    waiting, rate, generation, counter, keeper, deadline_at, next_try_at, last_error, created_at)
                 VALUES ($1, $2, $3, $4, 'wanted', $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $14)
                 ON CONFLICT DO NOTHING RETURNING ",
                columns!()
            ))
            .bind(corp.as_str())
            .bind(Uuid::now_v7())
            .bind(new.pool.as_str().to_owned())
            .bind(new.source.as_str())
            .bind(small(new.n_groups.max(1)))
            .bind(clean(&new.asked_by).into_owned())
            .bind(signed(new.why.free))
            .bind(signed(new.why.waiting))
            .bind(new.why.rate)
            .bind(signed(fence.generation))
            .bind(signed(fence.counter))
            .bind(clean_option(new.keeper.as_ref()).map(|text| text.into_owned()))
            .bind(at_option(new.deadline_ms))
            .bind(at(trail.now_ms))
            .bind(clean_option(new.error.as_ref()).map(|text| text.into_owned()));
        let Some(row) = work.fetch_optional(query).await? else {
            work.roll_back().await?;
            return Ok(None);
        };
        let task = read(&row)?;
        let query = work
            .query(
                "UPDATE supply_tasks SET state = 'failed', settled_at = $4, last_error = 'it did not come in time'
                 WHERE corp_id = $1 AND group_pool_id = $2 AND source = $3 AND state = 'overdue'",
            )
            .bind(corp.as_str())
            .bind(new.pool.as_str().to_owned())
            .bind(new.source.as_str())
            .bind(at(trail.now_ms));
        work.execute(query).await?;
        if by_hand {
            end_rests(&mut work, corp, &new.pool, Some(new.source)).await?;
        }
        let after = json!({"group_pool": new.pool, "source": new.source.as_str(), "n_groups": new.n_groups});
        let entity = format!("supply-tasks/{}", task.id);
        let record = trail.record("supply_task.ask", entity, None, Some(after));
        write(&mut work, corp, &[&record]).await?;
        work.commit().await?;
        Ok(Some(task))
    }

    /// A step of an open task, under a lease. None: it has ended, a later lease has it, or it is not in `from` any more.
    pub async fn step(
        &self,
        corp: &CorpId,
        task: Uuid,
        from: SupplyTaskState,
        fence: Fence,
        step: &SupplyStep,
        now_ms: u64,
    ) -> Result<Option<SupplyTask>, Error> {
        let ends = step.state.is_some_and(SupplyTaskState::is_end);
        retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query(concat!(
                    "UPDATE supply_tasks AS s SET generation = $4, counter = $5, state = coalesce($6, s.state),
                        next_try_at = $7, asked_at = coalesce(s.asked_at, $8), reminded_at = coalesce(s.reminded_at, $9),
                        deadline_at = coalesce(s.deadline_at, $15),
                        tries = greatest(0, s.tries + $10), last_errcode = $11, last_error = $12,
                        settled_at = CASE WHEN $13 THEN $14::timestamptz END
                     WHERE s.corp_id = $1 AND s.task_id = $2 AND s.state = $3 AND (s.generation, s.counter) <= ($4, $5)
                     RETURNING ",
                    columns!()
                ))
                .bind(corp.as_str())
                .bind(task)
                .bind(from.as_str())
                .bind(signed(fence.generation))
                .bind(signed(fence.counter))
                .bind(step.state.map(SupplyTaskState::as_str))
                .bind(at_option(step.next_try_ms))
                .bind(at_option(step.asked_ms))
                .bind(at_option(step.reminded_ms))
                .bind(step.tries)
                .bind(step.errcode)
                .bind(clean_option(step.error.as_ref()).map(|text| text.into_owned()))
                .bind(ends)
                .bind(at(now_ms))
                .bind(at_option(step.deadline_ms));
            let row = work.fetch_optional(query).await?;
            work.end().await?;
            row.as_ref().map(read).transpose()
        })
        .await
    }

    /// Nobody waits for its groups any more, and its source rests until then. None: there is no such task; false: it has ended
    /// already.
    pub async fn cancel(
        &self,
        corp: &CorpId,
        task: Uuid,
        rest_until_ms: u64,
        trail: &Trail,
    ) -> Result<Option<(SupplyTask, bool)>, Error> {
        let mut work = self.db.transaction().await?;
        let query = work
            .query(concat!(
                "UPDATE supply_tasks AS s SET state = 'cancelled', settled_at = $3, next_try_at = $4
                 WHERE s.corp_id = $1 AND s.task_id = $2 AND s.settled_at IS NULL RETURNING ",
                columns!()
            ))
            .bind(corp.as_str())
            .bind(task)
            .bind(at(trail.now_ms))
            .bind(at(rest_until_ms));
        let Some(row) = work.fetch_optional(query).await? else {
            work.roll_back().await?;
            return Ok(self.get(corp, task).await?.map(|task| (task, false)));
        };
        let after = Some(json!({"state": "cancelled"}));
        let entity = format!("supply-tasks/{task}");
        let record = trail.record("supply_task.cancel", entity, None, after);
        write(&mut work, corp, &[&record]).await?;
        work.commit().await?;
        Ok(Some((read(&row)?, true)))
    }
}
