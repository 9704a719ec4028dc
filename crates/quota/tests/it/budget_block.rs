use quota::{Blocked, Reason};

use crate::support::{Corp, T0, assert_all_expire, passes, small, waits};

#[tokio::test]
async fn a_block_is_raised_never_shortened_and_lifted_only_on_purpose() {
    let corp = Corp::new(small()).await;
    let block = async |until: i64| {
        corp.quota
            .block(&corp.id, "x", until, Some(T0))
            .await
            .unwrap()
    };
    block(T0 + 9_000).await;
    block(T0 + 3_000).await;
    assert_eq!(
        waits(corp.take("x", T0).await),
        (Reason::Blocked, T0 + 9_000)
    );
    assert_all_expire(&corp.conn, &corp.id).await;
    let blocks = corp.quota.blocks(&corp.id, Some(T0)).await.unwrap();
    assert_eq!(
        blocks,
        [Blocked {
            api: "x".into(),
            until_ms: T0 + 9_000
        }]
    );
    assert_eq!(
        corp.quota.blocks(&corp.id, Some(T0 + 9_000)).await.unwrap(),
        []
    );
    corp.quota.unblock(&corp.id, "x", Some(T0)).await.unwrap();
    passes(corp.take("x", T0).await);
}

#[tokio::test]
async fn a_block_that_is_over_is_none() {
    let corp = Corp::new(small()).await;
    corp.quota
        .block(&corp.id, "x", T0 - 1, Some(T0))
        .await
        .unwrap();
    assert_eq!(corp.quota.blocks(&corp.id, Some(T0)).await.unwrap(), []);
    passes(corp.take("x", T0).await);
}

#[tokio::test]
async fn nothing_is_blocked_for_longer_than_a_month() {
    let corp = Corp::new(small()).await;
    corp.quota
        .block(&corp.id, "x", i64::from(u32::MAX) * 1_000, Some(T0))
        .await
        .unwrap();
    assert_eq!(waits(corp.take("x", T0).await).1, T0 + 31 * 86_400_000);
}
