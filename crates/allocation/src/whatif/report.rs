//! What a period was, and what it would have been.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::explain::Filter;
use crate::id::{MemberId, PoolId};

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Entries of the log in the period.
    pub entries: u64,
    /// What they asked for: customers, visits, closings and so on, each alone.
    pub inputs: u64,
    /// Entries whose outcome is another one.
    pub differences: u64,
    /// The first of them.
    pub first_differences: Vec<u64>,
    /// Inputs that are about something which is not there under the draft.
    pub not_applicable: u64,
    /// Entries that put or removed a pool which the draft fixes.
    pub skipped: u64,
    pub pools: BTreeMap<PoolId, Compared>,
}

/// One pool both ways.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Compared {
    pub recorded: Pool,
    pub draft: Pool,
    pub members: BTreeMap<MemberId, Customers>,
}

/// A pool over the period.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Pool {
    /// Customers and visitors that came to somebody.
    pub decided: u64,
    /// At the end.
    pub waiting: u64,
    pub waits: Waits,
    /// How often a member came to a limit.
    pub limits_reached: BTreeMap<Filter, u64>,
    /// How often a member was passed over for a limit: for each decision those whom one kept out.
    pub kept_out: u64,
    /// Who is furthest from what he was entitled to, and by how many customers above (below 0: below) it.
    pub furthest: Option<(MemberId, f64)>,
    pub jain: Option<f64>,
}

/// Who had to wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// Found a member after it.
    pub served: u64,
    /// Left before that.
    pub gave_up: u64,
    /// Of those who were served; None: nobody was.
    pub p50_ms: Option<u64>,
    pub p95_ms: Option<u64>,
}

/// Customers and visitors that came to a member, less those that were taken from him again, or did not come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Customers {
    pub recorded: i64,
    pub draft: i64,
}

impl Customers {
    /// Above 0: he would have had more.
    pub fn gain(self) -> i64 {
        self.draft - self.recorded
    }
}

/// One of the two states.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) pool: Pool,
    pub(super) members: BTreeMap<MemberId, i64>,
}

impl Waits {
    /// Of times in ascending order.
    pub(super) fn of(waited_ms: &[u64], gave_up: u64) -> Self {
        let rank = |percent: usize| {
            let at = (waited_ms.len() * percent).div_ceil(100);
            waited_ms.get(at.saturating_sub(1)).copied()
        };
        Self {
            served: waited_ms.len() as u64,
            gave_up,
            p50_ms: rank(50),
            p95_ms: rank(95),
        }
    }
}

/// The two states put together.
pub(super) fn compared(
    recorded: BTreeMap<PoolId, Side>,
    draft: BTreeMap<PoolId, Side>,
) -> BTreeMap<PoolId, Compared> {
    let mut pools: BTreeMap<PoolId, Compared> = BTreeMap::new();
    for (id, side) in recorded {
        let both = pools.entry(id).or_default();
        both.recorded = side.pool;
        for (member, customers) in side.members {
            both.members.entry(member).or_default().recorded = customers;
        }
    }
    for (id, side) in draft {
        let both = pools.entry(id).or_default();
        both.draft = side.pool;
        for (member, customers) in side.members {
            both.members.entry(member).or_default().draft = customers;
        }
    }
    pools
}
