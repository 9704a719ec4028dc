//! Group pools, groups and campaigns through the API.

use ledger::Role;
use serde_json::{Value, json};

use crate::api_support::World;

#[tokio::test]
async fn a_group_pool_has_sane_numbers_and_stays_as_it_was_put() {
    let world = World::new().await;
    let console = world.operator().await;
    let made = console
        .put("/group-pools/cities", json!({"name": "城市"}))
        .await;
    assert_eq!(
        (made.status.as_u16(), made.etag()),
        (201, "\"1\"".to_owned())
    );
    let made = made.ok();
    for (field, value) in [
        ("strategy", json!("fill_first")),
        ("scan_cap", json!(200)),
        ("hard_cap", json!(500)),
        ("buffer", json!(5)),
        ("any_group", json!(true)),
        (
            "supply",
            json!({"min_free": 50, "ahead_seconds": 300, "sources": ["spare"], "keeper": null, "deadline_seconds": 900}),
        ),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    let whole = json!({"name": "城市", "strategy": "least_filled", "scan_cap": 100, "hard_cap": 100, "buffer": 0,
        "any_group": false, "supply": {"min_free": 0, "sources": ["auto_room", "person"], "keeper": "LiSi"}});
    let changed = console
        .put_if("/group-pools/cities", ("if-match", "\"1\""), whole.clone())
        .await
        .ok();
    assert_eq!(changed["supply"]["deadline_seconds"], 900);
    assert_eq!(changed["supply"]["sources"], json!(["auto_room", "person"]));
    assert_eq!(console.get("/group-pools/cities").await.ok(), changed);
    assert_eq!(console.all("/group-pools").await, [changed]);
    let stale = console
        .put_if("/group-pools/cities", ("if-match", "\"1\""), whole.clone())
        .await;
    assert_eq!(stale.refused(), (412, "precondition_failed".to_owned()));
    // Who keeps it is spelled as WeCom spells him.
    console.put("/members/LiSi", json!({})).await.ok();
    world.sync().await;
    allocator::people::refresh(world.app(), world.corp_app())
        .await
        .unwrap();
    let read = console.get("/group-pools/cities").await.ok();
    assert_eq!(read["supply"]["keeper"], "LiSi");
}

#[tokio::test]
async fn wrong_group_pools_are_refused_field_by_field() {
    let world = World::new().await;
    let console = world.operator().await;
    for (more, pointers) in [
        (json!({"scan_cap": 0}), vec!["/scan_cap"]),
        (json!({"hard_cap": 2001}), vec!["/hard_cap"]),
        (json!({"scan_cap": 501}), vec!["/hard_cap"]),
        (json!({"buffer": 200}), vec!["/buffer"]),
        (
            json!({"scan_cap": 5, "hard_cap": 4}),
            vec!["/buffer", "/hard_cap"],
        ),
        (
            json!({"supply": {"sources": ["spare", "spare"]}}),
            vec!["/supply/sources/1"],
        ),
        (
            json!({"supply": {"sources": ["person"]}}),
            vec!["/supply/keeper"],
        ),
        (
            json!({"supply": {"keeper": "li si"}}),
            vec!["/supply/keeper"],
        ),
        (
            json!({"supply": {"min_free": 1_000_001, "ahead_seconds": 86_401, "deadline_seconds": 29}}),
            vec![
                "/supply/min_free",
                "/supply/ahead_seconds",
                "/supply/deadline_seconds",
            ],
        ),
        (json!({"strategy": "random"}), vec!["/strategy"]),
    ] {
        let mut body = json!({"name": "x"});
        let fields = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        let refused = console.put("/group-pools/p1", body.clone()).await;
        assert_eq!(refused.pointers(), pointers, "{body}");
    }
}

#[tokio::test]
async fn a_group_is_put_into_a_pool_and_says_why_it_is_not_shown() {
    let world = World::new().await;
    let console = world.operator().await;
    console
        .put("/group-pools/p1", json!({"name": "x"}))
        .await
        .ok();
    let made = console
        .put(
            "/groups/wrAbc-1",
            json!({"group_pool": "p1", "rank": 3, "buffer": 0, "tags": ["北京", "adults"]}),
        )
        .await
        .ok();
    assert_eq!(
        made["caps"],
        json!({"scan_cap": 200, "hard_cap": 500, "buffer": 0})
    );
    assert_eq!(
        (&made["scan_cap"], &made["buffer"], &made["source"]),
        (&Value::Null, &json!(0), &json!("console"))
    );
    assert_eq!(made["tags"], json!(["adults", "北京"]));
    assert_eq!(made["not_shown"], json!(["never_read", "no_join_way"]));
    for field in ["name", "owner", "people", "read_at", "problem"] {
        assert!(made[field].is_null(), "{field}");
    }
    let spare = console
        .put("/groups/wr2", json!({"state": "spare"}))
        .await
        .ok();
    assert_eq!(
        spare["not_shown"],
        json!(["not_in_pool", "spare", "never_read"])
    );
    let listed = async |query: &str| {
        let rows = console.all(&format!("/groups{query}")).await;
        let ids = rows
            .iter()
            .map(|row| row["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(listed("").await, ["wr2", "wrAbc-1"]);
    assert_eq!(listed("?group_pool=p1").await, ["wrAbc-1"]);
    assert_eq!(listed("?state=spare").await, ["wr2"]);
    // The pool's new numbers are the group's, and make it another version.
    let caps = json!({"name": "x", "scan_cap": 180, "hard_cap": 400});
    console.put("/group-pools/p1", caps).await.ok();
    let read = console.get("/groups/wrAbc-1").await;
    assert_eq!(read.etag(), "\"2\"");
    assert_eq!(
        read.ok()["caps"],
        json!({"scan_cap": 180, "hard_cap": 400, "buffer": 0})
    );
    assert_eq!(console.delete("/groups/wrAbc-1").await.status, 204);
    assert_eq!(console.get("/groups/wrAbc-1").await.status, 404);
    assert_eq!(console.delete("/groups/wrAbc-1").await.status, 404);
}

#[tokio::test]
async fn wrong_groups_are_refused_field_by_field() {
    let world = World::new().await;
    let console = world.operator().await;
    console
        .put("/group-pools/p1", json!({"name": "x"}))
        .await
        .ok();
    let nine: Vec<String> = (0..9).map(|n| format!("tag{n}")).collect();
    for (body, pointers) in [
        (json!({"group_pool": "p9"}), vec!["/group_pool"]),
        (json!({"group_pool": "p 9"}), vec!["/group_pool"]),
        (json!({"rank": 1_000_001}), vec!["/rank"]),
        (
            json!({"scan_cap": 2001, "buffer": 2000}),
            vec!["/scan_cap", "/buffer"],
        ),
        (json!({"scan_cap": 100, "hard_cap": 99}), vec!["/hard_cap"]),
        (json!({"hard_cap": 9, "buffer": 9}), vec!["/buffer"]),
        (
            json!({"group_pool": "p1", "scan_cap": 501}),
            vec!["/hard_cap"],
        ),
        (json!({"group_pool": "p1", "scan_cap": 5}), vec!["/buffer"]),
        (json!({"tags": ["a", "a"]}), vec!["/tags/1"]),
        (json!({"tags": [" a"]}), vec!["/tags/0"]),
        (json!({"tags": nine}), vec!["/tags"]),
        (json!({"state": "dismissed"}), vec!["/state"]),
        (json!({"name": "x"}), vec!["/name"]),
    ] {
        let refused = console.put("/groups/wr1", body.clone()).await;
        assert_eq!(refused.pointers(), pointers, "{body}");
    }
    let refused = console.put("/groups/%E7%BE%A4", json!({})).await;
    assert_eq!(refused.pointers(), ["path:chat_id"]);
    let refused = console.get("/groups?group_pool=a%20b").await;
    assert_eq!(refused.pointers(), ["query:group_pool"]);
    // What is no more at WeCom is not put anywhere.
    console.put("/groups/wr1", json!({})).await.ok();
    let trail = ledger::Trail::system(world.app().now_ms(), "test");
    let chat = allocation::ChatId::new("wr1").unwrap();
    let groups = world.app().ledger.groups();
    assert!(groups.dismissed(&world.corp, &chat, &trail).await.unwrap());
    let refused = console
        .put("/groups/wr1", json!({"group_pool": "p1"}))
        .await;
    assert_eq!(refused.refused(), (409, "group_dismissed".to_owned()));
    assert_eq!(console.get("/groups/wr1").await.ok()["state"], "dismissed");
}

#[tokio::test]
async fn a_group_pool_in_use_says_by_whom() {
    let world = World::new().await;
    let console = world.operator().await;
    console
        .put("/group-pools/p1", json!({"name": "x"}))
        .await
        .ok();
    console
        .put(
            "/campaigns/spring",
            json!({"name": "x", "group_pool": "p1"}),
        )
        .await
        .ok();
    for n in 0..22 {
        let path = format!("/groups/wr{n:02}");
        console
            .put(&path, json!({"group_pool": "p1", "scan_cap": 100}))
            .await
            .ok();
    }
    let refused = console.delete("/group-pools/p1").await;
    assert_eq!(refused.refused(), (409, "group_pool_in_use".to_owned()));
    let current = &refused.json()["current"];
    assert_eq!(
        (&current["campaigns"], &current["n_groups"]),
        (&json!(["spring"]), &json!(22))
    );
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.contains("spring") && detail.contains("wr19 and 2 others"),
        "{detail}"
    );
    let refused = console
        .put(
            "/group-pools/p1",
            json!({"name": "x", "scan_cap": 90, "hard_cap": 90}),
        )
        .await;
    assert_eq!(refused.pointers(), ["/scan_cap"]);
    assert_eq!(refused.json()["current"]["groups"][0], "wr00");
    console.delete("/campaigns/spring").await.ok();
    for n in 0..22 {
        let path = format!("/groups/wr{n:02}");
        console.put(&path, json!({})).await.ok();
    }
    assert_eq!(console.delete("/group-pools/p1").await.status, 204);
    assert_eq!(console.get("/group-pools/p1").await.status, 404);
}

#[tokio::test]
async fn a_campaign_fills_a_pool_and_keeps_its_code() {
    let world = World::new().await;
    let console = world.operator().await;
    let plain = json!({"name": "Spring", "group_pool": "p1"});
    let refused = console.put("/campaigns/c1", plain.clone()).await;
    assert_eq!(refused.pointers(), ["/group_pool"]);
    console
        .put("/group-pools/p1", json!({"name": "x"}))
        .await
        .ok();
    let made = console.put("/campaigns/c1", plain.clone()).await;
    assert_eq!(made.status, 201);
    let made = made.ok();
    for (field, value) in [
        ("hold_seconds", json!(600)),
        ("title", json!("")),
        ("state", json!("open")),
        ("starts_at", json!(null)),
        ("ways", json!("campaign")),
        ("groups_per_way", json!(1)),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    let whole = json!({"name": "Spring", "group_pool": "p1", "hold_seconds": 30, "title": " 春 ", "state": "closed",
        "starts_at": "2027-03-01T08:00:00+08:00", "ends_at": "2027-03-02T00:00:00Z", "ways": "inviter", "groups_per_way": 5,
        "fission": {}});
    let changed = console.put("/campaigns/c1", whole).await.ok();
    assert_eq!(
        (&changed["title"], &changed["starts_at"]),
        (&json!("春"), &json!("2027-03-01T00:00:00.000Z"))
    );
    assert_eq!(changed["public_code"], made["public_code"]);
    assert_eq!(console.get("/campaigns/c1").await.ok(), changed);
    assert_eq!(console.all("/campaigns").await, [changed]);
    for (more, pointer) in [
        (json!({"hold_seconds": 29}), "/hold_seconds"),
        (json!({"groups_per_way": 6}), "/groups_per_way"),
        (json!({"title": "x".repeat(61)}), "/title"),
        (
            json!({"starts_at": "2027-03-02T00:00:00Z", "ends_at": "2027-03-02T00:00:00Z"}),
            "/ends_at",
        ),
        (json!({"ways": "nobody"}), "/ways"),
        (json!({"ways": "inviter"}), "/ways"),
    ] {
        let mut body = plain.clone();
        let fields = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        let refused = console.put("/campaigns/c1", body.clone()).await;
        assert_eq!(refused.pointers(), [pointer], "{body}");
    }
    assert_eq!(console.delete("/campaigns/c1").await.status, 204);
    let back = console.put("/campaigns/c1", plain).await.ok();
    assert_eq!(back["public_code"], made["public_code"]);
}

#[tokio::test]
async fn an_import_says_what_is_wrong_with_it() {
    let world = World::new().await;
    let console = world.operator().await;
    for (body, pointer) in [
        (json!({"owners": []}), "/owners"),
        (json!({"owners": ["li si"]}), "/owners/0"),
        (json!({"owners": ["LiSi", "lisi"]}), "/owners/1"),
        (json!({"owners": vec!["x"; 1001]}), "/owners"),
        (json!({"group_pool": "p9"}), "/group_pool"),
        (json!({"state": "closed"}), "/state"),
        (json!({"tags": ["a", "a"]}), "/tags/1"),
    ] {
        let refused = console.post("/group-imports", body.clone()).await;
        assert_eq!(refused.pointers()[0], pointer, "{body}");
    }
    assert!(console.all("/operations").await.is_empty());
    // All of it may be left out, and asked for again it is one operation.
    let begun = console.post_once("/group-imports", "k1", json!({})).await;
    assert_eq!(begun.status, 202);
    let again = console.post_once("/group-imports", "k1", json!({})).await;
    assert_eq!(again.json()["id"], begun.json()["id"]);
    assert_eq!(begun.json()["kind"], "groups.import");
    assert_eq!(console.all("/operations?kind=groups.import").await.len(), 1);
}

#[tokio::test]
async fn viewers_see_groups_and_operators_change_them() {
    let world = World::new().await;
    let operator = world.operator().await;
    operator
        .put("/group-pools/p1", json!({"name": "x"}))
        .await
        .ok();
    operator
        .put("/groups/wr1", json!({"group_pool": "p1"}))
        .await
        .ok();
    let campaign = json!({"name": "x", "group_pool": "p1"});
    operator.put("/campaigns/c1", campaign.clone()).await.ok();
    let viewer = world.console(Role::Viewer).await;
    let member = world.member_key("ZhangSan").await;
    for path in ["/group-pools", "/groups", "/campaigns"] {
        assert_eq!(viewer.all(path).await.len(), 1, "{path}");
        assert_eq!(member.get(path).await.status, 403, "{path}");
    }
    for (path, body) in [
        ("/group-pools/p1", json!({"name": "y"})),
        ("/groups/wr1", json!({})),
        ("/campaigns/c1", campaign),
    ] {
        assert_eq!(viewer.get(path).await.status, 200, "{path}");
        assert_eq!(viewer.put(path, body).await.status, 403, "{path}");
        assert_eq!(viewer.delete(path).await.status, 403, "{path}");
    }
    let refused = viewer.post("/group-imports", json!({})).await;
    assert_eq!(refused.status, 403);
    // Who changed what is kept.
    for action in ["group_pool.put", "group.put", "campaign.put"] {
        let found = operator.all(&format!("/audit?action={action}")).await;
        assert_eq!(found.len(), 1, "{action}");
    }
}
