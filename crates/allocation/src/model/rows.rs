//! A state made of what is known of members, pools and open allocations, for a log that cannot be folded.

use super::offer::{Offer, offer_name};
use super::slots::{Hold, Slot, SlotState, hold_name};
use super::{AllocationView, Call, Corp, HoldView, Open, Route};
use crate::id::{MemberId, PoolId};
use crate::op::{Op, SetChannel, SetMember};
use crate::pool::PoolConfig;

impl Corp {
    /// The state after log entry `seq`, as far as that can be known: loads, caps, blocks, waiting lists and open
    /// allocations are right. Nobody is on, nobody is owed anything, and no request is remembered. `open` is in the
    /// order in which it was decided: who waits keeps his place.
    pub fn from_rows(
        seq: u64,
        at_ms: u64,
        members: Vec<SetMember>,
        pools: Vec<PoolConfig>,
        open: Vec<AllocationView>,
    ) -> Self {
        let mut corp = Self::new();
        let members = members.into_iter().map(Op::SetMember);
        for op in members.chain(pools.into_iter().map(Op::SetPool)) {
            corp.apply(&op, at_ms);
        }
        let mut call = Call::new(&mut corp, at_ms);
        for view in open {
            call.stand(view);
        }
        (corp.seq, corp.at_ms) = (seq, at_ms);
        corp
    }
}

impl Corp {
    /// The same where channels have these limits.
    #[must_use]
    pub fn with_channels(mut self, channels: Vec<SetChannel>) -> Self {
        let (seq, at_ms) = (self.seq, self.at_ms);
        for change in channels {
            self.apply(&Op::SetChannel(change), at_ms);
        }
        self.seq = seq;
        self
    }
}

impl Call<'_> {
    fn stand(&mut self, view: AllocationView) {
        let offer = self.stand_offered(&view);
        if let Some(hold) = &view.hold {
            self.stand_held(&view, hold);
        }
        let mut open = Open {
            id: view.allocation,
            pool: view.pool,
            member: view.member.clone(),
            holder: view.holder,
            epoch: view.epoch,
            settled: view.settled,
            hold: view.hold.map(|hold| Hold {
                until_ms: hold.until_ms,
                channel: hold.channel,
                slot: hold.slot,
                hold_ms: hold.hold_ms,
                rest_ms: hold.rest_ms,
            }),
            mark: None,
            offer,
            route: view.route.map(|route| {
                // What its channel gave is told to it as a number.
                let given = view.member.as_ref().and(route.plan.through());
                Box::new(Route {
                    given_ms: given.map(|_| route.since_ms),
                    plan: route.plan,
                    since_ms: route.since_ms,
                    opened: 0,
                    source: route.source,
                })
            }),
        };
        match open.member.clone() {
            Some(member) => {
                self.create(&member);
                self.find_source(&mut open, &member);
                open.mark = self.stand_load(&member, open.source());
            }
            // A person is to decide: it stands in no list.
            None if open.offer.is_some() => {}
            None => self.wait(&mut open, view.subject),
        }
        let list = self.corp.opens.entry(view.subject).or_default();
        list.push(open);
    }

    /// Rows do not say through which pool it came to him: the first that his plan leads to and that he is in.
    fn find_source(&self, open: &mut Open, member: &MemberId) {
        let places = &self.corp.member(member).places;
        let is_in = |pool: &PoolId| places.iter().any(|place| place.pool == *pool);
        if is_in(&open.pool) {
            return;
        }
        if let Some(route) = open.route.as_mut().filter(|route| route.source.is_none()) {
            let mut pools = route.plan.steps().iter().map(|step| &step.pool);
            route.source = pools.find(|pool| is_in(pool)).cloned();
        }
    }

    /// Nobody is on, and yet who was asked may answer until his time is over: he is likely there.
    fn stand_offered(&mut self, view: &AllocationView) -> Option<Offer> {
        let until_ms = view.offer_until_ms?;
        if let Some(member) = &view.member {
            let name = offer_name(&view.subject, &view.pool);
            let offers = &mut self.corp.offers;
            offers.set_end(&name, Some(until_ms));
            offers.of.entry(member.clone()).or_default().insert(name);
        }
        Some(Offer {
            until_ms,
            since_ms: view.offer_since_ms,
            tried: view.tried.clone(),
        })
    }

    fn stand_held(&mut self, view: &AllocationView, hold: &HoldView) {
        let name = hold_name(&view.subject, &view.pool);
        self.corp.slots.ends.insert((hold.until_ms, name));
        let Some(member) = view.member.clone() else {
            return;
        };
        let whose = (view.subject, view.pool.clone());
        match hold.slot.clone() {
            Some(slot) => {
                let lent = Slot {
                    channel: hold.channel.clone(),
                    member,
                    state: SlotState::Lent,
                    last: Some(whose),
                };
                self.corp.slots.slots.insert(slot, lent);
            }
            None => {
                let turn = self.corp.turn();
                let key = (hold.channel.clone(), member);
                let untold = self.corp.slots.untold.entry(key).or_default();
                untold.insert(turn, whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histories::History;

    /// Whatever happened before: who has whom, who is asked, who was asked before and who must be decided by a person is the
    /// same afterwards.
    #[test]
    fn a_state_made_of_rows_has_what_was_open() {
        let (mut n_offered, mut n_undecided) = (0, 0);
        for seed in 0..40 {
            let corp = History::random(seed, 150).corp;
            let configs = corp.configs.iter();
            let pools = configs.filter_map(|(id, config)| {
                let content = config.content.clone()?;
                PoolConfig::of(id.clone(), config.version, content).ok()
            });
            let open: Vec<_> = corp.allocations().collect();
            let offered = open.iter().filter_map(|view| view.offer_until_ms);
            n_offered += offered.clone().filter(|until_ms| *until_ms > 0).count();
            n_undecided += offered.filter(|until_ms| *until_ms == 0).count();
            // Rows do not say whose member a plan found.
            let without_source = |mut view: AllocationView| {
                if let Some(route) = &mut view.route {
                    route.source = None;
                }
                view
            };
            let open: Vec<_> = open.into_iter().map(without_source).collect();
            let (seq, at_ms) = (corp.seq, corp.at_ms);
            let made = Corp::from_rows(seq, at_ms, Vec::new(), pools.collect(), open.clone());
            assert_eq!(made.problems(), Vec::<String>::new(), "seed {seed}");
            let made_open = made.allocations().map(without_source);
            assert!(made_open.eq(open), "seed {seed}");
            assert_eq!(made.offers.of, corp.offers.of, "seed {seed}");
            assert_eq!(made.offers.rules, corp.offers.rules, "seed {seed}");
            let read = Corp::from_dump(&made.dump()).unwrap();
            assert_eq!(read.offers, made.offers, "seed {seed}");
        }
        assert!(n_offered > 10 && n_undecided > 10);
    }
}
