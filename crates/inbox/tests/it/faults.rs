//! Redis misbehaves. Every call ends within its limit, tells the truth, and the next ones recover by themselves.

use std::time::{Duration, Instant};

use inbox::connect::{self, Connection};
use inbox::{Appended, Config, Error, Group, Inbox};
use rand::RngExt;
use redis::AsyncTypedCommands;
use test_redis::{AppendOnly, Options, Proxy, Server};

use crate::support::{config, delivery, fixture, fixture_on, patient, until};

/// Answers are due within 300 ms.
fn hasty(url: &str) -> connect::Config {
    connect::Config {
        response_timeout_ms: 300,
        connect_timeout_ms: 300,
        ..connect::Config::single(url)
    }
}

fn inbox(connection: Connection) -> Inbox<Connection> {
    Inbox::new(connection, &test_redis::corp(), config())
}

async fn passing_error(inbox: &Inbox<Connection>, text: &str) -> redis::RedisError {
    match inbox.append(&[delivery(text)]).await {
        Err(Error::Unavailable(error)) => error,
        other => panic!("{other:?} instead of an error that passes"),
    }
}

/// Case 105.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_readers_hold_up_nobody() {
    let server = Server::start(Options::default());
    let f = fixture_on(&server, config()).await;
    for number in 0..20 {
        let mut consumer = f.consumer(Group::Decide, &format!("c{number}")).await;
        tokio::spawn(async move {
            loop {
                let got = consumer.next(1, Duration::from_secs(5)).await.unwrap();
                consumer.ack(&got).await.unwrap();
            }
        });
    }
    until(async || {
        server
            .cli(&["INFO", "clients"])
            .contains("blocked_clients:20")
    })
    .await;
    let mut times = Vec::new();
    for n in 0..1_000 {
        let begun = Instant::now();
        f.inbox.append(&[delivery(&n.to_string())]).await.unwrap();
        times.push(begun.elapsed());
    }
    times.sort();
    assert!(
        times[500] < Duration::from_millis(20),
        "median {:?}",
        times[500]
    );
    assert!(
        times[999] < Duration::from_secs(1),
        "worst {:?}",
        times[999]
    );
    until(async || f.inbox.stats(None).await.unwrap().decide.unread == Some(0)).await;
}

/// Case 110.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_forgotten_again_and_again() {
    let server = Server::start(Options::default());
    let f = fixture_on(&server, patient()).await;
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let inbox = f.inbox.clone();
            tokio::spawn(async move {
                for n in 0..300 {
                    let some = [delivery(&format!("{task} {n}"))];
                    assert_eq!(inbox.append(&some).await.unwrap(), [Appended::New]);
                }
            })
        })
        .collect();
    let flusher = tokio::spawn({
        let mut connection = server.connection().await;
        async move {
            loop {
                redis::cmd("SCRIPT")
                    .arg("FLUSH")
                    .exec_async(&mut connection)
                    .await
                    .unwrap();
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    });
    for task in tasks {
        task.await.unwrap();
    }
    flusher.abort();
    assert!(f.inbox.counters().scripts_sent_again > 0);
    assert_eq!(f.inbox.stats(None).await.unwrap().length, 2_400);
}

/// Case 111: the server behind the address becomes a replica, then another one is behind it. With a connection
/// that is cut by that, and with one that stays open to the old server.
#[rstest::rstest]
#[tokio::test]
async fn a_read_only_server_is_left(#[values(false, true)] stays_open: bool) {
    let (old, new) = (
        Server::start(Options::default()),
        Server::start(Options::default()),
    );
    let proxy = Proxy::to(old.addr());
    let inbox = inbox(connect::connect(&hasty(&proxy.redis_url())).await.unwrap());
    inbox.append(&[delivery("a")]).await.unwrap();

    old.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_eq!(passing_error(&inbox, "b").await.code(), Some("READONLY"));
    if stays_open {
        proxy.retarget_new(new.addr());
    } else {
        proxy.retarget(new.addr());
    }
    let begun = Instant::now();
    until(async || inbox.append(&[delivery("b")]).await.is_ok()).await;
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(inbox.stats(None).await.unwrap().length, 1, "on the new one");
}

/// Case 112: at the start, and in the middle.
#[tokio::test]
async fn a_loading_server_is_waited_for() {
    let server = Server::start(Options {
        appendonly: AppendOnly::Always,
        // Microseconds a key: loading takes its time. Redis looks up from it after each 1,024.
        args: ["--key-load-delay", "150", "--aof-use-rdb-preamble", "no"]
            .map(String::from)
            .to_vec(),
        ..Options::default()
    });
    let f = fixture_on(&server, patient()).await;
    let mut outside = server.connection().await;
    let mut pipe = redis::pipe();
    for n in 0..12_000 {
        pipe.set(n, n).ignore();
    }
    pipe.exec_async(&mut outside).await.unwrap();
    f.append(&["a"]).await;

    server.restart_loading();
    let lazy = inbox(connect::connect_lazy(&hasty(&server.url())).unwrap());
    let mut loading = 0;
    let begun = Instant::now();
    while let Err(error) = lazy.append(&[delivery("b")]).await {
        assert!(error.is_passing(), "{error}");
        loading += u32::from(
            error.to_string().contains("LOADING") || error.to_string().contains("loading"),
        );
        assert!(begun.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(loading > 0, "it was too quick to be seen");
    until(async || f.inbox.append(&[delivery("c")]).await.is_ok()).await;
    assert_eq!(f.inbox.stats(None).await.unwrap().length, 2);
}

/// Cases 113 and 108: no memory. Nothing half done, nothing acknowledged. (The second half of 113, eviction, is for
/// `allocator doctor` to warn of; an evicted dedupe key makes a second entry, which the deciding script knows.)
#[tokio::test]
async fn a_full_server_refuses_whole_calls() {
    let server = Server::start(Options::default());
    let f = fixture_on(&server, patient()).await;
    f.append(&["a"]).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let keys = server.cli(&["DBSIZE"]);
    assert_eq!(passing_error(&f.inbox, "b").await.code(), Some("OOM"));
    assert_eq!(server.cli(&["DBSIZE"]), keys);
    assert_eq!(f.inbox.stats(None).await.unwrap().length, 1);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(
        f.inbox.append(&[delivery("b")]).await.unwrap(),
        [Appended::New]
    );
}

/// Case 116: silence, at the start and in the middle.
#[tokio::test]
async fn silence_ends_in_an_error() {
    let server = Server::start(Options::default());
    let proxy = Proxy::to(server.addr());
    proxy.pause();
    let begun = Instant::now();
    assert!(
        connect::connect(&hasty(&proxy.redis_url()))
            .await
            .unwrap_err()
            .is_passing()
    );
    assert!(begun.elapsed() < Duration::from_secs(2));

    let inbox = inbox(connect::connect_lazy(&hasty(&proxy.redis_url())).unwrap());
    assert!(passing_error(&inbox, "a").await.is_timeout());
    proxy.restore();
    until(async || inbox.append(&[delivery("a")]).await.is_ok()).await;

    proxy.pause();
    for _ in 0..3 {
        let begun = Instant::now();
        assert!(passing_error(&inbox, "b").await.is_timeout());
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
    }
    // The host came back at another place; the dead connections never end by themselves.
    let other = Server::start(Options::default());
    proxy.retarget_new(other.addr());
    proxy.restore();
    until(async || inbox.append(&[delivery("c")]).await.is_ok()).await;
    assert_eq!(other.cli(&["DBSIZE"]), "2");
}

/// Case 116: the process is busy for longer than a call may take.
#[tokio::test]
async fn a_sleeping_server_ends_in_an_error() {
    let server = Server::start(Options::default());
    let inbox = inbox(connect::connect(&hasty(&server.url())).await.unwrap());
    inbox.append(&[delivery("a")]).await.unwrap();
    let mut outside = server.connection().await;
    let sleep = tokio::spawn(async move {
        redis::cmd("DEBUG")
            .arg("SLEEP")
            .arg(2)
            .exec_async(&mut outside)
            .await
    });
    until(async || {
        let begun = Instant::now();
        let failed = inbox.append(&[delivery("b")]).await.is_err();
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "{:?}",
            begun.elapsed()
        );
        failed
    })
    .await;
    sleep.await.unwrap().unwrap();
    until(async || inbox.append(&[delivery("b")]).await.is_ok()).await;
    assert_eq!(inbox.stats(None).await.unwrap().length, 2);
}

/// A reader on a dead connection finds out, and goes on reading.
#[tokio::test]
async fn a_reader_on_a_silent_connection_comes_back() {
    let server = Server::start(Options::default());
    let proxy = Proxy::to(server.addr());
    let redis = hasty(&proxy.redis_url());
    let inbox = inbox(connect::connect(&redis).await.unwrap());
    let blocking = connect::connect_blocking(&redis).await.unwrap();
    let mut consumer = inbox::Consumer::new(inbox.clone(), blocking, Group::Decide, "one");
    assert!(
        consumer
            .next(1, Duration::from_millis(100))
            .await
            .unwrap()
            .is_empty()
    );
    proxy.pause();
    let begun = Instant::now();
    assert!(consumer.next(1, Duration::from_millis(100)).await.is_err());
    assert!(begun.elapsed() < connect::LONGEST_BLOCK + Duration::from_secs(2));
    proxy.retarget_new(server.addr());
    proxy.restore();
    until(async || inbox.append(&[delivery("a")]).await.is_ok()).await;
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        assert!(Instant::now() < deadline);
        match consumer.next(1, Duration::from_millis(100)).await {
            Ok(got) if !got.is_empty() => break,
            _ => {}
        }
    }
}

/// Case 108: the answer is lost. The caller cannot know, and asking again is safe.
#[tokio::test]
async fn a_lost_answer_is_asked_for_again() {
    let server = Server::start(Options::default());
    let proxy = Proxy::to(server.addr());
    let inbox = inbox(connect::connect(&hasty(&proxy.redis_url())).await.unwrap());
    inbox.append(&[delivery("a")]).await.unwrap();
    proxy.drop_replies();
    assert!(passing_error(&inbox, "b").await.is_timeout());
    proxy.restore();
    until(async || {
        matches!(
            inbox.append(&[delivery("b")]).await.as_deref(),
            Ok([Appended::Duplicate])
        )
    })
    .await;
    assert_eq!(inbox.stats(None).await.unwrap().length, 2);
}

/// Refused connections are quick, and many callers share one attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_under_load_is_survived() {
    let server = Server::start(Options {
        appendonly: AppendOnly::Always,
        ..Options::default()
    });
    let f = fixture_on(&server, patient()).await;
    f.append(&["a"]).await;
    server.kill();
    let begun = Instant::now();
    let tasks: Vec<_> = (0..100)
        .map(|n| {
            let inbox = f.inbox.clone();
            tokio::spawn(async move { inbox.append(&[delivery(&n.to_string())]).await.is_err() })
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap());
    }
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    server.restart();
    until(async || f.inbox.append(&[delivery("b")]).await.is_ok()).await;
}

/// Case 114: callers go away at random moments; no answer reaches another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_belongs_to_another_request() {
    let server = Server::start(Options::default());
    let connection = connect::connect(&connect::Config::single(&server.url()))
        .await
        .unwrap();
    let mut pipe = redis::pipe();
    for n in 0..100 {
        pipe.set(format!("k{n}"), format!("k{n}")).ignore();
    }
    pipe.exec_async(&mut connection.clone()).await.unwrap();
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let connection = connection.clone();
            tokio::spawn(async move {
                let (mut answered, mut gone) = (0, 0);
                for n in 0..500 {
                    let patience = Duration::from_micros(rand::rng().random_range(0..1_500));
                    let key = format!("k{}", n % 100);
                    let mut connection = connection.clone();
                    let call = connection.get(&key);
                    match tokio::time::timeout(patience, call).await {
                        Ok(value) => {
                            assert_eq!(value.unwrap().as_deref(), Some(key.as_str()));
                            answered += 1;
                        }
                        Err(_) => gone += 1,
                    }
                }
                (answered, gone)
            })
        })
        .collect();
    let (mut answered, mut gone) = (0, 0);
    for task in tasks {
        let (a, g) = task.await.unwrap();
        answered += a;
        gone += g;
    }
    assert!(answered > 0 && gone > 0, "{answered} answered, {gone} gone");
}

/// A wrong password, a wrong type: not worth trying again.
#[tokio::test]
async fn what_does_not_pass_is_told_apart() {
    let f = fixture().await;
    f.server.cli(&["SET", &f.key("inbox"), "x"]);
    let error = f.inbox.append(&[delivery("a")]).await.unwrap_err();
    assert!(!error.is_passing(), "{error}");
    assert_eq!(
        f.server
            .cli(&["EXISTS", &f.key(&format!("seen:{}", f.inbox_seen("a")))]),
        "0"
    );
    let url = f.server.url().replace("redis://", "redis://nobody:wrong@");
    let error = connect::connect(&connect::Config::single(&url))
        .await
        .unwrap_err();
    assert!(
        !error.is_passing() && !error.to_string().contains("wrong@"),
        "{error}"
    );
    let config = Config {
        max_length: 0,
        ..config()
    };
    let closed = Inbox::new(
        crate::support::connection(f.server).await,
        &test_redis::corp(),
        config,
    );
    assert_eq!(
        closed.append(&[delivery("a")]).await.unwrap(),
        [Appended::Full]
    );
}
