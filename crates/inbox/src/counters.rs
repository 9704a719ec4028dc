//! Rare things that an operator must be able to see. Metrics are the programs' business; here they are counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Shared by all clones of an inbox.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    lost: AtomicU64,
    groups_created: AtomicU64,
    scripts_sent_again: AtomicU64,
}

/// The values at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Entries that were pending and are gone from the stream: somebody deleted them.
    pub lost: u64,
    /// Consumer groups that did not exist and were made, from the start of the stream. Beyond the first time that
    /// means that a group was lost.
    pub groups_created: u64,
    /// Scripts that Redis had forgotten.
    pub scripts_sent_again: u64,
}

impl Counters {
    pub(crate) fn lost(&self, n: u64) {
        self.lost.fetch_add(n, Relaxed);
    }

    pub(crate) fn group_created(&self) {
        self.groups_created.fetch_add(1, Relaxed);
    }

    pub(crate) fn script_sent_again(&self) {
        self.scripts_sent_again.fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self) -> Counted {
        Counted {
            lost: self.lost.load(Relaxed),
            groups_created: self.groups_created.load(Relaxed),
            scripts_sent_again: self.scripts_sent_again.load(Relaxed),
        }
    }
}
