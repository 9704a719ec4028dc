//! Lists. The environment has none: there one is a table with the keys 0 and 1, or one text with commas.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, IntoDeserializer, MapAccess, SeqAccess, Visitor},
};

/// For `#[serde(deserialize_with = "settings::list")]`.
pub fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(ListVisitor(PhantomData))
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut items = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let index: usize = key
                .parse()
                .map_err(|_| de::Error::custom("must be a list"))?;
            items.insert(index, map.next_value()?);
        }
        Ok(items.into_values().collect())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        text.split(',').map(|part| item(part.trim())).collect()
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(vec![item(&number.to_string())?])
    }
}

/// As text, or as the number that the text is.
fn item<'de, T: Deserialize<'de>, E: de::Error>(text: &str) -> Result<T, E> {
    let as_text = T::deserialize(text.into_deserializer());
    match text.parse::<i64>() {
        Ok(number) => as_text.or_else(|_: E| T::deserialize(number.into_deserializer())),
        Err(_) => as_text,
    }
}
