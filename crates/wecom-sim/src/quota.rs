//! Quotas: how many calls per minute and hour, and how long 45009 lasts once there were too many.

mod window;

#[cfg(test)]
mod tests;

pub(crate) use window::Window;

use crate::config::{Limits, Rate, WindowKind};
use crate::sync::Lock;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

/// What a meter says to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Go on; it was counted.
    Free,
    /// 45009. `nth` is 0 for the call that broke the rule, then counts those that came while blocked.
    Blocked { nth: u64 },
}

/// The meter of one (corp, API) or (address, API).
#[derive(Debug)]
pub(crate) struct Meter(Lock<State>);

#[derive(Debug)]
struct State {
    minute: Window,
    hour: Window,
    blocked_until_ms: i64,
    while_blocked: u64,
}

impl Default for Meter {
    fn default() -> Self {
        Self(Lock::new(State {
            minute: Window::new(MINUTE_MS),
            hour: Window::new(HOUR_MS),
            blocked_until_ms: i64::MIN,
            while_blocked: 0,
        }))
    }
}

impl Meter {
    /// Counts one call against `rate`, or refuses it.
    pub(crate) fn take(&self, rate: &Rate, limits: &Limits, now_ms: i64) -> Verdict {
        let mut state = self.0.lock();
        if now_ms < state.blocked_until_ms {
            state.while_blocked += 1;
            return Verdict::Blocked {
                nth: state.while_blocked,
            };
        }
        let kind = limits.window;
        let block_ms = if full(&mut state.minute, rate.minute, kind, now_ms) {
            limits.block_minute_ms
        } else if full(&mut state.hour, rate.hour, kind, now_ms) {
            limits.block_hour_ms
        } else {
            state.minute.add(kind, now_ms);
            state.hour.add(kind, now_ms);
            return Verdict::Free;
        };
        state.blocked_until_ms = now_ms.saturating_add(block_ms);
        state.while_blocked = 0;
        Verdict::Blocked { nth: 0 }
    }
}

/// 0 means no limit.
fn full(window: &mut Window, most: u64, kind: WindowKind, now_ms: i64) -> bool {
    most > 0 && window.count(kind, now_ms) >= most
}

/// Counts what one member is sent. Beyond the rate it says no, and nothing is blocked.
#[derive(Debug)]
pub(crate) struct Allowance {
    minute: Window,
    hour: Window,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            minute: Window::new(MINUTE_MS),
            hour: Window::new(HOUR_MS),
        }
    }
}

impl Allowance {
    pub(crate) fn take(&mut self, rate: &Rate, kind: WindowKind, now_ms: i64) -> bool {
        if full(&mut self.minute, rate.minute, kind, now_ms)
            || full(&mut self.hour, rate.hour, kind, now_ms)
        {
            return false;
        }
        self.minute.add(kind, now_ms);
        self.hour.add(kind, now_ms);
        true
    }
}
