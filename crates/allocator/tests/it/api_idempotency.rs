//! Idempotency-Key: on deciding, where Redis remembers, and on every other POST, where Postgres does.

use allocation::{AllocationId, MemberId, PoolId, RequestId, SubjectKey};
use futures_util::future::join_all;
use ledger::{Begun, Change, Customer, Entry, IdempotencyKey, NewAllocation, WriteBatch};
use serde_json::{Value, json};

use crate::api_support::{Options, World};

fn asked(customer: &str) -> Value {
    json!({"subject": {"kind": "wecom", "id": customer}, "pool": "p1"})
}

/// Case 126: twenty of the same at once over two allocators have one effect and one answer; another body is refused.
#[tokio::test]
async fn twenty_of_the_same_decide_once() {
    let world = World::with(2, Options::default()).await;
    let console = world.operator().await;
    world
        .pool(&console, "p1", &[("mA", 1.0), ("mB", 1.0)])
        .await;
    let key = console.key.clone().unwrap();
    let asks = (0..20).map(|n| {
        let console = world.at(n % 2, &key);
        async move {
            console
                .post_once("/allocations", "order-1", asked("wmC001"))
                .await
        }
    });
    let answers = join_all(asks).await;
    let first = answers[0].ok();
    for answer in &answers {
        assert_eq!((answer.status.as_u16(), answer.ok()), (201, first.clone()));
    }
    assert_eq!(
        answers
            .iter()
            .filter(|answer| answer.header("idempotent-replayed") == "true")
            .count(),
        19
    );
    for other in [
        asked("wmC002"),
        json!({"subject": {"kind": "wecom", "id": "wmC001"}, "pool": "p1", "holder": "mA"}),
    ] {
        let answer = console.post_once("/allocations", "order-1", other).await;
        assert_eq!(answer.refused(), (422, "idempotency_key_reused".to_owned()));
    }
    world.written().await;
    assert_eq!(console.all("/allocations").await.len(), 1);
    assert_eq!(
        console.all("/audit?action=allocation.create").await.len(),
        1
    );
    world.check().await;
}

/// The answer of a key is the first one, whatever became of the customer since, and Postgres is not asked.
#[tokio::test]
async fn a_decision_is_repeated_without_postgres() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    let first = console
        .post_once("/allocations", "k1", asked("wmC001"))
        .await;
    let already = console
        .post_once("/allocations", "k2", asked("wmC001"))
        .await;
    assert_eq!(
        (already.status.as_u16(), &already.json()["decision"]),
        (200, &json!("already"))
    );
    world.written().await;
    world.app().ledger.close().await;
    for (key, answer) in [("k1", &first), ("k2", &already)] {
        let again = console
            .post_once("/allocations", key, asked("wmC001"))
            .await;
        assert_eq!(
            (again.status, again.text.as_str()),
            (answer.status, answer.text.as_str())
        );
        assert_eq!(again.header("idempotent-replayed"), "true");
    }
    assert_eq!(
        console
            .post_once("/allocations", "k2", asked("wmC009"))
            .await
            .status,
        503,
        "that one cannot be told yet"
    );
    let other = console
        .post_once("/allocations", "k1", asked("wmC009"))
        .await;
    assert_eq!(other.refused().1, "idempotency_key_reused");
}

/// A key that Redis has forgotten is looked up in the ledger before anything is decided.
#[tokio::test]
async fn an_old_key_is_found_in_the_ledger() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    world.written().await;
    let corp = &world.corp;
    let id = AllocationId(uuid::Uuid::now_v7());
    // Decided yesterday and closed since: Redis knows nothing of it any more.
    let ledger = &world.app().ledger;
    let write = loop {
        // The writer, which finds nothing to write, may hold the row just now.
        if let Some(write) = ledger.begin_log_write(corp).await.unwrap() {
            break write;
        }
    };
    let seq = write.log_seq() + 1;
    let made = NewAllocation {
        allocation: id,
        pool: PoolId::new("p1").unwrap(),
        subject: SubjectKey::new(corp, "wecom", "wmOld"),
        customer: Customer {
            kind: "wecom".to_owned(),
            external_id: Some("wmOld".to_owned()),
        },
        member: Some(MemberId::new("mA").unwrap()),
        giver: None,
        channel: None,
        source: "api".to_owned(),
        delivery: None,
        request: Some(RequestId::new("yesterday").unwrap()),
        echo: false,
        plan: None,
        preferred: Vec::new(),
    };
    let closed = Change::Closed {
        allocation: id,
        reason: allocation::Reason::new("customer_left").unwrap(),
    };
    let entry = Entry {
        seq,
        at_ms: 1_792_000_000_000,
        op: "note.1".to_owned(),
        changes: vec![Change::Decided(made), closed],
        ..Entry::default()
    };
    let generation = world
        .corp_app()
        .roster
        .status()
        .await
        .unwrap()
        .generation
        .unwrap();
    write
        .commit(&WriteBatch {
            generation,
            entries: vec![entry],
        })
        .await
        .unwrap();
    let again = console
        .post_once("/allocations", "yesterday", asked("wmOld"))
        .await;
    assert_eq!(
        (&again.ok()["allocation_id"], &again.ok()["member"]),
        (&json!(id.to_string()), &json!("mA"))
    );
    assert_eq!(again.header("idempotent-replayed"), "true");
    let other = console
        .post_once("/allocations", "yesterday", asked("wmNew"))
        .await;
    assert_eq!(other.refused().1, "idempotency_key_reused");
}

/// Case 126, for the routes whose keys are in Postgres.
#[tokio::test]
async fn twenty_of_the_same_post_run_once() {
    let world = World::with(2, Options::default()).await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    console.put("/members/mB", json!({})).await.ok();
    let decided = console.ask("p1", "wmC001").await;
    let path = format!(
        "/allocations/{}/reassign",
        decided["allocation_id"].as_str().unwrap()
    );
    world.written().await;
    let key = console.key.clone().unwrap();
    let moves = (0..20).map(|n| {
        let (console, path) = (world.at(n % 2, &key), path.clone());
        async move {
            console
                .post_once(&path, "move-1", json!({"to": "mB", "expect_epoch": 0}))
                .await
        }
    });
    let answers = join_all(moves).await;
    let (done, running): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert!(!done.is_empty());
    for answer in &running {
        assert_eq!(answer.refused(), (409, "still_running".to_owned()));
        assert!(!answer.header("retry-after").is_empty());
    }
    assert_eq!(
        done.iter()
            .filter(|answer| answer.header("idempotent-replayed").is_empty())
            .count(),
        1
    );
    let again = console
        .post_once(&path, "move-1", json!({"to": "mB", "expect_epoch": 0}))
        .await;
    assert_eq!(
        (again.text.as_str(), again.header("idempotent-replayed")),
        (done[0].text.as_str(), "true")
    );
    assert_eq!(again.header("content-type"), "application/json");
    let other = console
        .post_once(&path, "move-1", json!({"to": "mA", "expect_epoch": 1}))
        .await;
    assert_eq!(other.refused(), (422, "idempotency_key_reused".to_owned()));
    let elsewhere = console
        .post_once(&path.replace("reassign", "close"), "move-1", json!({}))
        .await;
    assert_eq!(
        elsewhere.refused(),
        (422, "idempotency_key_reused".to_owned())
    );
    // Another caller's key of the same name is another key.
    let neighbour = world.operator().await;
    let late = neighbour
        .post_once(&path, "move-1", json!({"to": "mA", "expect_epoch": 0}))
        .await;
    assert_eq!(late.refused(), (409, "owner_changed".to_owned()));
    // A refusal is an answer too.
    let again = neighbour
        .post_once(&path, "move-1", json!({"to": "mA", "expect_epoch": 0}))
        .await;
    assert_eq!(
        (again.status.as_u16(), again.header("idempotent-replayed")),
        (409, "true")
    );
    assert_eq!(again.header("content-type"), "application/problem+json");
    world.check().await;
}

/// The first caller died: his claim ends with its lease, and the next one runs.
#[tokio::test]
async fn the_claim_of_a_dead_caller_ends() {
    let world = World::new().await;
    let table = world.app().ledger.idempotency();
    let key = IdempotencyKey {
        corp: world.corp.clone(),
        caller: uuid::Uuid::nil(),
        key: "k".to_owned(),
        request: [7; 32],
    };
    let t0 = 1_792_000_000_000;
    let Begun::Run(dead) = table.begin(&key, 1_000, t0).await.unwrap() else {
        panic!("not ours")
    };
    assert_eq!(
        table.begin(&key, 1_000, t0 + 999).await.unwrap(),
        Begun::Running {
            until_ms: t0 + 1_000
        }
    );
    let both = join_all((0..8).map(|_| table.begin(&key, 1_000, t0 + 1_000))).await;
    let runs: Vec<_> = both
        .into_iter()
        .filter_map(|begun| match begun.unwrap() {
            Begun::Run(claim) => Some(claim),
            _ => None,
        })
        .collect();
    assert_eq!(runs.len(), 1, "one takes over");
    let answer = |body: &str| ledger::KeptAnswer {
        status: 200,
        body: body.to_owned(),
        headers: json!({}),
    };
    assert!(
        !table.finish(&key, dead, &answer("late")).await.unwrap(),
        "the dead one's answer counts no more"
    );
    assert!(table.finish(&key, runs[0], &answer("good")).await.unwrap());
    assert_eq!(
        table.begin(&key, 1_000, t0 + 9_000).await.unwrap(),
        Begun::Answered(answer("good"))
    );
    assert_eq!(table.prune(t0 + 2, 10).await.unwrap(), 1);
}

/// Whoever hangs up finds the answer under his key.
#[tokio::test]
async fn a_caller_who_hangs_up_may_ask_again() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    let decided = console.ask("p1", "wmC001").await;
    let path = format!(
        "/allocations/{}/close",
        decided["allocation_id"].as_str().unwrap()
    );
    world.written().await;
    let hasty = tokio::spawn({
        let (console, path) = (console.clone(), path.clone());
        async move { console.post_once(&path, "close-1", json!({})).await }
    });
    tokio::task::yield_now().await;
    hasty.abort();
    let answer = loop {
        let answer = console.post_once(&path, "close-1", json!({})).await;
        if answer.status != 409 {
            break answer;
        }
    };
    assert_eq!(
        answer.ok()["changed"],
        true,
        "closed once, and this is that answer"
    );
    world.check().await;
}

#[tokio::test]
async fn a_key_must_be_one() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    for key in ["", " ", "a{b}", &"x".repeat(256)] {
        for path in ["/allocations", "/presence"] {
            let answer = console.post_once(path, key, asked("wmC001")).await;
            assert_eq!(
                answer.refused(),
                (400, "invalid_idempotency_key".to_owned()),
                "{key:?} {path}"
            );
        }
    }
}
