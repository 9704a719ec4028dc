//! From what a caller sent to a request's type. serde's own deserializers take a list for an object and speak of Rust's
//! types; this one does neither: what is wrong it says in the words of the API, with the place, what came and what is
//! accepted.

use std::fmt;

use serde::{
    Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, Error as _, Expected, IntoDeserializer, MapAccess,
        SeqAccess, Unexpected, Visitor, value::StrDeserializer,
    },
    forward_to_deserialize_any,
};

use super::tree::Node;

/// Why it is not of the type.
#[derive(Debug, PartialEq)]
pub(super) struct Wrong {
    /// Names and indices that lead to the place, the innermost first.
    path: Vec<String>,
    pub(super) code: &'static str,
    message: String,
    /// What came is yet to be said, by whoever has the node at hand.
    came: Option<String>,
    says_what_came: bool,
}

impl Wrong {
    fn new(code: &'static str, message: impl Into<String>, says_what_came: bool) -> Self {
        Self {
            path: Vec::new(),
            code,
            message: message.into(),
            came: None,
            says_what_came,
        }
    }

    fn at(mut self, name: impl Into<String>) -> Self {
        self.path.push(name.into());
        self
    }

    fn came(mut self, node: &Node) -> Self {
        if self.path.is_empty() && self.came.is_none() {
            self.came = Some(node.shown());
        }
        self
    }

    /// From the outside in.
    pub(super) fn path(&self) -> impl Iterator<Item = &str> {
        self.path.iter().rev().map(String::as_str)
    }

    pub(super) fn message(&self) -> String {
        match &self.came {
            Some(came) if self.says_what_came => format!("{}, not {came}", self.message),
            _ => self.message.clone(),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())
    }
}

impl std::error::Error for Wrong {}

/// A type of ours that refuses a value says how it must be: "must be a …".
impl serde::de::Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new("invalid", message.to_string(), true)
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new("wrong_type", format!("must be {expected}"), true)
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new("invalid", format!("must be {expected}"), true)
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self::new("not_one_of", one_of(known), true)
    }

    fn unknown_field(_: &str, known: &'static [&'static str]) -> Self {
        let message = match known {
            [] => "is not known; nothing is taken here".to_owned(),
            known => format!("is not known; known are {}", known.join(", ")),
        };
        Self::new("unknown_field", message, false)
    }

    fn missing_field(name: &'static str) -> Self {
        Self::new("missing", "is missing, and must be given", false).at(name)
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self::new("duplicate_field", "is given more than once", false).at(name)
    }
}

fn one_of(words: &[&str]) -> String {
    match words {
        [one] => format!("must be {one}"),
        words => format!("must be one of {}", words.join(", ")),
    }
}

pub(super) fn read<T: DeserializeOwned>(node: &Node) -> Result<T, Wrong> {
    T::deserialize(Reader(node)).map_err(|wrong| wrong.came(node))
}

#[derive(Clone, Copy)]
struct Reader<'a>(&'a Node);

impl Reader<'_> {
    fn wrong(self, accepted: &str) -> Wrong {
        Wrong::new("wrong_type", format!("must be {accepted}"), true).came(self.0)
    }

    fn text(&self, accepted: &str) -> Result<&str, Wrong> {
        match self.0 {
            Node::Text(text) | Node::Parameter(text) => Ok(text),
            _ => Err(self.wrong(accepted)),
        }
    }

    fn natural(self, least: u64, most: u64) -> Result<u64, Wrong> {
        let number = match self.0 {
            Node::Number(number) => number.as_u64(),
            Node::Parameter(text) => text.parse().ok(),
            _ => None,
        };
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| match most {
                u64::MAX if self.is_large() => self.wrong("a whole number below 2^64"),
                // Whoever reads such a number says himself how large it may be.
                u64::MAX => self.wrong("a whole number, 0 or more"),
                most => self.wrong(&format!("a whole number from {least} to {most}")),
            })
    }

    fn is_large(self) -> bool {
        match self.0 {
            Node::Number(number) => number.as_f64().is_some_and(|number| number > 1e18),
            Node::Parameter(text) => {
                !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
            }
            _ => false,
        }
    }

    fn integer(self, least: i64, most: i64) -> Result<i64, Wrong> {
        let number = match self.0 {
            Node::Number(number) => number.as_i64(),
            Node::Parameter(text) => text.parse().ok(),
            _ => None,
        };
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| self.wrong(&format!("a whole number from {least} to {most}")))
    }

    fn float(self) -> Result<f64, Wrong> {
        let number = match self.0 {
            Node::Number(number) => number.as_f64(),
            Node::Parameter(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        };
        number.ok_or_else(|| self.wrong("a number"))
    }
}

/// A method of [`Deserializer`] for each of these types of numbers.
macro_rules! numbers {
    ($read:ident: $($method:ident $visit:ident $narrow:ty),+ $(,)?) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
            visitor.$visit(self.$read(<$narrow>::MIN.into(), <$narrow>::MAX.into())?)
        }
    )+ };
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.0 {
            Node::Null => visitor.visit_unit(),
            Node::Bool(value) => visitor.visit_bool(*value),
            Node::Text(text) | Node::Parameter(text) => visitor.visit_str(text),
            Node::List(_) => self.deserialize_seq(visitor),
            Node::Object(_) => self.deserialize_map(visitor),
            Node::Number(number) => {
                if let Some(number) = number.as_u64() {
                    visitor.visit_u64(number)
                } else if let Some(number) = number.as_i64() {
                    visitor.visit_i64(number)
                } else {
                    visitor.visit_f64(number.as_f64().unwrap_or_default())
                }
            }
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let value = match self.0 {
            Node::Bool(value) => Some(*value),
            Node::Parameter(text) => text.parse().ok(),
            _ => None,
        };
        visitor.visit_bool(value.ok_or_else(|| self.wrong("true or false"))?)
    }

    numbers!(natural: deserialize_u8 visit_u64 u8, deserialize_u16 visit_u64 u16,
        deserialize_u32 visit_u64 u32, deserialize_u64 visit_u64 u64);
    numbers!(integer: deserialize_i8 visit_i64 i8, deserialize_i16 visit_i64 i16,
        deserialize_i32 visit_i64 i32, deserialize_i64 visit_i64 i64);

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_f64(self.float()?)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_str(self.text("a text")?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_str(self.text("a text")?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_str(self.text("a text")?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.0 {
            Node::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.0 {
            Node::List(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            _ => Err(self.wrong("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.object(visitor, || "an object".to_owned())
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.object(visitor, || match fields {
            [] => "an object without fields".to_owned(),
            [one] => format!("an object with the field {one}"),
            fields => format!("an object with the fields {}", fields.join(", ")),
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match self.0 {
            Node::Text(text) | Node::Parameter(text) => {
                visitor.visit_enum(StrDeserializer::new(text))
            }
            _ => Err(Wrong::unknown_variant("", words).came(self.0)),
        }
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_str(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bytes byte_buf unit unit_struct tuple tuple_struct
    }
}

impl Reader<'_> {
    fn object<'de, V: Visitor<'de>>(
        self,
        visitor: V,
        accepted: impl FnOnce() -> String,
    ) -> Result<V::Value, Wrong> {
        match self.0 {
            Node::Object(fields) => visitor.visit_map(Fields {
                rest: fields.iter(),
                present: None,
            }),
            _ => Err(self.wrong(&accepted())),
        }
    }
}

struct Items<'a>(std::iter::Enumerate<std::slice::Iter<'a, Node>>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Wrong> {
        self.0
            .next()
            .map(|(index, node)| {
                seed.deserialize(Reader(node))
                    .map_err(|wrong| wrong.came(node).at(index.to_string()))
            })
            .transpose()
    }
}

struct Fields<'a> {
    rest: std::slice::Iter<'a, (String, Node)>,
    present: Option<&'a (String, Node)>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Wrong> {
        self.present = self.rest.next();
        let Some((name, _)) = self.present else {
            return Ok(None);
        };
        let key: StrDeserializer<'_, Wrong> = name.as_str().into_deserializer();
        seed.deserialize(key)
            .map(Some)
            .map_err(|wrong| wrong.at(name.clone()))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Wrong> {
        let Some((name, node)) = self.present.take() else {
            return Err(Wrong::custom("a value without a name"));
        };
        seed.deserialize(Reader(node))
            .map_err(|wrong| wrong.came(node).at(name.clone()))
    }
}
