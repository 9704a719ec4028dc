//! Allocations that Redis has and the ledger refused.

use std::{sync::Arc, time::Duration};

use allocator::reception::tasks;
use sqlx::Executor as _;

use crate::api_support::{Options, World};

/// A writer died after it had written that an allocation lost, and before it told Redis: another process does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_ledger_refused_ends_in_redis_though_the_writer_died() {
    let options = Options {
        config: "[roster]\nwake_every_ms = 50".to_owned(),
        ..Options::default()
    };
    let world = World::with(1, options).await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("zhangsan", 1.0)]).await;
    for customer in ["wmLost", "wmStays"] {
        console.ask("p1", customer).await;
    }
    world.written().await;
    let mut connection = world.database.connect().await;
    let dies =
        "UPDATE allocations SET closed_at = now(), close_reason = 'conflict', settled_at = now(),
            settled_as = 'closed', changed_seq = decided_seq
        WHERE id = (SELECT id FROM allocations ORDER BY decided_seq LIMIT 1)";
    assert_eq!(connection.execute(dies).await.unwrap().rows_affected(), 1);
    let (app, corp) = (world.app(), world.corp_app());
    tokio::spawn(tasks::run(Arc::clone(app), Arc::clone(corp), world.stop()));
    let limit = tokio::time::Instant::now() + Duration::from_secs(60);
    while !app
        .ledger
        .allocations()
        .lost(&corp.id, 9)
        .await
        .unwrap()
        .is_empty()
    {
        assert!(tokio::time::Instant::now() < limit, "it stays");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.check().await;
    assert_eq!(console.all("/allocations?state=open").await.len(), 1);
}
