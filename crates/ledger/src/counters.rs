//! Numbers for `/metrics`. Only what indexes of unfinished rows can answer quickly.

use allocation::CorpId;

use crate::row::Columns;
use crate::{Error, Ledger};

/// One gauge: `outbox{corp, kind, state}`, …
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// `allocations`, `allocations_unsettled`, `undecided_since_seconds` (when the oldest began that a person must decide, as
    /// Unix time), `outbox`, `transfers`, `log_seq` or `generation`.
    pub name: String,
    pub corp: CorpId,
    /// Kind of an effect; empty elsewhere.
    pub kind: String,
    /// State of what is counted; empty elsewhere.
    pub state: String,
    pub value: u64,
}

impl Ledger {
    pub async fn counters(&self) -> Result<Vec<Counter>, Error> {
        let mut work = self.db.single().await?;
        let query = work.query(
            "SELECT 'allocations' AS name, corp_id, '' AS kind, coalesce(offer, state) AS state, count(*) AS value
                FROM allocations WHERE closed_at IS NULL GROUP BY 2, 4
             UNION ALL
             SELECT 'undecided_since_seconds', corp_id, '', '', floor(extract(epoch FROM min(offer_since)))::bigint
                FROM allocations WHERE offer = 'undecided' GROUP BY corp_id
             UNION ALL
             SELECT 'allocations_unsettled', corp_id, '', '', count(*) FROM allocations
                WHERE settled_at IS NULL AND closed_at IS NULL AND member IS NOT NULL AND offer IS NULL GROUP BY corp_id
             UNION ALL
             SELECT 'outbox', corp_id, kind, state, count(*) FROM outbox
                WHERE state IN ('pending', 'unknown') GROUP BY corp_id, kind, state
             UNION ALL
             SELECT 'outbox', corp_id, kind, state, count(*) FROM outbox
                WHERE state = 'running' GROUP BY corp_id, kind, state
             UNION ALL
             SELECT 'outbox', corp_id, kind, state, count(*) FROM outbox
                WHERE state = 'dead' GROUP BY corp_id, kind, state
             UNION ALL
             SELECT 'transfers', corp_id, '', state, count(*) FROM transfers
                WHERE ended_at IS NULL GROUP BY corp_id, state
             UNION ALL
             SELECT 'log_seq', corp_id, '', '', log_seq FROM corps
             UNION ALL
             SELECT 'generation', corp_id, '', '', generation FROM corps
             ORDER BY 1, 2, 3, 4",
        );
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| {
                Ok(Counter {
                    name: row.value("name")?,
                    corp: row.parsed("corp_id")?,
                    kind: row.value("kind")?,
                    state: row.value("state")?,
                    value: row.number("value")?,
                })
            })
            .collect()
    }
}
