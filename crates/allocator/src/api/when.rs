//! Times as the API writes and reads them: RFC 3339, UTC, milliseconds.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serializer,
    de::{Error, Visitor},
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339, macros::format_description};

const TIME: &str = "a time since 1970 as RFC 3339, for example 2026-10-14T08:00:00Z";

/// A moment, in JSON a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct When(pub(crate) u64);

impl When {
    pub(crate) fn text(self) -> String {
        let nanos = i128::from(self.0) * 1_000_000;
        let at =
            OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        at.format(format_description!(
            "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z"
        ))
        .unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Self> {
        let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        let ms = at.unix_timestamp_nanos() / 1_000_000;
        u64::try_from(ms).map(Self).ok()
    }
}

impl serde::Serialize for When {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Times)
    }
}

struct Times;

impl Visitor<'_> for Times {
    type Value = When;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TIME)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<When, E> {
        When::parse(text).ok_or_else(|| E::custom(format!("must be {TIME}")))
    }
}

impl utoipa::PartialSchema for When {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(
                utoipa::openapi::KnownFormat::DateTime,
            )))
            .into()
    }
}

impl utoipa::ToSchema for When {
    fn name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }
}

#[cfg(test)]
mod tests {
    use super::When;

    #[test]
    fn milliseconds_and_utc() {
        assert_eq!(When(1_792_000_000_007).text(), "2026-10-14T17:46:40.007Z");
        assert_eq!(
            When::parse("2026-10-15T01:46:40.007+08:00").unwrap(),
            When(1_792_000_000_007)
        );
        assert!(When::parse("yesterday").is_none());
        assert!(When::parse("1969-12-31T00:00:00Z").is_none());
    }
}
