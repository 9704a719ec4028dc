//! One entry of a corp's log: an operation, when it was done, and what came of it.

use crate::error::Error;
use crate::op::Op;
use crate::outcome::Outcome;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Position in the corp's log, counted from 1 without gaps.
    pub seq: u64,
    pub at_ms: u64,
    pub op: Op,
    pub outcome: Outcome,
    /// The caller's own JSON; no input of the rules.
    pub payload: Option<String>,
}

impl LogEntry {
    /// Reads the columns that [`Op::name`], [`Op::args_text`] and [`Outcome::text`] wrote.
    pub fn from_parts(
        seq: u64,
        at_ms: u64,
        op: &str,
        args: &str,
        result: &str,
    ) -> Result<Self, Error> {
        let op = Op::parse(op, args)?;
        let outcome = Outcome::parse(&op, result)?;
        Ok(Self {
            seq,
            at_ms,
            op,
            outcome,
            payload: None,
        })
    }

    #[must_use]
    pub fn with_payload(mut self, payload: Option<String>) -> Self {
        self.payload = payload;
        self
    }

    /// Name, arguments and result as they stand in the log.
    pub fn parts(&self) -> (&'static str, String, String) {
        (self.op.name(), self.op.args_text(), self.outcome.text())
    }
}
