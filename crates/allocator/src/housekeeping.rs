//! What keeps the stores small and ready: deliveries that both groups have acknowledged leave the inbox, tomorrow's
//! partitions are there today, old days and too many dead letters go, consumers of dead processes and answers of
//! yesterday are forgotten. And the sizes that somebody on call wants to see.

use std::{sync::Arc, time::Duration};

use inbox::{DeadLetter, Delivery, EntryId, Group};
use metrics::{counter, gauge};
use tokio_util::sync::CancellationToken;

use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
    record,
};

const TURN: Duration = Duration::from_millis(500);
const HOURLY_MS: u64 = 60 * 60 * 1000;
const DAY_MS: u64 = 24 * HOURLY_MS;
/// A process that starts at midnight must not be the first to need a partition.
const PARTITIONS_AHEAD: u32 = 3;
/// Kept answers that are forgotten in one transaction.
const PRUNE: u32 = 5_000;
/// Events of the feed are kept so long.
const EVENT_DAYS: u64 = 90;
/// Old days dropped in one hour; a backlog of years is gone within days.
const DROP: usize = 14;
/// Dead letters that leave Redis in one turn.
const LETTERS: usize = 500;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("inbox: {0}")]
    Inbox(#[from] inbox::Error),
    #[error("ledger: {0}")]
    Ledger(#[from] ledger::Error),
}

/// Tidies until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    let mut hourly_ms = 0;
    while sleep(TURN, &stop).await {
        let now_ms = app.now_ms();
        let tidied = async {
            corp.inbox.trim().await?;
            if inbox_sizes(&corp).await? > app.config.retention.dead_letters {
                bound_dead_letters(&app, &corp).await?;
            }
            if now_ms >= hourly_ms {
                hourly(&app, &corp, now_ms, &stop).await?;
                hourly_ms = now_ms + HOURLY_MS;
            }
            Ok::<_, Error>(())
        };
        match tidied.await {
            Ok(()) => backoff.reset(),
            Err(error) => {
                tracing::warn!(corp = %corp.id, error = %error, "housekeeping waits");
                backoff.wait(&stop).await;
            }
        }
    }
}

async fn hourly(
    app: &App,
    corp: &CorpApp,
    now_ms: u64,
    stop: &CancellationToken,
) -> Result<(), Error> {
    app.ledger
        .deliveries()
        .make_partitions_ahead(now_ms, PARTITIONS_AHEAD)
        .await?;
    prune_answers(app, now_ms, stop).await?;
    for group in Group::ALL {
        corp.inbox.forget_consumers(group, HOURLY_MS).await?;
    }
    // The days are every corp's.
    if app.corps.keys().next() == Some(&corp.id) {
        drop_old_days(app, now_ms).await?;
        let before_ms = now_ms.saturating_sub(EVENT_DAYS * DAY_MS);
        app.ledger
            .inviters()
            .forget_events(before_ms, PRUNE)
            .await?;
    }
    Ok(())
}

/// Forgets the answers that were kept for a day, batch by batch until none is left; answers how many. A busy corp keeps
/// more in an hour than one batch holds.
pub async fn prune_answers(
    app: &App,
    now_ms: u64,
    stop: &CancellationToken,
) -> Result<u64, ledger::Error> {
    let answers = app.ledger.idempotency();
    let before_ms = now_ms.saturating_sub(DAY_MS);
    let mut total = 0;
    while !stop.is_cancelled() {
        let gone = answers.prune(before_ms, PRUNE).await?;
        total += gone;
        if gone < PRUNE.into() {
            break;
        }
    }
    Ok(total)
}

/// Drops the days of deliveries that are past their time; answers how many. A day with a delivery that nothing came of
/// yet stays, and is told of every hour until somebody replays it.
pub async fn drop_old_days(app: &App, now_ms: u64) -> Result<usize, Error> {
    let days = u64::from(app.config.retention.deliveries_days);
    if days == 0 {
        return Ok(0);
    }
    let before_ms = now_ms.saturating_sub(days * DAY_MS);
    let old = match app.ledger.deliveries().drop_old(before_ms, DROP).await {
        Err(ledger::Error::Contended(_)) => {
            tracing::info!(
                "old days of deliveries were not dropped: somebody reads the table for long"
            );
            return Ok(0);
        }
        other => other?,
    };
    let mut undecided = 0;
    for day in &old {
        if day.undecided == 0 {
            tracing::info!(day = %day.day, "a day of deliveries was dropped");
            continue;
        }
        undecided += day.undecided;
        tracing::warn!(day = %day.day, undecided = day.undecided, "an old day of deliveries stays: nothing came of some of them yet; replay them");
    }
    let dropped = old.iter().filter(|day| day.undecided == 0).count();
    counter!("paidan_delivery_days_dropped_total").increment(dropped as u64);
    gauge!("paidan_deliveries_undecided_old").set(undecided as f64);
    Ok(dropped)
}

/// The oldest dead letters beyond the bound leave Redis, once the ledger has them; answers how many. They are replayed
/// from there as other deliveries are.
pub async fn bound_dead_letters(app: &App, corp: &CorpApp) -> Result<u64, Error> {
    let mut oldest = corp
        .inbox
        .dead_list(EntryId::MIN, EntryId::MAX, LETTERS)
        .await?;
    // Counted after they were read: another allocator may have removed some of them, and may go on.
    let dead = corp.inbox.stats(None).await?.dead;
    let over = dead.saturating_sub(app.config.retention.dead_letters);
    oldest.truncate(usize::try_from(over).unwrap_or(LETTERS));
    let ids: Vec<EntryId> = oldest.iter().map(|letter| letter.id).collect();
    let deliveries: Vec<Delivery> = oldest.into_iter().filter_map(delivery).collect();
    record::record(app, corp, &deliveries).await?;
    let removed = corp.inbox.dead_remove(&ids).await?;
    if removed > 0 {
        tracing::warn!(corp = %corp.id, removed, of_ours = deliveries.len(), "too many dead deliveries: the oldest are in the ledger only");
        counter!("paidan_dead_letters_removed_total", "corp" => corp.id.to_string())
            .increment(removed);
    }
    Ok(removed)
}

/// None for an entry that somebody else wrote into the stream.
fn delivery(letter: DeadLetter) -> Option<Delivery> {
    (letter.received_ms > 0 && !letter.plaintext.is_empty()).then_some(Delivery {
        entry: letter.entry,
        id: letter.delivery,
        endpoint: letter.endpoint,
        received_ms: letter.received_ms,
        plaintext: letter.plaintext,
        tries: letter.tries,
        again: true,
    })
}

/// Answers how many dead letters there are.
async fn inbox_sizes(corp: &CorpApp) -> Result<u64, Error> {
    let id = || corp.id.to_string();
    let stats = corp.inbox.stats(None).await?;
    gauge!("paidan_inbox_length", "corp" => id()).set(stats.length as f64);
    gauge!("paidan_inbox_dead", "corp" => id()).set(stats.dead as f64);
    gauge!("paidan_inbox_oldest_seconds", "corp" => id()).set(stats.oldest_age_ms as f64 / 1000.0);
    Ok(stats.dead)
}
