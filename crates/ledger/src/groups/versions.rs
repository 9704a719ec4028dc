//! Versions of groups, as Redis is compared with them.

use allocation::{ChatId, CorpId};

use super::Groups;
use crate::Error;
use crate::row::Columns;

/// What Redis is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupVersion {
    pub id: ChatId,
    pub version: u64,
    /// It is to be filled: in a pool, and neither deleted nor dismissed.
    pub in_pool: bool,
}

impl Groups {
    /// Of all groups that ever were.
    pub async fn versions(&self, corp: &CorpId) -> Result<Vec<GroupVersion>, Error> {
        self.versions_of(corp, None).await
    }

    /// Of one, whatever became of it.
    pub async fn version(&self, corp: &CorpId, id: &ChatId) -> Result<Option<GroupVersion>, Error> {
        Ok(self.versions_of(corp, Some(id)).await?.pop())
    }

    async fn versions_of(
        &self,
        corp: &CorpId,
        id: Option<&ChatId>,
    ) -> Result<Vec<GroupVersion>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query_once(
                "SELECT chat_id, version, group_pool_id IS NOT NULL AND deleted_at IS NULL AND state <> 'dismissed'
                    AS in_pool
                 FROM groups WHERE corp_id = $1 AND ($2::text IS NULL OR chat_id = $2) ORDER BY chat_id",
            )
            .bind(corp.as_str())
            .bind(id.map(|id| id.as_str().to_owned()));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| {
                Ok(GroupVersion {
                    id: row.parsed("chat_id")?,
                    version: row.number("version")?,
                    in_pool: row.value("in_pool")?,
                })
            })
            .collect()
    }

    /// Changes whenever a group or group pool of the corp does; not with what WeCom says of a group.
    pub async fn mark(&self, corp: &CorpId) -> Result<String, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT concat_ws(' ',
                    (SELECT coalesce(sum(version), 0) FROM group_pools WHERE corp_id = $1),
                    (SELECT coalesce(sum(version), 0) FROM groups WHERE corp_id = $1)) AS mark",
            )
            .bind(corp.as_str());
        let mark = work.fetch_one(query).await?.value("mark")?;
        work.end().await?;
        Ok(mark)
    }
}
