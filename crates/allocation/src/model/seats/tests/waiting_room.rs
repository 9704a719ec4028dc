//! Who waits, and who is served next.

use super::*;

#[test]
fn who_waits_is_served_in_the_order_of_coming() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 2);
    for visitor in ["v1", "v2"] {
        assert!(hall.shown(visitor).is_some());
    }
    let asked: Vec<_> = (3..7).map(|n| hall.ask(&format!("v{n}"))).collect();
    let positions: Vec<_> = asked.iter().map(position).collect();
    assert_eq!(positions, [1, 2, 3, 4]);
    hall.release("v3");
    let again = hall.ask("v5");
    assert_eq!(position(&again), 2);
    assert!(matches!(again, Reserved::Waiting { again: true, .. }));
    let (_, answer) = hall.release("v1");
    assert_eq!(woken(&answer), [(key("v4"), "a".to_owned())]);
    assert_eq!(position(&hall.ask("v5")), 1);
    assert!(!hall.more);
}

/// Who does not ask any more is passed over, and forgotten.
#[test]
fn a_place_in_the_waiting_room_ends() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 1);
    for visitor in ["v1", "v2", "v3"] {
        hall.shown(visitor);
    }
    hall.now += WAIT_MS - 1;
    hall.ask("v3");
    hall.now += 1;
    let (_, answer) = hall.release("v1");
    assert_eq!(woken(&answer), [(key("v3"), "a".to_owned())]);
    let lapsed: Vec<_> = answer.lapsed.iter().map(|ended| ended.subject).collect();
    assert_eq!(lapsed, [key("v2")]);
    assert_eq!(hall.state("v2"), None);
    // Whoever was not passed over yet keeps his place when he asks.
    hall.ask("v4");
    hall.now += WAIT_MS;
    assert_eq!(position(&hall.ask("v4")), 1);
    hall.now += WAIT_MS;
    let answer = hall.apply(SeatOp::Forget { limit: 9 });
    assert_eq!(answer.result, SeatResult::Forgotten { taken: 1 });
    assert_eq!(answer.lapsed.len(), 1);
    hall.now += MEMORY_MS;
    let answer = hall.apply(SeatOp::Forget { limit: 9 });
    assert_eq!(answer.result, SeatResult::Forgotten { taken: 1 });
    assert_eq!((answer.lapsed, hall.state("v1")), (vec![], None));
}

/// Who wants what nobody has holds up nobody; who wants what is free comes before whoever comes later.
#[test]
fn nobody_is_overtaken_by_one_for_whom_the_same_groups_are_right() {
    let mut hall = Hall::new(FillFirst);
    hall.tagged("n", 1, &["north"]);
    hall.shown("v1");
    hall.ask_tags("south", tags(&["south"], false));
    hall.ask_tags("north", tags(&["north"], false));
    hall.ask_tags("any", GroupTags::any());
    let (_, answer) = hall.release("v1");
    assert_eq!(woken(&answer), [(key("north"), "n".to_owned())]);
    hall.tagged("s", 3, &["south"]);
    assert_eq!(hall.state("south"), Some(SeatState::Held));
    assert_eq!(hall.state("any"), Some(SeatState::Held));
    assert_eq!(hall.shown("later").unwrap(), "s");
}

/// Whoever asks again for something else keeps his turn there.
#[test]
fn one_who_waits_may_want_something_else() {
    let mut hall = Hall::new(FillFirst);
    hall.tagged("n", 1, &["north"]);
    hall.shown("v1");
    hall.ask_tags("first", tags(&["south"], false));
    hall.ask_tags("second", tags(&["north"], false));
    let again = hall.ask_tags("first", tags(&["north"], false));
    assert_eq!(position(&again), 1);
    let (_, answer) = hall.release("v1");
    assert_eq!(woken(&answer), [(key("first"), "n".to_owned())]);
}

/// One call serves so many, and says that there are more; who comes meanwhile waits behind them.
#[test]
fn many_who_wait_are_served_in_several_calls() {
    let mut hall = Hall::new(FillFirst);
    for n in 0..200 {
        hall.ask(&format!("v{n}"));
    }
    hall.set("a", 199, |group| group);
    let answer = hall.read("a", vec![], &[]);
    assert_eq!((answer.woken.len(), hall.more), (64, true));
    let asked = hall.asked("late");
    let (late, answer) = hall.ask_as(asked);
    assert_eq!(position(&late), 200 - 128 + 1);
    assert_eq!((answer.woken.len(), hall.more), (64, true));
    let wake = |limit| SeatOp::Wake {
        pool: pool_id(),
        limit,
    };
    assert_eq!(hall.apply(wake(3)).woken.len(), 3);
    assert!(hall.more);
    let rest: Vec<_> = hall.apply(wake(100)).woken;
    assert_eq!((rest.len(), hall.more), (64, true));
    assert_eq!(rest[0].subject, key("v131"));
    assert_eq!(hall.apply(wake(100)).woken.len(), 4);
    assert!(!hall.more);
    assert_eq!(position(&hall.ask("late")), 2);
}

/// A crowd that is gone does not make one call long, nor does it keep others from being served.
#[test]
fn a_crowd_that_is_gone_is_cleared_away_in_several_calls() {
    let mut hall = Hall::new(FillFirst);
    for n in 0..300 {
        hall.ask(&format!("v{n}"));
    }
    hall.now += WAIT_MS;
    hall.set("a", 9, |group| group);
    let answer = hall.read("a", vec![], &[]);
    assert_eq!((answer.woken.len(), answer.lapsed.len()), (0, 256));
    assert!(hall.more);
    assert_eq!(hall.shown("new").unwrap(), "a");
    assert_eq!(hall.corp.seats().len(), 1);
}
