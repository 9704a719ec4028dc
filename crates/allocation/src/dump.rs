//! A corp's whole state as keys and values, exactly as Redis holds it, without the corp's prefix.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::REQUEST_MEMORY_MS;
use crate::error::Error;
use crate::text::FIELD;

/// One value as Redis holds it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bytes(Vec<u8>),
    /// A sorted set in its order: by score, then by bytes.
    Sorted(Vec<(Vec<u8>, f64)>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
}

/// All roster keys of a corp but the log, `ready` and the mark of a rebuild under way: those say how good this copy
/// is, not what the state is. Two dumps are equal when Redis' bytes are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dump {
    pub keys: BTreeMap<String, Value>,
}

#[derive(Serialize, Deserialize)]
enum Plain {
    #[serde(rename = "s")]
    Bytes(String),
    /// Scores as text: JSON readers do not agree on the last bit of a number.
    #[serde(rename = "z")]
    Sorted(Vec<(String, String)>),
    #[serde(rename = "h")]
    Hash(BTreeMap<String, String>),
}

impl Dump {
    /// Leaves out remembered requests that nobody can be told any more: Redis deletes them a little later, when it
    /// likes.
    pub fn without_old_requests(mut self) -> Self {
        let Some(Value::Bytes(corp)) = self.keys.get("corp") else {
            return self;
        };
        let at = corp.get(8..16).and_then(|bytes| bytes.try_into().ok());
        let at_ms = at.map_or(0.0, f64::from_le_bytes) as u64;
        self.keys.retain(|key, value| match value {
            Value::Bytes(bytes) if key.starts_with("request:") => {
                let text = String::from_utf8_lossy(bytes);
                let asked = text
                    .split(FIELD)
                    .next()
                    .and_then(|at| at.parse::<u64>().ok());
                asked.is_some_and(|asked| asked + REQUEST_MEMORY_MS > at_ms)
            }
            _ => true,
        });
        self
    }

    /// For snapshots; byte strings are hex.
    pub fn to_json(&self) -> String {
        let plain: BTreeMap<&str, Plain> = self
            .keys
            .iter()
            .map(|(key, value)| {
                let plain = match value {
                    Value::Bytes(bytes) => Plain::Bytes(hex::encode(bytes)),
                    Value::Sorted(entries) => Plain::Sorted(
                        entries
                            .iter()
                            .map(|(member, score)| (hex::encode(member), format!("{score:?}")))
                            .collect(),
                    ),
                    Value::Hash(fields) => {
                        let fields = fields.iter();
                        let fields =
                            fields.map(|(field, value)| (hex::encode(field), hex::encode(value)));
                        Plain::Hash(fields.collect())
                    }
                };
                (key.as_str(), plain)
            })
            .collect();
        serde_json::to_string(&plain).unwrap_or_default()
    }

    pub fn from_json(json: &str) -> Result<Self, Error> {
        let unreadable = |problem: String| Error::unreadable("dump", problem);
        let bytes = |text: &str| hex::decode(text).map_err(|error| unreadable(error.to_string()));
        let plain: BTreeMap<String, Plain> =
            serde_json::from_str(json).map_err(|error| unreadable(error.to_string()))?;
        let mut keys = BTreeMap::new();
        for (key, value) in plain {
            let value = match value {
                Plain::Bytes(text) => Value::Bytes(bytes(&text)?),
                Plain::Sorted(entries) => {
                    let mut sorted = Vec::with_capacity(entries.len());
                    for (member, score) in entries {
                        let score = score.parse().map_err(|_| unreadable(score.clone()))?;
                        sorted.push((bytes(&member)?, score));
                    }
                    Value::Sorted(sorted)
                }
                Plain::Hash(fields) => {
                    let mut hash = BTreeMap::new();
                    for (field, value) in fields {
                        hash.insert(bytes(&field)?, bytes(&value)?);
                    }
                    Value::Hash(hash)
                }
            };
            keys.insert(key, value);
        }
        Ok(Self { keys })
    }
}
