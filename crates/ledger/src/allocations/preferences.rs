//! Why plans prefer whom.

use allocation::{AllocationId, CorpId, MemberId};

use super::Allocations;
use crate::Error;
use crate::change::Preference;
use crate::row::Columns;

impl Allocations {
    /// Whom the allocation's plan prefers; nobody, where it was made before this was kept.
    pub async fn preferences(
        &self,
        corp: &CorpId,
        id: AllocationId,
    ) -> Result<Vec<(MemberId, Preference)>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT one.key AS member, one.value AS why
                 FROM allocations AS a, jsonb_each_text(a.preferred) AS one
                 WHERE a.corp_id = $1 AND a.id = $2",
            )
            .bind(corp.as_str())
            .bind(id.0);
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let one = |row: &sqlx::postgres::PgRow| Ok((row.parsed("member")?, row.parsed("why")?));
        rows.iter().map(one).collect()
    }
}
