//! Redis' clock is set back by an hour, or jumps ahead. Every end is a stored time: nothing ends twice, no limit is exceeded,
//! and what was to end in the hour that comes again ends when the clock shows its end once more.

use allocation::{Op, Strategy, Visited, model::Corp};

use crate::limits::{limited, limits};
use crate::offers::asking;
use crate::support::*;
use crate::visits::slots_of;

const FAIR: Strategy = Strategy::WeightedRoundRobin;
const MINUTE: u64 = HOUR / 60;
const NOBODY: &[(&str, &str)] = &[];

impl Twin {
    /// The log gives the state, though its times go back.
    async fn folds(&self) {
        self.compare().await;
        let mut folded = Corp::new();
        for entry in self.redis.log_read(0, 10_000).await.unwrap() {
            folded.fold(&entry).unwrap();
        }
        assert_same(&folded.dump(), &self.model.dump());
    }
}

#[tokio::test]
async fn a_limit_holds_through_the_hour_that_comes_twice() {
    let mut twin = Twin::new().await;
    let (of_member, of_pool) = (
        limits(None, Some(2), Some(3)),
        limits(Some(9), Some(2), None),
    );
    twin.apply(Op::SetPool(limited("g", 1, &[("ma", "1", of_pool)])))
        .await;
    // The day ends in ten hours, the hour in one.
    let day_end = twin.now + 10 * HOUR;
    twin.limit("ma", of_member, day_end).await;
    twin.on(&["ma"]).await;
    twin.now += 50 * MINUTE;
    for customer in ["c1", "c2"] {
        assert_eq!(twin.who("g", customer).await.as_deref(), Some("ma"));
    }
    assert_eq!(twin.who("g", "c3").await, None);
    twin.now -= HOUR;
    assert_eq!(twin.who("g", "c4").await, None, "the same two count");
    let given = twin.given("ma");
    assert_eq!((given.in_hour, given.hour_end_ms), (2, T0 + HOUR));
    // Somebody compares meanwhile, and the end of the day is told anew.
    twin.limit("ma", of_member, day_end).await;
    twin.now += 55 * MINUTE;
    assert_eq!(twin.who("g", "c5").await, None);
    twin.folds().await;
    // The hour is over when its end is shown; the day's third one is who waited longest.
    twin.now = T0 + HOUR;
    assert_eq!(twin.who("g", "c6").await, None);
    assert_eq!((twin.load("ma"), twin.given("ma").on_day), (3, 3));
    twin.now = day_end;
    assert_eq!(twin.who("g", "c7").await, None);
    assert_eq!((twin.load("ma"), twin.given("ma").on_day), (5, 2));
    twin.folds().await;
}

#[tokio::test]
async fn a_lease_a_hold_and_an_offer_end_once() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1"), ("mb", "1")]).await;
    twin.apply(Op::SetPool(asking("q", 1, &["mc", "md"], 5)))
        .await;
    twin.apply(Op::SetSlots(slots_of("ma", &["s1"]))).await;
    let start = twin.now;
    twin.lease(&["ma"], start + 5 * MINUTE).await;
    twin.on(&["mc", "md"]).await;
    let Visited::Held { slot, until_ms, .. } = twin.visit("v1").await else {
        panic!("ma is there")
    };
    assert_eq!(slot.unwrap().as_str(), "s1");
    twin.apply(Op::Decide(vec![request("q", "c1")])).await;
    let (first, _) = twin.asked("c1");
    twin.now += MINUTE / 6;
    let later = twin.now;
    twin.now -= HOUR;
    // Nothing has ended, and nothing can be had twice.
    assert_eq!(twin.expire().await, []);
    assert_eq!(twin.reclaim(64).await, []);
    let again = twin.visit("v1").await;
    assert!(
        matches!(again, Visited::Again { until_ms: same, .. } if same == until_ms),
        "{again:?}"
    );
    assert_eq!(twin.asked("c1"), (first.clone(), 0));
    assert_eq!(twin.who("g", "c2").await.as_deref(), Some("ma"));
    twin.folds().await;
    // Up to the same minute the ends are those that were stored.
    twin.now = later;
    assert_eq!(twin.reclaim(64).await, []);
    twin.now = start + MINUTE;
    assert_eq!(twin.reclaim(64).await.len(), 1);
    assert_ne!(twin.asked("c1").0, first);
    twin.now -= MINUTE / 2;
    assert_eq!(twin.reclaim(64).await, [], "the second offer began before");
    twin.now = start + 5 * MINUTE;
    assert_eq!(twin.who("g", "c3").await, None, "his lease is over");
    twin.now = until_ms;
    assert_eq!(twin.expire().await.len(), 1);
    twin.now -= HOUR;
    assert_eq!(twin.expire().await, []);
    assert_eq!(twin.load("ma"), 1);
    twin.folds().await;
}

/// An hour is skipped: all that was to end in it is over, once, and nobody has two.
#[tokio::test]
async fn what_was_to_end_in_a_skipped_hour_is_over_at_once() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1"), ("mb", "1")]).await;
    let start = twin.now;
    twin.lease(&["ma"], start + 5 * MINUTE).await;
    twin.visit("v1").await;
    twin.who("g", "c1").await;
    twin.on(&["mb"]).await;
    assert_eq!(twin.load("ma"), 2);
    twin.now += HOUR;
    assert_eq!(twin.who("g", "c2").await.as_deref(), Some("mb"));
    assert_eq!(twin.expire().await.len(), 1);
    assert_eq!(twin.load("ma"), 1);
    // It was a mistake, and is set right: who was off is off until he is heard from, what ended stays ended.
    twin.now -= HOUR;
    assert_eq!(twin.expire().await, []);
    assert_eq!(twin.who("g", "c3").await.as_deref(), Some("mb"));
    let until = twin.now + 5 * MINUTE;
    twin.lease(&["ma"], until).await;
    assert_eq!(twin.who("g", "c4").await.as_deref(), Some("ma"));
    assert_eq!(twin.load("ma") + twin.load("mb"), 4);
    twin.folds().await;
    twin.pool("g", 2, FAIR, NOBODY).await;
    twin.folds().await;
}
