//! Which group is shown, and how long.

use super::*;

#[test]
fn groups_are_filled_one_after_the_other() {
    let mut hall = Hall::new(FillFirst);
    for (name, rank) in [("b", 1), ("a", 1), ("z", 0)] {
        hall.set(name, 2, |group| group.with_rank(rank));
        hall.read(name, vec![], &[]);
    }
    let shown: Vec<_> = (0..7).map(|n| hall.shown(&format!("v{n}"))).collect();
    let shown: Vec<_> = shown.iter().map(Option::as_deref).collect();
    let (z, a, b) = (Some("z"), Some("a"), Some("b"));
    assert_eq!(shown, [z, z, a, a, b, b, None]);
}

#[test]
fn the_group_that_was_shown_longest_ago_is_next() {
    let mut hall = Hall::new(Spread);
    for name in ["a", "b", "c"] {
        hall.group(name, 2);
    }
    let shown: Vec<_> = (0..4)
        .map(|n| hall.shown(&format!("v{n}")).unwrap())
        .collect();
    assert_eq!(shown, ["a", "b", "c", "a"]);
    hall.release("v1");
    assert_eq!(hall.shown("v4").unwrap(), "b");
    assert_eq!(hall.shown("v5").unwrap(), "c");
    assert_eq!(hall.shown("v6").unwrap(), "b");
}

#[test]
fn the_group_with_the_smallest_share_taken_is_next() {
    let mut hall = Hall::new(LeastFilled);
    hall.group("a", 4);
    hall.group("b", 8);
    let mut of = |n: usize| hall.shown(&format!("v{n}")).unwrap();
    let shown: Vec<_> = (0..12).map(&mut of).collect();
    let of_a = shown.iter().filter(|chat| *chat == "a").count();
    assert_eq!((of_a, shown.len()), (4, 12));
    assert_eq!(shown[..4], ["a", "b", "b", "a"]);
    assert_eq!(hall.shown("v12"), None);
}

/// Another strategy takes the groups as they are.
#[test]
fn a_strategy_can_be_changed() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 9);
    hall.group("b", 9);
    hall.shown("v1");
    let set = |version, strategy| {
        SeatOp::SetPool(SetGroupPool {
            pool: pool_id(),
            version,
            strategy,
        })
    };
    let pool = |answer: SeatAnswer| answer.result;
    let changed = SeatResult::Pool(GroupPoolChange::Changed);
    assert_eq!(pool(hall.apply(set(2, Spread))), changed);
    assert_eq!(hall.shown("v2").unwrap(), "b");
    let stale = SeatResult::Pool(GroupPoolChange::Stale { version: 2 });
    assert_eq!(pool(hall.apply(set(2, LeastFilled))), stale);
    assert_eq!(pool(hall.apply(set(1, Spread))), stale);
    let same = SeatResult::Pool(GroupPoolChange::Same);
    assert_eq!(pool(hall.apply(set(3, Spread))), same);
}

#[test]
fn tags_are_preferred_in_their_order() {
    let mut hall = Hall::new(FillFirst);
    hall.tagged("n", 1, &["north"]);
    hall.tagged("s", 1, &["south", "vip"]);
    hall.group("any", 1);
    let mut ask = |visitor: &str, wish: GroupTags| shown(&hall.ask_tags(visitor, wish));
    let first = |name: &str| Some(name.to_owned());
    assert_eq!(ask("v1", tags(&["west"], false)), None);
    assert_eq!(ask("v2", tags(&["vip", "north"], false)), first("s"));
    assert_eq!(ask("v3", tags(&["vip", "north"], false)), first("n"));
    assert_eq!(ask("v4", tags(&["vip", "north"], false)), None);
    // v1 and v4 wait for what this group is not.
    assert_eq!(ask("v5", tags(&["vip", "north"], true)), first("any"));
}

#[test]
fn a_group_that_is_closed_or_was_never_read_is_not_shown() {
    let mut hall = Hall::new(FillFirst);
    hall.set("a", 9, |group| group);
    assert_eq!(hall.count("a"), (0, 0, 9));
    assert_eq!(hall.shown("v1"), None);
    let answer = hall.read("a", vec![stranger("x")], &[]);
    assert_eq!(woken(&answer), [(key("v1"), "a".to_owned())]);
    hall.set("a", 9, |group| group.with_open(false));
    assert_eq!(hall.shown("v2"), None);
    assert_eq!(hall.shown("v1").unwrap(), "a");
    let answer = hall.set("a", 9, |group| group);
    assert_eq!(woken(&answer), [(key("v2"), "a".to_owned())]);
}

/// The buffer is for those who come past us.
#[test]
fn free_is_what_cap_buffer_people_and_holds_leave() {
    let mut hall = Hall::new(FillFirst);
    hall.version = 10;
    let group = SetGroup::new(chat("a"), 10, pool_id(), 5, 2).unwrap();
    hall.apply(SeatOp::SetGroup(group));
    hall.read("a", vec![stranger("x")], &[]);
    assert_eq!(hall.count("a"), (1, 0, 2));
    hall.shown("v1");
    hall.shown("v2");
    assert_eq!(hall.shown("v3"), None);
    let people = ["p1", "p2", "p3"].map(unread);
    let answer = hall.read("a", people.to_vec(), &[]);
    let (count, ..) = counted(&answer);
    // Two who have no name yet may be the two who hold: there is no room, but nothing is known to be above it.
    let expected = GroupCount {
        people: 4,
        held: 2,
        free: 0,
        oversold: 0,
    };
    assert_eq!(count, expected);
    // One goes: there is still no room.
    assert_eq!(woken(&hall.read("a", vec![], &["p1"])), []);
    assert_eq!(woken(&hall.release("v1").1), []);
    assert_eq!(woken(&hall.read("a", vec![], &["p2"])), []);
    let answer = hall.read("a", vec![], &["p3"]);
    assert_eq!(woken(&answer), [(key("v3"), "a".to_owned())]);
}

#[test]
fn a_reload_shows_the_same_group() {
    let mut hall = Hall::new(Spread);
    hall.group("a", 9);
    hall.group("b", 9);
    let first = hall.ask("v1");
    let Reserved::Held { seat, chat, .. } = first else {
        panic!("{first:?}")
    };
    let again = |until_ms| Reserved::Again {
        seat,
        chat: chat.clone(),
        until_ms,
    };
    hall.now += 1000;
    assert_eq!(hall.ask("v1"), again(T0 + HOLD_MS));
    // Over, and not given back yet: it begins anew.
    hall.now = T0 + HOLD_MS;
    assert_eq!(hall.ask("v1"), again(hall.now + HOLD_MS));
    assert_eq!(hall.count("a"), (0, 1, 8));
    hall.read("a", vec![known("p1", &["v1"])], &[]);
    let joined = Reserved::Joined { seat, chat };
    assert_eq!(hall.ask("v1"), joined);
}

/// Others came past us until nobody can scan his way in: who holds a seat there is shown another group, before those who came
/// later, or waits for one.
#[test]
fn a_hold_in_a_full_group_is_of_no_use() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 3);
    hall.shown("v1");
    hall.shown("v2");
    hall.shown("v3");
    hall.shown("later");
    hall.read("a", ["p1", "p2"].map(unread).to_vec(), &[]);
    assert_eq!(hall.shown("v1").unwrap(), "a");
    hall.read("a", vec![unread("p3")], &[]);
    let seat = hall.corp.seat(&name("v1")).unwrap().seat;
    let waits = hall.ask("v1");
    let position = 1;
    let until_ms = hall.now + WAIT_MS;
    let again = false;
    let expected = Reserved::Waiting {
        seat,
        position,
        until_ms,
        again,
    };
    assert_eq!((waits, hall.count("a")), (expected, (3, 2, 0)));
    hall.set("b", 2, |group| group.with_rank(9));
    let answer = hall.read("b", vec![], &[]);
    let b = || "b".to_owned();
    assert_eq!(woken(&answer), [(key("v1"), b()), (key("later"), b())]);
    hall.group("c", 1);
    let asked = hall.asked("v2");
    let (again, answer) = hall.ask_as(asked);
    assert_eq!(shown(&again).unwrap(), "c");
    assert_eq!(woken(&answer), [(key("v2"), "c".to_owned())]);
    assert_eq!(hall.count("a"), (3, 1, 0));
}

#[test]
fn a_seat_is_given_back_once_and_only_if_it_is_meant() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 1);
    hall.shown("v1");
    hall.shown("v2");
    let seat = hall.corp.seat(&name("v1")).unwrap().seat;
    let asked = |seat, end: u64| ReleaseSeat {
        campaign: campaign(),
        subject: key("v1"),
        seat,
        expect_until_ms: Some(end),
        reason: Reason::new("expired").unwrap(),
        memory_ms: MEMORY_MS,
    };
    let end = T0 + HOLD_MS;
    let other = SeatId(Uuid::from_u128(999));
    assert_eq!(hall.release_as(asked(other, end)).0, Released::Stale);
    assert_eq!(hall.release_as(asked(seat, end + 1)).0, Released::Stale);
    let (released, answer) = hall.release_as(asked(seat, end));
    assert_eq!(released, Released::Released { chat: chat("a") });
    assert_eq!(woken(&answer), [(key("v2"), "a".to_owned())]);
    assert_eq!(hall.release_as(asked(seat, end)).0, Released::Unknown);
    assert_eq!(hall.release("nobody").0, Released::Unknown);
    assert_eq!(hall.count("a"), (0, 1, 0));
    // What is confirmed is not given back.
    hall.read("a", vec![known("p2", &["v2"])], &[]);
    assert_eq!(hall.release("v2").0, Released::Stale);
    // A memory is replaced by whatever comes next.
    assert_eq!(hall.state("v1"), Some(SeatState::Expired));
    assert_eq!(hall.shown("v1"), None);
    assert_eq!(hall.state("v1"), Some(SeatState::Waiting));
    assert_eq!(hall.release("v1").0, Released::GaveUp);
    assert_eq!(hall.state("v1"), None);
}
