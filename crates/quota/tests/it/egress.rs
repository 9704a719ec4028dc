//! The address we call from: shared by all corps, asked after the corp.

use quota::{Outcome, Reason, Scope, Take};

use crate::support::{Corp, T0, keys_of, passes, small};

async fn behind(address: &str, egress_per_minute: u32) -> Corp {
    let mut limits = small();
    limits.in_flight = 50;
    limits.per_minute = 100;
    limits.per_hour = 100;
    limits.egress_per_minute = egress_per_minute;
    let mut corp = Corp::new(limits).await;
    corp.quota = corp.quota.clone().with_egress(address);
    corp
}

#[tokio::test]
async fn corps_share_the_limits_of_their_address_and_the_corps_place_is_given_back() {
    let address = test_redis::corp();
    let (a, b) = (behind(&address, 10).await, behind(&address, 10).await);
    for i in 0..8 {
        let corp = if i % 2 == 0 { &a } else { &b };
        corp.call("list", Outcome::Ok, T0).await;
    }
    let take = a.take("list", T0).await;
    assert!(
        matches!(take, Take::Wait { reason: Reason::Minute, scope: Scope::Egress, until_ms } if until_ms == T0 + 65_000),
        "{take:?}"
    );
    let usage = a.quota.usage(&a.id, Some(T0)).await.unwrap();
    assert_eq!(
        (usage[0].minute_used, usage[0].hour_used, usage[0].in_flight),
        (4, 4, 0)
    );
    passes(b.take("other", T0).await);
    assert_eq!(
        keys_of(&a.conn, &format!("egress:{address}")).await.len(),
        3,
        "budgets of two apis, one index"
    );
}

#[tokio::test]
async fn a_block_of_the_address_stops_every_corp_behind_it() {
    let address = test_redis::corp();
    let (a, b) = (behind(&address, 100).await, behind(&address, 100).await);
    a.quota
        .block_egress("gettoken", T0 + 3_600_000, Some(T0))
        .await
        .unwrap();
    let take = b.take("gettoken", T0 + 3_599_999).await;
    assert!(
        matches!(
            take,
            Take::Wait {
                reason: Reason::Blocked,
                scope: Scope::Egress,
                ..
            }
        ),
        "{take:?}"
    );
    let elsewhere = behind(&test_redis::corp(), 100).await;
    passes(elsewhere.take("gettoken", T0).await);
}

#[tokio::test]
async fn a_call_that_was_not_made_is_counted_back_at_both() {
    let address = test_redis::corp();
    let a = behind(&address, 2).await;
    for _ in 0..5 {
        a.call("list", Outcome::Unused, T0).await;
    }
    a.call("list", Outcome::Ok, T0).await;
}
