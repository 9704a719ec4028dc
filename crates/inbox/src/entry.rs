//! Stream entries as Redis answers them, decoded without copying their texts.

use redis::Value;

use crate::{Delivery, DeliveryId, EntryId, Error, Group};

/// One entry: its id and its fields.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: EntryId,
    fields: Vec<Value>,
}

/// What an entry is for a reader.
#[derive(Debug)]
pub(crate) enum Read {
    Delivery(Delivery),
    /// Replayed for the other group only.
    ForOthers(EntryId),
    /// Not written by us: it can only become a dead letter.
    Malformed(EntryId),
}

impl Entry {
    pub(crate) fn from_value(value: Value) -> Result<Entry, Error> {
        let mut parts = array(value)?.into_iter();
        let (Some(id), Some(fields), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(Error::Answer("an entry that is no pair"));
        };
        let id = text(id)?
            .parse()
            .map_err(|_| Error::Answer("an entry without an id"))?;
        let fields = match fields {
            Value::Map(pairs) => pairs.into_iter().flat_map(|(k, v)| [k, v]).collect(),
            other => array(other)?,
        };
        Ok(Entry { id, fields })
    }

    /// The value of a field, moved out.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let pair = self
            .fields
            .chunks_exact_mut(2)
            .find(|pair| matches!(&pair[0], Value::BulkString(key) if key == name.as_bytes()))?;
        text(std::mem::replace(&mut pair[1], Value::Nil)).ok()
    }

    pub(crate) fn read(mut self, group: Group, tries: u32, again: bool) -> Read {
        let only = self.take("g");
        if only.is_some_and(|only| only != group.as_str()) {
            return Read::ForOthers(self.id);
        }
        let parts = (self.take("e"), self.take("t"), self.take("x"));
        let (Some(endpoint), Some(received), Some(plaintext)) = parts else {
            return Read::Malformed(self.id);
        };
        let Ok(received_ms) = received.parse() else {
            return Read::Malformed(self.id);
        };
        Read::Delivery(Delivery {
            entry: self.id,
            // Not stored: it is a function of the two, and 34 bytes an entry.
            id: DeliveryId::of(&endpoint, &plaintext),
            endpoint,
            received_ms,
            plaintext,
            tries,
            again,
        })
    }
}

pub(crate) fn array(value: Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Nil => Ok(Vec::new()),
        _ => Err(Error::Answer("not a list")),
    }
}

pub(crate) fn text(value: Value) -> Result<String, Error> {
    match value {
        Value::BulkString(bytes) => {
            String::from_utf8(bytes).map_err(|_| Error::Answer("text that is not UTF-8"))
        }
        Value::SimpleString(text) => Ok(text),
        Value::Int(number) => Ok(number.to_string()),
        _ => Err(Error::Answer("not a text")),
    }
}

pub(crate) fn number(value: Value) -> Result<u64, Error> {
    match value {
        Value::Int(number) => u64::try_from(number).ok(),
        other => text(other)?.parse().ok(),
    }
    .ok_or(Error::Answer("not a number"))
}

/// The answer of a script: a word, then the rest.
pub(crate) fn word(value: Value) -> Result<(String, std::vec::IntoIter<Value>), Error> {
    let mut items = array(value)?.into_iter();
    let word = text(items.next().ok_or(Error::Answer("an empty answer"))?)?;
    Ok((word, items))
}

pub(crate) fn next(items: &mut std::vec::IntoIter<Value>) -> Result<Value, Error> {
    items
        .next()
        .ok_or(Error::Answer("an answer that is too short"))
}

/// Scripts take "" for "ask Redis".
pub(crate) fn clock(now_ms: Option<u64>) -> String {
    now_ms.map_or_else(String::new, |now_ms| now_ms.to_string())
}
