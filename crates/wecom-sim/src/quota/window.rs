//! One counted window. WeCom does not say whether its windows are fixed or sliding; both are here.

use crate::config::WindowKind;

/// A sliding window moves in steps of this part of its length.
const STEPS: i64 = 60;

/// Counts events in a window of a given length.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    length_ms: i64,
    /// Fixed: number of the window. Sliding: number of the newest step.
    at: i64,
    total: u64,
    steps: Vec<u64>,
}

impl Window {
    pub(crate) const fn new(length_ms: i64) -> Self {
        Self {
            length_ms,
            at: i64::MIN,
            total: 0,
            steps: Vec::new(),
        }
    }

    /// What is counted at `now_ms`.
    pub(crate) fn count(&mut self, kind: WindowKind, now_ms: i64) -> u64 {
        match kind {
            WindowKind::Fixed => {
                let at = now_ms.div_euclid(self.length_ms);
                if at != self.at || !self.steps.is_empty() {
                    *self = Self {
                        at,
                        ..Self::new(self.length_ms)
                    };
                }
            }
            WindowKind::Sliding => self.slide(now_ms.div_euclid(self.step_ms())),
        }
        self.total
    }

    /// Counts one more.
    pub(crate) fn add(&mut self, kind: WindowKind, now_ms: i64) {
        self.count(kind, now_ms);
        self.total += 1;
        if kind == WindowKind::Sliding {
            let index = self.at.rem_euclid(STEPS) as usize;
            self.steps[index] += 1;
        }
    }

    fn step_ms(&self) -> i64 {
        (self.length_ms / STEPS).max(1)
    }

    fn slide(&mut self, step: i64) {
        if self.steps.is_empty() || step.saturating_sub(self.at) >= STEPS || step < self.at {
            *self = Self {
                at: step,
                steps: vec![0; STEPS as usize],
                ..Self::new(self.length_ms)
            };
            return;
        }
        while self.at < step {
            self.at += 1;
            let index = self.at.rem_euclid(STEPS) as usize;
            self.total -= std::mem::take(&mut self.steps[index]);
        }
    }
}
