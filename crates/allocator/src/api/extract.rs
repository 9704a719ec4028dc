//! axum's extractors with our error answers: their own rejections are plain text and speak of Rust's types.

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, RawPathParams, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use serde::de::DeserializeOwned;

use super::{parse, problem::Problem};

/// A JSON body. Unknown fields are refused by the types (`deny_unknown_fields`), what no type may have by [`super::tree`].
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = body(request, state).await?;
        parse::body(&body).map(Self)
    }
}

/// A JSON body that may be left out.
#[derive(Debug)]
pub(super) struct MaybeJson<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for MaybeJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let is_json = is_json(request.headers());
        let body = Bytes::from_request(request, state)
            .await
            .map_err(|_| broken())?;
        match (body.is_empty(), is_json) {
            (true, _) => Ok(Self(T::default())),
            (false, true) => parse::body(&body).map(Self),
            (false, false) => Err(not_json()),
        }
    }
}

async fn body<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    if !is_json(request.headers()) {
        return Err(not_json());
    }
    // `layers` has read it, within the limit.
    Bytes::from_request(request, state)
        .await
        .map_err(|_| broken())
}

fn broken() -> Problem {
    Problem::bad_request("broken_body", "The body could not be read to its end.")
}

fn not_json() -> Problem {
    Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "not_json",
        "Send the body as JSON with `Content-Type: application/json`.",
    )
}

fn is_json(headers: &HeaderMap) -> bool {
    let media = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media = media
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"))
}

/// A query string.
#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let pairs = url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let pairs = pairs.map(|(name, value)| (name.into_owned(), value.into_owned()));
        parse::query(pairs).map(Self)
    }
}

/// Path parameters.
#[derive(Debug)]
pub(super) struct Path<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| parse::not_utf8("The path"))?;
        let pairs = params
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        parse::path(pairs).map(Self)
    }
}
