//! axum's extractors with our error answers: their own rejections are plain text and speak of Rust's types.

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, RawPathParams, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use serde::de::DeserializeOwned;

use super::{
    problem::{FieldError, Problem},
    tree::{Node, quoted},
};

/// A JSON body. Unknown fields are refused by the types (`deny_unknown_fields`), what no type may have by [`Node::fault`].
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
        let is_json = is_json(request.headers());
        let body = Bytes::from_request(request, state)
            .await
            .map_err(|_| broken())?;
        match (body.is_empty(), is_json) {
            (true, _) => Ok(Self(T::default())),
            (false, true) => parse(&body).map(Self),
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

/// Turns JSON into the request's type; errors name the field.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let node: Node = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| malformed(body, pointer_of(error.path()), error.inner()))?;
    reader
        .end()
        .map_err(|error| malformed(body, String::new(), &error))?;
    if let Some(fault) = node.fault("", in_body) {
        return Err(Problem::fields(vec![fault]));
    }
    read(&node, in_body)
}

fn read<T: DeserializeOwned>(node: &Node, below: fn(&str, &str) -> String) -> Result<T, Problem> {
    super::read::read(node).map_err(|wrong| {
        let pointer = wrong
            .path()
            .fold(String::new(), |at, name| below(&at, name));
        Problem::field(pointer, wrong.code, wrong.message())
    })
}

/// The next step of a JSON pointer.
fn in_body(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// A body that is no JSON is 400. One whose only fault is a word in a field where there should be a value (NaN), or a
/// number beyond all bounds, is a wrong field.
fn malformed(body: &[u8], pointer: String, error: &serde_json::Error) -> Problem {
    if body.trim_ascii().is_empty() {
        return Problem::bad_request("malformed_json", "The body is empty; send JSON.");
    }
    let message = error.to_string();
    if !pointer.is_empty() && message.starts_with("number out of range") {
        return Problem::field(
            pointer,
            "out_of_range",
            "must be a number that can be counted with, up to 1e308",
        );
    }
    if let Some(word) = bare_word(body, error).filter(|_| !pointer.is_empty()) {
        let message = format!("{} is no value in JSON; texts need quotes", quoted(&word));
        return Problem::field(pointer, "malformed_json", message);
    }
    let message = match message.strip_prefix("recursion limit exceeded") {
        Some(place) => format!(
            "lists and objects are nested too deep, at most 127 levels are possible,{place}"
        ),
        None => message,
    };
    let mut problem =
        Problem::bad_request("malformed_json", format!("The body is no JSON: {message}."));
    problem.errors.push(FieldError {
        pointer,
        code: "malformed_json",
        message,
    });
    problem
}

/// The word that is no value at the place of an error.
fn bare_word(body: &[u8], error: &serde_json::Error) -> Option<String> {
    let line = body
        .split(|byte| *byte == b'\n')
        .nth(error.line().checked_sub(1)?)?;
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let before = line.get(..error.column())?.iter().rev();
    let start = error.column() - before.take_while(|byte| is_of_word(byte)).count();
    let word: Vec<u8> = line[start..]
        .iter()
        .copied()
        .take_while(is_of_word)
        .collect();
    let value = line[..start].trim_ascii_end().last();
    let is_one =
        word.iter().any(u8::is_ascii_alphabetic) && value.is_some_and(|byte| b":,[".contains(byte));
    is_one.then(|| String::from_utf8_lossy(&word).into_owned())
}

fn pointer_of(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter()
        .fold(String::new(), |at, segment| match segment {
            Segment::Seq { index } => in_body(&at, &index.to_string()),
            Segment::Map { key } => in_body(&at, key),
            Segment::Enum { variant } => in_body(&at, variant),
            Segment::Unknown => at,
        })
}

/// A query string.
#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let pairs = url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let pairs = pairs.map(|(name, value)| (name.into_owned(), value.into_owned()));
        parameters(pairs, in_query).map(Self)
    }
}

fn in_query(_: &str, name: &str) -> String {
    format!("query:{name}")
}

/// Path parameters.
#[derive(Debug)]
pub(super) struct Path<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| not_utf8("The path"))?;
        let pairs = params
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        parameters(pairs, in_path).map(Self)
    }
}

fn in_path(_: &str, name: &str) -> String {
    format!("path:{name}")
}

fn parameters<T: DeserializeOwned>(
    pairs: impl Iterator<Item = (String, String)>,
    below: fn(&str, &str) -> String,
) -> Result<T, Problem> {
    let mut fields = Vec::new();
    for (name, value) in pairs {
        // The decoder puts this in place of what is not UTF-8.
        if name.contains(char::REPLACEMENT_CHARACTER) || value.contains(char::REPLACEMENT_CHARACTER)
        {
            return Err(not_utf8("The query"));
        }
        fields.push((name, Node::Parameter(value)));
    }
    let node = Node::Object(fields);
    if let Some(fault) = node.fault("", below) {
        return Err(Problem::fields(vec![fault]));
    }
    read(&node, below)
}

pub(super) fn not_utf8(what: &str) -> Problem {
    Problem::bad_request("not_utf8", format!("{what} is not percent-encoded UTF-8."))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::{in_query, parameters, parse};
    use crate::api::problem::Problem;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its reading is of interest")]
    struct Body {
        members: Vec<Item>,
        cap: Option<u64>,
        small: Option<u8>,
        note: Option<String>,
        kind: Option<Kind>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its reading is of interest")]
    struct Item {
        weight: f64,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        OneOf,
        Other,
    }

    fn refused(body: &str) -> Problem {
        parse::<Body>(body.as_bytes()).expect_err(body)
    }

    /// Cases 125, 133.
    #[test]
    fn errors_name_the_field_what_came_and_what_is_accepted() {
        for (body, pointer, code, message) in [
            (
                "[[], 5]",
                "",
                "wrong_type",
                "must be an object with the fields members, cap, small, note, kind, not a list",
            ),
            (
                "null",
                "",
                "wrong_type",
                "must be an object with the fields members, cap, small, note, kind, not null",
            ),
            ("{}", "/members", "missing", "is missing, and must be given"),
            (
                r#"{"members":[{}]}"#,
                "/members/0/weight",
                "missing",
                "is missing, and must be given",
            ),
            (
                r#"{"members":[[1]]}"#,
                "/members/0",
                "wrong_type",
                "must be an object with the field weight, not a list",
            ),
            (
                r#"{"members":[{"weight":1},{"weight":null}]}"#,
                "/members/1/weight",
                "wrong_type",
                "must be a number, not null",
            ),
            (
                r#"{"members":[{"weight":1,"wieght":2}]}"#,
                "/members/0/wieght",
                "unknown_field",
                "is not known; known are weight",
            ),
            (
                r#"{"members":{}}"#,
                "/members",
                "wrong_type",
                "must be a list, not an object",
            ),
            (
                r#"{"members":[],"cap":"50"}"#,
                "/cap",
                "wrong_type",
                "must be a whole number, 0 or more, not the text \"50\"",
            ),
            (
                r#"{"members":[],"cap":-1}"#,
                "/cap",
                "wrong_type",
                "must be a whole number, 0 or more, not -1",
            ),
            (
                r#"{"members":[],"cap":1e30}"#,
                "/cap",
                "wrong_type",
                "must be a whole number below 2^64, not 1e+30",
            ),
            (
                r#"{"members":[],"cap":1.5}"#,
                "/cap",
                "wrong_type",
                "must be a whole number, 0 or more, not 1.5",
            ),
            (
                r#"{"members":[],"small":256}"#,
                "/small",
                "wrong_type",
                "must be a whole number from 0 to 255, not 256",
            ),
            (
                r#"{"members":[],"note":5}"#,
                "/note",
                "wrong_type",
                "must be a text, not 5",
            ),
            (
                r#"{"members":[],"kind":"OneOf"}"#,
                "/kind",
                "not_one_of",
                "must be one of one_of, other, not the text \"OneOf\"",
            ),
            (
                r#"{"members":[],"kind":{"one_of":null}}"#,
                "/kind",
                "not_one_of",
                "must be one of one_of, other, not an object",
            ),
            (
                r#"{"members":[],"a/b~c":1}"#,
                "/a~1b~0c",
                "unknown_field",
                "is not known; known are members, cap, small, note, kind",
            ),
            (
                r#"{"members":[],"members":[]}"#,
                "/members",
                "duplicate_field",
                "is given more than once; give it once",
            ),
            (
                r#"{"members":[{"weight":1,"weight":1}]}"#,
                "/members/0/weight",
                "duplicate_field",
                "is given more than once; give it once",
            ),
            (
                "{\"members\":[],\"note\":\"a\\u0000b\"}",
                "/note",
                "nul_character",
                "has the character U+0000, which cannot be stored; leave it out",
            ),
            (
                r#"{"members":[{"weight":NaN}]}"#,
                "/members/0/weight",
                "malformed_json",
                "\"NaN\" is no value in JSON; texts need quotes",
            ),
            (
                r#"{"members":[{"weight": -Infinity }]}"#,
                "/members/0/weight",
                "malformed_json",
                "\"-Infinity\" is no value in JSON; texts need quotes",
            ),
            (
                r#"{"members":[{"weight":1e999}]}"#,
                "/members/0/weight",
                "out_of_range",
                "must be a number that can be counted with, up to 1e308",
            ),
        ] {
            let problem = refused(body);
            assert_eq!(problem.status, 422, "{body}: {problem:?}");
            let error = &problem.errors[0];
            assert_eq!(
                (error.pointer.as_str(), error.code, error.message.as_str()),
                (pointer, code, message),
                "{body}"
            );
            let place = if pointer.is_empty() {
                "The body"
            } else {
                pointer
            };
            assert_eq!(problem.detail, format!("{place}: {message}"), "{body}");
        }
    }

    #[test]
    fn what_is_no_json_is_400() {
        let deep = "[".repeat(100_000);
        let deep_within = format!("{{\"members\":{}", "[".repeat(500));
        for body in [
            "",
            " ",
            "rubbish",
            "{",
            r#"{"members":["#,
            r#"{"members":[]} x"#,
            r#"{"members":[]"#,
            "{members:[]}",
            r#"{"members":[{weight:1}]}"#,
            r#"{"members":[],}"#,
            r#"{"note":,"members":[]}"#,
            r#"{"note":"a"#,
            "\u{feff}{}",
            &deep,
            &deep_within,
        ] {
            let problem = refused(body);
            let short: String = body.chars().take(40).collect();
            assert_eq!(
                (problem.status, problem.code),
                (400, "malformed_json"),
                "{short}: {problem:?}"
            );
            assert!(
                problem.detail.starts_with("The body is "),
                "{short}: {}",
                problem.detail
            );
        }
    }

    #[derive(Debug, PartialEq, Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        limit: Option<u64>,
        #[serde(default)]
        dry_run: bool,
        text: Option<String>,
    }

    #[test]
    fn parameters_are_read_as_fields_are() {
        let ask = |query: &str| {
            let pairs = url::form_urlencoded::parse(query.as_bytes()).into_owned();
            parameters::<Asked>(pairs, in_query)
        };
        let all = ask("limit=7&dry_run=true&text=a%20b+c").unwrap();
        assert_eq!(
            (all.limit, all.dry_run, all.text.as_deref()),
            (Some(7), true, Some("a b c"))
        );
        assert_eq!(ask("").unwrap(), Asked::default());
        assert_eq!(ask("text=5").unwrap().text.as_deref(), Some("5"));
        for (query, pointer, message) in [
            (
                "limit=-1",
                "query:limit",
                "must be a whole number, 0 or more, not \"-1\"",
            ),
            (
                "limit=",
                "query:limit",
                "must be a whole number, 0 or more, not \"\"",
            ),
            (
                "dry_run=yes",
                "query:dry_run",
                "must be true or false, not \"yes\"",
            ),
            (
                "limt=5",
                "query:limt",
                "is not known; known are limit, dry_run, text",
            ),
            (
                "limit=5&limit=6",
                "query:limit",
                "is given more than once; give it once",
            ),
            (
                "text=%00",
                "query:text",
                "has the character U+0000, which cannot be stored; leave it out",
            ),
        ] {
            let problem = ask(query).unwrap_err();
            assert_eq!(problem.status, 422, "{query}");
            assert_eq!(
                (
                    problem.errors[0].pointer.as_str(),
                    problem.errors[0].message.as_str()
                ),
                (pointer, message)
            );
        }
        assert_eq!(ask("text=%ff").unwrap_err().code, "not_utf8");
    }
}
