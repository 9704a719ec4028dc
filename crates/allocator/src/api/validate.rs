//! What is wrong with a request's fields: all of it at once, each with its JSON pointer.

use allocation::{MemberId, Weight};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::problem::{FieldError, Problem};

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

    /// An id or word of `allocation`; None and an error if it is none.
    pub(super) fn parse<T: std::str::FromStr<Err = allocation::Error>>(
        &mut self,
        pointer: impl Into<String>,
        text: &str,
    ) -> Option<T> {
        text.parse()
            .map_err(|error: allocation::Error| self.wrong(pointer, "invalid", error.to_string()))
            .ok()
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

/// A member's id in a path or a body, in either spelling.
pub(super) fn member(pointer: &str, userid: &str) -> Result<MemberId, Problem> {
    MemberId::new(userid).map_err(|error| Problem::field(pointer, "invalid", error.to_string()))
}

/// A weight in JSON: a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JsonWeight(pub(super) Weight);

impl<'de> Deserialize<'de> for JsonWeight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As it was written: no rounding through a float.
        let number = serde_json::Number::deserialize(deserializer).map_err(|_| {
            D::Error::custom(
                "a weight is a number from 0 to 10000 with at most three decimal places",
            )
        })?;
        number
            .to_string()
            .parse()
            .map(Self)
            .map_err(D::Error::custom)
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
