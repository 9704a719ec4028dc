//! `budget_take`, `budget_renew`, `budget_give`, `budget_block`.

use std::collections::BTreeMap;

use crate::budget_block::Mode;
use crate::budget_read::Row;
use crate::budget_renew::Answered;
use crate::budget_take::{Reason, Taken};
use crate::window::{BUCKETS, HOUR_GRAIN_MS, MINUTE_GRAIN_MS, Window};
use crate::{BudgetLimits, Outcome, Rule};

const RETRY_MS: i64 = 50;
const YIELD_MS: i64 = 250;
const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 86_400_000;
const CHINA_MS: i64 = 28_800_000;

/// One API's budget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Budget {
    /// As kept in Redis; empty = nothing counted yet.
    pub minute: String,
    pub hour: String,
    pub block_until_ms: i64,
    pub level: i64,
    pub shrunk: Option<(i64, i64)>,
    pub yield_until_ms: i64,
    pub flight: BTreeMap<String, i64>,
}

impl Budget {
    pub fn take(&mut self, permit: &str, limits: BudgetLimits, urgent: bool, now: i64) -> Taken {
        let wait = |until_ms, reason| Taken::Wait { until_ms, reason };
        if self.block_until_ms > now {
            return wait(self.block_until_ms, Reason::Blocked);
        }
        let mut minute = read(&mut self.minute, MINUTE_GRAIN_MS, now);
        let mut hour = read(&mut self.hour, HOUR_GRAIN_MS, now);
        let minute_until = full_until(&minute, limits.per_minute, MINUTE_GRAIN_MS);
        let hour_until = full_until(&hour, limits.per_hour, HOUR_GRAIN_MS);
        if hour_until.is_some() && hour_until >= minute_until {
            return wait(hour_until.unwrap_or(now), Reason::Hour);
        }
        if let Some(until) = minute_until {
            return wait(until, Reason::Minute);
        }
        let parallel = i64::from(limits.in_flight);
        let mut cap = parallel;
        if parallel > 0 {
            let lease_ms = i64::try_from(limits.lease_ms).unwrap_or(i64::MAX);
            if let Some((shrunk, at)) = self.shrunk {
                let grow_ms = i64::try_from(limits.grow_back_ms).unwrap_or(i64::MAX);
                cap = parallel.min(shrunk + (now - at).div_euclid(grow_ms).max(0));
            }
            if !urgent && self.yield_until_ms > now && self.yield_until_ms <= now + YIELD_MS {
                return wait(self.yield_until_ms, Reason::Urgent);
            }
            self.flight
                .retain(|_, end| *end > now && *end <= now + 2 * lease_ms);
            if i64::try_from(self.flight.len()).unwrap_or(i64::MAX) >= cap {
                if urgent {
                    self.yield_until_ms = now + YIELD_MS;
                }
                return wait(now + RETRY_MS, Reason::InFlight);
            }
            if urgent {
                self.yield_until_ms = 0;
            }
            self.flight.insert(permit.to_owned(), now + lease_ms);
        }
        minute.counts[0] += 1;
        hour.counts[0] += 1;
        self.minute = minute.to_string();
        self.hour = hour.to_string();
        Taken::Taken { taken_ms: now, cap }
    }

    pub fn renew(&mut self, permit: &str, lease_ms: u64, before_ms: i64, now: i64) -> Answered {
        if now >= before_ms {
            return Answered::Late;
        }
        let lease_ms = i64::try_from(lease_ms).unwrap_or(i64::MAX);
        match self.flight.insert(permit.to_owned(), now + lease_ms) {
            Some(end) if end > now => Answered::Renewed,
            _ => Answered::Retaken,
        }
    }

    /// The end of the block that this outcome set.
    pub fn give(
        &mut self,
        permit: &str,
        outcome: Outcome,
        taken_ms: i64,
        cap: i64,
        now: i64,
    ) -> Option<i64> {
        let ours = self.flight.remove(permit).is_some();
        let level = match outcome {
            Outcome::Failed => return None,
            Outcome::Unused => {
                if ours || cap == 0 {
                    uncount(&mut self.minute, taken_ms.div_euclid(MINUTE_GRAIN_MS));
                    uncount(&mut self.hour, taken_ms.div_euclid(HOUR_GRAIN_MS));
                }
                return None;
            }
            Outcome::Ok => {
                if taken_ms >= self.block_until_ms {
                    self.level = 0;
                }
                return None;
            }
            Outcome::Concurrency => {
                let target = (cap / 2).max(1);
                let least = self.shrunk.map_or(target, |(cap, _)| cap.min(target));
                self.shrunk = Some((least, now));
                return None;
            }
            Outcome::RateLimited(Rule::Minute) => 1,
            Outcome::RateLimited(Rule::Hour) => 2,
            Outcome::RateLimited(Rule::Day) => 3,
            Outcome::RateLimited(Rule::Month) => 4,
            Outcome::RateLimited(Rule::Unknown) => {
                if self.block_until_ms > now {
                    self.level.max(1)
                } else if self.level > 0 && now - self.block_until_ms < MINUTE_MS {
                    (self.level + 1).min(3)
                } else {
                    1
                }
            }
        };
        let until = match level {
            1 => now + MINUTE_MS,
            2 => now + HOUR_MS,
            3 => ((now + CHINA_MS).div_euclid(DAY_MS) + 1) * DAY_MS - CHINA_MS,
            _ => now + 30 * DAY_MS,
        };
        self.level = level;
        self.block_until_ms = self.block_until_ms.max(until);
        Some(self.block_until_ms)
    }

    pub fn block(&mut self, until_ms: i64, mode: Mode, now: i64) -> Option<i64> {
        let until = until_ms.min(now + 31 * DAY_MS);
        self.block_until_ms = match mode {
            Mode::Raise => until.max(self.block_until_ms),
            Mode::Set => until,
        };
        if self.block_until_ms <= now {
            self.block_until_ms = 0;
            self.level = 0;
            return None;
        }
        Some(self.block_until_ms)
    }

    /// As `budget_read` answers.
    pub fn row(&self, api: &str, now: i64) -> Row {
        Row {
            api: api.to_owned(),
            minute: self.minute.clone(),
            hour: self.hour.clone(),
            in_flight: self.flight.values().filter(|end| **end > now).count() as i64,
            block_until_ms: self.block_until_ms,
            level: self.level,
            shrunk: self.shrunk,
        }
    }
}

/// Counts from a future bucket are written down as of now, or they would move on with the clock for ever.
fn read(text: &mut String, grain_ms: i64, now: i64) -> Window {
    let window = Window::read(text, grain_ms, now);
    let newest = text.split(' ').next().and_then(|n| n.parse::<i64>().ok());
    if newest.is_some_and(|newest| newest > window.bucket) {
        *text = window.to_string();
    }
    window
}

/// When the window has room again; None = it has.
fn full_until(window: &Window, limit: u32, grain_ms: i64) -> Option<i64> {
    let limit = i64::from(limit);
    let mut left = window.used();
    if left < limit {
        return None;
    }
    for age in (0..BUCKETS).rev() {
        left -= window.counts[age];
        if left < limit {
            return Some((window.bucket + BUCKETS as i64 - age as i64) * grain_ms);
        }
    }
    unreachable!("a limit is at least 1")
}

fn uncount(text: &mut String, bucket: i64) {
    let mut numbers: Vec<i64> = text
        .split_ascii_whitespace()
        .map_while(|n| n.parse().ok())
        .collect();
    let newest = numbers.first().copied().unwrap_or_default();
    let counted = usize::try_from(newest - bucket + 1)
        .ok()
        .filter(|index| *index >= 1)
        .and_then(|index| numbers.get_mut(index));
    if let Some(count) = counted.filter(|count| **count > 0) {
        *count -= 1;
        *text = numbers
            .iter()
            .map(i64::to_string)
            .collect::<Vec<_>>()
            .join(" ");
    }
}
