//! Against a cluster: one corp is one slot, and a script that reached out of it would be refused.

use std::time::{Duration, Instant};

use inbox::connect::{self, Config, Mode};
use inbox::{Appended, EntryId, Group, Inbox, Selection};

use crate::support::{T0, config, delivery, read, texts, until};
use test_redis::{Options, Server};

fn cluster(server: &Server) -> Config {
    Config {
        mode: Mode::Cluster,
        response_timeout_ms: 500,
        ..Config::single(&server.url())
    }
}

#[tokio::test]
async fn every_operation_works() {
    let server = test_redis::shared_cluster();
    let connection = connect::connect(&cluster(server)).await.unwrap();
    for _ in 0..3 {
        let inbox = Inbox::new(connection.clone(), &test_redis::corp(), config());
        let twice = [
            delivery("a"),
            delivery("b"),
            delivery("a").with_dirty("pair", "x"),
        ];
        let answers = inbox.append(&twice).await.unwrap();
        assert_eq!(answers, [Appended::New, Appended::New, Appended::Duplicate]);
        for group in Group::ALL {
            let blocking = connect::connect_blocking(&cluster(server)).await.unwrap();
            let mut consumer = inbox::Consumer::new(inbox.clone(), blocking, group, "one");
            let got = read(&mut consumer, 10).await;
            assert_eq!(texts(&got), ["a", "b"]);
            consumer.ack(&got[..1]).await.unwrap();
            for _ in 0..5 {
                inbox
                    .fail(group, &[got[1].entry], "x", Some(T0))
                    .await
                    .unwrap();
            }
            // An empty inbox, for a moment: longer than answers may take otherwise.
            let begun = Instant::now();
            assert!(
                consumer
                    .next(10, Duration::from_millis(700))
                    .await
                    .unwrap()
                    .is_empty()
            );
            assert!(begun.elapsed() >= Duration::from_millis(650));
            inbox.forget_consumers(group, 3_600_000).await.unwrap();
        }
        assert_eq!(inbox.trim().await.unwrap(), 2);
        let all = Selection::Range {
            from: EntryId::MIN,
            to: EntryId::MAX,
        };
        assert_eq!(inbox.dead_replay(&all, false).await.unwrap().replayed, 2);
        let taken = inbox
            .dirty_take("pair", Some(T0 + 5_000), 10, 1_000)
            .await
            .unwrap();
        assert_eq!(inbox.dirty_done("pair", &taken, None).await.unwrap(), 1);
        assert_eq!(inbox.dirty_count("pair").await.unwrap().waiting, 0);
        assert_eq!(inbox.stats(None).await.unwrap().length, 2);
    }
}

/// Cases 110 and 116, on a cluster of its own.
#[tokio::test]
async fn a_cluster_that_forgets_scripts_falls_silent_or_restarts() {
    let server = Server::start(Options {
        cluster: true,
        appendonly: test_redis::AppendOnly::Always,
        ..Options::default()
    });
    let inbox = Inbox::new(
        connect::connect_lazy(&cluster(&server)).unwrap(),
        &test_redis::corp(),
        config(),
    );
    until(async || inbox.append(&[delivery("a")]).await.is_ok()).await;
    server.cli(&["SCRIPT", "FLUSH"]);
    assert_eq!(
        inbox.append(&[delivery("b")]).await.unwrap(),
        [Appended::New]
    );

    server.freeze();
    let begun = Instant::now();
    let error = inbox.append(&[delivery("c")]).await.unwrap_err();
    assert!(error.is_passing(), "{error}");
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    server.thaw();
    until(async || inbox.append(&[delivery("c")]).await.is_ok()).await;

    server.restart();
    until(async || inbox.append(&[delivery("d")]).await.is_ok()).await;
    assert_eq!(inbox.stats(None).await.unwrap().length, 4);
}

/// A program starts before its cluster does.
#[tokio::test]
async fn a_lazy_connection_finds_a_cluster_that_starts_later() {
    let server = Server::start(Options {
        cluster: true,
        ..Options::default()
    });
    server.stop();
    let connection = connect::connect_lazy(&cluster(&server)).unwrap();
    let inbox = Inbox::new(connection, &test_redis::corp(), config());
    let error = inbox.append(&[delivery("a")]).await.unwrap_err();
    assert!(error.is_passing(), "{error}");
    server.restart();
    until(async || inbox.append(&[delivery("a")]).await.is_ok()).await;
}
