use quota::lock_renew::{Answered, LockRenew};
use quota::{Limits, LockKeys};

use crate::lock_acquire::{acquire, held};
use crate::lock_release::release;
use crate::support::{Corp, T0};

async fn renew(corp: &Corp, names: &[&str], owner: &str, lease: u64, now: i64) -> Answered {
    LockRenew::default()
        .call(
            &mut corp.conn(),
            &LockKeys::new(&corp.id, names),
            owner,
            lease,
            Some(now),
        )
        .await
        .unwrap()
}

/// Case 66: a renewal never takes a lock again that was lost meanwhile.
#[tokio::test]
async fn case_66_no_silent_re_acquire() {
    let corp = Corp::new(Limits::default()).await;
    held(acquire(&corp, &["customer:1"], "worker1", 2_000, T0).await);
    held(acquire(&corp, &["customer:1"], "worker2", 2_000, T0 + 2_100).await);
    assert_eq!(release(&corp, &["customer:1"], "worker2").await, 1);
    assert_eq!(
        renew(&corp, &["customer:1"], "worker1", 2_000, T0 + 3_000).await,
        Answered::Lost { which: 0 }
    );
    // The same without a second worker: the lease is over, that is enough.
    held(acquire(&corp, &["customer:2"], "worker1", 2_000, T0).await);
    assert_eq!(
        renew(&corp, &["customer:2"], "worker1", 2_000, T0 + 2_000).await,
        Answered::Lost { which: 0 }
    );
}

/// Case 70: the longest hold bounds every renewal.
#[tokio::test]
async fn case_70_renewals_end() {
    let corp = Corp::new(Limits::default()).await;
    held(acquire(&corp, &["customer:1"], "a", 10_000, T0).await);
    let mut now = T0;
    while now < T0 + 50_000 {
        now += 5_000;
        assert_eq!(
            renew(&corp, &["customer:1"], "a", 10_000, now).await,
            Answered::Renewed { left_ms: 10_000 }
        );
    }
    assert_eq!(
        renew(&corp, &["customer:1"], "a", 10_000, T0 + 57_000).await,
        Answered::Renewed { left_ms: 3_000 }
    );
    assert_eq!(
        renew(&corp, &["customer:1"], "a", 10_000, T0 + 60_000).await,
        Answered::Lost { which: 0 }
    );
    held(acquire(&corp, &["customer:1"], "b", 10_000, T0 + 60_000).await);
}

#[tokio::test]
async fn all_names_are_renewed_or_none() {
    let corp = Corp::new(Limits::default()).await;
    held(acquire(&corp, &["a", "b"], "one", 10_000, T0).await);
    assert_eq!(release(&corp, &["b"], "one").await, 1);
    assert_eq!(
        renew(&corp, &["a", "b"], "one", 10_000, T0 + 9_000).await,
        Answered::Lost { which: 1 }
    );
    held(acquire(&corp, &["a"], "two", 10_000, T0 + 10_000).await);
}
