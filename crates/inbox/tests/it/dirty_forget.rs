//! `dirty_forget`.

use inbox::{DirtyCount, Inbox, connect::Connection};

use crate::support::{T0, fixture};

async fn counts(inbox: &Inbox<Connection>, kind: &str) -> (u64, u64) {
    let DirtyCount { waiting, taken } = inbox.dirty_count(kind).await.unwrap();
    (waiting, taken)
}

/// More than one page of either, and of one kind only.
#[tokio::test]
async fn marks_and_leases_of_one_person_go() {
    let f = fixture().await;
    let entities: Vec<String> = (0..3_000).map(|n| format!("m{n}/c{}", n % 3)).collect();
    let marks: Vec<_> = entities.iter().map(|e| (e.as_str(), T0)).collect();
    f.inbox.dirty_mark_many("pair", &marks).await.unwrap();
    f.inbox.dirty_mark("other", "m1/c1", T0).await.unwrap();
    f.inbox
        .dirty_take("pair", Some(T0), 1_500, 60_000)
        .await
        .unwrap();
    let his = |entity: &str| entity.ends_with("/c1");
    assert_eq!(f.inbox.dirty_forget("pair", his).await.unwrap(), 1_000);
    assert_eq!(f.inbox.dirty_forget("pair", his).await.unwrap(), 0);
    let (waiting, taken) = counts(&f.inbox, "pair").await;
    assert_eq!(waiting + taken, 2_000);
    assert_eq!(counts(&f.inbox, "other").await, (1, 0));
}

/// Whoever was reading ends a lease that is gone: nothing comes back.
#[tokio::test]
async fn a_lease_that_was_forgotten_leaves_no_mark() {
    let f = fixture().await;
    f.inbox.dirty_mark("pair", "m/c", T0).await.unwrap();
    let taken = f
        .inbox
        .dirty_take("pair", Some(T0), 1, 60_000)
        .await
        .unwrap();
    f.inbox.dirty_mark("pair", "m/c", T0).await.unwrap();
    assert_eq!(f.inbox.dirty_forget("pair", |_| true).await.unwrap(), 1);
    let ended = f.inbox.dirty_done("pair", &taken, Some(T0 + 1)).await;
    assert_eq!(ended.unwrap(), 0);
    assert_eq!(counts(&f.inbox, "pair").await, (0, 0));
}
