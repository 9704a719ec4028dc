//! Reading WeCom's answers: `null` where a value should be, numbers as text, one bad row among good ones.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// `null` and absence are both the default. For lists whose absence means nothing special.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// A whole number, also if it comes as text; anything else is `None`.
pub(crate) fn int<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Ok(whole_number(&Value::deserialize(deserializer)?))
}

/// See [`int`].
pub(crate) fn whole_number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Rows that can be read; `None` when the list is absent or null, which is not the same as empty. A row that
/// cannot be read is left out and does not spoil the others.
pub(crate) fn known_rows<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let Some(values) = Option::<Vec<Value>>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let given = values.len();
    let rows: Vec<T> = values
        .into_iter()
        .filter_map(|value| serde_json::from_value(value).ok())
        .collect();
    if rows.len() < given {
        tracing::warn!(
            unreadable = given - rows.len(),
            "rows of an answer cannot be read and were left out"
        );
    }
    Ok(Some(rows))
}

/// The same where an absent list means nothing special.
pub(crate) fn rows<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(known_rows(deserializer)?.unwrap_or_default())
}
