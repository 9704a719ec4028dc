//! Where a secret is. The value itself is read when an endpoint is built, and again at every reload.

use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::Sources;

/// `env:NAME` or `file:/path`. A secret in plain text is refused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum SecretRef {
    Env(String),
    File(PathBuf),
}

impl TryFrom<String> for SecretRef {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match (text.strip_prefix("env:"), text.strip_prefix("file:")) {
            (Some(name), _) if !name.is_empty() => Ok(Self::Env(name.to_owned())),
            (_, Some(path)) if path.starts_with('/') => Ok(Self::File(path.into())),
            _ => Err("must be written as env:NAME or file:/path, never as the value itself"),
        }
    }
}

impl SecretRef {
    /// The secret, or what is wrong, without the key's name. Files may end with a newline, as editors leave it.
    pub fn read(&self, sources: &Sources) -> Result<SecretString, String> {
        match self {
            Self::Env(name) => match sources.env.get(name) {
                Some(value) => Ok(SecretString::from(value.as_str())),
                None => Err(format!("the environment variable {name} is not set")),
            },
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => Ok(SecretString::from(text.trim_end_matches(['\r', '\n']))),
                Err(error) => Err(format!("cannot read {}: {error}", path.display())),
            },
        }
    }
}

/// A value that may be given as it is, because it need not hold a secret, or as a reference.
pub(super) fn resolve(value: &SecretString, sources: &Sources) -> Result<SecretString, String> {
    let text = value.expose_secret();
    if text.starts_with("env:") || text.starts_with("file:") {
        return SecretRef::try_from(text.to_owned())?.read(sources);
    }
    Ok(value.clone())
}
