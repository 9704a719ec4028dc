//! Case 113, the second run: an evicting Redis is warned of at the start.

use std::{sync::Arc, time::Duration};

use allocator::redis_setup;
use inbox::connect;
use tokio_util::sync::CancellationToken;

use crate::api_support::{Options, World};

#[tokio::test]
async fn an_evicting_policy_is_found() {
    let server = test_redis::Server::start(test_redis::Options::default());
    let redis = connect::connect(&connect::Config::single(&server.url()))
        .await
        .unwrap();
    assert_eq!(redis_setup::eviction(&redis).await.unwrap(), None);
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    let found = redis_setup::eviction(&redis).await.unwrap();
    assert_eq!(found.as_deref(), Some("volatile-ttl"));
}

/// The warning is said once Redis is there, and by nobody who stops before.
#[tokio::test]
async fn a_start_while_redis_is_away_waits_for_it_and_can_be_stopped() {
    let server = test_redis::Server::start(test_redis::Options::default());
    let options = Options {
        redis: Some(server.url()),
        ..Options::default()
    };
    let world = World::with(1, options).await;
    server.kill();
    let stop = CancellationToken::new();
    let stopped = tokio::spawn(redis_setup::warn(Arc::clone(world.app()), stop.clone()));
    let waiting = tokio::spawn(redis_setup::warn(
        Arc::clone(world.app()),
        CancellationToken::new(),
    ));
    stop.cancel();
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, stopped).await.unwrap().unwrap();
    assert!(!waiting.is_finished());
    server.restart();
    tokio::time::timeout(limit, waiting).await.unwrap().unwrap();
}
