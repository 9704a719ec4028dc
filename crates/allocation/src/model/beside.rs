//! Two states of one corp side by side: the recorded one, and one in which a pool was something else. What of them can be
//! compared from outside, and how the second goes on beside the log.

use std::collections::BTreeSet;

use super::confirm::Trace;
use super::{Call, Corp, Watcher};
use crate::id::{AllocationId, MemberId, PoolId, SubjectKey};
use crate::op::{Closing, Op};
use crate::outcome::Outcome;
use crate::pool::PoolContent;
use crate::visit::Confirmation;

/// A subject's entry in a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) allocation: AllocationId,
    /// None: it waits, or a person must decide.
    pub(crate) member: Option<MemberId>,
    pub(crate) holder: Option<MemberId>,
    pub(crate) epoch: u64,
    /// The member was asked and has not answered.
    pub(crate) offered: bool,
}

/// The visit that a customer came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Traced {
    pub(crate) visitor: SubjectKey,
    pub(crate) pool: PoolId,
    /// Whom the visitor saw; None: he waits.
    pub(crate) member: Option<MemberId>,
    /// His hold has not ended.
    pub(crate) live: bool,
}

/// Something that ends by itself, and what ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// Any operation.
    Alarm,
    Hold,
    Offer,
    /// The plan of one who waits goes on.
    Patience,
}

impl Corp {
    /// Both states have the same of this subject.
    pub(crate) fn has_same_of(&self, other: &Corp, subject: &SubjectKey) -> bool {
        self.opens.get(subject) == other.opens.get(subject)
    }

    pub(crate) fn held(&self, subject: &SubjectKey, pool: &PoolId) -> Option<Held> {
        let list = self.opens.get(subject)?;
        let open = list.iter().find(|open| open.pool == *pool)?;
        Some(Held {
            allocation: open.id,
            member: open.member.clone(),
            holder: open.holder.clone(),
            epoch: open.epoch,
            offered: open.offer.is_some() && open.member.is_some(),
        })
    }

    /// Pools in which this closing would end something.
    pub(crate) fn closed_in(&self, closing: &Closing) -> Vec<PoolId> {
        let list = self.opens.get(&closing.subject).into_iter().flatten();
        let ends = list.filter(|open| open.is_meant_by(closing));
        ends.map(|open| open.pool.clone()).collect()
    }

    pub(crate) fn traced(&mut self, asked: &Confirmation, now_ms: u64) -> Option<Traced> {
        let found = Call::new(self, now_ms).trace(asked)?;
        Some(Traced {
            pool: found.pool().clone(),
            member: found.member().cloned(),
            live: matches!(found.hold, Trace::Live(_)),
            visitor: found.visitor,
        })
    }

    /// What the pool is; None: there is no such pool.
    pub(crate) fn content(&self, pool: &PoolId) -> Option<&PoolContent> {
        self.configs.get(pool)?.content.as_ref()
    }

    /// A version that the pool has not had.
    pub(crate) fn next_version(&self, pool: &PoolId) -> u64 {
        self.configs
            .get(pool)
            .map_or(1, |config| config.version + 1)
    }

    /// Who waits for this pool, and who of it is free, is the same in both states.
    pub(crate) fn has_same_queues(&self, other: &Corp, pool: &PoolId) -> bool {
        self.pools.get(pool) == other.pools.get(pool)
            && self.drips.get(pool) == other.drips.get(pool)
            && self.queues_of(pool).eq(other.queues_of(pool))
    }

    /// Pools in which somebody waits and somebody is free, who may not be able to serve him.
    pub(crate) fn can_wake(&self) -> Vec<PoolId> {
        let pools: BTreeSet<&PoolId> = self.queues.keys().map(|(pool, _)| pool).collect();
        let may = |pool: &&&PoolId| self.sum(pool) > 0 && !self.drips(pool, self.at_ms);
        pools
            .iter()
            .filter(may)
            .map(|pool| (*pool).clone())
            .collect()
    }

    /// The first thing that ends here until then and not in the other state.
    pub(crate) fn due_beside(&self, other: &Corp, until_ms: u64) -> Option<(u64, Due)> {
        let alarm = first_beside(&self.alarms, &other.alarms, until_ms);
        let gate = first_beside(&self.gate_alarms, &other.gate_alarms, until_ms);
        let gate = gate.map(|at_ms| (at_ms, Due::Alarm));
        let hold = first_beside(&self.slots.ends, &other.slots.ends, until_ms);
        let offer = first_beside(&self.offers.ends, &other.offers.ends, until_ms);
        let patience = first_beside(&self.patience, &other.patience, until_ms);
        let patience = patience.map(|at_ms| (at_ms, Due::Patience));
        let alarm = alarm.map(|at_ms| (at_ms, Due::Alarm));
        let hold = hold.map(|at_ms| (at_ms, Due::Hold));
        let offer = offer.map(|at_ms| (at_ms, Due::Offer));
        let all = [alarm, gate, hold, offer, patience];
        all.into_iter().flatten().min()
    }

    /// Offers of the pool that are not answered.
    pub(crate) fn asked_in(&self, pool: &PoolId) -> Vec<SubjectKey> {
        let names = self.offers.end_of.keys();
        let names = names.map(|name| super::offer::read_name(name));
        names
            .filter_map(|(subject, of)| (of == *pool).then_some(subject))
            .collect()
    }

    /// Does an operation of the log, whatever the log says of its outcome.
    pub(crate) fn go_on(&mut self, op: &Op, now_ms: u64, watcher: &mut dyn Watcher) -> Outcome {
        self.apply_watched(op, now_ms, Some(watcher))
    }

    /// Does an operation that is no entry of the log.
    pub(crate) fn go_beside(&mut self, op: &Op, now_ms: u64, watcher: &mut dyn Watcher) -> Outcome {
        let outcome = self.apply_watched(op, now_ms, Some(watcher));
        self.seq -= 1;
        outcome
    }
}

fn first_beside<T: Ord>(
    own: &BTreeSet<(u64, T)>,
    other: &BTreeSet<(u64, T)>,
    until_ms: u64,
) -> Option<u64> {
    let mut due = own.iter().take_while(|(at_ms, _)| *at_ms <= until_ms);
    due.find(|one| !other.contains(one))
        .map(|(at_ms, _)| *at_ms)
}
