//! How Redis was set up, as far as our promises stand on it.

use std::{collections::HashMap, sync::Arc};

use metrics::gauge;
use tokio_util::sync::CancellationToken;

use crate::{
    app::{App, Redis},
    backoff::Backoff,
};

/// What one setting is; None where this server has no such setting. It is an error if it may not be asked, as with some
/// hosted ones.
pub async fn setting(redis: &Redis, name: &str) -> redis::RedisResult<Option<String>> {
    let mut values: HashMap<String, String> = redis::cmd("CONFIG")
        .arg("GET")
        .arg(name)
        .query_async(&mut redis.clone())
        .await?;
    Ok(values.remove(name))
}

/// The policy by which this Redis would throw keys away when its memory is full; None: it refuses writes then, as it
/// should.
pub async fn eviction(redis: &Redis) -> redis::RedisResult<Option<String>> {
    let policy = setting(redis, "maxmemory-policy").await?;
    Ok(policy.filter(|policy| policy != "noeviction"))
}

/// Warns of an evicting Redis, once it answers. Everything else is left to `allocator doctor`: this one takes locks and
/// the memory of duplicates away long after the start, and nobody sees it.
pub async fn warn(app: Arc<App>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    loop {
        match eviction(&app.redis).await {
            Ok(found) => {
                gauge!("paidan_redis_may_evict").set(f64::from(u8::from(found.is_some())));
                if let Some(policy) = found {
                    tracing::warn!(
                        policy,
                        "Redis throws keys away when its memory is full: that endangers locks and the memory of duplicates; set maxmemory-policy noeviction"
                    );
                }
                return;
            }
            Err(error) if matches!(error.code(), Some("ERR" | "NOPERM")) => {
                tracing::info!(error = %error, "Redis does not show its settings: make sure that maxmemory-policy is noeviction");
                return;
            }
            Err(_) => {
                if !backoff.wait(&stop).await {
                    return;
                }
            }
        }
    }
}
