//! One `[endpoints.<id>]` table.

use serde::{Deserialize, Deserializer};

use super::{Error, SecretRef};

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
    #[serde(deserialize_with = "settings::list")]
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

/// A table whose values are right one by one.
pub(super) fn parse(value: settings::Value) -> Result<EndpointConfig, Error> {
    let endpoint = EndpointConfig::deserialize(value).map_err(settings::describe)?;
    if endpoint.kind == Kind::Suite && endpoint.receive_ids.is_none() {
        return Err(Error::new(
            "receive_ids",
            "is missing: a suite needs the provider's corp id and the suite id",
        ));
    }
    Ok(endpoint)
}

fn some_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    settings::list(deserializer).map(Some)
}
