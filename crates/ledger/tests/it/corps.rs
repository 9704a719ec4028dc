//! Generations, log and snapshots: what a rebuild relies on.

use ledger::{
    Change, Confirmed, Corp, Counter, Error, NewOffer, RebuildLease, Snapshot, WriteBatch,
};

use crate::setup::{Setup, T0, allocation, decided, effect, entry, member, setup, transfer};

/// Whoever rebuilds at `now_ms`, for ten seconds.
fn lease(who: &str, now_ms: u64) -> RebuildLease<'_> {
    RebuildLease {
        who,
        now_ms,
        until_ms: now_ms + 10_000,
    }
}

/// Begins a rebuild, whoever else is at it.
async fn begin(setup: &Setup) -> Corp {
    let corps = setup.ledger.corps();
    let lease = lease("a", T0);
    let begun = corps.begin_rebuild(&setup.corp, &lease, None).await;
    begun.unwrap().unwrap()
}

fn of_generation(generation: u64, seq: u64) -> WriteBatch {
    WriteBatch {
        generation,
        entries: vec![entry(seq, vec![])],
    }
}

/// Section 4 of the design, "Whole or closed": a batch of an older generation is written while the rebuild is under
/// way, and the rebuilder reads again; once the new one is open, it comes too late.
#[tokio::test]
async fn a_rebuild_sees_what_late_writers_add_until_it_is_confirmed() {
    let setup = setup().await;
    let corps = setup.ledger.corps();
    let first = begin(&setup).await;
    assert_eq!(
        first,
        Corp {
            generation: 1,
            opened_generation: 0,
            log_seq: 0,
            rebuilding: true
        }
    );
    assert_eq!(
        corps.confirm_generation(&setup.corp, 1, 0).await.unwrap(),
        Confirmed::Yes
    );
    setup.write_batch(&of_generation(1, 1)).await.unwrap();

    let second = begin(&setup).await;
    assert_eq!((second.generation, second.log_seq), (2, 1));
    let late = setup.write_batch(&of_generation(1, 2)).await.unwrap();
    assert_eq!((late.generation, late.log_seq), (2, 2));
    assert_eq!(
        corps.confirm_generation(&setup.corp, 2, 1).await.unwrap(),
        Confirmed::ReadOn { log_seq: 2 }
    );
    let rest = corps.read_log(&setup.corp, 1, 10).await.unwrap();
    assert_eq!((rest.len(), rest[0].seq, rest[0].generation), (1, 2, 1));

    assert_eq!(
        corps.confirm_generation(&setup.corp, 1, 2).await.unwrap(),
        Confirmed::Superseded { generation: 2 }
    );
    assert_eq!(
        corps.confirm_generation(&setup.corp, 2, 2).await.unwrap(),
        Confirmed::Yes
    );
    let too_late = setup.write_batch(&of_generation(1, 3)).await;
    assert!(matches!(
        too_late,
        Err(Error::Stale {
            generation: 1,
            opened: 2
        })
    ));
    setup.write_batch(&of_generation(2, 3)).await.unwrap();
    let row = corps.get(&setup.corp).await.unwrap().unwrap();
    assert_eq!(
        row,
        Corp {
            generation: 2,
            opened_generation: 2,
            log_seq: 3,
            rebuilding: true
        }
    );
}

#[tokio::test]
async fn a_rebuilder_waits_for_the_writer() {
    let setup = setup().await;
    let corps = setup.ledger.corps();
    let write = setup
        .ledger
        .begin_log_write(&setup.corp)
        .await
        .unwrap()
        .unwrap();
    let bump = tokio::spawn({
        let (corps, corp) = (corps.clone(), setup.corp.clone());
        async move { corps.begin_rebuild(&corp, &lease("a", T0), None).await }
    });
    while setup
        .number("SELECT count(*) FROM pg_locks WHERE NOT granted")
        .await
        == 0
    {
        tokio::task::yield_now().await;
    }
    write.commit(&of_generation(0, 1)).await.unwrap();
    let row = bump.await.unwrap().unwrap().unwrap();
    assert_eq!((row.generation, row.log_seq), (1, 1));
}

#[tokio::test]
async fn an_unknown_corp_has_no_row_until_it_is_made() {
    let setup = setup().await;
    let corps = setup.ledger.corps();
    let stranger = "ww0000000000000000".parse().unwrap();
    assert_eq!(corps.get(&stranger).await.unwrap(), None);
    assert_eq!(
        corps.confirm_generation(&stranger, 1, 0).await.unwrap(),
        Confirmed::Superseded { generation: 0 }
    );
    let lease = lease("a", T0);
    let begun = corps
        .begin_rebuild(&stranger, &lease, Some(Corp::default()))
        .await;
    assert_eq!(begun.unwrap().unwrap().generation, 1);
    setup
        .ledger
        .prepare(&[stranger.clone(), setup.corp.clone()])
        .await
        .unwrap();
    assert_eq!(corps.get(&stranger).await.unwrap().unwrap().generation, 1);
}

/// Concurrent rebuilders: each gets a generation of its own, the last one is confirmed.
#[tokio::test]
async fn two_rebuilders_get_two_generations() {
    let setup = setup().await;
    let corps = setup.ledger.corps();
    let (one, two) = tokio::join!(begin(&setup), begin(&setup));
    let (mut one, mut two) = (one.generation, two.generation);
    if one > two {
        std::mem::swap(&mut one, &mut two);
    }
    assert_eq!((one, two), (1, 2));
    assert_eq!(
        corps.confirm_generation(&setup.corp, one, 0).await.unwrap(),
        Confirmed::Superseded { generation: 2 }
    );
    assert_eq!(
        corps.confirm_generation(&setup.corp, two, 0).await.unwrap(),
        Confirmed::Yes
    );
}

#[tokio::test]
async fn the_log_is_read_in_pieces_and_snapshots_are_few() {
    let setup = setup().await;
    let corps = setup.ledger.corps();
    let entries = (1..=25).map(|seq| entry(seq, vec![])).collect();
    setup
        .write_batch(&WriteBatch {
            generation: 0,
            entries,
        })
        .await
        .unwrap();
    let mut read = Vec::new();
    loop {
        let piece = corps
            .read_log(&setup.corp, read.last().copied().unwrap_or(3), 10)
            .await
            .unwrap();
        if piece.is_empty() {
            break;
        }
        read.extend(piece.into_iter().map(|row| row.seq));
    }
    assert_eq!(read, (4..=25).collect::<Vec<_>>());
    assert_eq!(corps.latest_snapshot(&setup.corp).await.unwrap(), None);
    for seq in [5, 10, 15, 20, 25, 10] {
        corps
            .save_snapshot(
                &setup.corp,
                &Snapshot {
                    seq,
                    dump: format!("{{{seq}}}"),
                },
            )
            .await
            .unwrap();
    }
    // One that is ahead of the ledger could never be folded on: it is not kept.
    corps
        .save_snapshot(
            &setup.corp,
            &Snapshot {
                seq: 26,
                dump: "{}".into(),
            },
        )
        .await
        .unwrap();
    let latest = corps.latest_snapshot(&setup.corp).await.unwrap().unwrap();
    assert_eq!(
        latest,
        Snapshot {
            seq: 25,
            dump: "{25}".into()
        }
    );
    // Three, and the first of a quarter of a day, of which the test may see the end.
    let kept = setup.number("SELECT count(*) FROM snapshots").await;
    assert!((4..=5).contains(&kept), "{kept}");
}

/// The last few, the first of every six hours of eight days, and whatever was made of rows.
#[tokio::test]
async fn older_snapshots_become_few() {
    let setup = setup().await;
    let corps = setup.ledger.corps();
    let entries = (1..=80).map(|seq| entry(seq, vec![])).collect();
    let batch = WriteBatch {
        generation: 0,
        entries,
    };
    setup.write_batch(&batch).await.unwrap();
    let snapshot = |seq| Snapshot {
        seq,
        dump: format!("{{{seq}}}"),
    };
    for seq in 1..=80 {
        let snapshot = snapshot(seq);
        let of_rows = corps.replace_snapshot(&setup.corp, 0, &snapshot);
        of_rows.await.unwrap();
    }
    // One every three hours; only the first was made of rows.
    setup
        .run(
            "UPDATE snapshots SET of_rows = seq = 1,
                created_at = timestamptz '2026-10-01 01:00:00Z' + seq * interval '3 hours'",
        )
        .await;
    corps
        .save_snapshot(&setup.corp, &snapshot(80))
        .await
        .unwrap();
    // 1, 17 (eight days back), 18, 20, 22 … 78, and the last three.
    assert_eq!(setup.number("SELECT count(*) FROM snapshots").await, 35);
    for (seq, found) in [(80, 80), (79, 79), (59, 58), (19, 18), (17, 17), (16, 1)] {
        let read = corps.snapshot_before(&setup.corp, seq).await.unwrap();
        assert_eq!(read, Some(snapshot(found)), "{seq}");
        let found_seq = corps.snapshot_seq_before(&setup.corp, seq).await.unwrap();
        assert_eq!(found_seq, found);
    }
    for (after, before, found) in [(0, 5, Some(1)), (1, 80, None), (0, 1, None)] {
        let of_rows = corps.made_of_rows(&setup.corp, after, before).await;
        assert_eq!(of_rows.unwrap(), found, "{after} {before}");
    }
    assert_eq!(corps.snapshot_before(&setup.corp, 0).await.unwrap(), None);
    assert_eq!(corps.snapshot_seq_before(&setup.corp, 0).await.unwrap(), 0);
}

#[tokio::test]
async fn entries_are_found_by_their_time() {
    let setup = setup().await;
    let corps = setup.ledger.corps();
    assert_eq!(corps.first_since(&setup.corp, T0).await.unwrap(), 1);
    let entries = (1..=40).map(|seq| entry(seq, vec![])).collect();
    let batch = WriteBatch {
        generation: 0,
        entries,
    };
    setup.write_batch(&batch).await.unwrap();
    // Three of each millisecond, and some are missing.
    setup.run("UPDATE log SET at_ms = 1000 + seq / 3").await;
    setup.run("DELETE FROM log WHERE seq IN (9, 10, 25)").await;
    for (at_ms, first) in [
        (0, 1),
        (1000, 1),
        (1001, 3),
        (1003, 9),
        (1008, 24),
        (1013, 39),
        (1014, 41),
    ] {
        let found = corps.first_since(&setup.corp, at_ms).await.unwrap();
        assert_eq!(found, first, "{at_ms}");
    }
}

#[tokio::test]
async fn counters_count_what_is_under_way() {
    let setup = setup().await;
    setup
        .write(vec![
            Change::Decided(decided(1, Some("mA"))),
            Change::Decided(decided(2, None)),
            Change::Decided(decided(3, None)),
            Change::Offered(NewOffer {
                allocation: allocation(3),
                member: member("mA"),
                giver: None,
                epoch: 0,
                until_ms: T0 + 60_000,
            }),
            Change::Decided(decided(4, None)),
            Change::Undecided {
                allocation: allocation(4),
                epoch: 1,
            },
            Change::Transfer(transfer(7, 1, "mB", "mA")),
            Change::Effect(effect("card", "1")),
        ])
        .await;
    let counters = setup.ledger.counters().await.unwrap();
    let counter = |name: &str, kind: &str, state: &str, value| Counter {
        name: name.into(),
        corp: setup.corp.clone(),
        kind: kind.into(),
        state: state.into(),
        value,
    };
    let expected = [
        counter("allocations", "", "offered", 1),
        counter("allocations", "", "open", 1),
        counter("allocations", "", "undecided", 1),
        counter("allocations", "", "waiting", 1),
        counter("allocations_unsettled", "", "", 1),
        counter("generation", "", "", 0),
        counter("log_seq", "", "", 1),
        counter("outbox", "card", "pending", 1),
        counter("transfers", "", "planned", 1),
        counter("undecided_since_seconds", "", "", T0 / 1_000),
    ];
    assert_eq!(counters, expected);
}

/// One rebuilds, the others wait until he has ended, or until he said nothing for the time of his lease.
#[tokio::test]
async fn a_rebuild_is_one_allocators_until_its_lease_is_over() {
    let setup = setup().await;
    let (corps, corp) = (setup.ledger.corps(), &setup.corp);
    let begin_seen = async |who, now_ms, seen| {
        let lease = lease(who, now_ms);
        let row = corps.begin_rebuild(corp, &lease, seen).await.unwrap();
        row.map(|row| row.generation)
    };
    let begin = async |who, now_ms, seen: Option<u64>| {
        let idle = |generation| Corp {
            generation,
            ..Corp::default()
        };
        begin_seen(who, now_ms, seen.map(idle)).await
    };
    let renew = async |who, now_ms, generation| {
        let lease = lease(who, now_ms);
        corps.renew_rebuild(corp, &lease, generation).await.unwrap()
    };
    assert_eq!(begin("a", T0, Some(0)).await, Some(1));
    assert_eq!(begin("b", T0 + 9_999, Some(1)).await, None);
    assert!(renew("a", T0 + 5_000, 1).await);
    assert_eq!(begin("b", T0 + 14_999, Some(1)).await, None);
    assert_eq!(begin("b", T0 + 15_000, Some(1)).await, Some(2));
    assert!(!renew("a", T0 + 15_000, 1).await);
    corps.end_rebuild(corp, "a", 1).await.unwrap();
    assert_eq!(begin("c", T0 + 15_001, Some(2)).await, None);
    // Who failed begins again at once; who saw an older generation looks again.
    assert_eq!(begin("b", T0 + 15_001, Some(2)).await, Some(3));
    corps.end_rebuild(corp, "b", 3).await.unwrap();
    assert_eq!(begin("c", T0 + 15_002, Some(2)).await, None);
    assert_eq!(begin("c", T0 + 15_002, Some(3)).await, Some(4));
    assert_eq!(begin("person", T0 + 15_003, None).await, Some(5));
    assert!(!renew("c", T0 + 15_003, 4).await);
    // Who looked while he was at it may have seen a closed corp that is open by now: looked at again, not made anew.
    let seen = corps.get(corp).await.unwrap();
    corps.end_rebuild(corp, "person", 5).await.unwrap();
    assert_eq!(begin_seen("d", T0 + 15_004, seen).await, None);
    let seen = corps.get(corp).await.unwrap();
    assert_eq!(begin_seen("d", T0 + 15_004, seen).await, Some(6));
}
