use quota::lock_acquire::{Answered, LockAcquire};
use quota::{Error, Fence, Limits, LockKeys};

use crate::support::{Corp, T0, assert_all_expire};

pub(crate) async fn acquire(
    corp: &Corp,
    names: &[&str],
    owner: &str,
    lease: u64,
    now: i64,
) -> Answered {
    LockAcquire::default()
        .call(
            &mut corp.conn(),
            &LockKeys::new(&corp.id, names),
            owner,
            lease,
            60_000,
            Some(now),
        )
        .await
        .unwrap()
}

#[track_caller]
pub(crate) fn held(answered: Answered) -> Fence {
    match answered {
        Answered::Held { fence, .. } => fence,
        Answered::Busy { .. } => panic!("{answered:?}"),
    }
}

#[tokio::test]
async fn all_names_or_none() {
    let corp = Corp::new(Limits::default()).await;
    let first = held(acquire(&corp, &["taker:mB", "customer:1"], "a", 10_000, T0).await);
    // Sorted: customer:2 comes first and is free, taker:mB is not; so customer:2 stays free.
    let second = acquire(&corp, &["taker:mB", "customer:2"], "b", 10_000, T0).await;
    assert_eq!(
        second,
        Answered::Busy {
            which: 1,
            until_ms: T0 + 10_000
        }
    );
    let third = held(acquire(&corp, &["customer:2"], "c", 10_000, T0).await);
    assert!(third > first);
    assert_all_expire(&corp.conn, &corp.id).await;
}

#[tokio::test]
async fn a_name_given_twice_is_one() {
    let corp = Corp::new(Limits::default()).await;
    held(acquire(&corp, &["customer:1", "customer:1"], "a", 10_000, T0).await);
    let keys = corp.keys().await;
    assert_eq!(keys.iter().filter(|key| key.contains(":lock:")).count(), 1);
}

#[tokio::test]
async fn closed_until_the_fence_is_seeded() {
    let corp = Corp::closed(Limits::default()).await;
    let keys = LockKeys::new(&corp.id, &["customer:1"]);
    let acquire = LockAcquire::default();
    let answer = acquire
        .call(&mut corp.conn(), &keys, "a", 10_000, 60_000, Some(T0))
        .await;
    assert!(matches!(answer, Err(Error::Closed)), "{answer:?}");
}

/// Cases 68 and 72: whoever lost the lock cannot commit. The ledger compares the numbers; here a row stands for it.
#[tokio::test]
async fn case_68_and_72_the_later_owner_has_the_greater_number() {
    let corp = Corp::new(Limits::default()).await;
    let mut row: Option<(Fence, &str)> = None;
    let mut commit = |fence: Fence, member: &'static str| {
        let newer = row.is_none_or(|(stored, _)| fence >= stored);
        if newer {
            row = Some((fence, member));
        }
        newer
    };
    let first = held(acquire(&corp, &["customer:1"], "worker1", 2_000, T0).await);
    // Cut off: its lease ends, another takes over and commits.
    let second = held(acquire(&corp, &["customer:1"], "worker2", 2_000, T0 + 2_000).await);
    assert!(commit(second, "mB"));
    assert!(!commit(first, "mA"));
    // A rebuild raises the generation: numbers from before it are smaller whatever their counter.
    corp.seed(2, 0).await;
    let third = held(acquire(&corp, &["customer:1"], "worker3", 2_000, T0 + 9_000).await);
    assert!(third > second && third.generation == 2);
}
