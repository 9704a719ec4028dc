//! axum's extractors with our error answers: their own rejections are plain text.

use axum::{
    extract::{FromRequest, FromRequestParts, Request, rejection::JsonRejection},
    http::{StatusCode, request::Parts},
};
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// A JSON body. Unknown fields are refused by the types (`deny_unknown_fields`), a NUL anywhere by us: Postgres cannot
/// store it, and dropping it silently would change what the caller sent.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let axum::Json(value) = axum::Json::<serde_json::Value>::from_request(request, state).await.map_err(rejected)?;
        parse(value).map(Self)
    }
}

/// Turns a JSON value into the request's type; errors name the field.
pub(super) fn parse<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, Problem> {
    if let Some(pointer) = find_nul(&value, String::new()) {
        return Err(Problem::field(pointer, "nul_character", "U+0000 cannot be stored; leave it out"));
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let pointer = pointer_of(error.path());
        Problem::field(pointer, "invalid", error.into_inner().to_string())
    })
}

fn pointer_of(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            Segment::Enum { variant } => format!("/{variant}"),
            Segment::Unknown => "/?".to_owned(),
        })
        .collect()
}

fn find_nul(value: &serde_json::Value, at: String) -> Option<String> {
    match value {
        serde_json::Value::String(text) => text.contains('\0').then_some(at),
        serde_json::Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| find_nul(item, format!("{at}/{index}")))
        }
        serde_json::Value::Object(fields) => fields.iter().find_map(|(key, item)| {
            if key.contains('\0') { Some(at.clone()) } else { find_nul(item, format!("{at}/{key}")) }
        }),
        _ => None,
    }
}

fn rejected(rejection: JsonRejection) -> Problem {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "The body is above the limit http.body_limit.")
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "Send the body as JSON with `Content-Type: application/json`.",
        ),
        _ => Problem::bad_request("malformed_json", rejection.body_text()),
    }
}

/// A query string.
#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        axum::extract::Query::<T>::from_request_parts(parts, state)
            .await
            .map(|query| Self(query.0))
            .map_err(|error| Problem::bad_request("invalid_query", error.body_text()))
    }
}

/// Path parameters.
#[derive(Debug)]
pub(super) struct Path<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        axum::extract::Path::<T>::from_request_parts(parts, state)
            .await
            .map(|path| Self(path.0))
            .map_err(|error| Problem::bad_request("invalid_path", error.body_text()))
    }
}
