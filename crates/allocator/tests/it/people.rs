//! What one process was told of channels and pools, and another decides by.

use std::sync::Arc;

use allocation::{PoolId, SubjectKey};
use allocator::{decide, decide::dirty, guard, people, reception::intake::WECOM};
use ledger::Allocation;
use serde_json::json;

use crate::{
    api_deliveries::added,
    api_support::{Console, Options, World},
    decide::read,
    log_lost::eventually,
};

/// Two allocators with the pools `p1`, where unknown States lead, and `p2`.
async fn two() -> (World, Console) {
    let options = Options {
        corp: "default_pool = \"p1\"".to_owned(),
        ..Options::default()
    };
    let world = World::with(2, options).await;
    let console = world.operator().await;
    for pool in ["p1", "p2"] {
        world.pool(&console, pool, &[("zhangsan", 1.0)]).await;
    }
    people::refresh(world.app(), world.corp_app())
        .await
        .unwrap();
    (world, console)
}

async fn put_channel(console: &Console, id: &str) {
    let body = json!({"name": id, "pool": "p2", "states": [id], "welcome": {"text": "Hello"}});
    console.put(&format!("/channels/{id}"), body).await.ok();
}

fn greeted(customer: &str, state: &str) -> String {
    let code = format!("</State><WelcomeCode>CODE{customer}</WelcomeCode>");
    added(customer, state).replace("</State>", &code)
}

async fn only(world: &World, customer: &str) -> Allocation {
    let subject = SubjectKey::new(&world.corp, WECOM, customer);
    let rows = world.app().ledger.allocations();
    let mut rows = rows.of_subject(&world.corp, &subject).await.unwrap();
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

async fn has_welcome(world: &World, allocation: &Allocation) -> bool {
    let outbox = world.app().ledger.outbox();
    let effects = outbox
        .of_allocation(&world.corp, allocation.id)
        .await
        .unwrap();
    effects.iter().any(|effect| effect.kind == "welcome")
}

/// An operator makes a channel and scans its code at once: whichever process decides, and whichever writes, knows it.
#[tokio::test]
async fn a_channel_put_at_another_process_counts_at_once() {
    let (world, console) = two().await;
    let other = world.at(1, console.key.as_deref().unwrap());
    put_channel(&other, "s1").await;
    let events = [greeted("wmC1", "s1"), greeted("wmC2", "nobody")];
    let batch = read(&world, &events).await;
    decide::decide(world.app(), world.corp_app(), &batch, false)
        .await
        .unwrap();
    world.written().await;
    let row = only(&world, "wmC1").await;
    assert_eq!(row.channel.as_ref().unwrap().as_str(), "s1");
    assert_eq!(row.pool.as_str(), "p2");
    assert!(has_welcome(&world, &row).await);
    assert_eq!(only(&world, "wmC2").await.pool.as_str(), "p1");

    put_channel(&other, "s2").await;
    let batch = read(&world, &[greeted("wmC3", "s2")]).await;
    let deciding = world.app_at(1);
    decide::decide(deciding, &deciding.corps[&world.corp], &batch, false)
        .await
        .unwrap();
    world.written().await;
    let row = only(&world, "wmC3").await;
    assert!(has_welcome(&world, &row).await, "the writer was not told");
}

/// Postgres does not answer: nobody waits for it, and unknown States go where they went before.
#[tokio::test]
async fn a_state_that_cannot_be_looked_up_leads_to_the_default_pool() {
    let (world, console) = two().await;
    world.written().await;
    let other = world.at(1, console.key.as_deref().unwrap());
    put_channel(&other, "s1").await;
    let mut holder = world.database.connect().await;
    sqlx::raw_sql("BEGIN; LOCK TABLE channels IN ACCESS EXCLUSIVE MODE")
        .execute(&mut holder)
        .await
        .unwrap();
    for customer in ["wmC1", "wmC2"] {
        let batch = read(&world, &[added(customer, "s1")]).await;
        decide::decide(world.app(), world.corp_app(), &batch, false)
            .await
            .unwrap();
    }
    sqlx::raw_sql("ROLLBACK")
        .execute(&mut holder)
        .await
        .unwrap();
    world.written().await;
    for customer in ["wmC1", "wmC2"] {
        assert_eq!(only(&world, customer).await.pool.as_str(), "p1");
    }
}

/// Without a default pool a State may lead nowhere; WeCom is asked again soon, when the channel may be there.
#[tokio::test]
async fn who_came_before_the_channel_is_looked_at_again() {
    let world = World::new().await;
    let batch = read(&world, &[added("wmC1", "s1"), added("wmC2", "")]).await;
    let due_by = world.app().now_ms() + 10_000;
    for again in [false, true] {
        decide::decide(world.app(), world.corp_app(), &batch, again)
            .await
            .unwrap();
        world.written().await;
        let key = format!("{{{}}}:v1:dirty:{}", world.corp, dirty::PAIR);
        let marked =
            test_redis::shared().cli(&["ZRANGE", &key, "0", &due_by.to_string(), "BYSCORE"]);
        assert!(marked.contains("wmC1"), "{marked}");
        assert!(!marked.contains("wmC2"), "{marked}");
        test_redis::shared().cli(&["DEL", &key]);
    }
}

/// Put while the corp was closed, a pool is told as soon as it is open.
#[tokio::test]
async fn a_pool_put_while_the_corp_was_closed_is_told_when_it_opens() {
    let options = Options {
        config: "[roster]\nsync_every_ms = 600000".to_owned(),
        ..Options::default()
    };
    let world = World::with(1, options).await;
    let console = world.operator().await;
    let (app, corp) = (world.app(), world.corp_app());
    let stop = world.stop();
    let people = tokio::spawn(people::run(Arc::clone(app), Arc::clone(corp), stop.clone()));
    world.pool(&console, "p1", &[("zhangsan", 1.0)]).await;
    world.written().await;
    let row = app.ledger.corps().get(&corp.id).await.unwrap().unwrap();
    corp.roster.begin_rebuild(row.generation + 1).await.unwrap();
    let members = json!([{"member": "zhangsan", "weight": 1}]);
    let body = json!({"name": "p2", "members": members});
    console.put("/pools/p2", body).await.ok();
    let p2 = [PoolId::new("p2").unwrap()];
    assert_eq!(corp.roster.pool_versions(&p2).await.unwrap(), [None]);
    guard::rebuild(app, corp, guard::Wanted::default())
        .await
        .unwrap();
    eventually("it is told", async || {
        corp.roster.pool_versions(&p2).await.unwrap().remove(0)
    })
    .await;
    stop.cancel();
    people.await.unwrap();
}
