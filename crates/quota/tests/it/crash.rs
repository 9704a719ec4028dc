//! Redis killed under load, with the append-only file that production has: what was answered, stands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use quota::lock_acquire::{Answered, LockAcquire};
use quota::{
    BudgetKeys, Limits, LockKeys, Locks, Outcome, Quota, Seeded, Take, Times, Tokens, Urgency,
};
use redis::AsyncCommands;
use test_redis::{AppendOnly, Options, Server};
use tokio::task::JoinSet;

use crate::support::{Conn, T0, assert_all_expire};
use crate::token_load::token;

fn durable() -> Server {
    Server::start(Options {
        appendonly: AppendOnly::Always,
        ..Options::default()
    })
}

/// A connection after a restart, when the server has read its file again.
async fn loaded(server: &Server) -> Conn {
    let mut conn = server.connection_manager().await;
    while redis::cmd("PING").exec_async(&mut conn).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    conn
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_a_killed_redis() {
    let server = durable();
    let corp = test_redis::corp();
    let conn = server.connection_manager().await;
    let limits = Limits {
        in_flight: 1_000,
        lease_ms: 600_000,
        ..Limits::default()
    };
    let quota = Quota::new(conn.clone(), limits);
    let locks = Locks::new(conn.clone(), Times::default());
    locks.fence_seed(&corp, 1, 0).await.unwrap();

    let (taken, greatest, stop) = (
        Arc::new(AtomicI64::new(0)),
        Arc::new(AtomicI64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let mut tasks = JoinSet::new();
    for worker in 0..8 {
        let (quota, corp, conn) = (quota.clone(), corp.clone(), conn.clone());
        let (taken, greatest, stop) = (taken.clone(), greatest.clone(), stop.clone());
        tasks.spawn(async move {
            let acquire = LockAcquire::default();
            for i in 0.. {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(Take::Taken(permit)) =
                    quota.take(&corp, "list", Urgency::Urgent, Some(T0)).await
                {
                    taken.fetch_add(1, Ordering::SeqCst);
                    permit.done(Outcome::Ok, Some(T0)).await.ok();
                }
                let keys = LockKeys::new(&corp, &[&format!("customer:{worker}:{i}")]);
                let answer = acquire
                    .call(&mut conn.clone(), &keys, "w", 600_000, 600_000, Some(T0))
                    .await;
                if let Ok(Answered::Held { fence, .. }) = answer {
                    greatest.fetch_max(fence.counter, Ordering::SeqCst);
                }
            }
        });
    }
    for _kill in 0..2 {
        let before = taken.load(Ordering::SeqCst);
        while taken.load(Ordering::SeqCst) < before + 100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.restart();
    }
    stop.store(true, Ordering::SeqCst);
    tasks.join_all().await;

    let conn = loaded(&server).await;
    let quota = Quota::new(conn.clone(), Limits::default());
    let usage = quota.usage(&corp, Some(T0)).await.unwrap();
    let answered = taken.load(Ordering::SeqCst);
    assert!(
        usage[0].minute_used >= answered,
        "{} of {answered}",
        usage[0].minute_used
    );
    assert!(
        usage[0].minute_used <= answered + 3 * 8,
        "more than what was under way"
    );
    let seeded = Locks::new(conn.clone(), Times::default())
        .fence_seed(&corp, 1, 0)
        .await
        .unwrap();
    assert!(
        matches!(seeded, Seeded::Seeded(fence) if fence.counter >= greatest.load(Ordering::SeqCst))
    );
    assert_all_expire(&conn, &corp).await;
}

#[tokio::test]
async fn a_lock_a_block_and_a_token_are_still_there_after_a_crash() {
    let server = durable();
    let corp = test_redis::corp();
    let conn = server.connection_manager().await;
    let (quota, tokens) = (
        Quota::new(conn.clone(), Limits::default()),
        Tokens::new(conn.clone(), &corp),
    );
    Locks::new(conn.clone(), Times::default())
        .fence_seed(&corp, 1, 0)
        .await
        .unwrap();
    let keys = LockKeys::new(&corp, &["customer:1"]);
    let acquire = LockAcquire::default();
    acquire
        .call(&mut conn.clone(), &keys, "a", 600_000, 600_000, Some(T0))
        .await
        .unwrap();
    quota
        .block(&corp, "list", T0 + 600_000, Some(T0))
        .await
        .unwrap();
    tokens
        .store_if("app", None, &token("V1", T0 + 600_000), Some(T0))
        .await
        .unwrap();
    assert!(
        tokens
            .try_lease("app", "p", 600_000, Some(T0))
            .await
            .unwrap()
    );

    server.restart();

    let conn = loaded(&server).await;
    let (quota, tokens) = (
        Quota::new(conn.clone(), Limits::default()),
        Tokens::new(conn.clone(), &corp),
    );
    let again = acquire
        .call(
            &mut conn.clone(),
            &keys,
            "b",
            600_000,
            600_000,
            Some(T0 + 1),
        )
        .await
        .unwrap();
    assert_eq!(
        again,
        Answered::Busy {
            which: 0,
            until_ms: T0 + 600_000
        }
    );
    assert_eq!(quota.blocks(&corp, Some(T0 + 1)).await.unwrap().len(), 1);
    assert!(tokens.load("app", Some(T0 + 1)).await.unwrap().is_some());
    assert!(
        !tokens
            .try_lease("app", "q", 600_000, Some(T0 + 1))
            .await
            .unwrap()
    );
    assert_all_expire(&conn, &corp).await;
}

/// Redis dies and comes back while a call is in flight, with its file or with nothing: the call is counted until it ends.
#[tokio::test]
async fn a_call_in_flight_is_counted_again_after_a_crash() {
    for appendonly in [AppendOnly::Always, AppendOnly::Off] {
        let server = Server::start(Options {
            appendonly,
            ..Options::default()
        });
        let corp = test_redis::corp();
        let conn = server.connection_manager().await;
        let limits = Limits {
            lease_ms: 1_000,
            ..Limits::default()
        };
        let quota = Quota::new(conn.clone(), limits);
        Locks::new(conn, Times::default())
            .fence_seed(&corp, 1, 0)
            .await
            .unwrap();
        let take = quota.take(&corp, "list", Urgency::Ordinary, None).await;
        let Take::Taken(permit) = take.unwrap() else {
            panic!("nothing is used yet")
        };
        server.restart();
        let restarted = Instant::now();
        let mut conn = loaded(&server).await;
        let flight = BudgetKeys::corp(&corp, "list").flight;
        // Well past the lease that the crash may have left behind.
        while restarted.elapsed() < Duration::from_millis(2_500) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let counted: usize = conn.zcard(&flight).await.unwrap();
        assert_eq!(counted, 1, "{appendonly:?}");
        assert_all_expire(&conn, &corp).await;
        while permit.done(Outcome::Ok, None).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let counted: usize = conn.zcard(&flight).await.unwrap();
        assert_eq!(counted, 0, "{appendonly:?}");
    }
}

/// The scripts are gone from Redis after a restart: they are loaded again by themselves.
#[tokio::test]
async fn case_110_a_flushed_script_is_loaded_again() {
    let server = durable();
    let corp = test_redis::corp();
    let conn = server.connection_manager().await;
    let quota = Quota::new(
        conn.clone(),
        Limits {
            in_flight: 1_000,
            ..Limits::default()
        },
    );
    Locks::new(conn, Times::default())
        .fence_seed(&corp, 1, 0)
        .await
        .unwrap();
    for _ in 0..50 {
        server.cli(&["SCRIPT", "FLUSH"]);
        let take = quota
            .take(&corp, "list", Urgency::Ordinary, Some(T0))
            .await
            .unwrap();
        assert!(matches!(take, Take::Taken(_)));
    }
    assert_eq!(
        quota.usage(&corp, Some(T0)).await.unwrap()[0].minute_used,
        50
    );
}
