//! The configuration as text for people, without its secrets.

use config::{Value, ValueKind};

/// A key with one of these words in its name is a secret, unless it only says where the secret is.
const SECRET_WORDS: [&str; 4] = ["password", "secret", "token", "aes_key"];

pub(super) fn shown(merged: config::Config) -> String {
    let mut text = String::new();
    lines("", "", &merged.cache, &mut text);
    text
}

fn lines(path: &str, name: &str, value: &Value, text: &mut String) {
    match &value.kind {
        ValueKind::Table(table) => {
            let mut names: Vec<&String> = table.keys().collect();
            names.sort();
            for name in names {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                lines(&path, name, &table[name], text);
            }
        }
        ValueKind::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                lines(&format!("{path}[{index}]"), name, item, text);
            }
        }
        ValueKind::String(value) => text.push_str(&format!("{path} = {:?}\n", safe(name, value))),
        ValueKind::Nil => {}
        // A password of digits alone is a number.
        _ if is_secret(name) => text.push_str(&format!("{path} = \"[redacted]\"\n")),
        _ => text.push_str(&format!("{path} = {value}\n")),
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
