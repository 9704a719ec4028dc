//! Reading the rows of groups, and of their pool inside a transaction.

use allocation::{ChatId, CorpId, GroupPoolId, GroupTag};
use sqlx::postgres::PgRow;

use super::{Group, GroupProblem, GroupSaid};
use crate::Error;
use crate::connection::Work;
use crate::group_caps::{GroupCaps, OwnCaps};
use crate::row::Columns;

pub(super) fn read(row: &PgRow) -> Result<Group, Error> {
    let own_caps = OwnCaps {
        scan_cap: row.small_option("scan_cap")?,
        hard_cap: row.small_option("hard_cap")?,
        buffer: row.small_option("buffer")?,
    };
    Ok(Group {
        id: row.parsed("chat_id")?,
        pool: row.parsed_option("group_pool_id")?,
        rank: row.small("rank")?,
        own_caps,
        caps: read_pool_caps(row)?.map(|caps| own_caps.in_pool(caps)),
        tags: read_tags(row)?,
        state: row.parsed("state")?,
        source: row.parsed("source")?,
        said: read_said(row)?,
        problem: read_problem(row)?,
        way_ms: row.ms_option("way_at")?,
        version: row.number("version")?,
        created_ms: row.ms("created_at")?,
        updated_ms: row.ms("updated_at")?,
    })
}

pub(super) fn tags_column(tags: &[GroupTag]) -> Vec<String> {
    tags.iter().map(|tag| tag.as_str().to_owned()).collect()
}

fn read_tags(row: &PgRow) -> Result<Vec<GroupTag>, Error> {
    let tags: Vec<String> = row.value("tags")?;
    let tags = tags.into_iter().map(GroupTag::new);
    tags.collect::<Result<_, _>>()
        .map_err(|problem| Error::unreadable("tags", problem))
}

fn read_pool_caps(row: &PgRow) -> Result<Option<GroupCaps>, Error> {
    let Some(scan_cap) = row.small_option("pool_scan_cap")? else {
        return Ok(None);
    };
    Ok(Some(GroupCaps {
        scan_cap,
        hard_cap: row.small("pool_hard_cap")?,
        buffer: row.small("pool_buffer")?,
    }))
}

fn read_said(row: &PgRow) -> Result<Option<GroupSaid>, Error> {
    let Some(read_ms) = row.ms_option("read_at")? else {
        return Ok(None);
    };
    let name: Option<String> = row.value("name")?;
    let owner: Option<String> = row.value("owner")?;
    Ok(Some(GroupSaid {
        name: name.unwrap_or_default(),
        owner: owner.unwrap_or_default(),
        member_count: row.small("member_count")?,
        member_version: row.value("member_version")?,
        read_ms,
    }))
}

fn read_problem(row: &PgRow) -> Result<Option<GroupProblem>, Error> {
    let error: Option<String> = row.value("last_error")?;
    let errcode = row.value("last_errcode")?;
    Ok(error.map(|error| GroupProblem { errcode, error }))
}

/// The pool stays while the transaction lasts, and gets no other group meanwhile. None: it is not there.
pub(crate) async fn pool_caps(
    work: &mut Work,
    corp: &CorpId,
    pool: &GroupPoolId,
) -> Result<Option<GroupCaps>, Error> {
    let query = work
        .query(
            "SELECT scan_cap, hard_cap, buffer FROM group_pools
             WHERE corp_id = $1 AND group_pool_id = $2 AND deleted_at IS NULL FOR NO KEY UPDATE",
        )
        .bind(corp.as_str())
        .bind(pool.as_str().to_owned());
    let row = work.fetch_optional(query).await?;
    row.map(|row| {
        Ok(GroupCaps {
            scan_cap: row.small("scan_cap")?,
            hard_cap: row.small("hard_cap")?,
            buffer: row.small("buffer")?,
        })
    })
    .transpose()
}

/// Groups in a pool, but for one.
pub(crate) async fn n_groups(
    work: &mut Work,
    corp: &CorpId,
    pool: &GroupPoolId,
    but: Option<&ChatId>,
) -> Result<usize, Error> {
    let query = work
        .query(
            "SELECT count(*) AS n_groups FROM groups WHERE corp_id = $1 AND group_pool_id = $2
                AND state <> 'dismissed' AND chat_id IS DISTINCT FROM $3",
        )
        .bind(corp.as_str())
        .bind(pool.as_str().to_owned())
        .bind(but.map(|id| id.as_str().to_owned()));
    let n_groups = work.fetch_one(query).await?.number("n_groups")?;
    Ok(usize::try_from(n_groups).unwrap_or(usize::MAX))
}
