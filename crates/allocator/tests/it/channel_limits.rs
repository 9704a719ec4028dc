//! Limits of channels: whoever comes later waits, holds up nobody who came another way, and loses nothing.

use allocator::guard;
use rstest::rstest;
use serde_json::{Value, json};

use crate::api_support::{Answer, Console, World};

/// Two members in `sales`, and two channels that lead there.
async fn world(limits: Value) -> (World, Console) {
    let world = World::new().await;
    let console = world.operator().await;
    world
        .pool(&console, "sales", &[("mA", 1.0), ("mB", 1.0)])
        .await;
    put(&console, "poster", limits).await.ok();
    put(&console, "flyer", json!({})).await.ok();
    (world, console)
}

async fn put(console: &Console, channel: &str, limits: Value) -> Answer {
    let mut body = json!({"name": channel, "pool": "sales",
        "visits": {"slots_per_member": 0, "hold_seconds": 600}});
    for (name, value) in limits.as_object().unwrap() {
        body[name] = value.clone();
    }
    console.put(&format!("/channels/{channel}"), body).await
}

async fn ask(console: &Console, channel: &str, customer: &str) -> Value {
    let body = json!({"subject": {"kind": "crm", "id": customer}, "channel": channel});
    console.post("/allocations", body).await.ok()
}

/// What became of it.
async fn comes(console: &Console, channel: &str, customer: &str) -> String {
    let asked = ask(console, channel, customer).await;
    asked["decision"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_channel_gives_as_many_as_it_may_and_the_others_wait() {
    let (world, console) = world(json!({"per_day": 2})).await;
    assert_eq!(comes(&console, "poster", "c1").await, "assigned");
    let visitor = json!({"visitor": {"kind": "openid", "id": "o1"}});
    let path = "/channels/poster/visits";
    let held = console.post(path, visitor).await.ok();
    assert_eq!(held["state"], "held");
    let third = ask(&console, "poster", "c3").await;
    assert_eq!(third["decision"], "waiting");
    let visitor = json!({"visitor": {"kind": "openid", "id": "o2"}});
    assert_eq!(console.post(path, visitor).await.ok()["state"], "waiting");
    // By another channel, and without one.
    assert_eq!(comes(&console, "flyer", "c4").await, "assigned");
    assert_eq!(console.ask("sales", "wmC5").await["decision"], "assigned");

    let full_until = console.get("/channels/poster").await.ok()["full_until"].clone();
    assert!(full_until.is_string());
    assert!(console.get("/channels/flyer").await.ok()["full_until"].is_null());
    world.written().await;
    let id = third["allocation_id"].as_str().unwrap();
    let path = format!("/allocations/{id}/explanation");
    let waits = console.get(&path).await.ok()["decisions"][0]["waits"].clone();
    assert_eq!(
        (&waits["why"], &waits["until"]),
        (&json!("channel_limit"), &full_until)
    );
    let shown = console.get(&format!("/allocations/{id}")).await.ok();
    assert_eq!(shown["state"], "waiting");
    // Who waited longest comes first when it may give more.
    put(&console, "poster", json!({"per_day": 3})).await.ok();
    world.written().await;
    let shown = console.get(&format!("/allocations/{id}")).await.ok();
    assert_eq!(shown["state"], "open");
    assert_eq!(comes(&console, "poster", "c6").await, "waiting");
    // And all, when the limit or the channel goes.
    console.delete("/channels/poster").await.ok();
    world.written().await;
    assert_eq!(console.all("/allocations?state=waiting").await.len(), 0);
    world.check().await;
}

/// Whom the channel gave before it had a limit, and before the state was made anew, counts.
#[tokio::test]
async fn what_was_given_before_counts() {
    for from_rows in [false, true] {
        let (world, console) = world(json!({})).await;
        assert_eq!(comes(&console, "poster", "c1").await, "assigned");
        assert_eq!(comes(&console, "flyer", "c2").await, "assigned");
        world.written().await;
        put(&console, "poster", json!({"per_hour": 900, "per_day": 3}))
            .await
            .ok();
        assert_eq!(comes(&console, "poster", "c3").await, "assigned");
        world.written().await;
        let wanted = guard::Wanted {
            from_rows,
            ..guard::Wanted::default()
        };
        guard::rebuild(world.app(), world.corp_app(), wanted)
            .await
            .unwrap();
        assert_eq!(world.sync().await, 0, "nothing is left to tell");
        console.on(&["mA", "mB"]).await;
        assert_eq!(
            comes(&console, "poster", "c4").await,
            "assigned",
            "from rows: {from_rows}"
        );
        assert_eq!(
            comes(&console, "poster", "c5").await,
            "waiting",
            "from rows: {from_rows}"
        );
        assert_eq!(comes(&console, "flyer", "c6").await, "assigned");
        world.check().await;
    }
}

/// Whoever put the limit died before Redis was told of it: the comparison tells it.
#[tokio::test]
async fn a_limit_that_was_not_told_is_told_by_the_comparison() {
    let (world, console) = world(json!({})).await;
    sqlx::query(
        "UPDATE channels SET per_hour = 1, version = version + 1 WHERE channel_id = 'poster'",
    )
    .execute(world.app().ledger.pool())
    .await
    .unwrap();
    assert_eq!(world.sync().await, 1);
    assert_eq!(world.sync().await, 0);
    allocator::people::refresh(world.app(), world.corp_app())
        .await
        .unwrap();
    assert_eq!(comes(&console, "poster", "c1").await, "assigned");
    assert_eq!(comes(&console, "poster", "c2").await, "waiting");
    world.check().await;
}

#[rstest]
#[case::nobody(json!({"per_hour": 0}), "/per_hour")]
#[case::too_many(json!({"per_day": 1_000_001}), "/per_day")]
#[case::below(json!({"per_day": -1}), "/per_day")]
#[tokio::test]
async fn what_is_no_limit_is_refused(#[case] limits: Value, #[case] pointer: &str) {
    let (_world, console) = world(json!({})).await;
    assert_eq!(put(&console, "poster", limits).await.pointers(), [pointer]);
}

#[tokio::test]
async fn limits_come_back_as_they_were_put() {
    let (_world, console) = world(json!({"per_hour": 60, "per_day": 200})).await;
    let view = console.get("/channels/poster").await.ok();
    assert_eq!(
        (&view["per_hour"], &view["per_day"]),
        (&json!(60), &json!(200))
    );
    let again = put(&console, "poster", json!({"per_hour": 60, "per_day": 200})).await;
    assert_eq!(again.status, 200);
    assert_eq!(again.ok()["version"], view["version"]);
    let audit = console.all("/audit?entity=channels/poster").await;
    assert_eq!(audit[0]["after"]["per_day"], 200);
}
