//! Pauses between tries: growing, bounded, jittered, and over at once when the program stops.

use std::time::Duration;

use rand::RngExt;
use tokio_util::sync::CancellationToken;

use crate::config;

/// Doubles from `min` to `max`; each pause is between half and the whole of it.
#[derive(Debug, Clone)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    pub fn new(min: Duration, max: Duration) -> Self {
        Self {
            min,
            max,
            next: min,
        }
    }

    /// For loops over our own stores: 50 ms to 2 s, so that work goes on soon after a store is back.
    pub fn store() -> Self {
        Self::new(Duration::from_millis(50), Duration::from_secs(2))
    }

    /// For calls to WeCom that are made again: as effects are, but no longer than `max`.
    pub fn wecom(config: &config::Outbox, max: Duration) -> Self {
        let most = Duration::from_millis(config.backoff_max_ms).min(max);
        let least = Duration::from_millis(config.backoff_min_ms).min(most);
        Self::new(least, most)
    }

    /// Something worked: begin small again.
    pub fn reset(&mut self) {
        self.next = self.min;
    }

    /// The next pause.
    pub fn pause(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.max);
        whole.mul_f64(rand::rng().random_range(0.5..=1.0))
    }

    /// Waits the next pause; false when the program stops meanwhile.
    pub async fn wait(&mut self, stop: &CancellationToken) -> bool {
        sleep(self.pause(), stop).await
    }
}

/// Waits; false when the program stops meanwhile.
pub async fn sleep(pause: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(pause) => true,
        () = stop.cancelled() => false,
    }
}

/// `delay_ms`, at most a quarter longer, so that many do not come at once.
pub fn jittered(delay_ms: u64) -> u64 {
    delay_ms + rand::rng().random_range(0..=delay_ms / 4)
}
