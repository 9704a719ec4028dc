//! What Redis must be told of slots, and ways that leave.

use allocation::{ChannelId, CorpId, MemberId};

use super::ContactWays;
use crate::Error;
use crate::error::retry;
use crate::log_write::column;
use crate::row::{Columns, signed};
use crate::times::at;

/// A slot of which this generation of Redis was not told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    pub way: String,
    pub channel: ChannelId,
    pub member: MemberId,
    /// To be given out; else no longer.
    pub ready: bool,
    /// It was lent until then at most; 0: never.
    pub rests_since_ms: u64,
}

/// A way that has rested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletable {
    pub way: String,
    pub config_id: String,
    pub tries: i32,
}

/// A way that is gone is remembered so long.
const REMEMBERED_MS: u64 = 90 * 24 * 60 * 60 * 1000;

impl ContactWays {
    /// Slots of which `generation` was not told, those of one member and channel beside each other.
    pub async fn untold(
        &self,
        corp: &CorpId,
        generation: u64,
        limit: u32,
    ) -> Result<Vec<Untold>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query_once(
                "SELECT way, channel_id, member, state = 'ready' AS ready, rests_since FROM (
                    SELECT * FROM contact_ways WHERE corp_id = $1 AND roster_generation < $2 AND kind = 'slot'
                        AND state IN ('ready', 'retiring')
                    ORDER BY roster_generation LIMIT $3) AS w
                 ORDER BY channel_id, member, ready, way",
            )
            .bind(corp.as_str())
            .bind(signed(generation))
            .bind(i64::from(limit));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| {
                let (channel, member) = super::owner(row)?;
                Ok(Untold {
                    way: row.value("way")?,
                    channel,
                    member,
                    ready: row.value("ready")?,
                    rests_since_ms: row.ms_option("rests_since")?.unwrap_or_default(),
                })
            })
            .collect()
    }

    /// `generation` was told these. One that changed meanwhile is told again: the two words may have come in either order.
    /// One that is no longer given out rests from now on.
    pub async fn told(
        &self,
        corp: &CorpId,
        told: &[Untold],
        generation: u64,
        rest_ms: u64,
        now_ms: u64,
    ) -> Result<(), Error> {
        retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query(
                    "UPDATE contact_ways AS w SET
                        roster_generation = CASE WHEN (w.state = 'ready') = n.ready THEN $4 ELSE 0 END,
                        next_try_at = CASE WHEN w.state = 'retiring' AND NOT n.ready
                            THEN coalesce(w.next_try_at, $5) ELSE w.next_try_at END
                     FROM unnest($2::text[], $3::boolean[]) AS n (way, ready)
                     WHERE w.corp_id = $1 AND w.way = n.way AND w.state IN ('ready', 'retiring')",
                )
                .bind(corp.as_str())
                .bind(column(told, |slot| slot.way.clone()))
                .bind(column(told, |slot| slot.ready))
                .bind(signed(generation))
                .bind(at(now_ms.saturating_add(rest_ms)));
            work.execute(query).await?;
            work.end().await
        })
        .await
    }

    /// Takes those that have rested. From here on they do not come back: their picture goes.
    pub async fn deletable(
        &self,
        corp: &CorpId,
        limit: u32,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Vec<Deletable>, Error> {
        let rows = self
            .take(
                "WITH picked AS (
                    SELECT way FROM contact_ways WHERE corp_id = $1 AND state = 'retiring' AND next_try_at <= $2
                    ORDER BY next_try_at LIMIT $4 FOR UPDATE SKIP LOCKED)
                 UPDATE contact_ways AS w SET next_try_at = $3, picture = NULL,
                    tries = CASE WHEN w.picture IS NULL THEN w.tries + 1 ELSE 1 END
                 FROM picked AS p WHERE w.corp_id = $1 AND w.way = p.way
                 RETURNING w.way, w.config_id, w.tries",
                corp,
                limit,
                lease_ms,
                now_ms,
            )
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Deletable {
                    way: row.value("way")?,
                    config_id: row.value("config_id")?,
                    tries: row.value("tries")?,
                })
            })
            .collect()
    }

    /// It is not at WeCom any more.
    pub async fn gone(&self, corp: &CorpId, way: &str, now_ms: u64) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE contact_ways SET state = 'gone', next_try_at = $3, changed_by = pg_current_xact_id()
                 WHERE corp_id = $1 AND way = $2 AND state = 'retiring'",
            )
            .bind(corp.as_str())
            .bind(way.to_owned())
            .bind(at(now_ms.saturating_add(REMEMBERED_MS)));
        work.execute(query).await?;
        work.end().await
    }

    /// It could not be deleted; again then.
    pub async fn not_gone(
        &self,
        corp: &CorpId,
        way: &str,
        errcode: Option<i64>,
        error: &str,
        next_try_ms: u64,
    ) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE contact_ways SET next_try_at = $3, last_errcode = $4, last_error = $5
                 WHERE corp_id = $1 AND way = $2 AND state = 'retiring'",
            )
            .bind(corp.as_str())
            .bind(way.to_owned())
            .bind(at(next_try_ms))
            .bind(errcode)
            .bind(crate::text::clean(error).into_owned());
        work.execute(query).await?;
        work.end().await
    }

    /// Drops rows that have been gone for long.
    pub async fn forget_gone(&self, corp: &CorpId, now_ms: u64) -> Result<u64, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("DELETE FROM contact_ways WHERE corp_id = $1 AND state = 'gone' AND next_try_at <= $2")
            .bind(corp.as_str())
            .bind(at(now_ms));
        let gone = work.execute(query).await?;
        work.end().await?;
        Ok(gone)
    }
}
