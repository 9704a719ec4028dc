//! What decides whether a member can be picked, and the one place where that changes.

use super::windows::{PlaceLimits, Windows};
use super::{Call, Corp, Open};
use crate::id::{MemberId, PoolId, Reason};
use crate::pool::Strategy;
use crate::weight::Weight;

/// Whoever was picked at turn t has the tie TIE + t; a newcomer of turn t, never picked, TIE − t. So ties go to
/// whoever was picked longest ago, never by name: no two members have the same.
const TIE: u64 = 1 << 52;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    /// Open allocations over all pools.
    pub(super) load: u32,
    pub(super) tie: u64,
    pub(super) cap: Option<u32>,
    /// End of the presence lease; 0 = off.
    pub(super) lease_ms: u64,
    pub(super) blocked: Option<Reason>,
    /// Can be picked, in every pool where his weight is above 0.
    pub(super) on: bool,
    pub(super) places: Vec<Place>,
    pub(super) windows: Option<Windows>,
}

/// A member in a pool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub(super) pool: PoolId,
    pub(super) weight: Weight,
    pub(super) strategy: Strategy,
    /// What he is owed while he cannot be picked; 0 while he can (then his score says it).
    pub(super) credit: f64,
    /// He can be picked here: the pool's sets have him.
    pub(super) within: bool,
    pub(super) limits: Option<PlaceLimits>,
}

impl Place {
    pub(super) fn limits_mut(&mut self) -> Option<&mut PlaceLimits> {
        self.limits.as_mut()
    }
}

impl Member {
    /// In no pool, nothing open, no cap, no block, not here: nothing to remember.
    pub(super) fn is_blank(&self) -> bool {
        self.load == 0
            && self.lease_ms == 0
            && self.cap.is_none()
            && self.blocked.is_none()
            && self.places.is_empty()
            && self.windows.is_none()
    }

    pub(super) fn is_full(&self) -> bool {
        self.cap.is_some_and(|cap| self.load >= cap)
            || self.windows.as_ref().is_some_and(Windows::is_full)
    }

    /// Full over all pools, or in this one.
    pub(super) fn is_full_in(&self, pool: &PoolId) -> bool {
        let place = self.places.iter().find(|place| place.pool == *pool);
        let limits = place.and_then(|place| place.limits.as_ref());
        self.is_full() || limits.is_some_and(PlaceLimits::is_full)
    }

    fn can_be_picked(&self) -> bool {
        self.lease_ms > 0 && self.blocked.is_none() && !self.is_full()
    }

    /// Whether he can be picked in the pool of this place.
    pub(super) fn belongs_in(&self, place: &Place) -> bool {
        self.on
            && !place.weight.is_zero()
            && !place.limits.as_ref().is_some_and(PlaceLimits::is_full)
    }
}

impl Corp {
    pub(super) fn member(&self, id: &MemberId) -> &Member {
        self.members.get(id).expect("a known member")
    }
}

impl Call<'_> {
    /// Makes the member known.
    pub(super) fn create(&mut self, id: &MemberId) {
        self.seen.insert(id.clone());
        if !self.corp.members.contains_key(id) {
            let member = Member {
                load: 0,
                tie: TIE - self.corp.turn(),
                cap: None,
                lease_ms: 0,
                blocked: None,
                on: false,
                places: Vec::new(),
                windows: None,
            };
            self.corp.members.insert(id.clone(), member);
        }
    }

    /// Changes a member: he enters or leaves his pools at once, and his score in least-load pools follows his load.
    pub(super) fn change(&mut self, id: &MemberId, change: impl FnOnce(&mut Member)) {
        self.seen.insert(id.clone());
        let before = self.corp.member(id).clone();
        let mut after = before.clone();
        change(&mut after);
        after.roll(self.now_ms);
        after.on = after.can_be_picked();
        for i in 0..after.places.len() {
            let place = after.places[i].clone();
            if !place.within {
                continue;
            }
            if !after.belongs_in(&place) {
                after.places[i].credit = self.leave(id, &before, &place);
                after.places[i].within = false;
            } else if place.strategy == Strategy::LeastLoad {
                let pool = self.corp.pools.get_mut(&place.pool).expect("the pool");
                pool.take_least(id, place.weight, before.load, before.tie);
            }
        }
        for i in 0..after.places.len() {
            let place = after.places[i].clone();
            if !after.belongs_in(&place) {
                continue;
            }
            if !place.within {
                after.places[i].credit = self.enter(id, &after, &place);
                after.places[i].within = true;
            } else if place.strategy == Strategy::LeastLoad {
                let pool = self.corp.pools.get_mut(&place.pool).expect("the pool");
                pool.put_least(id, place.weight, after.load, after.tie);
            }
        }
        let alarm_ms = after.next_alarm();
        let before_ms = before
            .windows
            .as_ref()
            .map_or(0, |windows| windows.alarm_ms);
        if let Some(windows) = &mut after.windows {
            windows.alarm_ms = alarm_ms;
        }
        self.set_alarm(id, before_ms, alarm_ms);
        self.corp.members.insert(id.clone(), after);
    }

    /// He cannot be picked in this pool any more; answers the credit to keep for him.
    pub(super) fn leave(&mut self, id: &MemberId, member: &Member, place: &Place) -> f64 {
        self.watched(|watcher, _| watcher.leaves(&place.pool, id, place.weight));
        let pool = self.corp.pools.get_mut(&place.pool).expect("the pool");
        match place.strategy {
            Strategy::LeastLoad => {
                pool.leave_least(id, place.weight, member.load, member.tie);
                place.credit
            }
            Strategy::WeightedRoundRobin => pool.leave(id, place.weight),
        }
    }

    /// He can be picked in this pool; answers the credit to keep beside his score.
    pub(super) fn enter(&mut self, id: &MemberId, member: &Member, place: &Place) -> f64 {
        self.watched(|watcher, _| watcher.enters(&place.pool, id, place.weight));
        let pool = self.corp.pools.get_mut(&place.pool).expect("the pool");
        let kept = match place.strategy {
            Strategy::LeastLoad => {
                pool.enter_least(id, place.weight, member.load, member.tie);
                place.credit
            }
            Strategy::WeightedRoundRobin => {
                pool.enter(id, place.weight, place.credit);
                0.0
            }
        };
        if self.has_waiting(&place.pool) {
            self.barren.retain(|(pool, _)| *pool != place.pool);
            self.touch(&place.pool);
        }
        kept
    }

    /// One of the pool more, whatever his limits say; answers what the allocation bears.
    pub(super) fn add_load(&mut self, id: &MemberId, pool: &PoolId) -> Option<u64> {
        let (now_ms, mut mark) = (self.now_ms, None);
        self.change(id, |member| {
            member.load += 1;
            mark = member.count(pool, now_ms);
        });
        mark
    }

    /// A hold of his begins anew: it counts in this hour and on this day, and not before. Answers what the allocation bears.
    pub(super) fn count_again(&mut self, id: &MemberId, open: &Open) -> Option<u64> {
        let mut mark = open.mark;
        if self.corp.member(id).windows.is_some() {
            let now_ms = self.now_ms;
            self.change(id, |member| {
                member.uncount(open.source(), open.mark, open.held_since_ms(), now_ms);
                mark = member.count(open.source(), now_ms);
            });
        }
        mark
    }

    /// One of the pool less. One that was held and not confirmed, or offered and not accepted,
    /// came to nothing: it is as if it had not been given.
    pub(super) fn take_load(&mut self, id: &MemberId, open: &Open) {
        let (now_ms, mark) = (self.now_ms, open.mark);
        self.change(id, |member| {
            member.load -= 1;
            member.uncount(open.source(), mark, open.held_since_ms(), now_ms);
        });
    }

    /// One more for a member who was picked.
    pub(super) fn assign(&mut self, id: &MemberId, pool: &PoolId) -> Option<u64> {
        let tie = TIE + self.corp.turn();
        let (now_ms, mut mark) = (self.now_ms, None);
        self.change(id, |member| {
            member.load += 1;
            member.tie = tie;
            mark = member.count(pool, now_ms);
        });
        mark
    }

    /// One that stood before: it counts in no hour and on no day.
    pub(super) fn stand_load(&mut self, id: &MemberId, pool: &PoolId) -> Option<u64> {
        let tie = TIE + self.corp.turn();
        let mut mark = None;
        self.change(id, |member| {
            member.load += 1;
            member.tie = tie;
            let place = member.places.iter_mut().find(|place| place.pool == *pool);
            if let Some(limits) = place.and_then(Place::limits_mut) {
                limits.load += 1;
                mark = Some(limits.since);
            }
        });
        mark
    }

    pub(super) fn set_lease(&mut self, id: &MemberId, lease_ms: u64) {
        let before = self.corp.member(id).lease_ms;
        if before != lease_ms {
            self.corp.leases.remove(&(before, id.clone()));
            if lease_ms > 0 {
                self.corp.leases.insert((lease_ms, id.clone()));
            }
            self.change(id, |member| member.lease_ms = lease_ms);
            if lease_ms == 0 {
                self.offers_are_over(id);
            }
        }
    }
}
