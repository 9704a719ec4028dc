//! Group `decide`: each delivery becomes a step, the steps of a batch become a few script calls, and only then is the
//! batch acknowledged. Nothing here needs Postgres or WeCom, so neither can stop a decision; the one exception are
//! deliveries that were read before, because their decision may be in the ledger already. (A State that nobody knows, and
//! who had a customer of a sticky pool, is looked up in Postgres, if that answers at once.)

pub mod dirty;
mod marks;
mod turn;
mod waiting;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use inbox::{Consumer, Delivery, Group};
use metrics::counter;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    app::{App, CorpApp, Redis},
    backoff::Backoff,
    people,
    poison::{self, Failure, Work},
    reception::{
        intake::{self, Arrival, Places, Step},
        owners,
    },
};
use turn::{Origin, Turn};

/// A delivery that is taken up this long after it came, by a replay or after an outage, is no news any more.
pub const LATE_MS: u64 = 24 * 60 * 60 * 1000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("inbox")]
    Inbox(#[from] inbox::Error),
    #[error("roster")]
    Roster(#[from] roster::Error),
    #[error("ledger")]
    Ledger(#[from] ledger::Error),
    #[error("the ledger has not caught up with the log yet")]
    LedgerBehind,
}

/// Reads and decides until the program stops. What a failed turn held is read again.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    while !stop.is_cancelled() {
        let blocking = match app.blocking().await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(corp = %corp.id, error = %error, "no connection to read the inbox");
                backoff.wait(&stop).await;
                continue;
            }
        };
        let mut consumer = Consumer::new(
            corp.inbox.clone(),
            blocking,
            Group::Decide,
            app.instance.clone(),
        );
        let block = Duration::from_millis(app.config.inbox.block_ms);
        loop {
            let next = tokio::select! {
                next = consumer.next(app.config.inbox.batch.min(allocation::MAX_BATCH), block) => next,
                () = stop.cancelled() => return,
            };
            match next {
                Ok(batch) if batch.is_empty() => backoff.reset(),
                Ok(batch) => {
                    if !until_done(&app, &corp, &consumer, batch, &stop).await {
                        return;
                    }
                    backoff.reset();
                }
                Err(error) => {
                    tracing::warn!(corp = %corp.id, error = %error, "the inbox cannot be read");
                    backoff.wait(&stop).await;
                    break;
                }
            }
        }
    }
}

/// Tries one batch until it is acknowledged, or failed by its own fault: a store that is away counts no try. False when
/// the program stops first; the batch then goes to another consumer.
async fn until_done(
    app: &App,
    corp: &CorpApp,
    consumer: &Consumer<Redis>,
    mut batch: Vec<Delivery>,
    stop: &CancellationToken,
) -> bool {
    let work = Deciding {
        app,
        corp,
        awaited: Mutex::default(),
    };
    let mut backoff = Backoff::store();
    // An earlier try may have had its effect without our learning of it.
    let mut again = false;
    loop {
        match poison::attempt(&work, &batch, again).await {
            Ok(()) => match consumer.ack(&batch).await {
                Ok(_) => return true,
                Err(error) => {
                    tracing::warn!(corp = %corp.id, error = %error, "a batch was not acknowledged")
                }
            },
            Err(Failure::Error(Error::Roster(roster::Error::NotReady))) => {
                corp.not_ready.notify_one()
            }
            Err(failure) => {
                tracing::warn!(corp = %corp.id, error = %failure, "a batch was not decided");
                if failure.is_theirs() {
                    batch = poison::sift(&corp.id, consumer, batch, &work, stop).await;
                    if batch.is_empty() {
                        return true;
                    }
                }
            }
        }
        again = true;
        if !backoff.wait(stop).await {
            return false;
        }
    }
}

struct Deciding<'a> {
    app: &'a App,
    corp: &'a CorpApp,
    /// See [`decide_again`].
    awaited: Mutex<Option<u64>>,
}

impl Work for Deciding<'_> {
    type Error = Error;

    async fn run(&self, batch: &[Delivery], again: bool) -> Result<(), Error> {
        let awaited = || self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        let mut log_seq = *awaited();
        let decided = decide_again(self.app, self.corp, batch, again, &mut log_seq).await;
        *awaited() = log_seq;
        decided
    }
}

/// Carries out what a batch asks for. Doing it twice is doing it once.
pub async fn decide(
    app: &App,
    corp: &CorpApp,
    batch: &[Delivery],
    again: bool,
) -> Result<(), Error> {
    decide_again(app, corp, batch, again, &mut None).await
}

/// As [`decide`], for a batch that is tried until it is done. `awaited` is kept from try to try: the log entry that the
/// ledger must have before it can be asked what became of the batch.
pub async fn decide_again(
    app: &App,
    corp: &CorpApp,
    batch: &[Delivery],
    again: bool,
    awaited: &mut Option<u64>,
) -> Result<(), Error> {
    let done = already_done(app, corp, batch, again, awaited).await?;
    let mut steps = steps(app, corp, batch);
    if steps.iter().any(Step::is_of_unknown_state) && people::look_again(app, corp).await {
        steps = self::steps(app, corp, batch);
    }
    owners::give_plans(app, corp, &mut steps).await;
    let mut turn = Turn::default();
    for (delivery, step) in batch.iter().zip(steps) {
        let id = delivery.id.to_string();
        if let Some(outcome) = done.get(&id) {
            counter!("paidan_deliveries_total", "corp" => corp.id.to_string(), "outcome" => "repeated").increment(1);
            turn.marks.add_again(step, outcome);
            continue;
        }
        turn.add(
            corp,
            Origin {
                delivery: id,
                received_ms: delivery.received_ms,
            },
            step,
        )
        .await?;
    }
    let delays = marks::Delays {
        pair_ms: app.config.inbox.stream.dirty_delay_ms,
        chat_ms: app.config.fission.read_after_ms,
    };
    let look_up = app.config.visits.look_up_unionid;
    turn.finish(corp, app.now_ms(), delays, look_up).await?;
    corp.log_grew.notify_one();
    Ok(())
}

/// What each delivery asks for, as far as this process knows the channels.
fn steps(app: &App, corp: &CorpApp, batch: &[Delivery]) -> Vec<Step> {
    let routes = corp.routes();
    let places = Places {
        routes: &routes,
        owners: &corp.ways,
    };
    let step = |delivery: &Delivery| {
        let arrival = Arrival {
            corp: &corp.id,
            delivery: &delivery.id.to_string(),
            received_ms: delivery.received_ms,
            plaintext: &delivery.plaintext,
        };
        let step = intake::step(&arrival, &places, Uuid::now_v7());
        if is_late(delivery.received_ms, app.now_ms()) {
            step.late()
        } else {
            step
        }
    };
    batch.iter().map(step).collect()
}

/// Whether a delivery is taken up too long after it came to be believed.
pub fn is_late(received_ms: u64, now_ms: u64) -> bool {
    received_ms < now_ms.saturating_sub(LATE_MS)
}

/// Of deliveries that were read before: those whose outcome is known. The log may hold outcomes that the ledger has
/// not written yet, so it must have caught up first: with what was logged when the doubt arose, as others go on logging.
async fn already_done(
    app: &App,
    corp: &CorpApp,
    batch: &[Delivery],
    again: bool,
    awaited: &mut Option<u64>,
) -> Result<BTreeMap<String, String>, Error> {
    let doubtful: Vec<(String, u64)> = batch
        .iter()
        .filter(|delivery| again || delivery.again)
        .map(|delivery| (delivery.id.to_string(), delivery.received_ms))
        .collect();
    if doubtful.is_empty() {
        return Ok(BTreeMap::new());
    }
    // Less than before: Redis lost the rest, and a rebuild went on without it.
    let logged = corp.roster.status().await?.seq;
    let logged = awaited.map_or(logged, |before| before.min(logged));
    *awaited = Some(logged);
    let written = app
        .ledger
        .corps()
        .get(&corp.id)
        .await?
        .map_or(0, |row| row.log_seq);
    if written < logged {
        corp.log_grew.notify_one();
        return Err(Error::LedgerBehind);
    }
    let done = app.ledger.deliveries().decided(&corp.id, &doubtful).await?;
    // What this try logs is for the next one to wait for.
    *awaited = None;
    Ok(done)
}
