//! Hours as they are written: in requests, and in the ledger. Reading them names everything that is wrong.

use std::collections::BTreeSet;

use jiff::civil::Date;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use utoipa::ToSchema;

use super::{
    schedule::{Hours, Schedule},
    zone::Zone,
};

/// Of one schedule or calendar: a year's, and a day more.
pub const MOST_DAYS: usize = 366;
/// Of one day.
const MOST_A_DAY: usize = 12;
const MOST_A_WEEK: usize = 7 * MOST_A_DAY;
const DAY: u16 = 24 * 60;
const WEEK: u32 = 7 * DAY as u32;
const LONGEST_NAME: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Weekday {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

/// Hours that begin on every such day of the week.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WeeklyHours {
    pub day: Weekday,
    /// Time of day there, as in `09:00`. One that clocks skip means the moment at which they do; one that comes twice means
    /// the first.
    pub from: String,
    /// Time of day there, `24:00` at the latest; not included.
    pub to: String,
    /// They end on the next day, at or before the time at which they begin.
    #[serde(default)]
    pub next_day: bool,
}

/// Hours that begin on one date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DayHours {
    pub from: String,
    pub to: String,
    #[serde(default)]
    pub next_day: bool,
}

/// A date with hours of its own, or with none. Hours belong to the date on which they begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SpecialDay {
    /// As in `2026-10-01`.
    pub date: String,
    /// What begins on it in place of the weekday's hours; an empty list: closed.
    #[schema(max_items = 12)]
    pub hours: Vec<DayHours>,
    /// For people.
    pub name: Option<String>,
}

/// What of it is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub pointer: String,
    pub code: &'static str,
    pub message: String,
}

type Wrongs = Vec<Wrong>;

fn wrong(wrongs: &mut Wrongs, pointer: String, code: &'static str, message: String) {
    wrongs.push(Wrong {
        pointer,
        code,
        message,
    });
}

/// A week's hours, from Monday on.
pub fn week(weekly: &[WeeklyHours], wrongs: &mut Wrongs) -> [Vec<Hours>; 7] {
    let mut week: [Vec<Hours>; 7] = Default::default();
    if weekly.len() > MOST_A_WEEK {
        let message = format!("at most {MOST_A_WEEK} hours are possible");
        wrong(wrongs, "/weekly".to_owned(), "too_many", message);
        return week;
    }
    let mut placed = Vec::new();
    for (index, one) in weekly.iter().enumerate() {
        let pointer = format!("/weekly/{index}");
        if let Some(hours) = hours(&pointer, &one.from, &one.to, one.next_day, wrongs) {
            week[one.day as usize].push(hours);
            let midnight = one.day as u32 * u32::from(DAY);
            let from = midnight + u32::from(hours.from);
            placed.push((from, midnight + u32::from(hours.to), index));
        }
    }
    placed.sort_unstable();
    // Sunday's night goes on into Monday: the week's first hours come once more behind it.
    if let Some((from, to, index)) = placed.first().copied() {
        placed.push((from + WEEK, to + WEEK, index));
    }
    overlaps(&placed, |index| format!("/weekly/{index}"), wrongs);
    week
}

/// Special dates with their hours, each once.
pub fn days(days: &[SpecialDay], wrongs: &mut Wrongs) -> Vec<(Date, Vec<Hours>)> {
    if days.len() > MOST_DAYS {
        let message = format!(
            "{} days, at most {MOST_DAYS} are possible; leave out those that are over",
            days.len()
        );
        wrong(wrongs, "/days".to_owned(), "too_many", message);
        return Vec::new();
    }
    let mut seen = BTreeSet::new();
    let mut all = Vec::with_capacity(days.len());
    for (index, day) in days.iter().enumerate() {
        let at = format!("/days/{index}");
        let found = date(&day.date);
        match found {
            None => {
                let message = "must be a date that exists, as in 2026-10-01".to_owned();
                wrong(wrongs, format!("{at}/date"), "invalid_date", message);
            }
            Some(date) if !seen.insert(date) => {
                let message = format!("{date} is in the list twice");
                wrong(wrongs, format!("{at}/date"), "duplicate_date", message);
            }
            Some(_) => {}
        }
        if let Some(name) = &day.name
            && (name.chars().count() > LONGEST_NAME || name.chars().any(char::is_control))
        {
            let message =
                format!("must be at most {LONGEST_NAME} characters, without control characters");
            wrong(wrongs, format!("{at}/name"), "invalid_name", message);
        }
        if day.hours.len() > MOST_A_DAY {
            let message = format!("at most {MOST_A_DAY} hours are possible");
            wrong(wrongs, format!("{at}/hours"), "too_many", message);
            continue;
        }
        let mut placed = Vec::new();
        for (nth, one) in day.hours.iter().enumerate() {
            let pointer = format!("{at}/hours/{nth}");
            if let Some(hours) = hours(&pointer, &one.from, &one.to, one.next_day, wrongs) {
                placed.push((u32::from(hours.from), u32::from(hours.to), nth));
            }
        }
        placed.sort_unstable();
        overlaps(&placed, |nth| format!("{at}/hours/{nth}"), wrongs);
        let hours = placed.iter().map(|(from, to, _)| Hours {
            // They were that before.
            from: *from as u16,
            to: *to as u16,
        });
        if let Some(date) = found {
            all.push((date, hours.collect()));
        }
    }
    all
}

/// The zone, or what is wrong with its name.
pub fn zone(name: &str, wrongs: &mut Wrongs) -> Option<Zone> {
    let zone = Zone::named(name);
    if zone.is_none() {
        let message =
            "must be the IANA name of a time zone, such as Asia/Shanghai or America/New_York";
        wrong(
            wrongs,
            "/zone".to_owned(),
            "unknown_zone",
            message.to_owned(),
        );
    }
    zone
}

/// A list as the ledger has it; what cannot be read is not shown.
pub fn list<T: DeserializeOwned>(value: &serde_json::Value) -> Vec<T> {
    Vec::deserialize(value).unwrap_or_default()
}

/// As the ledger has it, with the calendars in their order.
pub fn stored<'a>(
    schedule: &ledger::Schedule,
    calendars: impl Iterator<Item = &'a ledger::Calendar>,
) -> Result<Schedule, String> {
    let mut wrongs = Vec::new();
    let zone = zone(&schedule.zone, &mut wrongs);
    let read = |value: &serde_json::Value| {
        Vec::<SpecialDay>::deserialize(value).map_err(|error| error.to_string())
    };
    let weekly =
        Vec::<WeeklyHours>::deserialize(&schedule.weekly).map_err(|error| error.to_string())?;
    let week = week(&weekly, &mut wrongs);
    let mut special = days(&read(&schedule.days)?, &mut wrongs);
    for calendar in calendars {
        special.extend(days(&read(&calendar.days)?, &mut wrongs));
    }
    match (zone, wrongs.first()) {
        (Some(zone), None) => Ok(Schedule::new(zone, week, special)),
        (_, first) => Err(first.map_or_else(String::new, |wrong| {
            format!("{}: {}", wrong.pointer, wrong.message)
        })),
    }
}

fn hours(
    pointer: &str,
    from: &str,
    to: &str,
    next_day: bool,
    wrongs: &mut Wrongs,
) -> Option<Hours> {
    let start = time(from).filter(|from| *from < DAY);
    let end = time(to);
    for (field, read, latest) in [("from", start, "23:59"), ("to", end, "24:00")] {
        if read.is_none() {
            let message = format!("must be a time of day from 00:00 to {latest}");
            wrong(
                wrongs,
                format!("{pointer}/{field}"),
                "invalid_time",
                message,
            );
        }
    }
    let (start, end) = (start?, end?);
    match (end > start, next_day) {
        (true, false) => Some(Hours {
            from: start,
            to: end,
        }),
        (false, true) => Some(Hours {
            from: start,
            to: end + DAY,
        }),
        (false, false) => {
            let message = format!("must be after {from}; if it is on the next day, set next_day");
            wrong(wrongs, format!("{pointer}/to"), "not_after_from", message);
            None
        }
        (true, true) => {
            let message =
                format!("must not be after {from} on the next day: hours last a day at most");
            wrong(wrongs, format!("{pointer}/to"), "too_long", message);
            None
        }
    }
}

/// Those that begin before another one ends; sorted by their beginning.
fn overlaps(placed: &[(u32, u32, usize)], pointer: impl Fn(usize) -> String, wrongs: &mut Wrongs) {
    let mut latest: Option<(u32, usize)> = None;
    for (from, to, index) in placed.iter().copied() {
        if let Some((end, other)) = latest.filter(|(end, _)| *end > from) {
            let message = format!("overlaps with {}", pointer(other));
            wrong(wrongs, pointer(index), "overlap", message);
            latest = Some((end.max(to), if end > to { other } else { index }));
        } else {
            latest = Some((to, index));
        }
    }
}

/// Minutes after midnight.
fn time(text: &str) -> Option<u16> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).filter(|byte| byte.is_ascii_digit());
    let two =
        |at: usize| Some(u16::from(digit(at)? - b'0') * 10 + u16::from(digit(at + 1)? - b'0'));
    if bytes.len() != 5 || bytes[2] != b':' {
        return None;
    }
    let (hour, minute) = (two(0)?, two(3)?);
    let minutes = hour * 60 + minute;
    (minute < 60 && minutes <= DAY).then_some(minutes)
}

fn date(text: &str) -> Option<Date> {
    let date: Date = text.parse().ok()?;
    (date.to_string() == text && (1970..=9000).contains(&date.year())).then_some(date)
}
