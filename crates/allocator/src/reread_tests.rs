use allocation::{AllocationId, CorpId, MemberId, PoolId, SubjectKey};
use ledger::{Allocation, AllocationState};
use uuid::Uuid;

use super::latest_about;

const T0: u64 = 1_792_000_000_000;

fn member(name: &str) -> MemberId {
    MemberId::new(name).unwrap()
}

fn row(closed: Option<(u64, &str)>) -> Allocation {
    Allocation {
        id: AllocationId(Uuid::from_u128(1)),
        pool: PoolId::new("sales").unwrap(),
        customer: Uuid::from_u128(2),
        subject: SubjectKey::new(&CorpId::new("ww1").unwrap(), "wecom", "wmC001"),
        member: Some(member("ma")),
        holder: Some(member("desk")),
        giver: Some(member("desk")),
        channel: None,
        source: "callback".to_owned(),
        delivery: None,
        request: None,
        state: closed.map_or(AllocationState::Open, |_| AllocationState::Closed),
        epoch: 0,
        decided_ms: T0,
        assigned_ms: Some(T0),
        offer_since_ms: None,
        offer_until_ms: None,
        settled_ms: Some(T0),
        settled_as: Some("done".to_owned()),
        closed_ms: closed.map(|(at_ms, _)| at_ms),
        close_reason: closed.map(|(_, reason)| reason.to_owned()),
        decided_seq: 1,
        changed_seq: 1,
    }
}

/// A relation made in the second of `T0` or so many later.
fn is_news(rows: &[Allocation], name: &str, later: i64) -> bool {
    let made = i64::try_from(T0 / 1000).unwrap() + later;
    super::is_news(latest_about(rows, &member(name)), Some(made), 0)
}

/// Case 36: a relation we never heard of is news, unless it is older than we are.
#[test]
fn an_unknown_relation_is_news_from_our_first_day_on() {
    let made = i64::try_from(T0 / 1000).ok();
    assert!(super::is_news(None, made, T0));
    // Our first day began in the middle of that second.
    assert!(super::is_news(None, made, T0 + 999));
    assert!(!super::is_news(None, made, T0 + 1_000));
    assert!(!super::is_news(None, None, T0));
}

#[test]
fn who_has_gets_or_gives_the_customer_is_accounted_for() {
    let rows = [row(None)];
    for name in ["ma", "desk"] {
        assert!(!is_news(&rows, name, 0));
    }
    assert!(is_news(&rows, "mb", 0));
}

/// Case 37: it was closed because the relation was gone, and it is there.
#[test]
fn a_relation_that_is_there_after_all_is_news() {
    for reason in ["member_deleted_customer", "relation_gone"] {
        let rows = [row(Some((T0 + 100, reason)))];
        assert!(is_news(&rows, "ma", 0), "{reason}");
    }
    // An open one of the same member outranks the closed one.
    let rows = [row(Some((T0 + 100, "relation_gone"))), row(None)];
    assert!(!is_news(&rows, "ma", 0));
}

/// Cases 37 and 80: whom a customer deletes still has him in his list, so that is no sign of his return; nor is it
/// one when a pool let him go or a person closed it.
#[test]
fn a_customer_who_left_is_news_only_when_he_came_again() {
    for reason in ["customer_left", "window_passed", "cancelled"] {
        let rows = [row(Some((T0 + 5_000, reason)))];
        assert!(!is_news(&rows, "ma", 0), "{reason}");
        assert!(is_news(&rows, "ma", 60), "{reason}");
    }
}
