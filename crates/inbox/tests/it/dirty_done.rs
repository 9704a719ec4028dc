//! `dirty_done`.

use inbox::{DirtyCount, Taken};

use crate::support::{T0, fixture};

#[tokio::test]
async fn ends_own_leases_only() {
    let f = fixture().await;
    f.inbox
        .dirty_mark_many("pair", &[("a", T0), ("b", T0)])
        .await
        .unwrap();
    let taken = f
        .inbox
        .dirty_take("pair", Some(T0), 10, 1_000)
        .await
        .unwrap();
    let foreign = Taken {
        entity: "b".into(),
        lease_until_ms: T0 + 999,
    };
    let leases = [taken[0].clone(), foreign];
    assert_eq!(f.inbox.dirty_done("pair", &leases, None).await.unwrap(), 1);
    assert_eq!(
        f.inbox.dirty_done("pair", &leases, None).await.unwrap(),
        0,
        "twice is once"
    );
    assert_eq!(f.inbox.dirty_done("pair", &[], None).await.unwrap(), 0);
    let count = f.inbox.dirty_count("pair").await.unwrap();
    assert_eq!(
        count,
        DirtyCount {
            waiting: 0,
            taken: 1
        }
    );
}

/// Reads at the source lag: whoever has read at 3 s wants to read at 30 s again.
#[tokio::test]
async fn again_is_due_then_unless_marked_for_earlier() {
    let f = fixture().await;
    f.inbox
        .dirty_mark_many("pair", &[("a", T0), ("b", T0)])
        .await
        .unwrap();
    let taken = f
        .inbox
        .dirty_take("pair", Some(T0), 10, 1_000)
        .await
        .unwrap();
    f.inbox.dirty_mark("pair", "b", T0 + 3_000).await.unwrap();
    assert_eq!(
        f.inbox
            .dirty_done("pair", &taken, Some(T0 + 30_000))
            .await
            .unwrap(),
        2
    );
    let early = f
        .inbox
        .dirty_take("pair", Some(T0 + 29_999), 10, 60_000)
        .await
        .unwrap();
    assert_eq!(early.len(), 1);
    assert_eq!(early[0].entity, "b");
    let late = f
        .inbox
        .dirty_take("pair", Some(T0 + 30_000), 10, 60_000)
        .await
        .unwrap();
    assert_eq!(late[0].entity, "a");
}
