//! Join ways of campaigns: which are wanted, which WeCom was asked for, which can be shown.
//!
//! They are kept as contact ways are (see `contact_ways`): the intent is written before the call, every answer names its
//! try, and whoever works on a row puts its `next_try_at` off. But WeCom lists no join ways. So one whose answer got lost
//! cannot be found again: it is counted, and asked for once more when its time is over.

mod arrange;
mod ask;
mod change;
mod inviters;
mod list;
mod plan;
mod retire;

use allocation::{CampaignId, ChatId, CorpId, Via};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::connection::Db;
use crate::contact_ways::WayState;
use crate::error::retry;
use crate::row::{Columns, signed};
use crate::times::at;

pub use ask::{AskedJoinWay, LostJoinWays, UnpicturedJoinWay};
pub use change::{ChangedJoinWay, Rooms};
pub use inviters::{InviterWayLimits, InviterWish};
pub use list::{CampaignWays, JoinWaysSince, ListedJoinWay};
pub use plan::PlannedJoinWays;

#[derive(Debug, Clone)]
pub struct JoinWays {
    pub(crate) db: Db,
}

/// Which steps have something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JoinWaysDue {
    pub ask: bool,
    /// Some were asked for, and no answer came in time.
    pub lost: bool,
    pub picture: bool,
    /// Some lead into other groups than they are to.
    pub change: bool,
    pub delete: bool,
    /// A refusal stands against all ways of the corp until then; nothing is asked for.
    pub paused_until_ms: Option<u64>,
}

impl JoinWays {
    /// One look at the indexes, so that an idle loop costs one statement.
    pub async fn due(&self, corp: &CorpId, now_ms: u64) -> Result<JoinWaysDue, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT
                    EXISTS (SELECT FROM join_ways WHERE corp_id = $1 AND state = 'wanted' AND next_try_at <= $2) AS ask,
                    EXISTS (SELECT FROM join_ways WHERE corp_id = $1 AND state = 'asked' AND next_try_at <= $2
                        AND config_id IS NULL) AS lost,
                    EXISTS (SELECT FROM join_ways WHERE corp_id = $1 AND state = 'asked' AND next_try_at <= $2
                        AND config_id IS NOT NULL) AS picture,
                    EXISTS (SELECT FROM join_ways WHERE corp_id = $1 AND state = 'ready' AND next_try_at <= $2) AS change,
                    EXISTS (SELECT FROM join_ways WHERE corp_id = $1 AND state = 'retiring' AND next_try_at <= $2)
                        AS delete,
                    (SELECT max(pauses_corp_until) FROM join_ways
                        WHERE corp_id = $1 AND pauses_corp_until > $2) AS paused_until",
            )
            .bind(corp.as_str())
            .bind(at(now_ms));
        let row = work.fetch_one(query).await?;
        work.end().await?;
        Ok(JoinWaysDue {
            ask: row.value("ask")?,
            lost: row.value("lost")?,
            picture: row.value("picture")?,
            change: row.value("change")?,
            delete: row.value("delete")?,
            paused_until_ms: row.ms_option("paused_until")?,
        })
    }

    /// How many there are in each state. What there are none of is missing.
    pub async fn counts(&self, corp: &CorpId) -> Result<Vec<(WayState, u64)>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("SELECT state, count(*) AS n FROM join_ways WHERE corp_id = $1 GROUP BY 1 ORDER BY 1")
            .bind(corp.as_str());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| Ok((row.parsed("state")?, row.number("n")?)))
            .collect()
    }

    /// $1 corp, $2 now, $3 end of the lease, $4 how many.
    async fn take(
        &self,
        sql: &'static str,
        corp: &CorpId,
        limit: u32,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Vec<PgRow>, Error> {
        retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query(sql)
                .bind(corp.as_str())
                .bind(at(now_ms))
                .bind(at(now_ms.saturating_add(lease_ms)))
                .bind(signed(u64::from(limit)));
            let rows = work.fetch_all(query).await?;
            work.end().await?;
            Ok(rows)
        })
        .await
    }
}

/// State of the join ways of a campaign with this public code.
pub fn campaign_via(public_code: &str) -> Option<Via> {
    Via::new(format!("{CAMPAIGN_STATE}{public_code}")).ok()
}

/// States of join ways that are made for campaigns begin like this.
pub const CAMPAIGN_STATE: &str = "pg.";

/// Whose way a row is, and its State.
fn owner(row: &PgRow) -> Result<(CampaignId, Via), Error> {
    Ok((row.parsed("campaign_id")?, row.parsed("via")?))
}

fn chats(row: &PgRow, column: &'static str) -> Result<Vec<ChatId>, Error> {
    let chats: Vec<String> = row.value(column)?;
    let chats = chats.into_iter().map(ChatId::new);
    chats
        .collect::<Result<_, _>>()
        .map_err(|problem| Error::unreadable(column, problem))
}

fn texts(chats: &[ChatId]) -> Vec<String> {
    chats.iter().map(ToString::to_string).collect()
}
