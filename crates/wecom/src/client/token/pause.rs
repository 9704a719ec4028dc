//! When `gettoken` may be called again. Too many calls with a wrong secret block our address for an hour, for
//! every corp behind it: so failures make pauses that grow, and never a loop.

use crate::Error;
use crate::error::Class;

/// After failures of `gettoken`.
#[derive(Default)]
pub(super) struct Pause {
    failures: u32,
    until_ms: u64,
    errcode: Option<i64>,
}

impl Pause {
    /// `Err` with the moment and the reason while closed.
    pub(super) fn check(&self, now_ms: u64) -> Result<(), (u64, Option<i64>)> {
        if now_ms < self.until_ms {
            Err((self.until_ms, self.errcode))
        } else {
            Ok(())
        }
    }

    pub(super) fn failed(&mut self, error: &Error, now_ms: u64) {
        let (first_ms, longest_ms) = match error.class() {
            // No answer, or -1: short.
            Class::RetryWithBackoff => (1_000, 30_000),
            // The block for wrong secrets lasts an hour.
            Class::RateLimited => (60_000, 3_600_000),
            // A wrong secret, an address that is not trusted: a person must act.
            _ => (30_000, 600_000),
        };
        self.until_ms = now_ms + grown(first_ms, self.failures, longest_ms);
        self.failures += 1;
        self.errcode = error.errcode();
    }

    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }
}

/// Limits renewals that were asked for because WeCom refused the token. Two in a row are free (tokens do die
/// early); when new tokens keep being refused, the pauses grow.
#[derive(Default)]
pub(super) struct Renewals {
    in_a_row: u32,
    last_ms: u64,
    not_before_ms: u64,
}

/// A token that served longer than this starts the count anew.
const CALM_MS: u64 = 600_000;

impl Renewals {
    /// `Err` with the moment while closed.
    pub(super) fn check(&self, now_ms: u64) -> Result<(), u64> {
        if now_ms < self.not_before_ms {
            Err(self.not_before_ms)
        } else {
            Ok(())
        }
    }

    pub(super) fn count(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.last_ms) > CALM_MS {
            self.in_a_row = 0;
        }
        self.in_a_row += 1;
        self.last_ms = now_ms;
        self.not_before_ms = match self.in_a_row {
            1 => 0,
            more => now_ms + grown(30_000, more - 2, CALM_MS),
        };
    }
}

fn grown(first_ms: u64, times: u32, longest_ms: u64) -> u64 {
    first_ms
        .saturating_mul(1_u64.checked_shl(times).unwrap_or(u64::MAX))
        .min(longest_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_bounded() {
        assert_eq!(grown(1_000, 0, 30_000), 1_000);
        assert_eq!(grown(1_000, 3, 30_000), 8_000);
        assert_eq!(grown(1_000, 63, 30_000), 30_000);
        assert_eq!(grown(1_000, 200, 30_000), 30_000);
    }

    #[test]
    fn two_early_deaths_are_free_and_calm_resets() {
        let mut renewals = Renewals::default();
        renewals.count(1_000_000);
        assert_eq!(renewals.check(1_000_000), Ok(()));
        renewals.count(1_000_500);
        assert_eq!(renewals.check(1_000_501), Err(1_030_500));
        assert_eq!(renewals.check(1_030_500), Ok(()));
        renewals.count(1_030_500);
        assert_eq!(renewals.check(1_030_501), Err(1_090_500));
        renewals.count(1_030_500 + CALM_MS + 1);
        assert_eq!(renewals.check(1_030_500 + CALM_MS + 1), Ok(()));
    }
}
