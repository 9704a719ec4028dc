//! A corp's whole state as keys and values, exactly as Redis holds it, without the corp's prefix.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// One value as Redis holds it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bytes(Vec<u8>),
    /// A sorted set in its order: by score, then by bytes.
    Sorted(Vec<(Vec<u8>, f64)>),
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
}

impl Dump {
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
            };
            keys.insert(key, value);
        }
        Ok(Self { keys })
    }
}
