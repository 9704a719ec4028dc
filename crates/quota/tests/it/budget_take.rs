use quota::{Error, Limits, Outcome, Reason, Urgency};
use redis::AsyncCommands;

use crate::support::{Corp, T0, assert_all_expire, passes, small, taken, waits};

#[tokio::test]
async fn a_call_takes_a_place_and_gives_it_back() {
    let corp = Corp::new(small()).await;
    let first = taken(corp.take("list", T0).await);
    let _second = taken(corp.take("list", T0).await);
    assert_eq!(
        waits(corp.take("list", T0).await),
        (Reason::InFlight, T0 + 50)
    );
    first.done(Outcome::Ok, Some(T0 + 10)).await.unwrap();
    passes(corp.take("list", T0 + 10).await);
}

#[tokio::test]
async fn the_window_is_full_until_its_oldest_bucket_leaves() {
    let corp = Corp::new(small()).await;
    for i in 0..4 {
        corp.call("list", Outcome::Ok, T0 + i * 5_000).await;
    }
    // The first of them was counted in the bucket [T0, T0 + 5 s), which leaves the 13 buckets 65 s after its start.
    assert_eq!(
        waits(corp.take("list", T0 + 16_000).await),
        (Reason::Minute, T0 + 65_000)
    );
    assert_eq!(
        waits(corp.take("list", T0 + 64_999).await),
        (Reason::Minute, T0 + 65_000)
    );
    passes(corp.take("list", T0 + 65_000).await);
}

#[tokio::test]
async fn the_hour_window_holds_when_the_minute_has_room() {
    let corp = Corp::new(small()).await;
    for i in 0..16 {
        corp.call("list", Outcome::Ok, T0 + i * 70_000).await;
    }
    let now = T0 + 16 * 70_000;
    let (reason, until) = waits(corp.take("list", now).await);
    assert_eq!(reason, Reason::Hour);
    assert!(until > T0 + 3_600_000 && until <= T0 + 3_900_000, "{until}");
    passes(corp.take("list", until).await);
}

#[tokio::test]
async fn the_last_part_of_a_window_is_for_urgent_calls() {
    let corp = Corp::new(small()).await;
    for _ in 0..4 {
        corp.call("welcome", Outcome::Ok, T0).await;
    }
    assert_eq!(waits(corp.take("welcome", T0).await).0, Reason::Minute);
    let urgent = taken(corp.take_urgent("welcome", T0).await);
    urgent.done(Outcome::Ok, Some(T0)).await.unwrap();
    assert_eq!(
        waits(corp.take_urgent("welcome", T0).await).0,
        Reason::Minute
    );
}

#[tokio::test]
async fn an_urgent_call_gets_the_next_place() {
    let corp = Corp::new(small()).await;
    let first = taken(corp.take("welcome", T0).await);
    let _second = taken(corp.take("welcome", T0).await);
    assert_eq!(
        waits(corp.take_urgent("welcome", T0).await),
        (Reason::InFlight, T0 + 50)
    );
    first.done(Outcome::Ok, Some(T0 + 20)).await.unwrap();
    // An ordinary call steps back although there is a place, but not for ever.
    assert_eq!(
        waits(corp.take("welcome", T0 + 20).await),
        (Reason::Urgent, T0 + 250)
    );
    let urgent = taken(corp.take_urgent("welcome", T0 + 50).await);
    urgent.done(Outcome::Ok, Some(T0 + 60)).await.unwrap();
    passes(corp.take("welcome", T0 + 60).await);
}

#[tokio::test]
async fn ordinary_calls_go_on_when_the_urgent_one_went_away() {
    let corp = Corp::new(small()).await;
    let first = taken(corp.take("welcome", T0).await);
    let _second = taken(corp.take("welcome", T0).await);
    waits(corp.take_urgent("welcome", T0).await);
    first.done(Outcome::Ok, Some(T0)).await.unwrap();
    passes(corp.take("welcome", T0 + 250).await);
}

#[tokio::test]
async fn a_dead_process_gives_its_places_back_when_their_leases_end() {
    let corp = Corp::new(small()).await;
    std::mem::forget(taken(corp.take("list", T0).await));
    std::mem::forget(taken(corp.take("list", T0 + 1_000).await));
    assert_eq!(
        waits(corp.take("list", T0 + 19_999).await).0,
        Reason::InFlight
    );
    passes(corp.take("list", T0 + 20_000).await);
    assert_eq!(
        waits(corp.take("list", T0 + 20_000).await).0,
        Reason::InFlight
    );
}

/// Case 53: a block stops one API of one corp and nothing else.
#[tokio::test]
async fn case_53_budgets_are_apart_by_corp_and_api() {
    let (a, b) = (Corp::new(small()).await, Corp::new(small()).await);
    let until = a
        .call(
            "list",
            Outcome::RateLimited(quota::Rule::Unknown),
            T0 + 10_000,
        )
        .await;
    assert_eq!(until, Some(T0 + 70_000));
    for now in [T0 + 10_000, T0 + 40_000, T0 + 69_999] {
        assert_eq!(
            waits(a.take("list", now).await),
            (Reason::Blocked, T0 + 70_000)
        );
    }
    a.call("transfer", Outcome::Ok, T0 + 20_000).await;
    b.call("list", Outcome::Ok, T0 + 20_000).await;
    a.call("list", Outcome::Ok, T0 + 70_000).await;
}

/// Case 50: count and expiry are one script, and a planted counter without expiry does not stop us.
#[tokio::test]
async fn case_50_no_counter_is_without_expiry() {
    let corp = Corp::new(small()).await;
    let mut conn = corp.conn();
    let budget = format!("{{{}}}:v1:budget:list", corp.id);
    let flight = format!("{{{}}}:v1:flight:list", corp.id);

    let _: () = conn.set(&budget, 999).await.unwrap();
    let _: () = conn.set(&flight, 999).await.unwrap();
    taken(corp.take("list", T0).await)
        .done(Outcome::Ok, Some(T0))
        .await
        .unwrap();
    assert_all_expire(&corp.conn, &corp.id).await;

    let bucket = T0 / 5_000;
    let _: () = conn.del(&[&budget, &flight]).await.unwrap();
    let _: () = conn
        .hset(&budget, "minute", format!("{bucket} 999"))
        .await
        .unwrap();
    let _: () = conn.zadd(&flight, "nobody", "inf").await.unwrap();
    assert_eq!(
        waits(corp.take("list", T0).await),
        (Reason::Minute, T0 + 65_000)
    );
    assert_all_expire(&corp.conn, &corp.id).await;
    passes(corp.take("list", T0 + 65_000).await);
    passes(corp.take("list", T0 + 65_000).await);
}

#[tokio::test]
async fn a_clock_that_was_set_back_forgets_nothing_and_stops_nothing_for_ever() {
    let corp = Corp::new(small()).await;
    let day = 86_400_000;
    for _ in 0..4 {
        corp.call("list", Outcome::Ok, T0 + day).await;
    }
    std::mem::forget(corp.take_urgent("list", T0 + day).await);
    assert_eq!(
        waits(corp.take("list", T0).await),
        (Reason::Minute, T0 + 65_000)
    );
    passes(corp.take("list", T0 + 70_000).await);
    passes(corp.take("list", T0 + 70_000).await);
}

/// Redis was emptied: nothing may be called before the blocks are restored.
#[tokio::test]
async fn closed_until_seeded() {
    let corp = Corp::closed(Limits::default()).await;
    let error = corp
        .quota
        .take(&corp.id, "list", Urgency::Ordinary, Some(T0))
        .await;
    assert!(matches!(error, Err(Error::Closed)), "{error:?}");
    corp.quota
        .block(&corp.id, "list", T0 + 5_000, Some(T0))
        .await
        .unwrap();
    corp.seed(7, 100).await;
    assert_eq!(
        waits(corp.take("list", T0).await),
        (Reason::Blocked, T0 + 5_000)
    );
    passes(corp.take("other", T0).await);
}

#[tokio::test]
async fn without_a_time_the_script_asks_redis() {
    let corp = Corp::new(small()).await;
    let take = corp.quota.take(&corp.id, "list", Urgency::Ordinary, None);
    taken(take.await.unwrap())
        .done(Outcome::Ok, None)
        .await
        .unwrap();
    let usage = corp.quota.usage(&corp.id, None).await.unwrap();
    assert_eq!((usage[0].minute_used, usage[0].in_flight), (1, 0));
}
