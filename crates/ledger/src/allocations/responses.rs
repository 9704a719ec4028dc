//! How soon members answer the customers that they are given, as far as somebody reports it.

use allocation::{AllocationId, CorpId, MemberId, PoolId};

use super::Allocations;
use crate::Error;
use crate::row::Columns;
use crate::times::at;

/// How long customers of a pool, or of one member in it, waited for the first answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseTimes {
    /// When the span of time began in which they were given to the member.
    pub from_ms: u64,
    pub pool: PoolId,
    /// None: of all members.
    pub member: Option<MemberId>,
    /// Customers of whom the first answer is known.
    pub answered: u64,
    pub p50_ms: u64,
    pub p95_ms: u64,
}

impl Allocations {
    /// The member answered the customer at this time; of several answers the first counts. Tells which that is; None: there is no
    /// such allocation.
    pub async fn responded(
        &self,
        corp: &CorpId,
        id: AllocationId,
        at_ms: u64,
    ) -> Result<Option<u64>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE allocations SET first_response_at = LEAST(first_response_at, $3)
                 WHERE corp_id = $1 AND id = $2 RETURNING first_response_at",
            )
            .bind(corp.as_str())
            .bind(id.0)
            .bind(at(at_ms));
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.map(|row| row.ms("first_response_at")).transpose()
    }

    /// Of customers given to members in spans of time that begin at `starts` (ascending, not empty), the last of which ends
    /// at `to_ms`; without a pool of all pools.
    pub async fn response_times(
        &self,
        corp: &CorpId,
        pool: Option<&PoolId>,
        starts: &[u64],
        to_ms: u64,
    ) -> Result<Vec<ResponseTimes>, Error> {
        let begins: Vec<_> = starts.iter().map(|start| at(*start)).collect();
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT span, pool_id, member, count(*) AS answered,
                    round(percentile_cont(0.5) WITHIN GROUP (ORDER BY took_ms))::bigint AS p50,
                    round(percentile_cont(0.95) WITHIN GROUP (ORDER BY took_ms))::bigint AS p95
                 FROM (SELECT width_bucket(decided_at, $3::timestamptz[])::bigint AS span, pool_id, member,
                        GREATEST(0, extract(epoch FROM first_response_at - coalesce(assigned_at, decided_at)) * 1000)
                            ::float8 AS took_ms
                    FROM allocations
                    WHERE corp_id = $1 AND ($2::text IS NULL OR pool_id = $2) AND member IS NOT NULL
                        AND first_response_at IS NOT NULL AND decided_at >= ($3::timestamptz[])[1] AND decided_at < $4) AS a
                 GROUP BY GROUPING SETS ((span, pool_id), (span, pool_id, member)) ORDER BY span, pool_id, member",
            )
            .bind(corp.as_str())
            .bind(pool.map(PoolId::as_str))
            .bind(begins)
            .bind(at(to_ms));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| {
                let span = usize::try_from(row.number("span")?).unwrap_or_default();
                Ok(ResponseTimes {
                    from_ms: starts
                        .get(span.saturating_sub(1))
                        .copied()
                        .unwrap_or_default(),
                    pool: row.parsed("pool_id")?,
                    member: row.parsed_option("member")?,
                    answered: row.number("answered")?,
                    p50_ms: row.number("p50")?,
                    p95_ms: row.number("p95")?,
                })
            })
            .collect()
    }
}
