//! How much a member may be given: at a time, in an hour, in a day; over all pools, and in one.

/// None: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Open allocations at a time.
    pub at_a_time: Option<u32>,
    /// Given in one hour of the clock.
    pub per_hour: Option<u32>,
    /// Given in one day, from midnight to midnight where the member is.
    pub per_day: Option<u32>,
}

impl Limits {
    pub const NONE: Self = Self {
        at_a_time: None,
        per_hour: None,
        per_day: None,
    };

    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}
