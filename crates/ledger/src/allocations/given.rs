//! How many customers members were given lately.

use allocation::{CorpId, MemberId};
use sqlx::postgres::PgRow;

use super::Allocations;
use crate::Error;
use crate::log_write::column;
use crate::row::Columns;
use crate::times::at;

/// From when on a member's customers are counted: over all pools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    pub member: MemberId,
    /// When the hour began.
    pub hour_ms: u64,
    /// When the day began.
    pub day_ms: u64,
}

impl Allocations {
    /// What each of these was given in the hour and on the day, in their order. Who left meanwhile counts; a visitor who did not
    /// come, and what the ledger refused, does not. A customer who was moved to another member counts there; one who waited
    /// for more than a week is overlooked, as the index goes by when he was asked for.
    pub async fn given(&self, corp: &CorpId, asked: &[Counted]) -> Result<Vec<(u32, u32)>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT n.at, count(*) FILTER (WHERE a.assigned_at >= n.hour) AS in_hour, count(*) AS on_day
                 FROM unnest($2::text[], $3::timestamptz[], $4::timestamptz[]) WITH ORDINALITY AS n (member, hour, day, at)
                 JOIN allocations AS a ON a.corp_id = $1 AND a.member = n.member AND a.assigned_at >= n.day
                    AND a.decided_at >= n.day - interval '7 days'
                 WHERE (a.close_reason IS NULL OR a.close_reason NOT IN ('conflict', 'echo'))
                    AND NOT EXISTS (SELECT FROM visits AS v WHERE v.allocation_id = a.id
                        AND v.ended_as IN ('expired', 'closed', 'mismatched', 'known', 'late'))
                 GROUP BY n.at",
            )
            .bind(corp.as_str())
            .bind(column(asked, |one| one.member.to_string()))
            .bind(column(asked, |one| at(one.hour_ms)))
            .bind(column(asked, |one| at(one.day_ms)));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        read(&rows, asked.len())
    }
}

/// In the hour and on the day, of each that was asked for, by its place from 1 on; of whom there is no row nothing was given.
pub(crate) fn read(rows: &[PgRow], n: usize) -> Result<Vec<(u32, u32)>, Error> {
    let mut given = vec![(0, 0); n];
    for row in rows {
        let place = usize::try_from(row.number("at")?).unwrap_or_default();
        let count = |name| -> Result<u32, Error> {
            Ok(u32::try_from(row.number(name)?).unwrap_or(u32::MAX))
        };
        if let Some(one) = given.get_mut(place.saturating_sub(1)) {
            *one = (count("in_hour")?, count("on_day")?);
        }
    }
    Ok(given)
}
