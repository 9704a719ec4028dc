//! Serving an allocation by its plan: the members it prefers, the pools that are open to it by now, and only those members
//! who can do what it needs.
//!
//! Who is picked for something that only some can do pays for it, and only those earn by it who could have been picked: each
//! of them weight / sum of their weights, so credits still sum to 0. Virtual time stands still meanwhile; it is the same
//! choice as in `pool.rs` among fewer members. A member who is preferred pays as if he had been next.
//!
//! Whom the plan avoids is left out of a pick like those whom a reassignment does not want: away while it lasts.

use super::candidates::{Choice, PickRule, TieRule};
use super::pool::{NO_CREDIT, Pool};
use super::{Call, Corp, Open, Wait};
use crate::id::{MemberId, PoolId, Skill, SubjectKey};
use crate::plan::{Advanced, AdvancedTo, Plan, Step};
use crate::pool::Strategy;
use crate::weight::Weight;

/// What an allocation has whose request had a plan.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Route {
    pub(super) plan: Plan,
    /// When it was asked.
    pub(super) since_ms: u64,
    /// In the queues of so many steps it stands.
    pub(super) opened: usize,
    /// The pool its member is of, if that is another one than was asked.
    pub(super) source: Option<PoolId>,
    /// When it was given, where the channel it came through counts that.
    pub(super) given_ms: Option<u64>,
}

impl Route {
    pub(super) fn begin(plan: Option<&Plan>, now_ms: u64) -> Option<Box<Self>> {
        plan.map(|plan| {
            Box::new(Self {
                plan: plan.clone(),
                since_ms: now_ms,
                opened: 0,
                source: None,
                given_ms: None,
            })
        })
    }

    /// So many steps are open at this time.
    pub(super) fn due(&self, now_ms: u64) -> usize {
        let steps = self.plan.steps().iter();
        let due = steps
            .take_while(|step| self.since_ms + step.after_ms <= now_ms)
            .count();
        due.max(self.opened).max(1)
    }

    /// When its plan goes on, if it still waits then.
    pub(super) fn next_ms(&self, is_visit: bool) -> Option<u64> {
        let step = self.plan.steps().get(self.opened.max(1));
        let person = self.plan.person_after_ms().filter(|_| !is_visit);
        let next = step
            .map(|step| step.after_ms)
            .into_iter()
            .chain(person)
            .min();
        next.map(|after_ms| self.since_ms + after_ms)
    }

    /// How long it may wait, once it has: a person must decide.
    fn is_for_a_person(&self, is_visit: bool, now_ms: u64) -> Option<u64> {
        let person = self.plan.person_after_ms().filter(|_| !is_visit);
        person.filter(|after_ms| self.since_ms + after_ms <= now_ms)
    }
}

/// One of those who can do what is needed: class and score, where the pool is fair.
struct Able {
    member: MemberId,
    class: usize,
    weight: Weight,
    score: f64,
}

impl Call<'_> {
    /// For one that comes now: nobody is overtaken who waits.
    pub(super) fn serve_new(&mut self, open: &mut Open) -> Option<MemberId> {
        self.serve(open, &[], |call, pool| !call.must_wait(pool))
    }

    /// For one that has waited.
    pub(super) fn serve_waiting(&mut self, open: &mut Open) -> Option<MemberId> {
        self.serve(open, &[], |call, pool| !call.corp.drips(pool, call.now_ms))
    }

    /// Instead of those who are left out.
    pub(super) fn serve_without(
        &mut self,
        open: &mut Open,
        left_out: Vec<MemberId>,
    ) -> Option<MemberId> {
        match &open.route {
            None => self.pick_without(&open.pool.clone(), left_out),
            Some(_) => self.serve(open, &left_out, |_, _| true),
        }
    }

    fn serve(
        &mut self,
        open: &mut Open,
        left_out: &[MemberId],
        may: impl Fn(&Self, &PoolId) -> bool,
    ) -> Option<MemberId> {
        let Some(route) = &open.route else {
            return match may(self, &open.pool) {
                true => self.pick(&open.pool),
                false => None,
            };
        };
        let plan = route.plan.clone();
        let steps = plan.steps()[..route.due(self.now_ms)].to_vec();
        self.watched(|watcher, corp| watcher.follows(corp, &plan));
        if let Some(until_ms) = self.held_back_until_ms(open) {
            self.watched(|watcher, _| watcher.held_back(until_ms));
            return None;
        }
        let left_out = &[left_out, plan.avoid()].concat()[..];
        let mut found = None;
        for member in plan
            .prefer()
            .iter()
            .filter(|member| !left_out.contains(member))
        {
            found = found.or_else(|| {
                let mut steps = steps.iter();
                steps.find_map(|step| {
                    let member = self.serve_step(step, Some(member), left_out, &may)?;
                    Some((member, step.pool.clone()))
                })
            });
        }
        let found = found.or_else(|| {
            let mut steps = steps.iter();
            steps.find_map(|step| {
                let member = self.serve_step(step, None, left_out, &may)?;
                Some((member, step.pool.clone()))
            })
        });
        let (member, pool) = found?;
        if let Some(route) = &mut open.route {
            route.source = (pool != open.pool).then_some(pool);
        }
        Some(member)
    }

    fn serve_step(
        &mut self,
        step: &Step,
        named: Option<&MemberId>,
        left_out: &[MemberId],
        may: impl Fn(&Self, &PoolId) -> bool,
    ) -> Option<MemberId> {
        let state = self.corp.pools.get(&step.pool)?;
        if state.sum == 0 || !may(self, &step.pool) {
            return None;
        }
        let hidden = self.hide(&step.pool, left_out);
        let picked = match named {
            Some(member) => self.pick_named(&step.pool, member, &step.needs),
            None if step.needs.is_empty() => self.pick(&step.pool),
            None => self.pick_able(&step.pool, &step.needs),
        };
        self.show(hidden);
        picked
    }

    /// This member, if he can be picked and can do what is needed.
    fn pick_named(&mut self, pool: &PoolId, id: &MemberId, needs: &[Skill]) -> Option<MemberId> {
        let member = self.corp.members.get(id)?;
        let place = member.places.iter().find(|place| place.pool == *pool);
        let place = place.filter(|place| place.within)?;
        let is_fair = place.strategy == Strategy::WeightedRoundRobin;
        if member.lease_ms <= self.now_ms {
            // His lease is over and this call's sweep did not come to him.
            if self.ends_left > 0 {
                self.ends_left -= 1;
                self.set_lease(id, 0);
            }
            return None;
        }
        if !self.corp.is_able(id, needs) {
            return None;
        }
        self.watched(|watcher, corp| watcher.prefers(corp, pool, id, needs));
        if !needs.is_empty() {
            let able = self.corp.able(pool, needs);
            self.charge_among(pool, &able, id);
        } else if is_fair {
            self.charge_unasked(pool, id);
        } else {
            self.counts(pool);
            self.watched(|watcher, _| watcher.pays(pool, id, 1));
        }
        Some(id.clone())
    }

    /// The next of those who can do what is needed.
    fn pick_able(&mut self, pool: &PoolId, needs: &[Skill]) -> Option<MemberId> {
        loop {
            let able = self.corp.able(pool, needs);
            let (at, choice) = self.corp.pools.get(pool)?.next_of(&able)?;
            let id = able[at].member.clone();
            if self.corp.member(&id).lease_ms > self.now_ms {
                self.watched(|watcher, corp| watcher.picks_able(corp, pool, &id, choice, needs));
                self.charge_among(pool, &able, &id);
                return Some(id);
            }
            if self.ends_left == 0 {
                return None;
            }
            self.ends_left -= 1;
            self.set_lease(&id, 0);
        }
    }

    /// These earn, and this one of them pays.
    fn charge_among(&mut self, pool: &PoolId, able: &[Able], member: &MemberId) {
        self.watched(|watcher, corp| {
            let able: Vec<_> = able
                .iter()
                .map(|one| (one.member.clone(), one.weight))
                .collect();
            watcher.earn_among(corp, pool, &able);
            watcher.pays(pool, member, 1);
        });
        let state = self.corp.pools.get_mut(pool).expect("the pool");
        if state.strategy == Strategy::LeastLoad {
            return;
        }
        let sum = sum_of(able);
        for one in able {
            let mut score = one.score - one.weight.as_f64() / sum;
            if one.member == *member {
                score += 1.0;
            }
            state.classes[one.class].put(&one.member, score);
        }
    }

    /// Plans of those who wait go on.
    pub(super) fn advance(&mut self, limit: u32) -> Vec<Advanced> {
        let due = self.corp.patience.iter();
        let due: Vec<String> = due
            .take_while(|(at_ms, _)| *at_ms <= self.now_ms)
            .take(limit as usize)
            .map(|(_, name)| name.clone())
            .collect();
        let mut advanced = Vec::new();
        for name in due {
            let (subject, pool) = super::offer::read_name(&name);
            let mut open = self.open_in(&subject, &pool).expect("it waits");
            let route = open.route.clone().expect("a plan that goes on");
            let is_visit = open.hold.is_some();
            let person_after_ms = route.is_for_a_person(is_visit, self.now_ms);
            let to = if let Some(person_after_ms) = person_after_ms {
                self.gives_up(&open, &route, person_after_ms);
                self.stop_waiting(&open, &subject);
                open.offer = Some(super::offer::Offer::for_a_person());
                AdvancedTo::Person
            } else {
                self.set_patience(&open, &subject, false);
                self.open_steps(&mut open, subject, route.due(self.now_ms));
                self.set_patience(&open, &subject, true);
                AdvancedTo::Steps
            };
            advanced.push(Advanced {
                allocation: open.id,
                pool,
                subject,
                to,
            });
            self.put(&subject, open);
        }
        self.wake();
        advanced
    }

    fn gives_up(&mut self, open: &Open, route: &Route, person_after_ms: u64) {
        let now_ms = self.now_ms;
        let by_now = &route.plan.steps()[..route.due(now_ms)];
        let own = by_now.iter().rev().find(|step| step.pool == open.pool);
        let wait = Wait {
            allocation: open.id,
            pool: &open.pool,
            since_ms: route.since_ms,
            person_after_ms,
            needs: own.map_or(&[], |step| &step.needs),
            avoid: route.plan.avoid(),
            now_ms,
        };
        self.watched(|watcher, corp| watcher.gives_up(corp, &wait));
    }

    /// When the plan of one who waits goes on; `waits`: he begins to wait, or ends it.
    pub(super) fn set_patience(&mut self, open: &Open, subject: &SubjectKey, waits: bool) {
        if let Some(next_ms) = open.next_ms() {
            let entry = (next_ms, super::offer::offer_name(subject, &open.pool));
            match waits {
                true => self.corp.patience.insert(entry),
                false => self.corp.patience.remove(&entry),
            };
        }
    }
}

impl Corp {
    /// Those of the pool who can be picked and can do this, by class and score; of least load in its order.
    fn able(&self, pool: &PoolId, needs: &[Skill]) -> Vec<Able> {
        let Some(state) = self.pools.get(pool) else {
            return Vec::new();
        };
        let weight_in = |id: &MemberId| {
            let places = &self.member(id).places;
            let place = places.iter().find(|place| place.pool == *pool);
            place.map_or(Weight::ZERO, |place| place.weight)
        };
        let least = state.least.iter().map(|(score, _, id)| Able {
            member: id.clone(),
            class: 0,
            weight: weight_in(id),
            score: score.0,
        });
        let classes = state.classes.iter().enumerate();
        let fair = classes.flat_map(|(at, class)| {
            class.order.iter().map(move |(score, id)| Able {
                member: id.clone(),
                class: at,
                weight: class.weight,
                score: score.0,
            })
        });
        let all = least.chain(fair);
        all.filter(|one| self.is_able(&one.member, needs)).collect()
    }
}

fn sum_of(able: &[Able]) -> f64 {
    able.iter().map(|one| one.weight.as_f64()).sum()
}

impl Pool {
    /// Whom of these to pick, and why.
    fn next_of(&self, able: &[Able]) -> Option<(usize, Choice)> {
        if self.strategy == Strategy::LeastLoad {
            let first = able.first()?.score;
            let same = able.iter().filter(|one| one.score == first).count();
            let choice = Choice {
                rule: PickRule::LeastLoad,
                tie: (same > 1).then(|| (TieRule::PickedLongestAgo, same - 1)),
            };
            return Some((0, choice));
        }
        let (base, count, sum) = (self.base, self.count as f64, self.sum as f64);
        let part = sum_of(able);
        let claim = |one: &Able| {
            let weight = one.weight.as_f64();
            let credit = weight * base + weight * count / sum - one.score + weight / part;
            (credit, (one.score + 1.0) / weight - base)
        };
        let (mut best, mut soonest) = (None, f64::INFINITY);
        let (mut any, mut most) = (None, f64::NEG_INFINITY);
        for (i, one) in able.iter().enumerate() {
            let (credit, deadline) = claim(one);
            if credit > most {
                (any, most) = (Some(i), credit);
            }
            if credit > NO_CREDIT && deadline < soonest {
                (best, soonest) = (Some(i), deadline);
            }
        }
        let at = best.or(any)?;
        let same = able.iter().filter(|one| {
            let (credit, deadline) = claim(one);
            match best {
                Some(_) => credit > NO_CREDIT && deadline == soonest,
                None => credit == most,
            }
        });
        let weights: Vec<Weight> = same.map(|one| one.weight).collect();
        let of_one_weight = weights.iter().all(|weight| *weight == weights[0]);
        let rule = match of_one_weight {
            true => TieRule::FirstId,
            false => TieRule::LargerWeight,
        };
        let choice = Choice {
            rule: match best {
                Some(_) => PickRule::EarliestDeadline,
                None => PickRule::MostCredit,
            },
            tie: (weights.len() > 1).then(|| (rule, weights.len() - 1)),
        };
        Some((at, choice))
    }
}
