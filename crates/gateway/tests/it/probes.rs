//! What runs, what is ready, what is counted.

use crate::harness::{App, Setup, get, setup::event, wait_until};

/// Case 134: without Redis the process is alive and not ready, and both come back by themselves.
#[tokio::test]
async fn redis_gone_is_not_ready_but_alive() {
    let redis = test_redis::Server::start(test_redis::Options::default());
    let app = App::new();
    let gateway = Setup::new(&redis.url())
        .set("STORE__PROBE_MS", 20)
        .set("REDIS__CONNECT_TIMEOUT_MS", 200)
        .endpoint("sales", &app)
        .start()
        .await;
    let ready = async || get(gateway.admin, "/readyz").await.status == 200;
    wait_until("ready", ready).await;
    redis.kill();
    wait_until("not ready", async || !ready().await).await;
    let report = get(gateway.admin, "/readyz").await;
    assert_eq!(report.status, 503);
    let problems: serde_json::Value = serde_json::from_slice(&report.body).unwrap();
    assert_eq!(problems["problems"][0]["part"], "store");
    assert_eq!(problems["problems"][0]["id"], app.corp.as_str());
    assert_eq!(get(gateway.admin, "/livez").await.status, 200);
    redis.restart();
    wait_until("ready again", ready).await;
    assert_eq!(
        gateway.send("sales", &app.seal("<xml/>", "n")).await.status,
        200
    );
    gateway.finish().await.unwrap();
}

/// A Redis that answers and takes nothing is found out without a callback.
#[tokio::test]
async fn a_store_that_refuses_writes_is_not_ready() {
    let redis = test_redis::Server::start(test_redis::Options::default());
    let app = App::new();
    let gateway = Setup::new(&redis.url())
        .set("STORE__PROBE_MS", 20)
        .set("INBOX__MAX_LENGTH", 2)
        .endpoint("sales", &app)
        .start()
        .await;
    let ready = async || get(gateway.admin, "/readyz").await.status == 200;
    wait_until("ready", ready).await;
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    wait_until("out of memory", async || !ready().await).await;
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    wait_until("ready again", ready).await;
    redis.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    wait_until("read-only", async || !ready().await).await;
    redis.cli(&["REPLICAOF", "NO", "ONE"]);
    wait_until("ready again", ready).await;
    for customer in ["wm1", "wm2"] {
        assert_eq!(
            gateway
                .send("sales", &app.seal(&event(&app.corp, customer), "n"))
                .await
                .status,
            200
        );
    }
    wait_until("full", async || !ready().await).await;
    assert!(get(gateway.admin, "/readyz").await.text().contains("full"));
    assert_eq!(
        gateway
            .send("sales", &app.seal(&event(&app.corp, "wm3"), "n"))
            .await
            .status,
        503
    );
    // What it has it still acknowledges.
    assert_eq!(
        gateway
            .send("sales", &app.seal(&event(&app.corp, "wm1"), "n"))
            .await
            .status,
        200
    );
    gateway.finish().await.unwrap();
}

#[tokio::test]
async fn metrics_are_there_before_anything_happened() {
    let gateway = Setup::new(&test_redis::shared().url())
        .endpoint("sales", &App::new())
        .start()
        .await;
    let reply = get(gateway.admin, "/metrics").await;
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    for line in [
        "gateway_received_total{endpoint=\"sales\"} 0",
        "gateway_stored_total{endpoint=\"sales\"} 0",
        "gateway_duplicate_total{endpoint=\"sales\"} 0",
        "gateway_reloads_total{result=\"refused\"} 0",
        "gateway_endpoints{state=\"live\"} 1",
        "# TYPE gateway_acknowledgement_seconds histogram",
    ] {
        assert!(reply.text().contains(line), "{line}:\n{}", reply.text());
    }
    gateway.finish().await.unwrap();
}
