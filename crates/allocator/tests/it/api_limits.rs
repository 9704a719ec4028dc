//! Limits through the API: how they are put, refused and shown, and that nobody is given more.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use rstest::rstest;
use serde_json::{Value, json};

use crate::api_support::{Options, World};

#[tokio::test]
async fn limits_come_back_as_they_were_put() {
    let world = World::new().await;
    let console = world.operator().await;
    let body = json!({"cap": 7, "per_hour": 0, "per_day": 1_000_000});
    let created = console.put("/members/mA", body.clone()).await;
    let view = console.get("/members/mA").await;
    assert_eq!(view.etag(), created.etag());
    let view = view.ok();
    let shown = ["cap", "per_hour", "per_day"].map(|name| view[name].as_u64());
    assert_eq!(shown, [Some(7), Some(0), Some(1_000_000)]);
    let again = console.put("/members/mA", body).await;
    assert_eq!((again.status.as_u16(), again.etag()), (200, created.etag()));
    // What is left out is not.
    let none = console.put("/members/mA", json!({"cap": 7})).await;
    assert_ne!(none.etag(), created.etag());
    let none = none.ok();
    assert!(
        none["per_hour"].is_null() && none["per_day"].is_null(),
        "{none}"
    );
    assert!(none["state"]["given"].is_null(), "{none}");
    let audit = console.all("/audit?entity=members/ma").await;
    assert_eq!(audit.len(), 2);
    let changed = audit.iter().find(|one| !one["before"].is_null()).unwrap();
    assert_eq!(changed["before"]["per_day"], 1_000_000);
    assert!(changed["after"]["per_day"].is_null());

    console.put("/members/mB", json!({})).await.ok();
    let members = json!([{"member": "mA", "weight": 1, "cap": 2, "per_hour": null, "per_day": 9}, {"member": "mB", "weight": 1}]);
    let body = json!({"name": "p1", "members": members});
    let created = console.put("/pools/p1", body.clone()).await;
    let shown = json!([
        {"member": "mA", "weight": 1, "cap": 2, "per_hour": null, "per_day": 9, "blocked": null},
        {"member": "mB", "weight": 1, "cap": null, "per_hour": null, "per_day": null, "blocked": null},
    ]);
    assert_eq!(created.ok()["members"], shown);
    assert_eq!(console.get("/pools/p1").await.ok()["members"], shown);
    let again = console.put("/pools/p1", body).await;
    assert_eq!((again.status.as_u16(), again.etag()), (200, created.etag()));
    let fewer = json!([{"member": "mA", "weight": 1, "cap": 2}, {"member": "mB", "weight": 1}]);
    let fewer = console
        .put("/pools/p1", json!({"name": "p1", "members": fewer}))
        .await;
    assert_ne!(fewer.etag(), created.etag());
    assert!(fewer.ok()["members"][0]["per_day"].is_null());
    let audit = console.all("/audit?entity=pools/p1").await;
    let changed = audit.iter().find(|one| !one["before"].is_null()).unwrap();
    assert_eq!(changed["before"]["members"][0]["per_day"], 9);
    assert_eq!(changed["after"]["members"][0]["cap"], 2);
    // A pool that is gone limits nobody.
    console.delete("/pools/p1").await.ok();
    assert!(console.get("/members/mA").await.ok()["state"]["given"].is_null());
}

#[rstest]
#[case::too_many(json!(1_000_001))]
#[case::negative(json!(-1))]
#[case::fraction(json!(1.5))]
#[case::text(json!("5"))]
#[tokio::test]
async fn what_is_no_limit_is_refused_and_named(#[case] limit: Value) {
    let world = World::new().await;
    let console = world.operator().await;
    for name in ["cap", "per_hour", "per_day"] {
        let refused = console.put("/members/mA", json!({name: limit})).await;
        assert_eq!(refused.pointers(), [format!("/{name}")]);
        console.put("/members/mB", json!({})).await.ok();
        let member = json!({"member": "mB", "weight": 1, name: limit});
        let body = json!({"name": "p1", "members": [member]});
        let refused = console.put("/pools/p1", body).await;
        assert_eq!(refused.pointers(), [format!("/members/0/{name}")]);
    }
    assert_eq!(console.get("/members/mA").await.status, 404);
    assert_eq!(console.get("/pools/p1").await.status, 404);
}

#[tokio::test]
async fn all_wrong_limits_are_named_at_once() {
    let world = World::new().await;
    let console = world.operator().await;
    let body = json!({"cap": 1_000_001, "per_hour": 2_000_000, "per_day": 3_000_000});
    let refused = console.put("/members/mA", body).await;
    assert_eq!(refused.pointers(), ["/cap", "/per_hour", "/per_day"]);
}

/// Case 58.
#[tokio::test]
async fn who_is_full_is_not_chosen_though_his_score_is_best() {
    let world = World::new().await;
    let console = world.operator().await;
    for (member, cap, open) in [("mA", 3, 3), ("mB", 10, 5), ("mC", 10, 6)] {
        let alone = format!("only_{member}");
        world.pool(&console, &alone, &[(member, 1.0)]).await;
        let path = format!("/members/{member}");
        console.put(&path, json!({"cap": cap})).await.ok();
        for n in 0..open {
            console.ask(&alone, &format!("wm{member}{n}")).await;
        }
    }
    let members = json!([{"member": "mA", "weight": 10}, {"member": "mB", "weight": 1}, {"member": "mC", "weight": 1}]);
    let body = json!({"name": "p1", "strategy": "least_load", "members": members});
    console.put("/pools/p1", body).await.ok();
    for n in 0..4 {
        let given = console.ask("p1", &format!("wmC{n}")).await;
        assert_eq!(given["decision"], "assigned");
        assert_ne!(given["member"], "mA");
    }
    let mut loads = BTreeMap::new();
    for member in ["mA", "mB", "mC"] {
        let view = console.get(&format!("/members/{member}")).await.ok();
        loads.insert(member, view["state"]["load"].as_u64().unwrap());
    }
    assert_eq!(loads["mA"], 3);
    assert!(loads["mB"].abs_diff(loads["mC"]) == 1, "{loads:?}");
    assert_eq!(loads["mB"] + loads["mC"], 15);
    world.check().await;
}

/// Case 73, over three allocators; whatever the limit is of.
#[rstest]
#[case::at_a_time(json!({"cap": 3}), json!({}))]
#[case::by_the_hour(json!({"per_hour": 3}), json!({}))]
#[case::by_the_day(json!({"per_day": 3}), json!({}))]
#[case::at_a_time_of_the_pool(json!({}), json!({"cap": 3}))]
#[case::by_the_day_of_the_pool(json!({"per_hour": 1000}), json!({"per_day": 3}))]
#[tokio::test]
async fn of_fifty_at_once_one_gets_the_last_place(#[case] of_all: Value, #[case] of_pool: Value) {
    let world = World::with(3, Options::default()).await;
    let console = world.operator().await;
    console.put("/members/mA", of_all).await.ok();
    let mut place = json!({"member": "mA", "weight": 1});
    for (name, limit) in of_pool.as_object().unwrap() {
        place[name] = limit.clone();
    }
    let body = json!({"name": "p1", "members": [place]});
    console.put("/pools/p1", body).await.ok();
    console.on(&["mA"]).await;
    for customer in ["first", "second"] {
        assert_eq!(console.ask("p1", customer).await["decision"], "assigned");
    }
    let key = console.key.clone().unwrap();
    let asks = (0..50).map(|n| {
        let console = world.at(n % 3, &key);
        async move { console.ask("p1", &format!("wmC{n}")).await }
    });
    let answers = join_all(asks).await;
    let count = |decision: &str| {
        let of = answers.iter();
        of.filter(|answer| answer["decision"] == decision).count()
    };
    assert_eq!((count("assigned"), count("waiting")), (1, 49));
    world.check().await;
    assert_eq!(console.all("/allocations?state=open").await.len(), 3);
}

/// Case 74: 2 in g1, 5 in g2, 6 over all.
#[tokio::test]
async fn limits_of_pools_and_over_all_count_side_by_side() {
    let world = World::new().await;
    let console = world.operator().await;
    console.put("/members/mA", json!({"cap": 6})).await.ok();
    for (pool, cap) in [("g1", 2), ("g2", 5)] {
        let members = json!([{"member": "mA", "weight": 1, "cap": cap}]);
        let body = json!({"name": pool, "members": members});
        console.put(&format!("/pools/{pool}"), body).await.ok();
    }
    console.on(&["mA"]).await;
    for n in 0..4 {
        let given = console.ask("g2", &format!("wmOld{n}")).await;
        assert_eq!(given["decision"], "assigned");
    }
    let mut decisions = Vec::new();
    for n in 0..3 {
        let given = console.ask("g1", &format!("wmC{n}")).await;
        decisions.push(given["decision"].as_str().unwrap().to_owned());
    }
    assert_eq!(decisions, ["assigned", "assigned", "waiting"]);
    let view = console.get("/members/mA").await.ok();
    assert_eq!(view["state"]["load"], 6);
    assert_eq!(view["state"]["eligible"], false);
    // Raised while the third waits: he is his at once.
    console.put("/members/mA", json!({"cap": 7})).await.ok();
    world.written().await;
    assert_eq!(console.all("/allocations?state=waiting").await.len(), 1);
    let members = json!([{"member": "mA", "weight": 1, "cap": 3}]);
    let body = json!({"name": "g1", "members": members});
    console.put("/pools/g1", body).await.ok();
    world.check().await;
    assert_eq!(console.all("/allocations?state=waiting").await.len(), 0);
    assert_eq!(console.all("/allocations?state=open").await.len(), 7);
}
