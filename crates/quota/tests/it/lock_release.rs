use quota::lock_acquire::Answered;
use quota::lock_release::LockRelease;
use quota::{Limits, LockKeys};

use crate::lock_acquire::{acquire, held};
use crate::support::{Corp, T0};

pub(crate) async fn release(corp: &Corp, names: &[&str], owner: &str) -> usize {
    LockRelease::default()
        .call(&mut corp.conn(), &LockKeys::new(&corp.id, names), owner)
        .await
        .unwrap()
}

/// Case 71: a late worker does not free the lock of the next one.
#[tokio::test]
async fn case_71_no_foreign_unlock() {
    let corp = Corp::new(Limits::default()).await;
    held(acquire(&corp, &["customer:1"], "worker1", 1_000, T0).await);
    held(acquire(&corp, &["customer:1"], "worker2", 1_000, T0 + 1_200).await);
    assert_eq!(release(&corp, &["customer:1"], "worker1").await, 0);
    let third = acquire(&corp, &["customer:1"], "worker3", 1_000, T0 + 2_100).await;
    assert_eq!(
        third,
        Answered::Busy {
            which: 0,
            until_ms: T0 + 2_200
        }
    );
}

#[tokio::test]
async fn released_names_are_free_at_once_and_twice_is_once() {
    let corp = Corp::new(Limits::default()).await;
    held(acquire(&corp, &["a", "b"], "one", 10_000, T0).await);
    assert_eq!(release(&corp, &["a", "b"], "one").await, 2);
    assert_eq!(release(&corp, &["a", "b"], "one").await, 0);
    held(acquire(&corp, &["b", "c"], "two", 10_000, T0).await);
}
