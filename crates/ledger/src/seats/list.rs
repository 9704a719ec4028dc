//! A campaign's seats for people, newest first.

use allocation::{CampaignId, ChatId, CorpId, SubjectKey};

use super::{Seat, SeatStage, SeatTable, columns, read};
use crate::Error;
use crate::cursor::{Page, PageRequest, Window};
use crate::times::at;

const LIST: &str = "seats";

/// Every field that is given must match. Who looks for an outside id makes the subject of it.
#[derive(Debug, Clone, Default)]
pub struct SeatFilter {
    pub stage: Option<SeatStage>,
    pub chat: Option<ChatId>,
    pub subject: Option<SubjectKey>,
}

macro_rules! list {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM seats AS s WHERE s.corp_id = $1 AND s.campaign_id = $2 AND ($3::text IS NULL OR s.state = $3)
                AND ($4::text IS NULL OR s.chat_id = $4) AND ($5::text IS NULL OR s.subject = $5) ",
            $rest
        )
    };
}

const FORWARD: &str = list!(
    "AND ($6::timestamptz IS NULL OR (s.asked_at, s.seat_id) < ($6, $7))
     ORDER BY s.asked_at DESC, s.seat_id DESC LIMIT $8"
);
const BACKWARD: &str = list!(
    "AND ($6::timestamptz IS NULL OR (s.asked_at, s.seat_id) > ($6, $7)) ORDER BY s.asked_at, s.seat_id LIMIT $8"
);

impl SeatTable {
    pub async fn list(
        &self,
        corp: &CorpId,
        campaign: &CampaignId,
        filter: &SeatFilter,
        page: &PageRequest,
    ) -> Result<Page<Seat>, Error> {
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
            .bind(campaign.as_str().to_owned())
            .bind(filter.stage.map(SeatStage::as_str))
            .bind(filter.chat.as_ref().map(|chat| chat.as_str().to_owned()))
            .bind(filter.subject.map(|subject| subject.to_string()))
            .bind(window.time())
            .bind(id)
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let seats = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(window.page(LIST, seats, |seat| (at(seat.asked_ms), seat.id.to_string())))
    }
}
