//! What is dropped, and what never is.

use std::time::Duration;

use allocator::housekeeping::{bound_dead_letters, drop_old_days, prune_answers};
use inbox::{Consumer, EntryId, Group, NewDelivery};
use ledger::DeliveryOutcome;
use serde_json::json;

use crate::{
    api_deliveries::{added, ended},
    api_support::{Options, World},
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

async fn world(config: &str) -> World {
    let options = Options {
        config: config.to_owned(),
        ..Options::default()
    };
    World::with(2, options).await
}

/// Deliveries of customers `wmC0`, `wmC1`, … that group `decide` gave up.
async fn give_up(world: &World, customers: std::ops::Range<u64>) {
    let (app, corp) = (world.app(), world.corp_app());
    let new: Vec<NewDelivery> = customers
        .map(|n| NewDelivery::new("main", app.now_ms(), added(&format!("wmC{n}"), "x")))
        .collect();
    corp.inbox.append(&new).await.unwrap();
    let blocking = app.blocking().await.unwrap();
    let mut consumer = Consumer::new(corp.inbox.clone(), blocking, Group::Decide, "test");
    let batch = consumer.next(100, Duration::from_secs(5)).await.unwrap();
    let entries: Vec<_> = batch.iter().map(|delivery| delivery.entry).collect();
    assert_eq!(entries.len(), new.len());
    corp.inbox
        .fail(Group::Decide, &entries, "test", None)
        .await
        .unwrap();
}

/// Group `record` reads the one delivery that there is: its id and time.
async fn record(world: &World) -> (String, u64) {
    let (app, corp) = (world.app(), world.corp_app());
    let blocking = app.blocking().await.unwrap();
    let mut consumer = Consumer::new(corp.inbox.clone(), blocking, Group::Record, "test");
    let batch = consumer.next(10, Duration::from_secs(5)).await.unwrap();
    allocator::record::record(app, corp, &batch).await.unwrap();
    let [delivery] = batch.as_slice() else {
        panic!("{batch:?}")
    };
    (delivery.id.to_string(), delivery.received_ms)
}

/// Who is in Redis' dead letters, oldest first.
async fn dead(world: &World) -> Vec<String> {
    let inbox = &world.corp_app().inbox;
    let letters = inbox.dead_list(EntryId::MIN, EntryId::MAX, 1_000).await;
    let letters = letters.unwrap().into_iter();
    letters.map(|letter| letter.delivery.to_string()).collect()
}

/// Two allocators at once: none removes more than the bound asks for, and what leaves Redis is in the ledger.
#[tokio::test]
async fn the_oldest_dead_letters_go_and_the_ledger_has_them() {
    let world = world("[inbox.stream]\nmax_tries = 1\n[retention]\ndead_letters = 3").await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("zhangsan", 1.0)]).await;
    console
        .put(
            "/channels/c1",
            json!({"name": "x", "pool": "p1", "states": ["x"]}),
        )
        .await
        .ok();
    give_up(&world, 0..10).await;
    // Written by somebody else: there is nothing to keep.
    let key = format!("{{{}}}:v1:inbox:dead", world.corp);
    test_redis::shared().cli(&[
        "XADD", &key, "*", "g", "decide", "i", "1-1", "n", "1", "f", "1",
    ]);
    let before = dead(&world).await;
    assert_eq!(before.len(), 11);
    let [a, b] = [&world.nodes[0], &world.nodes[1]];
    let (of_a, of_b) = tokio::join!(
        bound_dead_letters(&a.app, a.corp()),
        bound_dead_letters(&b.app, b.corp())
    );
    assert_eq!(of_a.unwrap() + of_b.unwrap(), 8);
    assert_eq!(dead(&world).await, before[8..]);
    assert_eq!(bound_dead_letters(&a.app, a.corp()).await.unwrap(), 0);
    // They are in the ledger, wait for a person, and can be taken up again.
    let pending = console.all("/deliveries?pending=true").await;
    let mut kept: Vec<_> = pending
        .iter()
        .map(|row| row["id"].as_str().unwrap())
        .collect();
    kept.sort_unstable();
    let mut removed: Vec<_> = before[..8].iter().map(String::as_str).collect();
    removed.sort_unstable();
    assert_eq!(kept, removed);
    let begun = console
        .post(&format!("/deliveries/{}/replay", before[0]), json!({}))
        .await
        .ok();
    world.work().await;
    assert_eq!(ended(&console, &begun).await["done"], 1);
    world.written().await;
    assert_eq!(console.all("/allocations").await.len(), 1);
    world.check().await;
}

/// A delivery that a person gave up must not hold its day for ever; one that waits among the dead letters must.
#[tokio::test]
async fn a_day_goes_after_its_time_when_everything_has_an_end() {
    let world = world("[inbox.stream]\nmax_tries = 1\n[retention]\ndeliveries_days = 30").await;
    let console = world.operator().await;
    let app = world.app();
    give_up(&world, 0..1).await;
    let (id, received_ms) = record(&world).await;
    let (young, old) = (received_ms + 29 * DAY_MS, received_ms + 31 * DAY_MS);
    assert_eq!(
        drop_old_days(app, old).await.unwrap(),
        0,
        "it may be replayed"
    );
    let letters = console.all("/dead-letters/inbox").await;
    let discard = json!({"ids": [letters[0]["id"]], "reason": "test event"});
    console
        .post("/dead-letters/inbox/discard", discard)
        .await
        .ok();
    let row = console.get(&format!("/deliveries/{id}")).await.ok();
    assert_eq!(row["outcome"], "discarded");
    assert_eq!(drop_old_days(app, young).await.unwrap(), 0);
    assert_eq!(drop_old_days(app, old).await.unwrap(), 1);
    assert_eq!(
        console.get(&format!("/deliveries/{id}")).await.refused().0,
        404
    );
    assert_eq!(drop_old_days(app, old).await.unwrap(), 0);
}

/// A letter that died on a second way says nothing about what came of the first.
#[tokio::test]
async fn what_was_decided_is_not_called_discarded() {
    let world = world("[inbox.stream]\nmax_tries = 1").await;
    let console = world.operator().await;
    let (app, corp) = (world.app(), world.corp_app());
    give_up(&world, 0..1).await;
    let (id, received_ms) = record(&world).await;
    let decided = DeliveryOutcome {
        delivery: id.clone(),
        received_ms,
        outcome: "already".to_owned(),
        reason: None,
        allocation: None,
    };
    let deliveries = app.ledger.deliveries();
    deliveries
        .set_outcomes(&corp.id, &[decided], app.now_ms())
        .await
        .unwrap();
    let letters = console.all("/dead-letters/inbox").await;
    let discard = json!({"ids": [letters[0]["id"]], "reason": "test event"});
    let discarded = console
        .post("/dead-letters/inbox/discard", discard)
        .await
        .ok();
    assert_eq!(discarded, json!({"matched": 1, "changed": 1}));
    let row = console.get(&format!("/deliveries/{id}")).await.ok();
    assert_eq!(row["outcome"], "already");
}

/// More of them than one batch takes: none is left, and those of today stay.
#[tokio::test]
async fn kept_answers_are_forgotten_to_the_last() {
    let world = world("").await;
    let mut database = world.database.connect().await;
    let keep = async |n: i32, age: &'static str, database: &mut sqlx::PgConnection| {
        sqlx::query(
            "INSERT INTO idempotency (corp_id, caller, key, request, claim, lease_until, created_at)
             SELECT 'ww1', gen_random_uuid(), n::text, '', gen_random_uuid(), now(), now() - $2::interval
             FROM generate_series(1, $1) n",
        )
        .bind(n)
        .bind(age)
        .execute(database)
        .await
        .unwrap();
    };
    keep(12_000, "25 hours", &mut database).await;
    keep(3, "23 hours", &mut database).await;
    let (app, stop) = (world.app(), world.stop());
    let gone = prune_answers(app, app.now_ms(), &stop).await.unwrap();
    assert_eq!(gone, 12_000);
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM idempotency")
        .fetch_one(&mut database)
        .await
        .unwrap();
    assert_eq!(left, 3);
}
