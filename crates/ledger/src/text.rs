//! Postgres' text holds every character but NUL. What comes from outside loses it here, the rest stays.

use std::borrow::Cow;

use serde_json::Value;

pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', ""))
    } else {
        Cow::Borrowed(text)
    }
}

pub(crate) fn clean_option(text: Option<&String>) -> Option<Cow<'_, str>> {
    text.map(|text| clean(text))
}

/// Keys and strings, at any depth.
pub(crate) fn clean_json(value: &Value) -> Value {
    match value {
        Value::String(text) => clean(text).into(),
        Value::Array(values) => values.iter().map(clean_json).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (clean(key).into_owned(), clean_json(value)))
            .collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case 125.
    #[test]
    fn nul_is_dropped_and_nothing_else() {
        assert_eq!(clean("a\0b\u{1}你"), "ab\u{1}你");
        assert!(matches!(clean("plain"), Cow::Borrowed(_)));
        let value = serde_json::json!({"k\0": ["\0x", {"y": "z\0"}], "n": 1});
        assert_eq!(
            clean_json(&value),
            serde_json::json!({"k": ["x", {"y": "z"}], "n": 1})
        );
    }
}
