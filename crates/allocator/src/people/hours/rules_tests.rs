use allocation::{MemberId, Reason, ScheduleId};
use ledger::{Leave, MemberHours, PresenceMode, Said, SaidWhat};
use uuid::Uuid;

use super::{
    leases::{Refused, admit, due},
    rules::{Facts, May, Standing, Why},
    schedule::{Hours, Schedule},
    zone::Zone,
};

const HOUR: u64 = 3_600_000;
const LEASE: u64 = 90_000;
/// A day that begins at 0, in UTC, with hours from nine to five.
const OPENS: u64 = 9 * HOUR;
const CLOSES: u64 = 17 * HOUR;
const NEXT_DAY: u64 = 33 * HOUR;

fn nine_to_five() -> Schedule {
    let hours = || {
        vec![Hours {
            from: 9 * 60,
            to: 17 * 60,
        }]
    };
    Schedule::new(
        Zone::named("UTC").unwrap(),
        std::array::from_fn(|_| hours()),
        [],
    )
}

fn member() -> MemberHours {
    MemberHours {
        member: MemberId::new("ma").unwrap(),
        blocked: None,
        schedule: Some(ScheduleId::new("s").unwrap()),
        mode: PresenceMode::Auto,
        said: None,
        leaves: Vec::new(),
    }
}

fn said(what: SaidWhat, until_ms: Option<u64>) -> Option<Said> {
    Some(Said {
        what,
        until_ms,
        reason: None,
    })
}

fn leave(from_ms: u64, to_ms: u64) -> Leave {
    Leave {
        id: Uuid::nil(),
        from_ms,
        to_ms,
        reason: Reason::new("annual_leave").unwrap(),
        created_ms: 0,
    }
}

fn at(hours: &MemberHours, schedule: Option<&Schedule>, at_ms: u64) -> (May, Why, Option<u64>) {
    let facts = Facts { hours, schedule };
    let Standing { may, why, until_ms } = facts.standing(at_ms);
    (may, why, until_ms)
}

#[test]
fn within_his_hours_he_is_on_by_himself_or_by_heartbeat() {
    let (schedule, mut hours) = (nine_to_five(), member());
    let at = |hours: &MemberHours, ms| at(hours, Some(&schedule), ms);
    assert_eq!(
        at(&hours, OPENS - 1),
        (May::No, Why::OutsideHours, Some(OPENS))
    );
    assert_eq!(at(&hours, OPENS), (May::On, Why::WithinHours, Some(CLOSES)));
    assert_eq!(
        at(&hours, CLOSES),
        (May::No, Why::OutsideHours, Some(NEXT_DAY))
    );
    hours.mode = PresenceMode::Manual;
    assert_eq!(at(&hours, OPENS), (May::BeOn, Why::Heartbeat, Some(CLOSES)));
    hours.said = said(SaidWhat::On, Some(CLOSES));
    assert_eq!(at(&hours, OPENS), (May::On, Why::SaidOn, Some(CLOSES)));
    // It does not reach into the next day, whatever it said.
    hours.said = said(SaidWhat::On, Some(CLOSES + HOUR));
    assert_eq!(
        at(&hours, CLOSES),
        (May::No, Why::OutsideHours, Some(NEXT_DAY))
    );
    assert_eq!(
        at(&hours, NEXT_DAY),
        (May::BeOn, Why::Heartbeat, Some(NEXT_DAY + 8 * HOUR))
    );
    hours.schedule = None;
    hours.said = None;
    assert_eq!(
        super::rules_tests::at(&hours, None, 0),
        (May::BeOn, Why::Heartbeat, None)
    );
}

#[test]
fn a_pause_stands_an_override_stands_outside_and_a_leave_beats_both() {
    let (schedule, mut hours) = (nine_to_five(), member());
    let at = |hours: &MemberHours, ms| at(hours, Some(&schedule), ms);
    hours.said = said(SaidWhat::Off, Some(OPENS + HOUR));
    assert_eq!(
        at(&hours, OPENS),
        (May::No, Why::Paused, Some(OPENS + HOUR))
    );
    assert_eq!(
        at(&hours, OPENS + HOUR),
        (May::On, Why::WithinHours, Some(CLOSES))
    );
    hours.said = said(SaidWhat::Off, None);
    assert_eq!(at(&hours, NEXT_DAY), (May::No, Why::Paused, None));
    hours.said = said(SaidWhat::Override, Some(20 * HOUR));
    assert_eq!(
        at(&hours, 18 * HOUR),
        (May::On, Why::Override, Some(20 * HOUR))
    );
    assert_eq!(
        at(&hours, 20 * HOUR),
        (May::No, Why::OutsideHours, Some(NEXT_DAY))
    );
    hours.leaves = vec![leave(19 * HOUR, 21 * HOUR), leave(21 * HOUR, 40 * HOUR)];
    assert_eq!(
        at(&hours, 18 * HOUR),
        (May::On, Why::Override, Some(19 * HOUR))
    );
    // Leaves that touch are one.
    assert_eq!(
        at(&hours, 19 * HOUR),
        (May::No, Why::Leave, Some(40 * HOUR))
    );
    hours.said = None;
    assert_eq!(
        at(&hours, 40 * HOUR),
        (May::On, Why::WithinHours, Some(41 * HOUR))
    );
    hours.blocked = Some(Reason::new("left").unwrap());
    assert_eq!(at(&hours, 40 * HOUR), (May::No, Why::Blocked, None));
}

#[test]
fn the_next_change_is_of_on_and_off() {
    let (schedule, mut hours) = (nine_to_five(), member());
    hours.said = said(SaidWhat::Off, Some(18 * HOUR));
    hours.leaves = vec![leave(20 * HOUR, 50 * HOUR)];
    let facts = Facts {
        hours: &hours,
        schedule: Some(&schedule),
    };
    // Paused, outside his hours, on leave, outside again: until the third day.
    assert_eq!(facts.next_open(OPENS), Some(57 * HOUR));
    assert_eq!(facts.next_change(57 * HOUR), Some(65 * HOUR));
    assert_eq!(facts.next_open(57 * HOUR), None);
    hours.said = said(SaidWhat::Off, None);
    hours.leaves.clear();
    let facts = Facts {
        hours: &hours,
        schedule: Some(&schedule),
    };
    assert_eq!(facts.next_open(OPENS), None);
}

#[test]
fn leases_are_short_and_end_with_the_hours() {
    let standing = |may, until_ms| Standing {
        may,
        why: Why::WithinHours,
        until_ms,
    };
    let sent = |standing, lease| {
        due(standing, lease, OPENS, LEASE).map(|change| (change.lease_until_ms, change.turned))
    };
    let on = standing(May::On, Some(CLOSES));
    assert_eq!(sent(on, 0), Some((OPENS + LEASE, true)));
    assert_eq!(sent(on, OPENS), Some((OPENS + LEASE, true)));
    assert_eq!(sent(on, OPENS + LEASE / 2), None);
    assert_eq!(
        sent(on, OPENS + LEASE / 2 - 1),
        Some((OPENS + LEASE, false))
    );
    // One that a heartbeat made long before he had hours.
    assert_eq!(sent(on, OPENS + HOUR), Some((OPENS + LEASE, false)));
    let soon = standing(May::On, Some(OPENS + 10));
    assert_eq!(sent(soon, 0), Some((OPENS + 10, true)));
    assert_eq!(sent(soon, OPENS + 10), None);
    assert_eq!(sent(soon, OPENS + LEASE), Some((OPENS + 10, false)));
    let off = standing(May::No, None);
    assert_eq!((sent(off, 0), sent(off, OPENS)), (None, None));
    assert_eq!(sent(off, OPENS + 1), Some((0, true)));
    let heartbeat = standing(May::BeOn, Some(OPENS + HOUR));
    assert_eq!(
        (sent(heartbeat, 0), sent(heartbeat, OPENS + HOUR)),
        (None, None)
    );
    assert_eq!(
        sent(heartbeat, OPENS + HOUR + 1),
        Some((OPENS + HOUR, false))
    );
}

#[test]
fn heartbeats_count_within_hours() {
    let (schedule, mut hours) = (nine_to_five(), member());
    let admit = |hours: &MemberHours, wanted_ms, now_ms| {
        let facts = Facts {
            hours,
            schedule: Some(&schedule),
        };
        admit(&facts, wanted_ms, now_ms, LEASE)
            .map_err(|refused| (refused.code(), refused.next_open_ms()))
    };
    // On by himself: as long as the loop would, and no goodbye.
    assert_eq!(admit(&hours, OPENS + HOUR, OPENS), Ok(OPENS + LEASE));
    assert_eq!(admit(&hours, OPENS + 1, CLOSES - 5), Ok(CLOSES));
    assert_eq!(admit(&hours, 0, OPENS), Err((Refused::KeptOn.code(), None)));
    assert_eq!(
        admit(&hours, CLOSES + HOUR, CLOSES),
        Err(("outside_hours", Some(NEXT_DAY)))
    );
    assert_eq!(admit(&hours, 0, CLOSES), Ok(0));
    hours.mode = PresenceMode::Manual;
    assert_eq!(admit(&hours, OPENS + HOUR, OPENS), Ok(OPENS + HOUR));
    assert_eq!(admit(&hours, CLOSES + HOUR, OPENS), Ok(CLOSES));
    assert_eq!(admit(&hours, 0, OPENS), Ok(0));
    hours.said = said(SaidWhat::Off, Some(OPENS + HOUR));
    assert_eq!(
        admit(&hours, CLOSES, OPENS),
        Err(("paused", Some(OPENS + HOUR)))
    );
    hours.leaves = vec![leave(0, 10 * HOUR)];
    assert_eq!(
        admit(&hours, CLOSES, OPENS),
        Err(("on_leave", Some(10 * HOUR)))
    );
}
