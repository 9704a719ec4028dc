//! What WeCom told us to wait for. Redis decides by its own copy; this one survives a wiped Redis.

use allocation::CorpId;

use crate::Error;
use crate::connection::Db;
use crate::error::retry;
use crate::log_write::column;
use crate::row::Columns;
use crate::times::at;

#[derive(Debug, Clone)]
pub struct BudgetBlocks {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BudgetBlock {
    pub api: String,
    /// `corp`, or the name of an egress address.
    pub scope: String,
    pub until_ms: u64,
}

impl BudgetBlocks {
    /// The later end of a block stands.
    pub async fn save(&self, corp: &CorpId, blocks: &[BudgetBlock]) -> Result<(), Error> {
        let mut rows = blocks.to_vec();
        // By key, the latest end first; then only the first of each key.
        rows.sort_by(|one, two| {
            let key = |row: &BudgetBlock| (row.api.clone(), row.scope.clone());
            key(one)
                .cmp(&key(two))
                .then(two.until_ms.cmp(&one.until_ms))
        });
        rows.dedup_by(|one, two| (&one.api, &one.scope) == (&two.api, &two.scope));
        retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query(
                    "INSERT INTO budget_blocks AS b (corp_id, api, scope, until)
                     SELECT $1, * FROM unnest($2::text[], $3::text[], $4::timestamptz[])
                     ON CONFLICT (corp_id, api, scope) DO UPDATE SET until = greatest(b.until, excluded.until)",
                )
                .bind(corp.as_str())
                .bind(column(&rows, |row| row.api.clone()))
                .bind(column(&rows, |row| row.scope.clone()))
                .bind(column(&rows, |row| at(row.until_ms)));
            work.execute(query).await?;
            work.end().await
        })
        .await
    }

    /// Those that are not over.
    pub async fn load(&self, corp: &CorpId, now_ms: u64) -> Result<Vec<BudgetBlock>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT api, scope, until FROM budget_blocks WHERE corp_id = $1 AND until > $2 ORDER BY api, scope",
            )
            .bind(corp.as_str())
            .bind(at(now_ms));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| {
                Ok(BudgetBlock {
                    api: row.value("api")?,
                    scope: row.value("scope")?,
                    until_ms: row.ms("until")?,
                })
            })
            .collect()
    }
}
