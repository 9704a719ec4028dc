//! From the bytes of a body, or the parameters of a path or query, to a request's type, and what is wrong with them.

use serde::de::DeserializeOwned;

use super::{
    problem::{FieldError, Problem},
    read,
    tree::{Node, quoted},
};

/// Turns JSON into the request's type; errors name the field.
pub(super) fn body<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let node: Node = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| malformed(body, pointer_of(error.path()), error.inner()))?;
    reader
        .end()
        .map_err(|error| malformed(body, String::new(), &error))?;
    if let Some(fault) = node.fault("", in_body) {
        return Err(Problem::fields(vec![fault]));
    }
    typed(&node, in_body)
}

/// The parameters of a query.
pub(super) fn query<T: DeserializeOwned>(
    pairs: impl Iterator<Item = (String, String)>,
) -> Result<T, Problem> {
    parameters(pairs, in_query)
}

/// The parameters of a path.
pub(super) fn path<T: DeserializeOwned>(
    pairs: impl Iterator<Item = (String, String)>,
) -> Result<T, Problem> {
    parameters(pairs, in_path)
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
    typed(&node, below)
}

pub(super) fn not_utf8(what: &str) -> Problem {
    Problem::bad_request("not_utf8", format!("{what} is not percent-encoded UTF-8."))
}

fn typed<T: DeserializeOwned>(node: &Node, below: fn(&str, &str) -> String) -> Result<T, Problem> {
    read::read(node).map_err(|wrong| {
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

fn in_query(_: &str, name: &str) -> String {
    format!("query:{name}")
}

fn in_path(_: &str, name: &str) -> String {
    format!("path:{name}")
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

#[cfg(test)]
mod tests;
