//! How many groups a pool lacks. Pure.

use ledger::{ASKED_PART_MS, ASKED_PARTS, Supply};

/// Groups that are asked for in one turn, at most: the next one looks again.
pub const MOST: u32 = 20;
/// A part of the time counts half as much as the one two parts later.
const HALF_PARTS: f64 = 2.0;

/// A pool as it is now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Seen {
    /// Free seats of the groups that are shown.
    pub free: u64,
    /// People in the waiting room.
    pub waiting: u64,
    /// Seats asked for a second.
    pub rate: f64,
    /// Groups that are on their way already.
    pub coming: u64,
    /// Seats of a group that is new.
    pub room: u32,
}

/// Seats a second, from how many were asked for in each part of the time, the latest part first: a mean in which the latest
/// counts most.
pub fn rate(asked: &[u64; ASKED_PARTS]) -> f64 {
    let weight = |part: usize| 0.5_f64.powf(part as f64 / HALF_PARTS);
    let weights: f64 = (0..ASKED_PARTS).map(weight).sum();
    let seats: f64 = asked
        .iter()
        .enumerate()
        .map(|(part, n)| *n as f64 * weight(part))
        .sum();
    seats / weights / (ASKED_PART_MS as f64 / 1_000.0)
}

/// Groups that the pool lacks: for those who wait, those who will have come in the time ahead, and the seats that are to be free
/// always. At most [`MOST`].
pub fn need(seen: &Seen, supply: &Supply) -> u32 {
    let room = f64::from(seen.room.max(1));
    let ahead = seen.rate.max(0.0) * f64::from(supply.ahead_seconds);
    let wanted = ahead + f64::from(supply.min_free) + seen.waiting as f64;
    let there = seen.free as f64 + seen.coming as f64 * room;
    let lacking = ((wanted - there) / room).ceil();
    // A float that is out of range is cut to it.
    (lacking.max(0.0) as u32).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(free: u64, waiting: u64, rate: f64, coming: u64) -> Seen {
        Seen {
            free,
            waiting,
            rate,
            coming,
            room: 195,
        }
    }

    fn supply(min_free: u32, ahead_seconds: u32) -> Supply {
        Supply {
            min_free,
            ahead_seconds,
            ..Supply::default()
        }
    }

    #[test]
    fn a_pool_lacks_what_it_will_have_given_away() {
        for (seen, supply, expected) in [
            // Nobody comes, and there is room.
            (seen(50, 0, 0.0, 0), supply(50, 300), 0),
            (seen(49, 0, 0.0, 0), supply(50, 300), 1),
            // Nothing is to be kept, and nobody waits.
            (seen(0, 0, 0.0, 0), supply(0, 0), 0),
            (seen(0, 1, 0.0, 0), supply(0, 0), 1),
            (seen(0, 195, 0.0, 0), supply(0, 0), 1),
            (seen(0, 196, 0.0, 0), supply(0, 0), 2),
            // 1 a second for 300 s.
            (seen(300, 0, 1.0, 0), supply(0, 300), 0),
            (seen(299, 0, 1.0, 0), supply(0, 300), 1),
            (seen(0, 0, 1.0, 0), supply(50, 300), 2),
            // What is on its way is not asked for again.
            (seen(0, 1_000, 0.0, 0), supply(0, 0), 6),
            (seen(0, 1_000, 0.0, 5), supply(0, 0), 1),
            (seen(0, 1_000, 0.0, 9), supply(0, 0), 0),
            // A stampede is bounded, and so is nonsense.
            (seen(0, 50_000, 277.0, 0), supply(50, 300), MOST),
            (seen(0, u64::MAX, f64::MAX, 0), supply(50, 86_400), MOST),
            (seen(0, 0, f64::NAN, 0), supply(0, 300), 0),
            (seen(u64::MAX, 7, 1.0, 0), supply(50, 300), 0),
        ] {
            assert_eq!(need(&seen, &supply), expected, "{seen:?} {supply:?}");
        }
    }

    #[test]
    fn the_room_of_a_group_is_never_nothing() {
        let seen = Seen {
            waiting: 5,
            ..Seen::default()
        };
        assert_eq!(need(&seen, &supply(0, 0)), 5);
    }

    #[test]
    fn the_rate_follows_the_last_minutes() {
        assert_eq!(rate(&[0; ASKED_PARTS]), 0.0);
        // The same in all parts: that is it.
        assert!((rate(&[30; ASKED_PARTS]) - 1.0).abs() < 1e-9);
        let of = |part: usize| {
            let mut asked = [0; ASKED_PARTS];
            asked[part] = 300;
            rate(&asked)
        };
        for part in 1..ASKED_PARTS {
            assert!(of(part) < of(part - 1));
        }
        // Half as much a minute later.
        assert!((of(2) * 2.0 - of(0)).abs() < 1e-9);
        assert!((2.0..4.0).contains(&of(0)), "{}", of(0));
    }
}
