//! The smallest live load by weight.

use allocation::{Op, Strategy};

use crate::support::*;

const LEAST: Strategy = Strategy::LeastLoad;

/// Case 57.
#[tokio::test]
async fn closed_ones_never_count() {
    let mut twin = Twin::new().await;
    twin.pool("only-a", 1, LEAST, &[("ma", "1")]).await;
    twin.pool("only-b", 1, LEAST, &[("mb", "1")]).await;
    twin.pool("g", 1, LEAST, &[("ma", "1"), ("mb", "1")]).await;
    twin.on(&["ma", "mb"]).await;
    for i in 0..51 {
        twin.ask("only-a", &format!("a{i}")).await;
    }
    for i in 0..50 {
        twin.close(&format!("a{i}")).await;
    }
    twin.ask("only-b", "b1").await;
    twin.ask("only-b", "b2").await;
    let mut all = Vec::new();
    for name in ["c1", "c2", "c3"] {
        all.push(twin.who("g", name).await.unwrap());
    }
    assert_eq!(all[0], "ma");
    assert_eq!((twin.load("ma"), twin.load("mb")), (3, 3));
    twin.compare().await;
}

/// Case 58.
#[tokio::test]
async fn who_is_full_is_never_in_question() {
    let mut twin = Twin::new().await;
    for (name, n, cap) in [("ma", 3, 3), ("mb", 5, 10), ("mc", 6, 10)] {
        twin.pool(name, 1, LEAST, &[(name, "1")]).await;
        twin.on(&[name]).await;
        for i in 0..n {
            twin.ask(name, &format!("{name}{i}")).await;
        }
        twin.cap(name, cap).await;
    }
    twin.pool("g", 1, LEAST, &[("ma", "10"), ("mb", "1"), ("mc", "1")])
        .await;
    for i in 0..4 {
        let who = twin.who("g", &format!("c{i}")).await.unwrap();
        assert_ne!(who, "ma");
    }
    let mut loads = [twin.load("mb"), twin.load("mc")];
    loads.sort();
    assert_eq!(loads, [7, 8]);
    twin.compare().await;
}

/// Case 62.
#[tokio::test]
async fn even_loads_stay_even() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, LEAST, &[("ma", "1"), ("mb", "1"), ("mc", "1")])
        .await;
    for name in ["ma", "mb", "mc"] {
        twin.cap(name, 4).await;
    }
    twin.on(&["ma", "mb", "mc"]).await;
    for i in 0..6 {
        twin.ask("g", &format!("c{i}")).await;
    }
    assert_eq!(["ma", "mb", "mc"].map(|name| twin.load(name)), [2, 2, 2]);
    let more = (6..12).map(|i| request("g", &format!("c{i}"))).collect();
    twin.apply(Op::Decide(more)).await;
    assert_eq!(["ma", "mb", "mc"].map(|name| twin.load(name)), [4, 4, 4]);
    assert_eq!(twin.who("g", "c12").await, None);
    twin.compare().await;
}

/// Load is one value for all pools: what a pool gives is seen by the others in the same call.
#[tokio::test]
async fn other_pools_see_the_load_at_once() {
    let mut twin = Twin::new().await;
    twin.pool("g1", 1, LEAST, &[("ma", "1"), ("mb", "1")]).await;
    twin.pool("g2", 1, LEAST, &[("ma", "1"), ("mb", "1")]).await;
    twin.pool("g3", 1, Strategy::WeightedRoundRobin, &[("ma", "1")])
        .await;
    twin.on(&["ma", "mb"]).await;
    twin.ask("g3", "c1").await;
    twin.ask("g3", "c2").await;
    assert_eq!(twin.who("g1", "c3").await.unwrap(), "mb");
    assert_eq!(twin.who("g2", "c4").await.unwrap(), "mb");
    twin.compare().await;
}

#[tokio::test]
async fn ties_go_to_who_was_picked_longest_ago() {
    let names = ["mc", "ma", "mb"];
    let mut twin = Twin::new().await;
    twin.pool("g", 1, LEAST, &names.map(|name| (name, "1")))
        .await;
    twin.on(&names).await;
    let mut rounds = Vec::new();
    for round in 0..3 {
        let mut order = Vec::new();
        for i in 0..3 {
            let subject_name = format!("c{round}{i}");
            order.push(twin.who("g", &subject_name).await.unwrap());
            twin.close(&subject_name).await;
        }
        rounds.push(order);
    }
    let mut once = rounds[0].clone();
    once.sort();
    assert_eq!(once, ["ma", "mb", "mc"]);
    assert_eq!(rounds[0], rounds[1]);
    assert_eq!(rounds[1], rounds[2]);
    // A newcomer was never picked: he is first.
    let more = [("mc", "1"), ("ma", "1"), ("mb", "1"), ("zz", "1")];
    twin.pool("g", 2, LEAST, &more).await;
    twin.on(&["zz"]).await;
    assert_eq!(twin.who("g", "c99").await.unwrap(), "zz");
    twin.compare().await;
}
