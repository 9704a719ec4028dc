//! How many people a group takes. WeCom says none of it over its API, so it is configuration.

/// Of a pool's groups, or of one group once its own numbers are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupCaps {
    /// People beyond which nobody comes in by a code.
    pub scan_cap: u32,
    /// People beyond which nobody comes in at all.
    pub hard_cap: u32,
    /// Seats below `scan_cap` that are kept for those who come in past us.
    pub buffer: u32,
}

impl GroupCaps {
    /// There is a seat to give away, and nobody is let in whom WeCom would not take.
    pub fn is_sound(self) -> bool {
        self.buffer < self.scan_cap && self.scan_cap <= self.hard_cap
    }
}

/// What one group has otherwise than its pool; None: as the pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnCaps {
    pub scan_cap: Option<u32>,
    pub hard_cap: Option<u32>,
    pub buffer: Option<u32>,
}

impl OwnCaps {
    pub fn in_pool(self, pool: GroupCaps) -> GroupCaps {
        GroupCaps {
            scan_cap: self.scan_cap.unwrap_or(pool.scan_cap),
            hard_cap: self.hard_cap.unwrap_or(pool.hard_cap),
            buffer: self.buffer.unwrap_or(pool.buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_a_seat_to_give_and_room_for_it() {
        let sound = |scan_cap, hard_cap, buffer| {
            let caps = GroupCaps {
                scan_cap,
                hard_cap,
                buffer,
            };
            caps.is_sound()
        };
        assert!(sound(200, 500, 5) && sound(1, 1, 0) && sound(500, 500, 499));
        assert!(!sound(200, 199, 5) && !sound(5, 500, 5) && !sound(0, 500, 0));
    }

    #[test]
    fn a_groups_own_numbers_count_first() {
        let pool = GroupCaps {
            scan_cap: 200,
            hard_cap: 500,
            buffer: 5,
        };
        assert_eq!(OwnCaps::default().in_pool(pool), pool);
        let own = OwnCaps {
            scan_cap: Some(100),
            buffer: Some(0),
            ..OwnCaps::default()
        };
        let caps = own.in_pool(pool);
        assert_eq!((caps.scan_cap, caps.hard_cap, caps.buffer), (100, 500, 0));
    }
}
