//! What processes keep in memory, pictures, and how far a campaign is.

use allocation::{CampaignId, ChatId, CorpId, Via};

use super::{JoinWays, chats};
use crate::Error;
use crate::contact_ways::{WayPicture, WayState};
use crate::row::Columns;

/// A way whose meaning changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedJoinWay {
    pub way: String,
    pub campaign: CampaignId,
    /// The State of an inviter, if it is his and not the campaign's.
    pub own: Option<Via>,
    pub state: WayState,
    /// The groups that visitors may be shown it for: it is to lead into them, and does.
    pub chats: Vec<ChatId>,
    /// WeCom opens a room when its group is full: so it is to be, and it was told.
    pub opens_rooms: bool,
}

/// What changed since a mark.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JoinWaysSince {
    pub ways: Vec<ListedJoinWay>,
    /// From where to read the next time.
    pub mark: u64,
}

/// How far the ways of a campaign are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CampaignWays {
    pub ready: u64,
    /// Wanted or asked for.
    pub coming: u64,
    pub retiring: u64,
    pub failed: u64,
    /// Of inviters: those that can be shown, and those that are wanted or asked for.
    pub own_ready: u64,
    pub own_coming: u64,
    /// Calls of those whose answer never came.
    pub lost: u64,
    /// Of the last one that is not there yet, or leads into other groups than it is to.
    pub last_errcode: Option<i64>,
    pub last_error: Option<String>,
    pub next_try_ms: Option<u64>,
}

const PAGE: i64 = 5_000;

impl JoinWays {
    /// Ways that changed since the mark (0: ever) and can be, or could have been, shown. A change may come twice and is never
    /// left out: what was not committed when the mark was taken is read the next time.
    pub async fn since(&self, corp: &CorpId, mark: u64) -> Result<JoinWaysSince, Error> {
        let mut work = self.db.single().await?;
        let query =
            work.query("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS mark");
        let next = work.fetch_one(query).await?.number("mark")?;
        work.end().await?;
        let mut since = JoinWaysSince {
            ways: Vec::new(),
            mark: next,
        };
        let (mut after, mut after_way) = (mark, String::new());
        loop {
            let mut work = self.db.single().await?;
            let query = work
                .query(
                    "SELECT way, campaign_id, CASE WHEN inviter_id IS NOT NULL THEN via END AS own, state, changed_by::text::bigint AS changed_by,
                        state = 'ready' AND rooms_for IS NOT NULL AND coalesce(told_rooms, false) AS opens_rooms,
                        ARRAY(SELECT chat FROM unnest(chats) WITH ORDINALITY AS c (chat, place)
                            WHERE chat = ANY(told_chats) ORDER BY place) AS chats
                     FROM join_ways
                     WHERE corp_id = $1 AND (changed_by, way) > ($2::text::xid8, $3)
                        AND (state IN ('ready', 'retiring') OR $4)
                     ORDER BY changed_by, way LIMIT $5",
                )
                .bind(corp.as_str())
                .bind(after.to_string())
                .bind(after_way.clone())
                .bind(mark > 0)
                .bind(PAGE);
            let rows = work.fetch_all(query).await?;
            work.end().await?;
            for row in &rows {
                after = row.number("changed_by")?;
                after_way = row.value("way")?;
                since.ways.push(ListedJoinWay {
                    way: after_way.clone(),
                    campaign: row.parsed("campaign_id")?,
                    own: row.parsed_option("own")?,
                    state: row.parsed("state")?,
                    chats: chats(row, "chats")?,
                    opens_rooms: row.value("opens_rooms")?,
                });
            }
            if (rows.len() as i64) < PAGE {
                return Ok(since);
            }
        }
    }

    /// The pictures of those of these ways that have one.
    pub async fn pictures(&self, corp: &CorpId, ways: &[String]) -> Result<Vec<WayPicture>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT way, picture, picture_type, qr_code FROM join_ways
                 WHERE corp_id = $1 AND way = ANY($2) AND picture IS NOT NULL",
            )
            .bind(corp.as_str())
            .bind(ways.to_vec());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| {
                Ok(WayPicture {
                    way: row.value("way")?,
                    bytes: row.value("picture")?,
                    content_type: row.value("picture_type")?,
                    qr_code: row.value::<Option<String>>("qr_code")?.unwrap_or_default(),
                })
            })
            .collect()
    }

    /// How the groups that are in a pool are called, those that have a name.
    pub async fn group_names(&self, corp: &CorpId) -> Result<Vec<(ChatId, String)>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT chat_id, name FROM groups
                 WHERE corp_id = $1 AND group_pool_id IS NOT NULL AND deleted_at IS NULL AND name <> ''",
            )
            .bind(corp.as_str());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| Ok((row.parsed("chat_id")?, row.value("name")?)))
            .collect()
    }

    /// How far a campaign is.
    pub async fn of_campaign(
        &self,
        corp: &CorpId,
        campaign: &CampaignId,
    ) -> Result<CampaignWays, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT
                    count(*) FILTER (WHERE state = 'ready' AND inviter_id IS NULL) AS ready,
                    count(*) FILTER (WHERE state IN ('wanted', 'asked') AND inviter_id IS NULL) AS coming,
                    count(*) FILTER (WHERE state = 'retiring') AS retiring,
                    count(*) FILTER (WHERE state = 'failed') AS failed,
                    count(*) FILTER (WHERE state = 'ready' AND inviter_id IS NOT NULL) AS own_ready,
                    count(*) FILTER (WHERE state IN ('wanted', 'asked') AND inviter_id IS NOT NULL) AS own_coming,
                    coalesce(sum(lost), 0)::bigint AS lost,
                    (array_agg(last_errcode ORDER BY asked_at DESC NULLS LAST, way) FILTER (WHERE last_error IS NOT NULL
                        AND state <> 'retiring'))[1] AS last_errcode,
                    (array_agg(last_error ORDER BY asked_at DESC NULLS LAST, way) FILTER (WHERE last_error IS NOT NULL
                        AND state <> 'retiring'))[1] AS last_error,
                    min(next_try_at) FILTER (WHERE state <> 'retiring') AS next_try_at
                 FROM join_ways WHERE corp_id = $1 AND campaign_id = $2 AND state <> 'gone'",
            )
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned());
        let row = work.fetch_one(query).await?;
        work.end().await?;
        Ok(CampaignWays {
            ready: row.number("ready")?,
            coming: row.number("coming")?,
            retiring: row.number("retiring")?,
            failed: row.number("failed")?,
            own_ready: row.number("own_ready")?,
            own_coming: row.number("own_coming")?,
            lost: row.number("lost")?,
            last_errcode: row.value("last_errcode")?,
            last_error: row.value("last_error")?,
            next_try_ms: row.ms_option("next_try_at")?,
        })
    }
}
