//! `Idempotency-Key` on POST: the first request with a key runs, the same one later gets the same answer with
//! `Idempotent-Replayed: true`, another one with that key is refused (422), and while the first runs the second is
//! asked to come again (409). What runs is not stopped when its caller hangs up: he may ask for its answer.

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use ledger::{Begun, IdempotencyKey, KeptAnswer};
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{Api, access::Ctx, layers, problem::Problem};
use crate::app::App;

pub(super) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Beyond the time limit of a request, so that a lease ends only after its holder did.
const LEASE_BEYOND_MS: u64 = 5_000;
/// Headers that belong to an answer.
const KEPT: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::LOCATION,
    header::ETAG,
    header::RETRY_AFTER,
];
/// Answers above this are not kept; none of ours is.
const LARGEST: usize = 4 << 20;

/// The key of a request, if it has one.
pub(super) fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(KEY) else {
        return Ok(None);
    };
    let text = value
        .to_str()
        .ok()
        .filter(|text| (1..=255).contains(&text.len()));
    let text = text.filter(|text| !text.contains(['{', '}']) && text.trim() == *text);
    text.map(|text| Some(text.to_owned())).ok_or_else(|| {
        Problem::bad_request(
            "invalid_idempotency_key",
            "Idempotency-Key: 1 to 255 visible ASCII characters, no braces.",
        )
    })
}

pub(super) async fn answer_again(State(api): State<Api>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    match run(&api, request, next).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn run(api: &Api, request: Request, next: Next) -> Result<Response, Problem> {
    let Some(text) = key(request.headers())? else {
        return Ok(next.run(request).await);
    };
    let (mut parts, body) = request.into_parts();
    let ctx = Ctx::of(api, &mut parts).await?;
    let body = to_bytes(body, usize::MAX)
        .await
        .map_err(|error| Problem::internal(&error))?;
    let mut hash = Sha256::new();
    for part in [
        parts.method.as_str(),
        parts.uri.path(),
        parts.uri.query().unwrap_or_default(),
    ] {
        hash.update(part);
        hash.update([0]);
    }
    hash.update(&body);
    let key = IdempotencyKey {
        corp: ctx.id().clone(),
        caller: ctx.key,
        key: text,
        request: hash.finalize().into(),
    };
    let now_ms = api.app.now_ms();
    let lease_ms = api.app.config.http.timeout_ms + LEASE_BEYOND_MS;
    match api
        .app
        .ledger
        .idempotency()
        .begin(&key, lease_ms, now_ms)
        .await?
    {
        Begun::Answered(answer) => Ok(replayed(answer)),
        Begun::Other => Err(other_request()),
        Begun::Running { until_ms } => {
            let seconds = until_ms.saturating_sub(now_ms).div_ceil(1000).clamp(1, 60);
            let detail =
                "The first request with this Idempotency-Key still runs. Ask again for its answer.";
            let problem = Problem::conflict("still_running", detail);
            Err(problem.with_retry_after(u32::try_from(seconds).unwrap_or(1)))
        }
        Begun::Run(claim) => {
            let request = Request::from_parts(parts, Body::from(body));
            let app = std::sync::Arc::clone(&api.app);
            // In a task of its own: a caller who hangs up does not stop it half-way.
            let task = tokio::spawn(layers::carried(async move {
                let response = next.run(request).await;
                keep(&app, &key, claim, response).await
            }));
            task.await.map_err(|error| Problem::internal(&error))
        }
    }
}

pub(super) fn other_request() -> Problem {
    let detail =
        "This Idempotency-Key was used for another request. Choose a new one for each request.";
    Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "idempotency_key_reused",
        detail,
    )
}

/// Keeps the answer if it is one for good; otherwise the key may be tried again at once.
async fn keep(app: &App, key: &IdempotencyKey, claim: Uuid, response: Response) -> Response {
    let table = app.ledger.idempotency();
    let status = response.status();
    let for_good = status.is_success() || (status.is_client_error() && !is_passing(status));
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, LARGEST).await.unwrap_or_default();
    let kept = match (for_good, std::str::from_utf8(&body)) {
        (true, Ok(text)) => {
            let answer = KeptAnswer {
                status: status.as_u16(),
                body: text.to_owned(),
                headers: headers(&parts.headers),
            };
            table.finish(key, claim, &answer).await.map(drop)
        }
        _ => table.give_up(key, claim).await,
    };
    if let Err(error) = kept {
        tracing::warn!(error = %error, "an answer was not kept; its key is free again when the lease ends");
    }
    Response::from_parts(parts, Body::from(body))
}

fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
    )
}

fn headers(headers: &HeaderMap) -> Value {
    let kept = KEPT.iter().filter_map(|name| {
        let value = headers.get(name)?.to_str().ok()?;
        Some((name.as_str().to_owned(), Value::from(value)))
    });
    Value::Object(kept.collect())
}

fn replayed(answer: KeptAnswer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Bytes::from(answer.body)).into_response();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    for (name, value) in answer.headers.as_object().into_iter().flatten() {
        let value = value
            .as_str()
            .and_then(|value| HeaderValue::try_from(value).ok());
        if let (Ok(name), Some(value)) = (HeaderName::try_from(name), value) {
            headers.insert(name, value);
        }
    }
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    response
}
