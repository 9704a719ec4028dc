//! Whatever happens: whole states, folds, dumps and rows.

use super::*;

/// Whatever happened: the state is whole, is read back from its dump, and is the fold of its log. Everything that can be answered
/// is.
#[test]
fn random_histories_leave_whole_states() {
    let mut words = BTreeSet::new();
    for seed in 0..60 {
        let history = History::random(seed, 300);
        let corp = &history.corp;
        let read = Corp::from_dump(&corp.dump()).unwrap();
        assert_eq!(read.seats, corp.seats, "seed {seed}");
        let json = corp.dump().to_json();
        assert_eq!(crate::Dump::from_json(&json), Ok(corp.dump()));
        let mut folded = Corp::new();
        for entry in &history.entries {
            let (op, args, result) = entry.parts();
            let read = crate::LogEntry::from_parts(entry.seq, entry.at_ms, op, &args, &result);
            folded.fold(&read.unwrap()).unwrap();
            if matches!(entry.op, Op::Seats(_)) {
                let of_result = result.split('\u{1f}');
                words.extend(of_result.map(|word| format!("{op} {word}")));
            }
        }
        assert_eq!(folded.seats, corp.seats, "seed {seed}");
    }
    for (op, expected) in [
        ("reserve_seat.1", "HELD AGAIN JOINED WAITING STILL NO_POOL"),
        ("release_seat.1", "RELEASED GAVE_UP STALE UNKNOWN"),
        (
            "confirm_seat.1",
            "COUNTED STALE UNKNOWN CONFIRMED LATE MOVED ALREADY DIRECT state count unionid WAITING",
        ),
        ("set_group_pool.1", "CHANGED SAME STALE"),
        ("remove_group_pool.1", "CHANGED STALE UNKNOWN IN_USE"),
        ("set_group.1", "CHANGED STALE NO_POOL"),
        ("remove_group.1", "CHANGED STALE UNKNOWN HELD CONFIRMED"),
    ] {
        for word in expected.split(' ') {
            let word = format!("{op} {word}");
            assert!(words.contains(&word), "never: {word}");
        }
    }
}

/// Whatever happened before: who has which seat, who is in which group and who waits behind whom is the same when it is made of
/// rows.
#[test]
fn a_state_made_of_rows_has_the_same_seats() {
    let (mut n_held, mut n_waiting, mut n_taken) = (0, 0, 0);
    for seed in 0..60 {
        let corp = History::random(seed, 300).corp;
        let removed = &corp.seats;
        let pools = corp.group_pools().map(|view| SetGroupPool {
            pool: view.pool,
            version: view.version,
            strategy: view.strategy,
        });
        let rows = SeatRows {
            pools: pools.collect(),
            groups: corp.groups().collect(),
            seats: corp.seats(),
            removed_pools: removed.removed_pools.clone().into_iter().collect(),
            removed_groups: removed.removed_groups.clone().into_iter().collect(),
        };
        let made = Corp::from_rows(corp.seq(), corp.at_ms(), vec![], vec![], vec![]);
        let made = made.with_seats(rows);
        assert_eq!(made.problems(), Vec::<String>::new(), "seed {seed}");
        assert_eq!(made.seats(), corp.seats(), "seed {seed}");
        assert!(made.groups().eq(corp.groups()), "seed {seed}");
        assert!(made.group_pools().eq(corp.group_pools()), "seed {seed}");
        let lines = |corp: &Corp| -> Vec<(Wanted, Vec<SeatName>)> {
            let queues = corp.seats.queues.iter();
            let line = |queue: &Queue| queue.iter().map(|(_, name)| name.clone()).collect();
            let lines = queues.map(|(wanted, queue)| (wanted.clone(), line(queue)));
            lines.collect()
        };
        assert_eq!(lines(&made), lines(&corp), "seed {seed}");
        assert_eq!(made.seats.removed_groups, corp.seats.removed_groups);
        let read = Corp::from_dump(&made.dump()).unwrap();
        assert_eq!(read.seats, made.seats, "seed {seed}");
        for view in corp.seats() {
            match view.place {
                SeatPlace::Held { .. } => n_held += 1,
                SeatPlace::Waiting { .. } => n_waiting += 1,
                SeatPlace::Taken { .. } => n_taken += 1,
                SeatPlace::Expired { .. } => {}
            }
        }
    }
    let n = (n_held, n_waiting, n_taken);
    assert!(n_held > 100 && n_waiting > 100 && n_taken > 50, "{n:?}");
}

/// Rows that do not fit together make a whole state without what does not fit.
#[test]
fn rows_that_do_not_fit_are_left_out() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 9);
    hall.shown("v1");
    hall.shown("v2");
    hall.read("a", vec![known("p1", &["v2"])], &[]);
    let rows = |pools: bool, groups: bool| SeatRows {
        pools: match pools {
            true => vec![SetGroupPool {
                pool: pool_id(),
                version: 1,
                strategy: Spread,
            }],
            false => vec![],
        },
        groups: match groups {
            true => hall.corp.groups().collect(),
            false => vec![],
        },
        seats: hall.corp.seats(),
        ..SeatRows::default()
    };
    for (pools, groups, n_seats) in [(true, true, 2), (true, false, 0), (false, true, 0)] {
        let made = Corp::new().with_seats(rows(pools, groups));
        assert_eq!(made.problems(), Vec::<String>::new());
        assert_eq!(made.seats().len(), n_seats);
    }
}
