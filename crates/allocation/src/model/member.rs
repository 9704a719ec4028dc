//! What decides whether a member can be picked, and the one place where that changes.

use super::{Call, Corp};
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
}

/// A member in a pool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub(super) pool: PoolId,
    pub(super) weight: Weight,
    pub(super) strategy: Strategy,
    /// What he is owed while he cannot be picked; 0 while he can (then his score says it).
    pub(super) credit: f64,
}

impl Member {
    /// In no pool, nothing open, no cap, no block, not here: nothing to remember.
    pub(super) fn is_blank(&self) -> bool {
        self.load == 0
            && self.lease_ms == 0
            && self.cap.is_none()
            && self.blocked.is_none()
            && self.places.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.cap.is_some_and(|cap| self.load >= cap)
    }

    fn can_be_picked(&self) -> bool {
        self.lease_ms > 0 && self.blocked.is_none() && !self.is_full()
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
            };
            self.corp.members.insert(id.clone(), member);
        }
    }

    /// Changes a member: he enters or leaves all his pools at once, and his score in least-load pools follows his
    /// load.
    pub(super) fn change(&mut self, id: &MemberId, change: impl FnOnce(&mut Member)) {
        self.seen.insert(id.clone());
        let before = self.corp.member(id).clone();
        let mut after = before.clone();
        change(&mut after);
        after.on = after.can_be_picked();
        for i in 0..before.places.len() {
            let place = &before.places[i];
            if !before.on || place.weight.is_zero() {
                continue;
            }
            if !after.on {
                after.places[i].credit = self.leave(id, &before, place);
            } else if place.strategy == Strategy::LeastLoad {
                let pool = self.corp.pools.get_mut(&place.pool).expect("the pool");
                pool.take_least(id, place.weight, before.load, before.tie);
            }
        }
        for i in 0..after.places.len() {
            let place = after.places[i].clone();
            if !after.on || place.weight.is_zero() {
                continue;
            }
            if !before.on {
                after.places[i].credit = self.enter(id, &after, &place);
            } else if place.strategy == Strategy::LeastLoad {
                let pool = self.corp.pools.get_mut(&place.pool).expect("the pool");
                pool.put_least(id, place.weight, after.load, after.tie);
            }
        }
        self.corp.members.insert(id.clone(), after);
    }

    /// He cannot be picked in this pool any more; answers the credit to keep for him.
    pub(super) fn leave(&mut self, id: &MemberId, member: &Member, place: &Place) -> f64 {
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
        if self.corp.waiting.contains_key(&place.pool) {
            self.touch(&place.pool);
        }
        kept
    }

    pub(super) fn add_load(&mut self, id: &MemberId) {
        self.change(id, |member| member.load += 1);
    }

    pub(super) fn take_load(&mut self, id: &MemberId) {
        self.change(id, |member| member.load -= 1);
    }

    /// One more for a member who was picked.
    pub(super) fn assign(&mut self, id: &MemberId) {
        let tie = TIE + self.corp.turn();
        self.change(id, |member| {
            member.load += 1;
            member.tie = tie;
        });
    }

    pub(super) fn set_lease(&mut self, id: &MemberId, lease_ms: u64) {
        let before = self.corp.member(id).lease_ms;
        if before != lease_ms {
            self.corp.leases.remove(&(before, id.clone()));
            if lease_ms > 0 {
                self.corp.leases.insert((lease_ms, id.clone()));
            }
            self.change(id, |member| member.lease_ms = lease_ms);
        }
    }
}
