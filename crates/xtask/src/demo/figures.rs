//! What the demo shows, read from the stores and the fake WeCom.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::stage::Stage;

#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    /// What WeCom had to tell.
    pub(super) events: u64,
    /// With those that it sent again.
    pub(super) acknowledged: u64,
    pub(super) deliveries: u64,
    pub(super) decided: u64,
    pub(super) done: u64,
    pub(super) by_member: BTreeMap<String, u64>,
    /// From receipt to decision, milliseconds.
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

impl Figures {
    pub(super) async fn read(stage: &Stage) -> anyhow::Result<Self> {
        let callbacks: Value = stage.sim_get("counters").await?["callbacks"].clone();
        let pool = stage.ledger.pool();
        let (deliveries, p50_ms, p99_ms): (i64, Option<f64>, Option<f64>) = sqlx::query_as(
            "SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY ms), percentile_cont(0.99) WITHIN GROUP (ORDER BY ms)
             FROM (SELECT extract(epoch FROM a.decided_at - d.received_at)::float8 * 1000 AS ms
                FROM deliveries AS d LEFT JOIN allocations AS a ON a.delivery = d.id) AS taken",
        )
        .fetch_one(pool)
        .await?;
        let done: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox WHERE state = 'done'")
            .fetch_one(pool)
            .await?;
        let by_member = stage
            .ledger
            .allocations()
            .open_by_member(&stage.corp)
            .await?;
        let by_member: BTreeMap<String, u64> = by_member
            .into_iter()
            .map(|(member, count)| (member.to_string(), count))
            .collect();
        Ok(Self {
            events: callbacks["events"].as_u64().unwrap_or_default(),
            acknowledged: callbacks["acked"].as_u64().unwrap_or_default(),
            deliveries: u64::try_from(deliveries)?,
            decided: by_member.values().sum(),
            done: u64::try_from(done)?,
            by_member,
            p50_ms: p50_ms.unwrap_or_default(),
            p99_ms: p99_ms.unwrap_or_default(),
        })
    }
}
