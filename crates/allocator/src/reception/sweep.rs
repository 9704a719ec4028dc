//! Ends holds whose time is over: nobody came, or not yet; and lets members take customers again whose limit by the hour or
//! day was reached, when the hour or day is over. Any number of processes may do it; an end is once.

use std::{sync::Arc, time::Duration};

use allocation::MAX_BATCH;
use tokio_util::sync::CancellationToken;

use crate::{
    app::{App, CorpApp},
    backoff::sleep,
};

/// How late a hold may end, and a member be back.
const PAUSE: Duration = Duration::from_millis(500);

pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    while sleep(PAUSE, &stop).await {
        match turn(&app, &corp, &stop).await {
            Ok(_) => {}
            Err(roster::Error::NotReady) => corp.not_ready.notify_one(),
            Err(error) => {
                tracing::warn!(corp = %corp.id, error = %error, "holds and limits that are over were not ended");
            }
        }
    }
}

/// Ends all that are over; answers how many holds those were. Looks before it asks, because every operation is an entry
/// in the log.
pub async fn turn(
    app: &App,
    corp: &CorpApp,
    stop: &CancellationToken,
) -> Result<usize, roster::Error> {
    let limit = u32::try_from(MAX_BATCH).unwrap_or(u32::MAX);
    let mut ended = 0;
    while !stop.is_cancelled() {
        let now_ms = app.now_ms();
        let is_due = |end_ms: Option<u64>| end_ms.is_some_and(|end_ms| end_ms <= now_ms);
        let roster = &corp.roster;
        // Every operation looks at whose limits are over, and wakes who waits for them; this one does nothing else.
        if !is_due(roster.first_end().await?) && !is_due(roster.first_alarm().await?) {
            break;
        }
        let applied = corp.roster.expire(limit, "", None).await?;
        let (taken, expired) = applied.answer;
        ended += expired.len();
        corp.log_grew.notify_one();
        if taken < limit {
            break;
        }
    }
    if ended > 0 {
        metrics::counter!("paidan_holds_expired_total", "corp" => corp.id.to_string())
            .increment(ended as u64);
    }
    Ok(ended)
}
