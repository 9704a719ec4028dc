//! Who had a customer before.

use allocation::{CorpId, MemberId, SubjectKey};

use super::Allocations;
use crate::Error;
use crate::log_write::column;
use crate::row::Columns;
use crate::times::at;

impl Allocations {
    /// Whom each of these subjects was given to last, in whichever pool, if he had it at that time or later; in their
    /// order. A visitor has had the member whom he added, and whose code he saw.
    pub async fn last_owners(
        &self,
        corp: &CorpId,
        asked: &[(SubjectKey, u64)],
    ) -> Result<Vec<Option<MemberId>>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT n.at, had.member FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS n (subject, since, at)
                 CROSS JOIN LATERAL (
                    SELECT a.member, a.decided_at FROM allocations AS a
                    WHERE a.corp_id = $1 AND a.subject = n.subject AND a.member IS NOT NULL AND a.offer IS NULL
                        AND (a.closed_at IS NULL OR a.closed_at >= n.since AND a.close_reason NOT IN ('conflict', 'echo'))
                    UNION ALL
                    SELECT a.member, a.decided_at FROM visits AS v
                    JOIN allocations AS a ON a.id = coalesce(v.next_allocation, v.allocation_id)
                    WHERE v.corp_id = $1 AND v.visitor = n.subject AND a.member IS NOT NULL AND a.offer IS NULL
                        AND (a.closed_at IS NULL OR a.closed_at >= n.since AND a.close_reason NOT IN ('conflict', 'echo'))
                    ORDER BY decided_at DESC LIMIT 1) AS had",
            )
            .bind(corp.as_str())
            .bind(column(asked, |(subject, _)| subject.to_string()))
            .bind(column(asked, |(_, since_ms)| at(*since_ms)));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let mut owners = vec![None; asked.len()];
        for row in rows {
            let place = usize::try_from(row.number("at")?).unwrap_or_default();
            if let Some(owner) = owners.get_mut(place.saturating_sub(1)) {
                *owner = Some(row.parsed("member")?);
            }
        }
        Ok(owners)
    }
}
