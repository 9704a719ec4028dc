//! Around every route, from outside in: headers and the log line, panics, the client's limit.

use std::{net::SocketAddr, time::Instant};

use axum::{
    Router,
    extract::{ConnectInfo, MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use metrics::{counter, histogram};
use tower_http::{catch_panic::CatchPanicLayer, compression::CompressionLayer};

use super::{
    Site, client, pages,
    render::{self, Asked},
    states::Status,
};

/// On everything, unless the answer has its own.
const HEADERS: [(HeaderName, HeaderValue); 8] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; base-uri 'none'; frame-ancestors 'none'"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    ),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("x-robots-tag"),
        HeaderValue::from_static("noindex, nofollow"),
    ),
];

pub(super) fn around(routes: Router<Site>, site: &Site) -> Router<Site> {
    routes
        .fallback(async |asked: Asked| render::unknown(&asked))
        .method_not_allowed_fallback(async |asked: Asked| render::wrong_method(&asked))
        .layer(from_fn_with_state(site.clone(), limit))
        .layer(CatchPanicLayer::custom(|_| {
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }))
        .layer(CompressionLayer::new())
        .layer(from_fn_with_state(site.clone(), finish))
}

async fn finish(State(site): State<Site>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let asked = Asked::new(request.uri(), request.headers());
    // The template, not the path: that has a channel's code.
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("none", MatchedPath::as_str)
        .to_owned();
    let mut response = next.run(request).await;
    let status = response.status();
    if status == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::error!(route, "a page broke");
        response = render::broken(&asked);
    }
    response = render::with_cookie(response, asked.cookie(site.secure));
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(value);
    }
    let seconds = begun.elapsed().as_secs_f64();
    tracing::debug!(route, status = status.as_u16(), seconds, "answered");
    histogram!("paidan_public_seconds", "route" => route, "status" => status.as_str().to_owned())
        .record(seconds);
    response
}

async fn limit(
    State(site): State<Site>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    asked: Asked,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if path == super::LIVEZ {
        return next.run(request).await;
    }
    let client = client::address(peer, request.headers(), &site.trusted);
    let Err(seconds) = site.limits.take(client).await else {
        return next.run(request).await;
    };
    counter!("paidan_public_limited_total").increment(1);
    if path.ends_with("/status") {
        let mut away = Status::away();
        away.refresh_s = Some(seconds.max(away.refresh_s.unwrap_or_default()));
        return pages::told(StatusCode::TOO_MANY_REQUESTS, away);
    }
    render::limited(&asked, seconds)
}
