//! The gateway's only look at the clock on the wall: when a callback arrived.

/// Milliseconds since the epoch.
#[expect(
    clippy::disallowed_methods,
    reason = "the edge: the time of arrival is read here and handed on"
)]
pub(crate) fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
