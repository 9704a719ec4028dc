//! One operation, one call.

use allocation::{Op, Outcome, Woken};

use crate::connection::Connection;
use crate::error::Error;
use crate::keys::Keys;
use crate::scripts::SCRIPTS;

/// Between the fields of an answer.
const FIELD: char = '\u{1f}';

/// What an operation answered, and where it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied<T> {
    pub seq: u64,
    pub at_ms: u64,
    pub answer: T,
    /// Waiting subjects that found a member in the same call.
    pub woken: Vec<Woken>,
    /// There are still waiting subjects and free members for them: call `wake`.
    pub more: bool,
}

impl<T> Applied<T> {
    pub(crate) fn with<U>(self, answer: U) -> Applied<U> {
        Applied {
            seq: self.seq,
            at_ms: self.at_ms,
            answer,
            woken: self.woken,
            more: self.more,
        }
    }
}

/// `now_ms` None: the script asks Redis for the time.
pub(crate) async fn apply<C: Connection>(
    connection: &C,
    keys: &Keys,
    op: &Op,
    payload: &str,
    now_ms: Option<u64>,
) -> Result<Applied<Outcome>, Error> {
    let now = now_ms.map(|now| now.to_string()).unwrap_or_default();
    let op_args = op.args();
    let mut args: Vec<&[u8]> = vec![now.as_bytes(), payload.as_bytes()];
    args.extend(op_args.iter().map(String::as_bytes));
    let text: String = SCRIPTS.of(op).call(connection, keys.log(), &args).await?;
    let (seq, at_ms, result) = head(&text).ok_or_else(|| {
        Error::Answer(allocation::Error::Unreadable {
            what: "answer",
            problem: text.clone(),
        })
    })?;
    let outcome = Outcome::parse(op, result)?;
    Ok(Applied {
        seq,
        at_ms,
        woken: outcome.woken.clone(),
        more: outcome.more,
        answer: outcome,
    })
}

/// Sequence number and time, then the result as it stands in the log.
fn head(text: &str) -> Option<(u64, u64, &str)> {
    let (seq, rest) = text.split_once(FIELD)?;
    let (at_ms, result) = rest.split_once(FIELD)?;
    Some((seq.parse().ok()?, at_ms.parse().ok()?, result))
}
