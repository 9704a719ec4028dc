//! Looks at transfers that are under way: each is due once.

use ledger::{Transfer, TransferState, TransferStep};

use crate::{
    setup::{T0, id},
    transfers::{DAY_MS, advance, get, plan, started, transfers, with_customers},
};

#[tokio::test]
async fn due_checks_are_taken_by_one() {
    let setup = with_customers().await;
    for n in 1..=3 {
        plan(&setup, n, 1, &format!("g{n}")).await;
    }
    advance(
        &setup,
        &[started(1, T0), started(2, T0 + 5_000), started(3, T0)],
        T0,
    )
    .await;
    advance(&setup, &[TransferStep::new(id(3), TransferState::Done)], T0).await;
    let transfers = transfers(&setup);
    assert!(
        transfers
            .claim_due(&setup.corp, 10, 30_000, T0 + 9_999)
            .await
            .unwrap()
            .is_empty()
    );
    let due = transfers
        .claim_due(&setup.corp, 10, 30_000, T0 + 10_000)
        .await
        .unwrap();
    assert_eq!((due.len(), due[0].id, due[0].checks), (1, id(1), 1));
    let due = transfers
        .claim_due(&setup.corp, 10, 30_000, T0 + 15_000)
        .await
        .unwrap();
    assert_eq!((due.len(), due[0].id), (1, id(2)));
    // Nobody told what came of it: it comes again after the lease.
    let due = transfers
        .claim_due(&setup.corp, 10, 30_000, T0 + 40_000)
        .await
        .unwrap();
    assert_eq!((due.len(), due[0].id, due[0].checks), (1, id(1), 2));
}

/// An event that comes while WeCom is being asked asks for another look: the answer under way may be older.
#[tokio::test]
async fn what_is_due_meanwhile_stays_due() {
    let setup = with_customers().await;
    plan(&setup, 1, 1, "mB").await;
    advance(&setup, &[started(1, T0)], T0).await;
    let now_ms = T0 + 10_000;
    let looked = |due: &Transfer| TransferStep {
        next_check_ms: Some(now_ms + DAY_MS),
        asked_check_ms: due.next_check_ms,
        ..TransferStep::new(id(1), TransferState::Waiting)
    };
    let due = transfers(&setup)
        .claim_due(&setup.corp, 10, 30_000, now_ms)
        .await
        .unwrap();
    let hint = TransferStep {
        next_check_ms: Some(now_ms + 1),
        ..TransferStep::new(id(1), TransferState::Submitted)
    };
    advance(&setup, &[hint], now_ms + 1).await;
    advance(&setup, &[looked(&due[0])], now_ms + 2).await;
    assert_eq!(get(&setup, 1).await.next_check_ms, Some(now_ms + 1));

    // Nobody asked for more: the answer says when to look again.
    let due = transfers(&setup)
        .claim_due(&setup.corp, 10, 30_000, now_ms + 3)
        .await
        .unwrap();
    advance(&setup, &[looked(&due[0])], now_ms + 4).await;
    let row = get(&setup, 1).await;
    assert_eq!(
        (row.state, row.next_check_ms),
        (TransferState::Waiting, Some(now_ms + DAY_MS))
    );
}
