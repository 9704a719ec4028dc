//! How many visitors hold or wait for a seat: what an operator loses who takes a group or a campaign away.

use allocation::{CampaignId, ChatId, CorpId};

use super::SeatTable;
use crate::Error;
use crate::row::Columns;

/// As the log has been written so far; Redis may be moments ahead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenSeats {
    pub held: u64,
    pub waiting: u64,
}

impl OpenSeats {
    pub fn is_empty(&self) -> bool {
        self.held + self.waiting == 0
    }
}

impl SeatTable {
    /// Of a campaign.
    pub async fn open_of(&self, corp: &CorpId, campaign: &CampaignId) -> Result<OpenSeats, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT count(*) FILTER (WHERE state = 'held') AS held, count(*) FILTER (WHERE state = 'waiting') AS waiting
                 FROM seats WHERE corp_id = $1 AND campaign_id = $2 AND state IN ('held', 'waiting')",
            )
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned());
        let row = work.fetch_one(query).await?;
        work.end().await?;
        Ok(OpenSeats {
            held: row.number("held")?,
            waiting: row.number("waiting")?,
        })
    }

    /// Held in a group.
    pub async fn held_in(&self, corp: &CorpId, chat: &ChatId) -> Result<u64, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT count(*) AS held FROM seats
                 WHERE corp_id = $1 AND chat_id = $2 AND state = 'held' AND ended_at IS NULL",
            )
            .bind(corp.as_str())
            .bind(chat.as_str().to_owned());
        let row = work.fetch_one(query).await?;
        work.end().await?;
        row.number("held")
    }
}
