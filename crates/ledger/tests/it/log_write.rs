//! The log's one writer: order, repetition, conflicts, and what is taken back.

use allocation::{Op, Outcome};
use ledger::{
    AllocationState, Change, DeliveryOutcome, EffectState, Entry, Error, LogRow, NewAllocation,
    NewEffect, TransferState, WriteBatch,
};
use serde_json::json;

use crate::setup::{
    T0, allocation, assigned, batch, decided, effect_of, entry, id, member, setup, subject,
    transfer,
};

#[tokio::test]
async fn entries_are_stored_as_the_log_has_them() {
    let setup = setup().await;
    let text = setup
        .ledger
        .begin_log_write(&setup.corp)
        .await
        .unwrap()
        .unwrap();
    let op = Op::SetMember(allocation::SetMember::capped(member("mA"), Some(3), None));
    let outcome = Outcome::parse(&op, "0\u{1f}0\u{1f}CHANGED").unwrap();
    let first = allocation::LogEntry {
        seq: 1,
        at_ms: T0,
        op,
        outcome,
        payload: Some("not kept".into()),
    };
    let written = text
        .commit(&WriteBatch {
            generation: 0,
            entries: vec![Entry::new(&first, vec![])],
        })
        .await
        .unwrap();
    assert_eq!((written.log_seq, written.entries), (1, 1));
    let rows = setup
        .ledger
        .corps()
        .read_log(&setup.corp, 0, 10)
        .await
        .unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(
        rows[0].parse().unwrap(),
        allocation::LogEntry {
            payload: None,
            ..first
        }
    );
    assert!(
        setup
            .ledger
            .corps()
            .read_log(&setup.corp, 1, 10)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_decision_becomes_rows_with_its_surroundings() {
    let setup = setup().await;
    let new = NewAllocation {
        giver: Some(member("mB")),
        channel: Some("ch_001".parse().unwrap()),
        delivery: Some("d1".into()),
        request: Some("r1".parse().unwrap()),
        ..decided(1, Some("mA"))
    };
    let outcome = DeliveryOutcome {
        delivery: "d1".into(),
        received_ms: T0,
        outcome: "decided".into(),
        reason: None,
        allocation: Some(allocation(1)),
    };
    let written = setup
        .write(vec![
            Change::Decided(new),
            Change::Delivery(outcome),
            Change::Transfer(transfer(7, 1, "mB", "mA")),
            Change::Effect(NewEffect {
                transfer: Some(id(7)),
                ..effect_of(1, "t7", Some(0))
            }),
        ])
        .await;
    assert!(written.conflicts.is_empty() && written.transfers_under_way.is_empty());
    let row = setup
        .ledger
        .allocations()
        .get(&setup.corp, allocation(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.state, AllocationState::Open);
    assert_eq!(
        (row.member, row.giver),
        (Some(member("mA")), Some(member("mB")))
    );
    assert_eq!(
        (row.decided_ms, row.assigned_ms, row.settled_ms),
        (T0 + 1, Some(T0 + 1), None)
    );
    assert_eq!((row.decided_seq, row.changed_seq, row.epoch), (1, 1, 0));
    assert_eq!(row.channel.unwrap().as_str(), "ch_001");
    assert_eq!(
        (row.delivery.as_deref(), row.source.as_str()),
        (Some("d1"), "callback")
    );
    let customer = setup
        .ledger
        .customers()
        .find(&setup.corp, &subject("wmC001"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (row.customer, customer.external_id.as_deref()),
        (customer.id, Some("wmC001"))
    );
    let transfer = setup
        .ledger
        .transfers()
        .get(&setup.corp, id(7))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (transfer.state, transfer.customer),
        (TransferState::Planned, customer.id)
    );
    let effects = setup
        .ledger
        .outbox()
        .of_allocation(&setup.corp, allocation(1))
        .await
        .unwrap();
    assert_eq!(
        (effects.len(), effects[0].transfer, effects[0].state),
        (1, Some(id(7)), EffectState::Pending)
    );
    let found = setup
        .ledger
        .allocations()
        .by_request(&setup.corp, &"r1".parse().unwrap())
        .await
        .unwrap();
    assert_eq!(found.unwrap().id, allocation(1));
}

#[tokio::test]
async fn the_member_himself_is_no_giver() {
    let setup = setup().await;
    let holder = |n, to| NewAllocation {
        giver: Some(member("mB")),
        ..decided(n, to)
    };
    setup
        .write(vec![
            Change::Decided(holder(1, Some("mB"))),
            Change::Decided(holder(2, None)),
        ])
        .await;
    setup.write(vec![assigned(2, "mB", None)]).await;
    for n in [1, 2] {
        let row = setup
            .ledger
            .allocations()
            .get(&setup.corp, allocation(n))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (row.member, row.holder, row.giver),
            (Some(member("mB")), Some(member("mB")), None),
            "{n}"
        );
    }
    // Assigned to somebody else, he is the giver again.
    setup.write(vec![assigned(1, "mA", Some(1))]).await;
    let row = setup
        .ledger
        .allocations()
        .get(&setup.corp, allocation(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (row.member, row.giver),
        (Some(member("mA")), Some(member("mB")))
    );
}

#[tokio::test]
async fn a_gap_is_refused_and_nothing_is_written() {
    let setup = setup().await;
    let gap = batch(vec![entry(2, vec![])]);
    assert!(matches!(
        setup.write_batch(&gap).await,
        Err(Error::Gap {
            expected: 1,
            found: 2
        })
    ));
    let hole = batch(vec![entry(1, vec![]), entry(3, vec![])]);
    assert!(matches!(
        setup.write_batch(&hole).await,
        Err(Error::Gap {
            expected: 2,
            found: 3
        })
    ));
    assert_eq!(setup.number("SELECT count(*) FROM log").await, 0);
    assert_eq!(
        setup
            .ledger
            .corps()
            .get(&setup.corp)
            .await
            .unwrap()
            .unwrap()
            .log_seq,
        0
    );
}

/// Case 124: the same again is the same.
#[tokio::test]
async fn a_batch_written_again_changes_nothing() {
    let setup = setup().await;
    let first = batch(vec![
        entry(
            1,
            vec![
                Change::Decided(decided(1, Some("mA"))),
                Change::Effect(effect_of(1, "a", None)),
            ],
        ),
        entry(2, vec![Change::Decided(decided(2, None))]),
    ]);
    assert_eq!(setup.write_batch(&first).await.unwrap().entries, 2);
    let again = setup.write_batch(&first).await.unwrap();
    assert_eq!((again.entries, again.log_seq), (0, 2));
    // What is new in a batch that overlaps is written.
    let mut longer = first;
    longer
        .entries
        .push(entry(3, vec![Change::Decided(decided(3, None))]));
    let written = setup.write_batch(&longer).await.unwrap();
    assert_eq!(
        (written.entries, written.log_seq, written.conflicts),
        (1, 3, vec![])
    );
    assert_eq!(setup.number("SELECT count(*) FROM allocations").await, 3);
    assert_eq!(setup.number("SELECT count(*) FROM outbox").await, 1);
}

#[tokio::test]
async fn one_writer_at_a_time_and_nobody_waits() {
    let setup = setup().await;
    let first = setup
        .ledger
        .begin_log_write(&setup.corp)
        .await
        .unwrap()
        .unwrap();
    assert!(
        setup
            .ledger
            .begin_log_write(&setup.corp)
            .await
            .unwrap()
            .is_none()
    );
    first.release().await.unwrap();
    let second = setup
        .ledger
        .begin_log_write(&setup.corp)
        .await
        .unwrap()
        .unwrap();
    drop(second);
    // Dropped: the server gives the row back when it sees the connection end.
    while setup
        .ledger
        .begin_log_write(&setup.corp)
        .await
        .unwrap()
        .is_none()
    {
        tokio::task::yield_now().await;
    }
    let stranger = "ww0000000000000000".parse().unwrap();
    assert!(
        setup
            .ledger
            .begin_log_write(&stranger)
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        setup
            .ledger
            .begin_log_write(&stranger)
            .await
            .unwrap()
            .is_some()
    );
}

/// Case 68: the ledger itself refuses the second open allocation of a pair.
/// Case 125: a NUL from a callback or a platform answer is dropped, the row is stored.
#[tokio::test]
async fn nul_characters_are_dropped() {
    let setup = setup().await;
    let mut new = decided(1, Some("mA"));
    new.source = "call\0back".into();
    new.customer.external_id = Some("wm\0C001".into());
    let outcome = DeliveryOutcome {
        delivery: "d\0".into(),
        received_ms: T0,
        outcome: "decided".into(),
        reason: Some("State a\0b".into()),
        allocation: None,
    };
    let payload = json!({"text": "a\0b"});
    setup
        .write(vec![
            Change::Decided(new),
            Change::Delivery(outcome),
            Change::Effect(NewEffect {
                payload,
                ..effect_of(1, "k\0", None)
            }),
        ])
        .await;
    let row = setup
        .ledger
        .allocations()
        .get(&setup.corp, allocation(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.source, "callback");
    let effects = setup
        .ledger
        .outbox()
        .of_allocation(&setup.corp, allocation(1))
        .await
        .unwrap();
    assert_eq!(
        (effects[0].key.as_str(), &effects[0].payload),
        ("k", &json!({"text": "ab"}))
    );
    assert_eq!(
        setup
            .number("SELECT count(*) FROM delivery_outcomes WHERE reason = 'State ab'")
            .await,
        1
    );
}

#[tokio::test]
async fn batches_larger_than_a_statement_are_whole() {
    let setup = setup().await;
    let entries = (1..=11_000)
        .map(|n| {
            let changes = vec![
                Change::Decided(decided(n, Some("mA"))),
                Change::Effect(effect_of(n, &n.to_string(), None)),
            ];
            entry(n, changes)
        })
        .collect();
    let written = setup.write_batch(&batch(entries)).await.unwrap();
    assert_eq!((written.entries, written.log_seq), (11_000, 11_000));
    for table in [
        "SELECT count(*) FROM log",
        "SELECT count(*) FROM allocations",
        "SELECT count(*) FROM outbox",
    ] {
        assert_eq!(setup.number(table).await, 11_000);
    }
    assert_eq!(
        setup
            .ledger
            .allocations()
            .open_by_member(&setup.corp)
            .await
            .unwrap(),
        [(member("mA"), 11_000)]
    );
}

/// The entry that the ledger ends with comes with the row, unless the writer says that he knows it.
#[tokio::test]
async fn the_last_entry_comes_with_the_row() {
    let setup = setup().await;
    let begin = async |known| {
        let begun = setup.ledger.begin_log_write_after(&setup.corp, known).await;
        begun.unwrap().unwrap()
    };
    let mut write = begin(0).await;
    assert_eq!(write.found(), None);
    assert_eq!(write.last().await.unwrap(), None);
    let op = Op::Note;
    let outcome = Outcome::parse(&op, "0\u{1f}0").unwrap();
    let entry = |seq| allocation::LogEntry {
        seq,
        at_ms: T0 + seq,
        op: op.clone(),
        outcome: outcome.clone(),
        payload: Some("not kept".into()),
    };
    let entries = (1..=3).map(|seq| Entry::new(&entry(seq), vec![]));
    let batch = WriteBatch {
        generation: 2,
        entries: entries.collect(),
    };
    write.commit(&batch).await.unwrap();
    for known in [0, 2, 4] {
        let mut write = begin(known).await;
        let found = write.found().cloned();
        assert_eq!(found, Some(LogRow::of(&entry(3), 2)));
        assert_eq!(found, write.last().await.unwrap());
        let row = found.unwrap();
        assert!(row.is_of(&entry(3)));
        // Another version wrote it in another form.
        let result = format!("0{}", row.result);
        assert!(
            LogRow {
                result,
                ..row.clone()
            }
            .is_of(&entry(3))
        );
        for other in [
            entry(2),
            allocation::LogEntry {
                at_ms: T0,
                ..entry(3)
            },
            allocation::LogEntry {
                op: Op::Rebuilt { generation: 2 },
                ..entry(3)
            },
        ] {
            assert!(!row.is_of(&other), "{other:?}");
        }
        write.release().await.unwrap();
    }
    let write = begin(3).await;
    assert_eq!((write.found(), write.log_seq()), (None, 3));
    write.release().await.unwrap();
}
