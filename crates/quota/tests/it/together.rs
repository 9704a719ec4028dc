//! Many tasks over several connections at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use quota::{Acquired, Limits, Locks, Outcome, Quota, Take, Times, Urgency};
use tokio::task::JoinSet;

use crate::support::{Corp, T0};

/// Case 47, the number: never more than five calls of one API at once, whoever calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_47_never_more_in_flight_than_allowed() {
    let corp = Corp::new(Limits::default()).await;
    let (now, most, done) = (
        Arc::new(AtomicI64::new(0)),
        Arc::new(AtomicI64::new(0)),
        Arc::new(AtomicI64::new(0)),
    );
    let mut tasks = JoinSet::new();
    for _ in 0..40 {
        // A connection of its own, as another process has.
        let conn = test_redis::shared().connection_manager().await;
        let quota = Quota::new(conn, Limits::default());
        let (id, now, most, done) = (corp.id.clone(), now.clone(), most.clone(), done.clone());
        tasks.spawn(async move {
            for _ in 0..25 {
                loop {
                    if let Take::Taken(permit) = quota
                        .take(&id, "list", Urgency::Ordinary, None)
                        .await
                        .unwrap()
                    {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        now.fetch_sub(1, Ordering::SeqCst);
                        permit.done(Outcome::Ok, None).await.unwrap();
                        done.fetch_add(1, Ordering::SeqCst);
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(done.load(Ordering::SeqCst), 1_000);
    let most = most.load(Ordering::SeqCst);
    assert!((2..=5).contains(&most), "{most} in flight");
    let usage = corp.quota.usage(&corp.id, None).await.unwrap();
    assert_eq!((usage[0].minute_used, usage[0].in_flight), (1_000, 0));
}

/// The same when calls last longer than a lease: five at a time, and each place is given back at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_47_never_more_in_flight_when_calls_outlast_their_leases() {
    let limits = Limits {
        lease_ms: 1_000,
        ..Limits::default()
    };
    let corp = Corp::new(limits.clone()).await;
    let (now, most) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let conn = test_redis::shared().connection_manager().await;
        let quota = Quota::new(conn, limits.clone());
        let (id, now, most) = (corp.id.clone(), now.clone(), most.clone());
        tasks.spawn(async move {
            loop {
                if let Take::Taken(permit) = quota
                    .take(&id, "list", Urgency::Ordinary, None)
                    .await
                    .unwrap()
                {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    // The call itself.
                    tokio::time::sleep(Duration::from_millis(2_200)).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    permit.done(Outcome::Ok, None).await.unwrap();
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(most.load(Ordering::SeqCst), 5);
    let usage = corp.quota.usage(&corp.id, None).await.unwrap();
    assert_eq!((usage[0].minute_used, usage[0].in_flight), (10, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_the_window_is_taken() {
    let limits = Limits {
        per_minute: 500,
        in_flight: 10_000,
        ..Limits::default()
    };
    let corp = Corp::new(limits.clone()).await;
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let (quota, id) = (corp.quota.clone(), corp.id.clone());
        tasks.spawn(async move {
            let mut taken = 0;
            for _ in 0..20 {
                let take = quota
                    .take(&id, "x", Urgency::Urgent, Some(T0))
                    .await
                    .unwrap();
                taken += i32::from(matches!(take, Take::Taken(_)));
            }
            taken
        });
    }
    assert_eq!(
        tasks.join_all().await.iter().sum::<i32>(),
        450,
        "500 less the share that is not ours"
    );
}

/// Two names in any order, forty workers: no deadlock, never two owners, numbers only grow.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_owner_at_a_time_and_growing_numbers() {
    let corp = Corp::new(Limits::default()).await;
    let inside = Arc::new(AtomicI64::new(0));
    let last = Arc::new(AtomicI64::new(0));
    let mut tasks = JoinSet::new();
    for i in 0..40 {
        let conn = test_redis::shared().connection_manager().await;
        let locks = Locks::new(conn, Times::default());
        let (id, inside, last) = (corp.id.clone(), inside.clone(), last.clone());
        tasks.spawn(async move {
            let names = if i % 2 == 0 {
                ["customer:1", "taker:mA"]
            } else {
                ["taker:mA", "customer:1"]
            };
            for _ in 0..5 {
                loop {
                    if let Acquired::Held(held) = locks.acquire(&id, &names).await.unwrap() {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two owners");
                        let before = last.swap(held.fence().counter, Ordering::SeqCst);
                        assert!(held.fence().counter > before);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        held.release().await;
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(last.load(Ordering::SeqCst), 200);
}
