use quota::{ApiLimits, Outcome};

use crate::support::{Corp, T0, small, taken};

#[tokio::test]
async fn usage_shows_what_is_used_of_what() {
    let mut limits = small();
    limits.apis.insert(
        "b".into(),
        ApiLimits {
            in_flight: Some(9),
            ..ApiLimits::default()
        },
    );
    let corp = Corp::new(limits).await;
    corp.call("a", Outcome::Ok, T0).await;
    let _permit = taken(corp.take("a", T0 + 61_000).await);
    corp.quota
        .block(&corp.id, "b", T0 + 90_000, Some(T0))
        .await
        .unwrap();

    let usage = corp.quota.usage(&corp.id, Some(T0 + 70_000)).await.unwrap();
    let [a, b] = usage.as_slice() else {
        panic!("{usage:?}")
    };
    assert_eq!((a.api.as_str(), a.minute_used, a.minute_limit), ("a", 1, 5));
    assert_eq!((a.hour_used, a.hour_limit), (2, 20));
    assert_eq!(
        (a.in_flight, a.in_flight_limit, a.blocked_until_ms),
        (1, 2, None)
    );
    assert_eq!(
        (b.api.as_str(), b.minute_used, b.in_flight_limit),
        ("b", 0, 9)
    );
    assert_eq!(b.blocked_until_ms, Some(T0 + 90_000));
}

#[tokio::test]
async fn an_unused_corp_has_nothing_to_show() {
    let corp = Corp::closed(small()).await;
    assert_eq!(corp.quota.usage(&corp.id, None).await.unwrap(), []);
    assert_eq!(corp.keys().await, Vec::<String>::new());
}
