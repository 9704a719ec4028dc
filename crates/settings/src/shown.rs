//! The configuration as text for people, without its secrets.

use config::{Value, ValueKind};

/// A key with one of these words in its name is a secret, unless it only says where the secret is.
const SECRET_WORDS: [&str; 4] = ["password", "secret", "token", "aes_key"];
/// A value in an error is cut after so many characters.
const SHORT: usize = 60;

/// A line for each key, in order.
pub fn shown(merged: &config::Config) -> String {
    let mut text = String::new();
    lines("", "", &merged.cache, &mut text);
    text
}

/// `parent.name`, the name quoted as TOML wants it.
pub fn join(parent: &str, name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        format!("{name:?}")
    };
    if parent.is_empty() {
        name
    } else {
        format!("{parent}.{name}")
    }
}

/// A value for an error; `None` for what may be a secret.
pub(crate) fn short(name: &str, value: &Value) -> Option<String> {
    if is_secret(name) {
        return None;
    }
    let text = match &value.kind {
        ValueKind::String(text) => format!("{:?}", safe(name, text)),
        ValueKind::Nil => return None,
        ValueKind::Table(_) => "a table".to_owned(),
        ValueKind::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(|item| short(name, item)).collect();
            format!("[{}]", items?.join(", "))
        }
        _ => value.to_string(),
    };
    if text.chars().count() <= SHORT {
        return Some(text);
    }
    let start: String = text.chars().take(SHORT).collect();
    Some(format!("{start}…"))
}

fn lines(path: &str, name: &str, value: &Value, text: &mut String) {
    match &value.kind {
        ValueKind::Table(table) => {
            let mut names: Vec<&String> = table.keys().collect();
            names.sort();
            for name in names {
                lines(&join(path, name), name, &table[name], text);
            }
        }
        ValueKind::Array(items) if items.iter().any(is_table) => {
            for (index, item) in items.iter().enumerate() {
                lines(&format!("{path}[{index}]"), name, item, text);
            }
        }
        ValueKind::Nil => {}
        _ => text.push_str(&format!("{path} = {}\n", one(name, value))),
    }
}

fn is_table(value: &Value) -> bool {
    matches!(value.kind, ValueKind::Table(_) | ValueKind::Array(_))
}

fn one(name: &str, value: &Value) -> String {
    match &value.kind {
        ValueKind::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| one(name, item)).collect();
            format!("[{}]", items.join(", "))
        }
        ValueKind::String(text) => format!("{:?}", safe(name, text)),
        // A password of digits alone is a number.
        _ if is_secret(name) => "\"[redacted]\"".to_owned(),
        _ => value.to_string(),
    }
}

fn is_secret(name: &str) -> bool {
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

fn safe(name: &str, value: &str) -> String {
    let reference = value.starts_with("env:") || value.starts_with("file:");
    if !reference && is_secret(name) {
        return "[redacted]".to_owned();
    }
    // scheme://user:password@host
    match (value.find("://"), value.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}://[redacted]{}", &value[..scheme], &value[at..])
        }
        _ => value.to_owned(),
    }
}
