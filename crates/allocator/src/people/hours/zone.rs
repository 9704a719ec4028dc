//! Clocks of a place. What its clocks show is not always what passes: they are set forward (times are skipped) and back
//! (times come twice), so one rule turns a time there into a moment, everywhere: *the first moment at which the clock
//! shows it, or has passed it*. Moments that follow each other on the dial never change places by it, so hours that do not
//! overlap on paper never do.

use std::sync::LazyLock;

use jiff::{
    Span, Timestamp,
    civil::{Date, DateTime, Weekday},
    tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase},
};

/// The data come with the program, whatever the host has: two allocators do not differ about an hour.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

const DAY_MINUTES: u16 = 24 * 60;

/// A place's clocks, by their IANA name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// Letter case does not matter. None: there is no such zone.
    pub fn named(name: &str) -> Option<Self> {
        let zone = ZONES.get(name).ok().filter(|zone| !zone.is_unknown())?;
        zone.iana_name().is_some().then_some(Self(zone))
    }

    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or_default()
    }

    /// The date there.
    pub fn date(&self, at_ms: u64) -> Date {
        self.0.to_datetime(timestamp(at_ms)).date()
    }

    /// When the clocks there first show, or have passed, this many minutes after the midnight that begins the date; more
    /// than a day's minutes are a time of the next date.
    pub fn moment(&self, date: Date, minutes: u16) -> u64 {
        let days = i64::from(minutes / DAY_MINUTES);
        let date = date.saturating_add(Span::new().days(days));
        let minute = minutes % DAY_MINUTES;
        // Both are in range.
        let time = date.at((minute / 60) as i8, (minute % 60) as i8, 0, 0);
        milliseconds(self.first(time))
    }

    fn first(&self, time: DateTime) -> Timestamp {
        let at = |offset: jiff::tz::Offset| offset.to_timestamp(time).unwrap_or(Timestamp::MAX);
        match self.0.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } => at(offset),
            // The first of two.
            AmbiguousOffset::Fold { before, .. } => at(before),
            // Skipped: the moment at which the clocks were set forward.
            AmbiguousOffset::Gap { after, .. } => self
                .0
                .following(at(after))
                .find(|set| set.offset().to_datetime(set.timestamp()) >= time)
                .map_or_else(|| at(after), |set| set.timestamp()),
        }
    }
}

/// When the dates begin there that begin in this span of time, and which of them are Mondays.
pub fn midnights(zone: &Zone, from_ms: u64, to_ms: u64) -> Vec<(u64, bool)> {
    let next = |at_ms: u64| {
        let midnight = next_local_midnight(zone, at_ms);
        (midnight < to_ms).then_some(midnight)
    };
    std::iter::successors(next(from_ms), |midnight| next(*midnight))
        .map(|midnight| (midnight, zone.date(midnight).weekday() == Weekday::Monday))
        .collect()
}

/// When the next date begins there. Every date begins once, though clocks that are set back may show its midnight twice.
pub fn next_local_midnight(zone: &Zone, at_ms: u64) -> u64 {
    let mut date = zone.date(at_ms);
    // More than one only where clocks are set back over a midnight.
    for _ in 0..3 {
        date = date.saturating_add(Span::new().days(1));
        let midnight = zone.moment(date, 0);
        if midnight > at_ms {
            return midnight;
        }
    }
    u64::MAX
}

fn timestamp(at_ms: u64) -> Timestamp {
    let at_ms = i64::try_from(at_ms).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::MAX)
}

fn milliseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond()).unwrap_or(0)
}
