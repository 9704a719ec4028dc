//! Every script of `roster` once more, as pure functions over plain values: the tests' oracle, the rebuilder's
//! fold, and the place to read the rules.

use crate::dump::Dump;
use crate::error::Error;
use crate::log::LogEntry;
use crate::op::Op;
use crate::outcome::{Answer, Outcome};

/// The state of one corp.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Corp {
    seq: u64,
    at_ms: u64,
}

impl Corp {
    /// A corp of which nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of operations so far.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The time of the last operation.
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Does one operation. Always counts as one entry of the log.
    pub fn apply(&mut self, _op: &Op, now_ms: u64) -> Outcome {
        self.seq += 1;
        self.at_ms = now_ms;
        Outcome {
            answer: Answer::Ok,
            woken: Vec::new(),
            more: false,
        }
    }

    /// Does the operation of the next log entry and compares the outcome with the recorded one.
    pub fn fold(&mut self, entry: &LogEntry) -> Result<(), Error> {
        let fold = |problem: String| Error::Fold {
            seq: entry.seq,
            problem,
        };
        if entry.seq != self.seq + 1 {
            return Err(fold(format!("follows {}", self.seq)));
        }
        let outcome = self.apply(&entry.op, entry.at_ms);
        if outcome != entry.outcome {
            return Err(fold("the rules give another outcome".into()));
        }
        Ok(())
    }

    pub fn dump(&self) -> Dump {
        Dump::default()
    }

    pub fn from_dump(_dump: &Dump) -> Result<Self, Error> {
        Ok(Self::default())
    }
}
