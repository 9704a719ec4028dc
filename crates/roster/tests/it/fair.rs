//! Weighted round robin through Redis. Long runs of the rule are in the model's own tests.

use std::collections::BTreeMap;

use allocation::{Answer, Op, PoolChange, Strategy};

use crate::support::*;

const FAIR: Strategy = Strategy::WeightedRoundRobin;

async fn picks(twin: &mut Twin, n: usize) -> Vec<String> {
    let mut picks = Vec::new();
    for i in 0..n {
        picks.push(twin.who("g", &format!("c{i}")).await.unwrap());
    }
    picks
}

fn counts(picks: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for pick in picks {
        *counts.entry(pick.as_str()).or_default() += 1;
    }
    counts
}

/// Case 54.
#[tokio::test]
async fn weights_give_shares_without_bursts() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "21"), ("mb", "11")]).await;
    twin.on(&["ma", "mb"]).await;
    let all = picks(&mut twin, 32).await;
    assert_eq!(counts(&all), BTreeMap::from([("ma", 21), ("mb", 11)]));
    assert!(
        !all.windows(3)
            .any(|three| three.iter().all(|who| who == "ma")),
        "{all:?}"
    );

    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "5"), ("mb", "1"), ("mc", "1")])
        .await;
    twin.on(&["ma", "mb", "mc"]).await;
    let all = picks(&mut twin, 70).await;
    for seven in all.windows(7) {
        let counts = counts(seven);
        assert_eq!(
            counts,
            BTreeMap::from([("ma", 5), ("mb", 1), ("mc", 1)]),
            "{all:?}"
        );
    }
    assert!(
        !all.windows(5)
            .any(|five| five.iter().all(|who| who == "ma")),
        "{all:?}"
    );
    twin.compare().await;
}

/// Case 55.
#[tokio::test]
async fn loading_the_same_configuration_changes_nothing() {
    let mut twin = Twin::new().await;
    let members = [
        ("ma", "5"),
        ("mb", "1"),
        ("mc", "1"),
        ("md", "1"),
        ("me", "1"),
    ];
    twin.pool("g", 1, FAIR, &members).await;
    twin.on(&["ma", "mb", "mc", "md", "me"]).await;
    let mut all = Vec::new();
    for i in 0..90 {
        all.push(twin.who("g", &format!("c{i}")).await.unwrap());
        // The order in which members are named is no change, a new version number is none either.
        let mut again = members;
        again.rotate_left(i % 5);
        let outcome = twin
            .apply(Op::SetPool(config("g", 1 + i as u64 / 2, FAIR, &again)))
            .await;
        assert_eq!(outcome.answer, Answer::Pool(PoolChange::Same));
    }
    let expected = BTreeMap::from([("ma", 50), ("mb", 10), ("mc", 10), ("md", 10), ("me", 10)]);
    assert_eq!(counts(&all), expected);
    twin.compare().await;
}

/// Case 115.
#[tokio::test]
async fn fractions_survive() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "0.5"), ("mb", "1.5"), ("mc", "2.5")])
        .await;
    twin.on(&["ma", "mb", "mc"]).await;
    let all = picks(&mut twin, 90).await;
    assert_eq!(
        counts(&all),
        BTreeMap::from([("ma", 10), ("mb", 30), ("mc", 50)])
    );
    twin.compare().await;

    let mut least = Twin::new().await;
    least
        .pool(
            "g",
            1,
            Strategy::LeastLoad,
            &[("ma", "0.5"), ("mb", "1.5"), ("mc", "2.5")],
        )
        .await;
    least.on(&["ma", "mb", "mc"]).await;
    let all = picks(&mut least, 90).await;
    assert_eq!(
        counts(&all),
        BTreeMap::from([("ma", 10), ("mb", 30), ("mc", 50)])
    );
    least.compare().await;
}

/// Case 56.
#[tokio::test]
async fn a_weight_of_zero_gets_nothing() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "0"), ("mb", "0")]).await;
    twin.on(&["ma", "mb"]).await;
    assert_eq!(twin.who("g", "wmC001").await, None);
    let outcome = twin
        .apply(Op::SetPool(config(
            "g",
            2,
            FAIR,
            &[("ma", "0"), ("mb", "1")],
        )))
        .await;
    assert_eq!(outcome.woken.len(), 1);
    assert_eq!(outcome.woken[0].member, member("mb"));
    twin.compare().await;
}

/// Case 59.
#[tokio::test]
async fn who_comes_and_goes_gets_his_share_of_what_he_was_there_for() {
    let names = ["ma", "mb", "mc", "md", "me"];
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &names.map(|name| (name, "1")))
        .await;
    twin.on(&names).await;
    let mut there = [true; 5];
    let (mut entitled, mut got) = ([0.0; 5], [0.0; 5]);
    let mut random = 7_u64;
    for round in 0..203 {
        let n_there = there.iter().filter(|on| **on).count() as f64;
        let who = twin.who("g", &format!("c{round}")).await;
        match who {
            None => assert_eq!(n_there, 0.0),
            Some(who) => {
                for i in 0..5 {
                    entitled[i] += if there[i] { 1.0 / n_there } else { 0.0 };
                    got[i] += if names[i] == who { 1.0 } else { 0.0 };
                }
            }
        }
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let toggle = match round {
            0 => Some(1),
            1 => None,
            2 => {
                there[1] = true;
                twin.on(&["mb"]).await;
                Some(0)
            }
            _ => Some((random >> 33) as usize % 5),
        };
        if let Some(i) = toggle {
            there[i] = !there[i];
            match there[i] {
                true => twin.on(&[names[i]]).await,
                false => twin.off(&[names[i]]).await,
            };
        }
    }
    for i in 0..5 {
        // Those who waited for somebody to come were handed out meanwhile.
        let distance: f64 = got[i] - entitled[i];
        assert!(distance.abs() <= 3.0, "{names:?} {entitled:?} {got:?}");
    }
    twin.compare().await;
}
