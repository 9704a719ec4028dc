//! The servers and the proxy themselves, so that a fault test that passes means something.

use std::process::Command;
use std::time::{Duration, Instant};

use redis::AsyncTypedCommands;
use test_redis::{AppendOnly, Options, Proxy, Server};

#[tokio::test]
async fn shared_server_starts_quickly_and_answers() {
    let begun = Instant::now();
    let server = test_redis::shared();
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    let mut connection = server.connection_manager().await;
    let key = format!("{{{}}}:v1:x", test_redis::corp());
    connection.set(&key, 7).await.unwrap();
    assert_eq!(server.cli(&["GET", &key]), "7");
}

#[test]
fn ports_are_found_by_many_at_once() {
    let servers: Vec<_> = (0..8)
        .map(|_| std::thread::spawn(|| Server::start(Options::default())))
        .map(|thread| thread.join().unwrap())
        .collect();
    let mut ports: Vec<_> = servers.iter().map(Server::port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 8);
}

#[tokio::test]
async fn append_only_survives_a_kill_on_the_same_port() {
    let server = Server::start(Options {
        appendonly: AppendOnly::Always,
        ..Options::default()
    });
    let url = server.url();
    server.connection_manager().await.set("a", 1).await.unwrap();
    server.kill();
    server.restart();
    assert_eq!(server.url(), url);
    assert_eq!(server.cli(&["GET", "a"]), "1");
}

/// Without the mending the half of the script would come to life with the second restart.
#[tokio::test]
async fn half_a_script_is_cut_off_for_good() {
    let server = Server::start(Options {
        appendonly: AppendOnly::Always,
        ..Options::default()
    });
    let script = "redis.call('SADD', KEYS[1], 1) redis.call('SADD', KEYS[1], 2)";
    server.cli(&["EVAL", script, "1", "a"]);
    server.kill();
    let file = server.dir().join("appendonlydir/appendonly.aof.1.incr.aof");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 20]).unwrap();
    server.restart();
    assert_eq!(server.cli(&["SCARD", "a"]), "0");
    server.cli(&["EVAL", script, "1", "b"]);
    server.restart();
    assert_eq!(
        (server.cli(&["SCARD", "a"]), server.cli(&["SCARD", "b"])),
        ("0".into(), "2".into())
    );
}

/// What a test does first after a restart must not be refused because the data are still being loaded.
#[tokio::test]
async fn a_restarted_server_has_its_data() {
    let server = Server::start(Options {
        appendonly: AppendOnly::Always,
        // Microseconds a command; Redis looks up from loading after each 1,024 of them.
        args: ["--key-load-delay", "100"].map(String::from).to_vec(),
        ..Options::default()
    });
    let mut pipe = redis::pipe();
    for n in 0..4_000 {
        pipe.set(n, n).ignore();
    }
    let mut connection = server.connection().await;
    pipe.exec_async(&mut connection).await.unwrap();
    server.restart();
    assert_eq!(server.cli(&["DBSIZE"]), "4000");
}

#[tokio::test]
async fn one_node_cluster_takes_writes() {
    let mut connection = test_redis::shared_cluster().cluster_connection().await;
    connection.set("{a}:1", "b").await.unwrap();
    assert_eq!(connection.get("{a}:1").await.unwrap().as_deref(), Some("b"));
}

#[tokio::test]
async fn replica_follows() {
    let primary = Server::start(Options::default());
    let replica = Server::start(Options {
        replica_of: Some(primary.port()),
        ..Options::default()
    });
    // WAIT asks for the writes of its own connection, so both go over one. 0 while the first synchronisation runs.
    let mut connection = primary.connection().await;
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        connection.set("a", 2).await.unwrap();
        let mut wait = redis::cmd("WAIT");
        wait.arg(1).arg(1000);
        if wait.query_async(&mut connection).await == Ok(1) {
            break;
        }
        assert!(Instant::now() < deadline);
    }
    assert_eq!(replica.cli(&["GET", "a"]), "2");
}

/// A server must not outlive a test process that dies by SIGKILL: the child here is this very test binary.
#[test]
fn server_ends_with_its_process() {
    if std::env::var_os("TEST_REDIS_CHILD").is_some() {
        let server = Server::start(Options::default());
        std::fs::write(
            std::env::var("TEST_REDIS_CHILD").unwrap(),
            server.pid().unwrap().to_string(),
        )
        .unwrap();
        std::thread::park();
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server_ends_with_its_process", "--nocapture"])
        .env("TEST_REDIS_CHILD", file.path())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let pid = loop {
        if let Ok(pid) = std::fs::read_to_string(file.path()).unwrap().parse::<u32>() {
            break pid;
        }
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    while alive(pid) {
        assert!(
            Instant::now() < deadline,
            "redis-server {pid} outlived its test"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn alive(pid: u32) -> bool {
    // A zombie that nobody has reaped yet is dead too.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn proxy_loses_answers_but_not_requests() {
    let server = Server::start(Options::default());
    let proxy = Proxy::to(server.addr());
    let config =
        redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_millis(200)));
    let open = || async {
        redis::Client::open(proxy.redis_url())
            .unwrap()
            .get_multiplexed_async_connection_with_config(&config)
            .await
    };
    let mut connection = open().await.unwrap();
    connection.set("a", 1).await.unwrap();

    proxy.drop_replies();
    assert!(connection.set("a", 2).await.unwrap_err().is_timeout());
    assert_eq!(server.cli(&["GET", "a"]), "2");

    proxy.restore();
    open().await.unwrap().set("a", 3).await.unwrap();
    assert!(
        connection.set("a", 4).await.is_err(),
        "a connection that lost an answer is reset"
    );

    let mut connection = open().await.unwrap();
    proxy.pause();
    assert!(connection.set("a", 5).await.unwrap_err().is_timeout());
    assert_eq!(server.cli(&["GET", "a"]), "3");
    proxy.restore();
    assert_eq!(
        connection.get("a").await.unwrap().as_deref(),
        Some("5"),
        "it arrives later"
    );

    proxy.cut();
    assert!(connection.set("a", 6).await.is_err());
    assert!(open().await.is_err());
    proxy.restore();
    let mut connection = open().await.unwrap();
    proxy.latency(Duration::from_millis(50));
    let begun = Instant::now();
    connection.set("a", 7).await.unwrap();
    assert!(
        begun.elapsed() >= Duration::from_millis(100),
        "{:?}",
        begun.elapsed()
    );

    let other = Server::start(Options::default());
    proxy.restore();
    proxy.retarget(other.addr());
    open().await.unwrap().set("b", 1).await.unwrap();
    assert_eq!(other.cli(&["GET", "b"]), "1");
}
