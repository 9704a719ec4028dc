//! The log's one writer: order, repetition, conflicts, and what is taken back.

use allocation::{Op, Outcome, Reason};
use ledger::{
    AllocationState, Change, Conflict, DeliveryOutcome, EffectState, Entry, Error, NewAllocation,
    NewEffect, SettledAs, TransferState, WriteBatch,
};
use serde_json::json;

use crate::setup::{
    T0, allocation, batch, decided, effect, entry, id, member, setup, subject, transfer,
};

fn closed(n: u64) -> Change {
    Change::Closed {
        allocation: allocation(n),
        reason: Reason::new("customer_left").unwrap(),
    }
}

fn assigned(n: u64, to: &str, epoch: Option<u64>) -> Change {
    Change::Assigned {
        allocation: allocation(n),
        member: member(to),
        giver: None,
        epoch,
    }
}

fn effect_of(n: u64, key: &str, epoch: Option<u64>) -> NewEffect {
    NewEffect {
        allocation: Some(allocation(n)),
        epoch,
        ..effect("card", key)
    }
}

#[tokio::test]
async fn entries_are_stored_as_the_log_has_them() {
    let setup = setup().await;
    let text = setup
        .ledger
        .begin_log_write(&setup.corp)
        .await
        .unwrap()
        .unwrap();
    let op = Op::SetMember(allocation::SetMember {
        member: member("mA"),
        cap: Some(3),
        blocked: None,
    });
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
#[tokio::test]
async fn the_ledgers_open_row_stands() {
    let setup = setup().await;
    setup
        .write(vec![Change::Decided(decided(1, Some("mB")))])
        .await;
    let same_subject = |n: u64, to| NewAllocation {
        allocation: allocation(n),
        ..decided(1, to)
    };
    let written = setup
        .write(vec![
            Change::Decided(same_subject(2, Some("mA"))),
            Change::Transfer(transfer(7, 1, "mC", "mA")),
            Change::Effect(effect_of(2, "a", None)),
            Change::Decided(decided(3, Some("mA"))),
        ])
        .await;
    assert_eq!(
        written.conflicts,
        vec![Conflict {
            lost: allocation(2),
            stands: allocation(1)
        }]
    );
    let lost = setup
        .ledger
        .allocations()
        .get(&setup.corp, allocation(2))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (lost.state, lost.close_reason.as_deref()),
        (AllocationState::Closed, Some("conflict"))
    );
    let stands = setup
        .ledger
        .allocations()
        .open_of(&setup.corp, &subject("wmC001"))
        .await
        .unwrap();
    assert_eq!(
        (stands.len(), stands[0].id, &stands[0].member),
        (1, allocation(1), &Some(member("mB")))
    );
    assert!(
        setup
            .ledger
            .outbox()
            .of_allocation(&setup.corp, allocation(2))
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        setup
            .ledger
            .allocations()
            .get(&setup.corp, allocation(3))
            .await
            .unwrap()
            .is_some()
    );
    // What the log says of the lost one later does not bring it back.
    setup
        .write(vec![assigned(2, "mD", Some(1)), closed(2)])
        .await;
    let lost = setup
        .ledger
        .allocations()
        .get(&setup.corp, allocation(2))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (lost.member, lost.close_reason.as_deref()),
        (Some(member("mA")), Some("conflict"))
    );
}

#[tokio::test]
async fn after_a_close_the_pair_is_free_in_the_same_batch() {
    let setup = setup().await;
    setup
        .write(vec![Change::Decided(decided(1, Some("mA")))])
        .await;
    let again = NewAllocation {
        allocation: allocation(2),
        ..decided(1, Some("mB"))
    };
    let once_more = NewAllocation {
        allocation: allocation(3),
        ..decided(1, None)
    };
    let written = setup
        .write(vec![
            closed(1),
            Change::Decided(again),
            closed(2),
            Change::Decided(once_more),
        ])
        .await;
    assert_eq!(written.conflicts, vec![]);
    let open = setup
        .ledger
        .allocations()
        .open_of(&setup.corp, &subject("wmC001"))
        .await
        .unwrap();
    assert_eq!(
        (open.len(), open[0].id, open[0].state),
        (1, allocation(3), AllocationState::Waiting)
    );
}

#[tokio::test]
async fn a_close_takes_back_what_is_not_sent() {
    let setup = setup().await;
    let outbox = setup.ledger.outbox();
    let with = |key: &str| Change::Effect(effect_of(1, key, None));
    setup
        .write(vec![
            Change::Decided(decided(1, Some("mA"))),
            Change::Transfer(transfer(7, 1, "mB", "mA")),
            Change::Transfer(transfer(8, 1, "mC", "mA")),
            with("pending"),
            Change::Effect(NewEffect {
                priority: 1,
                ..effect_of(1, "claimed", None)
            }),
            Change::Effect(NewEffect {
                priority: 0,
                transfer: Some(id(8)),
                ..effect_of(1, "sent", None)
            }),
        ])
        .await;
    let claim = ledger::Claim {
        corps: vec![],
        except: vec![],
        kinds: vec![],
        limit: 2,
        lease_ms: 10_000,
    };
    let rows = outbox.claim(&claim, T0 + 10).await.unwrap();
    assert_eq!(
        rows.iter().map(|row| row.key.as_str()).collect::<Vec<_>>(),
        ["sent", "claimed"]
    );
    assert_eq!(
        outbox
            .begin(&[rows[0].held()], T0 + 11)
            .await
            .unwrap()
            .len(),
        1
    );
    setup.write(vec![closed(1), with("after the close")]).await;
    let states: Vec<_> = outbox
        .of_allocation(&setup.corp, allocation(1))
        .await
        .unwrap()
        .into_iter()
        .map(|row| (row.key, row.state))
        .collect();
    let expected = [
        ("sent", EffectState::Running),
        ("claimed", EffectState::Cancelled),
        ("pending", EffectState::Cancelled),
        ("after the close", EffectState::Pending),
    ];
    for (key, state) in expected {
        assert!(
            states.contains(&(key.to_owned(), state)),
            "{key}: {states:?}"
        );
    }
    // Its holder learns it at the last look.
    assert!(
        outbox
            .begin(&[rows[1].held()], T0 + 12)
            .await
            .unwrap()
            .is_empty()
    );
    let state = async |n| {
        setup
            .ledger
            .transfers()
            .get(&setup.corp, id(n))
            .await
            .unwrap()
            .unwrap()
            .state
    };
    assert_eq!(state(7).await, TransferState::Cancelled);
    assert_eq!(state(8).await, TransferState::Planned);
}

#[tokio::test]
async fn a_reassignment_takes_back_what_belonged_to_earlier_epochs() {
    let setup = setup().await;
    setup
        .write(vec![
            Change::Decided(decided(1, Some("mA"))),
            Change::Transfer(transfer(7, 1, "mH", "mA")),
            Change::Effect(effect_of(1, "welcome", None)),
            Change::Effect(effect_of(1, "card to mA", Some(0))),
            Change::Settled {
                allocation: allocation(1),
                how: SettledAs::Done,
            },
        ])
        .await;
    setup
        .write(vec![
            assigned(1, "mB", Some(1)),
            Change::Effect(effect_of(1, "card to mB", Some(1))),
        ])
        .await;
    let effects = setup
        .ledger
        .outbox()
        .of_allocation(&setup.corp, allocation(1))
        .await
        .unwrap();
    let state = |key: &str| effects.iter().find(|row| row.key == key).unwrap().state;
    assert_eq!(state("welcome"), EffectState::Pending);
    assert_eq!(state("card to mA"), EffectState::Cancelled);
    assert_eq!(state("card to mB"), EffectState::Pending);
    let row = setup
        .ledger
        .allocations()
        .get(&setup.corp, allocation(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (row.member, row.epoch, row.settled_ms),
        (Some(member("mB")), 1, None)
    );
    let transfer = setup
        .ledger
        .transfers()
        .get(&setup.corp, id(7))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(transfer.state, TransferState::Cancelled);
}

#[tokio::test]
async fn settling_says_how_it_ended() {
    let setup = setup().await;
    let holder = |n| NewAllocation {
        giver: Some(member("mH")),
        ..decided(n, Some("mA"))
    };
    setup
        .write((1..=4).map(|n| Change::Decided(holder(n))).collect())
        .await;
    let settled = |n, how| Change::Settled {
        allocation: allocation(n),
        how,
    };
    let void = SettledAs::Void(Reason::new("refused").unwrap());
    setup
        .write(vec![
            settled(1, SettledAs::Done),
            settled(2, SettledAs::Kept(member("mH"))),
            settled(3, void),
            closed(4),
        ])
        .await;
    // Twice is once.
    setup
        .write(vec![settled(1, SettledAs::Kept(member("mA"))), closed(3)])
        .await;
    let rows = setup
        .ledger
        .allocations()
        .get_many(&setup.corp, &(1..=4).map(allocation).collect::<Vec<_>>())
        .await
        .unwrap();
    let row = |n| rows.iter().find(|row| row.id == allocation(n)).unwrap();
    let view = |n| {
        let row = row(n);
        (
            row.settled_as.as_deref().unwrap(),
            row.member.clone().unwrap(),
            row.giver.clone(),
            row.close_reason.as_deref(),
        )
    };
    let (m_a, m_h) = (member("mA"), member("mH"));
    assert_eq!(view(1), ("done", m_a.clone(), None, None));
    assert_eq!(view(2), ("kept", m_h.clone(), None, None));
    assert_eq!(
        view(3),
        ("void", m_a.clone(), Some(m_h.clone()), Some("refused"))
    );
    assert_eq!(view(4), ("closed", m_a, Some(m_h), Some("customer_left")));
}

#[tokio::test]
async fn a_transfer_under_way_is_not_planned_twice() {
    let setup = setup().await;
    setup
        .write(vec![
            Change::Decided(decided(1, Some("mA"))),
            Change::Transfer(transfer(7, 1, "mB", "mA")),
        ])
        .await;
    let written = setup
        .write(vec![
            Change::Transfer(transfer(8, 1, "mB", "mA")),
            Change::Effect(NewEffect {
                transfer: Some(id(8)),
                ..effect("transfer", "8")
            }),
            Change::Transfer(transfer(9, 1, "mC", "mA")),
        ])
        .await;
    assert_eq!(written.transfers_under_way, vec![id(8)]);
    assert_eq!(setup.number("SELECT count(*) FROM outbox").await, 0);
    assert_eq!(setup.number("SELECT count(*) FROM transfers").await, 2);
}

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
