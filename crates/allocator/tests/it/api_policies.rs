//! Versions of pools, drafts, and trying a policy before it is live.

use allocator::api::work;
use ledger::Role;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    api_deliveries::ended,
    api_support::{Answer, Console, World},
};

const LONG_AGO: &str = "2020-01-01T00:00:00Z";

/// A pool p1 of mA and mB, half each, and a third member who is there.
async fn three(world: &World) -> Console {
    let console = world.operator().await;
    world
        .pool(&console, "p1", &[("mA", 1.0), ("mB", 1.0)])
        .await;
    console.put("/members/mC", json!({})).await.ok();
    console.on(&["mC"]).await;
    console
}

fn content(members: &[(&str, f64)]) -> Value {
    let members = members.iter();
    let members = members.map(|(member, weight)| json!({"member": member, "weight": weight}));
    json!({"name": "p1", "members": members.collect::<Value>()})
}

async fn draft(console: &Console, members: &[(&str, f64)]) -> Value {
    let body = json!({"content": content(members), "note": "more"});
    console.post("/pools/p1/drafts", body).await.ok()
}

fn path(draft: &Value, more: &str) -> String {
    format!("/drafts/{}{more}", draft["id"].as_str().unwrap())
}

/// Of the last hour.
pub(crate) fn period(world: &World) -> Value {
    let now_ms = world.app().now_ms();
    let text = |ms: u64| {
        let at = time::OffsetDateTime::from_unix_timestamp((ms / 1000) as i64).unwrap();
        at.format(&time::format_description::well_known::Rfc3339)
            .unwrap()
    };
    json!({"from": text(now_ms - 3_600_000), "until": text(now_ms + 60_000)})
}

/// Runs what was begun, and answers the operation at its end.
async fn simulated(world: &World, console: &Console, begun: &Answer) -> Value {
    assert_eq!(begun.status, 202, "{}", begun.text);
    let stop = CancellationToken::new();
    let turn = work::simulation_turn(world.app(), world.corp_app(), &stop);
    assert!(turn.await.unwrap());
    ended(console, &begun.json()).await
}

#[tokio::test]
async fn every_version_can_be_read_and_come_back() {
    let world = World::new().await;
    let console = three(&world).await;
    let reason = [("x-reason", "autumn")];
    let body = json!({"name": "p1", "load_window_seconds": 60,
        "members": [{"member": "MC", "weight": 2.5, "per_day": 9}]});
    let put = console
        .send(Method::PUT, "/pools/p1", &reason, Some(body.clone()))
        .await;
    assert_eq!(put.etag(), "\"2\"");
    let viewer = world.console(Role::Viewer).await;
    let found = viewer.get("/pools/p1/versions").await.ok();
    let versions = found["data"].as_array().unwrap();
    let told: Vec<_> = versions
        .iter()
        .map(|one| (one["version"].as_u64().unwrap(), one["note"].clone()))
        .collect();
    assert_eq!(told, [(2, json!("autumn")), (1, Value::Null)]);
    assert!(versions[0]["actor"].as_str().unwrap().starts_with("key:"));
    let second = viewer.get("/pools/p1/versions/2").await.ok();
    assert_eq!(second["content"]["load_window_seconds"], 60);
    let member = &second["content"]["members"][0];
    let expected =
        json!({"member": "mC", "weight": 2.5, "cap": null, "per_hour": null, "per_day": 9});
    assert_eq!(*member, expected);

    let back = json!({"version": 1, "note": "it was better"});
    let stale = [("if-match", "\"1\"")];
    let rollback = "/pools/p1/rollback";
    let stale = console
        .send(Method::POST, rollback, &stale, Some(back.clone()))
        .await;
    assert_eq!(stale.refused(), (412, "precondition_failed".to_owned()));
    let now = [("if-match", "\"2\"")];
    let done = console.send(Method::POST, rollback, &now, Some(back)).await;
    assert_eq!(done.etag(), "\"3\"");
    assert_eq!(done.ok()["members"].as_array().unwrap().len(), 2);
    let third = viewer.get("/pools/p1/versions/3").await.ok();
    assert_eq!(third["note"], "it was better");
    let first = viewer.get("/pools/p1/versions/1").await.ok();
    assert_eq!(third["content"], first["content"]);
    // Redis is told.
    let asked = console.ask("p1", "wm1").await;
    assert_eq!(asked["member"], "mA");

    console.delete("/pools/p1").await.ok();
    let found = viewer.get("/pools/p1/versions").await.ok();
    assert_eq!(found["data"][0]["deleted"], true);
    let gone = viewer.get("/pools/p1/versions/4").await.ok();
    assert_eq!(gone["content"], Value::Null);
    for (version, code) in [(4, "deleted_version"), (9, "unknown_version")] {
        let refused = console.post(rollback, json!({"version": version})).await;
        assert_eq!(refused.pointers(), ["/version"]);
        assert_eq!(refused.json()["errors"][0]["code"], code);
    }
    let again = console.post(rollback, json!({"version": 2})).await;
    assert_eq!(
        (again.status.as_u16(), again.etag()),
        (201, "\"5\"".to_owned())
    );
    for path in [
        "/pools/p2/versions",
        "/pools/p1/versions/6",
        "/pools/p1/versions/x",
    ] {
        assert_eq!(viewer.get(path).await.refused().0, 404, "{path}");
    }
    let refused = viewer.post(rollback, json!({"version": 1})).await.refused();
    assert_eq!(refused.0, 403);
}

#[tokio::test]
async fn a_draft_is_written_looked_at_and_published() {
    let world = World::new().await;
    let console = three(&world).await;
    let made = draft(&console, &[("mA", 1.0), ("MC", 2.0)]).await;
    let facts = ["pool", "base_version", "version", "note"].map(|name| made[name].clone());
    assert_eq!(facts, [json!("p1"), json!(1), json!(1), json!("more")]);
    assert_eq!(made["content"]["members"][1]["member"], "mC");
    let viewer = world.console(Role::Viewer).await;
    let listed = viewer.get("/pools/p1/drafts").await.ok();
    assert_eq!(listed["data"][0]["id"], made["id"]);
    assert!(listed["data"][0].get("content").is_none());

    let own = path(&made, "");
    let body = json!({"content": content(&[("mC", 1.0)])});
    let put = console
        .put_if(&own, ("if-match", "\"7\""), body.clone())
        .await;
    assert_eq!(put.refused(), (412, "precondition_failed".to_owned()));
    let put = console.put_if(&own, ("if-match", "\"1\""), body).await;
    assert_eq!(put.etag(), "\"2\"");
    assert_eq!(put.ok()["note"], Value::Null);
    // Nothing follows from it yet.
    assert_eq!(console.ask("p1", "wm1").await["member"], "mA");

    let publish = path(&made, "/publish");
    let refused = viewer.post(&publish, json!({})).await.refused();
    assert_eq!(refused.0, 403);
    let old = [("if-match", "\"1\"")];
    let old = console.send(Method::POST, &publish, &old, None).await;
    assert_eq!(old.refused(), (412, "precondition_failed".to_owned()));
    let now = [("if-match", "\"2\""), ("idempotency-key", "publish-1")];
    let done = console.send(Method::POST, &publish, &now, None).await;
    assert_eq!(done.etag(), "\"2\"");
    assert_eq!(done.ok()["members"][0]["member"], "mC");
    let again = console.send(Method::POST, &publish, &now, None).await;
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(again.text, done.text);
    assert_eq!(console.get(&own).await.refused().0, 404);
    assert_eq!(console.post(&publish, json!({})).await.refused().0, 404);
    assert_eq!(console.ask("p1", "wm2").await["member"], "mC");
    let actions = console.all("/audit?action=draft.publish").await;
    assert_eq!(actions[0]["after"], json!({"pool": "p1", "version": 2}));

    let other = draft(&console, &[("mA", 1.0)]).await;
    let deleted = console.delete(&path(&other, "")).await;
    assert_eq!(deleted.status, 204);
    assert_eq!(console.delete(&path(&other, "")).await.refused().0, 404);
}

#[tokio::test]
async fn what_changed_meanwhile_is_told_before_it_is_overwritten() {
    let world = World::new().await;
    let console = three(&world).await;
    let made = draft(&console, &[("mA", 1.0)]).await;
    let publish = path(&made, "/publish");
    console.put("/pools/p1", content(&[("mB", 1.0)])).await.ok();
    let moved = console.post(&publish, json!({})).await;
    assert_eq!(moved.refused(), (409, "base_moved".to_owned()));
    assert_eq!(moved.json()["current"], json!({"version": 2}));
    let rebased = json!({"content": content(&[("mA", 1.0)]), "base_version": 2});
    let rebased = console.put(&path(&made, ""), rebased).await.ok();
    assert_eq!(rebased["base_version"], 2);
    let done = console.post(&publish, json!({"overwrite": false})).await;
    assert_eq!(done.ok()["version"], 3);

    let made = draft(&console, &[("mC", 1.0)]).await;
    let publish = path(&made, "/publish");
    console.put("/pools/p1", content(&[("mB", 1.0)])).await.ok();
    let done = console.post(&publish, json!({"overwrite": true})).await;
    assert_eq!(done.ok()["version"], 5);

    let made = draft(&console, &[("mA", 1.0)]).await;
    let unknown = draft(&console, &[("mA", 1.0), ("mZ", 1.0)]).await;
    let refused = console.post(&path(&unknown, "/publish"), json!({})).await;
    assert_eq!(refused.refused(), (409, "unknown_members".to_owned()));
    assert_eq!(refused.json()["current"], json!({"members": ["mz"]}));
    console.delete("/pools/p1").await.ok();
    let refused = console.post(&path(&made, "/publish"), json!({})).await;
    assert_eq!(refused.refused(), (409, "pool_deleted".to_owned()));
    let body = json!({"content": content(&[])});
    let refused = console.post("/pools/p1/drafts", body).await;
    assert_eq!(refused.refused().0, 404);
}

#[tokio::test]
async fn a_draft_with_offers_is_not_for_a_public_page() {
    let world = World::new().await;
    let console = three(&world).await;
    let mut asking = content(&[("mA", 1.0)]);
    asking["offers"] = json!({"accept_seconds": 60, "tries": 2});
    let body = json!({"content": asking});
    let made = console.post("/pools/p1/drafts", body).await.ok();
    assert_eq!(made["content"]["offers"], asking["offers"]);
    let visits = json!({"slots_per_member": 1, "hold_seconds": 600});
    let channel = json!({"name": "page", "pool": "p1", "visits": visits});
    console.put("/channels/page", channel).await.ok();
    let found = console.post(&path(&made, "/validate"), json!({})).await;
    let found = found.ok();
    assert_eq!(found["valid"], false);
    let finding = ["pointer", "code"].map(|name| found["findings"][0][name].clone());
    assert_eq!(
        finding,
        [json!("/content/offers"), json!("channel_has_visits")]
    );
    let publish = path(&made, "/publish");
    let refused = console.post(&publish, json!({})).await;
    assert_eq!(refused.refused(), (409, "channel_has_visits".to_owned()));
    assert_eq!(refused.json()["current"], json!({"channels": ["page"]}));
    console.delete("/channels/page").await.ok();
    let done = console.post(&publish, json!({})).await.ok();
    assert_eq!(done["offers"], asking["offers"]);
    let version = console.get("/pools/p1/versions/2").await.ok();
    assert_eq!(version["content"]["offers"], asking["offers"]);
    // Under the policy of before nobody is asked; of the time with offers the answers are those that were given.
    let asked = console.ask("p1", "wm1").await;
    let accept = format!(
        "/allocations/{}/accept",
        asked["allocation_id"].as_str().unwrap()
    );
    world.written().await;
    console
        .post(&accept, json!({"member": "mA", "epoch": 0}))
        .await
        .ok();
    world.written().await;
    let begun = console.post("/pools/p1/simulations", period(&world)).await;
    let done = simulated(&world, &console, &begun).await;
    assert_eq!(done["result"]["differences"], 0, "{done}");
    let before = draft(&console, &[("mB", 1.0)]).await;
    let begun = console
        .post(&path(&before, "/simulations"), period(&world))
        .await;
    let done = simulated(&world, &console, &begun).await;
    let result = &done["result"];
    assert_eq!(result["not_applicable"], 1, "nobody was asked: {result}");
    let of = |index: usize| result["pools"][0]["members"][index]["gain"].clone();
    assert_eq!([of(0), of(1)], [json!(-1), json!(1)], "{result}");
}

/// Case 56: weights of 0 only are told, and taken.
#[tokio::test]
async fn what_is_wrong_with_a_draft_is_found_before_it_is_published() {
    let world = World::new().await;
    let console = three(&world).await;
    let never = json!({"name": "never", "zone": "Asia/Shanghai", "weekly": []});
    console.put("/schedules/never", never).await.ok();
    let found = |draft: Value| {
        let console = console.clone();
        async move {
            let found = console.post(&path(&draft, "/validate"), json!({})).await;
            let found = found.ok();
            let findings = found["findings"].as_array().unwrap().iter();
            let told = findings.map(|one| {
                let text = |name: &str| one[name].as_str().unwrap().to_owned();
                (text("level"), text("pointer"), text("code"))
            });
            (found["valid"].as_bool().unwrap(), told.collect::<Vec<_>>())
        }
    };
    let told = |level: &str, pointer: &str, code: &str| {
        (level.to_owned(), pointer.to_owned(), code.to_owned())
    };
    let good = draft(&console, &[("mA", 3.0), ("mB", 1.0)]).await;
    assert_eq!(found(good).await, (true, vec![]));
    let same = draft(&console, &[("mA", 1.0), ("mB", 1.0)]).await;
    let unchanged = told("warning", "/content", "unchanged");
    assert_eq!(found(same).await, (true, vec![unchanged]));
    let nobody = draft(&console, &[]).await;
    let empty = told("warning", "/content/members", "no_members");
    assert_eq!(found(nobody).await, (true, vec![empty]));

    let all_zero = draft(&console, &[("mA", 0.0)]).await;
    let (valid, findings) = found(all_zero).await;
    assert!(valid);
    let codes: Vec<&str> = findings.iter().map(|one| one.2.as_str()).collect();
    assert_eq!(codes, ["all_weights_zero", "nobody_works"]);

    console
        .put("/members/mA", json!({"blocked": "holiday"}))
        .await
        .ok();
    console
        .put("/members/mB", json!({"schedule": "never"}))
        .await
        .ok();
    console.put("/members/mC", json!({"cap": 0})).await.ok();
    let body = json!({"content": {"name": "p1", "members": [
        {"member": "mA", "weight": 1}, {"member": "mB", "weight": 1},
        {"member": "mC", "weight": 1, "per_hour": 0}, {"member": "mZ", "weight": 1}]}});
    let made = console.post("/pools/p1/drafts", body).await.ok();
    console.put("/pools/p1", content(&[])).await.ok();
    let (valid, findings) = found(made.clone()).await;
    assert!(!valid);
    let expected = [
        told("error", "/base_version", "base_moved"),
        told("error", "/content/members/3/member", "unknown_member"),
        told("warning", "/content/members/0/member", "member_blocked"),
        told("warning", "/content/members/1/member", "never_opens"),
        told("warning", "/content/members/2/cap", "limit_zero"),
        told("warning", "/content/members/2/per_hour", "limit_zero"),
        told("warning", "/content/members", "nobody_works"),
    ];
    assert_eq!(findings, expected);
    console.delete("/pools/p1").await.ok();
    let (_, findings) = found(made).await;
    assert_eq!(findings[0], told("error", "", "pool_deleted"));
}

/// Case 133.
#[tokio::test]
async fn drafts_that_cannot_be_are_refused() {
    let world = World::new().await;
    let console = three(&world).await;
    let many: Vec<Value> = (1..=17)
        .map(|n| json!({"member": format!("m{n}"), "weight": n}))
        .collect();
    let many = json!({"content": {"name": "p1", "members": many}});
    let many = console.post("/pools/p1/drafts", many).await.ok();
    let found = console.post(&path(&many, "/validate"), json!({})).await;
    assert_eq!(found.ok()["findings"][0]["code"], "too_many_weights");
    let body = period(&world);
    for (more, body) in [
        ("/publish", json!({})),
        ("/simulations", body),
        ("/decide", json!({})),
    ] {
        let refused = console.post(&path(&many, more), body).await;
        assert_eq!(
            refused.refused(),
            (409, "too_many_weights".to_owned()),
            "{more}"
        );
    }
    for (body, pointer) in [
        (
            json!({"content": {"name": " ", "members": []}}),
            "/content/name",
        ),
        (
            json!({"content": {"name": "x", "members": [{"member": "a", "weight": -1}]}}),
            "/content/members/0/weight",
        ),
        (
            json!({"content": {"name": "x", "members": [{"member": "a", "weight": 1}, {"member": "A", "weight": 1}]}}),
            "/content/members/1/member",
        ),
        (
            json!({"content": {"name": "x", "members": [{"member": "a", "weight": 1, "cap": 1_000_001}]}}),
            "/content/members/0/cap",
        ),
        (
            json!({"content": content(&[]), "note": "x".repeat(201)}),
            "/note",
        ),
        (
            json!({"content": content(&[]), "base_version": 0}),
            "/base_version",
        ),
        (
            json!({"content": content(&[]), "base_version": 2}),
            "/base_version",
        ),
        (json!({"content": content(&[]), "colour": "red"}), "/colour"),
        (json!({"note": "x"}), "/content"),
    ] {
        let refused = console.post("/pools/p1/drafts", body.clone()).await;
        assert_eq!(refused.pointers(), [pointer], "{body}");
        let refused = console.put(&path(&many, ""), body.clone()).await;
        assert_eq!(refused.pointers(), [pointer], "{body}");
    }
    let member = world.member_key("mA").await;
    for path in ["/pools/p1/drafts", "/pools/p1/versions"] {
        assert_eq!(member.get(path).await.refused().0, 403, "{path}");
    }
    let strange = "/drafts/01920000-0000-7000-8000-000000000001";
    for path in [strange, "/drafts/x"] {
        assert_eq!(console.get(path).await.refused().0, 404, "{path}");
        let body = json!({"content": content(&[])});
        assert_eq!(console.put(path, body).await.refused().0, 404, "{path}");
    }
}

#[tokio::test]
async fn a_period_is_run_again_as_it_was_and_under_a_draft() {
    let world = World::new().await;
    let console = three(&world).await;
    for n in 0..40 {
        console.ask("p1", &format!("wm{n}")).await;
    }
    world.written().await;
    let begun = console.post("/pools/p1/simulations", period(&world)).await;
    assert!(
        begun
            .header("location")
            .ends_with(begun.json()["id"].as_str().unwrap())
    );
    assert_eq!(begun.json()["result"], Value::Null);
    let done = simulated(&world, &console, &begun).await;
    let facts = ["state", "kind"].map(|name| done[name].clone());
    assert_eq!(facts, [json!("done"), json!("pools.simulate")]);
    assert_eq!(done["done"], done["total"]);
    let result = &done["result"];
    assert_eq!(result["differences"], 0, "{result}");
    assert_eq!(
        (&result["inputs"], &result["draft"]),
        (&json!(40), &Value::Null)
    );
    assert_eq!(
        result["pools"][0]["recorded"],
        result["pools"][0]["simulated"]
    );

    let doubled = draft(&console, &[("mA", 2.0), ("mB", 1.0)]).await;
    let begun = console
        .post(&path(&doubled, "/simulations"), period(&world))
        .await;
    let done = simulated(&world, &console, &begun).await;
    let result = &done["result"];
    assert_eq!(result["draft"], doubled["id"]);
    assert!(result["differences"].as_u64().unwrap() > 0);
    assert_eq!(result["skipped"], 1, "the entry that put the pool");
    let [pool] = &result["pools"].as_array().unwrap()[..] else {
        panic!("{result}")
    };
    assert_eq!(
        (&pool["pool"], &pool["simulated"]["decided"]),
        (&json!("p1"), &json!(40))
    );
    assert_eq!(pool["simulated"]["waiting"], 0);
    let gains: Vec<_> = pool["members"].as_array().unwrap().iter().collect();
    let of = |index: usize| {
        let names = ["member", "recorded", "simulated", "gain"];
        names.map(|name| gains[index][name].clone())
    };
    let gained = of(0)[3].as_i64().unwrap();
    assert!((6..=7).contains(&gained), "{pool}");
    assert_eq!(
        of(0),
        [json!("mA"), json!(20), json!(20 + gained), json!(gained)]
    );
    assert_eq!(
        of(1),
        [json!("mB"), json!(20), json!(20 - gained), json!(-gained)]
    );

    // One customer each at a time: the others would have waited.
    let capped = json!({"content": {"name": "p1", "members": [
        {"member": "mA", "weight": 1, "cap": 1}, {"member": "mB", "weight": 1, "cap": 1}]}});
    let capped = console.post("/pools/p1/drafts", capped).await.ok();
    let begun = console
        .post(&path(&capped, "/simulations"), period(&world))
        .await;
    let done = simulated(&world, &console, &begun).await;
    let side = &done["result"]["pools"][0]["simulated"];
    assert_eq!(
        (&side["decided"], &side["waiting"]),
        (&json!(2), &json!(38))
    );
    assert_eq!(side["limits_reached"], json!({"pool_cap": 2}));

    // The others would have come to another pool as soon as there was one.
    world.pool(&console, "p2", &[("mC", 1.0)]).await;
    world.written().await;
    let mut falls_back = capped["content"].clone();
    falls_back["fallbacks"] = json!([{"pool": "p2", "after_seconds": 0}]);
    let falls_back = json!({"content": falls_back});
    let falls_back = console.post("/pools/p1/drafts", falls_back).await.ok();
    let begun = console
        .post(&path(&falls_back, "/simulations"), period(&world))
        .await;
    let done = simulated(&world, &console, &begun).await;
    let pools = done["result"]["pools"].as_array().unwrap();
    let side = &pools[0]["simulated"];
    assert_eq!(
        (&side["decided"], &side["waiting"], &side["waited"]),
        (&json!(40), &json!(0), &json!(38)),
        "{pools:?}"
    );
    let mut gains = pools[0]["members"].as_array().unwrap().iter();
    let of_c = gains.find(|one| one["member"] == "mC").unwrap();
    assert_eq!(of_c["gain"], 38);
    // Nothing of it happened.
    assert!(console.ask("p1", "wm40").await["member"].is_string());
    assert_eq!(console.get("/pools/p1").await.ok()["version"], 1);
    world.check().await;
}

#[tokio::test]
async fn one_simulation_at_a_time_that_can_be_cancelled_and_may_fail() {
    let world = World::new().await;
    let console = three(&world).await;
    console.ask("p1", "wm1").await;
    world.written().await;
    let first = console.post("/pools/p1/simulations", period(&world)).await;
    let refused = console.post("/pools/p1/simulations", period(&world)).await;
    assert_eq!(refused.refused(), (409, "simulation_running".to_owned()));
    let cancel = format!(
        "/operations/{}/cancel",
        first.json()["id"].as_str().unwrap()
    );
    console.post(&cancel, json!({})).await.ok();
    let done = simulated(&world, &console, &first).await;
    assert_eq!(done["state"], "cancelled");
    assert_eq!(done["result"], Value::Null);

    let made = draft(&console, &[("mA", 1.0)]).await;
    let begun = console
        .post(&path(&made, "/simulations"), period(&world))
        .await;
    let body = json!({"content": content(&[("mB", 1.0)])});
    console.put(&path(&made, ""), body).await.ok();
    let done = simulated(&world, &console, &begun).await;
    assert_eq!(done["state"], "failed");
    let problem = done["first_errors"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("draft was changed"), "{problem}");

    for (from, until, pointer) in [
        ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", "/until"),
        (LONG_AGO, "2020-06-01T00:00:00Z", "/until"),
        ("2999-01-01T00:00:00Z", "2999-01-02T00:00:00Z", "/until"),
        ("yesterday", "2020-01-02T00:00:00Z", "/from"),
    ] {
        let body = json!({"from": from, "until": until});
        let refused = console.post("/pools/p1/simulations", body).await;
        assert_eq!(refused.pointers(), [pointer], "{from}");
    }
    let nothing = json!({"from": LONG_AGO, "until": "2020-01-02T00:00:00Z"});
    let begun = console.post("/pools/p1/simulations", nothing).await;
    let done = simulated(&world, &console, &begun).await;
    assert_eq!(done["result"]["entries"], 0);
    let viewer = world.console(Role::Viewer).await;
    let refused = viewer
        .post("/pools/p1/simulations", period(&world))
        .await
        .refused();
    assert_eq!(refused.0, 403);
    let refused = console
        .post("/pools/p2/simulations", period(&world))
        .await
        .refused();
    assert_eq!(refused.0, 404);

    // A log with a gap gives no result, and says where.
    sqlx::raw_sql("DELETE FROM log WHERE seq = 3")
        .execute(&mut world.database.connect().await)
        .await
        .unwrap();
    let begun = console.post("/pools/p1/simulations", period(&world)).await;
    let done = simulated(&world, &console, &begun).await;
    assert_eq!(done["state"], "failed");
    let problem = done["first_errors"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("log entry 3"), "{problem}");
}

#[tokio::test]
async fn one_customer_can_be_tried() {
    let world = World::new().await;
    let console = three(&world).await;
    console.ask("p1", "wm1").await;
    world.written().await;
    let before = world.corp_app().roster.status().await.unwrap().seq;
    let made = draft(&console, &[("mA", 0.0), ("mC", 1.0)]).await;
    let tried = console.post(&path(&made, "/decide"), json!({})).await.ok();
    assert_eq!(tried["member"], "mC");
    let explanation = &tried["explanation"];
    assert_eq!(
        (&explanation["pool"], &explanation["policy"]),
        (&json!("p1"), &Value::Null)
    );
    let filters: Vec<_> = explanation["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["member"].clone(), one["filter"].clone()))
        .collect();
    let expected = [
        (json!("mA"), json!("weight_zero")),
        (json!("mC"), Value::Null),
    ];
    assert_eq!(filters, expected);
    // Of two who are next the one who is preferred, if he can do it.
    let two = draft(&console, &[("mA", 1.0), ("mC", 1.0)]).await;
    for member in ["mA", "mC"] {
        let wanted = json!({"prefer": member});
        let tried = console.post(&path(&two, "/decide"), wanted).await.ok();
        assert_eq!(tried["member"], member);
        assert_eq!(tried["explanation"]["rules"], json!(["asked_for"]));
    }
    let wanted = json!({"prefer": "mC", "needs": ["vip"]});
    let tried = console.post(&path(&two, "/decide"), wanted).await.ok();
    assert_eq!(tried["member"], Value::Null);
    assert_eq!(tried["explanation"]["needs"], json!(["vip"]));
    let wrong = json!({"prefer": "", "needs": ["no skill"]});
    let refused = console.post(&path(&two, "/decide"), wrong).await.refused();
    assert_eq!(refused.0, 422);
    let nobody = draft(&console, &[("mA", 0.0)]).await;
    let tried = console
        .post(&path(&nobody, "/decide"), json!({}))
        .await
        .ok();
    assert_eq!(tried["member"], Value::Null);
    assert_eq!(tried["explanation"]["waits"]["why"], "nobody_free");
    let after = world.corp_app().roster.status().await.unwrap().seq;
    assert_eq!(before, after);
}
