//! What is in a corp's inbox, read with Redis' own commands.

use redis::{AsyncCommands, streams::StreamRangeReply};

/// Endpoint and plaintext of everything in the stream, in its order.
pub(crate) async fn deliveries(redis: &test_redis::Server, corp: &str) -> Vec<(String, String)> {
    let mut connection = redis.connection().await;
    let reply: StreamRangeReply = connection
        .xrange_all(format!("{{{corp}}}:v1:inbox"))
        .await
        .unwrap();
    reply
        .ids
        .iter()
        .map(|entry| (entry.get("e").unwrap(), entry.get("x").unwrap()))
        .collect()
}

pub(crate) async fn plaintexts(redis: &test_redis::Server, corp: &str) -> Vec<String> {
    deliveries(redis, corp)
        .await
        .into_iter()
        .map(|(_, plaintext)| plaintext)
        .collect()
}

/// Entities marked dirty.
pub(crate) async fn dirty(redis: &test_redis::Server, corp: &str, kind: &str) -> Vec<String> {
    redis
        .connection()
        .await
        .zrange(format!("{{{corp}}}:v1:dirty:{kind}"), 0, -1)
        .await
        .unwrap()
}
