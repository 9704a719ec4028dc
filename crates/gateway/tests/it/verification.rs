//! URL verification: the echo and nothing else, whatever else is down.

use std::time::{Duration, Instant};

use crate::harness::{App, Setup, cases::Suite, client, get};

/// Cases 22, 23, 24, 26, 27, with a Redis and with none.
#[rstest::rstest]
#[case::with_redis(true)]
#[case::without_redis(false)]
#[tokio::test]
async fn echoes_exactly(#[case] with_redis: bool) {
    let url = if with_redis {
        test_redis::shared().url()
    } else {
        dead_redis()
    };
    let suite = Suite::load("verify-url");
    let gateway = Setup::new(&url)
        .endpoint("sales", &suite.cases()[0].app())
        .start()
        .await;
    let mut times = Vec::new();
    for case in suite.cases() {
        let id = &case.id;
        let begun = Instant::now();
        let reply = case.send(gateway.addr, "sales").await;
        times.push(begun.elapsed());
        if case.outcome() == "reject" {
            assert!((400..500).contains(&reply.status), "{id}: {reply:?}");
            assert!(reply.body.is_empty(), "{id}: {reply:?}");
            continue;
        }
        assert_eq!(reply.status, 200, "{id}");
        assert_eq!(
            reply.text(),
            case.expect()["body_exact"].as_str().unwrap(),
            "{id}"
        );
        if let Some(bytes) = case.expect()["body_hex"].as_str() {
            assert_eq!(hex::encode(&reply.body), bytes, "{id}");
        }
        assert_eq!(
            reply.header("content-type"),
            Some("text/plain; charset=utf-8"),
            "{id}"
        );
    }
    // The median: a busy machine may hold up any single one.
    times.sort();
    assert!(times[times.len() / 2] < Duration::from_secs(1), "{times:?}");
    gateway.finish().await.unwrap();
}

/// Case 25: bytewise sorting, the cipher text included, or nothing.
#[tokio::test]
async fn signatures_as_the_file_says() {
    let redis = test_redis::shared();
    for case in Suite::load("signature-order").cases() {
        let (id, app) = (&case.id, case.app());
        let gateway = Setup::new(&redis.url())
            .endpoint("sales", &app)
            .start()
            .await;
        let reply = case.send(gateway.addr, "sales").await;
        if case.outcome() == "reject" {
            assert!((400..500).contains(&reply.status), "{id}: {reply:?}");
            assert!(reply.body.is_empty(), "{id}: {reply:?}");
        } else {
            assert_eq!(
                (reply.status, reply.text()),
                (200, case.expect()["body_exact"].as_str().unwrap()),
                "{id}"
            );
        }
        gateway.finish().await.unwrap();
    }
}

/// Case 24, its last part: a hundred times the same mistake is a hundred times the same answer.
#[tokio::test]
async fn mistakes_are_answered_alike_every_time() {
    let suite = Suite::load("verify-url");
    let gateway = Setup::new(&dead_redis())
        .endpoint("sales", &suite.cases()[0].app())
        .start()
        .await;
    for (id, check) in [
        ("bad-signature", "signature"),
        ("no-echostr", "parameters"),
        ("echostr-not-base64", "frame"),
    ] {
        let case = suite.case(id);
        let first = case.send(gateway.addr, "sales").await;
        for _ in 1..100 {
            let reply = case.send(gateway.addr, "sales").await;
            assert_eq!(
                (reply.status, &reply.body),
                (first.status, &first.body),
                "{id}"
            );
        }
        let line = format!("gateway_refused_total{{endpoint=\"sales\",check=\"{check}\"}}");
        assert_eq!(gateway.metric(&line).await, 100.0, "{id}");
    }
    gateway.finish().await.unwrap();
}

/// Paths and methods: 404 for what is no endpoint, 405 with the methods that are.
#[tokio::test]
async fn only_callbacks_are_served_on_the_public_address() {
    let gateway = Setup::new(&dead_redis())
        .endpoint("sales", &App::new())
        .start()
        .await;
    for path in [
        "/",
        "/callback",
        "/callback/",
        "/callback/other",
        "/callback/sales/",
        "/callback/sales/x",
        "/livez",
        "/metrics",
    ] {
        assert_eq!(get(gateway.addr, path).await.status, 404, "{path}");
    }
    for method in ["PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "BREW"] {
        let reply = client::request(gateway.addr, method, "/callback/sales", &[], b"").await;
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, Some("GET, POST")),
            "{method}"
        );
        assert_eq!(
            client::request(gateway.addr, method, "/callback/other", &[], b"")
                .await
                .status,
            404,
            "{method}"
        );
    }
    gateway.finish().await.unwrap();
}

/// An address where nobody listens.
fn dead_redis() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("redis://{}", listener.local_addr().unwrap())
}
