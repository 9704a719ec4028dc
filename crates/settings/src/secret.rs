//! Where a secret is. The value itself is read when it is needed, and again at every reload.

use std::{collections::HashMap, path::PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use crate::Error;

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
    /// The secret of `key`. `env` is the environment as the program found it. Blanks and line ends around it, as editors
    /// leave them, do not count.
    pub fn read(&self, key: &str, env: &HashMap<String, String>) -> Result<SecretString, Error> {
        let value = match self {
            Self::Env(name) => env.get(name).cloned().ok_or_else(|| {
                let problem =
                    format!("the environment variable {name} is not set: set it, or name another");
                Error::new(key, problem)
            }),
            Self::File(path) => std::fs::read_to_string(path).map_err(|error| {
                let problem = format!(
                    "{} cannot be read: {error}; make it readable for this user, or name another",
                    path.display()
                );
                Error::new(key, problem)
            }),
        }?;
        let value = value.trim();
        if value.is_empty() {
            let problem = match self {
                Self::Env(name) => format!("the environment variable {name} is empty"),
                Self::File(path) => format!("{} is empty", path.display()),
            };
            return Err(Error::new(key, problem));
        }
        Ok(SecretString::from(value))
    }
}

/// A value that may be given as it is, because it need not hold a secret, or as a reference.
pub fn resolve(
    value: &SecretString,
    key: &str,
    env: &HashMap<String, String>,
) -> Result<SecretString, Error> {
    let text = value.expose_secret();
    if text.starts_with("env:") || text.starts_with("file:") {
        return SecretRef::try_from(text.to_owned())
            .map_err(|problem| Error::new(key, problem))?
            .read(key, env);
    }
    Ok(value.clone())
}

/// What [`has_query`] is refused with.
pub const NO_QUERY: &str = "must have nothing behind ? or #: it would be passed over, and shown even if it is a password; \
                            write user and password as in redis://user:password@host:6379, with %3F for ? and %23 for #";

/// Whether an address, or one of several, has a part behind `?` or `#`. Only what stands before the host is known to be
/// secret.
pub fn has_query(urls: &SecretString) -> bool {
    urls.expose_secret().contains(['?', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_where_it_is_or_the_place_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| format!("file:{}", dir.path().join(name).display());
        for (name, text) in [("good", "hush\r\n"), ("blank", " \n")] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let env = [("GOOD", " hush "), ("BLANK", "")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let env = HashMap::from(env);
        let read = |reference: &str| {
            let reference = SecretRef::try_from(reference.to_owned()).unwrap();
            reference.read("app.secret", &env)
        };
        for reference in ["env:GOOD", &file("good")] {
            assert_eq!(read(reference).unwrap().expose_secret(), "hush");
        }
        for (reference, place) in [
            ("env:BLANK", "BLANK is empty"),
            ("env:NONE", "NONE is not set"),
            (&file("blank"), "blank is empty"),
            (&file("none"), "none cannot be read"),
        ] {
            let error = read(reference).unwrap_err();
            assert_eq!(error.key, "app.secret");
            assert!(error.problem.contains(place), "{error}");
        }
        for wrong in ["hush", "env:", "file:relative", ""] {
            let error = SecretRef::try_from(wrong.to_owned()).unwrap_err();
            assert!(error.contains("env:NAME"), "{error}");
        }
    }
}
