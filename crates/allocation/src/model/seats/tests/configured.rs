//! Groups and pools go, and change.

use super::*;

#[test]
fn a_group_that_goes_ends_its_seats() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 3);
    for visitor in ["v1", "v2", "v3"] {
        hall.shown(visitor);
    }
    hall.read("a", vec![known("p1", &["v2"]), stranger("p2")], &[]);
    let removed = |version| SeatOp::RemoveGroup {
        chat: chat("a"),
        version,
    };
    let version = hall.view("a").config.version();
    let (change, ended) = match hall.apply(removed(version - 1)).result {
        SeatResult::Removed { change, ended } => (change, ended),
        other => panic!("{other:?}"),
    };
    assert_eq!((change, ended), (GroupChange::Stale { version }, vec![]));
    let SeatResult::Removed { change, ended } = hall.apply(removed(version + 1)).result else {
        panic!("removed")
    };
    let ended: Vec<_> = ended.iter().map(|one| (one.subject, one.was)).collect();
    assert_eq!(change, GroupChange::Changed);
    assert_eq!(
        ended,
        [
            (key("v1"), SeatState::Held),
            (key("v3"), SeatState::Held),
            (key("v2"), SeatState::Confirmed)
        ]
    );
    assert_eq!(hall.corp.seats(), []);
    assert_eq!(hall.shown("v1"), None);
    let again = hall.apply(removed(version + 2)).result;
    let unknown = GroupChange::Unknown;
    let nothing = SeatResult::Removed {
        change: unknown,
        ended: vec![],
    };
    assert_eq!(again, nothing);
    // An older configuration does not bring it back, a newer one does, with nobody in it.
    hall.version = version;
    let stale = GroupChange::Stale {
        version: version + 1,
    };
    let answer = hall.set("a", 3, |group| group);
    assert_eq!(answer.result, SeatResult::Group(stale));
    hall.set("a", 3, |group| group);
    assert_eq!((hall.count("a"), hall.view("a").seen), ((0, 0, 3), None));
}

#[test]
fn a_group_that_changes_its_pool_takes_its_seats_along() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 3);
    hall.shown("v1");
    let remove = |version| SeatOp::RemovePool {
        pool: pool_id(),
        version,
    };
    let pool = |change| SeatResult::Pool(change);
    let in_use = pool(GroupPoolChange::InUse);
    assert_eq!(hall.apply(remove(2)).result, in_use);
    let to = |name: &str| SetGroup::new(chat("a"), 100, name.parse().unwrap(), 3, 0).unwrap();
    let no_pool = SeatResult::Group(GroupChange::NoPool);
    assert_eq!(hall.apply(SeatOp::SetGroup(to("q"))).result, no_pool);
    hall.apply(SeatOp::SetPool(SetGroupPool {
        pool: "q".parse().unwrap(),
        version: 1,
        strategy: Spread,
    }));
    let changed = SeatResult::Group(GroupChange::Changed);
    assert_eq!(hall.apply(SeatOp::SetGroup(to("q"))).result, changed);
    assert_eq!(hall.shown("v1").unwrap(), "a");
    assert_eq!(hall.shown("v2"), None);
    let of = hall.corp.group_pools();
    let free: Vec<_> = of
        .map(|view| (view.free, view.waiting, view.available))
        .collect();
    assert_eq!(free, [(0, 1, 0), (2, 0, 1)]);
    let stale = pool(GroupPoolChange::Stale { version: 1 });
    assert_eq!(hall.apply(remove(0)).result, stale);
    assert_eq!(hall.apply(remove(1)).result, pool(GroupPoolChange::Changed));
    assert_eq!(hall.apply(remove(1)).result, pool(GroupPoolChange::Unknown));
    // Without a pool there is nothing new; who waited waits for one of that name.
    assert_eq!(hall.ask("v3"), Reserved::NoPool);
    assert_eq!(hall.ask("v2"), Reserved::NoPool);
    assert_eq!(hall.shown("v1").unwrap(), "a");
    let set = |version| {
        SeatOp::SetPool(SetGroupPool {
            pool: pool_id(),
            version,
            strategy: Spread,
        })
    };
    assert_eq!(hall.apply(set(1)).result, stale);
    hall.apply(set(2));
    assert_eq!(position(&hall.ask("v2")), 1);
}
