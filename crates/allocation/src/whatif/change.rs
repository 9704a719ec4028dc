//! What is to be otherwise.

use std::sync::Arc;

use crate::id::Reason;
use crate::plan::Plan;
use crate::pool::PoolConfig;

/// What a pool is to be instead.
#[derive(Debug, Clone)]
pub struct Change {
    /// Its version does not matter.
    pub config: PoolConfig,
    /// None: customers are let go when they were.
    pub window: Option<Window>,
    /// None: requests have the plans that they had.
    pub plan: Option<Replan>,
}

/// How long customers count.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// With which the log ends those whose window has passed.
    pub reason: Reason,
    /// None: until something else ends them.
    pub after_ms: Option<u64>,
}

type Make = dyn Fn(Option<&Plan>) -> Option<Plan> + Send + Sync;

/// The plan of a request under the draft, made of the one that it had.
#[derive(Clone)]
pub struct Replan(Arc<Make>);

impl Replan {
    /// The same plan must come of the same plan.
    pub fn new(make: impl Fn(Option<&Plan>) -> Option<Plan> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    pub(super) fn of(&self, plan: Option<&Plan>) -> Option<Plan> {
        (self.0)(plan)
    }
}

impl std::fmt::Debug for Replan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Replan")
    }
}
