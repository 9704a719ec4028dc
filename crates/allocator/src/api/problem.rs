//! The only type that becomes a REST error: `application/problem+json` (RFC 9457) with a stable `code`, a public `detail`
//! and, for bad input, one entry per field. The private cause is logged once, here.

use std::ops::{Deref, DerefMut};

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::history;

/// When to try again after a store was away, seconds.
const RETRY_S: u32 = 2;

/// One wrong field of a request.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct FieldError {
    /// JSON pointer of the field, for example `/members/0/weight`, empty for the whole body; `query:<name>` and
    /// `path:<name>` of a parameter.
    pub pointer: String,
    /// Stable code, for example `out_of_range`.
    pub code: &'static str,
    /// What is wrong and what would be right.
    pub message: String,
}

/// An error answer. Behind a pointer, so that results stay small.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Problem(Box<Details>);

impl Deref for Problem {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl DerefMut for Problem {
    fn deref_mut(&mut self) -> &mut Details {
        &mut self.0
    }
}

/// What an error answer says.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct Details {
    /// A URI reference that names the kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: &'static str,
    pub status: u16,
    /// What happened and what to do about it.
    pub detail: String,
    /// Stable, lower-case; programs decide by it.
    pub code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The current state of what the request collided with, for example the present owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<serde_json::Value>,
    #[serde(skip)]
    pub retry_after_s: Option<u32>,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self(Box::new(Details {
            kind: format!("/problems/{code}"),
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            code,
            request_id: super::layers::request_id(),
            errors: Vec::new(),
            current: None,
            retry_after_s: None,
        }))
    }

    pub fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "Send a valid API key as `Authorization: Bearer …`. `allocator key create` makes one.",
        )
    }

    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    pub fn not_found(what: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("There is no such {what}."),
        )
    }

    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// One wrong field. For several, see [`Problem::fields`].
    pub fn field(
        pointer: impl Into<String>,
        code: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self::fields(vec![FieldError {
            pointer: pointer.into(),
            code,
            message: message.into(),
        }])
    }

    /// A query parameter that is wrong.
    pub fn parameter(name: &str, code: &'static str, message: impl Into<String>) -> Self {
        Self::field(format!("query:{name}"), code, message)
    }

    pub fn cursor() -> Self {
        Self::parameter(
            "cursor",
            "invalid_cursor",
            "must be `next` or `prev` of a page of this list; leave it out to begin",
        )
    }

    pub fn fields(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [one] => format!("{}: {}", place(&one.pointer), one.message),
            many => format!("{} fields are wrong; see errors.", many.len()),
        };
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail);
        problem.errors = errors;
        problem
    }

    /// A store or WeCom cannot be asked now; the caller may try again.
    pub fn unavailable(code: &'static str, detail: impl Into<String>, retry_after_s: u32) -> Self {
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail);
        problem.retry_after_s = Some(retry_after_s);
        problem
    }

    /// Our fault. The cause is logged, the caller learns only that.
    pub fn internal(cause: &dyn std::error::Error) -> Self {
        tracing::error!(error = %chain(cause), "request failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "Something failed on our side; the log names it by request_id.",
        )
    }

    fn store(name: &str, cause: &dyn std::error::Error) -> Self {
        tracing::warn!(error = %chain(cause), "a store is away");
        let detail = format!("{name} cannot be asked now. Try again.");
        Self::unavailable("store_unavailable", detail, RETRY_S)
    }

    #[must_use]
    pub fn with_current(mut self, current: serde_json::Value) -> Self {
        self.current = Some(current);
        self
    }

    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }
}

/// A pointer in words.
fn place(pointer: &str) -> String {
    match pointer.split_once(':') {
        _ if pointer.is_empty() => "The body".to_owned(),
        Some(("query", name)) => format!("The query parameter {name}"),
        Some(("path", name)) => format!("{name} in the path"),
        _ => pointer.to_owned(),
    }
}

/// A store that is away is not the caller's fault, nor ours: he may try again.
impl From<ledger::Error> for Problem {
    fn from(error: ledger::Error) -> Self {
        match error {
            ledger::Error::Cursor => Self::cursor(),
            passing if passing.is_passing() => Self::store("Postgres", &passing),
            other => Self::internal(&other),
        }
    }
}

impl From<roster::Error> for Problem {
    fn from(error: roster::Error) -> Self {
        match error {
            roster::Error::NotReady | roster::Error::Stale => Self::unavailable(
                "not_ready",
                "The corp's working state is being rebuilt. Nothing is lost; try again.",
                RETRY_S,
            ),
            roster::Error::Redis(_) => Self::store("Redis", &error),
            other => Self::internal(&other),
        }
    }
}

impl From<inbox::Error> for Problem {
    fn from(error: inbox::Error) -> Self {
        if error.is_passing() {
            Self::store("Redis", &error)
        } else {
            Self::internal(&error)
        }
    }
}

impl From<quota::Error> for Problem {
    fn from(error: quota::Error) -> Self {
        match error {
            quota::Error::Closed => roster::Error::NotReady.into(),
            quota::Error::Redis(_) => Self::store("Redis", &error),
            other => Self::internal(&other),
        }
    }
}

/// What was asked about the past cannot be told from the log, or not now.
impl From<history::Error> for Problem {
    fn from(error: history::Error) -> Self {
        match error {
            history::Error::Ledger(error) => error.into(),
            history::Error::Busy => Self::unavailable(
                "busy",
                "Other questions about the past are being answered. Try again.",
                2,
            ),
            history::Error::TooMany {
                from,
                entries,
                most,
            } => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "too_many_entries",
                format!(
                    "It needs {entries} entries of the log, from {from} on; at most {most} are folded for one question. Ask about a shorter or later span."
                ),
            ),
            history::Error::Incomplete { seq, problem } => {
                tracing::warn!(seq, problem, "the log cannot be folded for a question");
                Self::conflict(
                    "log_incomplete",
                    format!(
                        "The log cannot be folded past entry {seq}: it is missing, damaged or not what the rules give. What was decided after it cannot be explained from here."
                    ),
                )
                .with_current(serde_json::json!({"seq": seq}))
            }
            error @ history::Error::Stopped(_) => Self::internal(&error),
        }
    }
}

/// The error and its sources in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_client_error() {
            tracing::debug!(status = self.status, code = self.code, "request refused");
        }
        let retry_after = self.retry_after_s;
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
