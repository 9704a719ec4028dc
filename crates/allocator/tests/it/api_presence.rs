//! Presence through the API.

use serde_json::{Value, json};

use crate::api_support::World;

#[tokio::test]
async fn heartbeats_and_goodbyes() {
    let world = World::new().await;
    let console = world.operator().await;
    for member in ["MA", "mB", "mC"] {
        console
            .put(&format!("/members/{member}"), json!({}))
            .await
            .ok();
    }
    let body = json!({"members": [
        {"member": "ma", "online": true, "lease_seconds": 60},
        {"member": "mB", "online": true},
        {"member": "mX", "online": true},
        {"member": "mC", "online": false}]});
    let results = console.put("/presence", body.clone()).await.ok();
    let results = results["data"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    assert_eq!(
        (&results[0]["member"], &results[0]["online"]),
        (&json!("MA"), &json!(true))
    );
    assert_eq!(
        (&results[2]["error"], &results[2]["online"]),
        (&json!("unknown_member"), &json!(false))
    );
    assert!(results[3]["error"].is_null());
    let names = |page: &Value| {
        page["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["member"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&console.get("/presence").await.ok()), ["MA", "mB"]);
    // Pages lead both ways.
    let first = console.get("/presence?limit=1").await.ok();
    let second = console
        .get(&format!(
            "/presence?limit=1&cursor={}",
            first["page"]["next"].as_str().unwrap()
        ))
        .await
        .ok();
    assert_eq!(
        (names(&first), names(&second)),
        (vec![json!("MA")], vec![json!("mB")])
    );
    let back = console
        .get(&format!(
            "/presence?limit=1&cursor={}",
            second["page"]["prev"].as_str().unwrap()
        ))
        .await
        .ok();
    assert_eq!(names(&back), ["MA"]);
    // Once more is no change: two entries in the audit are one batch that turned two on, and one that turned one off.
    console.put("/presence", body).await.ok();
    assert_eq!(console.delete("/presence/mb").await.status, 204);
    assert_eq!(console.get("/presence/mB").await.ok()["online"], false);
    world.written().await;
    let entries = console.all("/audit?action=presence.put").await;
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert_eq!(
        entries[0]["after"],
        json!([{"member": "mB", "online": false}])
    );
    assert_eq!(entries[1]["after"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_member_coming_on_wakes_who_waits() {
    let world = World::new().await;
    let console = world.operator().await;
    console.put("/members/mA", json!({})).await.ok();
    console
        .put(
            "/pools/p1",
            json!({"name": "x", "members": [{"member": "mA", "weight": 1}]}),
        )
        .await
        .ok();
    assert_eq!(console.ask("p1", "wmC001").await["decision"], "waiting");
    let own = world.member_key("mA").await;
    let on = own
        .put("/presence/MA", json!({"online": true, "lease_seconds": 60}))
        .await
        .ok();
    assert!(on["lease_until"].is_string());
    world.written().await;
    assert_eq!(console.all("/allocations?state=open").await.len(), 1);
    world.check().await;
}

#[tokio::test]
async fn a_members_key_is_for_himself() {
    let world = World::new().await;
    let console = world.operator().await;
    for member in ["mA", "mB"] {
        console
            .put(&format!("/members/{member}"), json!({}))
            .await
            .ok();
    }
    let own = world.member_key("MA").await;
    let on = |member: &str| json!({"members": [{"member": member, "online": true}]});
    own.put("/presence", on("mA")).await.ok();
    own.get("/presence/ma").await.ok();
    assert_eq!(own.delete("/presence/mA").await.status, 204);
    for answer in [
        own.put("/presence", on("mB")).await,
        own.get("/presence/mB").await,
        own.delete("/presence/mB").await,
        own.put("/presence/mB", json!({"online": true})).await,
        own.get("/members").await,
    ] {
        assert_eq!(answer.refused(), (403, "forbidden".to_owned()));
    }
    let viewer = world.console(ledger::Role::Viewer).await;
    assert_eq!(viewer.put("/presence", on("mA")).await.status, 403);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_whole() {
    let world = World::new().await;
    let console = world.operator().await;
    console.put("/members/mA", json!({})).await.ok();
    let on = |lease: Value| json!({"members": [{"member": "mA", "online": true, "lease_seconds": lease}]});
    let many: Vec<Value> = (0..1001)
        .map(|n| json!({"member": format!("m{n}"), "online": true}))
        .collect();
    for (body, pointer) in [
        (on(json!(0)), "/members/0/lease_seconds"),
        (on(json!(-1)), "/members/0/lease_seconds"),
        (on(json!(86_401)), "/members/0/lease_seconds"),
        (json!({"members": many}), "/members"),
        (
            json!({"members": [{"member": "mA", "online": true}, {"member": "MA", "online": false}]}),
            "/members/1/member",
        ),
        (
            json!({"members": [{"member": "", "online": true}]}),
            "/members/0/member",
        ),
        (json!({"members": [{"member": "mA"}]}), "/members/0/online"),
    ] {
        assert_eq!(console.put("/presence", body).await.pointers(), [pointer]);
    }
    assert_eq!(console.get("/presence").await.ok()["data"], json!([]));
    assert_eq!(
        console
            .put("/presence/mX", json!({"online": true}))
            .await
            .status,
        404
    );
}

/// A thousand at once are several script calls, and all of them count.
#[tokio::test]
async fn a_thousand_members_in_one_batch() {
    let world = World::new().await;
    let console = world.operator().await;
    let corp = world.corp_app();
    let now_ms = world.app().now_ms();
    for n in 0..1000 {
        let member = allocation::MemberId::new(format!("m{n:04}")).unwrap();
        let new = ledger::NewMember {
            userid: format!("m{n:04}"),
            ..ledger::NewMember::default()
        };
        let trail = ledger::Trail::system(now_ms, "test");
        world
            .app()
            .ledger
            .members()
            .put(&corp.id, &member, &new, ledger::Precondition::None, &trail)
            .await
            .unwrap();
    }
    let names: Vec<String> = (0..1000).map(|n| format!("m{n:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    console.on(&names).await;
    let on = console.all("/presence").await;
    assert_eq!(on.len(), 1000);
    assert_eq!(
        (&on[0]["member"], &on[999]["member"]),
        (&json!("m0000"), &json!("m0999"))
    );
}
