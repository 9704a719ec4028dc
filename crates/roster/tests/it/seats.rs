//! The operations on seats as they are called, their bounds, and what can be looked at.

use allocation::model::{GroupPoolView, SeatPlace};
use allocation::{
    ConfirmSeats, FillStrategy, GroupChange, GroupPoolChange, GroupTags, JoinedAs, JoinedPerson,
    MAX_CANDIDATES, MAX_GROUPS, MAX_PEOPLE, MAX_RELEASES, MAX_RESERVES, Op, ReleaseSeat, Released,
    ReserveSeat, Reserved, SeatCandidate, SeatId, SeatMatch, SeatName, SeatOp, SeatResult,
    SeatState, SeatsConfirmed, SetGroup, SetGroupPool,
};
use roster::Error;
use uuid::Uuid;

use crate::seat_steps::{campaign, chat, group_pool, person};
use crate::support::*;

pub(crate) const HOLD: u64 = 600_000;
pub(crate) const WAIT: u64 = 60_000;

pub(crate) fn seat_name(visitor: &str) -> SeatName {
    SeatName {
        campaign: campaign("spring"),
        subject: subject(visitor),
    }
}

/// A seat id for each visitor, so that tests can name it.
pub(crate) fn reserve(visitor: &str) -> ReserveSeat {
    let id = subject(&format!("seat of {visitor}"));
    ReserveSeat {
        seat: SeatId(Uuid::from_bytes(*id.as_bytes())),
        campaign: campaign("spring"),
        pool: group_pool("g"),
        subject: subject(visitor),
        anonymous: false,
        via: None,
        tags: GroupTags::any(),
        hold_ms: HOLD,
        wait_ms: WAIT,
    }
}

pub(crate) fn release(visitor: &str) -> ReleaseSeat {
    let ReserveSeat {
        campaign,
        subject,
        seat,
        ..
    } = reserve(visitor);
    ReleaseSeat {
        campaign,
        subject,
        seat,
        expect_until_ms: None,
        reason: reason("expired"),
        memory_ms: HOUR,
    }
}

/// Somebody whose unionid is that of a visitor.
pub(crate) fn joins(visitor: &str) -> JoinedPerson {
    JoinedPerson {
        person: person(visitor),
        identified: true,
        doubted: false,
        scanned: true,
        state: None,
        names: vec![SeatCandidate {
            how: SeatMatch::Unionid,
            campaign: campaign("spring"),
            subject: subject(visitor),
        }],
    }
}

pub(crate) fn change(
    name: &str,
    from: Option<&str>,
    version: &str,
    joined: Vec<JoinedPerson>,
) -> ConfirmSeats {
    ConfirmSeats {
        chat: chat(name),
        from: from.map(|from| from.parse().unwrap()),
        version: version.parse().unwrap(),
        force: false,
        left: Vec::new(),
        joined,
    }
}

pub(crate) fn set_pool(strategy: FillStrategy) -> SetGroupPool {
    SetGroupPool {
        pool: group_pool("g"),
        version: 1,
        strategy,
    }
}

pub(crate) fn set_group(name: &str, version: u64, cap: u32) -> SetGroup {
    SetGroup::new(chat(name), version, group_pool("g"), cap, 0).unwrap()
}

/// A pool of groups that were read and have nobody in them.
pub(crate) async fn stand(redis: &Redis, groups: &[(&str, u32)]) {
    let pool = set_pool(FillStrategy::LeastFilled);
    redis.set_group_pool(pool, "", Some(T0)).await.unwrap();
    for (name, cap) in groups {
        let group = set_group(name, 1, *cap);
        redis.set_group(group, "", Some(T0)).await.unwrap();
        let read = change(name, None, "v1", Vec::new());
        redis.confirm_seats(read, "", Some(T0)).await.unwrap();
    }
}

#[tokio::test]
async fn what_can_be_looked_at_is_what_the_operations_did() {
    let (_, redis) = open_corp().await;
    let now = Some(T0);
    stand(&redis, &[("a", 2)]).await;
    assert_eq!(redis.first_seat_end().await.unwrap(), None);
    let asked: Vec<_> = (0..5).map(|n| reserve(&format!("v{n}"))).collect();
    let applied = redis.reserve_seats(asked, "{}", now).await.unwrap();
    // Held seats fill it for others, not for those who hold them.
    assert!(!redis.is_full(&chat("a")).await.unwrap());
    assert!(redis.is_full(&chat("nowhere")).await.unwrap());
    let until_ms = T0 + HOLD;
    let seat = reserve("v0").seat;
    let held = Reserved::Held {
        seat,
        chat: chat("a"),
        until_ms,
    };
    assert_eq!(applied.answer[0], held);
    let waits = Reserved::Waiting {
        seat: reserve("v4").seat,
        position: 3,
        until_ms: T0 + WAIT,
        again: false,
    };
    assert_eq!(applied.answer[4], waits);
    let view = redis.seat(&seat_name("v0")).await.unwrap().unwrap();
    assert_eq!((view.seat, view.name()), (seat, seat_name("v0")));
    let place = SeatPlace::Held {
        chat: chat("a"),
        until_ms,
        anonymous: false,
        via: None,
    };
    assert_eq!(view.place, place);
    assert_eq!(redis.seat(&seat_name("nobody")).await.unwrap(), None);
    let position = |visitor| {
        let (redis, name) = (redis.clone(), seat_name(visitor));
        async move { redis.waiting_position(&name).await.unwrap() }
    };
    assert_eq!(position("v4").await, Some(3));
    assert_eq!(position("v0").await, None);
    let pool = GroupPoolView {
        pool: group_pool("g"),
        version: 1,
        strategy: FillStrategy::LeastFilled,
        free: 0,
        waiting: 3,
        available: 0,
    };
    let read = redis.group_pool(&group_pool("g")).await.unwrap();
    assert_eq!(read, Some(pool));
    assert_eq!(redis.group_pool(&group_pool("h")).await.unwrap(), None);
    assert_eq!(redis.first_seat_end().await.unwrap(), Some(until_ms));
    assert_eq!(redis.first_place_end().await.unwrap(), Some(T0 + WAIT));

    assert_eq!(redis.seats_due(until_ms - 1, 9).await.unwrap(), []);
    let due = redis.seats_due(until_ms, 9).await.unwrap();
    let due: Vec<_> = due.iter().map(|view| view.seat).collect();
    let both = ["v0", "v1"].map(|visitor| reserve(visitor).seat);
    assert_eq!(due.len(), 2);
    assert!(both.iter().all(|seat| due.contains(seat)));
    assert_eq!(redis.seats_due(until_ms, 1).await.unwrap().len(), 1);

    let released = redis
        .release_seats(vec![release("v0"), release("v3")], "", now)
        .await
        .unwrap();
    let back = Released::Released { chat: chat("a") };
    assert_eq!(released.answer, [back, Released::GaveUp]);
    let woken: Vec<_> = released.woken.iter().map(|woken| woken.seat).collect();
    assert_eq!((woken, released.more), (vec![reserve("v2").seat], false));

    let join = change("a", Some("v1"), "v2", vec![joins("v1"), joins("v0")]);
    let applied = redis.confirm_seats(join, "", now).await.unwrap();
    let SeatsConfirmed::Counted { joined, count, .. } = applied.answer else {
        panic!("{applied:?}")
    };
    let was: Vec<_> = joined
        .iter()
        .map(|joining| match &joining.joined {
            JoinedAs::Seat { was, .. } => *was,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(was, [SeatState::Held, SeatState::Expired]);
    assert_eq!((count.people, count.held, count.oversold), (2, 1, 1));
    let group = redis.group(&chat("a")).await.unwrap().unwrap();
    assert_eq!(group.config, set_group("a", 1, 2));
    assert_eq!(group.seen, Some("v2".parse().unwrap()));
    let mut seats: Vec<_> = group.people.into_iter().map(|view| view.seat).collect();
    seats.sort();
    let mut expected = ["v0", "v1"].map(|visitor| Some(seat_name(visitor)));
    expected.sort();
    assert_eq!((seats, group.count), (expected.to_vec(), count));
    assert_eq!(redis.group(&chat("b")).await.unwrap(), None);
    assert!(redis.is_full(&chat("a")).await.unwrap(), "two of two");
    let of = redis.groups_of(&group_pool("g")).await.unwrap();
    assert_eq!(of, [chat("a")]);

    let applied = redis.forget_seats(9, "", Some(T0 + WAIT)).await.unwrap();
    assert_eq!((applied.answer, applied.lapsed.len()), (1, 1));
    let applied = redis.wake_seats(group_pool("g"), 9, "", now).await.unwrap();
    assert_eq!((applied.woken, applied.more), (vec![], false));
    let applied = redis.remove_group(chat("a"), 2, "", now).await.unwrap();
    let (change, ended) = applied.answer;
    assert_eq!((change, ended.len()), (GroupChange::Changed, 3));
    assert!(redis.is_full(&chat("a")).await.unwrap(), "it was removed");
    assert_eq!(redis.group(&chat("a")).await.unwrap(), None);
    let removed = redis.remove_group_pool(group_pool("g"), 2, "", now).await;
    assert_eq!(removed.unwrap().answer, GroupPoolChange::Changed);
    assert_eq!(redis.group_pool(&group_pool("g")).await.unwrap(), None);
}

#[tokio::test]
async fn more_than_one_call_can_carry_is_refused_before_it_is_made() {
    let (_, redis) = open_corp().await;
    stand(&redis, &[("a", 500)]).await;
    let seq = redis.status().await.unwrap().seq;
    let asked = vec![reserve("v"); MAX_RESERVES + 1];
    let refused = redis.reserve_seats(asked, "", Some(T0)).await;
    assert!(matches!(refused, Err(Error::TooMany)));
    let asked = vec![release("v"); MAX_RELEASES + 1];
    let refused = redis.release_seats(asked, "", Some(T0)).await;
    assert!(matches!(refused, Err(Error::TooMany)));
    let people = vec![joins("v"); MAX_PEOPLE + 1];
    let many = change("a", Some("v1"), "v2", people);
    let refused = redis.confirm_seats(many, "", Some(T0)).await;
    assert!(matches!(refused, Err(Error::TooMany)));
    let mut one = joins("v");
    one.names = vec![one.names[0].clone(); MAX_CANDIDATES + 1];
    let many = change("a", Some("v1"), "v2", vec![one]);
    let refused = redis.confirm_seats(many, "", Some(T0)).await;
    assert!(matches!(refused, Err(Error::TooMany)));
    assert_eq!(redis.status().await.unwrap().seq, seq);
}

/// The largest calls: everybody of a group comes at once, goes, and the group with him.
#[tokio::test]
async fn a_whole_group_comes_and_goes_in_one_call() {
    let mut twin = Twin::new().await;
    twin.seats(SeatOp::SetPool(set_pool(FillStrategy::Spread)))
        .await;
    twin.seats(SeatOp::SetGroup(set_group("a", 1, 2_000))).await;
    twin.seats(SeatOp::Confirm(change("a", None, "v0", Vec::new())))
        .await;
    let visitors: Vec<String> = (0..MAX_PEOPLE).map(|n| format!("v{n}")).collect();
    for part in visitors[..600].chunks(MAX_RESERVES) {
        let asked = part.iter().map(|visitor| reserve(visitor));
        twin.seats(SeatOp::Reserve(asked.collect())).await;
    }
    let people = visitors.iter().map(|visitor| {
        let mut person = joins(visitor);
        // The right one comes last.
        person.names.splice(
            0..0,
            (1..MAX_CANDIDATES).map(|n| SeatCandidate {
                how: SeatMatch::ExternalId,
                campaign: campaign("other"),
                subject: subject(&format!("{visitor} {n}")),
            }),
        );
        person
    });
    let read = change("a", Some("v0"), "v1", people.collect());
    twin.seats(SeatOp::Confirm(read)).await;
    twin.compare().await;
    let group = twin.redis.group(&chat("a")).await.unwrap().unwrap();
    assert_eq!((group.count.people, group.count.held), (1_000, 0));
    let seats = group.people.iter().filter(|view| view.seat.is_some());
    assert_eq!(seats.count(), 600);
    let left = ConfirmSeats {
        left: visitors[..500].iter().map(|name| person(name)).collect(),
        ..change("a", Some("v1"), "v2", Vec::new())
    };
    twin.seats(SeatOp::Confirm(left)).await;
    for part in visitors[..500].chunks(MAX_RESERVES) {
        let asked = part.iter().map(|visitor| reserve(visitor));
        twin.seats(SeatOp::Reserve(asked.collect())).await;
    }
    let released = visitors[..MAX_RELEASES].iter();
    let released = released.map(|visitor| release(visitor)).collect();
    twin.seats(SeatOp::Release(released)).await;
    twin.compare().await;
    let answer = twin
        .seats(SeatOp::RemoveGroup {
            chat: chat("a"),
            version: 2,
        })
        .await;
    let SeatResult::Removed { ended, .. } = answer.result else {
        panic!("{answer:?}")
    };
    assert_eq!(ended.len(), 300 + 100);
    twin.compare().await;
}

/// A pool of the largest size can be told to fill in another way, and takes no group more.
#[tokio::test]
async fn ten_thousand_groups_are_one_pool() {
    let mut twin = Twin::new().await;
    twin.seats(SeatOp::SetPool(set_pool(FillStrategy::FillFirst)))
        .await;
    for n in 0..MAX_GROUPS {
        let name = format!("c{n}");
        for op in [
            SeatOp::SetGroup(set_group(&name, 1, 2)),
            SeatOp::Confirm(change(&name, None, "v1", Vec::new())),
        ] {
            let op = Op::Seats(op);
            twin.redis.apply(&op, "", Some(twin.now)).await.unwrap();
            twin.model.apply(&op, twin.now);
        }
    }
    let full = SeatResult::Group(GroupChange::Full);
    let one_more = SeatOp::SetGroup(set_group("more", 1, 2));
    assert_eq!(twin.seats(one_more).await.result, full);
    let other = SetGroupPool {
        version: 2,
        ..set_pool(FillStrategy::LeastFilled)
    };
    twin.seats(SeatOp::SetPool(other)).await;
    let asked = (0..MAX_RESERVES).map(|n| reserve(&format!("v{n}")));
    twin.seats(SeatOp::Reserve(asked.collect())).await;
    twin.compare().await;
}

/// What is compared with the configuration, and whether anybody of a group is known, is in one read of many.
#[tokio::test]
async fn standings_say_which_configuration_is_in_force() {
    let (_, redis) = open_corp().await;
    stand(&redis, &[("read", 2)]).await;
    for name in ["unread", "gone"] {
        let group = set_group(name, 4, 2);
        redis.set_group(group, "", Some(T0)).await.unwrap();
    }
    redis
        .remove_group(chat("gone"), 5, "", Some(T0))
        .await
        .unwrap();
    let names = ["read", "unread", "gone", "never"].map(chat);
    let standings = redis.group_standings(&names).await.unwrap();
    let standing = |version, removed, seen: Option<&str>| {
        let seen = seen.map(|seen| seen.parse().unwrap());
        Some(roster::GroupStanding {
            version,
            removed,
            seen,
        })
    };
    assert_eq!(
        standings,
        [
            standing(1, false, Some("v1")),
            standing(4, false, None),
            standing(5, true, None),
            None
        ]
    );
    let pools = ["g", "never"].map(group_pool);
    let versions = redis.group_pool_versions(&pools).await.unwrap();
    let version = versions[0].unwrap();
    assert_eq!((version.version, version.removed), (1, false));
    assert_eq!(versions[1], None);
}
