//! With replicas: an append waits for one; a sentinel makes one the primary.

use std::time::{Duration, Instant};

use inbox::connect::{self, Mode};
use inbox::{Appended, Config, Error, Group, Inbox};
use test_redis::{Options, Server};

use crate::support::{config, connection, delivery, read, until};

fn replica_of(primary: &Server) -> Server {
    Server::start(Options {
        replica_of: Some(primary.port()),
        ..Options::default()
    })
}

fn waiting() -> Config {
    Config {
        wait_replicas: 1,
        wait_timeout_ms: 1_000,
        ..config()
    }
}

#[tokio::test]
async fn an_append_waits_for_a_replica() {
    let primary = Server::start(Options::default());
    let corp = test_redis::corp();
    let inbox = Inbox::new(connection(&primary).await, &corp, waiting());
    let error = inbox.append(&[delivery("a")]).await.unwrap_err();
    assert!(
        matches!(error, Error::NotReplicated { wanted: 1, got: 0 }),
        "{error}"
    );

    let replica = replica_of(&primary);
    until(async || inbox.append(&[delivery("a")]).await.is_ok()).await;
    // What was answered is there the same moment, whatever becomes of the primary.
    for n in 0..50 {
        if n % 10 == 5 {
            primary.cli(&["SCRIPT", "FLUSH"]);
        }
        let text = n.to_string();
        until(async || inbox.append(&[delivery(&text)]).await.is_ok()).await;
        let id = delivery(&text).id().to_string();
        let seen = format!("{{{corp}}}:v1:seen:{}", &id[..32]);
        assert_eq!(replica.cli(&["EXISTS", &seen]), "1");
    }
    assert!(inbox.counters().scripts_sent_again >= 5);

    replica.freeze();
    let begun = Instant::now();
    let error = inbox.append(&[delivery("late")]).await.unwrap_err();
    assert!(matches!(error, Error::NotReplicated { .. }), "{error}");
    assert!(error.is_passing());
    assert!(begun.elapsed() < Duration::from_secs(2));
    // The sender tries again: a duplicate, and no less sure to be on the replica, even on a new connection, whose
    // own WAIT would have nothing to wait for.
    let other = Inbox::new(connection(&primary).await, &corp, waiting());
    let error = other.append(&[delivery("late")]).await.unwrap_err();
    assert!(matches!(error, Error::NotReplicated { .. }), "{error}");
    replica.thaw();
    until(async || other.append(&[delivery("late")]).await.is_ok()).await;
    assert_eq!(
        other.append(&[delivery("late")]).await.unwrap(),
        [Appended::Duplicate]
    );
}

/// Case 111 by way of Sentinel: the primary dies, the replica takes over, nobody restarts anything.
#[tokio::test]
async fn sentinel_leads_to_the_new_primary() {
    let primary = Server::start(Options::default());
    let replica = replica_of(&primary);
    let sentinel = Server::start(Options {
        sentinel_of: Some(("main".into(), primary.port())),
        ..Options::default()
    });
    let redis = connect::Config {
        mode: Mode::Sentinel,
        sentinel_master: "main".into(),
        response_timeout_ms: 500,
        connect_timeout_ms: 500,
        ..connect::Config::single(&sentinel.url())
    };
    let inbox = Inbox::new(
        connect::connect(&redis).await.unwrap(),
        &test_redis::corp(),
        waiting(),
    );
    until(async || inbox.append(&[delivery("a")]).await.is_ok()).await;
    until(async || {
        sentinel
            .cli(&["SENTINEL", "REPLICAS", "main"])
            .contains(&replica.port().to_string())
    })
    .await;

    primary.kill();
    let begun = Instant::now();
    let inbox = Inbox::new(
        connect::connect_lazy(&redis).unwrap(),
        &test_redis::corp(),
        config(),
    );
    until(async || inbox.append(&[delivery("b")]).await.is_ok()).await;
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    // For a moment the sentinel may doubt the new one too.
    let mut blocking = connect::connect_blocking(&redis).await;
    while let Err(error) = blocking {
        assert!(
            error.is_passing() && begun.elapsed() < Duration::from_secs(20),
            "{error}"
        );
        blocking = connect::connect_blocking(&redis).await;
    }
    let blocking = blocking.unwrap();
    let mut consumer = inbox::Consumer::new(inbox, blocking, Group::Decide, "one");
    assert_eq!(read(&mut consumer, 10).await.len(), 1);
}
