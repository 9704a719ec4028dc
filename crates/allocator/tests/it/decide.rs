//! Batches that are tried again: what an earlier try left undone, and what it waits for.

use std::time::Duration;

use allocator::{decide, decide::dirty, writer};
use inbox::{Consumer, Delivery, Group, NewDelivery};
use serde_json::json;

use crate::{
    api_deliveries::added,
    api_support::{Console, World},
};

fn event(change: &str, customer: &str) -> String {
    added(customer, "").replace("add_external_contact", change)
}

/// Deliveries that were read and not decided.
pub(crate) async fn read(world: &World, plaintexts: &[String]) -> Vec<Delivery> {
    let (app, corp) = (world.app(), world.corp_app());
    let new: Vec<NewDelivery> = plaintexts
        .iter()
        .map(|text| NewDelivery::new("main", app.now_ms(), text.clone()))
        .collect();
    corp.inbox.append(&new).await.unwrap();
    let blocking = app.blocking().await.unwrap();
    let mut consumer = Consumer::new(corp.inbox.clone(), blocking, Group::Decide, "test");
    let batch = consumer.next(100, Duration::from_secs(5)).await.unwrap();
    assert_eq!(batch.len(), new.len());
    batch
}

async fn world() -> (World, Console) {
    let world = World::new().await;
    let console = world.operator().await;
    for (pool, channel) in [("p1", "c1"), ("p2", "c2")] {
        world.pool(&console, pool, &[("zhangsan", 1.0)]).await;
        let body = json!({"name": "x", "pool": pool, "states": [channel]});
        console
            .put(&format!("/channels/{channel}"), body)
            .await
            .ok();
    }
    (world, console)
}

/// The outcomes are in the log, and the try ends before the marks are made.
#[tokio::test]
async fn marks_that_were_not_made_are_made_by_the_next_try() {
    let (world, _) = world().await;
    let (app, corp) = (world.app(), world.corp_app());
    let gone = allocation::PoolId::new("p2").unwrap();
    corp.roster.remove_pool(gone, 99, "", None).await.unwrap();
    let batch = read(
        &world,
        &[
            added("wmDecided", "c1"),
            added("wmNoPool", "c2"),
            event("edit_external_contact", "wmEdited"),
            event("del_follow_user", "wmGone"),
            event("transfer_fail", "wmMoved"),
        ],
    )
    .await;
    let key = |kind: &str| format!("{{{}}}:v1:dirty:{kind}", world.corp);
    let redis = test_redis::shared();
    redis.cli(&["SET", &key(dirty::PAIR), "in the way"]);
    assert!(decide::decide(app, corp, &batch, false).await.is_err());
    world.written().await;
    redis.cli(&["DEL", &key(dirty::PAIR)]);
    decide::decide(app, corp, &batch, true).await.unwrap();
    let marked = |kind: &str| redis.cli(&["ZRANGE", &key(kind), "0", "-1"]);
    let pairs = marked(dirty::PAIR);
    for customer in ["wmNoPool", "wmEdited", "wmGone"] {
        assert!(pairs.contains(customer), "{pairs}");
    }
    assert!(!pairs.contains("wmDecided"), "{pairs}");
    assert!(marked(dirty::TRANSFER).contains("wmMoved"));
}

/// Others go on logging: a batch in doubt does not wait for what came after it.
#[tokio::test]
async fn a_doubtful_batch_waits_for_the_log_as_it_was() {
    let (world, console) = world().await;
    let (app, corp) = (world.app(), world.corp_app());
    world.written().await;
    world.stop().cancel();
    let batch = read(&world, &[added("wmC1", "c1")]).await;
    console.ask("p1", "wmC2").await;
    let mut awaited = None;
    let behind = decide::decide_again(app, corp, &batch, true, &mut awaited).await;
    assert!(
        matches!(behind, Err(decide::Error::LedgerBehind)),
        "{behind:?}"
    );
    while !matches!(
        writer::turn(app, corp).await.unwrap(),
        writer::Turn::Idle { .. }
    ) {}
    console.ask("p1", "wmC3").await;
    decide::decide_again(app, corp, &batch, true, &mut awaited)
        .await
        .unwrap();
    assert_eq!(awaited, None, "the next doubt is a new one");
}

/// A customer who left before anybody was free is not handed out when somebody is; whoever waits for another's sake, or
/// whom another member lost, still is.
#[tokio::test]
async fn who_left_while_he_waited_is_not_handed_out() {
    let (world, console) = world().await;
    let (app, corp) = (world.app(), world.corp_app());
    let off = json!({"members": [{"member": "zhangsan", "online": false}]});
    console.put("/presence", off).await.ok();
    let came = ["wmLeft", "wmDeleted", "wmStays"].map(|customer| added(customer, "c1"));
    let left = [
        event("del_follow_user", "wmLeft"),
        event("del_external_contact", "wmDeleted"),
        event("del_follow_user", "wmStays").replace("ZhangSan", "lisi"),
    ];
    for events in [came, left] {
        let batch = read(&world, &events).await;
        decide::decide(app, corp, &batch, false).await.unwrap();
        // Twice is once.
        world.written().await;
        decide::decide(app, corp, &batch, true).await.unwrap();
    }
    console.on(&["zhangsan"]).await;
    world.written().await;
    let rows = console.all("/allocations").await;
    let of = |customer: &str| {
        let of = |row: &&serde_json::Value| row["customer"]["external_id"] == customer;
        rows.iter().find(of).unwrap()
    };
    for (customer, reason) in [
        ("wmLeft", "customer_left"),
        ("wmDeleted", "member_deleted_customer"),
    ] {
        let row = of(customer);
        assert_eq!(
            (&row["state"], &row["close_reason"], &row["member"]),
            (&json!("closed"), &json!(reason), &json!(null)),
            "{customer}"
        );
    }
    let member = of("wmStays")["member"].as_str().unwrap();
    assert!(member.eq_ignore_ascii_case("zhangsan"), "{member}");
    world.check().await;
}
