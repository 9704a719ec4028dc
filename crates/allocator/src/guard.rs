//! Whole or closed: compares Redis with the ledger, closes a corp whose state is absent, behind or of another
//! generation, and rebuilds it from snapshot and log. Any allocator may do it; the generation in the corp's row says
//! whose rebuild counts, and a lease there keeps the others from beginning another one meanwhile.

mod again;
mod state;

use std::{sync::Arc, time::Duration};

use allocation::CorpId;
use ledger::{Confirmed, Corp, RebuildLease, Snapshot};
use metrics::{counter, gauge};
use tokio_util::sync::CancellationToken;

pub use again::Unrecorded;
pub(crate) use again::take_up_late;

use crate::{
    app::{App, CorpApp},
    backoff::Backoff,
    faults::{Part, with_causes},
    writer,
};

/// How often a healthy corp is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a rebuilder is believed to be at work, and how often he says so.
const LEASE_MS: u64 = 6_000;
const RENEW_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("ledger")]
    Ledger(#[from] ledger::Error),
    #[error("roster")]
    Roster(#[from] roster::Error),
    #[error("quota")]
    Quota(#[from] quota::Error),
    /// Redis still has it, and a rebuild would wipe it.
    #[error("the rest of the log could not be written")]
    Rest(#[source] writer::Error),
    #[error("log entry {seq} cannot be folded")]
    Fold { seq: u64, source: allocation::Error },
    #[error("log entry {0} is missing in the ledger, which has later ones or says so")]
    Missing(u64),
    #[error("snapshot {seq} cannot be read")]
    Snapshot { seq: u64, source: allocation::Error },
    #[error("a newer rebuild (generation {0}) goes on")]
    Superseded(u64),
    #[error("another allocator rebuilds")]
    Held,
}

impl Error {
    /// What only a person can end, and how.
    fn told(&self, corp: &CorpId) -> Option<String> {
        match self {
            Error::Rest(error) if error.is_of_the_data() => Some(error.told(corp)),
            Error::Ledger(error) if error.is_of_the_data() => Some(with_causes(self)),
            _ => None,
        }
    }

    /// The ledger's log is to blame: folding it again does not help.
    fn is_of_the_log(&self) -> bool {
        matches!(
            self,
            Error::Fold { .. } | Error::Missing(_) | Error::Snapshot { .. }
        )
    }
}

/// What a person may ask of a rebuild.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Make the state of the ledger's rows, though its log could be folded.
    pub from_rows: bool,
    /// Give up what Redis still has of the log, from the first entry on that cannot be written to the ledger.
    pub drop_rest: bool,
}

/// Looks and rebuilds until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    let mut snapshot_seq = None;
    while !stop.is_cancelled() {
        match look(&app, &corp).await {
            Ok(log_seq) => {
                backoff.reset();
                corp.faults.clear(Part::Rebuild);
                gauge!("paidan_corp_ready", "corp" => corp.id.to_string()).set(1.0);
                if let Err(error) = snapshot(&app, &corp, log_seq, &mut snapshot_seq).await {
                    tracing::warn!(corp = %corp.id, error = %error, "no snapshot was made");
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                    () = corp.not_ready.notified() => {}
                    () = stop.cancelled() => {}
                }
            }
            Err(error @ (Error::Held | Error::Superseded(_))) => {
                gauge!("paidan_corp_ready", "corp" => corp.id.to_string()).set(0.0);
                tracing::info!(corp = %corp.id, error = %error, "waiting for the corp to be open");
                backoff.wait(&stop).await;
            }
            Err(error) => {
                gauge!("paidan_corp_ready", "corp" => corp.id.to_string()).set(0.0);
                if let Some(problem) = error.told(&corp.id) {
                    corp.faults.set(Part::Rebuild, problem);
                }
                tracing::warn!(corp = %corp.id, error = %with_causes(&error), "the corp is closed or cannot be checked");
                backoff.wait(&stop).await;
            }
        }
    }
}

/// Makes sure the corp is open, rebuilding it if it must be. Answers the ledger's last entry.
pub async fn look(app: &App, corp: &CorpApp) -> Result<u64, Error> {
    let row = app.ledger.corps().get(&corp.id).await?.unwrap_or_default();
    let whole = row.opened_generation > 0
        && row.generation == row.opened_generation
        && corp
            .roster
            .close_unless(row.opened_generation, row.log_seq)
            .await?;
    if whole {
        again::ask(corp).await;
        return Ok(row.log_seq);
    }
    rebuild_seen(app, corp, Some(row), Wanted::default()).await
}

/// Folds what the ledger has and writes it to Redis. Everybody is off afterwards, until his next heartbeat. A person asks
/// for it: whoever else rebuilds is overtaken.
pub async fn rebuild(app: &App, corp: &CorpApp, wanted: Wanted) -> Result<u64, Error> {
    rebuild_seen(app, corp, None, wanted).await
}

async fn rebuild_seen(
    app: &App,
    corp: &CorpApp,
    seen: Option<Corp>,
    wanted: Wanted,
) -> Result<u64, Error> {
    let corps = app.ledger.corps();
    let row = corps
        .begin_rebuild(&corp.id, &lease(app), seen)
        .await?
        .ok_or(Error::Held)?;
    let generation = row.generation;
    let done = tokio::select! {
        done = write_anew(app, corp, row, wanted) => done,
        () = overtaken(app, corp, generation) => Err(Error::Superseded(generation + 1)),
    };
    if let Err(error) = corps.end_rebuild(&corp.id, &app.instance, generation).await {
        tracing::warn!(corp = %corp.id, error = %error, "others wait until the rebuild's lease is over");
    }
    if done.is_ok() {
        again::ask(corp).await;
    }
    done
}

fn lease(app: &App) -> RebuildLease<'_> {
    let now_ms = app.now_ms();
    RebuildLease {
        who: &app.instance,
        now_ms,
        until_ms: now_ms + LEASE_MS,
    }
}

/// Renews the lease; ends when somebody else has it.
async fn overtaken(app: &App, corp: &CorpApp, generation: u64) {
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        let corps = app.ledger.corps();
        match corps.renew_rebuild(&corp.id, &lease(app), generation).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(corp = %corp.id, error = %error, "the rebuild's lease was not renewed");
            }
        }
    }
}

async fn write_anew(app: &App, corp: &CorpApp, row: Corp, wanted: Wanted) -> Result<u64, Error> {
    let generation = row.generation;
    tracing::warn!(corp = %corp.id, generation, log_seq = row.log_seq, "rebuilding the corp's state");
    counter!("paidan_rebuilds_total", "corp" => corp.id.to_string()).increment(1);
    corp.roster
        .begin_rebuild(generation)
        .await
        .map_err(stale(generation))?;
    drain(app, corp, wanted).await?;
    let mut state = if wanted.from_rows {
        state::of_rows(app, corp, generation).await?
    } else {
        state::made(app, corp, generation).await?
    };
    loop {
        match app
            .ledger
            .corps()
            .confirm_generation(&corp.id, generation, state.seq())
            .await?
        {
            Confirmed::Yes => break,
            Confirmed::ReadOn { .. } => {
                state = state::made_on(app, corp, generation, state).await?;
            }
            Confirmed::Superseded { generation } => return Err(Error::Superseded(generation)),
        }
    }
    restore_quota(app, corp, generation).await?;
    again::take_up(app, corp, generation).await?;
    let seq = corp
        .roster
        .finish_rebuild(state, generation, None)
        .await
        .map_err(stale(generation))?;
    tracing::info!(corp = %corp.id, generation, seq, "the corp is open again");
    corp.log_grew.notify_one();
    // What was put while the corp was closed was not told.
    corp.pool_missed.notify_one();
    corp.groups_changed.notify_one();
    Ok(seq)
}

fn stale(generation: u64) -> impl Fn(roster::Error) -> Error {
    move |error| match error {
        roster::Error::Stale => Error::Superseded(generation + 1),
        other => Error::Roster(other),
    }
}

/// What Redis still has of the log goes to the ledger first: its decisions were answered. Only a log that does not go on
/// where the ledger ends is given up, as that is what a rebuild is for, and what a person told us to give up; after any
/// other failure the rebuild begins again.
async fn drain(app: &App, corp: &CorpApp, wanted: Wanted) -> Result<(), Error> {
    loop {
        match writer::turn(app, corp).await {
            Ok(writer::Turn::Wrote(_)) => {}
            Ok(writer::Turn::Taken) => tokio::time::sleep(Duration::from_millis(20)).await,
            Ok(writer::Turn::Idle { .. }) => return Ok(()),
            Err(error @ writer::Error::Lost { .. }) => {
                tracing::warn!(corp = %corp.id, error = %error, "the rest of the log is lost");
                return again::keep(app, corp).await;
            }
            // One that waits for its minute is not lost.
            Err(error @ writer::Error::Payload { .. }) => return Err(Error::Rest(error)),
            Err(error) if wanted.drop_rest && error.is_of_the_data() => {
                tracing::error!(corp = %corp.id, error = %with_causes(&error), "the rest of the log is given up, as was asked for");
                // What the ledger refuses it would refuse again.
                return match error {
                    writer::Error::Roster(_) => again::keep(app, corp).await,
                    _ => Ok(()),
                };
            }
            Err(error) => return Err(Error::Rest(error)),
        }
    }
}

/// Blocks and the fence counter live in Redis too: without them a call could go out while WeCom still refuses.
async fn restore_quota(app: &App, corp: &CorpApp, generation: u64) -> Result<(), Error> {
    let corp_id = corp.id.as_str();
    for block in app
        .ledger
        .budget_blocks()
        .load(&corp.id, app.now_ms())
        .await?
    {
        let until = i64::try_from(block.until_ms).unwrap_or(i64::MAX);
        app.quota.block(corp_id, &block.api, until, None).await?;
    }
    let least = app
        .ledger
        .outbox()
        .greatest_fence(&corp.id)
        .await?
        .map_or(0, |fence| fence.counter);
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    app.locks
        .fence_seed(corp_id, signed(generation), signed(least))
        .await?;
    Ok(())
}

/// Saves the folded state now and then, so that a rebuild need not begin at the first entry.
async fn snapshot(
    app: &App,
    corp: &CorpApp,
    log_seq: u64,
    last: &mut Option<u64>,
) -> Result<(), Error> {
    let known = match *last {
        Some(seq) => seq,
        None => {
            let seq = app
                .ledger
                .corps()
                .latest_snapshot(&corp.id)
                .await?
                .map_or(0, |snapshot| snapshot.seq);
            *last.insert(seq)
        }
    };
    if log_seq < known + app.config.roster.snapshot_every {
        return Ok(());
    }
    // Another allocator may have been faster.
    let folded = state::folded(app, corp).await;
    if folded.as_ref().is_err_and(Error::is_of_the_log) {
        // Not at every look: it is the whole log since the last snapshot.
        *last = Some(log_seq);
    }
    let (state, from) = folded?;
    let seq = state.seq();
    if seq > from {
        let dump = state.dump().to_json();
        app.ledger
            .corps()
            .save_snapshot(&corp.id, &Snapshot { seq, dump })
            .await?;
    }
    *last = Some(seq);
    Ok(())
}
