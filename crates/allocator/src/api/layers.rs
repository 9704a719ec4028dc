//! Around every route, from outside in: the request's id and its log line, compression, panics, the time limit, the
//! body limit.

use std::{
    any::Any,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;
use metrics::histogram;
use tower_http::{catch_panic::CatchPanicLayer, compression::CompressionLayer};

use super::{Api, problem::Problem};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST_ID: usize = 128;
/// How long a refused sender is still listened to.
const DRAIN: Duration = Duration::from_secs(10);

tokio::task_local! {
    static CURRENT: String;
}

/// The id of the request that this task answers.
pub(super) fn request_id() -> Option<String> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Runs `work` for the present request in another task.
pub(super) fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    CURRENT.scope(request_id().unwrap_or_default(), work)
}

pub(super) fn around(routes: Router, api: &Api) -> Router {
    routes
        .fallback(async || Problem::not_found("route"))
        .method_not_allowed_fallback(async || {
            let detail = "The route has no such method; /docs shows which.";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
        })
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(api.clone(), limit_body))
        .layer(from_fn_with_state(api.clone(), limit_time))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(CompressionLayer::new())
        .layer(from_fn(identify))
}

async fn identify(mut request: Request, next: Next) -> Response {
    let id = request
        .headers()
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|id| is_id(id))
        .map_or_else(|| uuid::Uuid::now_v7().to_string(), str::to_owned);
    let begun = Instant::now();
    // The template, not the path: that may name a customer.
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("none", MatchedPath::as_str)
        .to_owned();
    let method = request.method().clone();
    let value = HeaderValue::try_from(&id).unwrap_or(HeaderValue::from_static("invalid"));
    request.headers_mut().insert(REQUEST_ID, value.clone());
    let mut response = CURRENT.scope(id.clone(), next.run(request)).await;
    response.headers_mut().insert(REQUEST_ID, value);
    let status = response.status().as_u16();
    let seconds = begun.elapsed().as_secs_f64();
    tracing::debug!(request_id = id, %method, route, status, seconds, "answered");
    histogram!("paidan_http_seconds", "method" => method.to_string(), "route" => route, "status" => status.to_string())
        .record(seconds);
    response
}

/// Letters, digits and a few signs: it goes into logs and answers.
fn is_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= LONGEST_ID
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
}

fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    let cause = std::io::Error::other(format!("panic: {text}"));
    Problem::internal(&cause).into_response()
}

async fn limit_time(State(api): State<Api>, request: Request, next: Next) -> Response {
    let limit = Duration::from_millis(api.app.config.http.timeout_ms);
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let detail = "It took longer than http.timeout_ms. It may have had its effect: repeat it with the same Idempotency-Key.";
            Problem::unavailable("timeout", detail, 1).into_response()
        }
    }
}

/// Reads the whole body, at most the limit, so that what follows has it in hand.
async fn limit_body(State(api): State<Api>, request: Request, next: Next) -> Response {
    let limit = api.app.config.http.body_limit;
    let (parts, body) = request.into_parts();
    let announced = parts
        .headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        drain(&parts.headers, body);
        return too_large(limit).into_response();
    }
    match read(body, limit).await {
        Read::Whole(bytes) => {
            next.run(Request::from_parts(parts, Body::from(bytes)))
                .await
        }
        Read::TooLarge(rest) => {
            drain(&parts.headers, rest);
            too_large(limit).into_response()
        }
        Read::Broken => {
            Problem::bad_request("broken_body", "The body could not be read to its end.")
                .into_response()
        }
    }
}

enum Read {
    Whole(Bytes),
    TooLarge(Body),
    Broken,
}

async fn read(body: Body, limit: usize) -> Read {
    let mut stream = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(part) = stream.next().await {
        let Ok(part) = part else { return Read::Broken };
        if whole.len() + part.len() > limit {
            return Read::TooLarge(Body::from_stream(stream));
        }
        whole.extend_from_slice(&part);
    }
    Read::Whole(whole.into())
}

fn too_large(limit: usize) -> Problem {
    let detail = format!("The body is above the limit of {limit} bytes (http.body_limit).");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
}

/// Listens to a refused sender for a while: closing at once would reset the connection, and the answer could be lost.
fn drain(headers: &HeaderMap, body: Body) {
    if headers.contains_key(header::EXPECT) {
        return;
    }
    let rest = async move {
        let mut stream = body.into_data_stream();
        while let Some(Ok(_)) = stream.next().await {}
    };
    drop(tokio::spawn(tokio::time::timeout(DRAIN, rest)));
}
