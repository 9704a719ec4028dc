//! Events, posted to whoever wants to hear of them, as Standard Webhooks says: signed, at least once, with an id that stays the
//! same. Whoever is away for long reads what he missed in the feed.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::{StreamExt, stream};
use hmac::{Hmac, KeyInit, Mac};
use ledger::{Claim, Finish, OutboxRow, Outcome, OutgoingEvent};
use metrics::counter;
use reqwest::{StatusCode, redirect};
use secrecy::ExposeSecret;
use serde_json::json;
use sha2::Sha256;
use tokio_util::sync::CancellationToken;

use super::verdict::{self, Error};
use crate::{
    api::when::When,
    app::{App, CorpApp},
    backoff::{Backoff, jittered},
    config::Hook,
    effect::{Effect, kind},
};

const POLL: Duration = Duration::from_secs(1);
const BATCH: u32 = 100;
/// At once.
const POSTS: usize = 4;
/// The whole of one post.
const POST: Duration = Duration::from_secs(10);
const CALL_MS: u64 = 20_000;
/// A row that was claimed waits for those before it.
const LEASE_MS: u64 = 5 * 60 * 1000;
/// Tries, over some hours: the pauses double from the least to the most.
const TRIES: i32 = 12;
const LEAST_PAUSE_MS: u64 = 2_000;
const MOST_PAUSE_MS: u64 = 60 * 60 * 1000;

/// Until the program stops.
pub(super) async fn run(app: &App, corp: &CorpApp, stop: &CancellationToken) {
    let client = reqwest::Client::builder()
        .redirect(redirect::Policy::none())
        .timeout(POST)
        .build();
    let client = match client {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(corp = %corp.id, error = %error, "events are not posted");
            return;
        }
    };
    let mut backoff = Backoff::store();
    while !stop.is_cancelled() {
        match turn(app, corp, &client).await {
            Ok(0) => {
                backoff.reset();
                tokio::select! {
                    () = corp.effects_due.notified() => {}
                    () = tokio::time::sleep(POLL) => {}
                    () = stop.cancelled() => {}
                }
            }
            Ok(_) => backoff.reset(),
            Err(error) => {
                tracing::warn!(corp = %corp.id, error = %error, "events were not posted");
                backoff.wait(stop).await;
            }
        }
    }
}

async fn turn(app: &App, corp: &CorpApp, client: &reqwest::Client) -> Result<usize, Error> {
    let claim = Claim {
        corp: corp.id.clone(),
        kind: kind::EVENT.to_owned(),
        limit: BATCH,
        lease_ms: LEASE_MS,
    };
    let rows = app.ledger.outbox().claim(&claim, app.now_ms()).await?;
    let n_rows = rows.len();
    let posts = rows.into_iter().map(|row| one(app, corp, client, row));
    let mut posts = stream::iter(posts.collect::<Vec<_>>()).buffer_unordered(POSTS);
    while let Some(posted) = posts.next().await {
        posted?;
    }
    Ok(n_rows)
}

async fn one(
    app: &App,
    corp: &CorpApp,
    client: &reqwest::Client,
    row: OutboxRow,
) -> Result<(), Error> {
    let held = row.held();
    let Some(hook) = &app.hook else {
        // It stands in the feed.
        let finish = Finish::new(held, Outcome::Cancelled);
        return verdict::write(app, corp, kind::EVENT, &[finish]).await;
    };
    let event = match serde_json::from_value(row.payload.clone()) {
        Ok(Effect::Event { id }) => app.ledger.inviters().event(&corp.id, id).await?,
        _ => None,
    };
    let Some(event) = event else {
        let finish = Finish {
            error: Some("the event is no more".to_owned()),
            ..Finish::new(held, Outcome::Failed)
        };
        return verdict::write(app, corp, kind::EVENT, &[finish]).await;
    };
    let (outbox, rows) = (app.ledger.outbox(), [held]);
    let begun = outbox.begin(&rows, CALL_MS, app.now_ms());
    if begun.await?.is_empty() {
        return Ok(());
    }
    let body = body(corp, &event);
    let now_s = app.now_ms() / 1_000;
    let id = format!("evt_{}", event.id.simple());
    let posted = client
        .post(&hook.url)
        .header("content-type", "application/json")
        .header("webhook-id", &id)
        .header("webhook-timestamp", now_s)
        .header("webhook-signature", signature(hook, &id, now_s, &body))
        .body(body)
        .send()
        .await;
    let (outcome, error) = match posted.map(|answer| answer.status()) {
        Ok(status) if status.is_success() => (Outcome::Done, None),
        Ok(StatusCode::GONE) => (Outcome::Failed, Some("HTTP 410".to_owned())),
        Ok(status) => (
            again(app, row.tries + 1),
            Some(format!("HTTP {}", status.as_u16())),
        ),
        // The address may hold a secret.
        Err(error) => {
            let error = error.without_url();
            (again(app, row.tries + 1), Some(error.to_string()))
        }
    };
    counter!("paidan_events_posted_total", "corp" => corp.id.to_string(), "outcome" => match outcome {
        Outcome::Done => "done",
        Outcome::Again { .. } => "again",
        _ => "given_up",
    })
    .increment(1);
    let finish = Finish {
        error,
        ..Finish::new(held, outcome)
    };
    verdict::write(app, corp, kind::EVENT, &[finish]).await
}

fn again(app: &App, tries: i32) -> Outcome {
    if tries >= TRIES {
        return Outcome::Dead;
    }
    let doublings = u32::try_from(tries.clamp(0, 16)).unwrap_or_default();
    let pause_ms = (LEAST_PAUSE_MS << doublings).min(MOST_PAUSE_MS);
    Outcome::Again {
        due_ms: app.now_ms() + jittered(pause_ms),
    }
}

/// The same for every try.
fn body(corp: &CorpApp, event: &OutgoingEvent) -> String {
    let mut data = event.body.clone();
    data["corp_id"] = corp.id.as_str().into();
    json!({"type": event.kind, "timestamp": When(event.at_ms).text(), "data": data}).to_string()
}

fn signature(hook: &Hook, id: &str, now_s: u64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(hook.key.expose_secret())
        .unwrap_or_else(|_| unreachable!("a key of any length is one"));
    mac.update(format!("{id}.{now_s}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's libraries.
    #[test]
    fn signed_as_standard_webhooks_says() {
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let hook = Hook {
            url: "http://h/".to_owned(),
            key: key.into(),
        };
        let signed = signature(
            &hook,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            "{\"test\": 2432232314}",
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
