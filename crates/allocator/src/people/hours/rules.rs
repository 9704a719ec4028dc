//! Whether a member may be there, why, and until when: the schedule, leaves, and what was said of him, in their order of
//! rank. No clock, no I/O.
//!
//! Who is blocked is off; a leave beats all that was said; what was said (a pause, an operator's override, "on") beats the
//! hours; within his hours a member with the mode `auto` is on by himself, another one by his heartbeat. Without a schedule
//! the heartbeat alone decides.

use ledger::{MemberHours, PresenceMode, SaidWhat};

use super::schedule::{Schedule, State};

/// How many changes of one kind into another are looked through for the next one of on and off.
const MOST_STEPS: usize = 64;

/// Why it is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Off: see [`MemberHours::blocked`].
    Blocked,
    Leave,
    Paused,
    OutsideHours,
    /// On by himself.
    WithinHours,
    /// On because it was said.
    SaidOn,
    Override,
    /// A heartbeat decides.
    Heartbeat,
}

impl Why {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Leave => "leave",
            Self::Paused => "paused",
            Self::OutsideHours => "outside_hours",
            Self::WithinHours => "within_hours",
            Self::SaidOn => "said_on",
            Self::Override => "override",
            Self::Heartbeat => "heartbeat",
        }
    }
}

/// What the rules say at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    No,
    /// As long as he is heard from.
    BeOn,
    /// He is, without a heartbeat.
    On,
}

/// What the rules say at a moment, and until when at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub may: May,
    pub why: Why,
    pub until_ms: Option<u64>,
}

/// A member with his schedule. A schedule that cannot be read is one that never opens.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub hours: &'a MemberHours,
    pub schedule: Option<&'a Schedule>,
}

impl Facts<'_> {
    pub fn standing(&self, at_ms: u64) -> Standing {
        let next_leave = self
            .hours
            .leaves
            .iter()
            .map(|leave| leave.from_ms)
            .filter(|from| *from > at_ms)
            .min();
        let standing = |may, why, until_ms: Option<u64>| Standing {
            may,
            why,
            until_ms: earlier(until_ms, next_leave),
        };
        if self.hours.blocked.is_some() {
            return standing(May::No, Why::Blocked, None);
        }
        if let Some(end) = self.leave_until(at_ms) {
            return Standing {
                may: May::No,
                why: Why::Leave,
                until_ms: Some(end),
            };
        }
        let said = self.hours.said.as_ref();
        let said = said.filter(|said| said.until_ms.is_none_or(|until| at_ms < until));
        let said_until = said.and_then(|said| said.until_ms);
        let said = said.map(|said| said.what);
        match said {
            Some(SaidWhat::Off) => return standing(May::No, Why::Paused, said_until),
            Some(SaidWhat::Override) => return standing(May::On, Why::Override, said_until),
            Some(SaidWhat::On) | None => {}
        }
        let Some(schedule) = self.schedule else {
            return match said {
                Some(_) => standing(May::On, Why::SaidOn, said_until),
                None => standing(May::BeOn, Why::Heartbeat, None),
            };
        };
        match schedule.state(at_ms) {
            State::Closed { opens_ms } => standing(May::No, Why::OutsideHours, opens_ms),
            State::Open { until_ms } => match (said, self.hours.mode) {
                (None, PresenceMode::Auto) => standing(May::On, Why::WithinHours, until_ms),
                (None, PresenceMode::Manual) => standing(May::BeOn, Why::Heartbeat, until_ms),
                (Some(_), _) => standing(May::On, Why::SaidOn, earlier(until_ms, said_until)),
            },
        }
    }

    /// When he may be on though he may not be now, or the other way round.
    pub fn next_change(&self, at_ms: u64) -> Option<u64> {
        let now = self.standing(at_ms);
        let mut standing = now;
        for _ in 0..MOST_STEPS {
            let at_ms = standing.until_ms?;
            standing = self.standing(at_ms);
            if (standing.may == May::No) != (now.may == May::No) {
                return Some(at_ms);
            }
        }
        None
    }

    /// When he may be on next; None while he may.
    pub fn next_open(&self, at_ms: u64) -> Option<u64> {
        match self.standing(at_ms).may {
            May::No => self.next_change(at_ms),
            May::BeOn | May::On => None,
        }
    }

    /// The end of the leave that he is on; leaves that touch are one.
    fn leave_until(&self, at_ms: u64) -> Option<u64> {
        let mut end = at_ms;
        // By their beginning.
        for leave in &self.hours.leaves {
            if leave.from_ms <= end && leave.to_ms > end {
                end = leave.to_ms;
            }
        }
        (end > at_ms).then_some(end)
    }
}

fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
