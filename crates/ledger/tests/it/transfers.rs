//! Transfers: planned once, never a step back, counted against the moves a customer may make.

use std::collections::HashSet;

use futures_util::future::join_all;
use ledger::{
    Change, Entry, NewAllocation, NewTransfer, Planned, Transfer, TransferKind, TransferState,
    TransferStep, Transfers, window_start,
};

use crate::setup::{
    Setup, T0, allocation, batch, customer, decided, effect_of, entry, id, member, pool, setup,
    subject, transfer,
};

pub(crate) const DAY_MS: u64 = 24 * 60 * 60 * 1000;

pub(crate) async fn with_customers() -> Setup {
    let setup = setup().await;
    setup
        .write(
            (1..=3)
                .map(|n| Change::Decided(decided(n, Some("mA"))))
                .collect(),
        )
        .await;
    setup
}

pub(crate) async fn plan(setup: &Setup, n: u128, of: u64, giver: &str) -> Transfer {
    let new = transfer(n, of, giver, "mA");
    assert_eq!(
        transfers(setup)
            .plan(&setup.corp, &new, T0 + 1)
            .await
            .unwrap(),
        Planned::New(id(n))
    );
    get(setup, n).await
}

pub(crate) fn transfers(setup: &Setup) -> Transfers {
    setup.ledger.transfers()
}

pub(crate) async fn get(setup: &Setup, n: u128) -> Transfer {
    transfers(setup)
        .get(&setup.corp, id(n))
        .await
        .unwrap()
        .unwrap()
}

pub(crate) fn started(n: u128, at_ms: u64) -> TransferStep {
    TransferStep {
        started_ms: Some(at_ms),
        takeover_ms: Some(at_ms + DAY_MS),
        next_check_ms: Some(at_ms + 10_000),
        errcode: Some(0),
        ..TransferStep::new(id(n), TransferState::Submitted)
    }
}

pub(crate) async fn advance(
    setup: &Setup,
    steps: &[TransferStep],
    now_ms: u64,
) -> HashSet<uuid::Uuid> {
    transfers(setup).advance(steps, now_ms).await.unwrap()
}

#[tokio::test]
async fn a_pair_is_planned_once_at_a_time() {
    let setup = with_customers().await;
    plan(&setup, 7, 1, "mB").await;
    let transfers = transfers(&setup);
    // By the same call once more, and by another.
    let again = transfers
        .plan(&setup.corp, &transfer(7, 1, "mB", "mA"), T0 + 2)
        .await
        .unwrap();
    assert_eq!(again, Planned::New(id(7)));
    let other = transfers
        .plan(&setup.corp, &transfer(8, 1, "mB", "mA"), T0 + 2)
        .await
        .unwrap();
    assert_eq!(other, Planned::UnderWay(id(7)));
    let stranger = NewTransfer {
        subject: subject("wmStranger"),
        ..transfer(9, 1, "mB", "mA")
    };
    assert_eq!(
        transfers
            .plan(&setup.corp, &stranger, T0 + 2)
            .await
            .unwrap(),
        Planned::UnknownCustomer
    );
    advance(
        &setup,
        &[TransferStep::new(id(7), TransferState::Failed)],
        T0 + 3,
    )
    .await;
    let free = transfers
        .plan(&setup.corp, &transfer(8, 1, "mB", "mA"), T0 + 4)
        .await
        .unwrap();
    assert_eq!(free, Planned::New(id(8)));
    let open: Vec<_> = transfers
        .open_for(&setup.corp, &subject("wmC001"))
        .await
        .unwrap();
    assert_eq!((open.len(), open[0].id), (1, id(8)));
    assert_eq!(
        transfers
            .of_allocations(&setup.corp, &[allocation(1)])
            .await
            .unwrap()
            .len(),
        2
    );
}

/// Case 124, at the same time.
#[tokio::test]
async fn two_plans_at_once_are_one_transfer() {
    let setup = with_customers().await;
    for round in 0..20_u128 {
        let plans = join_all((0..4).map(|n| {
            let new = transfer(100 + round * 10 + n, 1, &format!("g{round}"), "mA");
            let setup = &setup;
            async move { transfers(setup).plan(&setup.corp, &new, T0).await.unwrap() }
        }))
        .await;
        let new = plans
            .iter()
            .filter(|plan| matches!(plan, Planned::New(_)))
            .count();
        assert_eq!(new, 1, "{plans:?}");
        let ids: HashSet<_> = plans
            .iter()
            .map(|plan| match plan {
                Planned::New(id) | Planned::UnderWay(id) => *id,
                Planned::UnknownCustomer => panic!("{plans:?}"),
            })
            .collect();
        assert_eq!(ids.len(), 1);
    }
}

#[tokio::test]
async fn steps_lead_forward_and_an_end_is_an_end() {
    let setup = with_customers().await;
    plan(&setup, 7, 1, "mB").await;
    let step = |to| TransferStep::new(id(7), to);
    let took = async |step, now| !advance(&setup, &[step], now).await.is_empty();
    assert!(took(step(TransferState::Unknown), T0 + 10).await);
    assert!(took(step(TransferState::Unknown), T0 + 12).await);
    assert_eq!(get(&setup, 7).await.unknown_since_ms, Some(T0 + 10));
    assert!(took(started(7, T0 + 20), T0 + 20).await);
    let row = get(&setup, 7).await;
    assert_eq!(
        (row.state, row.started_ms, row.unknown_since_ms),
        (TransferState::Submitted, Some(T0 + 20), None)
    );
    assert_eq!(
        (row.takeover_ms, row.next_check_ms),
        (Some(T0 + 20 + DAY_MS), Some(T0 + 10_020))
    );
    assert!(
        took(
            TransferStep {
                raw_status: Some(2),
                ..step(TransferState::Waiting)
            },
            T0 + 30
        )
        .await
    );
    assert!(
        !took(started(7, T0 + 40), T0 + 40).await,
        "a late answer of the submission"
    );
    assert!(took(step(TransferState::Human), T0 + 50).await);
    assert!(
        took(
            TransferStep {
                raw_status: Some(1),
                ..step(TransferState::Done)
            },
            T0 + 60
        )
        .await
    );
    assert!(!took(step(TransferState::Refused), T0 + 70).await);
    let row = get(&setup, 7).await;
    assert_eq!(
        (row.state, row.ended_ms, row.next_check_ms),
        (TransferState::Done, Some(T0 + 60), None)
    );
    assert_eq!(
        (row.started_ms, row.raw_status, row.errcode),
        (Some(T0 + 20), Some(1), Some(0))
    );
}

#[tokio::test]
async fn the_last_of_two_steps_in_a_call_counts() {
    let setup = with_customers().await;
    plan(&setup, 7, 1, "mB").await;
    let steps = [
        started(7, T0 + 10),
        TransferStep::new(id(7), TransferState::Waiting),
    ];
    assert_eq!(
        advance(&setup, &steps, T0 + 10).await,
        HashSet::from([id(7)])
    );
    assert_eq!(get(&setup, 7).await.state, TransferState::Waiting);
}

/// Case 85: two accepted starts in ninety natural days, counted before asking.
#[tokio::test]
async fn moves_in_the_window_are_counted() {
    let setup = with_customers().await;
    let now = T0;
    let since = window_start(now, 90, 480);
    let at = [
        (1, now - 10 * DAY_MS),
        (2, now - 20 * DAY_MS),
        (3, since),
        (4, since - 1),
    ];
    for (n, at_ms) in at {
        plan(&setup, n, 1, &format!("g{n}")).await;
        advance(&setup, &[started(n, at_ms)], at_ms).await;
        advance(
            &setup,
            &[TransferStep::new(id(n), TransferState::Done)],
            at_ms,
        )
        .await;
    }
    let resigned = NewTransfer {
        kind: TransferKind::Resigned,
        ..transfer(5, 1, "g5", "mA")
    };
    transfers(&setup)
        .plan(&setup.corp, &resigned, now)
        .await
        .unwrap();
    advance(&setup, &[started(5, now)], now).await;
    plan(&setup, 6, 1, "g6").await;
    let count = async || {
        let subjects = [subject("wmC001"), subject("wmC002")];
        transfers(&setup)
            .moves_since(&setup.corp, &subjects, since)
            .await
            .unwrap()
    };
    let of_first = async || count().await.get(&subject("wmC001")).copied();
    assert_eq!(of_first().await, Some(3), "a planned one is no move");
    let unknown = TransferStep {
        started_ms: Some(now),
        ..TransferStep::new(id(6), TransferState::Unknown)
    };
    advance(&setup, &[unknown], now).await;
    assert_eq!(
        of_first().await,
        Some(4),
        "one that may have been accepted is"
    );
    let never = TransferStep {
        never_started: true,
        ..TransferStep::new(id(6), TransferState::Failed)
    };
    advance(&setup, &[never], now).await;
    assert_eq!(of_first().await, Some(3));
    assert_eq!(count().await.len(), 1);
}

/// Case 88: what a transfer's end sends is recognised by our own record when the allocation is gone that it was for:
/// nothing is decided anew. A member who has no part in it, a transfer that was refused or never began, and a time long
/// after its end are no echo.
#[tokio::test]
async fn the_echo_of_a_transfer_decides_nothing() {
    let setup = with_customers().await;
    setup.write(vec![Change::Decided(decided(4, None))]).await;
    for (n, of, giver) in [(1, 1, "mB"), (2, 2, "mB"), (3, 3, "mB"), (4, 4, "mB")] {
        plan(&setup, n, of, giver).await;
    }
    let begun = [started(1, T0), started(2, T0), started(3, T0)];
    advance(&setup, &begun, T0).await;
    let ended = [
        TransferStep::new(id(2), TransferState::Done),
        TransferStep::new(id(3), TransferState::Refused),
    ];
    advance(&setup, &ended, T0).await;
    let arrives = async |n: u64, of: u64, holder: &str, echo: bool, at_ms: u64| {
        let again = NewAllocation {
            allocation: allocation(n),
            pool: pool("elsewhere"),
            giver: Some(member(holder)),
            echo,
            ..decided(of, Some("mZ"))
        };
        let seq = setup.ledger.corps().get(&setup.corp).await.unwrap();
        let changes = vec![
            Change::Decided(again),
            Change::Transfer(transfer(u128::from(n) * 100, of, holder, "mZ")),
            Change::Effect(effect_of(n, &n.to_string(), None)),
        ];
        let changes = changes.into_iter().map(|change| match change {
            Change::Transfer(transfer) => Change::Transfer(NewTransfer {
                allocation: Some(allocation(n)),
                ..transfer
            }),
            other => other,
        });
        let entry = Entry {
            at_ms,
            ..entry(seq.unwrap().log_seq + 1, changes.collect())
        };
        let written = setup.write_batch(&batch(vec![entry])).await.unwrap();
        let rows = setup.ledger.allocations();
        let row = rows.get(&setup.corp, allocation(n)).await.unwrap().unwrap();
        let planned = transfers(&setup)
            .get(&setup.corp, id(u128::from(n) * 100))
            .await;
        let effects = setup.ledger.outbox();
        let effects = effects.of_allocation(&setup.corp, allocation(n)).await;
        let is_echo = written.echoes == [allocation(n)];
        assert_eq!(
            row.close_reason.as_deref(),
            is_echo.then_some("echo"),
            "{n}"
        );
        assert_eq!(planned.unwrap().is_none(), is_echo, "{n}");
        assert_eq!(effects.unwrap().is_empty(), is_echo, "{n}");
        is_echo
    };
    assert!(arrives(101, 1, "mA", true, T0).await, "it goes on");
    assert!(
        arrives(102, 2, "mA", true, T0).await,
        "it was done just now"
    );
    assert!(!arrives(103, 2, "mA", true, T0 + 3_600_000).await);
    assert!(!arrives(104, 1, "mA", false, T0).await, "nobody's event");
    assert!(!arrives(105, 3, "mA", true, T0).await, "refused");
    assert!(!arrives(106, 4, "mA", true, T0).await, "never began");
    assert!(!arrives(107, 5, "mC", true, T0).await, "not to him");
}

/// Case 123: steps of overlapping transfers in opposite order.
#[tokio::test]
async fn overlapping_steps_do_not_deadlock() {
    let setup = with_customers().await;
    let customers: Vec<_> = (0..50)
        .map(|n| (subject(&format!("wm{n}")), customer(&format!("wm{n}"))))
        .collect();
    setup
        .ledger
        .customers()
        .upsert(&setup.corp, &customers)
        .await
        .unwrap();
    for n in 0..50_u128 {
        let new = NewTransfer {
            subject: subject(&format!("wm{n}")),
            ..transfer(n + 1, 1, "mB", "mA")
        };
        assert!(matches!(
            transfers(&setup).plan(&setup.corp, &new, T0).await.unwrap(),
            Planned::New(_)
        ));
    }
    let forward: Vec<_> = (1..=50)
        .map(|n| TransferStep::new(id(n), TransferState::Waiting))
        .collect();
    let backward: Vec<_> = forward.iter().rev().copied().collect();
    let all = join_all((0..40).map(|round| {
        let steps = if round % 2 == 0 { &forward } else { &backward };
        let setup = &setup;
        async move { advance(setup, steps, T0 + round).await.len() }
    }));
    assert!(all.await.into_iter().all(|taken| taken == 50));
}
