//! Ways that lead into other groups than they are to.

use allocation::{CampaignId, ChatId, CorpId, Via};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::{JoinWays, chats, owner, texts};
use crate::Error;
use crate::row::Columns;
use crate::times::at;

/// Rooms that WeCom opens when the groups of a way are full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rooms {
    /// The supply task that waits for one.
    pub task: Uuid,
    /// What they are called, followed by their number.
    pub name: String,
    /// The number of the first.
    pub number: i64,
}

/// WeCom is told these groups, and whether the way opens rooms, now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedJoinWay {
    pub way: String,
    pub config_id: String,
    pub campaign: CampaignId,
    pub via: Via,
    pub chats: Vec<ChatId>,
    /// It is to open rooms.
    pub rooms: Option<Rooms>,
    /// Which try this is.
    pub attempt: i32,
}

impl JoinWays {
    /// Takes those whose groups WeCom must be told. Telling it twice is telling it once; the lease is longer than a call, so
    /// that no older word comes after a newer one.
    pub async fn changeable(
        &self,
        corp: &CorpId,
        limit: u32,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Vec<ChangedJoinWay>, Error> {
        let rows = self
            .take(
                "WITH picked AS (
                    SELECT way, rooms_for FROM join_ways WHERE corp_id = $1 AND state = 'ready' AND next_try_at <= $2
                    ORDER BY next_try_at LIMIT $4 FOR UPDATE SKIP LOCKED)
                 UPDATE join_ways AS w SET next_try_at = $3, tries = w.tries + 1,
                    told_rooms = CASE WHEN w.told_rooms = (w.rooms_for IS NOT NULL) THEN w.told_rooms END
                 FROM picked AS p LEFT JOIN supply_tasks AS s ON s.corp_id = $1 AND s.task_id = p.rooms_for
                 WHERE w.corp_id = $1 AND w.way = p.way
                 RETURNING w.way, w.config_id, w.campaign_id, w.via, w.chats, w.tries, s.task_id, s.room_name, s.room_number",
                corp,
                limit,
                lease_ms,
                now_ms,
            )
            .await?;
        rows.iter()
            .map(|row| {
                let (campaign, via) = owner(row)?;
                Ok(ChangedJoinWay {
                    way: row.value("way")?,
                    config_id: row.value("config_id")?,
                    campaign,
                    via,
                    chats: chats(row, "chats")?,
                    rooms: rooms(row)?,
                    attempt: row.value("tries")?,
                })
            })
            .collect()
    }

    /// It leads into these groups at WeCom, and opens rooms for this task, or none. If it is to do otherwise by now, that is next.
    pub async fn changed(
        &self,
        corp: &CorpId,
        way: &str,
        told: &[ChatId],
        rooms_for: Option<Uuid>,
        now_ms: u64,
    ) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE join_ways SET told_chats = $3, tries = 0, last_errcode = NULL, last_error = NULL,
                    changed_by = pg_current_xact_id(),
                    told_rooms = CASE WHEN rooms_for IS NOT DISTINCT FROM $5 THEN $5 IS NOT NULL END,
                    next_try_at = CASE WHEN state <> 'ready' THEN next_try_at
                        WHEN chats <> $3 OR rooms_for IS DISTINCT FROM $5 THEN $4 END
                 WHERE corp_id = $1 AND way = $2 AND config_id IS NOT NULL",
            )
            .bind(corp.as_str())
            .bind(way.to_owned())
            .bind(texts(told))
            .bind(at(now_ms))
            .bind(rooms_for);
        work.execute(query).await?;
        work.end().await
    }
}

fn rooms(row: &PgRow) -> Result<Option<Rooms>, Error> {
    let Some(task) = row.value("task_id")? else {
        return Ok(None);
    };
    Ok(Some(Rooms {
        task,
        name: row
            .value::<Option<String>>("room_name")?
            .unwrap_or_default(),
        number: row.value::<Option<i64>>("room_number")?.unwrap_or(1),
    }))
}
