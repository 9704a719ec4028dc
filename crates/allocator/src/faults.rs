//! What keeps a corp's decisions from being recorded, or the corp from being rebuilt, and may not pass by itself: kept for
//! `/readyz`, so that it is said at a place where people look.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// One text for each part that has a fault at present.
#[derive(Debug, Default)]
pub struct Faults(Mutex<BTreeMap<Part, String>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The log is not written to the ledger.
    Log,
    /// The corp stays closed.
    Rebuild,
}

impl Faults {
    pub fn set(&self, part: Part, problem: String) {
        self.all_mut().insert(part, problem);
    }

    pub fn clear(&self, part: Part) {
        self.all_mut().remove(&part);
    }

    pub fn texts(&self) -> Vec<String> {
        let texts = self.all_mut();
        texts
            .iter()
            .map(|(part, problem)| match part {
                Part::Log => format!("its log is not recorded: {problem}"),
                Part::Rebuild => format!("it cannot be rebuilt: {problem}"),
            })
            .collect()
    }

    fn all_mut(&self) -> std::sync::MutexGuard<'_, BTreeMap<Part, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An error and what it came from, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
