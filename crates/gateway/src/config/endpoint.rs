//! One `[endpoints.<id>]` table.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, IntoDeserializer, MapAccess, SeqAccess, Visitor},
};

use super::{Error, SecretRef, sources};

/// A callback URL: `/callback/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointConfig {
    /// Whose inbox the callbacks go to.
    pub corp_id: String,
    #[serde(default)]
    pub kind: Kind,
    /// For people and metrics; WeCom signs no agent id.
    #[serde(default)]
    pub agent_id: Option<u64>,
    /// Whom a callback may be meant for. Absent: the corp, for an app.
    #[serde(default, deserialize_with = "some_list")]
    pub receive_ids: Option<Vec<String>>,
    /// One or two, newest first.
    #[serde(deserialize_with = "list")]
    pub keys: Vec<KeyPair>,
}

/// What was entered in WeCom's console for the URL.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyPair {
    pub token: SecretRef,
    pub aes_key: SecretRef,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Self-built or provider-operated.
    #[default]
    App,
    /// A third-party app's URL.
    Suite,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Suite => "suite",
        }
    }
}

pub(super) fn parse(id: &str, value: config::Value) -> Result<EndpointConfig, Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if id.is_empty() || id.len() > 64 || !id.chars().all(plain) {
        return Err(Error::new(
            "",
            "the name must have 1 to 64 letters, digits, - or _: it is part of the URL",
        ));
    }
    let endpoint = EndpointConfig::deserialize(value).map_err(sources::describe)?;
    let corp_id = &endpoint.corp_id;
    if corp_id.is_empty() || corp_id.len() > 64 || !corp_id.chars().all(plain) {
        return Err(Error::new(
            "corp_id",
            "must be the corp's id, such as ww0123456789abcdef",
        ));
    }
    if !(1..=2).contains(&endpoint.keys.len()) {
        return Err(Error::new(
            "keys",
            "must have one or two entries, newest first",
        ));
    }
    match &endpoint.receive_ids {
        Some(ids) if ids.is_empty() => Err(Error::new(
            "receive_ids",
            "must name at least one id (\"\" is one)",
        )),
        None if endpoint.kind == Kind::Suite => Err(Error::new(
            "receive_ids",
            "must be given for a suite: the provider's corp id and the suite id",
        )),
        _ => Ok(endpoint),
    }
}

fn some_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    list(deserializer).map(Some)
}

/// A list. The environment has none: there it is a table with the keys 0 and 1, or, for text, one text with commas.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(ListVisitor(PhantomData))
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut items = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let index: usize = key
                .parse()
                .map_err(|_| de::Error::custom("must be a list"))?;
            items.insert(index, map.next_value()?);
        }
        Ok(items.into_values().collect())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        text.split(',')
            .map(|item| T::deserialize(item.trim().into_deserializer()))
            .collect()
    }
}
