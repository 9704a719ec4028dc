//! Counts in one of the two states while it goes forward: who got whom, how long they waited, what limits kept out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::report::{Pool, Side, Waits};
use crate::explain::Filter;
use crate::fairness::Tally;
use crate::id::{AllocationId, MemberId, PoolId};
use crate::model::{Corp, How, Traced, Turn, Watcher};
use crate::op::{Op, SettlementOutcome};
use crate::outcome::{Answer, Outcome, Settled};
use crate::plan::AdvancedTo;
use crate::visit::Confirmed;
use crate::weight::Weight;

#[derive(Debug)]
pub(super) struct Meter {
    tally: Tally,
    pub(super) now_ms: u64,
    pools: BTreeMap<PoolId, Counts>,
    waiting: HashMap<AllocationId, (PoolId, u64)>,
    under_way: Option<(AllocationId, PoolId, How)>,
    /// May be kept out by a limit now.
    to_look_at: Vec<(PoolId, MemberId)>,
}

#[derive(Debug, Default)]
struct Counts {
    decided: u64,
    members: BTreeMap<MemberId, i64>,
    waited_ms: Vec<u64>,
    gave_up: u64,
    reached: BTreeMap<Filter, u64>,
    kept_out: u64,
    /// Members whom a limit keeps out.
    out: BTreeSet<MemberId>,
}

impl Meter {
    /// Begins with this state. Who waits in it is said to wait since now.
    pub(super) fn new(state: &Corp, now_ms: u64) -> Self {
        let mut meter = Self {
            tally: Tally::new(state, None, vec![now_ms]),
            now_ms,
            pools: BTreeMap::new(),
            waiting: HashMap::new(),
            under_way: None,
            to_look_at: Vec::new(),
        };
        for one in state.allocations() {
            if one.member.is_none() && one.offer_until_ms.is_none() {
                meter.waiting.insert(one.allocation, (one.pool, now_ms));
            }
        }
        for pool in state.pool_ids() {
            let candidates = state.candidates(pool, &[], &[], &[], now_ms);
            let out = candidates.into_iter().filter(|one| is_limit(one.filter));
            let out = out.map(|one| one.member).collect();
            let counts = Counts {
                out,
                ..Counts::default()
            };
            meter.pools.insert(pool.clone(), counts);
        }
        meter
    }

    /// What the watcher cannot see of this operation. `shown`: the visits that its confirmations came from.
    pub(super) fn after(
        &mut self,
        state: &Corp,
        op: &Op,
        outcome: &Outcome,
        shown: &[Option<Traced>],
    ) {
        match &outcome.answer {
            Answer::Closed(closed) => {
                for one in closed.iter().filter(|one| one.member.is_none()) {
                    self.gives_up(one.allocation);
                }
            }
            Answer::Expired { expired, .. } => {
                for one in expired {
                    match &one.member {
                        Some(member) => self.lost(&one.pool, member),
                        None => self.gives_up(one.allocation),
                    }
                }
            }
            Answer::Advanced(advanced) => {
                let left = advanced.iter().filter(|one| one.to == AdvancedTo::Person);
                for one in left {
                    self.gives_up(one.allocation);
                }
            }
            Answer::Settled(settled) => {
                let Op::Settle(settlement) = op else { return };
                match (settled, &settlement.outcome) {
                    (Settled::Void { member: None }, _) => self.gives_up(settlement.allocation),
                    (Settled::Kept { from: Some(from) }, SettlementOutcome::Kept(by))
                        if from != by =>
                    {
                        self.lost(&settlement.pool, from);
                    }
                    _ => {}
                }
            }
            Answer::Confirmed(confirmed) => {
                for (one, shown) in confirmed.iter().zip(shown) {
                    self.confirmed(one, shown.as_ref());
                }
            }
            _ => {}
        }
        match op {
            Op::Presence(changes) => {
                for change in changes {
                    self.look_everywhere(state, &change.member);
                }
            }
            Op::SetMember(change) => self.look_everywhere(state, &change.member),
            Op::SetPool(config) => {
                for (member, _) in config.members() {
                    self.look_everywhere(state, member);
                }
            }
            _ => {}
        }
        self.look(state);
    }

    /// The member whom the visitor saw does not have him.
    fn confirmed(&mut self, confirmed: &Confirmed, shown: Option<&Traced>) {
        let Some(shown) = shown.filter(|shown| shown.live) else {
            return;
        };
        let (Confirmed::Mismatched { held, .. }
        | Confirmed::Already {
            held: Some(held), ..
        }) = confirmed
        else {
            return;
        };
        match &shown.member {
            Some(member) => self.lost(&shown.pool, member),
            None => self.gives_up(*held),
        }
    }

    fn counts(&mut self, pool: &PoolId) -> &mut Counts {
        if !self.pools.contains_key(pool) {
            self.pools.insert(pool.clone(), Counts::default());
        }
        self.pools.get_mut(pool).expect("it is there")
    }

    fn lost(&mut self, pool: &PoolId, member: &MemberId) {
        *self.counts(pool).member(member) -= 1;
    }

    fn gives_up(&mut self, allocation: AllocationId) {
        if let Some((pool, _)) = self.waiting.remove(&allocation) {
            self.counts(&pool).gave_up += 1;
        }
    }

    fn look_everywhere(&mut self, state: &Corp, member: &MemberId) {
        let pools = state.places(member);
        let pools = pools.filter(|(_, _, within)| !within);
        let all = pools.map(|(pool, ..)| (pool.clone(), member.clone()));
        self.to_look_at.extend(all);
    }

    fn look(&mut self, state: &Corp) {
        for (pool, member) in std::mem::take(&mut self.to_look_at) {
            let filter = state.filter(&pool, &member, self.now_ms);
            let filter = filter.unwrap_or_default();
            if is_limit(filter) {
                let counts = self.counts(&pool);
                if counts.out.insert(member)
                    && let Some(filter) = filter
                {
                    *counts.reached.entry(filter).or_default() += 1;
                }
            }
        }
    }

    pub(super) fn end(mut self, state: &Corp) -> BTreeMap<PoolId, Side> {
        for pool in state.pool_ids() {
            self.counts(pool);
        }
        let mut sides: BTreeMap<PoolId, Side> = BTreeMap::new();
        for (pool, mut counts) in self.pools {
            counts.waited_ms.sort_unstable();
            let side = sides.entry(pool.clone()).or_default();
            side.pool = Pool {
                decided: counts.decided,
                waiting: state.waiting(&pool).len() as u64,
                waits: Waits::of(&counts.waited_ms, counts.gave_up),
                limits_reached: counts.reached,
                kept_out: counts.kept_out,
                furthest: None,
                jain: None,
            };
            side.members = counts.members;
        }
        for span in self.tally.end() {
            let measures = span.measures();
            let side = sides.entry(span.pool).or_default();
            side.pool.furthest = measures.furthest;
            side.pool.jain = measures.jain;
        }
        sides
    }
}

impl Counts {
    fn member(&mut self, id: &MemberId) -> &mut i64 {
        if !self.members.contains_key(id) {
            self.members.insert(id.clone(), 0);
        }
        self.members.get_mut(id).expect("he is there")
    }
}

fn is_limit(filter: Option<Filter>) -> bool {
    use Filter::{Cap, DayLimit, HourLimit, PoolCap, PoolDayLimit, PoolHourLimit};
    matches!(
        filter,
        Some(Cap | HourLimit | DayLimit | PoolCap | PoolHourLimit | PoolDayLimit)
    )
}

impl Watcher for Meter {
    fn begins(&mut self, corp: &Corp, turn: &Turn<'_>) {
        self.tally.begins(corp, turn);
        self.under_way = Some((turn.allocation, turn.pool.clone(), turn.how.clone()));
    }

    fn ends(&mut self, corp: &Corp, member: Option<&MemberId>) {
        self.tally.ends(corp, member);
        let Some((allocation, pool, how)) = self.under_way.take() else {
            return;
        };
        let now_ms = self.now_ms;
        let taken = matches!(how, How::MovedOn { .. }) || member.is_some();
        if let How::Reassigned {
            from: Some(from), ..
        }
        | How::MovedOn { from: Some(from) } = &how
            && taken
        {
            self.lost(&pool, from);
        }
        let Some(member) = member else {
            if matches!(how, How::Decided | How::Visited) {
                self.waiting.insert(allocation, (pool, now_ms));
            }
            return;
        };
        if !matches!(how, How::Confirmed | How::Kept { moved: false }) {
            *self.counts(&pool).member(member) += 1;
        }
        if let Some((pool, since_ms)) = self.waiting.remove(&allocation) {
            let waited_ms = now_ms.saturating_sub(since_ms);
            self.counts(&pool).waited_ms.push(waited_ms);
        }
        if matches!(
            how,
            How::Decided | How::Visited | How::Woken | How::Late | How::Mismatched | How::Direct
        ) {
            self.counts(&pool).decided += 1;
        }
    }

    fn enters(&mut self, pool: &PoolId, member: &MemberId, weight: Weight) {
        self.tally.enters(pool, member, weight);
        self.counts(pool).out.remove(member);
    }

    fn leaves(&mut self, pool: &PoolId, member: &MemberId, weight: Weight) {
        self.tally.leaves(pool, member, weight);
        self.to_look_at.push((pool.clone(), member.clone()));
    }

    fn earn(&mut self, corp: &Corp, pool: &PoolId, sum: u64) {
        self.tally.earn(corp, pool, sum);
        self.look(corp);
        let now_ms = self.now_ms;
        let counts = self.counts(pool);
        counts
            .out
            .retain(|member| is_limit(corp.filter(pool, member, now_ms).unwrap_or_default()));
        counts.kept_out += counts.out.len() as u64;
    }

    fn pays(&mut self, pool: &PoolId, member: &MemberId, customers: i64) {
        self.tally.pays(pool, member, customers);
    }

    fn adjusts(&mut self, corp: &Corp, pool: &PoolId, member: &MemberId, amount: f64) {
        self.tally.adjusts(corp, pool, member, amount);
    }

    fn closes(&mut self, pool: &PoolId, member: &MemberId, settled: bool) {
        self.tally.closes(pool, member, settled);
    }
}
