//! The allocator's probes while its stores go and come.

use std::time::Duration;

use e2e::{Allocator, Options, World, eventually};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wecom_sim::ScanRequest;

/// Parts that `/readyz` names, each with its problem; and whether it says that all is well.
async fn ready(allocator: &Allocator) -> (bool, Vec<(String, String)>) {
    let (status, body) = allocator.probe("readyz").await.expect("/readyz answers");
    let report: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(report["ready"], status == 200, "{status}: {report}");
    assert!(status == 200 || status == 503, "{status}: {report}");
    let problems = report["problems"].as_array().expect("a list");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let problems = problems
        .iter()
        .map(|one| (text(&one["part"]), text(&one["problem"])))
        .collect();
    (status == 200, problems)
}

/// Waits until it is not ready, for exactly these of its two stores.
async fn not_ready(allocator: &Allocator, parts: &[&str]) {
    eventually(&format!("not ready for {parts:?}"), || async {
        let (ready, problems) = ready(allocator).await;
        let named = |store: &str| problems.iter().any(|(part, _)| part == store);
        let stores = ["redis", "postgres"];
        let right = stores
            .iter()
            .all(|store| named(store) == parts.contains(store));
        (!ready && right).then_some(())
    })
    .await;
}

async fn ready_again(allocator: &Allocator) {
    eventually("ready again", || async {
        let (ready, problems) = ready(allocator).await;
        (ready && problems.is_empty()).then_some(())
    })
    .await;
}

/// Asks `/livez` all the time; ends with the number of answers, all of them 200.
async fn lives(admin: std::net::SocketAddr, ended: CancellationToken) -> usize {
    let client = reqwest::Client::new();
    let url = format!("http://{admin}/livez");
    let mut answers = 0;
    while !ended.is_cancelled() {
        let asked = client
            .get(&url)
            .timeout(Duration::from_secs(1))
            .send()
            .await;
        assert_eq!(asked.expect("/livez answers within a second").status(), 200);
        answers += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    answers
}

/// Case 134: Redis gone, Postgres gone, both gone, Redis silent: alive throughout, not ready for the right reason and
/// within seconds, ready again by itself, and at work again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_stores_it_is_alive_and_not_ready() {
    let mut world = World::start(Options {
        own_stores: true,
        ..Options::default()
    })
    .await;
    let mut postgres = world.postgres.take().expect("a Postgres of its own");
    let redis = world.redis.as_ref().expect("a Redis of its own");
    let allocator = &world.allocators[0];
    let ended = CancellationToken::new();
    let lives = tokio::spawn(lives(allocator.admin, ended.clone()));
    ready_again(allocator).await;

    redis.stop();
    not_ready(allocator, &["redis"]).await;
    redis.restart();
    ready_again(allocator).await;

    postgres.stop().await;
    not_ready(allocator, &["postgres"]).await;
    redis.stop();
    not_ready(allocator, &["redis", "postgres"]).await;
    postgres.resume().await;
    redis.restart();
    ready_again(allocator).await;

    redis.freeze();
    not_ready(allocator, &["redis"]).await;
    redis.thaw();
    ready_again(allocator).await;

    ended.cancel();
    assert!(lives.await.expect("alive") > 100);
    world.scan("wmAfter");
    world.allocated("wmAfter").await;
    world.close().await;
}

/// Case 134: a Redis that is away at the start is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_starts_without_redis_and_is_ready_when_redis_is_there() {
    let mut world = World::start(Options {
        own_stores: true,
        ..Options::default()
    })
    .await;
    let redis = world.redis.take().expect("a Redis of its own");
    redis.stop();
    let allocator = world.spawn_allocator();
    eventually("it serves", || async {
        let (status, _) = allocator.probe("livez").await?;
        (status == 200).then_some(())
    })
    .await;
    not_ready(&allocator, &["redis"]).await;
    redis.restart();
    ready_again(&allocator).await;
    allocator.stop().await;
    world.close().await;
}

/// Case 113: a Redis that may evict keys is named at the start and as long as it does; it is no reason to be taken out.
/// What it evicts, here the memory of deliveries and a budget, doubles nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eviction_is_named_and_doubles_nothing() {
    let mut world = World::start(Options {
        own_stores: true,
        welcome: Some("欢迎"),
        ..Options::default()
    })
    .await;
    ready_again(&world.allocators[0]).await;
    let redis = world.redis.take().expect("a Redis of its own");
    redis.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    world.allocators.remove(0).stop().await;
    world.start_allocator().await;
    let (is_ready, problems) = ready(&world.allocators[0]).await;
    let [(part, problem)] = problems.as_slice() else {
        panic!("{problems:?}");
    };
    assert!(is_ready && part == "redis", "{problems:?}");
    assert!(
        problem.contains("allkeys-lru") && problem.contains("noeviction"),
        "{problem}"
    );

    let customers: Vec<String> = (0..10).map(|n| format!("wmV{n}")).collect();
    // The simulator's own events are lost, so that the very same can be sent twice.
    lose_events(&world, 1.0);
    let events: Vec<String> = customers.iter().map(|one| added(&world, one)).collect();
    lose_events(&world, 0.0);
    for event in &events {
        world.send(event.clone());
    }
    let before = world.each_has_one(&customers).await;
    world.quiet().await;
    for kind in ["seen", "budget", "flight"] {
        let pattern = format!("{{{}}}:v1:{kind}:*", world.corp);
        let keys = redis.cli(&["KEYS", &pattern]);
        let mut evict = vec!["DEL"];
        evict.extend(keys.lines().filter(|key| !key.is_empty()));
        assert!(
            evict.len() > 1 || kind == "flight",
            "nothing to evict: {kind}"
        );
        if evict.len() > 1 {
            redis.cli(&evict);
        }
    }
    for event in &events {
        world.send(event.clone());
    }
    world.sim.idle().await;
    world.quiet().await;
    assert_eq!(world.each_has_one(&customers).await, before);
    let counters = world.sim.counters();
    let corp = &counters.corps[world.corp.as_str()];
    assert_eq!(
        (corp.transfers_accepted, corp.transfers_doubled),
        (10, 0),
        "{corp:?}"
    );
    assert_eq!(
        (corp.welcomes_delivered, corp.welcomes_repeated),
        (10, 0),
        "{corp:?}"
    );
    world.close().await;
}

fn lose_events(world: &World, rate: f64) {
    let patch = json!({ "callbacks": { "loss_rate": rate } });
    world.sim.patch_config(&patch).expect("a rate");
}

/// A customer scans; the event that says so.
fn added(world: &World, customer: &str) -> String {
    let scan = ScanRequest::member("desk", "poster").customer(customer);
    let scan = world.sim.scan(&scan).expect("a scan").scans.remove(0);
    let code = scan.welcome_codes.values().next().expect("a code");
    let more =
        format!("<State><![CDATA[poster]]></State><WelcomeCode><![CDATA[{code}]]></WelcomeCode>");
    world.plaintext("add_external_contact", "desk", customer, &more)
}
