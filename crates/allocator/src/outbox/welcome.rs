//! The welcome message: once, within 20 s of the event, never after an unknown outcome.
//!
//! Places in flight are what is scarce: rows wait for them here, those that get one together are begun in one statement,
//! and a place is given back as soon as its own call ends.

use std::{collections::HashSet, sync::Arc};

use ledger::{Finish, Held, OutboxRow, Outcome};
use metrics::histogram;
use quota::Permit;
use tokio::{sync::OwnedSemaphorePermit, task::JoinSet};
use uuid::Uuid;
use wecom::client::{Attachment, Welcome};

use super::{
    hands::Hands,
    verdict::{self, Error},
};
use crate::{
    app::Redis,
    backoff::jittered,
    effect::{Effect, kind},
};

/// Another app is sending; it may fail, so we try again soon, as long as the code lives.
const BEING_SENT: i64 = 41096;

/// A row that may be sent as soon as it is begun.
struct Ready {
    row: OutboxRow,
    message: Welcome,
    permit: Permit<Redis>,
    worker: Option<OwnedSemaphorePermit>,
}

/// A task for those that get a place, until all have one. What none is had for in time goes back in one write.
pub(super) async fn hand_out(
    hands: &Arc<Hands>,
    working: &mut JoinSet<Result<(), Error>>,
    rows: Vec<OutboxRow>,
    until_ms: u64,
) -> Result<(), Error> {
    let (mut ready, mut ended) = (Vec::new(), Vec::new());
    for row in rows {
        match readable(&row) {
            Ok(message) => ready.push((row, message)),
            Err((outcome, why)) => {
                let mut finish = Finish::new(row.held(), outcome);
                finish.error = Some(why.to_owned());
                ended.push(finish);
            }
        }
    }
    let written = verdict::write(&hands.app, &hands.corp, kind::WELCOME, &ended).await;
    while !ready.is_empty() {
        let permits = hands.permits(ready.len(), until_ms).await;
        if permits.is_empty() {
            let rows: Vec<OutboxRow> = ready.into_iter().map(|(row, _)| row).collect();
            hands.put_back(&rows).await?;
            break;
        }
        let mut batch = Vec::new();
        for ((row, message), permit) in ready.drain(..permits.len()).zip(permits) {
            batch.push(Ready {
                row,
                message,
                permit,
                worker: hands.counted_worker(),
            });
        }
        working.spawn(send(Arc::clone(hands), batch));
    }
    written
}

/// The message; or how a row ends that is not to be sent, and why.
fn readable(row: &OutboxRow) -> Result<Welcome, (Outcome, &'static str)> {
    // A call that may have greeted is never repeated.
    if row.unknown_since_ms.is_some() {
        return Err((Outcome::Failed, "unknown whether it was sent; not repeated"));
    }
    message(row).ok_or((Outcome::Dead, "the message cannot be read"))
}

async fn send(hands: Arc<Hands>, batch: Vec<Ready>) -> Result<(), Error> {
    let (app, corp) = (&hands.app, &hands.corp);
    let held: Vec<Held> = batch.iter().map(|one| one.row.held()).collect();
    let lease_ms = app.config.outbox.lease_ms;
    let begun = app
        .ledger
        .outbox()
        .begin(&held, lease_ms, app.now_ms())
        .await;
    let ours: HashSet<Uuid> = begun.iter().flatten().map(|held| held.id).collect();
    let mut calls = JoinSet::new();
    for one in batch {
        if ours.contains(&one.row.id) {
            calls.spawn(call(Arc::clone(&hands), one));
        } else {
            hands.unused(&one.permit).await;
        }
    }
    begun?;
    let mut written = Ok(());
    while let Some(first) = calls.join_next().await {
        // What ended while the last outcomes were written is written together.
        let more = std::iter::from_fn(|| calls.try_join_next());
        let finishes: Vec<Finish> = std::iter::once(first)
            .chain(more)
            .filter_map(|done| {
                done.inspect_err(|error| tracing::error!(corp = %corp.id, error = %error, "sending a welcome message broke"))
                    .ok()
            })
            .collect();
        // The other calls are under way: their outcomes are written whatever became of these.
        written = verdict::write(app, corp, kind::WELCOME, &finishes)
            .await
            .and(written);
    }
    written
}

async fn call(hands: Arc<Hands>, one: Ready) -> Finish {
    let (app, corp) = (&hands.app, &hands.corp);
    let answer = corp.client.send_welcome_msg(&one.message).await;
    hands.done(&one.permit, &answer).await;
    drop(one.worker);
    let outcome = match &answer {
        Ok(()) => {
            histogram!("paidan_welcome_seconds")
                .record(app.now_ms().saturating_sub(one.row.created_ms) as f64 / 1000.0);
            Outcome::Done
        }
        Err(error) if error.may_have_acted() => Outcome::Failed,
        Err(error) if error.errcode() == Some(BEING_SENT) => Outcome::Again {
            due_ms: app.now_ms() + jittered(1_000),
        },
        Err(error) => verdict::after_refusal(app, corp, error, one.row.tries + 1),
    };
    verdict::finish(one.row.held(), outcome, answer.as_ref().err())
}

fn message(row: &OutboxRow) -> Option<Welcome> {
    let Ok(Effect::Welcome {
        welcome_code,
        text,
        attachments,
    }) = serde_json::from_value(row.payload.clone())
    else {
        return None;
    };
    let mut message = Welcome::new(welcome_code);
    if let Some(text) = text {
        message = message.text(text);
    }
    for attachment in attachments {
        message = message.attach(serde_json::from_value::<Attachment>(attachment).ok()?);
    }
    Some(message)
}
