//! Where configuration comes from, and how the layers are laid over each other.

use std::{collections::HashMap, path::PathBuf};

use config::{ConfigError, Environment, File, FileFormat, Map};

use crate::Error;

/// Files and environment, as the caller found them. Secrets are looked up in the same environment.
#[derive(Clone, Default)]
pub struct Sources {
    /// Later files win.
    pub files: Vec<PathBuf>,
    /// `PAIDAN__…` are settings; any other name may be meant by `env:NAME`.
    pub env: HashMap<String, String>,
}

impl Sources {
    /// `defaults`, then the files in order, then `PAIDAN__…` of the environment.
    pub fn merge(&self, defaults: &str) -> Result<config::Config, Error> {
        let mut builder =
            config::Config::builder().add_source(File::from_str(defaults, FileFormat::Toml));
        for file in &self.files {
            let at = |problem: String| Error::new(file.display().to_string(), problem);
            // Read here, so that an unreadable file is named and a syntax error shows no line of it.
            let text = std::fs::read_to_string(file)
                .map_err(|error| at(format!("cannot be read: {error}")))?;
            let layer = File::from_str(&text, FileFormat::Toml);
            config::Config::builder()
                .add_source(layer.clone())
                .build()
                .map_err(|error| at(syntax(&error, &text)))?;
            builder = builder.add_source(layer);
        }
        let settings: Map<String, String> = self
            .env
            .iter()
            .filter(|(name, _)| name.starts_with("PAIDAN__"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let environment = Environment::with_prefix("PAIDAN")
            .prefix_separator("__")
            .separator("__")
            .try_parsing(true)
            .source(Some(settings));
        builder.add_source(environment).build().map_err(describe)
    }
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// Key and problem, without the value that was found: it may be a secret in the wrong place.
pub fn describe(error: ConfigError) -> Error {
    match error {
        ConfigError::NotFound(key) => Error::new(key, "is missing"),
        ConfigError::Type { expected, key, .. } => {
            Error::new(key.unwrap_or_default(), format!("must be {expected}"))
        }
        ConfigError::At { error, key, .. } => {
            let inner = describe(*error);
            let outer = dotted(&key.unwrap_or_default());
            if inner.key.is_empty() {
                Error {
                    key: outer,
                    ..inner
                }
            } else {
                inner.under(&outer)
            }
        }
        ConfigError::Message(text) => Error::new("", without_value(text)),
        other => Error::new("", without_value(other.to_string())),
    }
}

/// `config` leaves the dot behind the place in a list out.
fn dotted(key: &str) -> String {
    key.replace(']', "].")
        .replace("..", ".")
        .replace(".[", "[")
        .trim_end_matches('.')
        .to_owned()
}

/// serde's own messages repeat what they found, all but the name of a field, which is a key.
fn without_value(text: String) -> String {
    match text.split_once(", expected ") {
        Some((found, expected)) if !found.starts_with("unknown field") => {
            format!("must be {expected}")
        }
        _ => text,
    }
}

/// TOML's own message quotes the line, which may hold a secret: place and reason only.
fn syntax(error: &ConfigError, text: &str) -> String {
    let message = error.to_string();
    match located(&message) {
        Some((place, reason)) => format!("is not TOML: {place}: {reason}"),
        None => format!(
            "is not TOML: line {}: {}",
            line_of(&message, text),
            message.trim().replace("target type", "64 bits")
        ),
    }
}

/// `TOML parse error at line 1, column 5`, three lines with the quoted one and a mark below it, then the reason.
fn located(message: &str) -> Option<(&str, String)> {
    let mut lines = message.lines();
    let place = lines.next()?.strip_prefix("TOML parse error at ")?;
    let reason: Vec<&str> = lines.skip(3).map(str::trim).collect();
    Some((place, reason.join(" ").trim().to_owned()))
}

/// Of a number that does not fit nobody says the place: it is in the last line of the shortest beginning of the text
/// that is refused for the same reason.
fn line_of(message: &str, text: &str) -> usize {
    let mut beginning = String::new();
    let mut number = 0;
    for line in text.split_inclusive('\n') {
        beginning.push_str(line);
        number += 1;
        let layer = File::from_str(&beginning, FileFormat::Toml);
        let read = config::Config::builder().add_source(layer).build();
        if read.is_err_and(|error| error.to_string() == message) {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{Sources, dotted};

    #[test]
    fn a_syntax_error_has_a_place_and_a_reason_and_no_value() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        for (text, expected) in [
            (
                "a = 1\npassword = hush\n",
                "is not TOML: line 2, column 12: ",
            ),
            ("a = 'hush\n", "is not TOML: line 1, column "),
            (
                "hush = 1\nhush = 2\n",
                "is not TOML: line 2, column 1: duplicate key",
            ),
            (
                "a = 1\n[hush]\nb = 99999999999999999999\nc = 'hush'\n",
                "is not TOML: line 3: number too large to fit in 64 bits",
            ),
            (
                "a = [\n1,\n99999999999999999999,\n]\n",
                "is not TOML: line 4: number too large to fit in 64 bits",
            ),
            (
                "a = 1e999",
                "is not TOML: line 1: floating-point number overflowed",
            ),
        ] {
            std::fs::write(&file, text).unwrap();
            let sources = Sources {
                files: vec![file.clone()],
                env: HashMap::new(),
            };
            let problem = sources.merge("").unwrap_err().problem;
            let reason = problem.rsplit(": ").next().unwrap();
            assert!(problem.starts_with(expected), "{text}: {problem}");
            assert!(reason.len() > 4 && !problem.contains("hush"), "{problem}");
        }
    }

    #[test]
    fn a_path_has_a_dot_behind_a_place() {
        for (key, expected) in [
            ("keys[0]token", "keys[0].token"),
            ("keys[0].token", "keys[0].token"),
            ("a[0][1]b", "a[0][1].b"),
            ("a[0]", "a[0]"),
            ("a.b", "a.b"),
        ] {
            assert_eq!(dotted(key), expected);
        }
    }
}
