//! The fields of a request. A field of the wrong type counts as absent and leaves WeCom's warning in errmsg.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value};

/// Fields from the body of a POST or the query of a GET.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    map: Map<String, Value>,
    /// The body was no JSON object.
    broken: bool,
    warned: AtomicBool,
}

impl Fields {
    pub(crate) fn of_body(body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(Value::Object(map)) => Self {
                map,
                ..Self::default()
            },
            _ => Self {
                broken: true,
                warned: AtomicBool::new(true),
                ..Self::default()
            },
        }
    }

    pub(crate) fn of_query(query: &str) -> Self {
        let map = url::form_urlencoded::parse(query.as_bytes())
            .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
            .collect();
        Self {
            map,
            ..Self::default()
        }
    }

    pub(crate) fn broken(&self) -> bool {
        self.broken
    }

    /// Something had the wrong type.
    pub(crate) fn warned(&self) -> bool {
        self.warned.load(Ordering::Relaxed)
    }

    fn warn<T>(&self) -> Option<T> {
        self.warned.store(true, Ordering::Relaxed);
        None
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Present, whatever its type.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Value::String(text) => Some(text),
            _ => self.warn(),
        }
    }

    /// Absent and empty alike are `None`.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.text(name).filter(|text| !text.is_empty())
    }

    pub(crate) fn texts(&self, name: &str) -> Option<Vec<&str>> {
        match self.value(name)? {
            Value::Array(values) => Some(
                values
                    .iter()
                    .filter_map(|value| value.as_str().or_else(|| self.warn()))
                    .collect(),
            ),
            _ => self.warn(),
        }
    }

    pub(crate) fn ints(&self, name: &str) -> Option<Vec<i64>> {
        match self.value(name)? {
            Value::Array(values) => Some(
                values
                    .iter()
                    .filter_map(|value| value.as_i64().or_else(|| self.warn()))
                    .collect(),
            ),
            _ => self.warn(),
        }
    }

    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        match self.value(name)? {
            Value::Number(number) => number.as_i64().or_else(|| self.warn()),
            _ => self.warn(),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        match self.value(name)? {
            Value::Bool(flag) => Some(*flag),
            _ => self.warn(),
        }
    }

    pub(crate) fn object(&self, name: &str) -> Option<&Map<String, Value>> {
        match self.value(name)? {
            Value::Object(object) => Some(object),
            _ => self.warn(),
        }
    }

    pub(crate) fn objects(&self, name: &str) -> Option<Vec<&Map<String, Value>>> {
        match self.value(name)? {
            Value::Array(values) => Some(
                values
                    .iter()
                    .filter_map(|value| value.as_object().or_else(|| self.warn()))
                    .collect(),
            ),
            _ => self.warn(),
        }
    }

    /// The whole request, for the message log.
    pub(crate) fn all(&self) -> Value {
        Value::Object(self.map.clone())
    }

    /// For faults: the request names this member.
    pub(crate) fn names_member(&self, userid: &str) -> bool {
        const NAMES: [&str; 7] = [
            "userid",
            "handover_userid",
            "takeover_userid",
            "new_owner",
            "touser",
            "user",
            "userid_list",
        ];
        NAMES.iter().any(|name| {
            self.holds(name, |value| {
                value.split('|').any(|one| one.eq_ignore_ascii_case(userid))
            })
        })
    }

    /// For faults: the request names this taker.
    pub(crate) fn names_taker(&self, userid: &str) -> bool {
        ["takeover_userid", "new_owner"]
            .iter()
            .any(|name| self.holds(name, |value| value.eq_ignore_ascii_case(userid)))
    }

    /// For faults: the request names this customer.
    pub(crate) fn names_customer(&self, external_userid: &str) -> bool {
        self.holds("external_userid", |value| value == external_userid)
    }

    /// For faults: the request names this group.
    pub(crate) fn names_chat(&self, chat_id: &str) -> bool {
        ["chat_id", "chat_id_list"]
            .iter()
            .any(|name| self.holds(name, |value| value == chat_id))
    }

    fn holds(&self, name: &str, meant: impl Fn(&str) -> bool) -> bool {
        match self.map.get(name) {
            Some(Value::String(text)) => meant(text),
            Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).any(meant),
            _ => false,
        }
    }
}
