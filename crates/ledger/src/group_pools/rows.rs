//! Reading the row of a group pool, and telling its groups apart from what they were.

use allocation::{CorpId, FillStrategy, GroupPoolId};
use sqlx::postgres::PgRow;

use super::{GroupPool, Supply};
use crate::Error;
use crate::connection::Work;
use crate::group_caps::GroupCaps;
use crate::row::Columns;
use crate::times::at;

/// A group that has caps of its pool is another one when these change: whoever compares versions must see it.
pub(super) async fn renew_groups(
    work: &mut Work,
    corp: &CorpId,
    id: &GroupPoolId,
    before: GroupCaps,
    after: GroupCaps,
    now_ms: u64,
) -> Result<(), Error> {
    if before == after {
        return Ok(());
    }
    let query = work
        .query(
            "UPDATE groups SET version = version + 1, updated_at = $3
             WHERE corp_id = $1 AND group_pool_id = $2 AND deleted_at IS NULL
                AND (scan_cap IS NULL AND $4 OR hard_cap IS NULL AND $5 OR buffer IS NULL AND $6)",
        )
        .bind(corp.as_str())
        .bind(id.as_str().to_owned())
        .bind(at(now_ms))
        .bind(before.scan_cap != after.scan_cap)
        .bind(before.hard_cap != after.hard_cap)
        .bind(before.buffer != after.buffer);
    work.execute(query).await?;
    Ok(())
}

pub(super) fn read(row: &PgRow) -> Result<GroupPool, Error> {
    let strategy: &str = row.value("strategy")?;
    let strategy = [
        FillStrategy::FillFirst,
        FillStrategy::Spread,
        FillStrategy::LeastFilled,
    ]
    .into_iter()
    .find(|one| one.as_str() == strategy)
    .ok_or_else(|| Error::unreadable("strategy", strategy))?;
    Ok(GroupPool {
        id: row.parsed("group_pool_id")?,
        name: row.value("name")?,
        strategy,
        caps: GroupCaps {
            scan_cap: row.small("scan_cap")?,
            hard_cap: row.small("hard_cap")?,
            buffer: row.small("buffer")?,
        },
        any_group: row.value("any_group")?,
        supply: Supply::read(row)?,
        version: row.number("version")?,
        created_ms: row.ms("created_at")?,
        updated_ms: row.ms("updated_at")?,
    })
}
