//! Milliseconds since the epoch, as everything else of ours speaks, and Postgres' timestamps.

use time::OffsetDateTime;

/// The end of year 9999: later times cannot be written down.
const LAST_MS: u64 = 253_402_300_799_999;

pub(crate) fn at(ms: u64) -> OffsetDateTime {
    let ms = i128::from(ms.min(LAST_MS));
    OffsetDateTime::from_unix_timestamp_nanos(ms * 1_000_000).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

pub(crate) fn at_option(ms: Option<u64>) -> Option<OffsetDateTime> {
    ms.map(at)
}

pub(crate) fn ms(at: OffsetDateTime) -> u64 {
    u64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for value in [0, 1, 1_792_000_000_123, LAST_MS] {
            assert_eq!(ms(at(value)), value);
        }
        assert_eq!(ms(at(u64::MAX)), LAST_MS);
    }
}
