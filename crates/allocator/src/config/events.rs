//! `[events]`: whom to tell what happens, besides the feed.

use std::collections::HashMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use secrecy::{ExposeSecret, SecretSlice};
use serde::Deserialize;
use settings::{Error, SecretRef};

const URL: &str = "events.url";
const SECRET: &str = "events.secret";
/// As Standard Webhooks writes a key.
const PREFIX: &str = "whsec_";
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Events {
    /// Where events are posted; without it nowhere.
    pub url: Option<String>,
    /// Signs them.
    pub secret: Option<SecretRef>,
}

/// Where events are posted, and what signs them.
#[derive(Debug, Clone)]
pub struct Hook {
    pub url: String,
    pub key: SecretSlice<u8>,
}

impl Events {
    pub fn read(&self, env: &HashMap<String, String>) -> Result<Option<Hook>, Error> {
        let (Some(url), Some(secret)) = (&self.url, &self.secret) else {
            return Ok(None);
        };
        let text = secret.read(SECRET, env)?;
        let key = text.expose_secret().trim().strip_prefix(PREFIX);
        let key = key.and_then(|key| STANDARD.decode(key).ok());
        let key = key.filter(|key| KEY_BYTES.contains(&key.len()));
        let key = key.ok_or_else(|| {
            let problem = "must be whsec_ and 24 to 64 bytes of base64, such as whsec_$(openssl rand -base64 32)";
            Error::new(SECRET, problem)
        })?;
        Ok(Some(Hook {
            url: url.clone(),
            key: key.into(),
        }))
    }

    /// One without the other.
    pub(super) fn conflicts(&self) -> Vec<Error> {
        match (&self.url, &self.secret) {
            (Some(_), None) => {
                let problem = "is missing: events that are posted to events.url are signed, write env:NAME or file:/path";
                vec![Error::new(SECRET, problem)]
            }
            (None, Some(_)) => vec![Error::new(
                URL,
                "is missing: events.secret is for nothing without it",
            )],
            _ => Vec::new(),
        }
    }
}
