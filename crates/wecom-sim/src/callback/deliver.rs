//! Sealing and posting: 5 s, up to 3 retries, each with a new nonce; and the GET that verifies a URL.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use wecom::crypto::Sealed;
use wecom::envelope;

use crate::admin::Verified;
use crate::config::CallbackRules;
use crate::random::{For, Random};
use crate::world::{App, AppDef, World};

use super::{Outbound, count};

/// Delivers what is queued, so many at a time.
pub(crate) async fn run(world: Arc<World>) {
    let Some(mut waiting) = world.callbacks.waiting.lock().take() else {
        return;
    };
    let connections = Arc::new(Semaphore::new(world.callbacks.connections));
    loop {
        let outbound = tokio::select! {
            outbound = waiting.recv() => outbound,
            () = world.stop.cancelled() => return,
        };
        let Some(outbound) = outbound else { return };
        let permit = tokio::select! {
            permit = Arc::clone(&connections).acquire_owned() => permit,
            () = world.stop.cancelled() => return,
        };
        let world = Arc::clone(&world);
        world.tasks.clone().spawn(async move {
            let stop = world.stop.clone();
            tokio::select! {
                () = deliver(&world, &outbound) => {}
                () = stop.cancelled() => {}
            }
            world.callbacks.done();
            drop(permit);
        });
    }
}

async fn deliver(world: &Arc<World>, outbound: &Outbound) {
    let rules = world.rules.get();
    let rules = &rules.callbacks;
    let counts = &world.callbacks.counts;
    let app = &outbound.app;
    if world.now_ms() < app.dropping_until_ms.load(Ordering::Acquire) {
        count(&counts.dropped);
        return;
    }
    for delivery in 0..=rules.retries {
        if delivery > 0 {
            count(&counts.retried);
            if rules.retry_pause_ms > 0 {
                tokio::time::sleep(Duration::from_millis(rules.retry_pause_ms)).await;
            }
        }
        count(&counts.sent);
        match post(world, outbound, rules).await {
            Some(200) => {
                count(&counts.acked);
                app.failed_in_a_row.store(0, Ordering::Release);
                return;
            }
            Some(_) if !rules.retry_on_status => break,
            Some(_) | None => {}
        }
    }
    count(&counts.failed);
    let in_a_row = app.failed_in_a_row.fetch_add(1, Ordering::AcqRel) + 1;
    if rules.give_up.after > 0 && in_a_row >= rules.give_up.after {
        app.dropping_until_ms
            .store(world.now_ms() + rules.give_up.for_ms, Ordering::Release);
        app.failed_in_a_row.store(0, Ordering::Release);
    }
}

/// One POST: its status, or nothing when none came in time.
async fn post(world: &World, outbound: &Outbound, rules: &CallbackRules) -> Option<u16> {
    let app = &outbound.app;
    let def = app.def.get();
    let urls = &def.config.callback.as_ref()?.urls;
    let turn = app.turn.fetch_add(1, Ordering::Relaxed);
    let url = urls.get((turn % urls.len().max(1) as u64) as usize)?;
    let sealed = seal(world, &def, &outbound.plaintext)?;
    let agent_id = outbound.names_app.then(|| app.agent_id.to_string());
    let body = envelope::callback_body(&outbound.corp.id, agent_id.as_deref(), &sealed.encrypt);
    let started = Instant::now();
    let answer = world
        .callbacks
        .client(url)
        .post(with_query(url, &sealed.query()))
        .header("content-type", "text/xml; charset=utf-8")
        .timeout(Duration::from_millis(rules.timeout_ms))
        .body(body)
        .send()
        .await
        .ok()?;
    let status = answer.status().as_u16();
    // Read to its end, or the connection could not be kept.
    answer.bytes().await.ok()?;
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    world
        .callbacks
        .counts
        .slowest_ms
        .fetch_max(took_ms, Ordering::Relaxed);
    Some(status)
}

fn seal(world: &World, def: &AppDef, plaintext: &str) -> Option<Sealed> {
    let mut random = world.random(For::Seal, world.number());
    let timestamp = world.now_ms().div_euclid(1_000).to_string();
    let nonce = (1_000_000_000 + random.below(9_000_000_000)).to_string();
    Some(
        def.sealer
            .as_ref()?
            .seal(plaintext, &timestamp, &nonce, random.bytes16()),
    )
}

fn with_query(url: &str, query: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}{query}")
}

/// Verifies every callback URL of an app by GET, as when its form is saved in the console.
pub(crate) async fn verify(world: &World, app: &App) -> Vec<Verified> {
    let def = app.def.get();
    let timeout = Duration::from_millis(world.rules.get().callbacks.verify_timeout_ms);
    let mut results = Vec::new();
    for url in def
        .config
        .callback
        .iter()
        .flat_map(|callback| &callback.urls)
    {
        let mut random: Random = world.random(For::Seal, world.number());
        // Official samples are 19 digits.
        let echo =
            (1_000_000_000_000_000_000 + random.below(8_000_000_000_000_000_000)).to_string();
        let Some(sealed) = seal(world, &def, &echo) else {
            continue;
        };
        let answer = world
            .callbacks
            .client(url)
            .get(with_query(url, &sealed.verification_query()))
            .timeout(timeout)
            .send()
            .await;
        let (ok, status, detail) = match answer {
            Ok(answer) => {
                let status = answer.status().as_u16();
                match answer.bytes().await {
                    Ok(body) if status == 200 && body == echo.as_bytes() => {
                        (true, Some(status), "verified".to_owned())
                    }
                    Ok(_) if status != 200 => (
                        false,
                        Some(status),
                        format!("answered {status} instead of 200"),
                    ),
                    Ok(body) => {
                        let detail = format!(
                            "the body is not the decrypted echostr ({} bytes, {} expected)",
                            body.len(),
                            echo.len()
                        );
                        (false, Some(status), detail)
                    }
                    Err(_) => (
                        false,
                        Some(status),
                        "the body did not come in time".to_owned(),
                    ),
                }
            }
            Err(error) if error.is_timeout() => (
                false,
                None,
                format!("no answer within {} ms", timeout.as_millis()),
            ),
            Err(_) => (false, None, "could not connect".to_owned()),
        };
        results.push(Verified {
            agent_id: app.agent_id,
            url: url.clone(),
            ok,
            status,
            detail,
        });
    }
    results
}
