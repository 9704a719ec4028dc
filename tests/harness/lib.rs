//! One world for one test: a fake WeCom, gateways and allocators in this process, a database of its own, a corp of its
//! own in a shared Redis. [`World::close`] asserts that nothing was left behind.

mod ask;
mod options;
mod process;
mod world;

pub use options::{AES_KEY, Options, TOKEN};
pub use process::Allocator;
pub use world::World;

use std::{future::Future, time::Duration};

/// Waits until `probe` gives a value; panics with `what` after a minute. Tests wait for conditions, never for times.
pub async fn eventually<T, F, Fut>(what: &str, mut probe: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let limit = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = probe().await {
            return value;
        }
        assert!(
            tokio::time::Instant::now() < limit,
            "waited in vain: {what}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
