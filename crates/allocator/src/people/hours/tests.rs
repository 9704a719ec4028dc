use std::collections::BTreeSet;

use jiff::{Span, Timestamp, civil::Date, tz::TimeZone};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    plan::{self, SpecialDay, WeeklyHours},
    schedule::{Hours, Schedule, State},
    zone::{Zone, next_local_midnight},
};

const MINUTE_MS: u64 = 60_000;

fn ms(text: &str) -> u64 {
    let at: Timestamp = text.parse().unwrap();
    u64::try_from(at.as_millisecond()).unwrap()
}

fn weekly(day: &str, from: &str, to: &str) -> Value {
    json!({"day": day, "from": from, "to": to, "next_day": to <= from})
}

/// A schedule as a request would write it.
fn schedule(zone: &str, week: &[Value], days: &Value) -> Schedule {
    let mut wrongs = Vec::new();
    let zone = plan::zone(zone, &mut wrongs).unwrap();
    let week: Vec<WeeklyHours> = serde_json::from_value(json!(week)).unwrap();
    let days: Vec<SpecialDay> = serde_json::from_value(days.clone()).unwrap();
    let week = plan::week(&week, &mut wrongs);
    let days = plan::days(&days, &mut wrongs);
    assert_eq!(wrongs, []);
    Schedule::new(zone, week, days)
}

fn open(schedule: &Schedule, at: &str, until: &str) {
    let until_ms = Some(ms(until));
    assert_eq!(schedule.state(ms(at)), State::Open { until_ms }, "{at}");
    let before_ms = ms(until) - 1;
    assert_eq!(schedule.open_until(before_ms), Some(until_ms), "{at}");
}

fn closed(schedule: &Schedule, at: &str, opens: &str) {
    let opens_ms = Some(ms(opens));
    assert_eq!(schedule.state(ms(at)), State::Closed { opens_ms }, "{at}");
    assert_eq!(schedule.next_change(ms(at)), opens_ms, "{at}");
    assert!(schedule.open_until(ms(opens)).is_some(), "{at}");
}

#[test]
fn a_working_week_in_shanghai() {
    let week: Vec<Value> = ["monday", "tuesday", "wednesday", "thursday", "friday"]
        .iter()
        .flat_map(|day| [weekly(day, "13:30", "18:00"), weekly(day, "09:00", "12:00")])
        .collect();
    // Thursday and Friday of the national day are off, the Saturday after is worked.
    let days = json!([
        {"date": "2026-10-01", "hours": []},
        {"date": "2026-10-02", "hours": [], "name": "国庆"},
        {"date": "2026-10-10", "hours": [{"from": "10:00", "to": "16:00"}]},
    ]);
    let schedule = schedule("asia/shanghai", &week, &days);
    assert_eq!(schedule.zone().name(), "Asia/Shanghai");
    closed(
        &schedule,
        "2026-09-28T00:59:59.999Z",
        "2026-09-28T01:00:00Z",
    );
    open(&schedule, "2026-09-28T01:00:00Z", "2026-09-28T04:00:00Z");
    closed(&schedule, "2026-09-28T04:00:00Z", "2026-09-28T05:30:00Z");
    open(
        &schedule,
        "2026-09-30T09:59:59.999Z",
        "2026-09-30T10:00:00Z",
    );
    closed(&schedule, "2026-09-30T10:00:00Z", "2026-10-05T01:00:00Z");
    closed(&schedule, "2026-10-09T10:00:00Z", "2026-10-10T02:00:00Z");
    open(&schedule, "2026-10-10T02:00:00Z", "2026-10-10T08:00:00Z");
    assert_eq!(
        schedule.next_open(ms("2026-10-10T03:00:00Z")),
        Some(ms("2026-10-12T01:00:00Z"))
    );
}

/// A night shift belongs to the evening on which it begins; what touches is one.
#[test]
fn nights_and_what_touches() {
    let week = [
        weekly("sunday", "22:00", "06:00"),
        weekly("monday", "06:00", "07:00"),
        weekly("friday", "20:00", "24:00"),
        weekly("saturday", "00:00", "00:00"),
    ];
    let night = schedule("Asia/Shanghai", &week, &json!([]));
    open(&night, "2026-11-29T14:00:00Z", "2026-11-29T23:00:00Z");
    open(&night, "2026-11-29T21:00:00Z", "2026-11-29T23:00:00Z");
    // From Friday evening to the end of Saturday.
    open(&night, "2026-12-04T12:00:00Z", "2026-12-05T16:00:00Z");
    let days = json!([{"date": "2026-11-30", "hours": []}, {"date": "2026-12-06", "hours": []}]);
    let night = schedule("Asia/Shanghai", &week, &days);
    open(&night, "2026-11-29T14:00:00Z", "2026-11-29T22:00:00Z");
    closed(&night, "2026-12-05T16:00:00Z", "2026-12-06T22:00:00Z");
}

#[test]
fn clocks_are_set_forward_and_back_in_new_york() {
    let week = [
        weekly("saturday", "22:00", "02:30"),
        weekly("sunday", "03:00", "04:00"),
    ];
    let york = schedule("America/New_York", &week, &json!([]));
    // 9 March 2025: 02:00 becomes 03:00. The night ends where the clocks jump over its end, and Sunday's hours begin there.
    open(&york, "2025-03-09T03:00:00Z", "2025-03-09T08:00:00Z");
    // 2 November 2025: 02:00 becomes 01:00 once, so the night is an hour longer.
    open(&york, "2025-11-02T02:00:00Z", "2025-11-02T07:30:00Z");
    closed(&york, "2025-11-02T07:30:00Z", "2025-11-02T08:00:00Z");
    // Of an hour that comes twice the first counts; all of it skipped, it is not there on that day.
    let twice = schedule(
        "America/New_York",
        &[
            weekly("sunday", "01:15", "01:45"),
            weekly("sunday", "02:10", "02:50"),
        ],
        &json!([]),
    );
    open(&twice, "2025-11-02T05:15:00Z", "2025-11-02T05:45:00Z");
    closed(&twice, "2025-11-02T05:45:00Z", "2025-11-02T07:10:00Z");
    closed(&twice, "2025-03-09T06:00:00Z", "2025-03-09T06:15:00Z");
    closed(&twice, "2025-03-09T06:45:00Z", "2025-03-16T05:15:00Z");
}

/// Hours that are just those which the clocks skip in spring and show twice in autumn.
#[test]
fn two_to_three_at_night_in_berlin() {
    let every_day = |from, to| {
        let days = [
            "monday",
            "tuesday",
            "wednesday",
            "thursday",
            "friday",
            "saturday",
            "sunday",
        ];
        days.map(|day| weekly(day, from, to))
    };
    let berlin = schedule("Europe/Berlin", &every_day("02:00", "03:00"), &json!([]));
    open(&berlin, "2026-03-28T01:00:00Z", "2026-03-28T02:00:00Z");
    // 29 March 2026: 02:00 becomes 03:00, and there is nothing left of it.
    closed(&berlin, "2026-03-28T02:00:00Z", "2026-03-30T00:00:00Z");
    open(&berlin, "2026-03-30T00:00:00Z", "2026-03-30T01:00:00Z");
    // 25 October 2026: 03:00 becomes 02:00, so they are two hours.
    closed(&berlin, "2026-10-24T01:00:00Z", "2026-10-25T00:00:00Z");
    open(&berlin, "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z");
    closed(&berlin, "2026-10-25T02:00:00Z", "2026-10-26T01:00:00Z");
    // Of a quarter that comes twice the first.
    let quarter = schedule("Europe/Berlin", &every_day("02:30", "02:45"), &json!([]));
    open(&quarter, "2026-10-25T00:30:00Z", "2026-10-25T00:45:00Z");
    closed(&quarter, "2026-10-25T00:45:00Z", "2026-10-26T01:30:00Z");
    // Dates of their own, on just these days.
    let days = json!([
        {"date": "2026-03-29", "hours": [{"from": "01:30", "to": "02:30"}, {"from": "02:30", "to": "03:30"}]},
        {"date": "2026-10-25", "hours": [{"from": "01:30", "to": "02:30"}, {"from": "02:45", "to": "04:00"}]},
        {"date": "2026-10-26", "hours": []},
    ]);
    let special = schedule("Europe/Berlin", &every_day("02:00", "03:00"), &days);
    open(&special, "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z");
    closed(&special, "2026-03-29T01:30:00Z", "2026-03-30T00:00:00Z");
    open(&special, "2026-10-24T23:30:00Z", "2026-10-25T00:30:00Z");
    closed(&special, "2026-10-25T00:30:00Z", "2026-10-25T00:45:00Z");
    open(&special, "2026-10-25T00:45:00Z", "2026-10-25T03:00:00Z");
    closed(&special, "2026-10-25T03:00:00Z", "2026-10-27T01:00:00Z");
}

#[test]
fn what_never_opens_or_never_closes_says_so() {
    let never = schedule("Asia/Shanghai", &[], &json!([]));
    let now = ms("2026-11-30T00:00:00Z");
    assert_eq!(never.state(now), State::Closed { opens_ms: None });
    assert_eq!(never.next_open(now), None);
    let once = json!([{"date": "2026-11-01", "hours": [{"from": "09:00", "to": "10:00"}]}]);
    let over = schedule("Asia/Shanghai", &[], &once);
    assert_eq!(over.state(now), State::Closed { opens_ms: None });
    assert_eq!(
        over.next_open(ms("2026-10-01T00:00:00Z")),
        Some(ms("2026-11-01T01:00:00Z"))
    );
    let days = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ];
    let week = days.map(|day| weekly(day, "00:00", "24:00"));
    let always = schedule("America/New_York", &week, &json!([]));
    assert_eq!(always.state(now), State::Open { until_ms: None });
    let christmas = json!([{"date": "2026-12-25", "hours": []}]);
    let nearly = schedule("America/New_York", &week, &christmas);
    open(&nearly, "2026-11-30T00:00:00Z", "2026-12-25T05:00:00Z");
    closed(&nearly, "2026-12-25T05:00:00Z", "2026-12-26T05:00:00Z");
    // The ends of time are no reason to break.
    for at_ms in [0, i64::MAX as u64, u64::MAX] {
        for schedule in [&never, &over, &always, &nearly] {
            schedule.state(at_ms);
        }
        next_local_midnight(always.zone(), at_ms);
    }
}

/// Case 82: a day's limit begins anew at the place's midnight, whatever the container's zone.
#[rstest]
#[case::shanghai("Asia/Shanghai", "2026-11-30T15:59:50Z", "2026-11-30T16:00:00Z")]
#[case::at_it("Asia/Shanghai", "2026-11-30T16:00:00Z", "2026-12-01T16:00:00Z")]
#[case::at_eight("Asia/Shanghai", "2026-12-01T00:00:00Z", "2026-12-01T16:00:00Z")]
#[case::a_short_day("America/New_York", "2025-03-09T05:00:00Z", "2025-03-10T04:00:00Z")]
#[case::a_long_day("America/New_York", "2025-11-02T04:00:00Z", "2025-11-03T05:00:00Z")]
// 00:00 is skipped: the day begins at 01:00.
#[case::no_midnight("America/Havana", "2025-03-08T12:00:00Z", "2025-03-09T05:00:00Z")]
// 01:00 becomes 00:00: the day began with the first.
#[case::two_midnights("America/Havana", "2025-11-02T05:30:00Z", "2025-11-03T05:00:00Z")]
// 24:00 becomes 23:00.
#[case::two_evenings("Africa/Cairo", "2025-10-30T20:30:00Z", "2025-10-30T22:00:00Z")]
// There is no 30 December.
#[case::no_day("Pacific/Apia", "2011-12-30T08:00:00Z", "2011-12-30T10:00:00Z")]
fn the_next_midnight(#[case] zone: &str, #[case] at: &str, #[case] midnight: &str) {
    let zone = Zone::named(zone).unwrap();
    assert_eq!(next_local_midnight(&zone, ms(at)), ms(midnight));
}

#[test]
fn zones_have_iana_names() {
    for name in ["Asia/Shanghai", "america/new_york", "UTC", "Etc/GMT-8"] {
        assert!(Zone::named(name).is_some(), "{name}");
    }
    for name in [
        "",
        "Shanghai",
        "Etc/Unknown",
        "CST-8",
        "+08:00",
        "Asia/Shanghai ",
        "../etc/passwd",
    ] {
        assert!(Zone::named(name).is_none(), "{name}");
    }
}

/// Each wrong field is named.
#[rstest]
#[case(json!([{"day": "monday", "from": "9:00", "to": "18:00"}]), json!([]), &["/weekly/0/from invalid_time"])]
#[case(json!([{"day": "monday", "from": "24:00", "to": "24:01"}]), json!([]),
    &["/weekly/0/from invalid_time", "/weekly/0/to invalid_time"])]
#[case(json!([{"day": "monday", "from": "09:60", "to": "١٨:00"}]), json!([]),
    &["/weekly/0/from invalid_time", "/weekly/0/to invalid_time"])]
#[case(json!([{"day": "monday", "from": "18:00", "to": "09:00"}]), json!([]), &["/weekly/0/to not_after_from"])]
#[case(json!([{"day": "monday", "from": "09:00", "to": "09:00"}]), json!([]), &["/weekly/0/to not_after_from"])]
#[case(json!([{"day": "monday", "from": "09:00", "to": "09:01", "next_day": true}]), json!([]),
    &["/weekly/0/to too_long"])]
#[case(json!([weekly("monday", "09:00", "12:00"), weekly("monday", "11:59", "13:00")]), json!([]),
    &["/weekly/1 overlap"])]
#[case(json!([weekly("tuesday", "05:00", "07:00"), weekly("monday", "22:00", "06:00")]), json!([]),
    &["/weekly/0 overlap"])]
// Sunday's night into Monday.
#[case(json!([weekly("monday", "05:00", "07:00"), weekly("sunday", "22:00", "06:00")]), json!([]),
    &["/weekly/0 overlap"])]
// A long one covers two.
#[case(json!([weekly("monday", "09:00", "18:00"), weekly("monday", "10:00", "11:00"),
    weekly("monday", "12:00", "13:00")]), json!([]), &["/weekly/1 overlap", "/weekly/2 overlap"])]
#[case(json!([]), json!([{"date": "2026-02-30", "hours": []}]), &["/days/0/date invalid_date"])]
#[case(json!([]), json!([{"date": "2026-2-3", "hours": []}]), &["/days/0/date invalid_date"])]
#[case(json!([]), json!([{"date": "2026-02-03", "hours": []}, {"date": "2026-02-03", "hours": []}]),
    &["/days/1/date duplicate_date"])]
#[case(json!([]), json!([{"date": "2026-02-03", "hours": [{"from": "09:00", "to": "12:00"},
    {"from": "11:00", "to": "12:00"}]}]), &["/days/0/hours/1 overlap"])]
#[case(json!([]), json!([{"date": "2026-02-03", "hours": [], "name": "a\u{7}"}]), &["/days/0/name invalid_name"])]
fn what_is_wrong_is_named(#[case] week: Value, #[case] days: Value, #[case] expected: &[&str]) {
    let mut wrongs = Vec::new();
    let week: Vec<WeeklyHours> = serde_json::from_value(week).unwrap();
    let days: Vec<SpecialDay> = serde_json::from_value(days).unwrap();
    plan::week(&week, &mut wrongs);
    plan::days(&days, &mut wrongs);
    let found: Vec<String> = wrongs
        .iter()
        .map(|wrong| format!("{} {}", wrong.pointer, wrong.code))
        .collect();
    assert_eq!(found, expected);
}

/// Weeks in which clocks are set somewhere, and where.
const PLACES: &[(&str, &str)] = &[
    ("America/New_York", "2025-03-03T05:00:00Z"),
    ("America/New_York", "2025-10-27T04:00:00Z"),
    ("Europe/London", "2025-03-24T00:00:00Z"),
    ("Europe/Berlin", "2026-03-23T00:00:00Z"),
    ("Europe/Berlin", "2026-10-19T00:00:00Z"),
    ("Australia/Lord_Howe", "2025-03-31T00:00:00Z"),
    ("Australia/Lord_Howe", "2025-09-29T00:00:00Z"),
    ("America/Havana", "2025-03-03T05:00:00Z"),
    ("America/Havana", "2025-10-27T04:00:00Z"),
    ("Africa/Cairo", "2025-04-19T00:00:00Z"),
    ("Africa/Cairo", "2025-10-25T00:00:00Z"),
    ("Pacific/Apia", "2011-12-25T00:00:00Z"),
    ("Asia/Shanghai", "2026-11-30T00:00:00Z"),
    ("Asia/Kathmandu", "2026-11-30T00:00:00Z"),
];
const N_MINUTES: usize = 14 * 24 * 60;

/// A day's hours that do not overlap: cut points in pairs.
fn day() -> impl Strategy<Value = Vec<Hours>> {
    let points = prop::collection::btree_set(0u16..288, 0..5);
    points.prop_map(|points: BTreeSet<u16>| {
        let points: Vec<u16> = points.into_iter().map(|point| point * 5).collect();
        let pairs = points.chunks_exact(2);
        pairs
            .map(|pair| Hours {
                from: pair[0],
                to: pair[1],
            })
            .collect()
    })
}

/// Of each minute from two days before the start: whether somebody is at work. The clocks of the place are read for every
/// minute, and nothing else is known of them.
fn minute_by_minute(
    place: &TimeZone,
    start_ms: u64,
    hours_of: impl Fn(Date) -> Vec<Hours>,
) -> Vec<bool> {
    let first_ms = start_ms - 4 * 24 * 60 * MINUTE_MS;
    let count = N_MINUTES + 8 * 24 * 60;
    let mut shown = Vec::with_capacity(count);
    let mut latest = None;
    for minute in 0..count as u64 {
        let at = Timestamp::from_millisecond((first_ms + minute * MINUTE_MS) as i64).unwrap();
        latest = latest.max(Some(place.to_datetime(at)));
        shown.push(latest.unwrap());
    }
    let mut open = vec![false; count];
    let (from, to) = (shown[0].date(), shown[count - 1].date());
    let mut date = from.tomorrow().unwrap();
    while date < to {
        for hours in hours_of(date) {
            let first = |minutes: u16| {
                let time = date.at(0, 0, 0, 0) + Span::new().minutes(i64::from(minutes));
                shown.partition_point(|shown| *shown < time)
            };
            open[first(hours.from)..first(hours.to)].fill(true);
        }
        date = date.tomorrow().unwrap();
    }
    open.split_off(4 * 24 * 60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn it_is_what_the_clocks_show_minute_by_minute(
        place in 0..PLACES.len(),
        week in prop::collection::vec(day(), 7),
        nights in prop::collection::vec(0u16..720, 7),
        special in prop::collection::btree_map(0i64..14, day(), 0..4),
    ) {
        let (zone, start) = PLACES[place];
        let (place, start_ms) = (TimeZone::get(zone).unwrap(), ms(start));
        let first = place.to_datetime(Timestamp::from_millisecond(start_ms as i64).unwrap()).date();
        let mut week: [Vec<Hours>; 7] = week.try_into().unwrap();
        // Some days' last hours go on into the morning.
        for (hours, night) in week.iter_mut().zip(nights) {
            if let Some(last) = hours.last_mut().filter(|_| night % 3 == 0) {
                last.to = (1440 + night).min(last.from + 1440);
            }
        }
        let special: Vec<(Date, Vec<Hours>)> = special
            .into_iter()
            .map(|(n, hours)| (first + Span::new().days(n), hours))
            .collect();
        let schedule = Schedule::new(Zone::named(zone).unwrap(), week.clone(), special.clone());
        let open = minute_by_minute(&place, start_ms, |date| {
            let own = special.iter().find(|(special, _)| *special == date);
            let weekday = date.weekday().to_monday_zero_offset() as usize;
            own.map_or_else(|| week[weekday].clone(), |(_, hours)| hours.clone())
        });
        let mut change: Option<usize> = None;
        for minute in (0..N_MINUTES + 2 * 24 * 60).rev() {
            let at_ms = start_ms + minute as u64 * MINUTE_MS;
            if open[minute] != open[minute + 1] {
                change = Some(minute + 1);
            }
            if minute >= N_MINUTES {
                continue;
            }
            let state = schedule.state(at_ms + 59_999);
            prop_assert_eq!(matches!(state, State::Open { .. }), open[minute], "{} {}", zone, at_ms);
            let next = schedule.next_change(at_ms);
            match change {
                Some(change) => prop_assert_eq!(next, Some(start_ms + change as u64 * MINUTE_MS), "{} {}", zone, at_ms),
                // Beyond what was looked at.
                None => prop_assert!(next.is_none_or(|next| next > start_ms + N_MINUTES as u64 * MINUTE_MS)),
            }
        }
    }
}
