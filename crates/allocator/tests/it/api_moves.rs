//! Closing and reassigning, and what a closed corp says.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::api_support::World;

fn asked(customer: &str) -> Value {
    json!({"subject": {"kind": "wecom", "id": customer}, "pool": "p1"})
}

#[tokio::test]
async fn closing_frees_the_member_once() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    console.put("/members/mA", json!({"cap": 1})).await.ok();
    let first = console.ask("p1", "wmC001").await;
    assert_eq!(console.ask("p1", "wmC002").await["decision"], "waiting");
    let path = format!(
        "/allocations/{}/close",
        first["allocation_id"].as_str().unwrap()
    );
    let closes =
        join_all((0..10).map(|_| console.post(&path, json!({"note": "customer left"})))).await;
    assert_eq!(
        closes
            .iter()
            .filter(|close| close.ok()["changed"] == true)
            .count(),
        1
    );
    world.written().await;
    let waiting = console.all("/allocations?subject_id=wmC002").await;
    assert_eq!(waiting[0]["member"], "mA", "who waited got the free place");
    let entries = console.all("/audit?action=allocation.close").await;
    assert_eq!(entries.len(), 1, "what changed nothing is not in the audit");
    assert_eq!(entries[0]["reason"], "customer left");
    assert_eq!(
        console
            .post("/allocations/nonsense/close", json!({}))
            .await
            .status,
        404
    );
    world.check().await;
}

#[tokio::test]
async fn reassigning_needs_to_know_what_was_seen() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    for member in ["mB", "mC"] {
        console
            .put(&format!("/members/{member}"), json!({}))
            .await
            .ok();
    }
    console
        .put("/members/mC", json!({"blocked": "on_leave"}))
        .await
        .ok();
    console.put("/members/mD", json!({"cap": 0})).await.ok();
    let decided = console.ask("p1", "wmC001").await;
    let path = format!(
        "/allocations/{}/reassign",
        decided["allocation_id"].as_str().unwrap()
    );
    for (body, pointer) in [
        (json!({"to": "mB"}), "/expect_epoch"),
        (json!({"to": "mX", "expect_epoch": 0}), "/to"),
        (json!({"to": "mB", "expect_epoch": -1}), "/expect_epoch"),
    ] {
        assert_eq!(
            console.post(&path, body.clone()).await.pointers(),
            [pointer],
            "{body}"
        );
    }
    for (body, code) in [
        (json!({"to": "mC", "expect_epoch": 0}), "member_blocked"),
        (json!({"to": "mD", "expect_epoch": 0}), "member_full"),
        (json!({"expect_epoch": 0}), "nobody_free"),
        (json!({"to": "mB", "expect_member": "mC"}), "owner_changed"),
        (json!({"to": "mB", "expect_epoch": 7}), "owner_changed"),
    ] {
        assert_eq!(
            console.post(&path, body.clone()).await.refused(),
            (409, code.to_owned()),
            "{body}"
        );
    }
    let moved = console
        .post(&path, json!({"to": "MB", "expect_member": "ma"}))
        .await
        .ok();
    assert_eq!(
        (&moved["member"], &moved["epoch"], &moved["changed"]),
        (&json!("mB"), &json!(1), &json!(true))
    );
    let same = console
        .post(&path, json!({"to": "mB", "expect_epoch": 1}))
        .await
        .ok();
    assert_eq!(same["changed"], false);
    world.written().await;
    let row = console.get(&path.replace("/reassign", "")).await.ok();
    assert_eq!((&row["member"], &row["epoch"]), (&json!("mB"), &json!(1)));
    let entries = console.all("/audit?action=allocation.reassign").await;
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (&entries[0]["before"]["member"], &entries[0]["after"]["to"]),
        (&json!("mA"), &json!("mB"))
    );
    console
        .post(&path.replace("reassign", "close"), json!({}))
        .await
        .ok();
    assert_eq!(
        console
            .post(&path, json!({"to": "mA", "expect_epoch": 1}))
            .await
            .refused()
            .1,
        "not_open"
    );
    world.check().await;
}

/// Case 132: the decision and two manual assignments at once, over two allocators, 100 rounds: one open row each round,
/// the losers learn who has it, the ledger shows one change, counters match.
#[tokio::test]
async fn of_two_manual_assignments_one_wins() {
    let world = Arc::new(World::with(2, Default::default()).await);
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    for member in ["mB", "mC"] {
        console
            .put(&format!("/members/{member}"), json!({}))
            .await
            .ok();
    }
    let key = console.key.clone().unwrap();
    let rounds = (0..100).map(|round| {
        let (world, key) = (Arc::clone(&world), key.clone());
        async move {
            let customer = format!("wmC{round:03}");
            let manual = ["mB", "mC"].into_iter().enumerate().map(|(node, to)| {
                let (console, customer) = (world.at(node, &key), customer.clone());
                async move {
                    // Whoever comes first decides; both see the same allocation at its first epoch.
                    let decided = console.post("/allocations", asked(&customer)).await.ok();
                    let path = format!(
                        "/allocations/{}/reassign",
                        decided["allocation_id"].as_str().unwrap()
                    );
                    (
                        to,
                        console
                            .post(&path, json!({"to": to, "expect_epoch": 0}))
                            .await,
                    )
                }
            });
            let automatic = world.at(round % 2, &key);
            let (_, answers) = tokio::join!(
                automatic.post("/allocations", asked(&customer)),
                join_all(manual)
            );
            let (won, lost): (Vec<_>, Vec<_>) = answers
                .into_iter()
                .partition(|(_, answer)| answer.status == 200);
            assert_eq!((won.len(), lost.len()), (1, 1), "round {round}");
            let owner = won[0].0;
            assert_eq!(lost[0].1.refused(), (409, "owner_changed".to_owned()));
            assert_eq!(
                lost[0].1.json()["current"],
                json!({"member": owner, "epoch": 1})
            );
            (customer, owner)
        }
    });
    let owners = join_all(rounds).await;
    world.check().await;
    let rows = console.all("/allocations?state=open").await;
    assert_eq!(rows.len(), 100);
    for (customer, owner) in owners {
        let row = rows
            .iter()
            .find(|row| row["customer"]["external_id"] == customer)
            .unwrap();
        assert_eq!((&row["member"], &row["epoch"]), (&json!(owner), &json!(1)));
    }
    assert_eq!(
        console.all("/audit?action=allocation.reassign").await.len(),
        100
    );
}

/// A closed corp says so, and when to come again.
#[tokio::test]
async fn a_corp_that_is_not_ready_answers_503() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    world.written().await;
    world.corp_app().roster.begin_rebuild(99).await.unwrap();
    for answer in [
        console.post("/allocations", asked("wmC001")).await,
        console.get("/presence").await,
    ] {
        assert_eq!(answer.refused(), (503, "not_ready".to_owned()));
        assert_eq!(answer.header("retry-after"), "2");
    }
    console.get("/pools").await.ok();
}
