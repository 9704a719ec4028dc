//! Channels through the API, and the pools they lead to.

use std::{collections::BTreeMap, sync::Arc};

use allocator::{people, reception::slots};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    api_support::{Options, World},
    log_lost::eventually,
};

#[tokio::test]
async fn a_channel_keeps_every_state_it_ever_had() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    let channel = |states: &[&str]| json!({"name": "Poster", "pool": "p1", "states": states});
    console
        .put("/channels/c1", channel(&["ch_001", "ch_002"]))
        .await
        .ok();
    let changed = console
        .put("/channels/c1", channel(&["ch_003", "ch_001"]))
        .await
        .ok();
    assert_eq!(changed["states"], json!(["ch_003", "ch_001"]));
    assert_eq!(changed["retired_states"], json!(["ch_002"]));
    let routes = world.corp_app().routes();
    for state in ["ch_001", "ch_002", "ch_003"] {
        assert!(routes.by_state.contains_key(state), "{state}");
    }
    // Another channel cannot take it, retired or not.
    let taken = console.put("/channels/c2", channel(&["ch_002"])).await;
    assert_eq!(taken.refused(), (409, "state_taken".to_owned()));
    assert_eq!(taken.json()["current"]["channel"], "c1");
    // When the channel goes, its States are free.
    assert_eq!(console.delete("/channels/c1").await.status, 204);
    assert!(world.corp_app().routes().by_state.is_empty());
    assert_eq!(
        console.put("/channels/c2", channel(&["ch_002"])).await.ok()["states"],
        json!(["ch_002"])
    );
}

#[tokio::test]
async fn a_channel_needs_a_pool_and_sane_fields() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    let welcome = |text: &str| json!({"name": "x", "pool": "p1", "welcome": {"text": text}});
    for (body, pointer) in [
        (json!({"name": "x", "pool": "p9"}), "/pool"),
        (
            json!({"name": "x", "pool": "p1", "states": ["pw.abcdefgh2345"]}),
            "/states/0",
        ),
        (
            json!({"name": "x", "pool": "p1", "states": ["a", "a"]}),
            "/states/1",
        ),
        (
            json!({"name": "x", "pool": "p1", "states": [""]}),
            "/states/0",
        ),
        (
            json!({"name": "x", "pool": "p1", "states": ["你".repeat(22)]}),
            "/states/0",
        ),
        (
            json!({"name": "x", "pool": "p1", "welcome": {}}),
            "/welcome",
        ),
        (
            json!({"name": "x", "pool": "p1", "welcome": {"txet": "hi"}}),
            "/welcome/txet",
        ),
        // Case 130: over 4,000 bytes is refused with the field and the limit, never cut.
        (welcome(&"😀".repeat(1001)), "/welcome/text"),
    ] {
        assert_eq!(
            console.put("/channels/c1", body.clone()).await.pointers(),
            [pointer],
            "{body}"
        );
    }
    let longest = "😀".repeat(1000);
    let kept = console.put("/channels/c1", welcome(&longest)).await.ok();
    assert_eq!(kept["welcome"]["text"], longest);
    assert_eq!(console.get("/channels/c1").await.ok(), kept);
    let channel = allocation::ChannelId::new("c1").unwrap();
    let routes = world.corp_app().routes();
    assert_eq!(
        routes.channels[&channel]
            .welcome
            .as_ref()
            .unwrap()
            .text
            .as_deref(),
        Some(longest.as_str())
    );
}

#[tokio::test]
async fn a_pool_that_channels_lead_to_stays() {
    let world = World::with(
        1,
        Options {
            corp: "default_pool = \"p2\"".into(),
            ..Default::default()
        },
    )
    .await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    world.pool(&console, "p2", &[("mA", 1.0)]).await;
    for channel in ["c1", "c2"] {
        console
            .put(
                &format!("/channels/{channel}"),
                json!({"name": "x", "pool": "p1"}),
            )
            .await
            .ok();
    }
    let refused = console.delete("/pools/p1").await;
    assert_eq!(refused.refused(), (409, "pool_in_use".to_owned()));
    assert_eq!(refused.json()["current"]["channels"], json!(["c1", "c2"]));
    assert_eq!(
        console.delete("/pools/p2").await.refused(),
        (409, "pool_in_use".to_owned())
    );
    console
        .put("/channels/c1", json!({"name": "x", "pool": "p2"}))
        .await
        .ok();
    console.delete("/channels/c2").await.ok();
    assert_eq!(console.delete("/pools/p1").await.status, 204);
    assert_eq!(console.ask("p2", "wmC001").await["member"], "mA");
    let body = json!({"subject": {"kind": "wecom", "id": "wmC002"}, "pool": "p1"});
    assert_eq!(
        console.post("/allocations", body).await.pointers(),
        ["/pool"]
    );
}

#[tokio::test]
async fn a_public_page_keeps_its_code() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    let visits = json!({"slots_per_member": 5, "hold_seconds": 600, "title": " 春季 Spring "});
    let with = |visits: serde_json::Value| json!({"name": "x", "pool": "p1", "visits": visits});
    let off = console.put("/channels/c1", with(json!(null))).await.ok();
    for field in ["visits", "public_code", "public_url"] {
        assert!(off[field].is_null(), "{field}: {off}");
    }
    let on = console.put("/channels/c1", with(visits)).await.ok();
    assert_eq!(on["visits"]["title"], "春季 Spring");
    let code = on["public_code"].as_str().unwrap().to_owned();
    assert!(
        code.len() >= 16 && code.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "{code}"
    );
    assert_eq!(on["public_url"], format!("/c/{code}"));
    assert_eq!(console.get("/channels/c1").await.ok(), on);
    let routes = world.corp_app().routes();
    let (id, channel) = routes.by_public_code(&code).unwrap();
    assert_eq!(id.as_str(), "c1");
    assert_eq!(channel.visits.as_ref().unwrap().hold_ms, 600_000);

    // Off and on again: the address that was printed is good again.
    let off = console.put("/channels/c1", with(json!(null))).await.ok();
    assert_eq!(
        (off["public_code"].as_str(), &off["public_url"]),
        (Some(&*code), &json!(null))
    );
    let routes = world.corp_app().routes();
    assert!(routes.by_public_code(&code).unwrap().1.visits.is_none());
    let least = json!({"slots_per_member": 0, "hold_seconds": 30});
    let on = console.put("/channels/c1", with(least)).await.ok();
    assert_eq!(
        (on["public_code"].as_str(), &on["visits"]["title"]),
        (Some(&*code), &json!(""))
    );
    // Nobody else's is the same.
    let most = json!({"slots_per_member": 1000, "hold_seconds": 86400, "title": "你".repeat(60)});
    let other = console.put("/channels/c2", with(most)).await.ok();
    assert_ne!(other["public_code"], on["public_code"]);
    console.delete("/channels/c1").await.ok();
    assert!(world.corp_app().routes().by_public_code(&code).is_none());
    // Printed codes outlive that, too.
    let visits = json!({"slots_per_member": 0, "hold_seconds": 30});
    let again = console.put("/channels/c1", with(visits)).await.ok();
    assert_eq!(again["public_code"].as_str(), Some(&*code));
}

#[tokio::test]
async fn a_public_page_is_where_it_is_served() {
    let public = "[public]\nlisten = '127.0.0.1:0'\nbase_url = 'https://go.example.com/'\ncookie_key = 'env:KEY'";
    let options = Options {
        config: public.to_owned(),
        ..Options::default()
    };
    let world = World::with(1, options).await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    let visits = json!({"slots_per_member": 5, "hold_seconds": 600});
    let channel = json!({"name": "x", "pool": "p1", "visits": visits});
    let put = console.put("/channels/c1", channel).await.ok();
    let code = put["public_code"].as_str().unwrap();
    assert_eq!(
        put["public_url"],
        format!("https://go.example.com/c/{code}")
    );
    assert_eq!(console.get("/channels/c1").await.ok(), put);
    let list = console.get("/channels").await.ok();
    assert_eq!(list["data"][0]["public_url"], put["public_url"]);
}

#[tokio::test]
async fn a_public_page_has_sane_fields() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    for (visits, pointers) in [
        (
            json!({"slots_per_member": 1001, "hold_seconds": 29}),
            vec!["/visits/slots_per_member", "/visits/hold_seconds"],
        ),
        (
            json!({"slots_per_member": 1, "hold_seconds": 86401}),
            vec!["/visits/hold_seconds"],
        ),
        (
            json!({"slots_per_member": -1, "hold_seconds": 60}),
            vec!["/visits/slots_per_member"],
        ),
        (
            json!({"hold_seconds": 60}),
            vec!["/visits/slots_per_member"],
        ),
        (json!({"slots_per_member": 1}), vec!["/visits/hold_seconds"]),
        (
            json!({"slots_per_member": 1, "hold_seconds": 60, "title": "x".repeat(61)}),
            vec!["/visits/title"],
        ),
        (
            json!({"slots_per_member": 1, "hold_seconds": 60, "title": "a\nb"}),
            vec!["/visits/title"],
        ),
        (
            json!({"slots_per_member": 1, "hold_seconds": 60, "code": "x"}),
            vec!["/visits/code"],
        ),
        (json!(true), vec!["/visits"]),
    ] {
        let body = json!({"name": "x", "pool": "p1", "visits": visits});
        let refused = console.put("/channels/c1", body.clone()).await;
        assert_eq!(refused.pointers(), pointers, "{body}");
    }
}

/// Who has how many contact ways for a channel, and why one is not there.
#[tokio::test]
async fn the_contact_ways_of_a_channel_are_told() {
    let world = World::new().await;
    let console = world.operator().await;
    world
        .pool(&console, "p1", &[("mA", 1.0), ("mB", 1.0)])
        .await;
    let visits = json!({"slots_per_member": 2, "hold_seconds": 600});
    let channel = json!({"name": "x", "pool": "p1", "visits": visits});
    console.put("/channels/c1", channel).await.ok();
    let list = "/channels/c1/contact-ways";
    assert_eq!(console.get(list).await.ok()["data"], json!([]));
    assert_eq!(console.get("/channels/c9/contact-ways").await.status, 404);
    let limits = ledger::PlanLimits {
        ways: 100,
        batch: 100,
        rest_ms: 1_000,
    };
    let ways = world.app().ledger.contact_ways();
    let now_ms = world.app().now_ms();
    ways.plan(&world.corp, limits, now_ms).await.unwrap();
    let asked = ways.ask_next(&world.corp, 60_000, now_ms).await.unwrap();
    let asked = asked.unwrap();
    let refusal = ledger::Refusal {
        errcode: Some(41054),
        error: "refused".to_owned(),
        next_try_ms: now_ms + 1_000,
        fails: true,
        ..ledger::Refusal::default()
    };
    ways.refused(&world.corp, &asked.way, asked.attempt, &refusal)
        .await
        .unwrap();
    let told = console.get(list).await.ok();
    let members: Vec<&str> = told["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["member"].as_str().unwrap())
        .collect();
    assert_eq!(members, ["mA", "mB"]);
    let failed = told["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["failed"] == 1)
        .unwrap();
    assert_eq!(
        (&failed["coming"], &failed["errcode"], &failed["problem"]),
        (&json!(2), &json!(41054), &json!("refused"))
    );
    assert_eq!(failed["plain_ready"], false);
    assert!(failed["next_try_at"].is_string());
}

/// WeCom has no room for more ways: who has none is passed over, one who has not even a row too, and each is told.
#[tokio::test]
async fn whom_visits_pass_over_is_told() {
    let world = World::new().await;
    let console = world.operator().await;
    let two = [("mA", 1.0), ("mB", 1.0)];
    world.pool(&console, "p1", &two).await;
    let visits = json!({"slots_per_member": 0, "hold_seconds": 600});
    let channel = json!({"name": "x", "pool": "p1", "visits": visits});
    console.put("/channels/c1", channel).await.ok();
    let limits = ledger::PlanLimits {
        ways: 100,
        batch: 100,
        rest_ms: 1_000,
    };
    let ways = world.app().ledger.contact_ways();
    let now_ms = world.app().now_ms();
    ways.plan(&world.corp, limits, now_ms).await.unwrap();
    let ask = async || {
        let asked = ways.ask_next(&world.corp, 60_000, now_ms).await.unwrap();
        asked.unwrap()
    };
    let (made, full) = (ask().await, ask().await);
    ways.made(&world.corp, &made.way, 1, "cfg", None, now_ms)
        .await
        .unwrap();
    ways.pictured(
        &world.corp,
        &made.way,
        "http://qr",
        b"png",
        "image/png",
        now_ms,
    )
    .await
    .unwrap();
    let refusal = ledger::Refusal {
        errcode: Some(41045),
        error: "as many as are allowed".to_owned(),
        next_try_ms: now_ms + 3_600_000,
        pauses_corp: true,
        passes_over: Some(ledger::Refused::Corp),
        ..ledger::Refusal::default()
    };
    ways.refused(&world.corp, &full.way, 1, &refusal)
        .await
        .unwrap();
    let three = [("mA", 1.0), ("mB", 1.0), ("mC", 1.0)];
    world.pool(&console, "p1", &three).await;
    let corp = world.corp_app();
    people::refresh(world.app(), corp).await.unwrap();
    let stop = CancellationToken::new();
    let slots = slots::run(Arc::clone(world.app()), Arc::clone(corp), stop.clone());
    let slots = tokio::spawn(slots);
    let told = eventually("it is told", async || {
        let told = console.get("/channels/c1/contact-ways").await.ok();
        let all = told["data"].as_array().unwrap().iter();
        let all = all.map(|one| (one["member"].to_string(), one["passed_over"].clone()));
        let all: BTreeMap<_, _> = all.collect();
        (all.len() == 3).then_some(all)
    })
    .await;
    let is_made = |name: &str| made.userid == name;
    for name in ["mA", "mB", "mC"] {
        assert_eq!(told[&format!("\"{name}\"")], !is_made(name), "{told:?}");
    }
    stop.cancel();
    slots.await.unwrap();
}
