//! What WeCom says of groups, written down. A read never takes the place of a later one, and says nothing of what operators
//! want: their words, and the version, are touched only where a group is new, where nobody has said anything of it yet, or
//! where it is no more.

use allocation::{ChatId, CorpId, GroupPoolId, GroupTag, MAX_GROUPS};
use serde_json::json;
use sqlx::postgres::PgRow;

use super::rows::{n_groups, pool_caps, tags_column};
use super::{GroupProblem, GroupRefused, GroupSource, GroupState, Groups};
use crate::Error;
use crate::audit::{Trail, write};
use crate::connection::Work;
use crate::error::retry;
use crate::log_write::column;
use crate::row::{Columns, small};
use crate::text::{clean, clean_option};
use crate::times::at;

/// One group, read at WeCom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRead {
    pub chat: ChatId,
    /// Empty when it has none of its own.
    pub name: String,
    pub owner: String,
    pub member_count: u32,
    pub member_version: Option<String>,
    /// When it was asked for: what changed since then may be missing.
    pub read_ms: u64,
}

/// What an import makes of groups that are new, or that nobody has said anything of. State is not `Dismissed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewImport {
    pub pool: Option<GroupPoolId>,
    pub state: GroupState,
    /// Distinct, in order.
    pub tags: Vec<GroupTag>,
}

/// What writing reads down came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imported {
    /// What was known of the others is fresh now.
    Written {
        /// New, or said nothing of until now, and in order: they are as the import wants groups to be.
        placed: Vec<ChatId>,
        /// Not in the pool that the import names: they are in another one, or where an operator put them.
        elsewhere: Vec<ChatId>,
    },
    /// Nothing was written.
    Refused(GroupRefused),
}

impl Groups {
    /// Writes these reads down, each of another group. Those that are not known, or were deleted, become known as `new` says.
    pub async fn import(
        &self,
        corp: &CorpId,
        reads: &[GroupRead],
        new: &NewImport,
        trail: &Trail,
    ) -> Result<Imported, Error> {
        retry(|| self.add_all(corp, reads, new, GroupSource::Import, trail)).await
    }

    /// WeCom told of this one by an event: it becomes known, in stock and in no pool, unless it is known already.
    pub async fn found(
        &self,
        corp: &CorpId,
        read: &GroupRead,
        trail: &Trail,
    ) -> Result<bool, Error> {
        let new = NewImport {
            pool: None,
            state: GroupState::Spare,
            tags: Vec::new(),
        };
        let reads = std::slice::from_ref(read);
        let added = retry(|| self.add_all(corp, reads, &new, GroupSource::Event, trail)).await?;
        Ok(matches!(added, Imported::Written { placed, .. } if !placed.is_empty()))
    }

    async fn add_all(
        &self,
        corp: &CorpId,
        reads: &[GroupRead],
        new: &NewImport,
        source: GroupSource,
        trail: &Trail,
    ) -> Result<Imported, Error> {
        let mut work = self.db.transaction().await?;
        // Before the groups, as whoever puts the pool has it.
        if let Some(pool) = &new.pool
            && pool_caps(&mut work, corp, pool).await?.is_none()
        {
            work.roll_back().await?;
            return Ok(Imported::Refused(GroupRefused::NoPool));
        }
        let adding = Adding {
            new,
            source,
            now_ms: trail.now_ms,
        };
        let mut placed = place(&mut work, corp, reads, adding).await?;
        placed.sort();
        if let Some(pool) = new.pool.as_ref().filter(|_| !placed.is_empty())
            && n_groups(&mut work, corp, pool, None).await? > MAX_GROUPS
        {
            work.roll_back().await?;
            let refused = GroupRefused::PoolFull(MAX_GROUPS);
            return Ok(Imported::Refused(refused));
        }
        refresh(&mut work, corp, reads).await?;
        let elsewhere = match &new.pool {
            Some(pool) => outside(&mut work, corp, reads, pool).await?,
            None => Vec::new(),
        };
        let after = json!({"group_pool": new.pool, "tags": new.tags, "state": new.state.as_str(),
            "source": source.as_str()});
        let action = match source {
            GroupSource::Event => "group.found",
            _ => "group.import",
        };
        let record = |chat: &ChatId| {
            let entity = format!("groups/{chat}");
            trail.record(action, entity, None, Some(after.clone()))
        };
        let records: Vec<_> = placed.iter().map(record).collect();
        if !records.is_empty() {
            write(&mut work, corp, &records.iter().collect::<Vec<_>>()).await?;
        }
        work.commit().await?;
        Ok(Imported::Written { placed, elsewhere })
    }

    /// The same for groups that are known; others are left out.
    pub async fn refresh(&self, corp: &CorpId, reads: &[GroupRead]) -> Result<u64, Error> {
        retry(|| async {
            let mut work = self.db.single().await?;
            let written = refresh(&mut work, corp, reads).await?;
            work.end().await?;
            Ok(written)
        })
        .await
    }

    /// A group could not be read. What was known of it stays.
    pub async fn not_read(
        &self,
        corp: &CorpId,
        chat: &ChatId,
        problem: &GroupProblem,
    ) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE groups SET last_errcode = $3, last_error = $4
                 WHERE corp_id = $1 AND chat_id = $2 AND deleted_at IS NULL",
            )
            .bind(corp.as_str())
            .bind(chat.as_str().to_owned())
            .bind(problem.errcode)
            .bind(clean(&problem.error).into_owned());
        work.execute(query).await?;
        work.end().await
    }

    /// A group is no more at WeCom. False: it is not known, or was known to be so.
    pub async fn dismissed(
        &self,
        corp: &CorpId,
        chat: &ChatId,
        trail: &Trail,
    ) -> Result<bool, Error> {
        let mut work = self.db.transaction().await?;
        let query = work
            .query(
                "UPDATE groups AS g SET state = 'dismissed', version = g.version + 1, updated_at = $3
                 FROM (SELECT corp_id, chat_id, state FROM groups WHERE corp_id = $1 AND chat_id = $2 FOR UPDATE) AS was
                 WHERE g.corp_id = was.corp_id AND g.chat_id = was.chat_id AND g.deleted_at IS NULL
                    AND was.state <> 'dismissed'
                 RETURNING was.state",
            )
            .bind(corp.as_str())
            .bind(chat.as_str().to_owned())
            .bind(at(trail.now_ms));
        let Some(row) = work.fetch_optional(query).await? else {
            work.roll_back().await?;
            return Ok(false);
        };
        let before: String = row.value("state")?;
        let record = trail.record(
            "group.dismissed",
            format!("groups/{chat}"),
            Some(json!({"state": before})),
            Some(json!({"state": GroupState::Dismissed.as_str()})),
        );
        write(&mut work, corp, &[&record]).await?;
        work.commit().await?;
        Ok(true)
    }
}

/// How groups come to be known, and where they go.
struct Adding<'a> {
    new: &'a NewImport,
    source: GroupSource,
    now_ms: u64,
}

/// Those that were not known, and those that nobody has said anything of; `refresh` has what was read. Who tells of a group
/// without naming a pool leaves the latter as they are.
async fn place(
    work: &mut Work,
    corp: &CorpId,
    reads: &[GroupRead],
    adding: Adding<'_>,
) -> Result<Vec<ChatId>, Error> {
    let Adding {
        new,
        source,
        now_ms,
    } = adding;
    let query = work
        .query(
            "INSERT INTO groups AS g (corp_id, chat_id, group_pool_id, tags, state, source, unplaced, version, created_at,
                updated_at)
             SELECT $1, n.chat_id, $3, $4, $5, $6, $3::text IS NULL, 1, $7, $7 FROM unnest($2::text[]) AS n (chat_id)
             ORDER BY n.chat_id
             ON CONFLICT (corp_id, chat_id) DO UPDATE SET group_pool_id = $3, rank = 0, scan_cap = NULL, hard_cap = NULL,
                buffer = NULL, tags = $4, state = $5, unplaced = $3::text IS NULL, version = g.version + 1, updated_at = $7,
                source = CASE WHEN g.deleted_at IS NULL THEN g.source ELSE $6 END,
                created_at = CASE WHEN g.deleted_at IS NULL THEN g.created_at ELSE $7 END,
                deleted_at = NULL, way_at = NULL
             WHERE g.deleted_at IS NOT NULL
                OR $3::text IS NOT NULL AND g.unplaced AND g.group_pool_id IS NULL AND g.state <> 'dismissed'
             RETURNING g.chat_id",
        )
        .bind(corp.as_str())
        .bind(column(reads, |read| read.chat.as_str().to_owned()))
        .bind(new.pool.as_ref().map(|pool| pool.as_str().to_owned()))
        .bind(tags_column(&new.tags))
        .bind(new.state.as_str())
        .bind(source.as_str())
        .bind(at(now_ms));
    let rows: Vec<PgRow> = work.fetch_all(query).await?;
    rows.iter().map(|row| row.parsed("chat_id")).collect()
}

/// Those of these that are not in this pool, in order.
async fn outside(
    work: &mut Work,
    corp: &CorpId,
    reads: &[GroupRead],
    pool: &GroupPoolId,
) -> Result<Vec<ChatId>, Error> {
    let query = work
        .query(
            "SELECT chat_id FROM groups WHERE corp_id = $1 AND chat_id = ANY($2) AND deleted_at IS NULL
                AND group_pool_id IS DISTINCT FROM $3 ORDER BY chat_id",
        )
        .bind(corp.as_str())
        .bind(column(reads, |read| read.chat.as_str().to_owned()))
        .bind(pool.as_str().to_owned());
    let rows: Vec<PgRow> = work.fetch_all(query).await?;
    rows.iter().map(|row| row.parsed("chat_id")).collect()
}

async fn refresh(work: &mut Work, corp: &CorpId, reads: &[GroupRead]) -> Result<u64, Error> {
    let query = work
        .query(
            "UPDATE groups AS g SET name = n.name, owner = n.owner, member_count = n.member_count,
                member_version = n.member_version, read_at = n.read_at, last_errcode = NULL, last_error = NULL
             FROM unnest($2::text[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::timestamptz[])
                AS n (chat_id, name, owner, member_count, member_version, read_at)
             WHERE g.corp_id = $1 AND g.chat_id = n.chat_id AND g.deleted_at IS NULL
                AND (g.read_at IS NULL OR g.read_at <= n.read_at)",
        )
        .bind(corp.as_str())
        .bind(column(reads, |read| read.chat.as_str().to_owned()))
        .bind(column(reads, |read| clean(&read.name).into_owned()))
        .bind(column(reads, |read| clean(&read.owner).into_owned()))
        .bind(column(reads, |read| small(read.member_count)))
        .bind(column(reads, |read| {
            clean_option(read.member_version.as_ref()).map(|text| text.into_owned())
        }))
        .bind(column(reads, |read| at(read.read_ms)));
    work.execute(query).await
}
