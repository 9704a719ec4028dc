//! Who is in groups, and how full they are.

use std::collections::HashMap;

use allocation::{ChatId, ChatVersion, CorpId, PersonKey, SeatId, Via};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::{CameAs, SeatTable};
use crate::Error;
use crate::log_write::column;
use crate::row::Columns;

/// Somebody who is in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPerson {
    pub person: PersonKey,
    pub joined_ms: u64,
    /// None: a read of the group is to say who he is.
    pub came: Option<CameAs>,
    /// Of one who is not named: only a read that may be old says that he is in it.
    pub doubted: bool,
    pub scanned: bool,
    pub via: Option<Via>,
}

/// How full a group is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupCount {
    /// What its people were last; None: it was never read.
    pub seen: Option<ChatVersion>,
    pub people: u32,
    /// After the last change of its people.
    pub oversold: u32,
    pub held: u64,
    pub confirmed: u64,
    pub late: u64,
}

impl SeatTable {
    /// Who is in each of these groups, by their keys.
    pub async fn people_in(
        &self,
        corp: &CorpId,
        chats: &[ChatId],
    ) -> Result<HashMap<ChatId, Vec<GroupPerson>>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT chat_id, person, joined_at, came_as, seat_id, scanned, via, doubted FROM group_people
                 WHERE corp_id = $1 AND chat_id = ANY($2) AND left_at IS NULL ORDER BY chat_id, person",
            )
            .bind(corp.as_str())
            .bind(column(chats, |chat| chat.as_str()));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        by_group(&rows)
    }

    /// Of each of these groups that anything is known of.
    pub async fn group_counts(
        &self,
        corp: &CorpId,
        chats: &[ChatId],
    ) -> Result<HashMap<ChatId, GroupCount>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT n.chat_id, c.seen, coalesce(c.people, 0) AS people, coalesce(c.oversold, 0) AS oversold,
                    s.held, s.confirmed, s.late
                 FROM unnest($2::text[]) AS n (chat_id)
                 LEFT JOIN group_counts AS c ON c.corp_id = $1 AND c.chat_id = n.chat_id
                 CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE state = 'held') AS held,
                    count(*) FILTER (WHERE state = 'confirmed') AS confirmed,
                    count(*) FILTER (WHERE state = 'late') AS late
                    FROM seats WHERE corp_id = $1 AND chat_id = n.chat_id AND ended_at IS NULL) AS s
                 WHERE c.chat_id IS NOT NULL OR s.held + s.confirmed + s.late > 0",
            )
            .bind(corp.as_str())
            .bind(column(chats, |chat| chat.as_str()));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let count = |row: &PgRow| {
            let count = GroupCount {
                seen: row.parsed_option("seen")?,
                people: row.small("people")?,
                oversold: row.small("oversold")?,
                held: row.number("held")?,
                confirmed: row.number("confirmed")?,
                late: row.number("late")?,
            };
            Ok((row.parsed("chat_id")?, count))
        };
        rows.iter().map(count).collect()
    }
}

pub(super) fn by_group(rows: &[PgRow]) -> Result<HashMap<ChatId, Vec<GroupPerson>>, Error> {
    let mut groups: HashMap<ChatId, Vec<GroupPerson>> = HashMap::new();
    for row in rows {
        groups
            .entry(row.parsed("chat_id")?)
            .or_default()
            .push(read(row)?);
    }
    Ok(groups)
}

fn read(row: &PgRow) -> Result<GroupPerson, Error> {
    let seat: Option<Uuid> = row.value("seat_id")?;
    let came: Option<&str> = row.value("came_as")?;
    let came = came.map(|word| {
        CameAs::read(word, seat.map(SeatId)).ok_or_else(|| Error::unreadable("came_as", word))
    });
    Ok(GroupPerson {
        person: row.parsed("person")?,
        joined_ms: row.ms("joined_at")?,
        came: came.transpose()?,
        doubted: row.value("doubted")?,
        scanned: row.value("scanned")?,
        via: row.parsed_option("via")?,
    })
}
