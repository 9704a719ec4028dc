//! Ending allocations.

use allocation::{Answer, Closed, Op, Strategy};

use crate::support::*;

fn closed(answer: Answer) -> Vec<Closed> {
    match answer {
        Answer::Closed(closed) => closed,
        other => panic!("{other:?}"),
    }
}

async fn one_member(cap: u32) -> Twin {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, Strategy::WeightedRoundRobin, &[("ma", "1")])
        .await;
    twin.cap("ma", cap).await;
    twin.on(&["ma"]).await;
    twin
}

/// Case 76.
#[tokio::test]
async fn closing_the_unknown_frees_nothing() {
    let mut twin = one_member(2).await;
    for name in ["x1", "x2", "x3"] {
        assert_eq!(closed(twin.close(name).await.answer), []);
    }
    let mut given = 0;
    for i in 0..5 {
        given += usize::from(twin.who("g", &format!("c{i}")).await.is_some());
    }
    assert_eq!((given, twin.model.waiting(&pool("g")).len()), (2, 3));
    twin.compare().await;
}

/// Case 80.
#[tokio::test]
async fn repeated_events_count_once() {
    let mut twin = one_member(5).await;
    twin.close("wmC002").await;
    for _ in 0..3 {
        twin.ask("g", "wmC001").await;
    }
    assert_eq!(twin.load("ma"), 1);
    for _ in 0..3 {
        twin.close("wmC001").await;
    }
    twin.close("wmC002").await;
    assert_eq!(twin.load("ma"), 0);
    twin.compare().await;
}

#[tokio::test]
async fn only_what_matches_ends() {
    let mut twin = one_member(10).await;
    twin.pool("h", 1, Strategy::LeastLoad, &[("mb", "1")]).await;
    twin.on(&["mb"]).await;
    twin.ask("g", "c1").await;
    twin.ask("h", "c1").await;
    let mut other_member = closing("c1");
    other_member.member = Some(member("mc"));
    assert_eq!(
        closed(twin.apply(Op::Close(vec![other_member])).await.answer),
        []
    );
    let mut other_allocation = closing("c1");
    other_allocation.allocation = Some(allocation("g", "c2"));
    assert_eq!(
        closed(twin.apply(Op::Close(vec![other_allocation])).await.answer),
        []
    );
    let mut by_member = closing("c1");
    by_member.member = Some(member("mb"));
    let answer = closed(twin.apply(Op::Close(vec![by_member])).await.answer);
    assert_eq!((answer.len(), &answer[0].pool), (1, &pool("h")));
    let mut by_pool = closing("c1");
    by_pool.pool = Some(pool("g"));
    assert_eq!(
        closed(twin.apply(Op::Close(vec![by_pool])).await.answer).len(),
        1
    );
    assert_eq!(twin.load("ma") + twin.load("mb"), 0);
    twin.compare().await;
}
