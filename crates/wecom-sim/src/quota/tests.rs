//! Windows against a naive count.

use proptest::prelude::*;

use super::{Meter, Verdict, Window};
use crate::config::{Limits, Rate, WindowKind};

proptest! {
    /// A fixed window counts what came in the same slice of the clock.
    #[test]
    fn fixed_window_counts_like_a_list(steps in prop::collection::vec(0i64..40_000, 1..200)) {
        let mut window = Window::new(60_000);
        let mut times = Vec::new();
        let mut now = 1_792_000_000_000;
        for step in steps {
            now += step;
            let naive = times.iter().filter(|at: &&i64| at.div_euclid(60_000) == now.div_euclid(60_000)).count();
            prop_assert_eq!(window.count(WindowKind::Fixed, now), naive as u64);
            window.add(WindowKind::Fixed, now);
            times.push(now);
        }
    }

    /// A sliding window counts what came in the last 60 steps.
    #[test]
    fn sliding_window_counts_like_a_list(steps in prop::collection::vec(0i64..9_000, 1..300)) {
        let mut window = Window::new(60_000);
        let mut times = Vec::new();
        let mut now = 1_792_000_000_123;
        for step in steps {
            now += step;
            let naive = times.iter().filter(|at: &&i64| now.div_euclid(1_000) - at.div_euclid(1_000) < 60).count();
            prop_assert_eq!(window.count(WindowKind::Sliding, now), naive as u64);
            window.add(WindowKind::Sliding, now);
            times.push(now);
        }
    }

    /// Never more than the rate gets through in any slice, a refusal blocks for its time, and a call after
    /// the block gets through.
    #[test]
    fn meter_never_lets_too_many_through(
        steps in prop::collection::vec(0i64..5_000, 1..400),
        minute in 1u64..20,
        hour in 1u64..60,
        sliding in any::<bool>(),
    ) {
        let kind = if sliding { WindowKind::Sliding } else { WindowKind::Fixed };
        let limits = Limits { window: kind, ..Limits::default() };
        let rate = Rate::new(minute, hour);
        let meter = Meter::default();
        let mut passed: Vec<i64> = Vec::new();
        let mut blocked_until = i64::MIN;
        let mut while_blocked = 0;
        let mut now = 1_792_000_000_000;
        for step in steps {
            now += step;
            let within = |length: i64| {
                let step = length / 60;
                passed.iter().filter(|at| match kind {
                    WindowKind::Fixed => at.div_euclid(length) == now.div_euclid(length),
                    WindowKind::Sliding => now.div_euclid(step) - at.div_euclid(step) < 60,
                }).count() as u64
            };
            let expected = if now < blocked_until {
                while_blocked += 1;
                Verdict::Blocked { nth: while_blocked }
            } else if within(60_000) >= minute {
                blocked_until = now + 60_000;
                while_blocked = 0;
                Verdict::Blocked { nth: 0 }
            } else if within(3_600_000) >= hour {
                blocked_until = now + 3_600_000;
                while_blocked = 0;
                Verdict::Blocked { nth: 0 }
            } else {
                passed.push(now);
                Verdict::Free
            };
            prop_assert_eq!(meter.take(&rate, &limits, now), expected);
        }
    }
}

#[test]
fn zero_lifts_a_limit() {
    let meter = Meter::default();
    let limits = Limits::default();
    for _ in 0..50_000 {
        assert_eq!(meter.take(&Rate::new(0, 0), &limits, 0), Verdict::Free);
    }
}
