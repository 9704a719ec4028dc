//! Exact counters of calls, per (corp, API) and per caller.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::admin::{ApiCounters, GettokenCounters};
use crate::api::Api;
use crate::quota::{Allowance, Meter};
use crate::sync::Lock;

/// What is counted for one (corp, API).
#[derive(Debug, Default)]
pub(crate) struct ApiStat {
    pub(crate) meter: Meter,
    pub(crate) in_flight: AtomicU32,
    in_flight_max: AtomicU32,
    calls: AtomicU64,
    ok: AtomicU64,
    effects: AtomicU64,
    effects_reply_lost: AtomicU64,
    while_blocked: AtomicU64,
    failures: Lock<BTreeMap<i32, u64>>,
}

impl ApiStat {
    /// One more in flight; how many there are with it.
    pub(crate) fn enter(&self) -> u32 {
        let in_flight = self.in_flight.fetch_add(1, Ordering::AcqRel) + 1;
        self.in_flight_max.fetch_max(in_flight, Ordering::Relaxed);
        self.calls.fetch_add(1, Ordering::Relaxed);
        in_flight
    }

    pub(crate) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn count(&self, code: i32, effect: bool, reply_lost: bool, while_blocked: bool) {
        if code == 0 {
            self.ok.fetch_add(1, Ordering::Relaxed);
        } else {
            *self.failures.lock().entry(code).or_default() += 1;
        }
        if effect {
            self.effects.fetch_add(1, Ordering::Relaxed);
            if reply_lost {
                self.effects_reply_lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        if while_blocked {
            self.while_blocked.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn counters(&self) -> ApiCounters {
        let mut codes = self.failures.lock().clone();
        let ok = self.ok.load(Ordering::Relaxed);
        if ok > 0 {
            codes.insert(0, ok);
        }
        ApiCounters {
            calls: self.calls.load(Ordering::Relaxed),
            codes,
            in_flight_max: self.in_flight_max.load(Ordering::Relaxed),
            effects: self.effects.load(Ordering::Relaxed),
            effects_reply_lost: self.effects_reply_lost.load(Ordering::Relaxed),
            while_blocked: self.while_blocked.load(Ordering::Relaxed),
        }
    }
}

/// One [`ApiStat`] for each API.
pub(crate) fn api_stats() -> Vec<ApiStat> {
    std::iter::repeat_with(ApiStat::default)
        .take(Api::count())
        .collect()
}

/// What is counted for one caller address.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) meters: Vec<Meter>,
    pub(crate) wrong_secret: Lock<WrongSecrets>,
}

impl Default for Caller {
    fn default() -> Self {
        Self {
            meters: std::iter::repeat_with(Meter::default)
                .take(Api::count())
                .collect(),
            wrong_secret: Lock::new(WrongSecrets::default()),
        }
    }
}

/// Wrong secrets of one address.
#[derive(Debug)]
pub(crate) struct WrongSecrets {
    pub(crate) since_ms: i64,
    pub(crate) failures: u64,
    pub(crate) blocked_until_ms: i64,
    pub(crate) while_blocked: u64,
}

impl Default for WrongSecrets {
    fn default() -> Self {
        Self {
            since_ms: i64::MIN,
            failures: 0,
            blocked_until_ms: i64::MIN,
            while_blocked: 0,
        }
    }
}

/// gettoken of one app.
#[derive(Debug, Default)]
pub(crate) struct Gettoken {
    counters: GettokenCounters,
    in_a_row: u64,
    /// Times of the last minute's calls, oldest first.
    recent: std::collections::VecDeque<i64>,
}

impl Gettoken {
    /// One more; `None` when the answer was lost before it was decided.
    pub(crate) fn count(&mut self, now_ms: i64, ok: Option<bool>) {
        self.counters.calls += 1;
        match ok {
            Some(true) => self.in_a_row = 0,
            Some(false) => {
                self.counters.failures += 1;
                self.in_a_row += 1;
            }
            None => {}
        }
        self.counters.failures_in_a_row_max =
            self.counters.failures_in_a_row_max.max(self.in_a_row);
        while self.recent.front().is_some_and(|at| now_ms - at >= 60_000) {
            self.recent.pop_front();
        }
        self.recent.push_back(now_ms);
        self.counters.per_minute_max = self.counters.per_minute_max.max(self.recent.len() as u64);
    }

    pub(crate) fn counters(&self) -> GettokenCounters {
        self.counters
    }
}

/// What one member was sent.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    pub(crate) allowance: Allowance,
    pub(crate) delivered: u64,
    pub(crate) dropped: u64,
}
