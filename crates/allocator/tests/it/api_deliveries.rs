//! Deliveries, replays, operations, endpoints: what came in, and taking it up again.

use std::time::Duration;

use allocator::{api::work, decide, record};
use inbox::{Consumer, Delivery, DeliveryId, EntryId, Group, NewDelivery};
use ledger::Role;
use serde_json::{Value, json};

use crate::api_support::{Console, World};

pub(crate) fn added(customer: &str, state: &str) -> String {
    format!(
        "<xml><ToUserName>ww1</ToUserName><FromUserName>sys</FromUserName><CreateTime>1792000000</CreateTime>\
         <MsgType>event</MsgType><Event>change_external_contact</Event><ChangeType>add_external_contact</ChangeType>\
         <UserID>ZhangSan</UserID><ExternalUserID>{customer}</ExternalUserID><State>{state}</State></xml>"
    )
}

impl World {
    /// Deliveries come in and both readers handle them.
    pub(crate) async fn deliver(&self, endpoint: &str, plaintexts: &[String]) -> Vec<String> {
        let (app, corp) = (self.app(), self.corp_app());
        let now_ms = app.now_ms();
        let new: Vec<NewDelivery> = plaintexts
            .iter()
            .map(|text| NewDelivery::new(endpoint, now_ms, text.clone()))
            .collect();
        corp.inbox.append(&new).await.unwrap();
        for group in Group::ALL {
            let mut consumer = Consumer::new(
                corp.inbox.clone(),
                app.blocking().await.unwrap(),
                group,
                "test".to_owned(),
            );
            let mut left = new.len();
            while left > 0 {
                let batch = consumer.next(100, Duration::from_secs(5)).await.unwrap();
                match group {
                    Group::Record => record::record(app, corp, &batch).await.unwrap(),
                    Group::Decide => decide::decide(app, corp, &batch, false).await.unwrap(),
                }
                consumer.ack(&batch).await.unwrap();
                left -= batch.len();
            }
        }
        self.written().await;
        new.iter()
            .map(|delivery| delivery.id().to_string())
            .collect()
    }

    pub(crate) async fn work(&self) {
        while work::turn(self.app(), self.corp_app(), &self.stop())
            .await
            .unwrap()
        {}
        self.written().await;
    }
}

pub(crate) async fn ended(console: &Console, begun: &Value) -> Value {
    console
        .get(&format!("/operations/{}", begun["id"].as_str().unwrap()))
        .await
        .ok()
}

#[tokio::test]
async fn deliveries_are_shown_with_what_became_of_them() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("zhangsan", 1.0)]).await;
    console
        .put(
            "/channels/c1",
            json!({"name": "x", "pool": "p1", "states": ["ch_001"]}),
        )
        .await
        .ok();
    let ids = world
        .deliver(
            "main",
            &[
                added("wmC001", "ch_001"),
                added("wmC002", "nowhere"),
                "rubbish".to_owned(),
            ],
        )
        .await;
    let rows = console.all("/deliveries").await;
    assert_eq!(rows.len(), 3);
    let row = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap();
    assert_eq!(row(&ids[0])["outcome"], "decided");
    assert!(row(&ids[0])["allocation_id"].is_string());
    assert_eq!(
        (&row(&ids[1])["outcome"], &row(&ids[1])["reason"]),
        (&json!("ignored"), &json!("no_pool"))
    );
    assert!(row(&ids[2])["problem"].is_string());
    for (query, n) in [
        ("outcome=ignored", 2),
        ("outcome=decided", 1),
        ("unreadable=true", 1),
        ("external_userid=wmC002", 1),
        ("event=change_external_contact", 2),
        ("endpoint=other", 0),
        ("pending=true", 0),
    ] {
        assert_eq!(
            console.all(&format!("/deliveries?{query}")).await.len(),
            n,
            "{query}"
        );
    }
    // Case 129: the event's spelling is WeCom's.
    assert_eq!(
        console.get("/members/zhangsan").await.ok()["userid"],
        "ZhangSan"
    );
    let path = format!("/deliveries/{}", ids[0]);
    assert!(
        console.get(&path).await.ok().get("body").is_none(),
        "the body is for admins"
    );
    let admin = world.console(Role::Admin).await;
    assert_eq!(
        admin.get(&path).await.ok()["body"],
        added("wmC001", "ch_001")
    );
    let endpoints = console.get("/endpoints").await.ok();
    let main = &endpoints["data"][0];
    assert_eq!(
        (
            &main["endpoint"],
            &main["received"],
            &main["unreadable"],
            &main["pending"]
        ),
        (&json!("main"), &json!(3), &json!(1), &json!(0))
    );
    assert_eq!(
        console
            .get("/endpoints?since=2020-01-01T00:00:00Z")
            .await
            .pointers(),
        ["query:since"]
    );
}

#[tokio::test]
async fn a_replay_takes_up_what_had_no_effect() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("zhangsan", 1.0)]).await;
    let texts: Vec<String> = (0..5).map(|n| added(&format!("wmC{n}"), "late")).collect();
    let ids = world.deliver("main", &texts).await;
    console
        .put(
            "/channels/c0",
            json!({"name": "x", "pool": "p1", "states": ["ch_000"]}),
        )
        .await
        .ok();
    world.deliver("main", &[added("wmD", "ch_000")]).await;
    // The channel was forgotten; now it is there.
    console
        .put(
            "/channels/c1",
            json!({"name": "x", "pool": "p1", "states": ["late"]}),
        )
        .await
        .ok();
    let range = json!({"received_after": "2026-01-01T00:00:00Z", "received_before": "2100-01-01T00:00:00Z"});
    let count = console
        .post("/deliveries/replay?dry_run=true", range.clone())
        .await;
    assert_eq!(
        (count.status.as_u16(), count.json()),
        (200, json!({"matched": 6, "replayable": 5, "late": 0}))
    );
    // One alone.
    let one = console
        .post(
            &format!("/deliveries/{}/replay", ids[0]),
            json!({"note": "channel was missing"}),
        )
        .await;
    assert_eq!(one.status, 202);
    world.work().await;
    assert_eq!(ended(&console, &one.json()).await["done"], 1);
    // The rest.
    let begun = console.post("/deliveries/replay", range.clone()).await;
    assert_eq!(begun.status, 202);
    assert!(
        begun
            .header("location")
            .ends_with(begun.json()["id"].as_str().unwrap())
    );
    world.work().await;
    let operation = ended(&console, &begun.json()).await;
    assert_eq!(
        (
            &operation["state"],
            &operation["done"],
            &operation["skipped"]
        ),
        (&json!("done"), &json!(4), &json!(2))
    );
    assert_eq!(console.all("/allocations?state=open").await.len(), 6);
    assert_eq!(console.all("/deliveries?outcome=decided").await.len(), 6);
    // Once more finds nothing to do.
    let again = console.post("/deliveries/replay", range).await.ok();
    world.work().await;
    assert_eq!(ended(&console, &again).await["skipped"], 6);
    assert_eq!(
        console.all("/audit?action=deliveries.replay").await.len(),
        3
    );
    let backwards = json!({"received_after": "2026-01-02T00:00:00Z", "received_before": "2026-01-01T00:00:00Z"});
    assert_eq!(
        console
            .post("/deliveries/replay", backwards)
            .await
            .pointers(),
        ["/received_before"]
    );
    world.check().await;
}

#[tokio::test]
async fn an_operation_can_be_cancelled_and_taken_over() {
    let world = World::new().await;
    let console = world.operator().await;
    let range = json!({"received_after": "2026-01-01T00:00:00Z", "received_before": "2100-01-01T00:00:00Z"});
    let begun = console.post("/deliveries/replay", range.clone()).await.ok();
    let path = format!("/operations/{}/cancel", begun["id"].as_str().unwrap());
    assert_eq!(
        console.post(&path, json!({})).await.ok()["state"],
        "cancelling"
    );
    world.work().await;
    assert_eq!(ended(&console, &begun).await["state"], "cancelled");
    assert_eq!(
        console.post(&path, json!({})).await.ok()["state"],
        "cancelled",
        "an end is an end"
    );
    // A worker that died holds it until its lease ends; then another goes on.
    let begun = console.post("/deliveries/replay", range).await.ok();
    let table = world.app().ledger.operations();
    let now_ms = world.app().now_ms() - 10_000;
    let (dead, claim) = table
        .claim(&world.corp, 1_000, now_ms)
        .await
        .unwrap()
        .unwrap();
    assert!(
        table
            .claim(&world.corp, 1_000, now_ms + 999)
            .await
            .unwrap()
            .is_none()
    );
    let (taken, _) = table
        .claim(&world.corp, 0, now_ms + 1_000)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(taken.id, dead.id);
    assert_eq!(
        table
            .save(dead.id, claim, &dead.progress, 1_000, now_ms)
            .await
            .unwrap(),
        None,
        "the dead one has no say"
    );
    world.work().await;
    assert_eq!(ended(&console, &begun).await["state"], "done");
    assert_eq!(console.all("/operations").await.len(), 2);
    assert_eq!(console.all("/operations?state=done").await.len(), 1);
    assert_eq!(console.get("/operations/nonsense").await.status, 404);
}

/// Replayed a day and more after it came an event is no news: it is said before and after, and WeCom is asked instead.
#[tokio::test]
async fn a_late_replay_asks_wecom_instead() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("zhangsan", 1.0)]).await;
    let hour_ms = 60 * 60 * 1000;
    let now_ms = world.app().now_ms();
    // Nobody knew the State, so nothing came of them when they came.
    let texts = ["wmLate", "wmFresh"].map(|customer| added(customer, "late"));
    let mut ids = Vec::new();
    for (n, (text, age_ms)) in (1..).zip(texts.into_iter().zip([25 * hour_ms, hour_ms])) {
        let delivery = Delivery {
            entry: EntryId::MIN,
            id: DeliveryId([n; 32]),
            endpoint: "main".to_owned(),
            received_ms: now_ms - age_ms,
            plaintext: text,
            tries: 0,
            again: false,
        };
        ids.push(delivery.id.to_string());
        record::record(world.app(), world.corp_app(), &[delivery])
            .await
            .unwrap();
    }
    let channel = json!({"name": "x", "pool": "p1", "states": ["late"]});
    console.put("/channels/c1", channel).await.ok();
    let range = json!({"received_after": "2026-01-01T00:00:00Z", "received_before": "2100-01-01T00:00:00Z"});
    let count = console
        .post("/deliveries/replay?dry_run=true", range.clone())
        .await
        .ok();
    assert_eq!(count, json!({"matched": 2, "replayable": 2, "late": 1}));
    let path = format!("/deliveries/{}/replay?dry_run=true", ids[0]);
    let one = console.post(&path, json!({})).await.ok();
    assert_eq!(one, json!({"matched": 1, "replayable": 1, "late": 1}));

    let begun = console.post("/deliveries/replay", range.clone()).await.ok();
    assert_eq!(begun["request"]["late"], 1);
    world.work().await;
    assert_eq!(ended(&console, &begun).await["done"], 2);
    let of = async |id: &str| console.get(&format!("/deliveries/{id}")).await.ok();
    let (late, fresh) = (of(&ids[0]).await, of(&ids[1]).await);
    assert_eq!(
        (&late["outcome"], &late["reason"], &fresh["outcome"]),
        (&json!("reread"), &json!("late"), &json!("decided"))
    );
    let rows = console.all("/allocations").await;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["customer"]["external_id"], "wmFresh");
    let key = format!("{{{}}}:v1:dirty:pair", world.corp);
    let marked = test_redis::shared().cli(&["ZRANGE", &key, "0", "-1"]);
    assert!(
        marked.contains("wmLate") && !marked.contains("wmFresh"),
        "{marked}"
    );
    let count = console
        .post("/deliveries/replay?dry_run=true", range)
        .await
        .ok();
    assert_eq!(count, json!({"matched": 2, "replayable": 0, "late": 0}));
}
