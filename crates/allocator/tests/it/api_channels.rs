//! Channels through the API, and the pools they lead to.

use serde_json::json;

use crate::api_support::{Options, World};

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
