//! Skills, tiers, backup pools and the like through the API: how they are put, refused and shown.

use rstest::rstest;
use serde_json::{Value, json};

use crate::api_support::{Console, World};

async fn world() -> (World, Console) {
    let world = World::new().await;
    let console = world.operator().await;
    (world, console)
}

async fn put_pool(console: &Console, id: &str, more: Value) -> crate::api_support::Answer {
    let mut body = json!({"name": id, "members": []});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    console.put(&format!("/pools/{id}"), body).await
}

#[tokio::test]
async fn a_pool_comes_back_as_it_was_put() {
    let (_world, console) = world().await;
    put_pool(&console, "tier2", json!({})).await.ok();
    let more = json!({
        "fallbacks": [
            {"pool": "tier2"},
            {"pool": "tier2", "after_seconds": 90, "without": ["VIP"]},
        ],
        "relax": [{"skill": "lang:EN", "after_seconds": 30}],
        "sticky": {"days": 30},
        "drip_seconds": 20,
        "alert_after_seconds": 60,
        "person_after_seconds": 900,
    });
    let created = put_pool(&console, "sales", more.clone()).await;
    let shown = json!({
        "fallbacks": [
            {"pool": "tier2", "after_seconds": 0, "without": []},
            {"pool": "tier2", "after_seconds": 90, "without": ["vip"]},
        ],
        "relax": [{"skill": "lang:en", "after_seconds": 30}],
        "sticky": {"days": 30, "otherwise": "next"},
        "drip_seconds": 20,
        "alert_after_seconds": 60,
        "person_after_seconds": 900,
    });
    for view in [created.ok(), console.get("/pools/sales").await.ok()] {
        for (name, value) in shown.as_object().unwrap() {
            assert_eq!(view[name], *value, "{name}");
        }
    }
    // As it is shown it can be put again: nothing changes.
    let again = put_pool(&console, "sales", shown).await;
    assert_eq!((again.status.as_u16(), again.etag()), (200, created.etag()));
    // What is left out is not.
    let plain = put_pool(&console, "sales", json!({})).await;
    assert_ne!(plain.etag(), created.etag());
    let plain = plain.ok();
    assert_eq!(plain["fallbacks"], json!([]));
    assert_eq!(plain["relax"], json!([]));
    for name in [
        "sticky",
        "drip_seconds",
        "alert_after_seconds",
        "person_after_seconds",
    ] {
        assert!(plain[name].is_null(), "{name}");
    }
    let audit = console.all("/audit?entity=pools/sales").await;
    let changed = audit.iter().find(|one| !one["before"].is_null()).unwrap();
    assert_eq!(changed["before"]["routing"]["sticky"]["days"], 30);
    assert!(changed["after"]["routing"].is_null());
    let rendezvous = json!({"sticky": {"days": 1, "otherwise": "rendezvous"}});
    let kept = put_pool(&console, "sales", rendezvous.clone()).await.ok();
    assert_eq!(kept["sticky"], rendezvous["sticky"]);
}

#[rstest]
#[case::unknown(json!({"fallbacks": [{"pool": "tier2"}, {"pool": "nowhere"}]}), &["/fallbacks/1/pool"], "unknown_pool")]
#[case::itself(json!({"fallbacks": [{"pool": "sales"}]}), &["/fallbacks/0/pool"], "itself")]
#[case::no_pool(json!({"fallbacks": [{"pool": "a b"}]}), &["/fallbacks/0/pool"], "invalid")]
#[case::twice(json!({"fallbacks": [{"pool": "tier2"}, {"pool": "tier2", "after_seconds": 5}]}), &["/fallbacks/1/pool"], "duplicate_fallback")]
#[case::long(json!({"fallbacks": [{"pool": "tier2", "after_seconds": 2_592_001}]}), &["/fallbacks/0/after_seconds"], "out_of_range")]
#[case::no_skill(json!({"fallbacks": [{"pool": "tier2", "without": ["vip", "a,b"]}]}), &["/fallbacks/0/without/1"], "invalid")]
#[case::at_once(json!({"relax": [{"skill": "vip", "after_seconds": 0}]}), &["/relax/0/after_seconds"], "out_of_range")]
#[case::relaxed_twice(json!({"relax": [{"skill": "vip", "after_seconds": 1}, {"skill": "VIP", "after_seconds": 2}]}), &["/relax/1/skill"], "duplicate_skill")]
#[case::no_days(json!({"sticky": {"days": 0}}), &["/sticky/days"], "out_of_range")]
#[case::ten_years(json!({"sticky": {"days": 3651}}), &["/sticky/days"], "out_of_range")]
#[case::no_drip(json!({"drip_seconds": 0}), &["/drip_seconds"], "out_of_range")]
#[case::all(
    json!({"alert_after_seconds": 0, "person_after_seconds": 2_592_001, "drip_seconds": 86_401}),
    &["/alert_after_seconds", "/person_after_seconds", "/drip_seconds"],
    "out_of_range"
)]
#[tokio::test]
async fn what_no_pool_can_do_is_refused_and_named(
    #[case] more: Value,
    #[case] pointers: &[&str],
    #[case] code: &str,
) {
    let (_world, console) = world().await;
    put_pool(&console, "tier2", json!({})).await.ok();
    let refused = put_pool(&console, "sales", more).await;
    assert_eq!(refused.pointers(), pointers);
    assert_eq!(refused.json()["errors"][0]["code"], code);
    assert_eq!(console.get("/pools/sales").await.status, 404);
}

#[rstest]
#[case::negative(json!({"fallbacks": [{"pool": "tier2", "after_seconds": -1}]}))]
#[case::text(json!({"drip_seconds": "20"}))]
#[case::fraction(json!({"alert_after_seconds": 1.5}))]
#[case::otherwise(json!({"sticky": {"days": 1, "otherwise": "never"}}))]
#[case::unknown_field(json!({"fallbacks": [{"pool": "tier2", "before_seconds": 1}]}))]
#[tokio::test]
async fn what_is_not_of_its_kind_is_refused(#[case] more: Value) {
    let (_world, console) = world().await;
    put_pool(&console, "tier2", json!({})).await.ok();
    let refused = put_pool(&console, "sales", more).await;
    assert_eq!(refused.pointers().len(), 1);
}

#[tokio::test]
async fn more_steps_than_a_plan_has_are_refused() {
    let (_world, console) = world().await;
    let mut fallbacks = Vec::new();
    for n in 0..8 {
        let id = format!("p{n}");
        put_pool(&console, &id, json!({})).await.ok();
        fallbacks.push(json!({"pool": id}));
    }
    let too_many = put_pool(&console, "sales", json!({"fallbacks": fallbacks})).await;
    assert_eq!(too_many.pointers(), ["/fallbacks"]);
    assert_eq!(too_many.json()["errors"][0]["code"], "too_many");
    let seven = &fallbacks[..7];
    put_pool(&console, "sales", json!({"fallbacks": seven}))
        .await
        .ok();
    let relax = json!([{"skill": "vip", "after_seconds": 5}]);
    let more = json!({"fallbacks": seven, "relax": relax});
    let refused = put_pool(&console, "sales", more).await;
    assert_eq!(refused.pointers(), ["/fallbacks"]);
    assert_eq!(refused.json()["errors"][0]["code"], "too_many_steps");
    // Skills that are given up together are one step.
    let relax =
        json!([{"skill": "vip", "after_seconds": 5}, {"skill": "lang:en", "after_seconds": 5}]);
    let more = json!({"fallbacks": &fallbacks[..6], "relax": relax});
    put_pool(&console, "sales", more).await.ok();
}

#[tokio::test]
async fn a_pool_that_is_a_fallback_cannot_be_deleted() {
    let (_world, console) = world().await;
    put_pool(&console, "backup", json!({})).await.ok();
    let to_backup = json!({"fallbacks": [{"pool": "backup"}]});
    put_pool(&console, "sales", to_backup).await.ok();
    let channel = json!({"name": "x", "pool": "backup", "states": []});
    console.put("/channels/c1", channel).await.ok();
    let refused = console.delete("/pools/backup").await;
    assert_eq!(refused.refused(), (409, "pool_in_use".to_owned()));
    let problem = refused.json();
    let users = json!({"channels": ["c1"], "pools": ["sales"]});
    assert_eq!(problem["current"], users);
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("c1") && detail.contains("sales"),
        "{detail}"
    );
    console.delete("/channels/c1").await.ok();
    let refused = console.delete("/pools/backup").await;
    assert_eq!(refused.refused().1, "pool_in_use");
    put_pool(&console, "sales", json!({})).await.ok();
    console.delete("/pools/backup").await.ok();
}

#[tokio::test]
async fn skills_come_back_in_small_letters_and_in_order() {
    let (world, console) = world().await;
    let created = console
        .put(
            "/members/mA",
            json!({"skills": ["vip", "lang:EN", "普通话"]}),
        )
        .await;
    let shown = json!(["lang:en", "vip", "普通话"]);
    assert_eq!(created.ok()["skills"], shown);
    assert_eq!(console.get("/members/mA").await.ok()["skills"], shown);
    let again = console.put("/members/mA", json!({"skills": shown})).await;
    assert_eq!((again.status.as_u16(), again.etag()), (200, created.etag()));
    let roster = &world.corp_app().roster;
    let ma = allocation::MemberId::new("ma").unwrap();
    let known = roster.skills(std::slice::from_ref(&ma)).await.unwrap();
    assert_eq!(known[0].len(), 3);
    assert_eq!(
        console.put("/members/mA", json!({})).await.ok()["skills"],
        json!([])
    );
    assert_eq!(roster.skills(&[ma]).await.unwrap()[0].len(), 0);
    assert_eq!(world.sync().await, 0);
    let most: Vec<String> = (0..64).map(|n| format!("s{n:02}")).collect();
    console
        .put("/members/mA", json!({"skills": most}))
        .await
        .ok();
}

#[tokio::test]
async fn what_is_no_skill_is_refused_and_named() {
    let (_world, console) = world().await;
    let too_many: Vec<String> = (0..65).map(|n| format!("s{n}")).collect();
    for (skills, pointer, code) in [
        (json!(["vip", ""]), "/skills/1", "invalid"),
        (json!(["a b"]), "/skills/0", "invalid"),
        (json!(["a".repeat(65)]), "/skills/0", "invalid"),
        (json!(["{vip}"]), "/skills/0", "invalid"),
        (
            json!(["vip", "lang:en", "VIP"]),
            "/skills/2",
            "duplicate_skill",
        ),
        (json!(too_many), "/skills", "too_many"),
        (json!("vip"), "/skills", "invalid_type"),
        (json!([5]), "/skills/0", "invalid_type"),
    ] {
        let refused = console.put("/members/mA", json!({"skills": skills})).await;
        assert_eq!(refused.pointers(), [pointer], "{skills}");
        let found = refused.json()["errors"][0]["code"].clone();
        assert!(code == "invalid_type" || found == code, "{skills}: {found}");
    }
    assert_eq!(console.get("/members/mA").await.status, 404);
}

#[tokio::test]
async fn a_channel_needs_at_most_eight_skills() {
    let (_world, console) = world().await;
    put_pool(&console, "sales", json!({})).await.ok();
    let channel = |needs: Value| json!({"name": "x", "pool": "sales", "needs": needs});
    let created = console
        .put("/channels/c1", channel(json!(["vip", "lang:en"])))
        .await;
    assert_eq!(created.ok()["needs"], json!(["lang:en", "vip"]));
    let again = console
        .put("/channels/c1", channel(json!(["lang:en", "VIP"])))
        .await;
    assert_eq!(again.etag(), created.etag());
    let nine: Vec<String> = (0..9).map(|n| format!("s{n}")).collect();
    let refused = console.put("/channels/c1", channel(json!(nine))).await;
    assert_eq!(refused.pointers(), ["/needs"]);
    let refused = console
        .put("/channels/c1", channel(json!(["vip", "?"])))
        .await;
    assert_eq!(refused.pointers(), ["/needs/1"]);
    assert_eq!(
        console.put("/channels/c1", channel(json!([]))).await.ok()["needs"],
        json!([])
    );
}

#[tokio::test]
async fn what_a_request_needs_is_checked_with_what_its_channel_needs() {
    let (world, console) = world().await;
    world.pool(&console, "sales", &[("mA", 1.0)]).await;
    let six: Vec<String> = (0..6).map(|n| format!("s{n}")).collect();
    let channel = json!({"name": "x", "pool": "sales", "needs": six,
        "visits": {"slots_per_member": 0, "hold_seconds": 60}});
    console.put("/channels/c1", channel).await.ok();
    let ask = async |needs: Value| {
        let subject = json!({"kind": "wecom", "id": "wmC1"});
        let body = json!({"subject": subject, "channel": "c1", "needs": needs});
        let asked = console.post("/allocations", body).await;
        let body = json!({"visitor": {"kind": "openid", "id": "o1"}, "needs": needs});
        let visited = console.post("/channels/c1/visits", body).await;
        [asked, visited]
    };
    for refused in ask(json!(["t1", "t2", "t3"])).await {
        assert_eq!(refused.pointers(), ["/needs"]);
    }
    for refused in ask(json!(["t1", "a/b"])).await {
        assert_eq!(refused.pointers(), ["/needs/1"]);
    }
    let nine: Vec<String> = (0..9).map(|n| format!("s{n}")).collect();
    for refused in ask(json!(nine)).await {
        assert_eq!(refused.pointers(), ["/needs"]);
    }
    // What the channel needs as well counts once.
    for answer in ask(json!(["t1", "t2", "s0"])).await {
        answer.ok();
    }
    let subject = json!({"kind": "wecom", "id": "wmC2"});
    let body = json!({"subject": subject, "pool": "sales", "prefer": "no member"});
    let refused = console.post("/allocations", body).await;
    assert_eq!(refused.pointers(), ["/prefer"]);
}

/// The same key with other needs is another request; one that says nothing of them is what it was before they were known.
#[tokio::test]
async fn a_repeated_request_is_compared_with_its_needs() {
    let (world, console) = world().await;
    world.pool(&console, "sales", &[("mA", 1.0)]).await;
    let body = |more: Value| {
        let mut body = json!({"subject": {"kind": "wecom", "id": "wmC1"}, "pool": "sales"});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let ask = async |more| console.post_once("/allocations", "key-1", body(more)).await;
    let first = ask(json!({"prefer": "mA"})).await.ok();
    assert_eq!(first["member"], "mA");
    let again = ask(json!({"prefer": "mA"})).await;
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(again.ok()["allocation_id"], first["allocation_id"]);
    for other in [
        json!({}),
        json!({"prefer": "mB"}),
        json!({"prefer": "mA", "needs": ["vip"]}),
    ] {
        assert_eq!(ask(other).await.refused().0, 422);
    }
}

#[tokio::test]
async fn nobody_waits_in_a_new_pool() {
    let (_world, console) = world().await;
    put_pool(&console, "sales", json!({"alert_after_seconds": 60}))
        .await
        .ok();
    let waiting = console.get("/pools/sales/waiting").await.ok();
    assert_eq!(
        waiting,
        json!({"pool": "sales", "waiting": 0, "oldest_since": null, "longest_seconds": null,
            "too_long": 0, "alert_after_seconds": 60})
    );
    assert_eq!(console.get("/pools/nowhere/waiting").await.status, 404);
}
