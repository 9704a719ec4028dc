//! Looking at a state: for the console, for figures, and for checks of what must always hold.

use std::collections::{BTreeMap, BTreeSet};

use super::Corp;
use super::offer::offer_name;
use super::slots::{SlotState, hold_name, past_name};
use super::windows::ends;
use crate::id::{AllocationId, ChannelId, MemberId, PoolId, Reason, SlotId, SubjectKey};
use crate::limits::Limits;
use crate::plan::Plan;
use crate::pool::Strategy;
use crate::weight::Weight;

/// A member as the rules see him.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberView {
    pub member: MemberId,
    pub load: u32,
    pub cap: Option<u32>,
    /// What he was given in this hour and on this day, as of the last operation about him; only of members with
    /// limits by time or by pool.
    pub given: Option<Given>,
    /// End of his presence lease; 0 = off.
    pub lease_until_ms: u64,
    pub blocked: Option<Reason>,
    /// Can be picked in the pools where his weight is above 0.
    pub eligible: bool,
}

/// What counts against a member's limits over all pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    pub in_hour: u32,
    pub hour_end_ms: u64,
    pub on_day: u32,
    pub day_end_ms: u64,
    /// Somebody said when the day ends.
    pub told: bool,
    pub limits: Limits,
}

impl Given {
    /// The same at a later moment, if he is given nothing until then.
    #[must_use]
    pub fn at(self, now_ms: u64) -> Self {
        if now_ms < self.hour_end_ms {
            return self;
        }
        let (day_end_ms, hour_end_ms) = ends(now_ms, self.day_end_ms);
        Self {
            in_hour: 0,
            hour_end_ms,
            on_day: if now_ms < self.day_end_ms {
                self.on_day
            } else {
                0
            },
            day_end_ms,
            ..self
        }
    }
}

/// A member's place in a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    pub member: MemberId,
    pub weight: Weight,
    pub eligible: bool,
    /// How far he is below (above 0) or above (below 0) his exact share, in customers. Only fair pools move it.
    pub credit: f64,
}

/// An open or waiting allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocationView {
    pub subject: SubjectKey,
    pub allocation: AllocationId,
    pub pool: PoolId,
    /// None: it waits.
    pub member: Option<MemberId>,
    /// Who had the customer at WeCom when it was asked.
    pub holder: Option<MemberId>,
    pub epoch: u64,
    pub settled: bool,
    /// It is a visit's.
    pub hold: Option<HoldView>,
    /// Its request had a plan.
    pub route: Option<RouteView>,
    /// When the offer ends that is not answered; 0: a person must decide.
    pub offer_until_ms: Option<u64>,
    /// Since when its member is asked; 0: he is not.
    pub offer_since_ms: u64,
    /// Who was asked before, in that order.
    pub tried: Vec<MemberId>,
}

/// How an allocation is served that does not just take the next of its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteView {
    pub plan: Plan,
    /// When it was asked: the times of the plan count from here.
    pub since_ms: u64,
    /// The pool its member is of, if that is another one than was asked.
    pub source: Option<PoolId>,
}

/// What a visit has for a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldView {
    pub until_ms: u64,
    pub channel: ChannelId,
    pub slot: Option<SlotId>,
    pub hold_ms: u64,
    pub rest_ms: u64,
}

/// A slot as the rules see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotView {
    pub slot: SlotId,
    pub channel: ChannelId,
    pub member: MemberId,
    pub lent: bool,
}

impl Corp {
    pub fn members(&self) -> impl Iterator<Item = MemberView> + '_ {
        self.members.iter().map(|(id, member)| MemberView {
            member: id.clone(),
            load: member.load,
            cap: member.cap,
            given: member.windows.as_ref().map(|windows| Given {
                in_hour: windows.hour_n,
                hour_end_ms: windows.hour_end_ms,
                on_day: windows.day_n,
                day_end_ms: windows.day_end_ms,
                told: windows.told,
                limits: Limits {
                    at_a_time: member.cap,
                    per_hour: windows.per_hour,
                    per_day: windows.per_day,
                },
            }),
            lease_until_ms: member.lease_ms,
            blocked: member.blocked.clone(),
            eligible: member.on,
        })
    }

    /// The pool's members with their credits; None: no such pool.
    pub fn shares(&self, id: &PoolId) -> Option<Vec<Share>> {
        let pool = self.pools.get(id)?;
        let content = self.configs.get(id)?.content.as_ref()?;
        let shares = content.members.iter().map(|(member, weight)| {
            let state = self.member(member);
            let place = state.places.iter().find(|place| place.pool == *id);
            let kept = place.map_or(0.0, |place| place.credit);
            let eligible = place.is_some_and(|place| place.within);
            Share {
                member: member.clone(),
                weight: *weight,
                eligible,
                credit: pool.credit(member, *weight).unwrap_or(kept),
            }
        });
        Some(shares.collect())
    }

    pub fn pool_ids(&self) -> impl Iterator<Item = &PoolId> {
        self.pools.keys()
    }

    pub fn allocations(&self) -> impl Iterator<Item = AllocationView> + '_ {
        let lists = self.opens.iter();
        lists.flat_map(|(subject, list)| {
            list.iter().map(|open| AllocationView {
                subject: *subject,
                allocation: open.id,
                pool: open.pool.clone(),
                member: open.member.clone(),
                holder: open.holder.clone(),
                epoch: open.epoch,
                settled: open.settled,
                route: open.route.as_ref().map(|route| RouteView {
                    plan: route.plan.clone(),
                    since_ms: route.since_ms,
                    source: route.source.clone(),
                }),
                offer_until_ms: open.offer.as_ref().map(|offer| offer.until_ms),
                offer_since_ms: open.offer.as_ref().map_or(0, |offer| offer.since_ms),
                tried: open
                    .offer
                    .as_ref()
                    .map_or(Vec::new(), |offer| offer.tried.clone()),
                hold: open.hold.as_ref().map(|hold| HoldView {
                    until_ms: hold.until_ms,
                    channel: hold.channel.clone(),
                    slot: hold.slot.clone(),
                    hold_ms: hold.hold_ms,
                    rest_ms: hold.rest_ms,
                }),
            })
        })
    }

    pub fn slots(&self) -> impl Iterator<Item = SlotView> + '_ {
        self.slots.slots.iter().map(|(id, slot)| SlotView {
            slot: id.clone(),
            channel: slot.channel.clone(),
            member: slot.member.clone(),
            lent: slot.state != SlotState::Free,
        })
    }

    /// Whom the pool could serve and who waits, oldest first.
    pub fn waiting(&self, pool: &PoolId) -> Vec<SubjectKey> {
        let lists = self.queues_of(pool).map(|(_, list)| &list.by_turn);
        let all: BTreeMap<u64, SubjectKey> = lists
            .flatten()
            .map(|(turn, (subject, _))| (*turn, *subject))
            .collect();
        all.into_values().collect()
    }

    /// What must always hold and does not, each in words; empty when all is well. (That nobody is picked above his
    /// cap cannot be seen in a state: caps are lowered, and a customer may stay with a member who is full.)
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut loads: BTreeMap<&MemberId, u32> = BTreeMap::new();
        let mut waiters = BTreeSet::new();
        let mut patience = self.patience.clone();
        for (subject, list) in &self.opens {
            for (i, open) in list.iter().enumerate() {
                match &open.member {
                    Some(member) => *loads.entry(member).or_default() += 1,
                    None if open.offer.is_some() => {}
                    None => {
                        for queue in open.queues(open.opened()) {
                            waiters.insert((queue, (*subject, open.pool.clone())));
                        }
                        if let Some(next_ms) = open.next_ms()
                            && !patience.remove(&(next_ms, offer_name(subject, &open.pool)))
                        {
                            problems.push(format!("the plan of {subject} does not go on"));
                        }
                    }
                }
                if list[..i].iter().any(|other| other.pool == open.pool) {
                    problems.push(format!("{subject} has two allocations in {}", open.pool));
                }
            }
        }
        for (id, member) in &self.members {
            let open = loads.remove(id).unwrap_or(0);
            if member.load != open {
                problems.push(format!("load of {id} is {}, {open} are open", member.load));
            }
        }
        for id in loads.keys() {
            problems.push(format!("{id} has allocations and is not known"));
        }
        for (queue, list) in &self.queues {
            for waiter in list.by_turn.values() {
                if !waiters.remove(&(queue.clone(), waiter.clone())) {
                    problems.push(format!("{} is in {queue:?} and does not wait", waiter.0));
                }
            }
        }
        for (queue, (subject, _)) in &waiters {
            problems.push(format!("{subject} waits and is not in {queue:?}"));
        }
        if !patience.is_empty() {
            problems.push(format!("{} plans of nobody go on", patience.len()));
        }
        problems.extend(self.problems_of_visits());
        problems.extend(self.problems_of_limits());
        problems.extend(self.problems_of_offers());
        problems.extend(self.problems_of_gates());
        problems.extend(self.seats.problems());
        for (id, pool) in &self.pools {
            let shares = self.shares(id).unwrap_or_default();
            let eligible = shares.iter().filter(|share| share.eligible);
            let sum: u64 = eligible
                .map(|share| u64::from(share.weight.thousandths()))
                .sum();
            if pool.sum != sum {
                problems.push(format!("weights of {id} sum to {sum}, it has {}", pool.sum));
            }
            let credits: f64 = shares.iter().map(|share| share.credit).sum();
            if pool.strategy == Strategy::WeightedRoundRobin && credits.abs() > 1e-6 {
                problems.push(format!("credits of {id} sum to {credits}"));
            }
        }
        problems
    }

    fn problems_of_visits(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut ends = self.slots.ends.clone();
        let mut lent = 0;
        let mut untold = 0;
        for (subject, list) in &self.opens {
            for open in list {
                let Some(hold) = &open.hold else { continue };
                if !ends.remove(&(hold.until_ms, hold_name(subject, &open.pool))) {
                    problems.push(format!("hold of {subject} in {} has no end", open.pool));
                }
                match &hold.slot {
                    Some(id) => {
                        lent += 1;
                        let slot = self.slots.slots.get(id);
                        let is_his = |slot: &super::slots::Slot| {
                            slot.state != SlotState::Free
                                && Some(&slot.member) == open.member.as_ref()
                                && slot.last.as_ref() == Some(&(*subject, open.pool.clone()))
                        };
                        if !slot.is_some_and(is_his) {
                            problems.push(format!("slot {id} is not lent to {subject}"));
                        }
                    }
                    None => untold += usize::from(open.member.is_some()),
                }
            }
        }
        for (subject, list) in &self.slots.pasts {
            for past in list {
                if !ends.remove(&(past.until_ms, past_name(subject, &past.pool))) {
                    problems.push(format!("memory of {subject} has no end"));
                }
            }
        }
        if !ends.is_empty() {
            problems.push(format!("{} ends of nothing", ends.len()));
        }
        let states = self.slots.slots.values();
        let n_lent = states.filter(|slot| slot.state != SlotState::Free).count();
        if n_lent != lent {
            problems.push(format!("{n_lent} slots are lent, {lent} holds have one"));
        }
        let n_free: usize = self.slots.free.values().map(|free| free.len()).sum();
        if n_free + n_lent != self.slots.slots.len() {
            problems.push(format!("{n_free} slots are free and {n_lent} are lent"));
        }
        let n_untold: usize = self.slots.untold.values().map(|untold| untold.len()).sum();
        if n_untold != untold {
            problems.push(format!("{n_untold} holds without slot, {untold} say so"));
        }
        problems
    }

    fn problems_of_limits(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut counted: BTreeMap<(&MemberId, &PoolId, u64), u32> = BTreeMap::new();
        for open in self.opens.values().flatten() {
            if let (Some(member), Some(mark)) = (&open.member, open.mark) {
                *counted.entry((member, open.source(), mark)).or_default() += 1;
            }
        }
        let mut alarms = self.alarms.clone();
        for (id, member) in &self.members {
            for place in &member.places {
                if let Some(limits) = &place.limits {
                    let bear = counted.get(&(id, &place.pool, limits.since));
                    let bear = bear.copied().unwrap_or(0);
                    if bear != limits.load {
                        let (pool, load) = (&place.pool, limits.load);
                        problems.push(format!("load of {id} in {pool} is {load}, {bear} bear it"));
                    }
                }
                if place.within != member.belongs_in(place) {
                    problems.push(format!(
                        "{id} is in {} and should not, or the other way",
                        place.pool
                    ));
                }
            }
            let alarm_ms = member
                .windows
                .as_ref()
                .map_or(0, |windows| windows.alarm_ms);
            if alarm_ms > 0 && !alarms.remove(&(alarm_ms, id.clone())) {
                problems.push(format!("{id} has no alarm"));
            }
        }
        if !alarms.is_empty() {
            problems.push(format!("{} alarms of nobody", alarms.len()));
        }
        problems
    }

    fn problems_of_offers(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut names = std::collections::BTreeSet::new();
        for (subject, list) in &self.opens {
            for open in list {
                let Some(offer) = &open.offer else { continue };
                let name = super::offer::offer_name(subject, &open.pool);
                match &open.member {
                    None if offer.is_for_a_person() => continue,
                    None => problems.push(format!("nobody is asked about {subject}")),
                    Some(member) => {
                        let of = self.offers.of.get(member);
                        if !of.is_some_and(|names| names.contains(&name)) {
                            problems.push(format!("{member} does not know of his offer"));
                        }
                    }
                }
                if !self.offers.end_of.contains_key(&name) {
                    problems.push(format!("the offer of {subject} has no end"));
                }
                names.insert(name);
            }
        }
        let of: usize = self.offers.of.values().map(|names| names.len()).sum();
        if names.len() != self.offers.ends.len() || names.len() != of {
            let ends = self.offers.ends.len();
            problems.push(format!("{} offers, {ends} ends, {of} known", names.len()));
        }
        problems
    }
}
