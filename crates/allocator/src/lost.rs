//! Allocations that Redis made and the ledger refused, because an open one stood or they were the echo of a transfer.
//! They are closed in the ledger from the first and must end in Redis too. A process may die in between, and a corp that
//! is closed for a rebuild cannot be told: so they are ended again until the log says that it was done.

use allocation::{Closing, MAX_BATCH, Reason};
use ledger::Change;

use crate::app::{App, CorpApp};

/// Why they end in Redis.
const REASON: &str = "conflict";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("ledger: {0}")]
    Ledger(#[from] ledger::Error),
    #[error("roster: {0}")]
    Roster(#[from] roster::Error),
}

/// Ends them in Redis; answers how many were told. Ending one twice is ending it once.
pub async fn end(app: &App, corp: &CorpApp) -> Result<usize, Error> {
    let Ok(reason) = Reason::new(REASON) else {
        return Ok(0);
    };
    let limit = u32::try_from(MAX_BATCH).unwrap_or(u32::MAX);
    let lost = app.ledger.allocations().lost(&corp.id, limit).await?;
    if lost.is_empty() {
        return Ok(0);
    }
    let closings: Vec<Closing> = lost
        .into_iter()
        .map(|row| Closing {
            subject: row.subject,
            pool: Some(row.pool),
            member: None,
            allocation: Some(row.id),
            reason: reason.clone(),
        })
        .collect();
    let told = closings.len();
    corp.roster.close(closings, "", None).await?;
    corp.log_grew.notify_one();
    Ok(told)
}

/// What such a closing means for the ledger, also if Redis had nothing to close any more: it was done.
pub(crate) fn ended(closing: &Closing) -> Option<Change> {
    let allocation = closing.allocation?;
    (closing.reason.as_str() == REASON).then(|| Change::Closed {
        allocation,
        reason: closing.reason.clone(),
    })
}
