//! Redis slow, silent, gone, full, read-only: 200 means stored, and everything else is 503 in time.

use std::time::{Duration, Instant};

use test_redis::{AppendOnly, Options, Proxy, Server};

use crate::harness::{App, Running, Setup, setup::event, stored, wait_until};

/// Small enough for a test, large enough for a busy machine to store something in.
const TIMEOUT_MS: u64 = 600;

async fn start(url: &str, app: &App) -> Running {
    Setup::new(url)
        .set("STORE__TIMEOUT_MS", TIMEOUT_MS)
        .set("REDIS__RESPONSE_TIMEOUT_MS", 200)
        .set("REDIS__CONNECT_TIMEOUT_MS", 200)
        .endpoint("sales", app)
        .start()
        .await
}

/// The status of one callback, and how long it took.
async fn send(gateway: &Running, app: &App, customer: &str) -> (u16, Duration) {
    let begun = Instant::now();
    let reply = gateway
        .send("sales", &app.seal(&event(&app.corp, customer), "n"))
        .await;
    assert!(reply.body.is_empty());
    (reply.status, begun.elapsed())
}

fn assert_refused_in_time((status, time): (u16, Duration)) {
    assert_eq!(status, 503);
    assert!(
        time >= Duration::from_millis(TIMEOUT_MS - 50),
        "gave up after {time:?}"
    );
    // WeCom waits for 5 s.
    assert!(time < Duration::from_secs(4), "took {time:?}");
}

/// Cases 34, 108, 116: cut, silent, and silent after the effect. Afterwards WeCom's repetition is stored, once.
#[tokio::test]
async fn a_store_that_cannot_be_reached_is_503_in_time() {
    let redis = Server::start(Options::default());
    let proxy = Proxy::to(redis.addr());
    let app = App::new();
    let gateway = start(&proxy.redis_url(), &app).await;
    assert_eq!(send(&gateway, &app, "wm0").await.0, 200);
    for (index, break_it) in [Proxy::cut, Proxy::pause, Proxy::drop_replies]
        .into_iter()
        .enumerate()
    {
        break_it(&proxy);
        let customer = format!("wm{}", index + 1);
        assert_refused_in_time(send(&gateway, &app, &customer).await);
        proxy.restore();
        assert_eq!(send(&gateway, &app, &customer).await.0, 200, "{customer}");
    }
    let stored = stored::plaintexts(&redis, &app.corp).await;
    let expected: Vec<_> = (0..4)
        .map(|index| event(&app.corp, &format!("wm{index}")))
        .collect();
    let mut sorted = stored.clone();
    sorted.sort();
    assert_eq!(sorted, expected, "each once");
    gateway.finish().await.unwrap();
}

/// An outage shorter than the limit is not seen by WeCom at all.
#[tokio::test]
async fn a_short_outage_is_bridged() {
    let redis = Server::start(Options {
        appendonly: AppendOnly::Always,
        ..Options::default()
    });
    let proxy = Proxy::to(redis.addr());
    let app = App::new();
    let gateway = Setup::new(&proxy.redis_url())
        .endpoint("sales", &app)
        .start()
        .await;
    assert_eq!(send(&gateway, &app, "wm0").await.0, 200);
    proxy.cut();
    let failures = async || gateway.metric("gateway_append_failures_total").await;
    let mend = async {
        wait_until("it was tried three times", async || failures().await >= 3.0).await;
        proxy.restore();
    };
    let ((status, _), ()) = tokio::join!(send(&gateway, &app, "wm1"), mend);
    assert_eq!(status, 200);
    // The same with a restart of the server.
    redis.restart();
    assert_eq!(send(&gateway, &app, "wm2").await.0, 200);
    assert_eq!(stored::plaintexts(&redis, &app.corp).await.len(), 3);
    gateway.finish().await.unwrap();
}

/// Cases 108, 111, 113: Redis answers and refuses. The gateway tries until its limit, then says 503; when Redis takes
/// writes again, so does the gateway, without a restart.
#[tokio::test]
async fn a_store_that_refuses_is_503_and_mends() {
    let redis = Server::start(Options::default());
    let app = App::new();
    let gateway = start(&redis.url(), &app).await;
    let faults = [
        (
            ["CONFIG", "SET", "maxmemory", "1"],
            ["CONFIG", "SET", "maxmemory", "0"],
        ),
        (
            ["REPLICAOF", "127.0.0.1", "1", ""],
            ["REPLICAOF", "NO", "ONE", ""],
        ),
        (
            ["CONFIG", "SET", "min-replicas-to-write", "1"],
            ["CONFIG", "SET", "min-replicas-to-write", "0"],
        ),
    ];
    for (index, (fault, mend)) in faults.iter().enumerate() {
        let cli = |command: &[&str]| {
            let words: Vec<&str> = command
                .iter()
                .copied()
                .filter(|word| !word.is_empty())
                .collect();
            redis.cli(&words);
        };
        cli(fault);
        let customer = format!("wm{index}");
        assert_refused_in_time(send(&gateway, &app, &customer).await);
        cli(mend);
        assert_eq!(send(&gateway, &app, &customer).await.0, 200, "{fault:?}");
    }
    assert_eq!(
        stored::plaintexts(&redis, &app.corp).await.len(),
        faults.len()
    );
    gateway.finish().await.unwrap();
}

/// Case 111, its end: another server takes over behind the same address.
#[tokio::test]
async fn a_failover_behind_one_address_is_followed() {
    let (first, second) = (
        Server::start(Options::default()),
        Server::start(Options::default()),
    );
    let proxy = Proxy::to(first.addr());
    let app = App::new();
    let gateway = Setup::new(&proxy.redis_url())
        .endpoint("sales", &app)
        .start()
        .await;
    assert_eq!(send(&gateway, &app, "wm0").await.0, 200);
    first.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    proxy.retarget(second.addr());
    assert_eq!(send(&gateway, &app, "wm1").await.0, 200);
    assert_eq!(
        stored::plaintexts(&second, &app.corp).await,
        [event(&app.corp, "wm1")]
    );
    gateway.finish().await.unwrap();
}

/// Case 110, as far as the gateway goes: a script that Redis forgot makes no difference.
#[tokio::test]
async fn forgotten_scripts_are_sent_again() {
    let redis = Server::start(Options::default());
    let app = App::new();
    let gateway = start(&redis.url(), &app).await;
    for index in 0..20 {
        redis.cli(&["SCRIPT", "FLUSH"]);
        assert_eq!(send(&gateway, &app, &format!("wm{index}")).await.0, 200);
    }
    assert_eq!(stored::plaintexts(&redis, &app.corp).await.len(), 20);
    gateway.finish().await.unwrap();
}

/// Above the bound of waiting callbacks the answer is 503 at once, and nobody else waits for it.
#[tokio::test]
async fn above_the_bound_503_comes_at_once() {
    let redis = Server::start(Options::default());
    let proxy = Proxy::to(redis.addr());
    let (app, other) = (App::new(), App::new());
    let gateway = Setup::new(&proxy.redis_url())
        .set("STORE__MAX_IN_FLIGHT", 5)
        .endpoint("sales", &app)
        .endpoint("other", &other)
        .start()
        .await;
    assert_eq!(send(&gateway, &app, "first").await.0, 200);
    proxy.pause();
    let depth = format!("gateway_queue_depth{{corp=\"{}\"}}", app.corp);
    let customers: Vec<_> = (0..5).map(|index| format!("wm{index}")).collect();
    let waiting = futures_util::future::join_all(
        customers
            .iter()
            .map(|customer| send(&gateway, &app, customer)),
    );
    let more = async {
        wait_until("five wait", async || gateway.metric(&depth).await == 5.0).await;
        let (status, time) = send(&gateway, &app, "one-more").await;
        assert_eq!(status, 503);
        assert!(time < Duration::from_secs(2), "{time:?}");
        assert_eq!(
            gateway
                .metric("gateway_refused_total{endpoint=\"sales\",check=\"busy\"}")
                .await,
            1.0
        );
        let echo = crate::harness::get(gateway.addr, "/callback/other").await;
        assert_eq!(echo.status, 400, "another corp is served");
        proxy.restore();
    };
    let (statuses, ()) = tokio::join!(waiting, more);
    assert!(
        statuses.iter().all(|(status, _)| *status == 200),
        "{statuses:?}"
    );
    assert_eq!(gateway.metric(&depth).await, 0.0);
    gateway.finish().await.unwrap();
}

/// With a replica configured, 200 only when it has the callback.
#[tokio::test]
async fn a_replica_is_waited_for() {
    let primary = Server::start(Options::default());
    let replica = Server::start(Options {
        replica_of: Some(primary.port()),
        ..Options::default()
    });
    let app = App::new();
    let gateway = Setup::new(&primary.url())
        .set("STORE__TIMEOUT_MS", 1500)
        .set("INBOX__WAIT_REPLICAS", 1)
        .set("INBOX__WAIT_TIMEOUT_MS", 100)
        .set("REDIS__RESPONSE_TIMEOUT_MS", 500)
        .endpoint("sales", &app)
        .start()
        .await;
    wait_until("the replica follows", async || {
        primary
            .cli(&["INFO", "replication"])
            .contains("state=online")
    })
    .await;
    assert_eq!(send(&gateway, &app, "wm0").await.0, 200);
    assert_eq!(stored::plaintexts(&replica, &app.corp).await.len(), 1);
    replica.kill();
    assert_eq!(send(&gateway, &app, "wm1").await.0, 503);
    replica.restart();
    wait_until("the replica follows", async || {
        primary
            .cli(&["INFO", "replication"])
            .contains("state=online")
    })
    .await;
    assert_eq!(send(&gateway, &app, "wm1").await.0, 200);
    assert_eq!(stored::plaintexts(&replica, &app.corp).await.len(), 2);
    gateway.finish().await.unwrap();
}

/// A cluster that is not there at the start is found when it comes; keys of one corp stay in one slot.
#[tokio::test]
async fn a_cluster_serves_too() {
    let redis = test_redis::shared_cluster();
    let app = App::new();
    let gateway = Setup::new(&redis.url())
        .set("REDIS__MODE", "cluster")
        .endpoint("sales", &app)
        .start()
        .await;
    assert_eq!(send(&gateway, &app, "wm0").await.0, 200);
    assert_eq!(send(&gateway, &app, "wm0").await.0, 200);
    wait_until("ready", async || {
        crate::harness::get(gateway.admin, "/readyz").await.status == 200
    })
    .await;
    assert_eq!(
        gateway
            .metric("gateway_duplicate_total{endpoint=\"sales\"}")
            .await,
        1.0
    );
    gateway.finish().await.unwrap();
}
