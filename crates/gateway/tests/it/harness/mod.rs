//! Starts gateways, speaks HTTP to them byte by byte, and looks into Redis from outside.

pub(crate) mod cases;
pub(crate) mod client;
pub(crate) mod setup;
pub(crate) mod stored;

use std::time::{Duration, Instant};

pub(crate) use client::{Reply, get, post, raw};
pub(crate) use setup::{App, Running, Setup};

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds; the test fails when it never does.
pub(crate) async fn wait_until<F: Future<Output = bool>>(
    what: &str,
    mut condition: impl FnMut() -> F,
) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
