//! Credits that change without a pick.

use super::Call;
use crate::id::{MemberId, PoolId};
use crate::op::Adjustment;
use crate::outcome::Adjusted;
use crate::pool::Strategy;

impl Call<'_> {
    /// A member is owed more, or less; whoever can be picked pays for it by weight, so credits still sum to 0.
    pub(super) fn adjust(&mut self, adjustment: &Adjustment) -> Adjusted {
        let Adjustment {
            pool,
            member,
            thousandths,
        } = adjustment;
        let Some(state) = self.corp.pools.get_mut(pool) else {
            return Adjusted::NoPool;
        };
        if state.strategy != Strategy::WeightedRoundRobin {
            return Adjusted::NotFair;
        }
        let nobody = state.sum == 0;
        if !self.has_credit(pool, member) {
            return Adjusted::NotMember;
        }
        if nobody {
            return Adjusted::Nobody;
        }
        let amount = *thousandths as f64 / 1000.0;
        self.watched(|watcher, corp| watcher.adjusts(corp, pool, member, amount));
        let state = self.corp.pools.get_mut(pool).expect("the pool");
        state.all_pay(amount);
        self.add_credit(pool, member, amount);
        self.seen.insert(member.clone());
        Adjusted::Adjusted
    }

    /// As if the member had been picked: who can be picked earns, and he pays.
    pub(super) fn charge_unasked(&mut self, pool: &PoolId, member: &MemberId) {
        if !self.has_credit(pool, member) {
            return;
        }
        let state = self.corp.pools.get(pool).expect("the pool");
        if state.sum > 0 {
            self.counts(pool);
            let state = self.corp.pools.get_mut(pool).expect("the pool");
            state.count += 1;
            self.add_credit(pool, member, -1.0);
            self.watched(|watcher, _| watcher.pays(pool, member, 1));
        }
    }

    /// Whether the member has credit in this pool: it is fair, and he has a weight in it.
    pub(super) fn has_credit(&self, pool: &PoolId, member: &MemberId) -> bool {
        let Some(member) = self.corp.members.get(member) else {
            return false;
        };
        member.places.iter().any(|place| {
            place.pool == *pool
                && !place.weight.is_zero()
                && place.strategy == Strategy::WeightedRoundRobin
        })
    }

    pub(super) fn add_credit(&mut self, pool: &PoolId, id: &MemberId, amount: f64) {
        let member = self.corp.members.get_mut(id).expect("a member with credit");
        let place = member.places.iter_mut().find(|place| place.pool == *pool);
        let place = place.expect("a place with credit");
        if place.within {
            let state = self.corp.pools.get_mut(pool).expect("the pool");
            state.pay(id, place.weight, amount);
        } else {
            place.credit += amount;
        }
    }
}
