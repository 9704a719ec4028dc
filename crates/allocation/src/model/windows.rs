//! What a member was given in this hour and on this day. Only members with a limit by the hour, by the day or in one pool
//! have this; the others cost nothing.
//!
//! A day ends at a time that is told (midnight where the member is; UTC's where nothing is told) and lasts 24 hours until
//! the next is told, so the caller tells it once a day and a change of the clocks is right. Hours are counted back from
//! the end of the day. Whoever reached a limit is in no pool until the window ends; `alarms` has that time.

use super::member::{Member, Place};
use super::{Call, DAY_MS, HOUR_MS};
use crate::id::{MemberId, PoolId};
use crate::limits::Limits;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Windows {
    pub(super) per_hour: Option<u32>,
    pub(super) per_day: Option<u32>,
    pub(super) hour_n: u32,
    pub(super) hour_end_ms: u64,
    pub(super) day_n: u32,
    pub(super) day_end_ms: u64,
    /// Somebody said when the day ends.
    pub(super) told: bool,
    /// When the member is looked at again because a window ends; 0: need not be.
    pub(super) alarm_ms: u64,
}

/// A member's limits in one pool, and what counts against them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlaceLimits {
    /// Open allocations of this pool, of those given since the limits are there.
    pub(super) load: u32,
    pub(super) limits: Limits,
    pub(super) hour_n: u32,
    pub(super) day_n: u32,
    /// The turn since which is counted; allocations bear it.
    pub(super) since: u64,
}

fn reached(n: u32, most: Option<u32>) -> bool {
    most.is_some_and(|most| n >= most)
}

impl PlaceLimits {
    pub(super) fn is_full(&self) -> bool {
        self.load_is_full() || self.hour_is_full() || self.day_is_full()
    }

    pub(super) fn load_is_full(&self) -> bool {
        reached(self.load, self.limits.at_a_time)
    }

    pub(super) fn hour_is_full(&self) -> bool {
        reached(self.hour_n, self.limits.per_hour)
    }

    pub(super) fn day_is_full(&self) -> bool {
        reached(self.day_n, self.limits.per_day)
    }
}

/// The ends of the day and of the hour that `now_ms` is in; some day ends at `day_end_ms`.
pub(super) fn ends(now_ms: u64, day_end_ms: u64) -> (u64, u64) {
    let day_end_ms = match now_ms >= day_end_ms {
        true => day_end_ms + (now_ms - day_end_ms + 1).div_ceil(DAY_MS) * DAY_MS,
        false => day_end_ms,
    };
    let hours = (day_end_ms - now_ms).div_ceil(HOUR_MS) - 1;
    (day_end_ms, day_end_ms - hours * HOUR_MS)
}

impl Windows {
    pub(super) fn new(now_ms: u64) -> Self {
        let (day_end_ms, hour_end_ms) = ends(now_ms, DAY_MS);
        Self {
            per_hour: None,
            per_day: None,
            hour_n: 0,
            hour_end_ms,
            day_n: 0,
            day_end_ms,
            told: false,
            alarm_ms: 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.hour_is_full() || self.day_is_full()
    }

    pub(super) fn hour_is_full(&self) -> bool {
        reached(self.hour_n, self.per_hour)
    }

    pub(super) fn day_is_full(&self) -> bool {
        reached(self.day_n, self.per_day)
    }
}

impl Member {
    /// What is counted begins anew when a window is over.
    pub(super) fn roll(&mut self, now_ms: u64) {
        let Some(windows) = &mut self.windows else {
            return;
        };
        if now_ms < windows.hour_end_ms {
            return;
        }
        let is_new_day = now_ms >= windows.day_end_ms;
        windows.hour_n = 0;
        if is_new_day {
            windows.day_n = 0;
        }
        (windows.day_end_ms, windows.hour_end_ms) = ends(now_ms, windows.day_end_ms);
        for limits in self.places.iter_mut().filter_map(Place::limits_mut) {
            limits.hour_n = 0;
            if is_new_day {
                limits.day_n = 0;
            }
        }
    }

    /// He was given one of this pool; answers what the allocation bears.
    pub(super) fn count(&mut self, pool: &PoolId, now_ms: u64) -> Option<u64> {
        self.roll(now_ms);
        let windows = self.windows.as_mut()?;
        windows.hour_n += 1;
        windows.day_n += 1;
        let place = self.places.iter_mut().find(|place| place.pool == *pool)?;
        let limits = place.limits.as_mut()?;
        limits.load += 1;
        limits.hour_n += 1;
        limits.day_n += 1;
        Some(limits.since)
    }

    /// One of this pool ended. `unused_since_ms`: it came to nothing, and was given then.
    pub(super) fn uncount(
        &mut self,
        pool: &PoolId,
        mark: Option<u64>,
        unused_since_ms: Option<u64>,
        now_ms: u64,
    ) {
        self.roll(now_ms);
        let Some(windows) = &mut self.windows else {
            return;
        };
        let (mut of_hour, mut of_day) = (0, 0);
        if let Some(since_ms) = unused_since_ms {
            of_hour = u32::from(since_ms + HOUR_MS >= windows.hour_end_ms);
            of_day = u32::from(since_ms + DAY_MS >= windows.day_end_ms);
        }
        windows.hour_n = windows.hour_n.saturating_sub(of_hour);
        windows.day_n = windows.day_n.saturating_sub(of_day);
        let Some(place) = self.places.iter_mut().find(|place| place.pool == *pool) else {
            return;
        };
        if let Some(limits) = &mut place.limits
            && mark == Some(limits.since)
        {
            limits.load -= 1;
            limits.hour_n = limits.hour_n.saturating_sub(of_hour);
            limits.day_n = limits.day_n.saturating_sub(of_day);
        }
    }

    /// When he must be looked at because a window that is full ends; 0: never.
    pub(super) fn next_alarm(&self) -> u64 {
        let Some(windows) = self.windows.as_ref().filter(|_| self.lease_ms > 0) else {
            return 0;
        };
        let mut limits = self.places.iter().filter_map(|place| place.limits.as_ref());
        let hour = windows.hour_is_full() || limits.clone().any(PlaceLimits::hour_is_full);
        let day = windows.day_is_full() || limits.any(PlaceLimits::day_is_full);
        match (hour, day) {
            (true, _) => windows.hour_end_ms,
            (false, true) => windows.day_end_ms,
            (false, false) => 0,
        }
    }

    pub(super) fn windows_mut(&mut self, now_ms: u64) -> &mut Windows {
        self.windows.get_or_insert_with(|| Windows::new(now_ms))
    }

    /// The day ends then; what was counted stays.
    pub(super) fn tell_day_end(&mut self, day_end_ms: Option<u64>, now_ms: u64) {
        let windows = self.windows_mut(now_ms);
        windows.told = day_end_ms.is_some();
        if let Some(day_end_ms) = day_end_ms {
            (windows.day_end_ms, windows.hour_end_ms) = ends(now_ms, day_end_ms);
        }
    }

    /// Nothing is limited by them any more.
    fn has_idle_windows(&self) -> bool {
        self.windows.as_ref().is_some_and(|windows| {
            !windows.told && windows.per_hour.is_none() && windows.per_day.is_none()
        }) && self.places.iter().all(|place| place.limits.is_none())
    }
}

impl Call<'_> {
    pub(super) fn set_alarm(&mut self, id: &MemberId, before_ms: u64, after_ms: u64) {
        if before_ms == after_ms {
            return;
        }
        self.corp.alarms.remove(&(before_ms, id.clone()));
        if after_ms > 0 {
            self.corp.alarms.insert((after_ms, id.clone()));
        }
    }

    /// Forgets windows that limit nothing.
    pub(super) fn tidy(&mut self, id: &MemberId) {
        let Some(member) = self.corp.members.get_mut(id) else {
            return;
        };
        if member.has_idle_windows()
            && let Some(windows) = member.windows.take()
        {
            self.set_alarm(id, windows.alarm_ms, 0);
        }
    }
}
