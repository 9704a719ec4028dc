//! From what the rules say to the lease that Redis is told. No clock, no I/O.

use super::rules::{Facts, May, Standing, Why};

/// What a lease is to be, where it is to be another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// 0: off.
    pub lease_until_ms: u64,
    /// He goes on or off by it: not only a renewal, or a lease that was too long.
    pub turned: bool,
    pub why: Why,
}

/// What the loop sends of a member with this lease; None: nothing. Renewed in the second half of its life, so that of
/// several allocators one does.
pub fn due(standing: Standing, lease_until_ms: u64, now_ms: u64, lease_ms: u64) -> Option<Change> {
    let is_on = lease_until_ms > now_ms;
    let change = |until_ms: u64| Change {
        lease_until_ms: until_ms,
        turned: is_on != (until_ms > 0),
        why: standing.why,
    };
    let end_ms = standing.until_ms.unwrap_or(u64::MAX);
    match standing.may {
        May::No => is_on.then(|| change(0)),
        // His own heartbeats, but not beyond what he may.
        May::BeOn => (is_on && lease_until_ms > end_ms).then(|| change(end_ms)),
        May::On => {
            let wanted = end_ms.min(now_ms + lease_ms);
            let wanting = lease_until_ms < wanted && lease_until_ms < now_ms + lease_ms / 2;
            // Of a heartbeat from before he had hours; another allocator's clock may be somewhat ahead.
            let too_long = lease_until_ms > end_ms.min(now_ms + lease_ms + lease_ms / 2);
            (wanting || too_long).then(|| change(wanted))
        }
    }
}

/// Why a heartbeat or goodbye does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// He may not be on: why, and when he may be next.
    Off { why: Why, next_open_ms: Option<u64> },
    /// He is on without heartbeats, so a goodbye would not last.
    KeptOn,
}

impl Refused {
    pub fn code(self) -> &'static str {
        match self {
            Self::Off { why, .. } => match why {
                Why::Leave => "on_leave",
                other => other.as_str(),
            },
            Self::KeptOn => "kept_on",
        }
    }

    pub fn next_open_ms(self) -> Option<u64> {
        match self {
            Self::Off { next_open_ms, .. } => next_open_ms,
            Self::KeptOn => None,
        }
    }
}

/// Until when a heartbeat that asks for `wanted_ms` counts (0: a goodbye), for somebody of whom more is known than that.
pub fn admit(
    facts: &Facts<'_>,
    wanted_ms: u64,
    now_ms: u64,
    lease_ms: u64,
) -> Result<u64, Refused> {
    let standing = facts.standing(now_ms);
    let end_ms = standing.until_ms.unwrap_or(u64::MAX);
    match (standing.may, wanted_ms) {
        (May::On, 0) => Err(Refused::KeptOn),
        (_, 0) => Ok(0),
        (May::No, _) => Err(Refused::Off {
            why: standing.why,
            next_open_ms: facts.next_open(now_ms),
        }),
        (May::BeOn, until_ms) => Ok(until_ms.min(end_ms)),
        // Not longer than the loop would, and not shorter.
        (May::On, _) => Ok(end_ms.min(now_ms + lease_ms)),
    }
}
