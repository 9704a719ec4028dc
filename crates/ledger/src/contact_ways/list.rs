//! What processes keep in memory, pictures, and counts.

use allocation::{ChannelId, CorpId, MemberId};

use super::{ContactWays, WayKind, WayState};
use crate::Error;
use crate::row::Columns;

/// A way whose meaning changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedWay {
    pub way: String,
    pub channel: ChannelId,
    pub member: MemberId,
    pub kind: WayKind,
    pub state: WayState,
}

/// What changed since a mark.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangedWays {
    pub ways: Vec<ListedWay>,
    /// From where to read the next time.
    pub mark: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WayPicture {
    pub way: String,
    pub bytes: Vec<u8>,
    pub content_type: String,
    /// Where WeCom has it.
    pub qr_code: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WayCount {
    pub state: WayState,
    pub kind: WayKind,
    pub count: u64,
}

/// How many ways a member has for a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberWays {
    pub member: MemberId,
    pub slots_ready: u64,
    pub plain_ready: u64,
    /// Wanted or asked for.
    pub coming: u64,
    pub retiring: u64,
    pub failed: u64,
    /// Of the last one that is not there yet.
    pub last_errcode: Option<i64>,
    pub last_error: Option<String>,
    pub next_try_ms: Option<u64>,
}

impl MemberWays {
    /// None is there, and none is wanted.
    pub fn none(member: MemberId) -> Self {
        Self {
            member,
            slots_ready: 0,
            plain_ready: 0,
            coming: 0,
            retiring: 0,
            failed: 0,
            last_errcode: None,
            last_error: None,
            next_try_ms: None,
        }
    }
}

const PAGE: i64 = 5_000;

impl ContactWays {
    /// Ways that became ready, retiring or gone since the mark (0: ever, without those that are gone). A change may come
    /// twice and is never left out: what was not committed when the mark was taken is read the next time.
    pub async fn changed(&self, corp: &CorpId, mark: u64) -> Result<ChangedWays, Error> {
        let mut work = self.db.single().await?;
        let query =
            work.query("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS mark");
        let next = work.fetch_one(query).await?.number("mark")?;
        work.end().await?;
        let mut changed = ChangedWays {
            ways: Vec::new(),
            mark: next,
        };
        let (mut after, mut after_way) = (mark, String::new());
        loop {
            let mut work = self.db.single().await?;
            let query = work
                .query(
                    "SELECT way, channel_id, member, kind, state, changed_by::text::bigint AS changed_by FROM contact_ways
                     WHERE corp_id = $1 AND (changed_by, way) > ($2::text::xid8, $3)
                        AND (state IN ('ready', 'retiring') OR state = 'gone' AND $4)
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
                let (channel, member) = super::owner(row)?;
                after = row.number("changed_by")?;
                after_way = row.value("way")?;
                changed.ways.push(ListedWay {
                    way: after_way.clone(),
                    channel,
                    member,
                    kind: row.parsed("kind")?,
                    state: row.parsed("state")?,
                });
            }
            if (rows.len() as i64) < PAGE {
                return Ok(changed);
            }
        }
    }

    /// The pictures of those of these ways that have one.
    pub async fn pictures(&self, corp: &CorpId, ways: &[String]) -> Result<Vec<WayPicture>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT way, picture, picture_type, qr_code FROM contact_ways
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

    /// How far each member of a channel is, by member.
    pub async fn of_channel(
        &self,
        corp: &CorpId,
        channel: &ChannelId,
    ) -> Result<Vec<MemberWays>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT member,
                    count(*) FILTER (WHERE state = 'ready' AND kind = 'slot') AS slots_ready,
                    count(*) FILTER (WHERE state = 'ready' AND kind = 'plain') AS plain_ready,
                    count(*) FILTER (WHERE state IN ('wanted', 'asked')) AS coming,
                    count(*) FILTER (WHERE state = 'retiring') AS retiring,
                    count(*) FILTER (WHERE state = 'failed') AS failed,
                    (array_agg(last_errcode ORDER BY asked_at DESC NULLS LAST, way) FILTER (WHERE last_error IS NOT NULL
                        AND state IN ('wanted', 'asked', 'failed')))[1] AS last_errcode,
                    (array_agg(last_error ORDER BY asked_at DESC NULLS LAST, way) FILTER (WHERE last_error IS NOT NULL
                        AND state IN ('wanted', 'asked', 'failed')))[1] AS last_error,
                    min(next_try_at) FILTER (WHERE state IN ('wanted', 'asked', 'failed')) AS next_try_at
                 FROM contact_ways WHERE corp_id = $1 AND channel_id = $2 AND state <> 'gone'
                 GROUP BY member ORDER BY member",
            )
            .bind(corp.as_str())
            .bind(channel.as_str().to_owned());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| {
                Ok(MemberWays {
                    member: row.parsed("member")?,
                    slots_ready: row.number("slots_ready")?,
                    plain_ready: row.number("plain_ready")?,
                    coming: row.number("coming")?,
                    retiring: row.number("retiring")?,
                    failed: row.number("failed")?,
                    last_errcode: row.value("last_errcode")?,
                    last_error: row.value("last_error")?,
                    next_try_ms: row.ms_option("next_try_at")?,
                })
            })
            .collect()
    }

    pub async fn counts(&self, corp: &CorpId) -> Result<Vec<WayCount>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("SELECT state, kind, count(*) AS n FROM contact_ways WHERE corp_id = $1 GROUP BY 1, 2 ORDER BY 1, 2")
            .bind(corp.as_str());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| {
                Ok(WayCount {
                    state: row.parsed("state")?,
                    kind: row.parsed("kind")?,
                    count: row.number("n")?,
                })
            })
            .collect()
    }
}
