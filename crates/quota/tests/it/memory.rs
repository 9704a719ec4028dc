use quota::lock_acquire::LockAcquire;
use quota::{LockKeys, Locks, Times};

/// Row P25: at most 200 bytes of Redis for each lock, by `MEMORY USAGE`, which counts key, value and table entry. The
/// entry of the expiry and the tables' own slots come on top, 40 to 56 bytes, whatever the lock holds.
#[tokio::test]
async fn a_lock_is_small() {
    let mut conn = test_redis::shared().connection_manager().await;
    let corp = test_redis::corp();
    let locks = Locks::new(conn.clone(), Times::default());
    locks.fence_seed(&corp, 1, 0).await.unwrap();
    let keys = LockKeys::new(&corp, &["customer:0123456789abcdef0123456789abcdef"]);
    let acquire = LockAcquire::default();
    let held = acquire.call(&mut conn, &keys, "a1B2c3D4", 10_000, 60_000, None);
    held.await.unwrap();
    let bytes: i64 = redis::cmd("MEMORY")
        .arg("USAGE")
        .arg(&keys.locks[0])
        .query_async(&mut conn)
        .await
        .unwrap();
    assert!((100..=160).contains(&bytes), "{bytes} bytes");
}
