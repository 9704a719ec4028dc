//! Seats of customer groups, and who is in these: reading. The log writer makes and ends them.

mod changes;
mod list;
mod open;
mod people;
mod standing;
mod words;

use std::collections::HashMap;

use allocation::{
    CampaignId, ChatId, CorpId, GroupPoolId, GroupTags, SeatId, SeatName, SubjectKey, Via,
};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::Error;
use crate::connection::Db;
use crate::log_write::column;
use crate::row::Columns;

pub use changes::{GroupEvent, GroupEventKind};
pub use list::SeatFilter;
pub use open::OpenSeats;
pub use people::{GroupCount, GroupPerson};
pub use standing::StandingSeats;
pub(crate) use standing::standing;
pub use words::{CameAs, SeatEnd, SeatStage};

#[derive(Debug, Clone)]
pub struct SeatTable {
    pub(crate) db: Db,
}

/// One seat, or place in the waiting room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    pub id: SeatId,
    pub campaign: CampaignId,
    pub pool: GroupPoolId,
    /// Surrogate id.
    pub customer: Uuid,
    pub subject: SubjectKey,
    /// Nothing at WeCom will tell who it was that joined.
    pub anonymous: bool,
    /// State of the join way that he was shown.
    pub via: Option<Via>,
    pub tags: GroupTags,
    pub hold_ms: u64,
    pub stage: SeatStage,
    /// The group that he was shown, then the one that he came into.
    pub chat: Option<ChatId>,
    /// The group that he was shown, where he came into another one.
    pub moved_from: Option<ChatId>,
    /// `unionid`, `external_id`, `state` or `count`.
    pub matched: Option<String>,
    pub asked_ms: u64,
    pub held_ms: Option<u64>,
    /// The hold ends then; while he waits, his place.
    pub held_until_ms: u64,
    pub confirmed_ms: Option<u64>,
    pub ended_ms: Option<u64>,
    pub reason: Option<String>,
    /// It is remembered until then that he had it.
    pub memory_until_ms: Option<u64>,
}

impl Seat {
    pub fn name(&self) -> SeatName {
        SeatName {
            campaign: self.campaign.clone(),
            subject: self.subject,
        }
    }
}

macro_rules! columns {
    () => {
        "s.seat_id, s.campaign_id, s.group_pool_id, s.customer_id, s.subject, s.anonymous, s.via, s.tags, s.hold_ms,
         s.state, s.chat_id, s.moved_from, s.matched, s.asked_at, s.held_at, s.held_until, s.confirmed_at, s.ended_at,
         s.reason, s.memory_until"
    };
}
use columns;

impl SeatTable {
    pub async fn get(&self, corp: &CorpId, id: SeatId) -> Result<Option<Seat>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM seats AS s WHERE s.corp_id = $1 AND s.seat_id = $2"
            ))
            .bind(corp.as_str())
            .bind(id.0);
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(read).transpose()
    }

    /// How many of a campaign are what. What there are none of is missing.
    pub async fn counts(
        &self,
        corp: &CorpId,
        campaign: &CampaignId,
    ) -> Result<HashMap<SeatStage, u64>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT state, count(*) AS n FROM seats WHERE corp_id = $1 AND campaign_id = $2 GROUP BY state",
            )
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| Ok((row.parsed("state")?, row.number("n")?)))
            .collect()
    }

    /// In no particular order; those that are not there are left out.
    pub async fn get_many(&self, corp: &CorpId, ids: &[SeatId]) -> Result<Vec<Seat>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM seats AS s WHERE s.corp_id = $1 AND s.seat_id = ANY($2)"
            ))
            .bind(corp.as_str())
            .bind(column(ids, |id| id.0));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read).collect()
    }

    /// Those of each of these groups that are held or confirmed, in the order in which they began.
    pub async fn open_in(
        &self,
        corp: &CorpId,
        chats: &[ChatId],
    ) -> Result<HashMap<ChatId, Vec<Seat>>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM seats AS s WHERE s.corp_id = $1 AND s.chat_id = ANY($2) AND s.ended_at IS NULL
                  ORDER BY s.turn_seq, s.turn_place, s.seat_id"
            ))
            .bind(corp.as_str())
            .bind(column(chats, |chat| chat.as_str()));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let mut open: HashMap<ChatId, Vec<Seat>> = HashMap::new();
        for row in &rows {
            open.entry(row.parsed("chat_id")?)
                .or_default()
                .push(read(row)?);
        }
        Ok(open)
    }

    /// A page of those who wait, by their ids.
    pub async fn waiting(
        &self,
        corp: &CorpId,
        after: Option<SeatId>,
        limit: u32,
    ) -> Result<Vec<Seat>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM seats AS s WHERE s.corp_id = $1 AND s.state = 'waiting' AND s.ended_at IS NULL AND s.seat_id > $2
                  ORDER BY s.seat_id LIMIT $3"
            ))
            .bind(corp.as_str())
            .bind(after.map_or(Uuid::nil(), |after| after.0))
            .bind(i64::from(limit));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read).collect()
    }

    /// Groups in which, as far as the rows say, somebody is or holds a seat, or that were read.
    pub async fn groups(&self, corp: &CorpId) -> Result<Vec<ChatId>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT chat_id FROM group_counts WHERE corp_id = $1
                 UNION SELECT chat_id FROM group_people WHERE corp_id = $1 AND left_at IS NULL
                 UNION SELECT chat_id FROM seats WHERE corp_id = $1 AND ended_at IS NULL AND chat_id IS NOT NULL
                 ORDER BY chat_id",
            )
            .bind(corp.as_str());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(|row| row.parsed("chat_id")).collect()
    }
}

fn read(row: &PgRow) -> Result<Seat, Error> {
    Ok(Seat {
        id: SeatId(row.value("seat_id")?),
        campaign: row.parsed("campaign_id")?,
        pool: row.parsed("group_pool_id")?,
        customer: row.value("customer_id")?,
        subject: row.parsed("subject")?,
        anonymous: row.value("anonymous")?,
        via: row.parsed_option("via")?,
        tags: row.parsed("tags")?,
        hold_ms: row.number("hold_ms")?,
        stage: row.parsed("state")?,
        chat: row.parsed_option("chat_id")?,
        moved_from: row.parsed_option("moved_from")?,
        matched: row.value("matched")?,
        asked_ms: row.ms("asked_at")?,
        held_ms: row.ms_option("held_at")?,
        held_until_ms: row.ms("held_until")?,
        confirmed_ms: row.ms_option("confirmed_at")?,
        ended_ms: row.ms_option("ended_at")?,
        reason: row.value("reason")?,
        memory_until_ms: row.ms_option("memory_until")?,
    })
}
