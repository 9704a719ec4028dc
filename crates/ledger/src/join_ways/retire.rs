//! Ways that leave.

use allocation::CorpId;

use super::JoinWays;
use crate::Error;
use crate::contact_ways::Deletable;
use crate::row::Columns;
use crate::text::clean;
use crate::times::at;

/// A way that is gone is remembered so long.
const REMEMBERED_MS: u64 = 90 * 24 * 60 * 60 * 1000;

impl JoinWays {
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
                    SELECT way FROM join_ways WHERE corp_id = $1 AND state = 'retiring' AND next_try_at <= $2
                    ORDER BY next_try_at LIMIT $4 FOR UPDATE SKIP LOCKED)
                 UPDATE join_ways AS w SET next_try_at = $3, picture = NULL,
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
                "UPDATE join_ways SET state = 'gone', next_try_at = $3, changed_by = pg_current_xact_id()
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
                "UPDATE join_ways SET next_try_at = $3, last_errcode = $4, last_error = $5
                 WHERE corp_id = $1 AND way = $2 AND state = 'retiring'",
            )
            .bind(corp.as_str())
            .bind(way.to_owned())
            .bind(at(next_try_ms))
            .bind(errcode)
            .bind(clean(error).into_owned());
        work.execute(query).await?;
        work.end().await
    }

    /// Drops rows that have been gone for long.
    pub async fn forget_gone(&self, corp: &CorpId, now_ms: u64) -> Result<u64, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "DELETE FROM join_ways WHERE corp_id = $1 AND state = 'gone' AND next_try_at <= $2",
            )
            .bind(corp.as_str())
            .bind(at(now_ms));
        let gone = work.execute(query).await?;
        work.end().await?;
        Ok(gone)
    }
}
