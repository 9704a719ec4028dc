//! Pools, members and channels through the API: what is accepted, what is refused and how it is said, ETags, the audit.

use futures_util::future::join_all;
use rstest::rstest;
use serde_json::{Value, json};

use crate::api_support::World;

fn pool(members: Value) -> Value {
    json!({"name": "Spring", "members": members})
}

#[tokio::test]
async fn a_pool_comes_back_as_it_was_put() {
    let world = World::new().await;
    let console = world.operator().await;
    console
        .put("/members/ZhangSan", json!({"cap": 10}))
        .await
        .ok();
    console.put("/members/LiSi", json!({})).await.ok();
    let body = json!({"name": " Spring ", "strategy": "least_load", "load_window_seconds": 86400,
        "members": [{"member": "zhangsan", "weight": 1.5}, {"member": "LISI", "weight": 0}]});
    let created = console.put("/pools/p1", body.clone()).await;
    assert_eq!(created.status, 201);
    let view = console.get("/pools/p1").await;
    assert_eq!(view.etag(), created.etag());
    let view = view.ok();
    assert_eq!(view, created.ok());
    assert_eq!(view["name"], "Spring");
    assert_eq!(view["strategy"], "least_load");
    assert_eq!(view["load_window_seconds"], 86400);
    // Case 129: shown as it was spelled first; case 115: fractions survive.
    let members = json!([{"member": "LiSi", "weight": 0, "cap": null, "per_hour": null, "per_day": null, "blocked": null},
        {"member": "ZhangSan", "weight": 1.5, "cap": null, "per_hour": null, "per_day": null, "blocked": null}]);
    assert_eq!(view["members"], members);
    // The same again changes nothing, not even the version.
    let again = console.put("/pools/p1", body).await;
    assert_eq!((again.status.as_u16(), again.etag()), (200, created.etag()));
    assert_eq!(console.all("/audit?entity=pools/p1").await.len(), 1);
    assert_eq!(console.delete("/pools/p1").await.status, 204);
    assert_eq!(
        console.get("/pools/p1").await.refused(),
        (404, "not_found".to_owned())
    );
}

/// Case 133: weights.
#[rstest]
#[case::negative("-1", "/members/0/weight")]
#[case::huge("1e9", "/members/0/weight")]
#[case::text("\"3\"", "/members/0/weight")]
#[case::null("null", "/members/0/weight")]
#[case::nan("NaN", "/members/0/weight")]
#[case::four_places("0.0001", "/members/0/weight")]
#[tokio::test]
async fn what_is_no_weight_is_refused_and_nothing_is_saved(
    #[case] weight: &str,
    #[case] pointer: &str,
) {
    let world = World::new().await;
    let console = world.operator().await;
    world
        .pool(&console, "p1", &[("mA", 1.0), ("mB", 1.0)])
        .await;
    let before = console.get("/pools/p1").await;
    let body = format!(r#"{{"name":"x","members":[{{"member":"mA","weight":{weight}}}]}}"#);
    let request = console
        .http
        .put(format!("{}/pools/p1", console.base))
        .bearer_auth(console.key.as_ref().unwrap());
    let answer = crate::api_support::answer(
        request
            .header("content-type", "application/json")
            .body(body),
    )
    .await;
    assert_eq!(answer.pointers(), [pointer], "{}", answer.text);
    assert_eq!(console.get("/pools/p1").await.text, before.text);
    // Deciding goes on.
    assert_eq!(console.ask("p1", "wmC001").await["decision"], "assigned");
}

/// Cases 56, 115, 133: 0 is a weight (gets nothing), so is 1.5.
#[tokio::test]
async fn zero_and_fractions_are_weights() {
    let world = World::new().await;
    let console = world.operator().await;
    world
        .pool(&console, "p1", &[("mA", 0.0), ("mB", 0.0)])
        .await;
    assert_eq!(console.ask("p1", "wmC001").await["decision"], "waiting");
    let body = pool(json!([{"member": "mA", "weight": 0}, {"member": "mB", "weight": 1}]));
    console.put("/pools/p1", body).await.ok();
    world.written().await;
    let rows = console.all("/allocations?state=open").await;
    assert_eq!(rows.len(), 1, "the change of weight wakes who waits");
    assert_eq!(rows[0]["member"], "mB");
    // 2.5 to 1.5, exactly.
    world
        .pool(&console, "p2", &[("mC", 2.5), ("mD", 1.5)])
        .await;
    let mut counts = std::collections::BTreeMap::new();
    for n in 0..40 {
        let member = console.ask("p2", &format!("wmD{n}")).await["member"].clone();
        *counts
            .entry(member.as_str().unwrap().to_owned())
            .or_insert(0) += 1;
    }
    assert_eq!(
        counts,
        [("mC".to_owned(), 25), ("mD".to_owned(), 15)].into()
    );
    world.check().await;
}

/// Case 133: the rest.
#[tokio::test]
async fn each_wrong_field_is_named() {
    let world = World::new().await;
    let console = world.operator().await;
    console.put("/members/mA", json!({})).await.ok();
    let member = |member: &str, weight: f64| json!({"member": member, "weight": weight});
    let many: Vec<Value> = (0..17).map(|n| member("mA", f64::from(n) + 1.0)).collect();
    let distinct: Vec<Value> = (0..17)
        .map(|n| member(&format!("m{n}"), f64::from(n) + 1.0))
        .collect();
    for (body, pointers) in [
        (json!({"name": "", "members": []}), vec!["/name"]),
        (json!({"name": "   ", "members": []}), vec!["/name"]),
        (
            json!({"name": "x".repeat(300), "members": []}),
            vec!["/name"],
        ),
        (json!({"members": []}), vec!["/name"]),
        (
            json!({"name": "x", "members": [], "nmae": "y"}),
            vec!["/nmae"],
        ),
        (
            json!({"name": "x", "members": [], "strategy": "fastest"}),
            vec!["/strategy"],
        ),
        (
            json!({"name": "x", "members": [], "load_window_seconds": 0}),
            vec!["/load_window_seconds"],
        ),
        (
            pool(json!([member("mA", 1.0), member("MA", 2.0)])),
            vec!["/members/1/member"],
        ),
        (
            pool(json!([
                member("mA", 1.0),
                member("mX", 1.0),
                member("mY", 1.0)
            ])),
            vec!["/members/1/member", "/members/2/member"],
        ),
        (
            pool(json!([member("m{A}", 1.0)])),
            vec!["/members/0/member"],
        ),
        (
            json!({"name": "", "members": [member("", 1.0)]}),
            vec!["/name", "/members/0/member"],
        ),
        (pool(Value::from(distinct)), vec!["/members"]),
    ] {
        let answer = console.put("/pools/p1", body.clone()).await;
        assert_eq!(answer.pointers(), pointers, "{body}: {}", answer.text);
    }
    assert!(
        console
            .put("/pools/p1", pool(Value::from(many)))
            .await
            .pointers()
            .len()
            > 10
    );
    assert_eq!(
        console.get("/pools/p1").await.status,
        404,
        "nothing is half-saved"
    );
    for body in [
        json!({"cap": -1}),
        json!({"cap": 1.5}),
        json!({"cap": "3"}),
        json!({"cap": 1e9}),
    ] {
        assert_eq!(
            console.put("/members/mA", body.clone()).await.pointers(),
            ["/cap"],
            "{body}"
        );
    }
    for name in ["", "  ", "a\u{0}b", &"明".repeat(33)] {
        let put = console.put("/members/mA", json!({"display_name": name}));
        assert_eq!(put.await.pointers(), ["/display_name"], "{name:?}");
    }
    assert_eq!(
        console
            .put("/members/mA", json!({"blocked": "a\u{0}b"}))
            .await
            .pointers(),
        ["/blocked"]
    );
    assert_eq!(
        console
            .put("/members/mA", json!({"blocked": "x".repeat(65)}))
            .await
            .pointers(),
        ["/blocked"]
    );
}

/// Case 125.
#[tokio::test]
async fn a_nul_is_refused_with_the_field_named() {
    let world = World::new().await;
    let console = world.operator().await;
    let answer = console
        .put("/pools/p1", json!({"name": "a\u{0}b", "members": []}))
        .await;
    assert_eq!(answer.pointers(), ["/name"]);
    assert_eq!(answer.json()["errors"][0]["code"], "nul_character");
}

/// Case 129: one member whatever the case; WeCom's spelling outranks a console's.
#[tokio::test]
async fn letter_case_makes_no_second_member() {
    let world = World::new().await;
    let console = world.operator().await;
    console.put("/members/zhangsan", json!({})).await.ok();
    let corp = world.corp_app();
    world
        .app()
        .ledger
        .members()
        .heard(&corp.id, &["ZhangSan".to_owned()], world.app().now_ms())
        .await
        .unwrap();
    console
        .put("/members/ZHANGSAN", json!({"cap": 3}))
        .await
        .ok();
    let members = console.all("/members").await;
    assert_eq!(members.len(), 1);
    assert_eq!(
        (&members[0]["userid"], &members[0]["cap"]),
        (&json!("ZhangSan"), &json!(3))
    );
    world.pool(&console, "p1", &[("zhangSAN", 1.0)]).await;
    assert_eq!(console.ask("p1", "wmC001").await["member"], "ZhangSan");
    assert_eq!(
        console.get("/members/zHANGsAN").await.ok()["state"]["load"],
        1
    );
    world.check().await;
}

/// Case 117: ids that look like numbers are text, before and after every script.
#[rstest]
#[case("7459035031717794886")]
#[case("000123")]
#[case("1e5")]
#[case("0x10")]
#[tokio::test]
async fn ids_that_look_like_numbers_stay_text(#[case] id: &str) {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, id, &[(id, 1.0)]).await;
    let decided = console.ask(id, id).await;
    assert_eq!(decided["member"], id);
    assert_eq!(decided["pool"], id);
    world.written().await;
    let row = console
        .get(&format!(
            "/allocations/{}",
            decided["allocation_id"].as_str().unwrap()
        ))
        .await
        .ok();
    assert_eq!((&row["member"], &row["pool"]), (&json!(id), &json!(id)));
    assert_eq!(row["customer"]["external_id"], id);
    assert_eq!(console.get("/presence").await.ok()["data"][0]["member"], id);
}

#[tokio::test]
async fn an_etag_guards_against_overwriting() {
    let world = World::new().await;
    let console = world.operator().await;
    let body = |name: &str| json!({"name": name, "members": []});
    let only_new = ("if-none-match", "*");
    let first = console.put_if("/pools/p1", only_new, body("one")).await;
    assert_eq!(first.status, 201);
    assert_eq!(
        console
            .put_if("/pools/p1", only_new, body("two"))
            .await
            .refused()
            .1,
        "precondition_failed"
    );
    let changed = console
        .put_if("/pools/p1", ("if-match", &first.etag()), body("two"))
        .await;
    assert_eq!(changed.status, 200);
    let late = console
        .put_if("/pools/p1", ("if-match", &first.etag()), body("three"))
        .await;
    assert_eq!(late.refused(), (412, "precondition_failed".to_owned()));
    assert_eq!(late.json()["current"]["etag"], changed.etag());
    assert_eq!(console.get("/pools/p1").await.ok()["name"], "two");
    assert_eq!(
        console
            .put_if("/pools/p2", ("if-match", "*"), body("x"))
            .await
            .status,
        412
    );
    assert_eq!(
        console
            .put_if("/pools/p2", ("if-match", "7"), body("x"))
            .await
            .refused()
            .1,
        "invalid_precondition"
    );
}

/// Twenty consoles change one pool at once, each from what it saw: as many changes as the version says, none lost.
#[tokio::test]
async fn of_writers_who_saw_the_same_one_wins() {
    let world = World::with(2, Default::default()).await;
    let console = world.operator().await;
    console
        .put("/pools/p1", json!({"name": "0", "members": []}))
        .await
        .ok();
    let etag = console.get("/pools/p1").await.etag();
    let key = console.key.clone().unwrap();
    let writers = (0..20).map(|n| {
        let (console, etag) = (world.at(n % 2, &key), etag.clone());
        async move {
            let body = json!({"name": format!("writer {n}"), "members": []});
            console
                .put_if("/pools/p1", ("if-match", &etag), body)
                .await
                .status
                .as_u16()
        }
    });
    let statuses = join_all(writers).await;
    assert_eq!(
        statuses.iter().filter(|status| **status == 200).count(),
        1,
        "{statuses:?}"
    );
    assert_eq!(
        statuses.iter().filter(|status| **status == 412).count(),
        19,
        "{statuses:?}"
    );
    assert_eq!(console.all("/audit?entity=pools/p1").await.len(), 2);
}

/// Case 81: value is no identity; four changes are four entries.
#[tokio::test]
async fn the_audit_tells_every_change() {
    let world = World::new().await;
    let console = world.operator().await;
    for cap in [5, 4, 5, 4] {
        let headers = [
            ("x-reason", "%E6%98%A5%E8%8A%82 plan"),
            ("x-request-id", "req-81"),
        ];
        let body = Some(json!({"cap": cap}));
        console
            .send(reqwest::Method::PUT, "/members/mA", &headers, body)
            .await
            .ok();
    }
    let entries = console.all("/audit?entity=members/ma").await;
    assert_eq!(entries.len(), 4);
    let last = &entries[0];
    assert_eq!(
        (&last["before"]["cap"], &last["after"]["cap"]),
        (&json!(5), &json!(4))
    );
    assert_eq!(
        (&last["reason"], &last["request_id"]),
        (&json!("春节 plan"), &json!("req-81"))
    );
    assert!(last["actor"].as_str().unwrap().starts_with("key:"));
    assert!(entries[3]["before"].is_null());
    assert_eq!(console.get("/members/mA").await.ok()["cap"], 4);
    let view = &world
        .corp_app()
        .roster
        .members(&[allocation::MemberId::new("mA").unwrap()])
        .await
        .unwrap()[0];
    assert_eq!(view.cap, Some(4));
}
