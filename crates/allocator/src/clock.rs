//! The time, read in one place and passed on.

use std::sync::Arc;

/// What the program reads its time from; tests own theirs.
pub type Clock = Arc<dyn wecom::client::Clock>;

/// The system's clock.
pub fn system() -> Clock {
    Arc::new(wecom::client::SystemClock)
}
