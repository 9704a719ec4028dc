//! What a pool does with customers whom its own members cannot serve (yet): as its owner put it.

use std::collections::BTreeSet;

use allocation::{PoolId, Skill};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;

use super::Pools;
use crate::Error;
use crate::row::Columns;

/// Nothing of it: customers wait until a member of the pool is free.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Routing {
    /// Other pools that may serve.
    pub fallbacks: Vec<Fallback>,
    /// Skills that are done without after a while.
    pub relax: Vec<Relax>,
    /// Whoever had a customer gets him again.
    pub sticky: Option<Sticky>,
    /// While somebody waits each member is given about one in this time.
    pub drip_seconds: Option<u64>,
    /// Somebody has waited too long.
    pub alert_after_seconds: Option<u64>,
    /// Who waits as long as this waits for a person to decide.
    pub person_after_seconds: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fallback {
    pub pool: PoolId,
    /// Counted from the request; 0: as soon as nobody of the pool itself is free.
    pub after_seconds: u64,
    /// Skills that are not needed there.
    #[serde(default)]
    pub without: BTreeSet<Skill>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relax {
    pub skill: Skill,
    pub after_seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sticky {
    /// Who had the customer longer ago does not count.
    pub days: u32,
    /// Of whom nobody had.
    #[serde(default)]
    pub otherwise: Otherwise,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Otherwise {
    /// As if he had come to a pool without this.
    #[default]
    Next,
    /// The same customer always comes to the same member, without anything being remembered.
    Rendezvous,
}

impl Routing {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// As the audit shows it.
    pub(super) fn json(&self) -> Value {
        json!(self)
    }

    /// Null where there is nothing.
    pub(super) fn column(&self) -> Option<Value> {
        (!self.is_none()).then(|| self.json())
    }

    pub(super) fn read(row: &PgRow) -> Result<Self, Error> {
        let routing: Option<Value> = row.value("routing")?;
        let routing = routing.map(serde_json::from_value).transpose();
        let routing = routing.map_err(|problem| Error::unreadable("routing", problem))?;
        Ok(routing.unwrap_or_default())
    }

    /// The pools it leads to, each once, in the order of their keys.
    pub(super) fn pools(&self) -> Vec<PoolId> {
        let pools = self.fallbacks.iter().map(|fallback| fallback.pool.clone());
        pools.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Those who wait in one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolWait {
    pub pool: PoolId,
    pub waiting: u64,
    /// When the one was asked for who has waited longest.
    pub oldest_ms: u64,
    /// Have waited longer than `alert_after_seconds`; 0 where that is not said.
    pub too_long: u64,
}

impl Pools {
    /// Of every pool in which somebody waits, deleted ones too.
    pub async fn waits(
        &self,
        corp: &allocation::CorpId,
        now_ms: u64,
    ) -> Result<Vec<PoolWait>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT a.pool_id, count(*) AS waiting, min(a.decided_at) AS oldest_at,
                    count(*) FILTER (WHERE a.decided_at
                        <= $2 - make_interval(secs => (p.routing->>'alert_after_seconds')::float8)) AS too_long
                 FROM allocations AS a JOIN pools AS p ON p.corp_id = a.corp_id AND p.pool_id = a.pool_id
                 WHERE a.corp_id = $1 AND a.closed_at IS NULL AND a.member IS NULL AND a.offer IS NULL
                 GROUP BY a.pool_id ORDER BY a.pool_id",
            )
            .bind(corp.as_str())
            .bind(crate::times::at(now_ms));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| {
                Ok(PoolWait {
                    pool: row.parsed("pool_id")?,
                    waiting: row.number("waiting")?,
                    oldest_ms: row.ms("oldest_at")?,
                    too_long: row.number("too_long")?,
                })
            })
            .collect()
    }
}
