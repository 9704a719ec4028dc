//! What a caller sent, as he wrote it: a field that is there twice is here twice, and a parameter of a path or a query
//! is told from a text in JSON.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Number;

use super::problem::FieldError;

/// A text that is shown back is cut here.
const LONGEST_SHOWN: usize = 40;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
    /// Of a path or a query: always written as a text, whatever it means.
    Parameter(String),
}

impl Node {
    /// What came, for an error's text.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => format!("the text {}", quoted(text)),
            Self::Parameter(text) => quoted(text),
            Self::List(_) => "a list".to_owned(),
            Self::Object(_) => "an object".to_owned(),
        }
    }

    /// What no type may have: a field that is given twice, of which only one could count, and U+0000, which Postgres
    /// cannot store and which must not be dropped silently. `at` is the pointer of this node.
    pub(super) fn fault(&self, at: &str, below: fn(&str, &str) -> String) -> Option<FieldError> {
        match self {
            Self::Text(text) | Self::Parameter(text) => text.contains('\0').then(|| nul(at)),
            Self::List(items) => items
                .iter()
                .enumerate()
                .find_map(|(index, item)| item.fault(&below(at, &index.to_string()), below)),
            Self::Object(fields) => {
                let mut seen = std::collections::HashSet::with_capacity(fields.len());
                fields.iter().find_map(|(name, item)| {
                    let at = below(at, name);
                    if name.contains('\0') {
                        Some(nul(&at))
                    } else if !seen.insert(name) {
                        Some(FieldError {
                            pointer: at,
                            code: "duplicate_field",
                            message: "is given more than once; give it once".to_owned(),
                        })
                    } else {
                        item.fault(&at, below)
                    }
                })
            }
            Self::Null | Self::Bool(_) | Self::Number(_) => None,
        }
    }
}

fn nul(at: &str) -> FieldError {
    FieldError {
        pointer: at.to_owned(),
        code: "nul_character",
        message: "has the character U+0000, which cannot be stored; leave it out".to_owned(),
    }
}

/// A text as JSON writes it, cut if it is long.
pub(super) fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(LONGEST_SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    serde_json::Value::String(short).to_string()
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Nodes)
    }
}

struct Nodes;

impl<'de> Visitor<'de> for Nodes {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        // A number in JSON is always finite.
        Ok(Number::from_f64(value).map_or(Node::Null, Node::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = object.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Object(fields))
    }
}
