//! How many a channel may give.

use allocation::{ChannelId, CorpId};
use sqlx::postgres::PgRow;

use super::Channels;
use crate::Error;
use crate::allocations::given;
use crate::log_write::column;
use crate::row::Columns;
use crate::times::at;

/// Of those who come through one channel; None: as many as come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChannelLimits {
    /// Are given a member in one hour of the clock.
    pub per_hour: Option<u32>,
    /// On one day, from midnight to midnight.
    pub per_day: Option<u32>,
}

impl ChannelLimits {
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// From when on what a channel gave is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedChannel {
    pub channel: ChannelId,
    /// When the hour began.
    pub hour_ms: u64,
    /// When the day began.
    pub day_ms: u64,
}

pub(super) fn read(row: &PgRow) -> Result<ChannelLimits, Error> {
    let most = |name| -> Result<Option<u32>, Error> {
        let most: Option<i32> = row.value(name)?;
        Ok(most.and_then(|most| u32::try_from(most).ok()))
    };
    Ok(ChannelLimits {
        per_hour: most("per_hour")?,
        per_day: most("per_day")?,
    })
}

pub(super) fn number(most: Option<u32>) -> Option<i32> {
    most.map(|most| i32::try_from(most).unwrap_or(i32::MAX))
}

impl Channels {
    /// Of every channel that ever was, by id; a deleted one limits nothing.
    pub async fn limits(&self, corp: &CorpId) -> Result<Vec<(ChannelId, ChannelLimits)>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT channel_id, CASE WHEN deleted_at IS NULL THEN per_hour END AS per_hour,
                    CASE WHEN deleted_at IS NULL THEN per_day END AS per_day
                 FROM channels WHERE corp_id = $1 ORDER BY channel_id",
            )
            .bind(corp.as_str());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let one = |row: &PgRow| Ok((row.parsed("channel_id")?, read(row)?));
        rows.iter().map(one).collect()
    }

    /// What each of these gave in the hour and on the day, in their order: whoever came through it and has, or had, a member.
    /// A visitor who did not come does not count, nor does what the ledger refused. Who waited for more than a day is
    /// overlooked.
    pub async fn given(
        &self,
        corp: &CorpId,
        asked: &[CountedChannel],
    ) -> Result<Vec<(u32, u32)>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT n.at, count(*) FILTER (WHERE a.assigned_at >= n.hour) AS in_hour, count(*) AS on_day
                 FROM unnest($2::text[], $3::timestamptz[], $4::timestamptz[]) WITH ORDINALITY AS n (channel, hour, day, at)
                 JOIN allocations AS a ON a.corp_id = $1 AND a.channel_id = n.channel AND a.assigned_at >= n.day
                    AND a.decided_at >= n.day - interval '1 day'
                 WHERE (a.close_reason IS NULL OR a.close_reason NOT IN ('conflict', 'echo'))
                    AND NOT EXISTS (SELECT FROM visits AS v WHERE v.allocation_id = a.id
                        AND v.ended_as IN ('expired', 'closed', 'mismatched', 'known', 'late'))
                 GROUP BY n.at",
            )
            .bind(corp.as_str())
            .bind(column(asked, |one| one.channel.to_string()))
            .bind(column(asked, |one| at(one.hour_ms)))
            .bind(column(asked, |one| at(one.day_ms)));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        given::read(&rows, asked.len())
    }
}
