use quota::{Outcome, Reason, Rule};

use crate::support::{Corp, T0, passes, small, taken, waits};

#[tokio::test]
async fn a_block_lasts_as_long_as_the_rule_that_was_broken() {
    // T0 is 01:46:40 on 15 October 2026 in China.
    let midnight = 1_792_080_000_000;
    let cases = [
        (Rule::Minute, T0 + 60_000),
        (Rule::Hour, T0 + 3_600_000),
        (Rule::Day, midnight),
        (Rule::Month, T0 + 30 * 86_400_000),
        (Rule::Unknown, T0 + 60_000),
    ];
    for (rule, until) in cases {
        let corp = Corp::new(small()).await;
        assert_eq!(
            corp.call("x", Outcome::RateLimited(rule), T0).await,
            Some(until),
            "{rule:?}"
        );
        assert_eq!(
            waits(corp.take("x", until - 1).await),
            (Reason::Blocked, until)
        );
        passes(corp.take("x", until).await);
    }
}

#[tokio::test]
async fn an_unnamed_rule_is_the_minute_then_the_hour_then_the_day() {
    let corp = Corp::new(small()).await;
    let limited = Outcome::RateLimited(Rule::Unknown);
    let minute = corp.call("x", limited, T0).await.unwrap();
    let hour = corp.call("x", limited, minute).await.unwrap();
    assert_eq!(hour, minute + 3_600_000);
    let day = corp.call("x", limited, hour + 59_999).await.unwrap();
    assert_eq!((day + 8 * 3_600_000) % 86_400_000, 0, "midnight in China");
    // A call that went through says that the block was long enough.
    corp.call("x", Outcome::Ok, day).await;
    assert_eq!(
        corp.call("x", limited, day + 1_000).await,
        Some(day + 61_000)
    );
}

/// All calls in flight hear the same refusal: that is one strike, not five.
#[tokio::test]
async fn refusals_of_one_round_are_one_strike() {
    let corp = Corp::new(small()).await;
    let (a, b) = (
        taken(corp.take("x", T0).await),
        taken(corp.take("x", T0).await),
    );
    let limited = Outcome::RateLimited(Rule::Unknown);
    assert_eq!(a.done(limited, Some(T0)).await.unwrap(), Some(T0 + 60_000));
    assert_eq!(
        b.done(limited, Some(T0 + 90)).await.unwrap(),
        Some(T0 + 60_090)
    );
}

/// A call that had gone out before the block says nothing about what comes after it.
#[tokio::test]
async fn a_late_success_does_not_forget_the_strike() {
    let corp = Corp::new(small()).await;
    let (a, b) = (
        taken(corp.take("x", T0).await),
        taken(corp.take("x", T0).await),
    );
    let limited = Outcome::RateLimited(Rule::Unknown);
    let until = a.done(limited, Some(T0)).await.unwrap().unwrap();
    b.done(Outcome::Ok, Some(T0 + 10)).await.unwrap();
    assert_eq!(
        corp.call("x", limited, until).await,
        Some(until + 3_600_000)
    );
}

/// Case 47: after 45033 fewer calls go out at once, then slowly more again.
#[tokio::test]
async fn case_47_concurrency_shrinks_and_grows_back() {
    let corp = Corp::new(quota::Limits::default()).await;
    let mut round = Vec::new();
    for _ in 0..5 {
        round.push(taken(corp.take("list", T0).await));
    }
    assert_eq!(waits(corp.take("list", T0).await).0, Reason::InFlight);
    // Three of one round are refused: the places are halved once, not three times.
    for permit in &round[..3] {
        permit.done(Outcome::Concurrency, Some(T0)).await.unwrap();
    }
    assert_eq!(
        waits(corp.take("list", T0).await).0,
        Reason::InFlight,
        "two still run"
    );
    for permit in &round[3..] {
        permit.done(Outcome::Ok, Some(T0)).await.unwrap();
    }
    let two = [
        taken(corp.take("list", T0).await),
        taken(corp.take("list", T0).await),
    ];
    assert_eq!(waits(corp.take("list", T0).await).0, Reason::InFlight);
    for permit in &two {
        permit.done(Outcome::Concurrency, Some(T0)).await.unwrap();
    }
    let one = taken(corp.take("list", T0).await);
    one.done(Outcome::Concurrency, Some(T0)).await.unwrap();
    std::mem::forget(taken(corp.take("list", T0).await));
    assert_eq!(
        waits(corp.take("list", T0).await).0,
        Reason::InFlight,
        "never below one"
    );
    let usage = corp.quota.usage(&corp.id, Some(T0 + 60_000)).await.unwrap();
    assert_eq!(usage[0].in_flight_limit, 3);
    for _ in 0..5 {
        std::mem::forget(taken(corp.take("list", T0 + 120_000).await));
    }
    assert_eq!(
        waits(corp.take("list", T0 + 120_000).await).0,
        Reason::InFlight
    );
}

#[tokio::test]
async fn a_call_that_was_not_made_is_not_counted() {
    let corp = Corp::new(small()).await;
    let permit = taken(corp.take("x", T0).await);
    permit
        .done(Outcome::Unused, Some(T0 + 6_000))
        .await
        .unwrap();
    permit
        .done(Outcome::Unused, Some(T0 + 6_000))
        .await
        .unwrap();
    let usage = corp.quota.usage(&corp.id, Some(T0 + 6_000)).await.unwrap();
    assert_eq!(
        (usage[0].minute_used, usage[0].hour_used, usage[0].in_flight),
        (0, 0, 0)
    );
}

#[tokio::test]
async fn twice_is_once() {
    let corp = Corp::new(small()).await;
    let (a, b) = (
        taken(corp.take("x", T0).await),
        taken(corp.take("x", T0).await),
    );
    a.done(Outcome::Ok, Some(T0)).await.unwrap();
    a.done(Outcome::Ok, Some(T0)).await.unwrap();
    let _c = taken(corp.take("x", T0).await);
    assert_eq!(waits(corp.take("x", T0).await).0, Reason::InFlight);
    drop(b);
}
