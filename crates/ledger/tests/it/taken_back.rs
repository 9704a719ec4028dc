//! What a later entry takes back or ends: closes, reassignments, settlements, conflicts.

use allocation::Reason;
use ledger::{
    AllocationState, Change, Conflict, EffectState, NewAllocation, NewEffect, SettledAs,
    TransferState,
};

use crate::setup::{
    T0, allocation, assigned, closed, decided, effect_of, id, member, setup, subject, transfer,
};

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
    // What the log says of the lost one later does not bring it back. It is to be ended in Redis until the log has it.
    let to_end = async || {
        let lost = setup.ledger.allocations().lost(&setup.corp, 9).await;
        lost.unwrap()
            .into_iter()
            .map(|row| row.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(to_end().await, [allocation(2)]);
    setup.write(vec![assigned(2, "mD", Some(1))]).await;
    assert_eq!(to_end().await, [allocation(2)]);
    setup.write(vec![closed(2)]).await;
    assert_eq!(to_end().await, []);
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
            Change::Effect(NewEffect {
                due_ms: T0 + 2,
                ..effect_of(1, "pending", None)
            }),
            Change::Effect(NewEffect {
                due_ms: T0 + 1,
                ..effect_of(1, "claimed", None)
            }),
            Change::Effect(NewEffect {
                transfer: Some(id(8)),
                ..effect_of(1, "sent", None)
            }),
        ])
        .await;
    let claim = ledger::Claim {
        corp: setup.corp.clone(),
        kind: "card".into(),
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
            .begin(&[rows[0].held()], 10_000, T0 + 11)
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
            .begin(&[rows[1].held()], 10_000, T0 + 12)
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
    let kept = |by: &str, moved| SettledAs::Kept {
        member: member(by),
        moved,
    };
    setup
        .write(vec![
            settled(1, SettledAs::Done),
            settled(2, kept("mH", true)),
            settled(3, void),
            closed(4),
        ])
        .await;
    // Twice is once.
    setup
        .write(vec![settled(1, kept("mA", false)), closed(3)])
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
    let epochs: Vec<u64> = (1..=4).map(|n| row(n).epoch).collect();
    assert_eq!(epochs, [0, 1, 0, 0], "who has him changed once");
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
                ..crate::setup::effect("transfer", "8")
            }),
            Change::Transfer(transfer(9, 1, "mC", "mA")),
        ])
        .await;
    assert_eq!(written.transfers_under_way, vec![id(8)]);
    assert_eq!(setup.number("SELECT count(*) FROM outbox").await, 0);
    assert_eq!(setup.number("SELECT count(*) FROM transfers").await, 2);
}

/// A start that WeCom refused for the moment is to be asked for again; taken back meanwhile, it is over, and the pair is
/// free for the next transfer.
#[tokio::test]
async fn a_transfer_that_waits_for_another_try_is_taken_back_too() {
    let setup = setup().await;
    let start = |n| {
        [
            Change::Transfer(transfer(n, 1, "mB", "mA")),
            Change::Effect(NewEffect {
                transfer: Some(id(n)),
                ..effect_of(1, &n.to_string(), Some(0))
            }),
        ]
    };
    let mut changes = vec![Change::Decided(decided(1, Some("mA")))];
    changes.extend(start(7));
    setup.write(changes).await;
    let (outbox, transfers) = (setup.ledger.outbox(), setup.ledger.transfers());
    let claim = ledger::Claim {
        corp: setup.corp.clone(),
        kind: "card".into(),
        limit: 1,
        lease_ms: 10_000,
    };
    let row = outbox.claim(&claim, T0 + 10).await.unwrap().remove(0);
    outbox.begin(&[row.held()], 10_000, T0 + 11).await.unwrap();
    let step = ledger::TransferStep {
        never_started: true,
        ..ledger::TransferStep::new(id(7), TransferState::Submitted)
    };
    transfers.advance(&[step], T0 + 12).await.unwrap();
    let again = ledger::Outcome::Again { due_ms: T0 + 9_000 };
    outbox
        .finish(&[ledger::Finish::new(row.held(), again)], T0 + 12)
        .await
        .unwrap();

    setup.write(vec![assigned(1, "mC", Some(1))]).await;
    let mut changes = vec![assigned(1, "mA", Some(2))];
    changes.extend(start(8));
    let written = setup.write(changes).await;
    assert!(written.transfers_under_way.is_empty());
    let state = async |n| {
        let transfer = transfers.get(&setup.corp, id(n)).await.unwrap().unwrap();
        transfer.state
    };
    assert_eq!(state(7).await, TransferState::Cancelled);
    assert_eq!(state(8).await, TransferState::Planned);
}
