//! Looking on while an operation is done. Nothing of it changes a state or an answer: whoever explains a decision or counts
//! what members are entitled to sees exactly what the rules see, at the moment at which they see it.

use super::{Call, Choice, Corp};
use crate::id::{AllocationId, MemberId, PoolId, Skill};
use crate::plan::Plan;
use crate::weight::Weight;

/// How an allocation comes to somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum How {
    /// Somebody asked who gets the customer.
    Decided,
    /// Somebody opened a page.
    Visited,
    /// It waited, and somebody is free now.
    Woken,
    /// Given away by this member; `asked`: to a member who was named.
    Reassigned { asked: bool, from: Option<MemberId> },
    /// This member was asked, and declined or did not answer.
    MovedOn { from: Option<MemberId> },
    /// The visitor has added the member who was held for him.
    Confirmed,
    /// As before, when the hold was over.
    Late,
    /// The customer came to another member than the one he saw.
    Mismatched,
    /// The customer came, and no visit explains him.
    Direct,
    /// The customer stayed with a member; `moved`: it was another one's before, or waited.
    Kept { moved: bool },
}

/// One allocation that is about to come to somebody, or to wait.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) allocation: AllocationId,
    pub(crate) pool: &'a PoolId,
    pub(crate) how: How,
    /// Members that a reassignment does not want, or that were asked before.
    pub(crate) left_out: &'a [MemberId],
    pub(crate) now_ms: u64,
}

/// One that waits, and has for as long as its plan lets it.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    pub(crate) allocation: AllocationId,
    pub(crate) pool: &'a PoolId,
    /// When it was asked.
    pub(crate) since_ms: u64,
    /// How long it may wait.
    pub(crate) person_after_ms: u64,
    /// What a member of its own pool must be able to do by now.
    pub(crate) needs: &'a [Skill],
    pub(crate) avoid: &'a [MemberId],
    pub(crate) now_ms: u64,
}

/// Calls come in the order in which the rules work.
pub(crate) trait Watcher {
    /// Somebody or nobody gets this allocation now.
    fn begins(&mut self, _corp: &Corp, _turn: &Turn<'_>) {}

    /// By the rule of the pool this member is next, as head of a class; he is charged when this returns.
    fn picks(&mut self, _corp: &Corp, _pool: &PoolId, _member: &MemberId, _class: usize) {}

    /// What has begun is served by this plan.
    fn follows(&mut self, _corp: &Corp, _plan: &Plan) {}

    /// The channel that limits its plan gave what it may until then: nobody is looked for.
    fn held_back(&mut self, _until_ms: u64) {}

    /// As `picks`, among those only who can do what is needed.
    fn picks_able(
        &mut self,
        _corp: &Corp,
        _pool: &PoolId,
        _member: &MemberId,
        _choice: Choice,
        _needs: &[Skill],
    ) {
    }

    /// This member gets it because the plan prefers him; he is charged when this returns.
    fn prefers(&mut self, _corp: &Corp, _pool: &PoolId, _member: &MemberId, _needs: &[Skill]) {}

    /// It stands in no waiting list from now on: a person must decide. Nobody earns or pays by it.
    fn gives_up(&mut self, _corp: &Corp, _wait: &Wait<'_>) {}

    /// What came of `begins`. None: it waits, or nothing changed.
    fn ends(&mut self, _corp: &Corp, _member: Option<&MemberId>) {}

    /// Can be picked in this pool from now on.
    fn enters(&mut self, _pool: &PoolId, _member: &MemberId, _weight: Weight) {}

    /// Cannot be picked in this pool from now on.
    fn leaves(&mut self, _pool: &PoolId, _member: &MemberId, _weight: Weight) {}

    /// Who can be picked in this pool earns his share of one; their weights have this sum.
    fn earn(&mut self, _corp: &Corp, _pool: &PoolId, _sum: u64) {}

    /// As `earn`, but only these, who can do what is needed.
    fn earn_among(&mut self, _corp: &Corp, _pool: &PoolId, _able: &[(MemberId, Weight)]) {}

    /// This member pays for so many of the pool; below 0: he is paid back.
    fn pays(&mut self, _pool: &PoolId, _member: &MemberId, _customers: i64) {}

    /// A credit entry: this member is owed so much more, and who can be picked pays for it by weight.
    fn adjusts(&mut self, _corp: &Corp, _pool: &PoolId, _member: &MemberId, _amount: f64) {}

    /// An allocation ended that was this member's; `settled`: it had been carried out.
    fn closes(&mut self, _pool: &PoolId, _member: &MemberId, _settled: bool) {}
}

impl Call<'_> {
    pub(super) fn watched(&mut self, see: impl FnOnce(&mut dyn Watcher, &Corp)) {
        if let Some(watcher) = self.watcher.as_deref_mut() {
            see(watcher, self.corp);
        }
    }

    pub(super) fn begins(
        &mut self,
        allocation: AllocationId,
        pool: &PoolId,
        how: How,
        left_out: &[MemberId],
    ) {
        let now_ms = self.now_ms;
        self.watched(|watcher, corp| {
            let turn = Turn {
                allocation,
                pool,
                how,
                left_out,
                now_ms,
            };
            watcher.begins(corp, &turn);
        });
    }

    pub(super) fn ends(&mut self, member: Option<&MemberId>) {
        self.watched(|watcher, corp| watcher.ends(corp, member));
    }
}
