//! Groups that got too many people, and what had to be mended of what we knew of groups.

use std::str::FromStr;

use allocation::{ChatId, CorpId};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::SeatTable;
use crate::Error;
use crate::cursor::{Page, PageRequest, Window};
use crate::row::Columns;
use crate::times::at;

const LIST: &str = "group_changes";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupEventKind {
    /// More people came in past us than it has room for.
    Oversold,
    /// What we had was not what is.
    Mended,
}

impl GroupEventKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Oversold => "oversold",
            Self::Mended => "mended",
        }
    }
}

impl FromStr for GroupEventKind {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "oversold" => Ok(Self::Oversold),
            "mended" => Ok(Self::Mended),
            _ => Err("no kind of a change of a group"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupEvent {
    pub id: Uuid,
    pub chat: ChatId,
    pub at_ms: u64,
    pub kind: GroupEventKind,
    pub people_before: u32,
    pub people: u32,
    /// By how many it is too full.
    pub excess: Option<u32>,
    /// What was mended.
    pub reason: Option<String>,
}

macro_rules! list {
    ($rest:literal) => {
        concat!(
            "SELECT g.id, g.chat_id, g.at, g.kind, g.people_before, g.people, g.excess, g.reason FROM group_changes AS g
             WHERE g.corp_id = $1 AND ($2::text IS NULL OR g.chat_id = $2) AND ($3::text IS NULL OR g.kind = $3) ",
            $rest
        )
    };
}

const FORWARD: &str = list!(
    "AND ($4::timestamptz IS NULL OR (g.at, g.id) < ($4, $5)) ORDER BY g.at DESC, g.id DESC LIMIT $6"
);
const BACKWARD: &str =
    list!("AND ($4::timestamptz IS NULL OR (g.at, g.id) > ($4, $5)) ORDER BY g.at, g.id LIMIT $6");

impl SeatTable {
    /// Of one group or all, the latest first.
    pub async fn group_events(
        &self,
        corp: &CorpId,
        chat: Option<&ChatId>,
        kind: Option<GroupEventKind>,
        page: &PageRequest,
    ) -> Result<Page<GroupEvent>, Error> {
        let window = Window::read(page, LIST)?;
        let id = window.uuid()?;
        let mut work = self.db.single().await?;
        let query = work
            .query_once(if window.is_backward() {
                BACKWARD
            } else {
                FORWARD
            })
            .bind(corp.as_str())
            .bind(chat.map(|chat| chat.as_str().to_owned()))
            .bind(kind.map(GroupEventKind::as_str))
            .bind(window.time())
            .bind(id)
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let events = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(window.page(LIST, events, |event| {
            (at(event.at_ms), event.id.to_string())
        }))
    }
}

fn read(row: &PgRow) -> Result<GroupEvent, Error> {
    Ok(GroupEvent {
        id: row.value("id")?,
        chat: row.parsed("chat_id")?,
        at_ms: row.ms("at")?,
        kind: row.parsed("kind")?,
        people_before: row.small("people_before")?,
        people: row.small("people")?,
        excess: row.small_option("excess")?,
        reason: row.value("reason")?,
    })
}
