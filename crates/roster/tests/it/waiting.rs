//! Nobody is free: who waits, and who is woken.

use allocation::{Decision, MAX_WAKE, Op, Strategy};

use crate::support::*;

const FAIR: Strategy = Strategy::WeightedRoundRobin;

/// Case 60.
#[tokio::test]
async fn an_empty_pool_lets_wait() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[]).await;
    assert_eq!(twin.who("g", "wmC001").await, None);
    twin.pool("g", 2, FAIR, &[("ma", "1")]).await;
    let woken = twin.on(&["ma"]).await;
    assert_eq!(woken[0].subject, subject("wmC001"));
    twin.pool("g", 3, FAIR, &[]).await;
    assert_eq!(twin.who("g", "wmC002").await, None);
    assert_eq!(twin.load("ma"), 1);
    twin.compare().await;
}

/// Case 61.
#[tokio::test]
async fn first_come_first_served() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1")]).await;
    twin.cap("ma", 1).await;
    twin.on(&["ma"]).await;
    twin.ask("g", "busy").await;
    for name in ["wmC001", "wmC002", "wmC003"] {
        assert_eq!(twin.who("g", name).await, None);
        twin.now += 1000;
    }
    twin.now += 2000;
    let outcome = twin.close("busy").await;
    assert_eq!(outcome.woken.len(), 1);
    assert_eq!(outcome.woken[0].subject, subject("wmC001"));
    assert_eq!(outcome.woken[0].member, member("ma"));
    assert_eq!(twin.who("g", "wmC004").await, None);
    let order = ["wmC002", "wmC003", "wmC004"].map(subject);
    assert_eq!(twin.model.waiting(&pool("g")), order);
    // Asking again moves nobody.
    assert_eq!(
        twin.ask("g", "wmC002").await,
        Decision::Already {
            allocation: allocation("g", "wmC002"),
            member: None
        }
    );
    assert_eq!(twin.model.waiting(&pool("g")), order);
    twin.compare().await;
}

/// Who serves several pools takes whoever has waited longest, wherever.
#[tokio::test]
async fn the_oldest_of_all_pools_is_first() {
    let mut twin = Twin::new().await;
    for name in ["a", "b", "c"] {
        twin.pool(name, 1, FAIR, &[("ma", "1")]).await;
    }
    twin.cap("ma", 2).await;
    for (name, subject_name) in [("c", "c1"), ("b", "c2"), ("a", "c3"), ("c", "c4")] {
        twin.ask(name, subject_name).await;
    }
    let woken: Vec<_> = twin
        .on(&["ma"])
        .await
        .into_iter()
        .map(|woken| woken.subject)
        .collect();
    assert_eq!(woken, ["c1", "c2"].map(subject));
    twin.compare().await;
}

#[tokio::test]
async fn one_call_wakes_a_bounded_number_and_says_that_there_are_more() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1"), ("mb", "3")]).await;
    for batch in 0..2 {
        let asked = (0..100).map(|i| request("g", &format!("c{batch}-{i}")));
        twin.apply(Op::Decide(asked.collect())).await;
    }
    let until = twin.now + HOUR;
    let change = |name| allocation::PresenceChange {
        member: member(name),
        lease_until_ms: until,
    };
    let outcome = twin
        .apply(Op::Presence(vec![change("ma"), change("mb")]))
        .await;
    assert_eq!((outcome.woken.len(), outcome.more), (MAX_WAKE, true));
    twin.compare().await;

    // Members are free, but nobody overtakes: the newcomer stands behind, and the call hands out more of the old.
    let outcome = twin.apply(Op::Decide(vec![request("g", "late")])).await;
    assert_eq!((outcome.woken.len(), outcome.more), (MAX_WAKE, true));
    assert!(matches!(decisions(outcome)[0], Decision::Waiting { .. }));
    let outcome = twin
        .apply(Op::Wake {
            pool: pool("g"),
            limit: 10,
        })
        .await;
    assert_eq!((outcome.woken.len(), outcome.more), (10, true));
    let outcome = twin
        .apply(Op::Wake {
            pool: pool("g"),
            limit: 1000,
        })
        .await;
    assert_eq!((outcome.woken.len(), outcome.more), (63, false));
    assert_eq!(outcome.woken.last().unwrap().subject, subject("late"));
    assert_eq!((twin.load("ma"), twin.load("mb")), (50, 151));
    twin.compare().await;
}

/// Case 79.
#[tokio::test]
async fn waking_without_a_free_member_changes_nothing() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1")]).await;
    for i in 0..16 {
        twin.ask("g", &format!("c{i}")).await;
    }
    for _ in 0..180 {
        let outcome = twin
            .apply(Op::Wake {
                pool: pool("g"),
                limit: 64,
            })
            .await;
        assert!(outcome.woken.is_empty() && !outcome.more);
    }
    assert_eq!(twin.model.waiting(&pool("g")).len(), 16);
    assert_eq!(twin.on(&["ma"]).await.len(), 16);
    twin.compare().await;
}

#[tokio::test]
async fn a_waiting_subject_can_leave() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1")]).await;
    for name in ["c1", "c2", "c3"] {
        twin.ask("g", name).await;
    }
    let outcome = twin.close("c1").await;
    assert_eq!(outcome.woken, []);
    let woken: Vec<_> = twin
        .on(&["ma"])
        .await
        .into_iter()
        .map(|woken| woken.subject)
        .collect();
    assert_eq!(woken, ["c2", "c3"].map(subject));
    twin.compare().await;
}
