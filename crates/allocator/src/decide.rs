//! Group `decide`: each delivery becomes a step, the steps of a batch become a few script calls, and only then is the
//! batch acknowledged. Nothing here asks Postgres or WeCom, so neither can stop a decision; the one exception are
//! deliveries that were read before, because their decision may be in the ledger already.

pub mod dirty;
mod marks;
mod waiting;

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use allocation::{Closed, Closing, Decision, Request, SubjectKey};
use inbox::{Consumer, Delivery, Group};
use metrics::counter;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    app::{App, CorpApp, Redis},
    backoff::Backoff,
    payload::{Context, Outcome, Payload},
    poison::{self, Failure, Work},
    reception::intake::{self, Arrival, Pair, Step},
};
use marks::Marks;

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
                    batch = poison::sift(&corp.id, consumer, batch, &work).await;
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
    let routes = corp.routes();
    let mut turn = Turn::default();
    for delivery in batch {
        let id = delivery.id.to_string();
        let arrival = Arrival {
            corp: &corp.id,
            delivery: &id,
            received_ms: delivery.received_ms,
            plaintext: &delivery.plaintext,
        };
        let step = intake::step(&arrival, &routes, Uuid::now_v7());
        let step = if is_late(delivery.received_ms, app.now_ms()) {
            step.late()
        } else {
            step
        };
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
    turn.finish(corp, app.now_ms(), app.config.inbox.stream.dirty_delay_ms)
        .await?;
    corp.log_grew.notify_one();
    Ok(())
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

/// The steps of one batch. Requests and closings gather until one touches a subject of the other kind: their order
/// matters only there.
#[derive(Default)]
struct Turn {
    requests: Vec<Request>,
    contexts: Vec<Context>,
    closings: Vec<(Closing, Pair, Origin)>,
    outcomes: Vec<Outcome>,
    marks: Marks,
}

/// Which delivery it was.
#[derive(Clone)]
struct Origin {
    delivery: String,
    received_ms: u64,
}

impl Turn {
    async fn add(&mut self, corp: &CorpApp, origin: Origin, step: Step) -> Result<(), Error> {
        match step {
            Step::Decide { request, context } => {
                if self
                    .closings
                    .iter()
                    .any(|(closing, ..)| closing.subject == request.subject)
                {
                    self.close(corp).await?;
                }
                self.requests.push(request);
                self.contexts.push(*context);
            }
            Step::Close { closing, pair } => {
                if self
                    .requests
                    .iter()
                    .any(|request| request.subject == closing.subject)
                {
                    self.decide(corp).await?;
                }
                self.closings.push((closing, pair, origin));
            }
            Step::Advance {
                external_userid,
                taker,
                reason,
            } => {
                self.marks.transfer(&external_userid, taker.as_deref());
                self.outcome(origin, "advanced", reason);
            }
            Step::Reread(pair) => {
                self.marks.pairs.push(pair);
                self.outcome(origin, "reread", "changed");
            }
            Step::Late(pair) => {
                self.marks.pairs.push(pair);
                self.outcome(origin, "reread", "late");
            }
            Step::CheckMember(userid) => {
                self.marks.members.push(userid);
                self.outcome(origin, "reread", "member");
            }
            Step::Ignore(reason) => {
                counter!("paidan_ignored_total", "corp" => corp.id.to_string(), "reason" => reason)
                    .increment(1);
                self.outcome(origin, "ignored", reason);
            }
        }
        Ok(())
    }

    fn outcome(&mut self, origin: Origin, outcome: &str, reason: &str) {
        self.outcomes.push(Outcome {
            delivery: origin.delivery,
            received_ms: origin.received_ms,
            outcome: outcome.to_owned(),
            reason: Some(reason.to_owned()),
        });
    }

    async fn decide(&mut self, corp: &CorpApp) -> Result<(), Error> {
        if self.requests.is_empty() {
            return Ok(());
        }
        let contexts = std::mem::take(&mut self.contexts);
        let unknown = contexts
            .iter()
            .filter(|context| context.unknown_state.is_some())
            .count();
        if unknown > 0 {
            counter!("paidan_unknown_state_total", "corp" => corp.id.to_string())
                .increment(unknown as u64);
            tracing::warn!(corp = %corp.id, unknown, "customers came with a State that names no channel; they went to the default pool");
        }
        let payload = Payload {
            contexts,
            outcomes: std::mem::take(&mut self.outcomes),
            ..Payload::default()
        };
        let requests = std::mem::take(&mut self.requests);
        let applied = corp.roster.decide(requests, &payload.text(), None).await?;
        for (context, decision) in payload.contexts.iter().zip(&applied.answer) {
            match decision {
                Decision::Echo { .. } => self
                    .marks
                    .transfer(&context.subject_id, context.holder.as_deref()),
                Decision::NoPool => self.marks.homeless(context),
                _ => {}
            }
        }
        Ok(())
    }

    /// Closes what is to be closed. A closing that ended nothing is a doubt: the pair is read again.
    async fn close(&mut self, corp: &CorpApp) -> Result<(), Error> {
        if self.closings.is_empty() {
            return Ok(());
        }
        let closings = std::mem::take(&mut self.closings);
        let mut outcomes = std::mem::take(&mut self.outcomes);
        outcomes.extend(closings.iter().map(|(closing, _, origin)| Outcome {
            delivery: origin.delivery.clone(),
            received_ms: origin.received_ms,
            outcome: "closed".to_owned(),
            reason: Some(closing.reason.to_string()),
        }));
        let payload = Payload {
            outcomes,
            ..Payload::default()
        };
        let asked = closings
            .iter()
            .map(|(closing, ..)| closing.clone())
            .collect();
        let applied = corp.roster.close(asked, &payload.text(), None).await?;
        let ended: HashSet<SubjectKey> = applied
            .answer
            .iter()
            .map(|closed: &Closed| closed.subject)
            .collect();
        let mut doubtful = closings;
        doubtful.retain(|(closing, ..)| !ended.contains(&closing.subject));
        let waited = waiting::end(corp, doubtful.iter().map(|(closing, ..)| closing)).await?;
        doubtful.retain(|(closing, ..)| !waited.contains(&closing.subject));
        let pairs = doubtful.into_iter().map(|(_, pair, _)| pair);
        self.marks.pairs.extend(pairs);
        Ok(())
    }

    /// The rest, then the marks. Marks come last, as only an answer says which are needed, and before the
    /// acknowledgement: a batch that comes again makes them again.
    async fn finish(mut self, corp: &CorpApp, now_ms: u64, delay_ms: u64) -> Result<(), Error> {
        self.decide(corp).await?;
        self.close(corp).await?;
        if !self.outcomes.is_empty() {
            let payload = Payload {
                outcomes: std::mem::take(&mut self.outcomes),
                ..Payload::default()
            };
            corp.roster.note(&payload.text(), None).await?;
        }
        self.marks.write(corp, now_ms, delay_ms).await
    }
}
