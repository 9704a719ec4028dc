//! Who waits: in a queue of each pool that could serve him, oldest first.
//!
//! A pool has one queue for those who need nothing in particular, and one for each set of skills that somebody waits for and
//! members whom he avoids: who cannot be served by anybody free holds up nobody else. Whose plan leads to several pools stands
//! in a queue of each, with the one turn that he took when he came.

use std::collections::BTreeMap;

use super::{Call, Corp, How, Open, Route};
use crate::id::{PoolId, SubjectKey};
use crate::outcome::{Answer, Woken, WokenHold};
use crate::plan::Plan;

/// A pool, and what is needed and who is avoided, as text.
pub(super) type Queue = (PoolId, String);
/// Who waits, and the pool that was asked for him.
pub(super) type Waiter = (SubjectKey, PoolId);

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Waiting {
    pub(super) by_turn: BTreeMap<u64, Waiter>,
    pub(super) turn_of: BTreeMap<Waiter, u64>,
}

impl Waiting {
    pub(super) fn add(&mut self, turn: u64, waiter: Waiter) {
        self.by_turn.insert(turn, waiter.clone());
        self.turn_of.insert(waiter, turn);
    }

    fn remove(&mut self, waiter: &Waiter) {
        if let Some(turn) = self.turn_of.remove(waiter) {
            self.by_turn.remove(&turn);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_turn.len()
    }

    fn oldest(&self) -> Option<(u64, Waiter)> {
        let (turn, waiter) = self.by_turn.first_key_value()?;
        Some((*turn, waiter.clone()))
    }
}

/// While somebody waits each member is given about one in this time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Drip {
    pub(super) every_ms: u64,
    /// Until then nobody who waited is handed out.
    pub(super) next_ms: u64,
}

impl Open {
    /// The first so many steps of its plan, as queues; without a plan the one of its pool.
    pub(super) fn queues(&self, steps: usize) -> Vec<Queue> {
        let Some(route) = &self.route else {
            return vec![(self.pool.clone(), String::new())];
        };
        let plan = &route.plan;
        let steps = plan.steps().iter().take(steps);
        steps
            .map(|step| (step.pool.clone(), plan.queue(step)))
            .collect()
    }

    pub(super) fn opened(&self) -> usize {
        self.route.as_ref().map_or(1, |route| route.opened)
    }

    /// When the plan of one who waits goes on.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.route.as_ref()?.next_ms(self.hold.is_some())
    }
}

impl Corp {
    pub(super) fn queues_of<'a>(
        &'a self,
        pool: &'a PoolId,
    ) -> impl Iterator<Item = (&'a Queue, &'a Waiting)> {
        self.queues
            .range((pool.clone(), String::new())..)
            .take_while(move |((of, _), _)| of == pool)
    }

    /// All who could be served by the pool; who waits in two of its queues counts twice.
    pub(crate) fn n_waiting(&self, pool: &PoolId) -> usize {
        self.queues_of(pool).map(|(_, list)| list.len()).sum()
    }

    /// Those who could be served by the pool and wait for the same.
    pub(crate) fn queue_len(&self, pool: &PoolId, queue: &str) -> usize {
        let list = self.queues.get(&(pool.clone(), queue.to_owned()));
        list.map_or(0, Waiting::len)
    }

    /// Nobody who waited is handed out yet.
    pub(super) fn drips(&self, pool: &PoolId, now_ms: u64) -> bool {
        self.drips
            .get(pool)
            .is_some_and(|drip| drip.next_ms > now_ms)
    }
}

impl Call<'_> {
    pub(super) fn touch(&mut self, pool: &PoolId) {
        if !self.touched.contains(pool) {
            self.touched.push(pool.clone());
        }
    }

    pub(super) fn has_waiting(&self, pool: &PoolId) -> bool {
        self.corp.queues_of(pool).next().is_some()
    }

    /// Somebody waits whom somebody free may serve: who comes now may not overtake him.
    pub(super) fn must_wait(&self, pool: &PoolId) -> bool {
        let is_free = self.corp.pools.get(pool).is_some_and(|pool| pool.sum > 0);
        let mut queues = self.corp.queues_of(pool);
        is_free && queues.any(|(queue, _)| self.may_serve(queue))
    }

    /// Whether anybody of the pool may serve this queue.
    fn may_serve(&self, queue: &Queue) -> bool {
        !self.barren.contains(queue) && !self.gate_is_full(&queue.1)
    }

    /// The same, and he may be handed out now.
    pub(super) fn can_wake(&self, pool: &PoolId) -> bool {
        !self.corp.drips(pool, self.now_ms) && self.must_wait(pool)
    }

    /// Stands in the queues of the steps that are open to it.
    pub(super) fn wait(&mut self, open: &mut Open, subject: SubjectKey) {
        let turn = self.corp.turn();
        if let Some(route) = &mut open.route {
            route.opened = route.due(self.now_ms);
        }
        for queue in open.queues(open.opened()) {
            self.stand_in(queue, turn, (subject, open.pool.clone()));
        }
        self.set_patience(open, &subject, true);
    }

    fn stand_in(&mut self, queue: Queue, turn: u64, waiter: Waiter) {
        self.corp.queues.entry(queue).or_default().add(turn, waiter);
    }

    /// The turn that it took when it came.
    fn turn_of(&self, open: &Open, waiter: &Waiter) -> u64 {
        let first = self.corp.queues.get(&open.queues(1)[0]);
        first.expect("its queue").turn_of[waiter]
    }

    /// One who waits and asks again avoids others than before: he stands in other queues, where he has waited as long, and
    /// is perhaps served at once.
    pub(super) fn avoid_anew(&mut self, mut open: Open, subject: SubjectKey, plan: Option<&Plan>) {
        let avoid = plan.map_or(&[][..], Plan::avoid);
        let before = open.route.as_ref().map(|route| route.plan.avoid());
        if avoid == before.unwrap_or_default() {
            return;
        }
        let waiter = (subject, open.pool.clone());
        let turn = self.turn_of(&open, &waiter);
        self.stop_waiting(&open, &subject);
        match &mut open.route {
            Some(route) => {
                let plan = route.plan.clone().avoiding(avoid.to_vec());
                route.plan = plan.expect("another plan avoids as many");
            }
            none => {
                *none = Route::begin(plan, self.now_ms);
                if let Some(route) = none {
                    route.opened = route.due(self.now_ms);
                }
            }
        }
        for queue in open.queues(open.opened()) {
            if self.corp.pools.contains_key(&queue.0) {
                self.touch(&queue.0);
            }
            self.stand_in(queue, turn, waiter.clone());
        }
        self.set_patience(&open, &subject, true);
        self.put(&subject, open);
        self.wake();
    }

    /// More steps are open: it stands in their queues, too, and has waited there as long as in the others.
    pub(super) fn open_steps(&mut self, open: &mut Open, subject: SubjectKey, opened: usize) {
        let waiter = (subject, open.pool.clone());
        let before = open.opened();
        let (queues, turn) = (open.queues(opened), self.turn_of(open, &waiter));
        for queue in &queues[before..] {
            self.stand_in(queue.clone(), turn, waiter.clone());
            self.touch(&queue.0);
        }
        if let Some(route) = &mut open.route {
            route.opened = opened;
        }
    }

    pub(super) fn stop_waiting(&mut self, open: &Open, subject: &SubjectKey) {
        let waiter = (*subject, open.pool.clone());
        for queue in open.queues(open.opened()) {
            if let Some(list) = self.corp.queues.get_mut(&queue) {
                list.remove(&waiter);
                if list.len() == 0 {
                    self.corp.queues.remove(&queue);
                }
            }
        }
        self.set_patience(open, subject, false);
    }

    /// Frees what an entry holds: its member's load, or its place in the waiting list.
    pub(super) fn release(&mut self, open: &Open, subject: &SubjectKey) {
        match &open.member {
            Some(member) => self.take_load(member, open),
            // A person is to decide: it stands in no list.
            None if open.offer.is_some() => {}
            None => self.stop_waiting(open, subject),
        }
    }

    /// Of the touched pools the queue whose oldest has waited longest.
    fn longest(&self) -> Option<(Queue, Waiter)> {
        let mut longest: Option<(u64, &Queue, Waiter)> = None;
        for pool in self.touched.iter().filter(|pool| self.can_wake(pool)) {
            for (queue, list) in self.corp.queues_of(pool) {
                let Some((turn, waiter)) = list.oldest() else {
                    continue;
                };
                let before = longest.as_ref().is_none_or(|(other, ..)| turn < *other);
                if before && self.may_serve(queue) {
                    longest = Some((turn, queue, waiter));
                }
            }
        }
        longest.map(|(_, queue, waiter)| (queue.clone(), waiter))
    }

    /// Hands waiting subjects of the touched pools to free members: always the one that has waited longest.
    pub(super) fn wake(&mut self) {
        while self.wake_left > 0 {
            let Some((queue, (subject, home))) = self.longest() else {
                return;
            };
            let mut open = self.open_in(&subject, &home).expect("it waits");
            self.begins(open.id, &home, How::Woken, &[]);
            match self.serve_waiting(&mut open) {
                Some(member) => {
                    self.stop_waiting(&open, &subject);
                    let mark = self.assign(&member, open.source());
                    self.pass_gate(&mut open);
                    self.drip(open.source());
                    self.ends(Some(&member));
                    self.end_hold(&subject, &open);
                    open.member = Some(member.clone());
                    open.mark = mark;
                    self.begin_hold(&subject, &mut open);
                    if open.hold.is_none() {
                        self.begin_offer(&subject, &mut open);
                    }
                    self.put(&subject, open.clone());
                    self.wake_left -= 1;
                    self.woken.push(Woken {
                        allocation: open.id,
                        pool: home,
                        subject,
                        member,
                        holder: open.holder,
                        offer_until_ms: open.offer.as_ref().map(|offer| offer.until_ms),
                        hold: open.hold.map(|hold| WokenHold {
                            until_ms: hold.until_ms,
                            slot: hold.slot,
                        }),
                    });
                }
                None => {
                    self.ends(None);
                    if self.ends_left == 0 {
                        return;
                    }
                    self.barren.insert(queue);
                }
            }
        }
    }

    /// One who waited was handed to a member of this pool.
    fn drip(&mut self, pool: &PoolId) {
        let now_ms = self.now_ms;
        let free = self.corp.pools.get(pool).map_or(0, |pool| pool.n_free());
        if let Some(drip) = self.corp.drips.get_mut(pool) {
            let pause_ms = drip.every_ms / (free as u64).max(1);
            drip.next_ms = drip.next_ms.max(now_ms) + pause_ms.max(1);
        }
    }

    /// A new subject gets a member, or stands in the waiting list.
    pub(super) fn take_turn(&mut self, open: &mut Open, subject: SubjectKey, how: How) {
        // Nobody overtakes one who waits.
        let mut others_wait = false;
        for (pool, _) in open.queues(usize::MAX) {
            if self.has_waiting(&pool) && self.corp.pools.contains_key(&pool) {
                self.touch(&pool);
                others_wait = true;
            }
        }
        if others_wait {
            self.wake();
        }
        self.begins(open.id, &open.pool, how, &[]);
        let member = self.serve_new(open);
        match &member {
            Some(member) => {
                open.mark = self.assign(member, open.source());
                self.pass_gate(open);
            }
            None => {
                self.wait(open, subject);
                for (pool, _) in open.queues(open.opened()) {
                    if self.corp.pools.contains_key(&pool) {
                        self.touch(&pool);
                    }
                }
            }
        }
        self.ends(member.as_ref());
        open.member = member;
    }

    pub(super) fn wake_pool(&mut self, pool: &PoolId, limit: u32) -> Answer {
        if self.corp.pools.contains_key(pool) {
            self.wake_left = self.wake_left.min(limit as usize);
            self.touch(pool);
            self.wake();
        }
        Answer::Ok
    }
}
