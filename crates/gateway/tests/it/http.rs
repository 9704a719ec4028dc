//! Senders that are slow, silent, many, or that pipeline.

use std::time::{Duration, Instant};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::{App, Running, Setup, client, get, setup::event, stored, wait_until};

async fn start(app: &App) -> Running {
    Setup::new(&test_redis::shared().url())
        .set("HTTP__HEADER_TIMEOUT_MS", 200)
        .set("HTTP__BODY_TIMEOUT_MS", 300)
        .set("HTTP__KEEP_ALIVE_MS", 1500)
        .endpoint("sales", app)
        .start()
        .await
}

/// How long the gateway leaves a connection open that sent this and no more, and what it answered.
async fn silence(gateway: &Running, sent: &[u8]) -> (Duration, String) {
    let mut stream = TcpStream::connect(gateway.addr).await.unwrap();
    stream.write_all(sent).await.unwrap();
    let begun = Instant::now();
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    let read = tokio::time::timeout(crate::harness::PATIENCE, reading).await;
    // Closed or reset.
    read.expect("never closed").ok();
    (begun.elapsed(), String::from_utf8(answer).unwrap())
}

/// Slowloris: an unfinished header ends the connection, however slowly it grows; an idle connection lives longer.
#[tokio::test]
async fn slow_headers_end_and_idle_connections_stay() {
    let app = App::new();
    let gateway = start(&app).await;
    let (header, idle) = (Duration::from_millis(200), Duration::from_millis(1500));
    for sent in ["", "P", "POST /callback/sales HTTP/1.1\r\nHost: x\r\n"] {
        let (time, answer) = silence(&gateway, sent.as_bytes()).await;
        assert!(
            time >= header - Duration::from_millis(100) && time < idle,
            "{sent:?}: {time:?}"
        );
        assert_eq!(answer, "");
    }
    // One byte at a time does not help.
    let mut stream = TcpStream::connect(gateway.addr).await.unwrap();
    let begun = Instant::now();
    let mut dripping = tokio::time::interval(Duration::from_millis(20));
    loop {
        dripping.tick().await;
        if stream.write_all(b"x").await.is_err() {
            break;
        }
        assert!(begun.elapsed() < idle, "still open");
    }
    // A second request on a connection that was idle for longer than a header may take.
    let (query, body) = app.seal(&event(&app.corp, "wm1"), "n");
    let request = format!(
        "POST /callback/sales?{query} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (time, answer) = silence(&gateway, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        time >= idle - Duration::from_millis(100),
        "closed after {time:?}"
    );
    gateway.finish().await.unwrap();
}

/// Anybody can be refused: that must not hold one of our connections for as long as an idle one is kept.
#[tokio::test]
async fn a_refusal_ends_the_connection() {
    let app = App::new();
    let gateway = start(&app).await;
    let (query, body) = app.seal(&event(&app.corp, "wm1"), "n");
    let forged = query.replace("msg_signature=", "msg_signature=0");
    let post = |query: &str, length: usize, body: &str| {
        format!(
            "POST /callback/sales?{query} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    for (status, sent) in [
        (404, "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n".to_owned()),
        (
            405,
            "DELETE /callback/sales HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        ),
        (
            400,
            "GET /callback/sales HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        ),
        (400, post("x=1", body.len(), &body)),
        (403, post(&forged, body.len(), &body)),
        // The body is waited for, for as long as a body may take: closing at once could lose the answer.
        (413, post(&query, 2_000_000, "x")),
    ] {
        let (time, answer) = silence(&gateway, sent.as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{sent}: {answer}"
        );
        assert!(
            answer.contains("\r\nconnection: close\r\n"),
            "{sent}: {answer}"
        );
        assert!(time < Duration::from_millis(1200), "{sent}: {time:?}");
    }
    gateway.finish().await.unwrap();
}

/// A body that does not come is 408, and no longer waited for.
#[tokio::test]
async fn slow_bodies_are_408() {
    let app = App::new();
    let gateway = start(&app).await;
    let head = "POST /callback/sales?x=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf";
    let (time, answer) = silence(&gateway, head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(
        time >= Duration::from_millis(250) && time < Duration::from_millis(2000),
        "{time:?}"
    );
    assert_eq!(
        gateway
            .metric("gateway_refused_total{endpoint=\"sales\",check=\"slow body\"}")
            .await,
        1.0
    );
    gateway.finish().await.unwrap();
}

/// Two requests in one segment get two answers, in their order.
#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let app = App::new();
    let gateway = start(&app).await;
    let (query, body) = app.seal(&event(&app.corp, "wm1"), "n");
    let post = format!(
        "POST /callback/sales?{query} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let get = "GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let (_, answer) = silence(&gateway, format!("{post}{post}{get}").as_bytes()).await;
    let statuses: Vec<&str> = answer
        .lines()
        .filter(|line| line.starts_with("HTTP/1.1"))
        .collect();
    assert_eq!(
        statuses,
        [
            "HTTP/1.1 200 OK",
            "HTTP/1.1 200 OK",
            "HTTP/1.1 404 Not Found"
        ]
    );
    gateway.finish().await.unwrap();
}

/// Rubbish instead of HTTP is refused, and a header without end too.
#[tokio::test]
async fn what_is_not_http_is_refused() {
    let gateway = start(&App::new()).await;
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(100_000));
    for sent in [
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
        "hello\r\n\r\n",
        "GET\r\n\r\n",
        long.as_str(),
    ] {
        let reply = client::raw(gateway.addr, sent.as_bytes()).await;
        assert!(reply.is_none_or(|reply| (400..500).contains(&reply.status)));
    }
    assert_eq!(get(gateway.addr, "/").await.status, 404, "still there");
    gateway.finish().await.unwrap();
}

/// Connections above the limit wait; none is lost, and the probes do not wait with them.
#[tokio::test]
async fn connections_above_the_limit_wait() {
    let app = App::new();
    let redis = test_redis::shared();
    let gateway = Setup::new(&redis.url())
        .set("HTTP__MAX_CONNECTIONS", 2)
        .endpoint("sales", &app)
        .start()
        .await;
    let holders = [
        TcpStream::connect(gateway.addr).await.unwrap(),
        TcpStream::connect(gateway.addr).await.unwrap(),
    ];
    gateway.wait_for_metric("gateway_connections", 2.0).await;
    let sealed = app.seal(&event(&app.corp, "wm1"), "n");
    let waiting = gateway.send("sales", &sealed);
    let free = async {
        assert_eq!(get(gateway.admin, "/livez").await.status, 200);
        assert!(stored::plaintexts(redis, &app.corp).await.is_empty());
        drop(holders);
    };
    let (reply, ()) = tokio::join!(waiting, free);
    assert_eq!(reply.status, 200);
    gateway.wait_for_metric("gateway_connections", 0.0).await;
    gateway.finish().await.unwrap();
}

/// Bodies of all requests together have a limit, and large ones a lower one: who sends those holds up no usual callback.
#[tokio::test]
async fn buffered_bytes_are_bounded() {
    let app = App::new();
    let gateway = Setup::new(&test_redis::shared().url())
        .set("HTTP__BUFFERED_LIMIT", 180_000)
        .endpoint("sales", &app)
        .start()
        .await;
    let head = |length: usize| {
        format!("POST /callback/sales?x=1 HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n")
    };
    let mut holder = TcpStream::connect(gateway.addr).await.unwrap();
    holder.write_all(head(90_001).as_bytes()).await.unwrap();
    holder.write_all(&[b'x'; 90_000]).await.unwrap();
    let large = app.seal(&event(&app.corp, &"c".repeat(20_000)), "n");
    gateway
        .wait_for_metric("gateway_buffered_bytes", 90_000.0)
        .await;
    wait_until("the rest is too little", async || {
        gateway.send("sales", &large).await.status == 503
    })
    .await;
    let usual = app.seal(&event(&app.corp, "wm1"), "n");
    assert_eq!(gateway.send("sales", &usual).await.status, 200);
    drop(holder);
    wait_until("there is room again", async || {
        gateway.send("sales", &large).await.status == 200
    })
    .await;
    gateway.finish().await.unwrap();
}
