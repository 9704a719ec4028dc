//! Rooms that WeCom opens by itself: which join way is to open one for a task, and who are shown its full group for it.
//!
//! A row of `join_ways` says what WeCom is to be told, as it does for the groups of a way: whoever changes ways sends both at once,
//! and nobody else does. So an answer that got lost, a refusal and a process that died are what they are there.

use allocation::{ChatId, CorpId, GroupPoolId, SeatId};
use uuid::Uuid;

use super::{SupplyTask, SupplyTasks, is_ours};
use crate::Error;
use crate::error::retry;
use crate::group_pools::SupplySource;
use crate::groups::pool_caps;
use crate::outbox::Fence;
use crate::row::{Columns, signed};
use crate::text::clean;
use crate::times::at;

/// People who are shown the code of one way, at most.
pub const MOST_OPENERS: usize = 20;
/// More than lack in the group: WeCom opens a room for the first who finds it full, and he may be somebody who looks only.
pub const SPARE_OPENERS: usize = 2;
/// WeCom takes so many characters.
const NAME: usize = 40;

/// Ways of a pool that can open a room: into one open group alone that was read and that few enough people fill.
macro_rules! openable {
    ($pool:literal, $generation:literal, $now:literal, $spare:literal, $most:literal) => {
        concat!(
            "FROM join_ways AS w JOIN campaigns AS c USING (corp_id, campaign_id)
                JOIN groups AS g ON g.corp_id = w.corp_id AND g.chat_id = w.chats[1]
                JOIN group_pools AS gp ON gp.corp_id = w.corp_id AND gp.group_pool_id = g.group_pool_id
             WHERE w.corp_id = $1 AND c.group_pool_id = ",
            $pool,
            " AND g.group_pool_id = ",
            $pool,
            " AND c.deleted_at IS NULL AND c.state = 'open' AND (c.ends_at IS NULL OR c.ends_at > ",
            $now,
            ") AND w.state = 'ready' AND w.inviter_id IS NULL AND cardinality(w.chats) = 1 AND w.told_chats = w.chats
                AND w.next_try_at IS NULL
                AND g.deleted_at IS NULL AND g.state = 'open' AND g.way_at IS NOT NULL AND g.last_error IS NULL
                AND g.people_read_at IS NOT NULL AND g.people_generation = ",
            $generation,
            " AND g.owner <> '' AND coalesce(g.buffer, gp.buffer) + ",
            $spare,
            " <= ",
            $most
        )
    };
}
pub(super) use openable;

/// What came of choosing a way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Armed {
    /// WeCom is to be told that this way opens rooms.
    Armed { way: String, chat: ChatId },
    /// Another way of the pool may still open some.
    Busy,
    /// None leads into one open group that was read and that few enough people fill.
    NoWay,
    /// A later lease has the task, or it has ended.
    NotOurs,
}

/// The way of a task, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmedWay {
    pub way: String,
    pub config_id: String,
    /// It leads into these.
    pub chats: Vec<ChatId>,
    /// WeCom knows that it opens rooms.
    pub is_told: bool,
    /// When WeCom is told the next time.
    pub next_try_ms: Option<u64>,
    pub last_errcode: Option<i64>,
    pub last_error: Option<String>,
}

impl SupplyTasks {
    /// Chooses the way that opens a room for the task: one of a campaign that people wait for, into the group that lacks the fewest
    /// people. It is written down with the task; WeCom may know from now on. `name`: what the room is called, before its number.
    pub async fn arm(
        &self,
        corp: &CorpId,
        task: &SupplyTask,
        fence: Fence,
        generation: u64,
        name: &str,
        now_ms: u64,
    ) -> Result<Armed, Error> {
        retry(|| self.try_arm(corp, task, fence, generation, name, now_ms)).await
    }

    async fn try_arm(
        &self,
        corp: &CorpId,
        task: &SupplyTask,
        fence: Fence,
        generation: u64,
        name: &str,
        now_ms: u64,
    ) -> Result<Armed, Error> {
        let mut work = self.db.transaction().await?;
        let (source, pool) = (SupplySource::AutoRoom, &task.pool);
        let is_there = pool_caps(&mut work, corp, pool).await?.is_some();
        if !is_there || !is_ours(&mut work, corp, pool, source, fence).await? {
            work.roll_back().await?;
            return Ok(Armed::NotOurs);
        }
        let query = work
            .query(
                "SELECT EXISTS (SELECT FROM join_ways AS w JOIN campaigns AS c USING (corp_id, campaign_id)
                    WHERE w.corp_id = $1 AND c.group_pool_id = $2 AND w.state = 'ready' AND (w.rooms_for IS NOT NULL
                        OR w.told_rooms OR w.told_rooms IS NULL AND w.last_errcode IS NULL)) AS busy",
            )
            .bind(corp.as_str())
            .bind(pool.as_str().to_owned());
        if work.fetch_one(query).await?.value("busy")? {
            work.roll_back().await?;
            return Ok(Armed::Busy);
        }
        let query = work
            .query(concat!(
                "SELECT w.way, g.chat_id, g.owner ",
                openable!("$2", "$3", "$4", "$5", "$6"),
                " ORDER BY c.campaign_id IN (SELECT s.campaign_id FROM seats AS s
                        WHERE s.corp_id = $1 AND s.group_pool_id = $2 AND s.state = 'waiting') DESC,
                    coalesce(g.scan_cap, gp.scan_cap) - g.member_count, g.rank, g.chat_id COLLATE \"C\", w.created_at, w.way
                 LIMIT 1 FOR UPDATE OF w"
            ))
            .bind(corp.as_str())
            .bind(pool.as_str().to_owned())
            .bind(signed(generation))
            .bind(at(now_ms))
            .bind(SPARE_OPENERS as i32)
            .bind(MOST_OPENERS as i32);
        let Some(row) = work.fetch_optional(query).await? else {
            work.roll_back().await?;
            return Ok(Armed::NoWay);
        };
        let (way, chat): (String, ChatId) = (row.value("way")?, row.parsed("chat_id")?);
        let name: String = name.chars().take(NAME).collect();
        let query = work
            .query(
                "UPDATE supply_tasks AS s SET state = 'wanted', way = $3, armed_at = $4, keeper = $5, room_name = $6,
                    room_number = coalesce(s.room_number, (SELECT max(o.room_number + greatest(1, cardinality(o.chats)))
                        FROM supply_tasks AS o WHERE o.corp_id = $1 AND o.group_pool_id = $7 AND o.source = 'auto_room'), 1),
                    tries = s.tries + 1, generation = $8, counter = $9, next_try_at = NULL, last_errcode = NULL, last_error = NULL
                 WHERE s.corp_id = $1 AND s.task_id = $2 AND s.state IN ('wanted', 'asked')",
            )
            .bind(corp.as_str())
            .bind(task.id)
            .bind(way.clone())
            .bind(at(now_ms))
            .bind(row.value::<String>("owner")?)
            .bind(clean(&name).into_owned())
            .bind(pool.as_str().to_owned())
            .bind(signed(fence.generation))
            .bind(signed(fence.counter));
        if work.execute(query).await? == 0 {
            work.roll_back().await?;
            return Ok(Armed::NotOurs);
        }
        // It is sent whatever WeCom was told before: a room that it opened then may be in its list.
        let query = work
            .query(
                "UPDATE join_ways SET rooms_for = $3, told_rooms = NULL, tries = 0, next_try_at = $4, last_errcode = NULL,
                    last_error = NULL, changed_by = pg_current_xact_id()
                 WHERE corp_id = $1 AND way = $2",
            )
            .bind(corp.as_str())
            .bind(way.clone())
            .bind(task.id)
            .bind(at(now_ms));
        work.execute(query).await?;
        work.commit().await?;
        Ok(Armed::Armed { way, chat })
    }

    /// A way of the pool could open a room now.
    pub async fn can_open(
        &self,
        corp: &CorpId,
        pool: &GroupPoolId,
        generation: u64,
        now_ms: u64,
    ) -> Result<bool, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT EXISTS (SELECT ",
                openable!("$2", "$3", "$4", "$5", "$6"),
                ") AS can"
            ))
            .bind(corp.as_str())
            .bind(pool.as_str().to_owned())
            .bind(signed(generation))
            .bind(at(now_ms))
            .bind(SPARE_OPENERS as i32)
            .bind(MOST_OPENERS as i32);
        let row = work.fetch_one(query).await?;
        work.end().await?;
        row.value("can")
    }

    /// None: no way is to open a room for it (any more).
    pub async fn armed(&self, corp: &CorpId, task: Uuid) -> Result<Option<ArmedWay>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT way, config_id, chats, coalesce(told_rooms, false) AS told, next_try_at, last_errcode, last_error
                 FROM join_ways WHERE corp_id = $1 AND rooms_for = $2 AND state = 'ready'",
            )
            .bind(corp.as_str())
            .bind(task);
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.map(|row| {
            Ok(ArmedWay {
                way: row.value("way")?,
                config_id: row.value("config_id")?,
                chats: super::chats(&row)?,
                is_told: row.value("told")?,
                next_try_ms: row.ms_option("next_try_at")?,
                last_errcode: row.value("last_errcode")?,
                last_error: row.value("last_error")?,
            })
        })
        .transpose()
    }

    /// Ways whose task waits for no room any more are to open none; answers how many those were. While a call may be on its way
    /// the next one waits for its answer, so that no older word comes after a newer one. A way that is not shown any more does not
    /// rest as others do: it is deleted at once.
    pub async fn disarm(&self, corp: &CorpId, now_ms: u64) -> Result<u64, Error> {
        retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query(
                    "UPDATE join_ways AS w SET rooms_for = NULL, changed_by = pg_current_xact_id(),
                        next_try_at = CASE WHEN w.state NOT IN ('ready', 'retiring') OR NOT w.told_rooms THEN w.next_try_at
                            WHEN w.state = 'ready' AND w.told_rooms IS NULL AND w.last_errcode IS NULL
                                THEN coalesce(w.next_try_at, $2)
                            ELSE $2 END
                     WHERE w.corp_id = $1 AND w.rooms_for IS NOT NULL AND (w.state <> 'ready' OR NOT EXISTS (
                        SELECT FROM supply_tasks AS s WHERE s.corp_id = $1 AND s.task_id = w.rooms_for
                            AND s.state IN ('wanted', 'asked')))",
                )
                .bind(corp.as_str())
                .bind(at(now_ms));
            let disarmed = work.execute(query).await?;
            work.end().await?;
            Ok(disarmed)
        })
        .await
    }

    /// Whether somebody who waits is shown the code of a way that opens a room: as many as `lacking` in its group and a few more,
    /// those not counted who were shown it and do not wait any more, and never more than [`MOST_OPENERS`] altogether. Whoever was
    /// shown it is so again.
    pub async fn opens(
        &self,
        corp: &CorpId,
        way: &str,
        seat: SeatId,
        lacking: u32,
        look_ms: u64,
    ) -> Result<bool, Error> {
        let mut work = self.db.transaction().await?;
        let query = work
            .query(
                "SELECT s.task_id, s.openers FROM join_ways AS w
                    JOIN supply_tasks AS s ON s.corp_id = w.corp_id AND s.task_id = w.rooms_for
                 WHERE w.corp_id = $1 AND w.way = $2 AND w.state = 'ready' AND w.told_rooms
                    AND s.state IN ('wanted', 'asked') FOR UPDATE OF s",
            )
            .bind(corp.as_str())
            .bind(way.to_owned());
        let Some(row) = work.fetch_optional(query).await? else {
            work.roll_back().await?;
            return Ok(false);
        };
        let openers: Vec<Uuid> = row.value("openers")?;
        if openers.contains(&seat.0) || openers.len() >= MOST_OPENERS {
            work.roll_back().await?;
            return Ok(openers.contains(&seat.0));
        }
        // One whose row is not written yet waits.
        let query = work
            .query("SELECT count(*) AS n FROM seats WHERE seat_id = ANY($1) AND state <> 'waiting'")
            .bind(openers.clone());
        let ended = work.fetch_one(query).await?.number("n")?;
        let waiting = openers.len() as u64 - ended;
        if waiting >= u64::from(lacking) + SPARE_OPENERS as u64 {
            work.roll_back().await?;
            return Ok(false);
        }
        let query = work
            .query(
                "UPDATE supply_tasks SET openers = openers || $3,
                    next_try_at = CASE WHEN state = 'asked' THEN least(next_try_at, $4) ELSE next_try_at END
                 WHERE corp_id = $1 AND task_id = $2",
            )
            .bind(corp.as_str())
            .bind(row.value::<Uuid>("task_id")?)
            .bind(seat.0)
            .bind(at(look_ms));
        work.execute(query).await?;
        work.commit().await?;
        Ok(true)
    }
}
