//! The guard: renewals in real time, loss, cancellation.

use std::time::{Duration, Instant};

use quota::{Acquired, Held, Limits, Locks, Lost, Times};
use redis::AsyncCommands;
use test_redis::Proxy;

use crate::support::{Conn, Corp, keys_of};

const LEASE: Duration = Duration::from_millis(1_500);

fn times(longest: Duration) -> Times {
    Times {
        lease: LEASE,
        longest,
    }
}

async fn held(locks: &Locks<Conn>, corp: &str, name: &str) -> Held {
    match locks.acquire(corp, &[name]).await.unwrap() {
        Acquired::Held(held) => held,
        Acquired::Busy { .. } => panic!("{name} is busy"),
    }
}

async fn locked(corp: &Corp) -> usize {
    let keys = keys_of(&corp.conn, &corp.id).await;
    keys.iter().filter(|key| key.contains(":lock:")).count()
}

/// Waits until `condition` holds; a test that would hang fails instead.
async fn until(limit: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The lock through a proxy that can be cut.
async fn behind_a_proxy() -> (Corp, Proxy, Locks<Conn>) {
    let corp = Corp::new(Limits::default()).await;
    let proxy = Proxy::to(test_redis::shared().addr());
    let client = redis::Client::open(proxy.redis_url()).unwrap();
    let config = redis::aio::ConnectionManagerConfig::new()
        .set_response_timeout(Some(Duration::from_secs(5)))
        .set_max_delay(Duration::from_millis(50));
    let conn = client
        .get_connection_manager_with_config(config)
        .await
        .unwrap();
    let locks = Locks::new(conn, times(Duration::from_secs(60)));
    (corp, proxy, locks)
}

/// Case 67, first half: renewals go on after an outage shorter than the lease.
#[tokio::test]
async fn case_67_renewals_survive_a_short_outage() {
    let (corp, proxy, locks) = behind_a_proxy().await;
    let held = held(&locks, &corp.id, "customer:1").await;
    let start = Instant::now();
    until(LEASE, "half a lease", async || start.elapsed() > LEASE / 2).await;
    proxy.cut();
    until(LEASE, "a quarter of a lease", async || {
        start.elapsed() > LEASE * 3 / 4
    })
    .await;
    proxy.restore();
    // Held for two leases and a half, and never anybody else's.
    until(LEASE * 3, "the work", async || {
        start.elapsed() > LEASE * 5 / 2
    })
    .await;
    assert_eq!((held.why_lost(), locked(&corp).await), (None, 1));
    held.release().await;
    assert_eq!(locked(&corp).await, 0);
}

/// Case 67, second half: when Redis is away for longer, the owner stops before his lease has ended.
#[tokio::test]
async fn case_67_the_owner_stops_before_his_lease_ends() {
    for silent in [false, true] {
        let (corp, proxy, locks) = behind_a_proxy().await;
        let held = held(&locks, &corp.id, "customer:1").await;
        if silent {
            proxy.pause()
        } else {
            proxy.cut()
        }
        held.lost().cancelled().await;
        assert_eq!(held.why_lost(), Some(Lost::Unreachable));
        assert_eq!(locked(&corp).await, 1, "the lease has not ended yet");
        proxy.restore();
    }
}

/// Case 66 in real time: the worker hears that another one has the lock.
#[tokio::test]
async fn the_worker_is_told_when_the_lock_is_gone() {
    let corp = Corp::new(Limits::default()).await;
    let locks = Locks::new(corp.conn(), times(Duration::from_secs(60)));
    let held = held(&locks, &corp.id, "customer:1").await;
    let key = format!("{{{}}}:v1:lock:customer:1", corp.id);
    let foreign = "other 9999999999999 9999999999999";
    let _: () = corp.conn().set(&key, foreign).await.unwrap();
    held.lost().cancelled().await;
    assert_eq!(held.why_lost(), Some(Lost::Taken));
    drop(held);
    tokio::task::yield_now().await;
    let stands: String = corp.conn().get(&key).await.unwrap();
    assert_eq!(stands, foreign);
}

/// Case 70: a worker that sleeps for ever loses the lock at the longest hold, and others proceed.
#[tokio::test]
async fn case_70_the_longest_hold_ends() {
    let corp = Corp::new(Limits::default()).await;
    let locks = Locks::new(corp.conn(), times(LEASE * 2));
    let (start, sleeper) = (Instant::now(), held(&locks, &corp.id, "customer:1").await);
    sleeper.lost().cancelled().await;
    assert_eq!(sleeper.why_lost(), Some(Lost::Longest));
    assert!(
        start.elapsed() > LEASE && start.elapsed() <= LEASE * 2,
        "{:?}",
        start.elapsed()
    );
    // Its names are released at once: the next one need not wait for the rest of the lease.
    until(LEASE, "the next owner", async || {
        match locks.acquire(&corp.id, &["customer:1"]).await.unwrap() {
            Acquired::Held(next) => next.fence() > sleeper.fence(),
            Acquired::Busy { .. } => false,
        }
    })
    .await;
}

/// Case 69: cancelled at any moment, nothing outlives one lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_69_cancellation_leaves_nothing_behind() {
    let corp = Corp::new(Limits::default()).await;
    let locks = Locks::new(corp.conn(), times(Duration::from_secs(60)));
    for i in 0..1_000_u64 {
        let name = format!("customer:{}", i % 200);
        let pause = Duration::from_micros(rand::random_range(0..5_000));
        let names = [name.as_str()];
        let attempt = tokio::time::timeout(pause, locks.acquire(&corp.id, &names));
        // Half of the held ones die with their task.
        if let Ok(Ok(Acquired::Held(held))) = attempt.await
            && i % 2 == 0
        {
            let task = tokio::spawn(async move {
                let _held = held;
                std::future::pending::<()>().await;
            });
            task.abort();
        }
    }
    let start = Instant::now();
    until(LEASE * 2, "all names free", async || {
        locked(&corp).await == 0
    })
    .await;
    assert!(
        start.elapsed() <= LEASE + Duration::from_millis(200),
        "{:?}",
        start.elapsed()
    );
    for i in 0..200 {
        held(&locks, &corp.id, &format!("customer:{i}"))
            .await
            .release()
            .await;
    }
}

/// A process that is killed while an attempt is on its way: the lock without a guard ends with its lease.
#[tokio::test]
async fn a_lock_whose_answer_was_lost_ends_with_its_lease() {
    let (corp, proxy, locks) = behind_a_proxy().await;
    // The script is known to Redis from here on.
    held(&locks, &corp.id, "customer:2").await.release().await;
    proxy.drop_replies();
    let names = ["customer:1"];
    let attempt = tokio::time::timeout(LEASE / 3, locks.acquire(&corp.id, &names));
    assert!(attempt.await.is_err(), "no answer can have come");
    assert_eq!(locked(&corp).await, 1);
    until(LEASE * 2, "the lease ends", async || {
        locked(&corp).await == 0
    })
    .await;
    proxy.restore();
}
