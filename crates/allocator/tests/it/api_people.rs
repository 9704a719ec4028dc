//! What is configured reaches Redis: at once, and if not then by the loop; unchanged configuration changes nothing.

use std::collections::BTreeMap;

use allocation::{MemberId, PoolId, Strategy};
use futures_util::future::join_all;
use ledger::{NewMember, NewPool, Precondition, Trail};
use serde_json::json;

use crate::api_support::{Options, World};

/// Case 55: weights 5,1,1,1,1; the unchanged configuration is loaded after every pick, by one allocator or the other.
#[tokio::test]
async fn loading_an_unchanged_configuration_changes_no_share() {
    let world = World::with(2, Options::default()).await;
    let console = world.operator().await;
    let weights = [
        ("mA", 5.0),
        ("mB", 1.0),
        ("mC", 1.0),
        ("mD", 1.0),
        ("mE", 1.0),
    ];
    world.pool(&console, "p1", &weights).await;
    let body = json!({"name": "p1", "members": weights.map(|(member, weight)| json!({"member": member, "weight": weight}))});
    let mut counts = BTreeMap::new();
    for n in 0..90 {
        let member = console.ask("p1", &format!("wmC{n}")).await["member"]
            .as_str()
            .unwrap()
            .to_owned();
        *counts.entry(member).or_insert(0_i32) += 1;
        console.put("/pools/p1", body.clone()).await.ok();
        let node = &world.nodes[n % 2];
        allocator::people::refresh(&node.app, node.corp())
            .await
            .unwrap();
        assert_eq!(
            allocator::people::sync(&node.app, node.corp())
                .await
                .unwrap(),
            0
        );
    }
    for (member, weight) in weights {
        let share = (weight * 10.0) as i32;
        assert!((counts[member] - share).abs() <= 1, "{counts:?}");
    }
}

/// Written to Postgres by a process that died before it could tell Redis.
#[tokio::test]
async fn a_crash_between_the_two_heals() {
    let world = World::new().await;
    let console = world.operator().await;
    let (app, corp) = (world.app(), world.corp_app());
    let trail = Trail::system(app.now_ms(), "test");
    let (member, pool) = (MemberId::new("mA").unwrap(), PoolId::new("p1").unwrap());
    let new = NewMember {
        userid: "mA".to_owned(),
        cap: Some(1),
        blocked: None,
        ..NewMember::default()
    };
    app.ledger
        .members()
        .put(&corp.id, &member, &new, Precondition::None, &trail)
        .await
        .unwrap();
    let new = NewPool {
        name: "x".to_owned(),
        strategy: Strategy::LeastLoad,
        load_window_seconds: None,
        offers: None,
        routing: Default::default(),
        members: vec![(member, "1".parse().unwrap())],
        limits: Default::default(),
    };
    app.ledger
        .pools()
        .put(&corp.id, &pool, &new, Precondition::None, &trail)
        .await
        .unwrap();
    assert_eq!(world.sync().await, 2);
    assert_eq!(world.sync().await, 0, "once is enough");
    console.on(&["mA"]).await;
    assert_eq!(console.ask("p1", "wmC001").await["decision"], "assigned");
    assert_eq!(
        console.ask("p1", "wmC002").await["decision"],
        "waiting",
        "the cap was told too"
    );
    app.ledger
        .pools()
        .delete(&corp.id, &pool, Precondition::None, &trail)
        .await
        .unwrap();
    assert_eq!(world.sync().await, 1);
    let body = json!({"subject": {"kind": "wecom", "id": "wmC003"}, "pool": "p1"});
    assert_eq!(
        console.post("/allocations", body).await.pointers(),
        ["/pool"]
    );
    // It comes back with a version above the old one.
    app.ledger
        .pools()
        .put(&corp.id, &pool, &new, Precondition::Absent, &trail)
        .await
        .unwrap();
    assert_eq!(world.sync().await, 1);
    assert_eq!(console.ask("p1", "wmC003").await["decision"], "waiting");
    world.check().await;
}

/// The loop hears of what another allocator wrote, and of a Redis that was rebuilt.
#[tokio::test]
async fn the_loop_keeps_every_allocator_up_to_date() {
    let fast = Options {
        config: "[roster]\nsync_every_ms = 20".to_owned(),
        ..Options::default()
    };
    let world = World::with(2, fast).await;
    let console = world.operator().await;
    let other = &world.nodes[1];
    let running = tokio::spawn(allocator::people::run(
        std::sync::Arc::clone(&other.app),
        std::sync::Arc::clone(other.corp()),
        world.stop(),
    ));
    world.pool(&console, "p1", &[("ZhangSan", 1.0)]).await;
    console
        .put(
            "/channels/c1",
            json!({"name": "x", "pool": "p1", "states": ["ch_001"]}),
        )
        .await
        .ok();
    let limit = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    let member = MemberId::new("zhangsan").unwrap();
    while !(other.corp().routes().by_state.contains_key("ch_001")
        && other.corp().names.userid(&member) == "ZhangSan")
    {
        assert!(tokio::time::Instant::now() < limit);
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    world.stop().cancel();
    running.await.unwrap();
}

/// Case 81, hard: caps from many hands at once; Redis ends with what Postgres ends with.
#[tokio::test]
async fn of_many_writers_the_last_ones_word_stands_in_redis_too() {
    let world = World::with(2, Options::default()).await;
    let console = world.operator().await;
    let key = console.key.clone().unwrap();
    for round in 0..10 {
        let writers = (0..10).map(|n| {
            let console = world.at(n % 2, &key);
            async move {
                console
                    .put("/members/mA", json!({"cap": round * 100 + n}))
                    .await
                    .ok()
            }
        });
        join_all(writers).await;
        let cap = console.get("/members/mA").await.ok()["cap"]
            .as_u64()
            .unwrap();
        let views = world
            .corp_app()
            .roster
            .members(&[MemberId::new("mA").unwrap()])
            .await
            .unwrap();
        assert_eq!(views[0].cap.map(u64::from), Some(cap));
    }
}

/// A pool is told by two allocators at once, as fast as they can: the version that is last in Postgres is in Redis.
#[tokio::test]
async fn of_many_pools_the_last_version_stands() {
    let world = World::with(2, Options::default()).await;
    let console = world.operator().await;
    world
        .pool(&console, "p1", &[("mA", 1.0), ("mB", 1.0)])
        .await;
    let key = console.key.clone().unwrap();
    let writers = (1..=20).map(|n| {
        let console = world.at(n % 2, &key);
        let body = json!({"name": "x", "members": [{"member": "mA", "weight": n}, {"member": "mB", "weight": 1}]});
        async move { console.put("/pools/p1", body).await.ok() }
    });
    join_all(writers).await;
    let version = console.get("/pools/p1").await.ok()["version"]
        .as_u64()
        .unwrap();
    let told = world
        .corp_app()
        .roster
        .pool_versions(&[PoolId::new("p1").unwrap()])
        .await
        .unwrap();
    assert_eq!(told[0].unwrap().version, version);
    assert_eq!(world.sync().await, 0);
}
