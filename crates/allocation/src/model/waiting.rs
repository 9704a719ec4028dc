//! A pool's waiting list: oldest first.

use std::collections::BTreeMap;

use super::{Call, How, Open};
use crate::id::{PoolId, SubjectKey};
use crate::outcome::{Answer, Woken, WokenHold};

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Waiting {
    pub(super) by_turn: BTreeMap<u64, SubjectKey>,
    turn_of: BTreeMap<SubjectKey, u64>,
}

impl Waiting {
    pub(super) fn add(&mut self, turn: u64, subject: SubjectKey) {
        self.by_turn.insert(turn, subject);
        self.turn_of.insert(subject, turn);
    }

    fn remove(&mut self, subject: &SubjectKey) {
        if let Some(turn) = self.turn_of.remove(subject) {
            self.by_turn.remove(&turn);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_turn.len()
    }

    fn oldest(&self) -> Option<(u64, SubjectKey)> {
        self.by_turn
            .first_key_value()
            .map(|(turn, subject)| (*turn, *subject))
    }
}

impl Call<'_> {
    pub(super) fn touch(&mut self, pool: &PoolId) {
        if !self.touched.contains(pool) {
            self.touched.push(pool.clone());
        }
    }

    pub(super) fn has_waiting(&self, pool: &PoolId) -> bool {
        self.corp.waiting.contains_key(pool)
    }

    /// Somebody waits and somebody is free.
    pub(super) fn can_wake(&self, pool: &PoolId) -> bool {
        self.has_waiting(pool) && self.corp.pools.get(pool).is_some_and(|pool| pool.sum > 0)
    }

    pub(super) fn wait(&mut self, pool: &PoolId, subject: SubjectKey) {
        let turn = self.corp.turn();
        let list = self.corp.waiting.entry(pool.clone()).or_default();
        list.add(turn, subject);
    }

    pub(super) fn stop_waiting(&mut self, pool: &PoolId, subject: &SubjectKey) {
        if let Some(list) = self.corp.waiting.get_mut(pool) {
            list.remove(subject);
            if list.len() == 0 {
                self.corp.waiting.remove(pool);
            }
        }
    }

    /// Frees what an entry holds: its member's load, or its place in the waiting list.
    pub(super) fn release(&mut self, open: &Open, subject: &SubjectKey) {
        match &open.member {
            Some(member) => self.take_load(member, open),
            // A person is to decide: it stands in no list.
            None if open.offer.is_some() => {}
            None => self.stop_waiting(&open.pool, subject),
        }
    }

    /// Hands waiting subjects of the touched pools to free members: always the one that has waited longest.
    pub(super) fn wake(&mut self) {
        while self.wake_left > 0 {
            let oldest = self.touched.iter().filter(|pool| self.can_wake(pool));
            let oldest = oldest.filter_map(|pool| {
                let (turn, subject) = self.corp.waiting.get(pool)?.oldest()?;
                Some((turn, subject, pool.clone()))
            });
            let Some((_, subject, pool)) = oldest.min() else {
                return;
            };
            let id = self.open_in(&subject, &pool).expect("it waits").id;
            self.begins(id, &pool, How::Woken, &[]);
            match self.pick(&pool) {
                Some(member) => {
                    self.stop_waiting(&pool, &subject);
                    let mark = self.assign(&member, &pool);
                    self.ends(Some(&member));
                    let mut open = self.open_in(&subject, &pool).expect("it waits");
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
                        pool,
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
                }
            }
        }
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
