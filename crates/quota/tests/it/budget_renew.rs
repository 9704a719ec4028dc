use quota::budget_renew::{Answered, BudgetRenew};
use quota::{BudgetKeys, Limits, Reason};
use redis::AsyncCommands;

use crate::support::{Corp, T0, assert_all_expire, small, take_as, waits};

const LEASE: u64 = 20_000;

/// Two in flight, and windows that are not reached.
fn limits() -> Limits {
    Limits {
        per_minute: 100,
        per_hour: 100,
        ..small()
    }
}

async fn take(corp: &Corp, permit: &str, now: i64) {
    let limits = corp.quota.limits().corp("api", false);
    let taken = take_as(corp, permit, limits, false, now).await;
    assert_eq!(
        taken,
        quota::budget_take::Taken::Taken {
            taken_ms: now,
            cap: 2
        }
    );
}

async fn renew(corp: &Corp, permit: &str, before_ms: i64, now: i64) -> Answered {
    let keys = BudgetKeys::corp(&corp.id, "api");
    let (answered, redis_ms) = BudgetRenew::default()
        .call(&mut corp.conn(), &keys, permit, LEASE, before_ms, Some(now))
        .await
        .unwrap();
    assert_eq!(redis_ms, now);
    answered
}

async fn in_flight(corp: &Corp, now: i64) -> i64 {
    corp.quota.usage(&corp.id, Some(now)).await.unwrap()[0].in_flight
}

#[tokio::test]
async fn a_renewed_place_is_held_for_another_lease_and_the_others_are_not() {
    let corp = Corp::new(limits()).await;
    take(&corp, "a", T0).await;
    take(&corp, "b", T0).await;
    let renewed = renew(&corp, "a", T0 + 16_000, T0 + 15_000).await;
    assert_eq!(renewed, Answered::Renewed);
    assert_eq!(in_flight(&corp, T0 + 19_999).await, 2);
    assert_eq!(in_flight(&corp, T0 + 20_000).await, 1);
    take(&corp, "c", T0 + 20_000).await;
    let third = corp.take("api", T0 + 34_999).await;
    assert_eq!(waits(third).0, Reason::InFlight);
    assert_eq!(in_flight(&corp, T0 + 35_000).await, 1);
    assert_all_expire(&corp.conn, &corp.id).await;
}

/// Its call is at WeCom whatever we have forgotten: it counts, and nobody else goes out until there is room again.
#[tokio::test]
async fn a_lost_place_is_taken_again_beyond_the_limit() {
    let corp = Corp::new(limits()).await;
    take(&corp, "a", T0).await;
    take(&corp, "b", T0 + 20_000).await;
    take(&corp, "c", T0 + 20_000).await;
    let retaken = renew(&corp, "a", T0 + 21_000, T0 + 20_001).await;
    assert_eq!(retaken, Answered::Retaken);
    assert_eq!(in_flight(&corp, T0 + 20_001).await, 3);
    assert_eq!(
        waits(corp.take("api", T0 + 20_001).await).0,
        Reason::InFlight
    );
    // The leases of the two others end; the one that renews counts.
    take(&corp, "d", T0 + 40_000).await;
    assert_eq!(
        waits(corp.take("api", T0 + 40_000).await).0,
        Reason::InFlight
    );

    // A lease that is over but not swept yet was lost as well.
    let over = renew(&corp, "a", T0 + 50_000, T0 + 40_001).await;
    assert_eq!(over, Answered::Retaken);
    // And so was everything when Redis was emptied.
    let _: () = corp.conn().del(corp.keys().await).await.unwrap();
    let emptied = renew(&corp, "d", T0 + 50_000, T0 + 40_002).await;
    assert_eq!(emptied, Answered::Retaken);
    assert_eq!(
        corp.keys().await,
        [BudgetKeys::corp(&corp.id, "api").flight]
    );
    assert_all_expire(&corp.conn, &corp.id).await;
}

/// A renewal that was held up on its way does not bring a place to life that was given back meanwhile.
#[tokio::test]
async fn a_late_renewal_does_nothing() {
    let corp = Corp::new(limits()).await;
    take(&corp, "a", T0).await;
    for now in [T0 + 1_000, T0 + 1_001, T0 + 90_000] {
        assert_eq!(renew(&corp, "a", T0 + 1_000, now).await, Answered::Late);
        assert_eq!(renew(&corp, "z", T0 + 1_000, now).await, Answered::Late);
    }
    assert_eq!(in_flight(&corp, T0 + 19_999).await, 1);
    assert_eq!(in_flight(&corp, T0 + 20_000).await, 0);
}

#[tokio::test]
async fn a_foreign_value_under_our_name_is_replaced() {
    let corp = Corp::new(limits()).await;
    let flight = BudgetKeys::corp(&corp.id, "api").flight;
    let _: () = corp.conn().set(&flight, "not ours").await.unwrap();
    assert_eq!(renew(&corp, "a", T0 + 1, T0).await, Answered::Retaken);
    assert_eq!(renew(&corp, "a", T0 + 1, T0).await, Answered::Renewed);
}
