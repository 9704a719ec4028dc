//! People come and go.

use super::*;

/// Until the group is read nobody's hold is taken for theirs, and free is understated, never overstated.
#[test]
fn who_is_not_identified_takes_room_and_no_hold() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 9);
    hall.shown("v1");
    let answer = hall.read("a", vec![unread("p1")], &[]);
    assert_eq!(counted(&answer).2, []);
    assert_eq!(hall.count("a"), (1, 1, 7));
    let answer = hall.read("a", vec![known("p1", &["v0", "v1"])], &[]);
    let held = (SeatMatch::Unionid, key("v1"), SeatState::Held, None);
    assert_eq!(joined(&answer), Some(held));
    assert_eq!(hall.count("a"), (1, 0, 8));
    // Told again he is who he is.
    let answer = hall.read("a", vec![known("p1", &["v1"]), unread("p1")], &[]);
    assert_eq!(counted(&answer).2, []);
    assert_eq!(hall.count("a"), (1, 0, 8));
}

/// He takes room; a second such read changes nothing, an event makes him one who came.
#[test]
fn who_is_doubted_takes_room_until_an_event_tells_of_him() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 9);
    let is = |hall: &Hall| {
        let people = hall.view("a").people;
        let [one] = &people[..] else {
            panic!("{people:?}")
        };
        (one.pending, one.doubted)
    };
    hall.read("a", vec![doubted("p1")], &[]);
    assert_eq!((hall.count("a"), is(&hall)), ((1, 0, 8), (true, true)));
    hall.read("a", vec![doubted("p1")], &[]);
    assert_eq!((hall.count("a"), is(&hall)), ((1, 0, 8), (true, true)));
    hall.read("a", vec![unread("p1")], &[]);
    assert_eq!((hall.count("a"), is(&hall)), ((1, 0, 8), (true, false)));
    // What is sure stays so.
    hall.read("a", vec![doubted("p1")], &[]);
    assert_eq!(is(&hall), (true, false));
    hall.read("a", vec![stranger("p1")], &[]);
    hall.read("a", vec![doubted("p1")], &[]);
    assert_eq!((hall.count("a"), is(&hall)), ((1, 0, 8), (false, false)));
    hall.read("a", vec![doubted("p2")], &["p1"]);
    assert_eq!((hall.count("a"), is(&hall)), ((1, 0, 8), (true, true)));
    hall.read("a", vec![], &["p2"]);
    assert_eq!(hall.count("a"), (0, 0, 9));
}

#[test]
fn whom_nothing_names_is_found_by_his_way_or_by_the_order_of_time() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 20);
    hall.shown("named");
    hall.ask_unknown("v1", Some("inv1"));
    hall.ask_unknown("v2", Some("inv2"));
    hall.ask_unknown("v3", None);
    hall.ask_unknown("v4", Some("inv2"));
    let held = |how, visitor| Some((how, key(visitor), SeatState::Held, None));
    let mut joins = |person| joined(&hall.read("a", vec![person], &[]));
    assert_eq!(joins(by_way("p1", "inv2")), held(SeatMatch::State, "v2"));
    // Nobody else was shown this way.
    assert_eq!(joins(by_way("p2", "inv9")), None);
    assert_eq!(joins(stranger("p3")), held(SeatMatch::Count, "v1"));
    assert_eq!(joins(stranger("p4")), held(SeatMatch::Count, "v3"));
    let invited = JoinedPerson {
        scanned: false,
        ..stranger("p5")
    };
    assert_eq!(joins(invited), None);
    assert_eq!(joins(by_way("p6", "inv2")), held(SeatMatch::State, "v4"));
    // The hold of one whom his unionid names is never taken for a stranger's.
    assert_eq!(joins(stranger("p7")), None);
    assert_eq!(hall.count("a"), (7, 1, 12));
}

/// The last way that a visitor was shown is the one that he used, if any.
#[test]
fn a_visitor_who_comes_by_another_way_is_found_by_that() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 9);
    hall.ask_unknown("v1", Some("inv1"));
    hall.ask_unknown("v1", Some("inv2"));
    hall.ask_unknown("v1", None);
    assert_eq!(
        joined(&hall.read("a", vec![by_way("p1", "inv1")], &[])),
        None
    );
    let answer = hall.read("a", vec![by_way("p2", "inv2")], &[]);
    let held = (SeatMatch::State, key("v1"), SeatState::Held, None);
    assert_eq!(joined(&answer), Some(held));
}

#[test]
fn a_seat_goes_where_its_person_is() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 2);
    hall.group("b", 2);
    hall.shown("v1");
    hall.shown("v2");
    // Somebody passed a code on: he is in another group than he was shown.
    let answer = hall.read("b", vec![known("p1", &["v1"])], &[]);
    let from = Some("a".to_owned());
    let moved = (SeatMatch::Unionid, key("v1"), SeatState::Held, from.clone());
    assert_eq!(joined(&answer), Some(moved));
    assert_eq!((hall.count("a"), hall.count("b")), ((0, 1, 1), (1, 0, 1)));
    // Too late, and elsewhere.
    hall.release("v2");
    let answer = hall.read("b", vec![known("p2", &["v2"])], &[]);
    let late = (SeatMatch::Unionid, key("v2"), SeatState::Expired, from);
    assert_eq!(joined(&answer), Some(late));
    assert_eq!(hall.state("v2"), Some(SeatState::Late));
    // In a second group he just takes room.
    let answer = hall.read("a", vec![known("p2", &["v2"])], &[]);
    let there = Some("in b".to_owned());
    let already = (SeatMatch::Unionid, key("v2"), SeatState::Late, there);
    assert_eq!(joined(&answer), Some(already));
    // Who waited and came another way waits no longer.
    hall.shown("v3");
    assert_eq!(hall.shown("v4"), None);
    let answer = hall.read("a", vec![known("p4", &["v4"])], &[]);
    let waited = (SeatMatch::Unionid, key("v4"), SeatState::Waiting, None);
    assert_eq!(joined(&answer), Some(waited));
    assert_eq!(hall.count("a"), (2, 1, 0));
}

/// Of several seats of one person the one of this group counts, then another one, and one that is taken at last.
#[test]
fn of_several_seats_the_one_of_the_group_is_meant() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 1);
    hall.group("b", 1);
    hall.shown("v1");
    hall.shown("v2");
    let mut joins = |chat: &str, person: &str| {
        let answer = hall.read(chat, vec![known(person, &["v1", "v2"])], &[]);
        joined(&answer).map(|(_, subject, _, from)| (subject, from))
    };
    assert_eq!(joins("b", "p1"), Some((key("v2"), None)));
    let from_a = Some("a".to_owned());
    assert_eq!(joins("b", "p2"), Some((key("v1"), from_a)));
    let in_b = Some("in b".to_owned());
    assert_eq!(joins("a", "p3"), Some((key("v1"), in_b)));
}

#[test]
fn a_memory_that_is_over_explains_nobody() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 9);
    hall.shown("v1");
    hall.release("v1");
    hall.now += MEMORY_MS;
    let answer = hall.read("a", vec![known("p1", &["v1"])], &[]);
    assert_eq!(joined(&answer), None);
}

#[test]
fn who_leaves_frees_a_seat() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 1);
    hall.shown("v1");
    hall.read("a", vec![known("p1", &["v1"])], &[]);
    assert_eq!(hall.shown("v2"), None);
    let answer = hall.read("a", vec![], &["p1", "nobody"]);
    let (count, left, _) = counted(&answer);
    assert_eq!((count.people, count.held), (0, 0));
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].subject, key("v1"));
    assert_eq!(woken(&answer), [(key("v2"), "a".to_owned())]);
    assert_eq!(hall.state("v1"), None);
    assert_eq!(hall.count("a"), (0, 1, 0));
    // He may ask again, behind whoever came meanwhile.
    assert_eq!(hall.shown("v1"), None);
}

/// A change counts if it follows what is known; else the group is to be read.
#[test]
fn changes_follow_one_another() {
    let mut hall = Hall::new(FillFirst);
    hall.set("a", 9, |group| group);
    let stale = |version: Option<&str>| {
        SeatResult::Confirmed(SeatsConfirmed::Stale {
            version: version.map(|version| version.parse().unwrap()),
        })
    };
    let from = |text: &str| Some(text.parse().unwrap());
    let answer = hall.change("a", from("v1"), "v2", vec![unread("p1")], &[]);
    assert_eq!(answer.result, stale(None));
    hall.change("a", None, "v1", vec![stranger("p1")], &[]);
    assert_eq!(hall.count("a"), (1, 0, 8));
    let answer = hall.change("a", None, "v9", vec![stranger("p9")], &[]);
    assert_eq!(answer.result, stale(Some("v1")));
    let answer = hall.change("a", from("v2"), "v3", vec![unread("p9")], &[]);
    assert_eq!(answer.result, stale(Some("v1")));
    hall.change("a", from("v1"), "v2", vec![unread("p2")], &[]);
    // Once more, and what a read found that began before it.
    hall.change("a", from("v1"), "v2", vec![unread("p2")], &[]);
    let p2 = vec![known("p2", &["v"])];
    let answer = hall.change("a", from("v1"), "v2", p2, &[]);
    assert_eq!(joined(&answer), None);
    assert_eq!(hall.count("a"), (2, 0, 7));
    // The audit has read everything.
    let force = SeatOp::Confirm(ConfirmSeats {
        chat: chat("a"),
        from: None,
        version: "v7".parse().unwrap(),
        force: true,
        left: vec![PersonKey(key("p1"))],
        joined: vec![stranger("p3"), stranger("p4")],
    });
    hall.apply(force);
    assert_eq!(hall.view("a").seen, from("v7"));
    assert_eq!(hall.count("a"), (3, 0, 6));
    let answer = hall.change("gone", None, "v1", vec![], &[]);
    let unknown = SeatResult::Confirmed(SeatsConfirmed::Unknown);
    assert_eq!(answer.result, unknown);
}
