//! Whom inviters brought: reading. The writer of the log makes edges, and `qualify` ends their waiting.

use std::str::FromStr;

use allocation::{CampaignId, ChatId, CorpId, InviterId, PersonKey, SeatId};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::Inviters;
use crate::Error;
use crate::cursor::{Page, PageRequest, Window};
use crate::row::Columns;
use crate::times::at;

const LIST: &str = "edges";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeState {
    /// He has to stay.
    Pending,
    /// He stayed.
    Qualified,
    /// He did not, or nobody can say whether he did.
    Revoked,
    /// It never counted.
    Refused,
}

impl EdgeState {
    pub const ALL: [Self; 4] = [Self::Pending, Self::Qualified, Self::Revoked, Self::Refused];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Qualified => "qualified",
            Self::Revoked => "revoked",
            Self::Refused => "refused",
        }
    }
}

impl FromStr for EdgeState {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|state| state.as_str() == text)
            .ok_or("no state of an edge")
    }
}

/// An inviter brought somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    pub person: PersonKey,
    pub inviter: InviterId,
    pub seat: Option<SeatId>,
    /// Where he is, or was last.
    pub chat: ChatId,
    pub state: EdgeState,
    /// Why it does not count.
    pub reason: Option<String>,
    pub joined_ms: u64,
    pub qualifies_ms: u64,
    pub qualified_ms: Option<u64>,
    /// Since when it is what it is.
    pub changed_ms: u64,
    /// Times that he came back too late.
    pub rejoins: u32,
}

/// Every field that is given must match.
#[derive(Debug, Clone, Default)]
pub struct EdgeFilter {
    pub inviter: Option<InviterId>,
    pub state: Option<EdgeState>,
}

macro_rules! list {
    ($rest:literal) => {
        concat!(
            "SELECT e.person, e.inviter_id, e.seat_id, e.chat_id, e.state, e.reason, e.joined_at, e.qualifies_at,
                e.qualified_at, e.changed_at, e.rejoins
             FROM edges AS e WHERE e.corp_id = $1 AND e.campaign_id = $2 AND ($3::text IS NULL OR e.inviter_id = $3)
                AND ($4::text IS NULL OR e.state = $4) ",
            $rest
        )
    };
}

const FORWARD: &str = list!(
    "AND ($5::timestamptz IS NULL OR (e.joined_at, e.person) < ($5, $6))
     ORDER BY e.joined_at DESC, e.person DESC LIMIT $7"
);
const BACKWARD: &str = list!(
    "AND ($5::timestamptz IS NULL OR (e.joined_at, e.person) > ($5, $6)) ORDER BY e.joined_at, e.person LIMIT $7"
);

impl Inviters {
    /// Of a campaign, the latest first.
    pub async fn edges(
        &self,
        corp: &CorpId,
        campaign: &CampaignId,
        filter: &EdgeFilter,
        page: &PageRequest,
    ) -> Result<Page<Edge>, Error> {
        let window = Window::read(page, LIST)?;
        let mut work = self.db.single().await?;
        let query = work
            .query_once(if window.is_backward() {
                BACKWARD
            } else {
                FORWARD
            })
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned())
            .bind(filter.inviter.as_ref().map(|id| id.as_str().to_owned()))
            .bind(filter.state.map(EdgeState::as_str))
            .bind(window.time())
            .bind(window.id().map(str::to_owned))
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let edges = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(window.page(LIST, edges, |edge| {
            (at(edge.joined_ms), edge.person.to_string())
        }))
    }
}

fn read(row: &PgRow) -> Result<Edge, Error> {
    Ok(Edge {
        person: row.parsed("person")?,
        inviter: row.parsed("inviter_id")?,
        seat: row.value::<Option<Uuid>>("seat_id")?.map(SeatId),
        chat: row.parsed("chat_id")?,
        state: row.parsed("state")?,
        reason: row.value("reason")?,
        joined_ms: row.ms("joined_at")?,
        qualifies_ms: row.ms("qualifies_at")?,
        qualified_ms: row.ms_option("qualified_at")?,
        changed_ms: row.ms("changed_at")?,
        rejoins: row.small("rejoins")?,
    })
}
