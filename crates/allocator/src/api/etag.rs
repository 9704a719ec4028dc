//! Versions as ETags: `"7"`. `If-Match` and `If-None-Match` make a write conditional on what the caller saw.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use ledger::{Deleted, Precondition, Put};
use serde::Serialize;
use serde_json::json;

use super::problem::Problem;

/// The condition in a request's headers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition(pub(super) Precondition);

impl<S: Send + Sync> FromRequestParts<S> for Condition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        read(&parts.headers).map(Self)
    }
}

fn read(headers: &HeaderMap) -> Result<Precondition, Problem> {
    let wrong = |name: HeaderName, fix: &str| {
        Problem::bad_request("invalid_precondition", format!("{name}: {fix}"))
    };
    match (
        headers.get(header::IF_MATCH),
        headers.get(header::IF_NONE_MATCH),
    ) {
        (None, None) => Ok(Precondition::None),
        (None, Some(value)) if value == "*" => Ok(Precondition::Absent),
        (None, Some(_)) => Err(wrong(
            header::IF_NONE_MATCH,
            "only * is possible here: make it only if it is new",
        )),
        (Some(value), None) if value == "*" => Ok(Precondition::Present),
        (Some(value), None) => {
            let version = value
                .to_str()
                .ok()
                .and_then(|text| text.strip_prefix('"')?.strip_suffix('"')?.parse().ok());
            version.map(Precondition::Version).ok_or_else(|| {
                wrong(
                    header::IF_MATCH,
                    "send the ETag of the last answer as it was, for example \"7\", or *",
                )
            })
        }
        (Some(_), Some(_)) => Err(wrong(
            header::IF_MATCH,
            "send it or If-None-Match, not both",
        )),
    }
}

/// An answer with its version.
#[derive(Debug)]
pub(super) struct Versioned<T> {
    pub(super) status: StatusCode,
    pub(super) version: u64,
    pub(super) body: T,
}

impl<T> Versioned<T> {
    pub(super) fn ok(version: u64, body: T) -> Self {
        Self {
            status: StatusCode::OK,
            version,
            body,
        }
    }

    pub(super) fn created(version: u64, body: T) -> Self {
        Self {
            status: StatusCode::CREATED,
            version,
            body,
        }
    }
}

impl<T: Serialize> IntoResponse for Versioned<T> {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body)).into_response();
        if let Ok(tag) = HeaderValue::try_from(format!("\"{}\"", self.version)) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}

/// What a PUT came to, as an answer: 201 if it made something, 412 if the condition did not hold.
pub(super) fn put<T: Into<V>, V, R>(
    put: Put<T, R>,
    version: fn(&T) -> u64,
    refused: impl FnOnce(R) -> Problem,
) -> Result<Versioned<V>, Problem> {
    match put {
        Put::Created(row) => Ok(Versioned::created(version(&row), row.into())),
        Put::Changed(row) | Put::Same(row) => Ok(Versioned::ok(version(&row), row.into())),
        Put::Stale(row) => Err(stale(row.as_ref().map(version))),
        Put::Refused(why) => Err(refused(why)),
    }
}

/// The same for a DELETE of a `what`.
pub(super) fn deleted<T, R>(
    deleted: Deleted<T, R>,
    what: &'static str,
    version: fn(&T) -> u64,
    refused: impl FnOnce(R) -> Problem,
) -> Result<StatusCode, Problem> {
    match deleted {
        Deleted::Deleted(_) => Ok(StatusCode::NO_CONTENT),
        Deleted::Absent => Err(Problem::not_found(what)),
        Deleted::Stale(row) => Err(stale(Some(version(&row)))),
        Deleted::Refused(why) => Err(refused(why)),
    }
}

/// The condition does not hold; `version` is what is there.
pub(super) fn stale(version: Option<u64>) -> Problem {
    let detail = match version {
        Some(version) => format!(
            "It is at version {version} now. Read it again and repeat your change with its ETag."
        ),
        None => "It is not there (any more). Without If-Match it is made anew.".to_owned(),
    };
    Problem::new(
        StatusCode::PRECONDITION_FAILED,
        "precondition_failed",
        detail,
    )
    .with_current(json!({"etag": version.map(|version| format!("\"{version}\""))}))
}

#[cfg(test)]
mod tests {
    use super::{Precondition, header, read};

    #[test]
    fn what_the_headers_ask_for() {
        let read = |name: header::HeaderName, value: &'static str| {
            read(&[(name, value.parse().unwrap())].into_iter().collect())
        };
        assert_eq!(
            read(header::IF_MATCH, "\"7\"").unwrap(),
            Precondition::Version(7)
        );
        assert_eq!(read(header::IF_MATCH, "*").unwrap(), Precondition::Present);
        assert_eq!(
            read(header::IF_NONE_MATCH, "*").unwrap(),
            Precondition::Absent
        );
        for (name, value) in [
            (header::IF_MATCH, "7"),
            (header::IF_MATCH, "W/\"7\""),
            (header::IF_NONE_MATCH, "\"7\""),
        ] {
            assert_eq!(
                read(name, value).unwrap_err().code,
                "invalid_precondition",
                "{value}"
            );
        }
    }
}
