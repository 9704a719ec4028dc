//! The settings of an inbox.

use serde::Deserialize;

/// All have defaults that suit production.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Entries one inbox may hold. Beyond it nothing is stored and nothing dropped: the gateway answers 503.
    pub max_length: u64,
    /// How long a delivery is known as a duplicate.
    pub seen_ms: u64,
    /// An entry that was read and not acknowledged for this long belongs to a dead consumer. It must be longer
    /// than a batch takes, and shorter than a welcome code lives (20 s).
    pub claim_idle_ms: u64,
    /// How often a consumer looks for such entries.
    pub claim_every_ms: u64,
    /// Failures by its own fault after which a delivery is a dead letter; 1 to 31.
    pub max_tries: u32,
    /// Pause after the first failure; each further one is five times as long.
    pub first_pause_ms: u64,
    /// The longest pause.
    pub longest_pause_ms: u64,
    /// A dirty mark made by a duplicate is due this long after the duplicate: reads at the source lag about 2 s.
    pub dirty_delay_ms: u64,
    /// Replicas that must have an appended delivery before `append` returns; 0 without replicas.
    pub wait_replicas: u32,
    /// How long to wait for them. Must be shorter than the response time-out of the connection.
    pub wait_timeout_ms: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            max_length: 1_000_000,
            seen_ms: 24 * 60 * 60 * 1000,
            claim_idle_ms: 5_000,
            claim_every_ms: 1_000,
            max_tries: 5,
            first_pause_ms: 1_000,
            longest_pause_ms: 5 * 60 * 1000,
            dirty_delay_ms: 3_000,
            wait_replicas: 0,
            wait_timeout_ms: 1_000,
        }
    }
}
