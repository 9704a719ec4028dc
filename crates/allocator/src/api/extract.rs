//! axum's extractors with our error answers: their own rejections are plain text.

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use serde::de::DeserializeOwned;

use super::problem::{FieldError, Problem};

/// A JSON body. Unknown fields are refused by the types (`deny_unknown_fields`), a NUL anywhere by us: Postgres cannot
/// store it, and dropping it silently would change what the caller sent.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = body(request, state).await?;
        parse(&body).map(Self)
    }
}

/// A JSON body that may be left out.
#[derive(Debug)]
pub(super) struct MaybeJson<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for MaybeJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if request.headers().contains_key(header::CONTENT_TYPE) {
            return Json::from_request(request, state)
                .await
                .map(|json| Self(json.0));
        }
        let body = Bytes::from_request(request, state)
            .await
            .map_err(|_| broken())?;
        if body.is_empty() {
            Ok(Self(T::default()))
        } else {
            Err(not_json())
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

/// Turns JSON into the request's type; errors name the field.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value: serde_json::Value =
        serde_path_to_error::deserialize(&mut reader).map_err(|error| malformed(&error))?;
    reader
        .end()
        .map_err(|error| Problem::bad_request("malformed_json", error.to_string()))?;
    if let Some(pointer) = find_nul(&value, String::new()) {
        return Err(Problem::field(
            pointer,
            "nul_character",
            "U+0000 cannot be stored; leave it out",
        ));
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let pointer = pointer_of(error.path());
        Problem::field(pointer, "invalid", error.into_inner().to_string())
    })
}

/// A body that is no JSON is 400; a value in it that is none (NaN) is a wrong field.
fn malformed(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let (pointer, message) = (pointer_of(error.path()), error.inner().to_string());
    let in_a_field = !pointer.is_empty() && error.inner().is_syntax();
    if in_a_field {
        return Problem::field(pointer, "malformed_json", message);
    }
    let mut problem = Problem::bad_request("malformed_json", message.clone());
    problem.errors.push(FieldError {
        pointer,
        code: "malformed_json",
        message,
    });
    problem
}

fn pointer_of(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter()
        .filter_map(|segment| match segment {
            Segment::Seq { index } => Some(format!("/{index}")),
            Segment::Map { key } => Some(format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
            Segment::Enum { variant } => Some(format!("/{variant}")),
            Segment::Unknown => None,
        })
        .collect()
}

fn find_nul(value: &serde_json::Value, at: String) -> Option<String> {
    match value {
        serde_json::Value::String(text) => text.contains('\0').then_some(at),
        serde_json::Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| find_nul(item, format!("{at}/{index}"))),
        serde_json::Value::Object(fields) => fields.iter().find_map(|(key, item)| {
            if key.contains('\0') {
                Some(at.clone())
            } else {
                find_nul(item, format!("{at}/{key}"))
            }
        }),
        _ => None,
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
            .map_err(|error| {
                // "Failed to deserialize query string: limit: invalid digit found in string"
                let text = error.body_text();
                let text = text
                    .strip_prefix("Failed to deserialize query string: ")
                    .unwrap_or(&text);
                match text.split_once(": ") {
                    Some((name, message)) => Problem::parameter(name, "invalid", message),
                    None => Problem::parameter("", "invalid", text),
                }
            })
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

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::parse;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[expect(dead_code, reason = "only its reading is of interest")]
        members: Vec<Item>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Item {
        #[expect(dead_code, reason = "only its reading is of interest")]
        weight: f64,
    }

    /// Cases 125, 133.
    #[test]
    fn errors_name_the_field() {
        for (body, status, pointer) in [
            (
                r#"{"members":[{"weight":1},{"weight":null}]}"#,
                422,
                "/members/1/weight",
            ),
            (r#"{"members":[{"weight":NaN}]}"#, 422, "/members/0/weight"),
            (
                r#"{"members":[{"weight":1,"wieght":2}]}"#,
                422,
                "/members/0/wieght",
            ),
            ("{\"members\":[],\"note\":\"a\\u0000b\"}", 422, "/note"),
            (r#"{"members":["#, 400, "/members"),
            ("rubbish", 400, ""),
        ] {
            let problem = parse::<Body>(body.as_bytes()).unwrap_err();
            assert_eq!(problem.status, status, "{body}: {problem:?}");
            assert_eq!(problem.errors[0].pointer, pointer, "{body}: {problem:?}");
        }
    }

    #[test]
    fn something_after_the_body_is_refused() {
        assert_eq!(
            parse::<Body>(br#"{"members":[]} x"#).unwrap_err().status,
            400
        );
    }
}
