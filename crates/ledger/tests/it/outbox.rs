//! The outbox: who holds a row, what he may still do with it, and what happens when he is lost.

use std::collections::HashSet;

use allocation::CorpId;
use futures_util::future::join_all;
use ledger::{Change, Claim, EffectState, Fence, Finish, NewEffect, OutboxRow, Outcome};
use serde_json::json;
use uuid::Uuid;

use crate::setup::{Setup, T0, corp, effect, setup, setup_with};

pub(crate) fn claim(kind: &str, limit: u32) -> Claim {
    Claim {
        corp: corp(),
        kind: kind.into(),
        limit,
        lease_ms: 10_000,
    }
}

pub(crate) async fn put(setup: &Setup, effects: Vec<NewEffect>) {
    setup
        .write(effects.into_iter().map(Change::Effect).collect())
        .await;
}

pub(crate) async fn take_one(setup: &Setup, kind: &str, now_ms: u64) -> OutboxRow {
    let mut rows = setup
        .ledger
        .outbox()
        .claim(&claim(kind, 1), now_ms)
        .await
        .unwrap();
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

/// Cards and welcomes that are due.
pub(crate) async fn take_both(setup: &Setup, now_ms: u64) -> Vec<OutboxRow> {
    let outbox = setup.ledger.outbox();
    let mut rows = outbox.claim(&claim("card", 9), now_ms).await.unwrap();
    rows.extend(outbox.claim(&claim("welcome", 9), now_ms).await.unwrap());
    rows
}

pub(crate) async fn get(setup: &Setup, id: Uuid) -> OutboxRow {
    setup
        .ledger
        .outbox()
        .get(&setup.corp, id)
        .await
        .unwrap()
        .unwrap()
}

pub(crate) fn fence(counter: u64) -> Fence {
    Fence {
        generation: 1,
        counter,
    }
}

#[tokio::test]
async fn the_longest_due_come_first() {
    let setup = setup().await;
    let row = |key: &str, due_ms| NewEffect {
        due_ms,
        ..effect("card", key)
    };
    put(
        &setup,
        vec![
            row("late", T0 + 5),
            row("early", T0 + 1),
            row("last", T0 + 9),
            row("future", T0 + 1_000),
            NewEffect {
                deadline_ms: Some(T0 + 10),
                ..row("too late", T0)
            },
        ],
    )
    .await;
    let rows = setup
        .ledger
        .outbox()
        .claim(&claim("card", 10), T0 + 10)
        .await
        .unwrap();
    assert_eq!(
        rows.iter().map(|row| row.key.as_str()).collect::<Vec<_>>(),
        ["early", "late", "last"]
    );
    assert!(
        rows.iter()
            .all(|row| row.state == EffectState::Running && row.attempt == 1 && row.tries == 0)
    );
    assert!(
        setup
            .ledger
            .outbox()
            .claim(&claim("card", 10), T0 + 10)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_claim_is_for_a_corp_and_a_kind() {
    let setup = setup().await;
    put(&setup, vec![effect("card", "1"), effect("transfer", "1")]).await;
    let outbox = setup.ledger.outbox();
    let other: CorpId = "ww0000000000000000".parse().unwrap();
    let none = [
        Claim {
            corp: other,
            ..claim("card", 9)
        },
        claim("welcome", 9),
    ];
    for claim in none {
        assert!(
            outbox.claim(&claim, T0 + 9).await.unwrap().is_empty(),
            "{claim:?}"
        );
    }
    let rows = outbox.claim(&claim("card", 9), T0 + 9).await.unwrap();
    assert_eq!((rows.len(), rows[0].kind.as_str()), (1, "card"));
}

#[tokio::test]
async fn asking_twice_is_asking_once() {
    let setup = setup().await;
    put(
        &setup,
        vec![
            effect("card", "1"),
            effect("card", "1"),
            effect("welcome", "1"),
        ],
    )
    .await;
    put(&setup, vec![effect("card", "1")]).await;
    assert_eq!(setup.number("SELECT count(*) FROM outbox").await, 2);
}

/// No row is held by two, however many claim at once.
#[tokio::test]
async fn many_claim_at_once_and_each_row_is_held_by_one() {
    let setup = setup_with(|config| ledger::Config {
        max_connections: 10,
        ..config
    })
    .await;
    put(
        &setup,
        (0..200).map(|n| effect("card", &n.to_string())).collect(),
    )
    .await;
    let claims = join_all((0..40).map(|_| async {
        setup
            .ledger
            .outbox()
            .claim(&claim("card", 7), T0 + 9)
            .await
            .unwrap()
    }));
    let mut rows: Vec<Uuid> = claims
        .await
        .into_iter()
        .flatten()
        .map(|row| row.id)
        .collect();
    loop {
        let rest = setup
            .ledger
            .outbox()
            .claim(&claim("card", 50), T0 + 9)
            .await
            .unwrap();
        if rest.is_empty() {
            break;
        }
        rows.extend(rest.into_iter().map(|row| row.id));
    }
    assert_eq!(rows.len(), 200);
    assert_eq!(rows.into_iter().collect::<HashSet<_>>().len(), 200);
}

#[tokio::test]
async fn outcomes_are_written_as_told() {
    let setup = setup().await;
    let outbox = setup.ledger.outbox();
    let keys = [
        "done",
        "failed",
        "dead",
        "cancelled",
        "unknown",
        "again",
        "not tried",
    ];
    put(&setup, keys.iter().map(|key| effect("card", key)).collect()).await;
    let rows = outbox.claim(&claim("card", 9), T0 + 10).await.unwrap();
    let row = |key: &str| rows.iter().find(|row| row.key == key).unwrap();
    let begun = rows
        .iter()
        .filter(|row| row.key != "not tried")
        .map(OutboxRow::held)
        .collect::<Vec<_>>();
    assert_eq!(
        outbox.begin(&begun, 10_000, T0 + 11).await.unwrap().len(),
        6
    );
    let due_ms = T0 + 500;
    let outcome = |key: &str| match key {
        "done" => Outcome::Done,
        "failed" => Outcome::Failed,
        "dead" => Outcome::Dead,
        "cancelled" => Outcome::Cancelled,
        "unknown" => Outcome::Unknown { due_ms },
        "again" => Outcome::Again { due_ms },
        _ => Outcome::NotTried { due_ms },
    };
    let finishes: Vec<Finish> = keys
        .iter()
        .map(|key| Finish {
            errcode: Some(40_096),
            error: Some("no such cust\0omer".into()),
            answer: Some(json!({"errcode": 40_096})),
            ..Finish::new(row(key).held(), outcome(key))
        })
        .collect();
    assert!(outbox.finish(&finishes, T0 + 20).await.unwrap().is_empty());
    for key in keys {
        let row = get(&setup, row(key).id).await;
        let (state, tries, due, unknown, settled) = match key {
            "unknown" => (EffectState::Unknown, 1, due_ms, Some(T0 + 11), None),
            "again" => (EffectState::Pending, 1, due_ms, None, None),
            "not tried" => (EffectState::Pending, 0, due_ms, None, None),
            end => (end.parse().unwrap(), 1, T0, None, Some(T0 + 20)),
        };
        assert_eq!(
            (row.state, row.tries, row.due_ms),
            (state, tries, due),
            "{key}"
        );
        assert_eq!(
            (row.unknown_since_ms, row.settled_ms),
            (unknown, settled),
            "{key}"
        );
        if key == "not tried" {
            assert_eq!(
                (row.last_errcode, row.last_error, row.outcome),
                (None, None, None)
            );
        } else {
            assert_eq!(row.last_errcode, Some(40_096));
            assert_eq!(row.last_error.as_deref(), Some("no such customer"));
            assert_eq!(row.outcome, Some(json!({"errcode": 40_096})));
        }
    }
    // An unknown one comes back to be looked up, and stays unknown since then until it is known.
    let mut again = outbox.claim(&claim("card", 9), due_ms).await.unwrap();
    again.retain(|row| row.key == "unknown");
    assert_eq!(
        (again[0].unknown_since_ms, again[0].attempt),
        (Some(T0 + 11), 2)
    );
    let held = again[0].held();
    let put_off = Outcome::NotTried { due_ms: due_ms + 9 };
    outbox
        .finish(&[Finish::new(held, put_off)], due_ms + 1)
        .await
        .unwrap();
    let row = get(&setup, held.id).await;
    assert_eq!(
        (row.state, row.unknown_since_ms, row.due_ms),
        (EffectState::Unknown, Some(T0 + 11), due_ms + 9)
    );
}

/// Case 72: claimed by worker 1, lease lost, claimed by worker 2; both report, worker 1 last.
/// Case 68: the fence of a lock decides, not the clock of its late owner.
#[tokio::test]
async fn short_lived_payloads_are_emptied_at_the_end() {
    let setup = setup().await;
    let outbox = setup.ledger.outbox();
    put(
        &setup,
        vec![NewEffect {
            erase_payload: true,
            ..effect("welcome", "1")
        }],
    )
    .await;
    let row = take_one(&setup, "welcome", T0 + 10).await;
    assert_eq!(row.payload, json!({"for": "1"}));
    let again = Finish::new(row.held(), Outcome::Again { due_ms: T0 + 11 });
    outbox.finish(&[again], T0 + 11).await.unwrap();
    let row = take_one(&setup, "welcome", T0 + 11).await;
    assert_eq!(row.payload, json!({"for": "1"}));
    outbox
        .finish(&[Finish::new(row.held(), Outcome::Dead)], T0 + 12)
        .await
        .unwrap();
    assert_eq!(get(&setup, row.id).await.payload, json!({}));
    // There is nothing left to do again.
    assert!(
        outbox
            .replay(&setup.corp, &[row.id], T0 + 13)
            .await
            .unwrap()
            .is_empty()
    );
}
