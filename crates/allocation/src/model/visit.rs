//! A visitor is given a member at once, and what happens when he does not add him in time.

use super::slots::{Hold, PastKind};
use super::{Call, How, Open, Route};
use crate::id::SubjectKey;
use crate::outcome::Answer;
use crate::visit::{Expired, Visit, Visited};

impl Call<'_> {
    pub(super) fn visit(&mut self, visits: &[Visit]) -> Vec<Visited> {
        visits.iter().map(|visit| self.visit_one(visit)).collect()
    }

    fn visit_one(&mut self, visit: &Visit) -> Visited {
        if !self.corp.pools.contains_key(&visit.pool) {
            return Visited::NoPool;
        }
        if let Some(open) = self.open_in(&visit.subject, &visit.pool) {
            return self.visit_again(visit, open);
        }
        let past = self
            .corp
            .slots
            .past(&visit.subject, &visit.pool, self.now_ms);
        if let Some(past) = past.filter(|past| past.kind == PastKind::Met) {
            return Visited::Met {
                allocation: past.allocation,
                member: past.member.clone(),
            };
        }
        self.corp.slots.forget(&visit.subject, &visit.pool);
        let mut open = Open {
            id: visit.allocation,
            pool: visit.pool.clone(),
            member: None,
            holder: None,
            epoch: 0,
            settled: false,
            hold: Some(Hold {
                until_ms: 0,
                channel: visit.channel.clone(),
                slot: None,
                hold_ms: visit.hold_ms,
                rest_ms: visit.rest_ms,
            }),
            mark: None,
            offer: None,
            route: Route::begin(visit.plan.as_ref(), self.now_ms),
        };
        self.take_turn(&mut open, visit.subject, How::Visited);
        if open.member.is_some() {
            self.begin_hold(&visit.subject, &mut open);
        } else {
            self.renew(&visit.subject, &mut open);
        }
        let until_ms = open.hold.as_ref().map_or(0, |hold| hold.until_ms);
        let slot = open.hold.as_ref().and_then(|hold| hold.slot.clone());
        let list = self.corp.opens.entry(visit.subject).or_default();
        list.push(open.clone());
        let allocation = visit.allocation;
        match open.member {
            Some(member) => Visited::Held {
                allocation,
                member,
                slot,
                until_ms,
            },
            None => Visited::Waiting {
                allocation,
                until_ms,
            },
        }
    }

    /// The same visitor keeps what he has. Who waits keeps his place as long as he asks, and avoids whom he avoids by now; a
    /// hold that is over and was not swept yet begins anew.
    fn visit_again(&mut self, visit: &Visit, mut open: Open) -> Visited {
        let subject = &visit.subject;
        let is_due = |hold: &Hold| open.member.is_none() || hold.until_ms <= self.now_ms;
        if open.hold.as_ref().is_some_and(is_due) {
            if let Some(member) = open.member.clone() {
                open.mark = self.count_again(&member, &open);
                self.unpass_gate(&mut open);
                self.pass_gate(&mut open);
            }
            self.renew(subject, &mut open);
            self.put(subject, open.clone());
            if open.member.is_none() {
                self.avoid_anew(open, *subject, visit.plan.as_ref());
                open = self.open_in(subject, &visit.pool).expect("it is there");
            }
        }
        let hold = open.hold.as_ref();
        Visited::Again {
            allocation: open.id,
            slot: hold.and_then(|hold| hold.slot.clone()),
            until_ms: hold.map_or(0, |hold| hold.until_ms),
            member: open.member,
        }
    }

    /// Its time begins now.
    fn renew(&mut self, subject: &SubjectKey, open: &mut Open) {
        let name = super::slots::hold_name(subject, &open.pool);
        if let Some(hold) = &mut open.hold {
            let ends = &mut self.corp.slots.ends;
            ends.remove(&(hold.until_ms, name.clone()));
            hold.until_ms = self.now_ms + hold.hold_ms;
            ends.insert((hold.until_ms, name));
        }
    }

    pub(super) fn expire(&mut self, limit: u32) -> Answer {
        let ends = self.corp.slots.ends.iter();
        let due: Vec<String> = ends
            .take_while(|(until_ms, _)| *until_ms <= self.now_ms)
            .take(limit as usize)
            .map(|(_, name)| name.clone())
            .collect();
        let mut expired = Vec::new();
        for name in &due {
            let (subject, pool) = super::slots::read_name(name);
            if name.starts_with('p') {
                self.corp.slots.forget(&subject, &pool);
                continue;
            }
            let open = self.open_in(&subject, &pool).expect("a hold that ends");
            self.drop_open(&open, &subject);
            if let Some(member) = open.member.clone() {
                let through = open.counted_through().cloned();
                self.remember_past(&subject, &pool, PastKind::Lapsed, open.id, member, through);
            }
            expired.push(Expired {
                allocation: open.id,
                pool,
                subject,
                member: open.member,
            });
        }
        self.wake();
        Answer::Expired {
            taken: due.len() as u32,
            expired,
        }
    }
}
