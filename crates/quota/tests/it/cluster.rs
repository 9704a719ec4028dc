//! All keys of one script call are in one slot: a clustered Redis refuses anything else.

use quota::{Acquired, Limits, Locks, Outcome, Quota, Take, Times, Tokens, Urgency};

use crate::support::T0;
use crate::token_load::token;

#[tokio::test]
async fn every_script_runs_on_a_cluster() {
    let conn = test_redis::shared_cluster().cluster_connection().await;
    let corp = test_redis::corp();
    let locks = Locks::new(conn.clone(), Times::default());
    locks.fence_seed(&corp, 1, 0).await.unwrap();
    let quota = Quota::new(conn.clone(), Limits::default()).with_egress("198.51.100.7");
    for outcome in [
        Outcome::Ok,
        Outcome::Unused,
        Outcome::RateLimited(quota::Rule::Hour),
    ] {
        let Take::Taken(permit) = quota
            .take(&corp, "list", Urgency::Ordinary, Some(T0))
            .await
            .unwrap()
        else {
            panic!("nothing is used yet")
        };
        permit.done(outcome, Some(T0)).await.unwrap();
    }
    quota
        .block(&corp, "other", T0 + 9_000, Some(T0))
        .await
        .unwrap();
    quota
        .block_egress("other", T0 + 9_000, Some(T0))
        .await
        .unwrap();
    assert_eq!(quota.blocks(&corp, Some(T0)).await.unwrap().len(), 2);

    let Acquired::Held(held) = locks
        .acquire(&corp, &["customer:1", "taker:mA"])
        .await
        .unwrap()
    else {
        panic!("nobody else is here")
    };
    held.release().await;
    let tokens = Tokens::new(conn, &corp);
    assert!(tokens.try_lease("app", "p", 10_000, None).await.unwrap());
    tokens
        .store_if("app", None, &token("V1", T0 + 9_000), Some(T0))
        .await
        .unwrap();
    assert!(tokens.load("app", Some(T0)).await.unwrap().is_some());
    assert!(tokens.release("app", "p").await.unwrap());
}
