//! Contact ways of channels with visits: which are wanted, which WeCom was asked for, which can be shown.
//!
//! Making one at WeCom cannot be repeated safely. So it is written here that it is asked for before it is, every answer
//! names the try that it belongs to, and a row whose answer got lost stays `asked` until somebody has looked for its State
//! at WeCom. Whoever works on a row puts its `next_try_at` off: that is the lease, and there is no other.

/// For a query's `WITH`: the pools whose members the visitors of each channel may see. Those of the channel's own pool have its
/// slots; those of the pools that it falls back to none, so that visitors see their plain way.
macro_rules! serving {
    () => {
        "serving AS (
            SELECT c.channel_id, p.pool_id, c.slots_per_member::bigint AS slots FROM channels AS c
            JOIN pools AS p ON p.corp_id = c.corp_id AND p.pool_id = c.pool_id AND p.deleted_at IS NULL
            WHERE c.corp_id = $1 AND c.deleted_at IS NULL AND c.slots_per_member IS NOT NULL
            UNION ALL
            SELECT c.channel_id, p.pool_id, 0 FROM channels AS c
            JOIN pools AS own ON own.corp_id = c.corp_id AND own.pool_id = c.pool_id AND own.deleted_at IS NULL
            CROSS JOIN LATERAL jsonb_array_elements(own.routing -> 'fallbacks') AS f (fallback)
            JOIN pools AS p ON p.corp_id = c.corp_id AND p.pool_id = f.fallback ->> 'pool' AND p.deleted_at IS NULL
            WHERE c.corp_id = $1 AND c.deleted_at IS NULL AND c.slots_per_member IS NOT NULL)"
    };
}
use serving;

mod ask;
mod list;
mod passed_over;
mod plan;
mod retire;

use std::str::FromStr;

use allocation::{ChannelId, CorpId, MemberId};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::connection::Db;
use crate::row::{Columns, signed};
use crate::times::at;

pub use ask::{Asked, Lost, Made, Refusal, Unpictured};
pub use list::{ChangedWays, ListedWay, MemberWays, WayCount, WayPicture};
pub use passed_over::{PassedOver, Refused};
pub use plan::{PlanLimits, PlannedWays};
pub use retire::{Deletable, Untold};

#[derive(Debug, Clone)]
pub struct ContactWays {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WayKind {
    /// Borrowed by one hold at a time.
    Slot,
    /// For holds without a slot.
    Plain,
}

impl WayKind {
    pub fn as_str(self) -> &'static str {
        match self {
            WayKind::Slot => "slot",
            WayKind::Plain => "plain",
        }
    }
}

impl FromStr for WayKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "slot" => Ok(WayKind::Slot),
            "plain" => Ok(WayKind::Plain),
            other => Err(format!("{other} is no kind of contact way")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WayState {
    Wanted,
    /// The call may have left the house, or it is made and lacks its picture.
    Asked,
    Ready,
    Retiring,
    Gone,
    Failed,
}

impl WayState {
    pub const ALL: [WayState; 6] = [
        WayState::Wanted,
        WayState::Asked,
        WayState::Ready,
        WayState::Retiring,
        WayState::Gone,
        WayState::Failed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            WayState::Wanted => "wanted",
            WayState::Asked => "asked",
            WayState::Ready => "ready",
            WayState::Retiring => "retiring",
            WayState::Gone => "gone",
            WayState::Failed => "failed",
        }
    }
}

impl FromStr for WayState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        WayState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| format!("{text} is no state of a contact way"))
    }
}

/// Which steps have something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaysDue {
    pub ask: bool,
    pub look: bool,
    pub picture: bool,
    pub tell: bool,
    pub delete: bool,
    /// WeCom refuses ways: who has none is passed over.
    pub passes_over: bool,
    /// A refusal stands against all ways of the corp until then; nothing is asked for.
    pub paused_until_ms: Option<u64>,
}

impl ContactWays {
    /// One look at the indexes, so that an idle loop costs one statement.
    pub async fn due(&self, corp: &CorpId, generation: u64, now_ms: u64) -> Result<WaysDue, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT
                    EXISTS (SELECT FROM contact_ways WHERE corp_id = $1 AND state = 'wanted' AND next_try_at <= $2) AS ask,
                    EXISTS (SELECT FROM contact_ways WHERE corp_id = $1 AND state = 'asked' AND next_try_at <= $2
                        AND config_id IS NULL) AS look,
                    EXISTS (SELECT FROM contact_ways WHERE corp_id = $1 AND state = 'asked' AND next_try_at <= $2
                        AND config_id IS NOT NULL) AS picture,
                    EXISTS (SELECT FROM contact_ways WHERE corp_id = $1 AND roster_generation < $3
                        AND kind = 'slot' AND state IN ('ready', 'retiring')) AS tell,
                    EXISTS (SELECT FROM contact_ways WHERE corp_id = $1 AND state = 'retiring' AND next_try_at <= $2)
                        AS delete,
                    EXISTS (SELECT FROM contact_ways WHERE corp_id = $1 AND passes_over IS NOT NULL
                        AND state IN ('wanted', 'asked', 'failed')) AS passes_over,
                    (SELECT max(pauses_corp_until) FROM contact_ways
                        WHERE corp_id = $1 AND pauses_corp_until > $2) AS paused_until",
            )
            .bind(corp.as_str())
            .bind(at(now_ms))
            .bind(signed(generation));
        let row = work.fetch_one(query).await?;
        work.end().await?;
        Ok(WaysDue {
            ask: row.value("ask")?,
            look: row.value("look")?,
            picture: row.value("picture")?,
            tell: row.value("tell")?,
            delete: row.value("delete")?,
            passes_over: row.value("passes_over")?,
            paused_until_ms: row.ms_option("paused_until")?,
        })
    }
}

/// Whose way a row is.
fn owner(row: &PgRow) -> Result<(ChannelId, MemberId), Error> {
    Ok((row.parsed("channel_id")?, row.parsed("member")?))
}
