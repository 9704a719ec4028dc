//! Configurations, changed and removed.

use allocation::{Answer, Decision, Op, PoolChange, Strategy};

use crate::support::*;

const FAIR: Strategy = Strategy::WeightedRoundRobin;

async fn set(twin: &mut Twin, version: u64, members: &[(&str, &str)]) -> PoolChange {
    match twin
        .apply(Op::SetPool(config("g", version, FAIR, members)))
        .await
        .answer
    {
        Answer::Pool(change) => change,
        other => panic!("{other:?}"),
    }
}

async fn remove(twin: &mut Twin, version: u64) -> PoolChange {
    match twin
        .apply(Op::RemovePool {
            pool: pool("g"),
            version,
        })
        .await
        .answer
    {
        Answer::Pool(change) => change,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_older_configuration_is_refused() {
    let mut twin = Twin::new().await;
    let (one, two) = ([("ma", "1")], [("ma", "1"), ("mb", "2")]);
    assert_eq!(set(&mut twin, 5, &one).await, PoolChange::Changed);
    assert_eq!(
        set(&mut twin, 4, &two).await,
        PoolChange::Stale { version: 5 }
    );
    assert_eq!(
        set(&mut twin, 5, &two).await,
        PoolChange::Stale { version: 5 }
    );
    assert_eq!(
        set(&mut twin, 4, &one).await,
        PoolChange::Stale { version: 5 }
    );
    assert_eq!(set(&mut twin, 6, &one).await, PoolChange::Same);
    assert_eq!(
        set(&mut twin, 6, &two).await,
        PoolChange::Stale { version: 6 }
    );
    assert_eq!(remove(&mut twin, 5).await, PoolChange::Stale { version: 6 });
    assert_eq!(remove(&mut twin, 7).await, PoolChange::Changed);
    assert_eq!(remove(&mut twin, 8).await, PoolChange::Unknown);
    assert_eq!(
        set(&mut twin, 7, &one).await,
        PoolChange::Stale { version: 7 }
    );
    assert_eq!(set(&mut twin, 8, &one).await, PoolChange::Changed);
    twin.compare().await;
}

/// Who waits in a removed pool waits for one of that name to come; what is open stays open.
#[tokio::test]
async fn a_removed_pool_loses_nobody() {
    let mut twin = Twin::new().await;
    set(&mut twin, 1, &[("ma", "1")]).await;
    twin.cap("ma", 1).await;
    twin.on(&["ma"]).await;
    twin.ask("g", "c1").await;
    assert_eq!(twin.who("g", "c2").await, None);
    assert_eq!(remove(&mut twin, 2).await, PoolChange::Changed);
    assert_eq!(twin.ask("g", "c3").await, Decision::NoPool);
    assert_eq!(twin.load("ma"), 1);
    twin.close("c1").await;
    twin.compare().await;
    let config = config("g", 3, FAIR, &[("ma", "1")]);
    let outcome = twin.apply(Op::SetPool(config)).await;
    assert_eq!(outcome.woken[0].subject, subject("c2"));
    twin.compare().await;
}

/// Credits of those who stay are kept, what a removed one was owed is spread: the sum stays 0.
#[tokio::test]
async fn credits_survive_a_change() {
    let mut twin = Twin::new().await;
    set(&mut twin, 1, &[("ma", "3"), ("mb", "2"), ("mc", "2")]).await;
    twin.on(&["ma", "mb", "mc", "md"]).await;
    for i in 0..5 {
        twin.ask("g", &format!("c{i}")).await;
    }
    let credit = |twin: &Twin, name: &str| {
        let shares = twin.model.shares(&pool("g")).unwrap();
        shares
            .into_iter()
            .find(|share| share.member == member(name))
            .unwrap()
            .credit
    };
    let before = [credit(&twin, "ma"), credit(&twin, "mb")];
    let lost = credit(&twin, "mc");
    assert!(lost.abs() > 0.1, "{lost}");
    set(&mut twin, 2, &[("ma", "3"), ("mb", "1"), ("md", "4")]).await;
    let after = ["ma", "mb", "md"].map(|name| credit(&twin, name));
    let expected = [
        before[0] + lost * 3.0 / 8.0,
        before[1] + lost / 8.0,
        lost / 2.0,
    ];
    for (after, expected) in after.into_iter().zip(expected) {
        assert!((after - expected).abs() < 1e-9, "{after} {expected}");
    }
    twin.compare().await;
}

#[tokio::test]
async fn a_pool_changes_its_rule() {
    let mut twin = Twin::new().await;
    set(&mut twin, 1, &[("ma", "3"), ("mb", "1")]).await;
    twin.on(&["ma", "mb"]).await;
    for i in 0..6 {
        twin.ask("g", &format!("c{i}")).await;
    }
    twin.pool("g", 2, Strategy::LeastLoad, &[("ma", "1"), ("mb", "1")])
        .await;
    for i in 6..10 {
        twin.ask("g", &format!("c{i}")).await;
    }
    assert_eq!((twin.load("ma"), twin.load("mb")), (5, 5));
    set(&mut twin, 3, &[("ma", "1"), ("mb", "1")]).await;
    twin.ask("g", "c10").await;
    twin.compare().await;
}
