//! Waiting until the ledger has what the corp's log has now.

use std::time::Duration;

use crate::app::{App, CorpApp};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// False: it has not, within this time.
pub(crate) async fn within<E>(app: &App, corp: &CorpApp, limit: Duration) -> Result<bool, E>
where
    E: From<roster::Error> + From<ledger::Error>,
{
    let logged = corp.roster.status().await?.seq;
    let deadline = tokio::time::Instant::now() + limit;
    loop {
        let row = app.ledger.corps().get(&corp.id).await?;
        if row.map_or(0, |row| row.log_seq) >= logged {
            return Ok(true);
        }
        if tokio::time::Instant::now() >= deadline {
            return Ok(false);
        }
        corp.log_grew.notify_one();
        tokio::time::sleep(LOOK).await;
    }
}
