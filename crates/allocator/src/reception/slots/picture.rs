//! Pictures of made ways, fetched once from wherever WeCom keeps them. Our pages show them from our own origin, so what
//! comes is bounded in size and time and is a plain picture: no page, and nothing with scripts in it.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use ledger::{Refusal, Unpictured};
use metrics::counter;
use reqwest::{Client, Url, header::CONTENT_TYPE, redirect};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Error, adopt, verdict};
use crate::app::{App, CorpApp};

/// Fetched at once; the host of the pictures has no quota that we know.
const AT_ONCE: usize = 4;
const BATCH: u32 = 32;
/// A batch of fetches that all time out, and some waiting.
const LEASE_MS: u64 = 60_000;
const LIMIT: Duration = Duration::from_secs(5);
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
const REDIRECTS: usize = 3;
const MOST_BYTES: usize = 512 * 1024;
/// Vector pictures can hold scripts.
const TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// After every so many fetches in vain WeCom is asked where the picture is now.
const ASK_ANEW_AFTER: i32 = 3;
/// Between looks for new ways while others are made.
const LOOK: Duration = Duration::from_millis(100);

/// A client that knows no token and sends nothing of ours.
pub(crate) fn http() -> Result<Client, reqwest::Error> {
    Client::builder()
        .redirect(redirect::Policy::limited(REDIRECTS))
        .referer(false)
        .connect_timeout(CONNECT_LIMIT)
        .timeout(LIMIT)
        .build()
}

/// Fetches what is due, and what is made meanwhile: until all is made (`asked`) and fetched, or the turn is over.
pub(super) async fn run(
    app: &App,
    corp: &CorpApp,
    http: &Client,
    asked: &CancellationToken,
    until: Instant,
    stop: &CancellationToken,
) -> Result<(), Error> {
    while !stop.is_cancelled() && Instant::now() < until {
        let last = asked.is_cancelled();
        let ways = app.ledger.contact_ways();
        let due = ways
            .unpictured(&corp.id, BATCH, LEASE_MS, app.now_ms())
            .await?;
        if due.is_empty() {
            if last {
                break;
            }
            crate::backoff::sleep(LOOK, stop).await;
            continue;
        }
        stream::iter(due)
            .map(|one| fill(app, corp, http, one))
            .buffer_unordered(AT_ONCE)
            .collect::<Vec<Result<(), Error>>>()
            .await
            .into_iter()
            .collect::<Result<(), Error>>()?;
    }
    Ok(())
}

async fn fill(app: &App, corp: &CorpApp, http: &Client, one: Unpictured) -> Result<(), Error> {
    let ways = app.ledger.contact_ways();
    let mut url = one.qr_code.clone();
    if url.is_none() || one.tries % (ASK_ANEW_AFTER + 1) == 0 {
        match adopt::read(app, corp, &one.config_id).await {
            Ok(Some(way)) => url = way.qr_code.or(url),
            Ok(None) => return remake(app, corp, &one).await,
            Err(until_ms) if url.is_none() => {
                let wait = Refusal {
                    error: "where its picture is cannot be asked".to_owned(),
                    next_try_ms: until_ms,
                    ..Refusal::default()
                };
                return Ok(ways.not_pictured(&corp.id, &one.way, &wait, false).await?);
            }
            Err(_) => {}
        }
    }
    let problem = match fetch(http, url.as_deref().unwrap_or_default()).await {
        Ok((bytes, content_type)) => {
            count(corp, "stored");
            let url = url.unwrap_or_default();
            ways.pictured(&corp.id, &one.way, &url, &bytes, content_type, app.now_ms())
                .await?;
            return Ok(());
        }
        Err(problem) => problem,
    };
    let base = Refusal {
        error: format!("picture: {problem}"),
        ..Refusal::default()
    };
    let refusal = verdict::later(base, one.tries, false, &app.config.visits, app.now_ms());
    count(corp, if refusal.fails { "failed" } else { "again" });
    tracing::warn!(corp = %corp.id, way = one.way, problem, given_up = refusal.fails, "the picture of a contact way cannot be fetched");
    Ok(ways
        .not_pictured(&corp.id, &one.way, &refusal, false)
        .await?)
}

/// Somebody deleted it at WeCom before anybody saw it.
async fn remake(app: &App, corp: &CorpApp, one: &Unpictured) -> Result<(), Error> {
    let wanted = Refusal {
        error: "deleted at WeCom by somebody else".to_owned(),
        next_try_ms: app.now_ms(),
        ..Refusal::default()
    };
    let ways = app.ledger.contact_ways();
    Ok(ways.not_pictured(&corp.id, &one.way, &wanted, true).await?)
}

/// Err: why not, in words for people.
pub(crate) async fn fetch(http: &Client, url: &str) -> Result<(Vec<u8>, &'static str), String> {
    let url = Url::parse(url).map_err(|_| "its address is none".to_owned())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("its address is {}:", url.scheme()));
    }
    let wrong = |error: reqwest::Error| error.without_url().to_string();
    let mut answer = http.get(url).send().await.map_err(wrong)?;
    if !answer.status().is_success() {
        return Err(format!("the answer is {}", answer.status()));
    }
    let content_type = answer.headers().get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let essence = content_type.unwrap_or_default().split(';').next();
    let essence = essence.unwrap_or_default().trim().to_ascii_lowercase();
    let Some(known) = TYPES.into_iter().find(|one| *one == essence) else {
        return Err("it is no png, jpeg, gif or webp".to_owned());
    };
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(wrong)? {
        if bytes.len() + chunk.len() > MOST_BYTES {
            return Err(format!("it has more than {MOST_BYTES} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
    if bytes.is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok((bytes, known))
}

fn count(corp: &CorpApp, outcome: &'static str) {
    counter!("paidan_slots_pictures_total", "corp" => corp.id.to_string(), "outcome" => outcome)
        .increment(1);
}

#[cfg(test)]
mod tests {
    use axum::{Router, response::Redirect, routing::get};

    use super::*;

    async fn host() -> String {
        let typed = |content_type: &'static str, bytes: Vec<u8>| {
            get(move || async move { ([(CONTENT_TYPE, content_type)], bytes) })
        };
        let to = |place: &'static str| get(move || async move { Redirect::temporary(place) });
        let router = Router::new()
            .route("/png", typed("IMAGE/PNG; charset=x", b"png".to_vec()))
            .route("/most", typed("image/jpeg", vec![1; MOST_BYTES]))
            .route("/large", typed("image/png", vec![1; MOST_BYTES + 1]))
            .route("/page", typed("text/html", b"<html>".to_vec()))
            .route("/script", typed("image/svg+xml", b"<svg/>".to_vec()))
            .route("/empty", typed("image/png", Vec::new()))
            .route("/moved", to("/png"))
            .route("/circle", to("/circle"));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        host
    }

    #[tokio::test]
    async fn only_plain_pictures_of_a_decent_size() {
        let (host, http) = (host().await, http().unwrap());
        let at = async |path: &str| fetch(&http, &format!("{host}{path}")).await;
        let png = (b"png".to_vec(), "image/png");
        assert_eq!(at("/png").await, Ok(png.clone()));
        assert_eq!(at("/moved").await, Ok(png));
        assert_eq!(at("/most").await.unwrap().0.len(), MOST_BYTES);
        for (path, why) in [
            ("/large", "more than"),
            ("/page", "no png"),
            ("/script", "no png"),
            ("/empty", "empty"),
            ("/circle", "redirect"),
            ("/nothing", "404"),
        ] {
            let problem = at(path).await.unwrap_err();
            assert!(problem.contains(why), "{path}: {problem}");
        }
        for url in [
            "",
            "nonsense",
            "file:///etc/passwd",
            "data:image/png;base64,AA==",
        ] {
            assert!(fetch(&http, url).await.is_err(), "{url}");
        }
        let nobody = fetch(&http, "http://127.0.0.1:9/qr.png").await;
        assert!(!nobody.unwrap_err().contains("127.0.0.1"));
    }
}
