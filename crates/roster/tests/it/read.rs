//! Reading parts of the state: what the rules see, and nothing made up.

use allocation::{Decision, Op, RequestId, Strategy};
use roster::{PoolVersion, Remembered};

use crate::support::*;

#[tokio::test]
async fn members_allocations_and_versions_are_those_of_the_model() {
    let mut twin = Twin::new().await;
    twin.pool(
        "p",
        3,
        Strategy::WeightedRoundRobin,
        &[("a", "2"), ("b", "1")],
    )
    .await;
    twin.lease(&["a"], twin.now + HOUR).await;
    twin.cap("b", 4).await;
    twin.ask("p", "s").await;
    let redis = twin.redis.clone();

    assert_eq!(
        redis.leases().await.unwrap(),
        [(member("a"), twin.now + HOUR)]
    );
    assert_eq!(
        redis
            .leases_of(&[member("nobody"), member("a")])
            .await
            .unwrap(),
        [None, Some(twin.now + HOUR)]
    );
    let views: Vec<_> = twin.model.members().collect();
    let ids = [member("a"), member("b"), member("nobody")];
    assert_eq!(redis.members(&ids).await.unwrap(), views);
    let views: Vec<_> = twin.model.allocations().collect();
    assert_eq!(views.len(), 1);
    assert_eq!(redis.allocations_of(&subject("s")).await.unwrap(), views);
    assert_eq!(redis.allocations_of(&subject("t")).await.unwrap(), []);

    let versions = redis.pool_versions(&[pool("q"), pool("p")]).await.unwrap();
    let version = |version, removed| Some(PoolVersion { version, removed });
    assert_eq!(versions, [None, version(3, false)]);
    twin.apply(Op::RemovePool {
        pool: pool("p"),
        version: 4,
    })
    .await;
    let versions = redis.pool_versions(&[pool("p")]).await.unwrap();
    assert_eq!(versions, [version(4, true)]);
}

#[tokio::test]
async fn a_remembered_request_is_read_back() {
    let mut twin = Twin::new().await;
    twin.pool("p", 1, Strategy::LeastLoad, &[("a", "1")]).await;
    let id = RequestId::new("r1").unwrap();
    assert_eq!(twin.redis.remembered(&id).await.unwrap(), None);
    assert_eq!(twin.redis.waiting(&pool("p")).await.unwrap(), 0);
    let mut asked = request("p", "s");
    asked.request = Some(id.clone());
    twin.apply(Op::Decide(vec![asked])).await;
    assert_eq!(twin.redis.waiting(&pool("p")).await.unwrap(), 1);
    let waiting = Decision::Waiting {
        allocation: allocation("p", "s"),
    };
    assert_eq!(
        twin.redis.remembered(&id).await.unwrap(),
        Some(Remembered {
            at_ms: twin.now,
            decision: waiting
        })
    );
}
