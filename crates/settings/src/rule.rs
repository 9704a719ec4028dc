//! What a key accepts, and how that is said.

use std::collections::BTreeMap;

use config::{Value, ValueKind};

use crate::{SecretRef, shown};

/// What one key accepts. The comment of the key in the program's file of defaults says the same in short.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    why: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Whole {
        from: i64,
        to: i64,
        or_zero: bool,
    },
    Rising {
        from: i64,
        to: i64,
        most: usize,
    },
    OneOf(&'static [&'static str]),
    Switch,
    Text {
        accepted: &'static str,
        is: fn(&str) -> bool,
    },
    Texts {
        accepted: &'static str,
        is: fn(&str) -> bool,
    },
    Secret,
    SecretOrValue,
    /// A table whose own name is chosen by whoever writes the file.
    Named {
        accepted: &'static str,
        is: fn(&str) -> bool,
    },
    /// A list of tables.
    Entries {
        from: usize,
        to: usize,
    },
}

impl Rule {
    const fn of(kind: Kind) -> Self {
        Self {
            kind,
            required: false,
            why: "",
        }
    }

    /// A whole number; both ends are accepted.
    pub const fn whole(from: i64, to: i64) -> Self {
        Self::of(Kind::Whole {
            from,
            to,
            or_zero: false,
        })
    }

    /// The same, or 0, which means something else than a small number does.
    pub const fn zero_or(from: i64, to: i64) -> Self {
        Self::of(Kind::Whole {
            from,
            to,
            or_zero: true,
        })
    }

    /// A list of at most so many whole numbers, each above the one before.
    pub const fn rising(from: i64, to: i64, most: usize) -> Self {
        Self::of(Kind::Rising { from, to, most })
    }

    pub const fn one_of(words: &'static [&'static str]) -> Self {
        Self::of(Kind::OneOf(words))
    }

    /// `true` or `false`.
    pub const fn switch() -> Self {
        Self::of(Kind::Switch)
    }

    /// Text for which `is` holds; `accepted` says what that is: "must be …".
    pub const fn text(accepted: &'static str, is: fn(&str) -> bool) -> Self {
        Self::of(Kind::Text { accepted, is })
    }

    /// A list of such texts, not empty.
    pub const fn texts(accepted: &'static str, is: fn(&str) -> bool) -> Self {
        Self::of(Kind::Texts { accepted, is })
    }

    /// Any text but none.
    pub const fn filled() -> Self {
        Self::text("text that is not empty", |text| !text.trim().is_empty())
    }

    /// An address and a port to listen on.
    pub const fn listen() -> Self {
        Self::text("an address and a port, such as 127.0.0.1:8080", |text| {
            text.parse::<std::net::SocketAddr>().is_ok()
        })
    }

    /// Where a secret is, never the secret.
    pub const fn secret() -> Self {
        Self::of(Kind::Secret)
    }

    /// Where a secret is, or the value itself. Never shown.
    pub const fn secret_or_value() -> Self {
        Self::of(Kind::SecretOrValue)
    }

    /// A table whose name is the user's.
    pub const fn named(accepted: &'static str, is: fn(&str) -> bool) -> Self {
        Self::of(Kind::Named { accepted, is })
    }

    /// A list of tables.
    pub const fn entries(from: usize, to: usize) -> Self {
        Self::of(Kind::Entries { from, to })
    }

    /// Has no default.
    #[must_use]
    pub const fn required(self) -> Self {
        Self {
            required: true,
            ..self
        }
    }

    /// The reason for the limits, where it is not plain.
    #[must_use]
    pub const fn because(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    pub(crate) fn is_container(self) -> bool {
        matches!(self.kind, Kind::Named { .. } | Kind::Entries { .. })
    }

    /// "must be …": what is accepted.
    pub(crate) fn accepted(self) -> String {
        match self.kind {
            Kind::Whole { from, to, or_zero } => {
                let zero = if or_zero { "0 or " } else { "" };
                format!("must be {zero}a whole number from {from} to {to}")
            }
            Kind::Rising { from, to, most } => {
                format!(
                    "must be a list of at most {most} whole numbers from {from} to {to}, each above the one before"
                )
            }
            Kind::OneOf(words) => format!("must be one of {}", words.join(", ")),
            Kind::Switch => "must be true or false".to_owned(),
            Kind::Text { accepted, .. } | Kind::Named { accepted, .. } => {
                format!("must be {accepted}")
            }
            Kind::Texts { accepted, .. } => {
                format!("must be a list with at least one entry, each {accepted}")
            }
            Kind::Secret => {
                "must be written as env:NAME or file:/path, never as the value itself".to_owned()
            }
            Kind::SecretOrValue => "must be the value, env:NAME or file:/path".to_owned(),
            Kind::Entries { from, to } => format!("must be a list of {from} to {to} tables"),
        }
    }

    /// What is wrong with the value, whose key has this name; a value that may be a secret is not repeated.
    pub(crate) fn refuse(self, name: &str, value: &Value) -> Option<String> {
        if self.accepts(value) {
            return None;
        }
        if matches!(self.kind, Kind::Named { .. }) {
            // The rule, and its reason, are of the name.
            let not =
                shown::short(name, value).map_or_else(String::new, |it| format!(", not {it}"));
            return Some(format!("must be a table{not}"));
        }
        let mut problem = self.accepted();
        let hidden = matches!(self.kind, Kind::Secret | Kind::SecretOrValue);
        if let Some(value) = shown::short(name, value)
            && !hidden
        {
            problem.push_str(&format!(", not {value}"));
        } else if is_empty(value) {
            problem.push_str(", and is empty");
        }
        Some(self.with_reason(problem))
    }

    /// The same for the name of a table.
    pub(crate) fn refuse_name(self, name: &str) -> Option<String> {
        match self.kind {
            Kind::Named { is, .. } if !is(name) => {
                let problem = format!("the name {}, not {name:?}", self.accepted());
                Some(self.with_reason(problem))
            }
            _ => None,
        }
    }

    fn with_reason(self, problem: String) -> String {
        if self.why.is_empty() {
            problem
        } else {
            format!("{problem}: {}", self.why)
        }
    }

    fn accepts(self, value: &Value) -> bool {
        match self.kind {
            Kind::Whole { from, to, or_zero } => whole(value)
                .is_some_and(|number| (from..=to).contains(&number) || (or_zero && number == 0)),
            Kind::Rising { from, to, most } => {
                let numbers: Option<Vec<i64>> =
                    items(value).and_then(|items| items.iter().map(whole).collect());
                numbers.is_some_and(|numbers| {
                    numbers.len() <= most
                        && numbers.iter().all(|number| (from..=to).contains(number))
                        && numbers.is_sorted_by(|one, next| one < next)
                })
            }
            Kind::OneOf(words) => text(value).is_some_and(|text| words.contains(&text.as_str())),
            Kind::Switch => match &value.kind {
                ValueKind::Boolean(_) => true,
                ValueKind::String(text) => text == "true" || text == "false",
                _ => false,
            },
            Kind::Text { is, .. } => text(value).is_some_and(|text| is(&text)),
            Kind::Texts { is, .. } => {
                let texts: Option<Vec<String>> =
                    items(value).and_then(|items| items.iter().map(text).collect());
                texts.is_some_and(|texts| !texts.is_empty() && texts.iter().all(|text| is(text)))
            }
            Kind::Secret => text(value).is_some_and(|text| SecretRef::try_from(text).is_ok()),
            Kind::SecretOrValue => text(value).is_some_and(|text| {
                let reference = text.starts_with("env:") || text.starts_with("file:");
                !text.trim().is_empty() && (!reference || SecretRef::try_from(text).is_ok())
            }),
            Kind::Named { .. } => matches!(value.kind, ValueKind::Table(_)),
            Kind::Entries { from, to } => match &value.kind {
                ValueKind::Array(items) => (from..=to).contains(&items.len()),
                // As the environment gives a list.
                ValueKind::Table(table) => {
                    (from..=to).contains(&table.len())
                        && table.keys().all(|name| name.parse::<usize>().is_ok())
                }
                _ => false,
            },
        }
    }
}

fn whole(value: &Value) -> Option<i64> {
    match &value.kind {
        ValueKind::I64(number) => Some(*number),
        ValueKind::I128(number) => i64::try_from(*number).ok(),
        ValueKind::U64(number) => i64::try_from(*number).ok(),
        ValueKind::U128(number) => i64::try_from(*number).ok(),
        ValueKind::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// The environment makes numbers and switches of what looks like them.
fn text(value: &Value) -> Option<String> {
    match &value.kind {
        ValueKind::String(text) => Some(text.clone()),
        ValueKind::Table(_) | ValueKind::Array(_) | ValueKind::Nil => None,
        _ => Some(value.to_string()),
    }
}

/// A list, or what the environment has instead.
fn items(value: &Value) -> Option<Vec<Value>> {
    Some(match &value.kind {
        ValueKind::Array(items) => items.clone(),
        ValueKind::Table(table) => {
            let numbered = table
                .iter()
                .map(|(name, item)| Some((name.parse::<usize>().ok()?, item.clone())));
            let numbered: BTreeMap<usize, Value> = numbered.collect::<Option<_>>()?;
            numbered.into_values().collect()
        }
        ValueKind::String(text) => text
            .split(',')
            .map(|item| Value::from(item.trim()))
            .collect(),
        _ => vec![value.clone()],
    })
}

fn is_empty(value: &Value) -> bool {
    text(value).is_some_and(|text| text.trim().is_empty())
}
