//! Postgres' text holds every character but NUL: what comes from outside loses it here, the rest stays. And texts that
//! nobody can guess.

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

/// At most 22 small letters and digits, five random bits each.
pub(crate) fn random(n_chars: usize) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let uuid = uuid::Uuid::new_v4().as_u128();
    // Without the bits that say that it is a random UUID.
    let mut bits = (uuid >> 80 << 62) | (uuid & ((1 << 62) - 1));
    (0..n_chars.min(22))
        .map(|_| {
            let index = (bits & 31) as usize;
            bits >>= 5;
            char::from(ALPHABET[index])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_texts_differ_in_every_place() {
        let texts: Vec<Vec<char>> = (0..200).map(|_| random(22).chars().collect()).collect();
        for place in 0..22 {
            let seen: std::collections::BTreeSet<char> =
                texts.iter().map(|text| text[place]).collect();
            assert!(seen.len() > 20, "place {place}: {seen:?}");
        }
        assert_eq!(random(12).len(), 12);
    }

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
