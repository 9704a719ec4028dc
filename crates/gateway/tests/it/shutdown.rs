//! The end: everything accepted is finished, everything acknowledged is stored.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::{
    App, Setup,
    client::{message, raw},
    setup::event,
    stored, wait_until,
};

/// Case 139: stopped in the middle of a stream, with another gateway starting at once on the same port; ten times.
/// What was acknowledged is stored exactly once, and every request that was not refused has its answer.
#[tokio::test]
async fn acknowledged_is_stored_over_many_restarts() {
    let redis = test_redis::shared();
    let app = Arc::new(App::new());
    let setup = || {
        Setup::new(&redis.url())
            .set("HTTP__DRAIN_MS", 20)
            .set("HTTP__WORKERS", 2)
            .endpoint("sales", &app)
    };
    let mut gateway = setup().start().await;
    let addr = gateway.addr;
    let ended = Arc::new(AtomicBool::new(false));
    let sent = Arc::new(AtomicUsize::new(0));
    let senders: Vec<_> = (0..8)
        .map(|_| {
            let (app, ended, sent) = (Arc::clone(&app), Arc::clone(&ended), Arc::clone(&sent));
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                while !ended.load(Relaxed) {
                    let plaintext = event(&app.corp, &format!("wm{}", sent.fetch_add(1, Relaxed)));
                    let (query, body) = app.seal(&plaintext, "n");
                    let request = message(
                        "POST",
                        &format!("/callback/sales?{query}"),
                        &[],
                        body.as_bytes(),
                    );
                    // WeCom comes again until it is told 200.
                    while raw(addr, &request)
                        .await
                        .is_none_or(|reply| reply.status != 200)
                    {}
                    acknowledged.push(plaintext);
                }
                acknowledged
            })
        })
        .collect();
    for _ in 0..10 {
        let before = sent.load(Relaxed);
        wait_until("callbacks arrive", async || {
            sent.load(Relaxed) > before + 50
        })
        .await;
        let next = setup().set("HTTP__LISTEN", addr).start().await;
        let begun = Instant::now();
        std::mem::replace(&mut gateway, next)
            .finish()
            .await
            .unwrap();
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
    ended.store(true, Relaxed);
    let mut acknowledged = BTreeSet::new();
    for sender in senders {
        acknowledged.extend(sender.await.unwrap());
    }
    gateway.finish().await.unwrap();
    let stored = stored::plaintexts(redis, &app.corp).await;
    assert_eq!(stored.len(), acknowledged.len(), "each once");
    assert_eq!(stored.into_iter().collect::<BTreeSet<_>>(), acknowledged);
}

/// A callback that waits for its store when the end begins is stored and answered; an idle connection is closed; a
/// new one is refused.
#[tokio::test]
async fn what_was_accepted_is_finished() {
    let redis = test_redis::Server::start(test_redis::Options::default());
    let proxy = test_redis::Proxy::to(redis.addr());
    let app = App::new();
    let gateway = Setup::new(&proxy.redis_url())
        .endpoint("sales", &app)
        .start()
        .await;
    let addr = gateway.addr;
    assert_eq!(
        gateway.send("sales", &app.seal("first", "n")).await.status,
        200
    );
    let mut idle = TcpStream::connect(addr).await.unwrap();
    idle.write_all(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut answer = [0; 12];
    idle.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 404");
    proxy.pause();
    let depth = format!("gateway_queue_depth{{corp=\"{}\"}}", app.corp);
    let sealed = app.seal("second", "n");
    let waiting = gateway.send("sales", &sealed);
    let end = async {
        wait_until("it waits", async || gateway.metric(&depth).await == 1.0).await;
        gateway.signals.shutdown.cancel();
        wait_until("nobody is taken any more", async || {
            TcpStream::connect(addr).await.is_err()
        })
        .await;
        let mut rest = Vec::new();
        idle.read_to_end(&mut rest).await.ok();
        proxy.restore();
    };
    let (reply, ()) = tokio::join!(waiting, end);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("connection"), Some("close"));
    gateway.finish().await.unwrap();
    assert_eq!(
        stored::plaintexts(&redis, &app.corp).await,
        ["first", "second"]
    );
}

/// While it drains, `/readyz` says no and everything is still served, asking to close.
#[tokio::test]
async fn draining_serves_and_asks_to_close() {
    let redis = test_redis::shared();
    let app = App::new();
    let gateway = Setup::new(&redis.url())
        .set("HTTP__DRAIN_MS", 1000)
        .endpoint("sales", &app)
        .start()
        .await;
    gateway.signals.shutdown.cancel();
    let not_ready = async || {
        crate::harness::get(gateway.admin, "/readyz")
            .await
            .text()
            .contains("shutdown")
    };
    wait_until("not ready", not_ready).await;
    let (query, body) = app.seal("late", "n");
    let request = message(
        "POST",
        &format!("/callback/sales?{query}"),
        &[],
        body.as_bytes(),
    );
    let keep_alive = String::from_utf8(request)
        .unwrap()
        .replace("Connection: close\r\n", "");
    // Read to its end: the gateway closes although it was not asked to.
    let reply = raw(gateway.addr, keep_alive.as_bytes()).await.unwrap();
    assert_eq!(
        (reply.status, reply.header("connection")),
        (200, Some("close"))
    );
    gateway.finish().await.unwrap();
}

/// Somebody who never finishes does not hold up the end for ever.
#[tokio::test]
async fn the_end_has_a_limit() {
    let redis = test_redis::Server::start(test_redis::Options::default());
    let proxy = test_redis::Proxy::to(redis.addr());
    let app = App::new();
    let gateway = Setup::new(&proxy.redis_url())
        .set("HTTP__SHUTDOWN_MS", 300)
        .endpoint("sales", &app)
        .start()
        .await;
    proxy.pause();
    let depth = format!("gateway_queue_depth{{corp=\"{}\"}}", app.corp);
    let sealed = app.seal("stuck", "n");
    let waiting = gateway.send("sales", &sealed);
    let end = async {
        wait_until("it waits", async || gateway.metric(&depth).await == 1.0).await;
        gateway.signals.shutdown.cancel();
        wait_until("the end", async || gateway.task.is_finished()).await;
        proxy.restore();
    };
    let (reply, ()) = tokio::join!(waiting, end);
    // The thread lives on in a test; a program's ends with it.
    assert_eq!(reply.status, 200);
    assert!(matches!(
        gateway.finish().await,
        Err(gateway::Error::Unfinished(_))
    ));
}
