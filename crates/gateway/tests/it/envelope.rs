//! The outer, unauthenticated document, and its size.

use crate::harness::{App, Setup, cases::Suite, client, post, setup, stored};

/// Cases 9, 13, 14, 15.
#[tokio::test]
async fn envelopes_as_the_file_says() {
    let redis = test_redis::shared();
    let suite = Suite::load("xml-envelope");
    let app = suite.cases()[0].app();
    let gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .start()
        .await;
    // Nobody may come here because of an external entity.
    let trap = std::net::TcpListener::bind("127.0.0.1:9");
    for case in suite.cases() {
        let id = &case.id;
        let before = stored::plaintexts(redis, &app.corp).await.len();
        let reply = case.send(gateway.addr, "sales").await;
        let after = stored::plaintexts(redis, &app.corp).await;
        assert!(reply.body.is_empty(), "{id}: {reply:?}");
        match case.outcome() {
            "accept" => {
                assert_eq!(reply.status, 200, "{id}");
                assert_eq!(
                    after.last().map(String::as_str),
                    case.expect()["plaintext"].as_str(),
                    "{id}"
                );
            }
            "reject" => {
                assert_eq!((reply.status, after.len()), (400, before), "{id}");
            }
            _ => assert!(reply.status < 500, "{id}: {reply:?}"),
        }
    }
    if let Ok(trap) = trap {
        trap.set_nonblocking(true).unwrap();
        assert!(
            trap.accept().is_err(),
            "somebody followed an external entity"
        );
    }
    gateway.finish().await.unwrap();
}

/// Case 131: up to 1 MiB the usual answer, above it 413, and the gateway goes on.
#[tokio::test]
async fn bodies_up_to_a_mebibyte() {
    let redis = test_redis::shared();
    let app = App::new();
    let gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .start()
        .await;
    const MEBIBYTE: usize = 1024 * 1024;
    for (size, status) in [
        (1_000_000, 400),
        (MEBIBYTE, 400),
        (MEBIBYTE + 1, 413),
        (2 * MEBIBYTE + 1, 413),
        (50 * MEBIBYTE, 413),
    ] {
        let body = vec![b'x'; size];
        let target = format!("/callback/sales?{}", app.seal("x", "n").0);
        assert_eq!(
            post(gateway.addr, &target, &body).await.status,
            status,
            "{size} bytes announced"
        );
        let mut chunked = format!("POST {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n").into_bytes();
        chunked.extend(&body);
        chunked.extend(b"\r\n0\r\n\r\n");
        assert_eq!(
            client::raw(gateway.addr, &chunked).await.unwrap().status,
            status,
            "{size} bytes in chunks"
        );
    }
    // The largest authentic message that fits.
    let padding = "好".repeat(200_000);
    let plaintext = setup::event(&app.corp, "wm1")
        .replace("</xml>", &format!("<Later>{padding}</Later></xml>"));
    assert_eq!(
        gateway
            .send("sales", &app.seal(&plaintext, "n"))
            .await
            .status,
        200
    );
    assert_eq!(stored::plaintexts(redis, &app.corp).await, [plaintext]);
    gateway.finish().await.unwrap();
}

/// A sender that waits for 100 Continue is refused before it has sent anything.
#[tokio::test]
async fn too_large_a_body_is_refused_before_it_is_sent() {
    let gateway = Setup::new(&test_redis::shared().url())
        .endpoint("sales", &App::new())
        .start()
        .await;
    let head = "POST /callback/sales?x=1 HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2000000\r\n\r\n";
    assert_eq!(
        client::raw(gateway.addr, head.as_bytes())
            .await
            .unwrap()
            .status,
        413
    );
    gateway.finish().await.unwrap();
}
