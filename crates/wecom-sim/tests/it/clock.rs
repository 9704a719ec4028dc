//! Virtual and real time (api.md 14).

use std::time::{Duration, Instant};

use serde_json::json;
use wecom_sim::{ClockMode, ScanRequest};

use crate::harness::{CORP, Client, config, with_gateway};

#[tokio::test]
async fn virtual_time_stands_until_moved() {
    let client = Client::start(config()).await;
    assert_eq!(client.sim.now_ms(), 1_792_000_000_000);
    client.befriend("mA", "wm1");
    let (status, clock) = client
        .admin(
            "POST",
            "/sim/clock",
            json!({"advance_ms": 1_500, "wait": true}),
        )
        .await;
    assert_eq!(
        (status, &clock["now_ms"], &clock["mode"]),
        (200, &json!(1_792_000_001_500_i64), &json!("virtual"))
    );
    let (status, answer) = client
        .admin("POST", "/sim/clock", json!({"now_ms": 5}))
        .await;
    assert!(
        status == 400
            && answer["error"]
                .as_str()
                .unwrap()
                .contains("only moves forward")
    );
    let (status, _) = client
        .admin("POST", "/sim/clock", json!({"now_ms": 5, "advance_ms": 5}))
        .await;
    assert_eq!(status, 400);
}

/// What falls due on the way happens at its own time, in order.
#[tokio::test]
async fn things_happen_at_their_own_time() {
    let (client, gateway) = with_gateway(config()).await;
    for member in ["mA", "mB"] {
        let request = ScanRequest {
            half: Some(true),
            ..ScanRequest::member(member, "s")
        };
        client.sim.scan(&request).unwrap();
        client.sim.advance(Duration::from_millis(400)).await;
    }
    assert_eq!(client.sim.clock().scheduled, 2);
    client.sim.advance(Duration::from_secs(86_400)).await;
    client.sim.idle().await;
    let mut times: Vec<_> = gateway
        .received()
        .iter()
        .filter(|event| event.change() == "add_external_contact")
        .map(|event| event.field("CreateTime").unwrap().to_owned())
        .collect();
    times.sort();
    assert_eq!(
        times,
        ["1792000001", "1792000001"],
        "1.0 s and 1.4 s after the start"
    );
}

/// A day passes in a fraction of a second.
#[tokio::test]
async fn real_time_with_a_speed() {
    let mut config = config();
    config.clock.mode = ClockMode::Real;
    config.clock.speed = 1_000_000.0;
    // Two hours pass in 7 ms, which a busy machine takes for one call.
    config.tokens.life_s = 1_000_000_000;
    config.limits.enabled = false;
    let client = Client::start(config).await;
    client.befriend("mA", "wm1");
    let started = Instant::now();
    assert_eq!(client.transfer_one("mA", "mB", "wm1").await, 0);
    while client.sim.counters().corps[CORP].transfers.get("done") != Some(&1) {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "86.4 ms were enough"
        );
        tokio::task::yield_now().await;
    }
    assert!(started.elapsed() >= Duration::from_millis(86));
    assert!(
        client.sim.config().clock.start_ms.is_none() && client.sim.now_ms() > 1_792_000_000_000
    );
}

#[tokio::test]
async fn the_clock_cannot_be_configured_later() {
    let client = Client::start(config()).await;
    let error = client
        .sim
        .patch_config(&json!({"clock": {"speed": 2.0}}))
        .unwrap_err()
        .to_string();
    assert!(error.contains("POST /sim/clock"), "{error}");
}
