//! The fixture files, and one path through the library from request to event.

use serde_json::Value;
use wecom::crypto::{KeyError, Keys, OpenError, Receiver};
use wecom::envelope::{self, EnvelopeError, Query, QueryError};

pub(crate) fn read(name: &str) -> Value {
    let path = format!("{}/../../tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key]
        .as_str()
        .unwrap_or_else(|| panic!("no text {key} in {value}"))
}

pub(crate) fn receiver(config: &Value) -> Result<Receiver, KeyError> {
    let keys = Keys::parse(text(config, "token"), text(config, "encoding_aes_key"))?;
    Receiver::new(vec![keys], vec![text(config, "receive_id").to_owned()])
}

/// Where a request was refused.
#[derive(Debug, PartialEq)]
pub(crate) enum Refused {
    Query(QueryError),
    Envelope(EnvelopeError),
    Open(OpenError),
}

/// What a gateway does with a POST.
pub(crate) fn post(receiver: &Receiver, raw_query: &str, body: &[u8]) -> Result<String, Refused> {
    let query = Query::parse(raw_query).map_err(Refused::Query)?;
    let envelope = envelope::parse(body).map_err(Refused::Envelope)?;
    let opened = receiver
        .open(&query, &envelope.encrypt)
        .map_err(Refused::Open)?;
    Ok(opened.plaintext)
}

/// What a gateway does with a GET.
pub(crate) fn get(receiver: &Receiver, raw_query: &str) -> Result<Vec<u8>, Refused> {
    let query = Query::parse_verification(raw_query).map_err(Refused::Query)?;
    receiver.verify_url(&query).map_err(Refused::Open)
}
