//! Giving an allocation to another member.

use super::{Call, How};
use crate::id::{MemberId, PoolId};
use crate::op::Reassignment;
use crate::outcome::Reassigned;

impl Call<'_> {
    pub(super) fn reassign(&mut self, reassignment: &Reassignment) -> Reassigned {
        let subject = &reassignment.subject;
        let Some(mut open) = self.find(subject, &reassignment.pool, reassignment.allocation) else {
            return Reassigned::Unknown;
        };
        if open.hold.is_some() {
            // The visitor sees one member's code: another one would be no use to him.
            return Reassigned::Unknown;
        }
        if open.epoch != reassignment.expect_epoch {
            return Reassigned::Stale {
                member: open.member,
                epoch: open.epoch,
            };
        }
        let before = open.clone();
        let member = match &reassignment.to {
            Some(to) if open.member.as_ref() == Some(to) => {
                return Reassigned::Same { epoch: open.epoch };
            }
            Some(to) => {
                self.create(to);
                let member = self.corp.member(to);
                if member.blocked.is_some() {
                    return Reassigned::Blocked;
                }
                if member.is_full_in(&reassignment.pool) {
                    return Reassigned::Full;
                }
                let from = open.member.clone();
                let how = How::Reassigned { asked: true, from };
                self.begins(open.id, &open.pool, how, &[]);
                if let Some(route) = &mut open.route {
                    route.source = None;
                }
                to.clone()
            }
            None => {
                let tried = open.offer.iter().flat_map(|offer| &offer.tried);
                let left_out = open.member.iter().chain(&reassignment.exclude).chain(tried);
                let left_out: Vec<MemberId> = left_out.cloned().collect();
                let from = open.member.clone();
                let how = How::Reassigned { asked: false, from };
                self.begins(open.id, &open.pool, how, &left_out);
                match self.serve_without(&mut open, left_out) {
                    Some(member) => member,
                    None => {
                        self.ends(None);
                        return Reassigned::Nobody;
                    }
                }
            }
        };
        if open.settled {
            // The customer had come to him; now he is the one who gives.
            open.holder = open.member.clone();
        }
        self.end_offer(subject, &open);
        self.release(&before, subject);
        open.offer = None;
        open.mark = self.assign(&member, open.source());
        self.pass_gate(&mut open);
        self.ends(Some(&member));
        open.member = Some(member.clone());
        open.epoch += 1;
        open.settled = false;
        let epoch = open.epoch;
        self.put(subject, open);
        self.wake();
        Reassigned::Moved { member, epoch }
    }

    /// Whoever is left out is away for the moment of the pick: he earns nothing by it and loses nothing.
    pub(super) fn pick_without(
        &mut self,
        pool: &PoolId,
        left_out: Vec<MemberId>,
    ) -> Option<MemberId> {
        if !self.corp.pools.contains_key(pool) {
            return None;
        }
        let hidden = self.hide(pool, &left_out);
        let picked = self.pick(pool);
        self.show(hidden);
        picked
    }

    /// Takes them out of the pool for a moment; answers who was in it, and which of his places that is.
    pub(super) fn hide(&mut self, pool: &PoolId, left_out: &[MemberId]) -> Vec<(MemberId, usize)> {
        let mut hidden: Vec<(MemberId, usize)> = Vec::new();
        for id in left_out {
            let Some(member) = self.corp.members.get(id) else {
                continue;
            };
            if hidden.iter().any(|(other, _)| other == id) {
                continue;
            }
            let in_pool = |place: &super::member::Place| place.pool == *pool && place.within;
            let Some(at) = member.places.iter().position(in_pool) else {
                continue;
            };
            let member = member.clone();
            let credit = self.leave(id, &member, &member.places[at]);
            self.set_credit(id, at, credit);
            hidden.push((id.clone(), at));
        }
        hidden
    }

    /// Nobody comes by it who was not there before: whom nobody of the pool could serve, nobody can serve now.
    pub(super) fn show(&mut self, hidden: Vec<(MemberId, usize)>) {
        if hidden.is_empty() {
            return;
        }
        let barren = self.barren.clone();
        for (id, at) in hidden {
            let member = self.corp.member(&id).clone();
            let credit = self.enter(&id, &member, &member.places[at]);
            self.set_credit(&id, at, credit);
        }
        self.barren = barren;
    }

    fn set_credit(&mut self, id: &MemberId, place: usize, credit: f64) {
        if let Some(member) = self.corp.members.get_mut(id) {
            member.places[place].credit = credit;
        }
    }
}
