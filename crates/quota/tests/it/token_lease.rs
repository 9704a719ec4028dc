use crate::support::{T0, assert_all_expire};
use crate::token_load::tokens;

/// Case 45: the lease of a process that died while it renewed ends by itself.
#[tokio::test]
async fn case_45_the_lease_of_a_dead_holder_ends() {
    let (corp, tokens) = tokens().await;
    let lease = async |owner: &str, now: i64| {
        tokens
            .try_lease("a", owner, 10_000, Some(now))
            .await
            .unwrap()
    };
    assert!(lease("process1", T0).await);
    assert!(!lease("process2", T0 + 9_999).await);
    assert_all_expire(&corp.conn, &corp.id).await;
    assert!(lease("process2", T0 + 10_000).await);
    assert!(!lease("process1", T0 + 10_000).await);
}

#[tokio::test]
async fn the_same_owner_may_ask_again() {
    let (_, tokens) = tokens().await;
    assert!(tokens.try_lease("a", "p", 10_000, Some(T0)).await.unwrap());
    assert!(
        tokens
            .try_lease("a", "p", 10_000, Some(T0 + 5_000))
            .await
            .unwrap()
    );
    assert!(
        !tokens
            .try_lease("a", "q", 10_000, Some(T0 + 12_000))
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn of_many_at_once_one_gets_it() {
    let (_, tokens) = tokens().await;
    let tries = (0..50).map(|i| {
        let tokens = tokens.clone();
        async move {
            tokens
                .try_lease("a", &format!("p{i}"), 10_000, Some(T0))
                .await
                .unwrap()
        }
    });
    let got = futures_util::future::join_all(tries).await;
    assert_eq!(got.iter().filter(|got| **got).count(), 1);
}
