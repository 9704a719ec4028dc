//! What is wrong with a request's fields: all of it at once, each with its JSON pointer.

use std::{fmt, ops::RangeInclusive};

use allocation::Weight;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};
use serde_json::Number;

use super::{
    ids::Id,
    problem::{FieldError, Problem},
    tree::quoted,
};
use crate::people::hours::plan::Wrong;

/// Of a limit of what a member may be given.
const HIGHEST_LIMIT: u64 = 1_000_000;

/// Gathers field errors.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<FieldError>);

impl Fields {
    pub(super) fn wrong(
        &mut self,
        pointer: impl Into<String>,
        code: &'static str,
        message: impl Into<String>,
    ) {
        self.0.push(FieldError {
            pointer: pointer.into(),
            code,
            message: message.into(),
        });
    }

    /// What is wrong with something inside.
    pub(super) fn inside(&mut self, pointer: &str, inner: Fields) {
        let inner = inner.0.into_iter().map(|error| FieldError {
            pointer: format!("{pointer}{}", error.pointer),
            ..error
        });
        self.0.extend(inner);
    }

    /// What is wrong with hours.
    pub(super) fn all(&mut self, wrongs: Vec<Wrong>) {
        for wrong in wrongs {
            self.wrong(wrong.pointer, wrong.code, wrong.message);
        }
    }

    /// An id; None and an error that tells its rule if it is none.
    pub(super) fn parse<T: Id>(&mut self, pointer: impl Into<String>, text: &str) -> Option<T> {
        let id = T::read(text);
        if id.is_none() {
            let message = format!("must be {}, not {}", T::RULE, quoted(text));
            self.wrong(pointer, "invalid", message);
        }
        id
    }

    /// A whole number; None where it may be left out.
    pub(super) fn range(
        &mut self,
        pointer: impl Into<String>,
        number: Option<u64>,
        range: RangeInclusive<u64>,
    ) {
        if let Some(number) = number.filter(|number| !range.contains(number)) {
            let (least, most) = range.into_inner();
            let message = format!("must be a whole number from {least} to {most}, not {number}");
            self.wrong(pointer, "out_of_range", message);
        }
    }

    /// How much a member may be given; nothing: no limit.
    pub(super) fn limit(&mut self, pointer: impl Into<String>, limit: Option<u64>) -> Option<u32> {
        self.range(pointer, limit, 0..=HIGHEST_LIMIT);
        limit.and_then(|limit| u32::try_from(limit).ok())
    }

    /// A name for people: 1 to 100 characters, not only spaces. What is kept has no spaces around it.
    pub(super) fn name(&mut self, pointer: &str, name: &str) -> String {
        const LONGEST: usize = 100;
        let trimmed = name.trim();
        let n_chars = trimmed.chars().count();
        if n_chars == 0 {
            self.wrong(pointer, "empty", "must not be empty");
        } else if n_chars > LONGEST {
            self.wrong(
                pointer,
                "too_long",
                format!("has {n_chars} characters, at most {LONGEST} are possible"),
            );
        } else if trimmed.chars().any(char::is_control) {
            self.wrong(
                pointer,
                "control_character",
                "must not have control characters",
            );
        }
        trimmed.to_owned()
    }

    /// The outside id of a customer.
    pub(super) fn subject_id(&mut self, pointer: &str, id: &str) {
        const LONGEST: usize = 128;
        if id.trim().is_empty() {
            self.wrong(pointer, "empty", "must not be empty");
        } else if id.chars().any(char::is_control) {
            self.wrong(
                pointer,
                "control_character",
                "must not have control characters",
            );
        }
        self.characters(pointer, id, LONGEST);
    }

    pub(super) fn characters(&mut self, pointer: &str, text: &str, longest: usize) {
        let n_chars = text.chars().count();
        if n_chars > longest {
            self.wrong(
                pointer,
                "too_long",
                format!("has {n_chars} characters, at most {longest} are possible"),
            );
        }
    }

    pub(super) fn bytes(&mut self, pointer: &str, text: &str, longest: usize) {
        if text.len() > longest {
            let n_bytes = text.len();
            self.wrong(
                pointer,
                "too_long",
                format!("has {n_bytes} bytes of UTF-8, WeCom takes at most {longest}"),
            );
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses the request if anything is wrong.
    pub(super) fn check(self) -> Result<(), Problem> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Problem::fields(self.0))
        }
    }
}

/// An id in the path.
pub(super) fn in_path<T: Id>(name: &str, text: &str) -> Result<T, Problem> {
    let mut fields = Fields::default();
    let id = fields.parse(format!("path:{name}"), text);
    fields.check()?;
    id.ok_or_else(|| Problem::not_found("route"))
}

const WEIGHT: &str = "a number from 0 to 10000 with at most three decimal places";

/// A weight in JSON: a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JsonWeight(pub(super) Weight);

impl<'de> Deserialize<'de> for JsonWeight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Weights)
    }
}

struct Weights;

impl Weights {
    /// As it was written: no rounding through a float.
    fn read<E: Error>(number: impl Into<Option<Number>>) -> Result<JsonWeight, E> {
        let weight = number
            .into()
            .and_then(|number| number.to_string().parse().ok());
        weight
            .map(JsonWeight)
            .ok_or_else(|| E::custom(format!("must be {WEIGHT}")))
    }
}

impl Visitor<'_> for Weights {
    type Value = JsonWeight;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WEIGHT)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<JsonWeight, E> {
        Self::read(Number::from(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<JsonWeight, E> {
        Self::read(Number::from(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<JsonWeight, E> {
        Self::read(Number::from_f64(number))
    }
}

impl Serialize for JsonWeight {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let thousandths = self.0.thousandths();
        if thousandths.is_multiple_of(1000) {
            serializer.serialize_u32(thousandths / 1000)
        } else {
            serializer.serialize_f64(f64::from(thousandths) / 1000.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::JsonWeight;

    /// Case 115.
    #[test]
    fn fractions_survive() {
        for text in ["0", "1", "1.5", "0.001", "2.625", "9999.999", "10000"] {
            let weight: JsonWeight = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&weight).unwrap(), text);
        }
    }

    /// Case 133.
    #[test]
    fn what_is_no_weight_is_refused() {
        for text in [
            "-1",
            "1e9",
            "\"3\"",
            "null",
            "10000.001",
            "0.0001",
            "true",
            "[]",
        ] {
            assert!(serde_json::from_str::<JsonWeight>(text).is_err(), "{text}");
        }
    }
}
