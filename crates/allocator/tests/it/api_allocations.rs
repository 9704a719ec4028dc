//! Allocations through the API: deciding, listing, closing, reassigning; and many callers at once.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::api_support::World;

fn asked(customer: &str) -> Value {
    json!({"subject": {"kind": "wecom", "id": customer}, "pool": "p1"})
}

/// Case 54: 21 and 11 of 32, never more than two of mA in a row; 5/1/1 in any seven.
#[tokio::test]
async fn shares_are_those_of_the_weights() {
    let world = World::new().await;
    let console = world.operator().await;
    for (pool, weights, n) in [
        ("p21", vec![("mA", 21.0), ("mB", 11.0)], 32),
        ("p5", vec![("nA", 5.0), ("nB", 1.0), ("nC", 1.0)], 21),
    ] {
        world.pool(&console, pool, &weights).await;
        let mut picks = Vec::new();
        for customer in 0..n {
            picks.push(
                console.ask(pool, &format!("{pool}-{customer}")).await["member"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            );
        }
        for (member, weight) in &weights {
            let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
            let share = weight / sum * f64::from(n);
            let got = picks.iter().filter(|pick| pick == member).count() as f64;
            assert!((got - share).abs() < 1.0, "{member}: {got} of {share}");
        }
        let longest = if pool == "p21" { 3 } else { 5 };
        assert!(
            picks
                .windows(longest)
                .all(|row| row.iter().any(|pick| *pick != row[0])),
            "{picks:?}"
        );
    }
    world.check().await;
}

/// Case 60: nobody in the pool, or nobody any more, is no error.
#[tokio::test]
async fn an_empty_pool_lets_customers_wait() {
    let world = World::new().await;
    let console = world.operator().await;
    console
        .put("/pools/p1", json!({"name": "x", "members": []}))
        .await
        .ok();
    assert_eq!(console.ask("p1", "wmC001").await["decision"], "waiting");
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    let asks = (0..20).map(|n| {
        let console = console.clone();
        async move { console.ask("p1", &format!("wmD{n}")).await["decision"].clone() }
    });
    let (decisions, emptied) = tokio::join!(
        join_all(asks),
        console.put("/pools/p1", json!({"name": "x", "members": []}))
    );
    emptied.ok();
    assert!(
        decisions
            .iter()
            .all(|decision| decision == "assigned" || decision == "waiting"),
        "{decisions:?}"
    );
    let states: Vec<Value> = {
        world.written().await;
        console.all("/allocations").await
    };
    assert_eq!(states.len(), 21);
    world.check().await;
}

/// Case 64: a member who is not permitted is named, left out of the choice, and back when he is permitted.
#[tokio::test]
async fn a_member_who_is_blocked_is_named_and_left_out() {
    let world = World::new().await;
    let console = world.operator().await;
    world
        .pool(&console, "p1", &[("mA", 1.0), ("mB", 1.0), ("mC", 1.0)])
        .await;
    console
        .put("/members/mB", json!({"blocked": "wecom_40098"}))
        .await
        .ok();
    let view = console.get("/pools/p1").await.ok();
    let blocked: Vec<(&Value, &Value)> = view["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| (&member["member"], &member["blocked"]))
        .collect();
    assert_eq!(blocked[1], (&json!("mB"), &json!("wecom_40098")));
    assert!(blocked[0].1.is_null() && blocked[2].1.is_null());
    for n in 0..10 {
        assert_ne!(console.ask("p1", &format!("wmC{n}")).await["member"], "mB");
    }
    console.put("/members/mB", json!({})).await.ok();
    let mut members = Vec::new();
    for n in 0..3 {
        members.push(console.ask("p1", &format!("wmD{n}")).await["member"].clone());
    }
    assert!(members.contains(&json!("mB")), "{members:?}");
    world.check().await;
}

/// Case 124: asked twice, also at the same time, both get the same allocation.
#[tokio::test]
async fn the_same_customer_has_one_allocation() {
    let world = World::with(2, Default::default()).await;
    let console = world.operator().await;
    world
        .pool(&console, "p1", &[("mA", 1.0), ("mB", 1.0)])
        .await;
    let key = console.key.clone().unwrap();
    let asks = (0..20).map(|n| {
        let console = world.at(n % 2, &key);
        async move { console.post("/allocations", asked("wmC001")).await }
    });
    let answers = join_all(asks).await;
    let ids: BTreeMap<String, usize> = answers.iter().fold(BTreeMap::new(), |mut ids, answer| {
        *ids.entry(answer.ok()["allocation_id"].as_str().unwrap().to_owned())
            .or_default() += 1;
        ids
    });
    assert_eq!(ids.len(), 1, "{ids:?}");
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!((made, answers.len() - made), (1, 19));
    assert!(
        answers
            .iter()
            .filter(|answer| answer.status == 200)
            .all(|answer| answer.json()["decision"] == "already")
    );
    world.check().await;
}

#[tokio::test]
async fn what_is_asked_must_make_sense() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    let subject = |kind: &str, id: &str| json!({"subject": {"kind": kind, "id": id}, "pool": "p1"});
    for (body, pointers) in [
        (json!({"pool": "p1"}), vec!["/subject"]),
        (subject("", "x"), vec!["/subject/kind"]),
        (subject("wecom", ""), vec!["/subject/id"]),
        (subject("wecom", "a\u{1f}b"), vec!["/subject/id"]),
        (subject("wecom", &"x".repeat(129)), vec!["/subject/id"]),
        (
            json!({"subject": {"kind": "wecom", "id": "x"}}),
            vec!["/pool"],
        ),
        (
            json!({"subject": {"kind": "wecom", "id": "x"}, "pool": "p1", "channel": "c1"}),
            vec!["/pool", "/channel"],
        ),
        (
            json!({"subject": {"kind": "wecom", "id": "x"}, "pool": "p9"}),
            vec!["/pool"],
        ),
        (
            json!({"subject": {"kind": "wecom", "id": "x"}, "pool": "p1", "hodler": "mA"}),
            vec!["/hodler"],
        ),
        (
            json!({"subject": {"kind": "wecom", "id": 653247040368672768_u64}, "pool": "p1"}),
            vec!["/subject/id"],
        ),
    ] {
        let answer = console.post("/allocations", body.clone()).await;
        assert_eq!(answer.pointers(), pointers, "{body}: {}", answer.text);
    }
    world.written().await;
    assert_eq!(console.all("/allocations").await.len(), 0);
}

#[tokio::test]
async fn a_channel_leads_to_its_pool_and_a_holder_makes_a_transfer() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    console
        .put("/channels/c1", json!({"name": "Poster", "pool": "p1"}))
        .await
        .ok();
    let body = json!({"subject": {"kind": "wecom", "id": "wmC001"}, "channel": "c1", "holder": "Reception"});
    let decided = console.post("/allocations", body).await.ok();
    assert_eq!(
        (&decided["pool"], &decided["channel"], &decided["member"]),
        (&json!("p1"), &json!("c1"), &json!("mA"))
    );
    let row = console
        .get(&format!(
            "/allocations/{}",
            decided["allocation_id"].as_str().unwrap()
        ))
        .await
        .ok();
    assert_eq!(
        (&row["giver"], &row["source"], &row["settled_at"]),
        (&json!("reception"), &json!("api"), &Value::Null)
    );
    let transfers: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM transfers WHERE giver = 'reception' AND taker = 'ma'",
    )
    .fetch_one(&mut world.database.connect().await)
    .await
    .unwrap();
    assert_eq!(transfers, 1);
}

/// Case 127: one instant, pages of 20, both ways, every row once.
#[tokio::test]
async fn pages_are_stable_both_ways() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    join_all((0..250).map(|n| {
        let console = console.clone();
        async move { console.ask("p1", &format!("wmC{n}")).await }
    }))
    .await;
    world.written().await;
    sqlx::query("UPDATE allocations SET decided_at = '2026-10-14T08:00:00Z'")
        .execute(&mut world.database.connect().await)
        .await
        .unwrap();
    let (mut forward, mut cursor) = (Vec::new(), String::new());
    let last = loop {
        let page = console
            .get(&format!("/allocations?limit=20{cursor}"))
            .await
            .ok();
        forward.extend(
            page["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| row["id"].clone()),
        );
        let Some(next) = page["page"]["next"].as_str() else {
            break page;
        };
        cursor = format!("&cursor={next}");
    };
    assert_eq!(forward.len(), 250);
    assert_eq!(
        forward
            .iter()
            .map(Value::to_string)
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        250
    );
    let mut backward: Vec<Value> = last["data"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|row| row["id"].clone())
        .collect();
    let mut page = last;
    while let Some(prev) = page["page"]["prev"].as_str() {
        page = console
            .get(&format!("/allocations?limit=20&cursor={prev}"))
            .await
            .ok();
        backward.extend(
            page["data"]
                .as_array()
                .unwrap()
                .iter()
                .rev()
                .map(|row| row["id"].clone()),
        );
    }
    backward.reverse();
    assert_eq!(backward, forward);
    for wrong in ["x", "00", "31"] {
        assert_eq!(
            console
                .get(&format!("/allocations?cursor={wrong}"))
                .await
                .pointers(),
            ["query:cursor"]
        );
    }
    for limit in ["0", "251", "-1", "x"] {
        assert_eq!(
            console
                .get(&format!("/allocations?limit={limit}"))
                .await
                .pointers(),
            ["query:limit"]
        );
    }
    assert_eq!(
        console.get("/allocations?stat=open").await.status,
        422,
        "a misspelled filter is no filter"
    );
}

#[tokio::test]
async fn filters_find_what_they_say() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    console
        .put("/pools/p2", json!({"name": "x", "members": []}))
        .await
        .ok();
    console.ask("p1", "wmC001").await;
    console.ask("p1", "wmC002").await;
    console.ask("p2", "wmC001").await;
    world.written().await;
    for (query, n) in [
        ("pool=p1", 2),
        ("pool=p2", 1),
        ("member=MA", 2),
        ("state=waiting", 1),
        ("state=open", 2),
        ("state=closed", 0),
        ("subject_id=wmC001", 2),
        ("subject_id=wmC001&pool=p1", 1),
        ("subject_kind=web&subject_id=wmC001", 0),
        ("created_after=2026-01-01T00:00:00Z", 3),
        ("created_before=2026-01-01T00:00:00Z", 0),
    ] {
        assert_eq!(
            console.all(&format!("/allocations?{query}")).await.len(),
            n,
            "{query}"
        );
    }
}

/// Case 128: ids are text, and the row that is read is the row that is changed.
#[tokio::test]
async fn ids_are_text_and_lead_back() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    for id in ["9007199254740993", "653247040368672768"] {
        let decided = console.ask("p1", id).await;
        assert!(decided["allocation_id"].is_string());
        let id = decided["allocation_id"].as_str().unwrap();
        let closed = console
            .post(
                &format!("/allocations/{id}/close"),
                json!({"reason": "test"}),
            )
            .await
            .ok();
        assert_eq!(closed["allocation_id"], id);
        world.written().await;
        let row = console.get(&format!("/allocations/{id}")).await.ok();
        assert_eq!(
            (&row["state"], &row["close_reason"]),
            (&json!("closed"), &json!("test"))
        );
        let numbers = find_numbers(&row);
        assert!(numbers.iter().all(|number| *number < 1_u64 << 53), "{row}");
    }
    world.check().await;
}

fn find_numbers(value: &Value) -> Vec<u64> {
    match value {
        Value::Number(number) => number.as_u64().into_iter().collect(),
        Value::Array(items) => items.iter().flat_map(find_numbers).collect(),
        Value::Object(fields) => fields.values().flat_map(find_numbers).collect(),
        _ => Vec::new(),
    }
}
