//! A member is asked, answers or does not, and whose it is then. Whoever was asked pays for it, whatever he says: a
//! member who declines is not asked more often for it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Call, How, Open};
use crate::id::{MemberId, PoolId, SubjectKey};
use crate::offer::{MovedOn, OfferRule, Reclaimed, Responded, Response};
use crate::outcome::Answer;

/// What an offered allocation has until it is accepted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Offer {
    /// 0: nobody is asked any more, a person must decide.
    pub(super) until_ms: u64,
    pub(super) since_ms: u64,
    /// Asked before, in that order.
    pub(super) tried: Vec<MemberId>,
}

impl Offer {
    pub(super) fn for_a_person() -> Self {
        Self {
            until_ms: 0,
            since_ms: 0,
            tried: Vec::new(),
        }
    }

    pub(super) fn is_for_a_person(&self) -> bool {
        self.until_ms == 0
    }
}

/// Offers of a corp that are not answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Offers {
    pub(super) rules: BTreeMap<PoolId, OfferRule>,
    /// Their ends, in the order of Redis.
    pub(super) ends: BTreeSet<(u64, String)>,
    pub(super) end_of: BTreeMap<String, u64>,
    pub(super) of: BTreeMap<MemberId, BTreeSet<String>>,
}

impl Offers {
    pub(super) fn set_end(&mut self, name: &str, until_ms: Option<u64>) {
        if let Some(before_ms) = self.end_of.remove(name) {
            self.ends.remove(&(before_ms, name.to_owned()));
        }
        if let Some(until_ms) = until_ms {
            self.end_of.insert(name.to_owned(), until_ms);
            self.ends.insert((until_ms, name.to_owned()));
        }
    }
}

pub(super) fn offer_name(subject: &SubjectKey, pool: &PoolId) -> String {
    format!("{subject}\u{1f}{pool}")
}

pub(super) fn read_name(name: &str) -> (SubjectKey, PoolId) {
    let (subject, pool) = name.split_once('\u{1f}').expect("a name of ours");
    let subject = subject.parse().expect("a name of ours");
    (subject, pool.parse().expect("a name of ours"))
}

impl Call<'_> {
    /// The member of this allocation is asked, if the pool wants that.
    pub(super) fn begin_offer(&mut self, subject: &SubjectKey, open: &mut Open) {
        let Some(rule) = self.corp.offers.rules.get(&open.pool) else {
            return;
        };
        let Some(member) = &open.member else {
            return;
        };
        let until_ms = self.now_ms + rule.accept_ms;
        let tried = open.offer.take().map_or(Vec::new(), |offer| offer.tried);
        open.offer = Some(Offer {
            until_ms,
            since_ms: self.now_ms,
            tried,
        });
        let name = offer_name(subject, &open.pool);
        self.corp.offers.set_end(&name, Some(until_ms));
        let of = self.corp.offers.of.entry(member.clone()).or_default();
        of.insert(name);
    }

    /// Nobody is asked any more.
    pub(super) fn end_offer(&mut self, subject: &SubjectKey, open: &Open) {
        let (Some(offer), Some(member)) = (&open.offer, &open.member) else {
            return;
        };
        let name = offer_name(subject, &open.pool);
        let offers = &mut self.corp.offers;
        offers.set_end(&name, None);
        if let Some(of) = offers.of.get_mut(member) {
            of.remove(&name);
            if of.is_empty() {
                offers.of.remove(member);
            }
        }
        debug_assert!(!offer.is_for_a_person(), "a person has no member");
    }

    /// Who goes is not asked any more: what he was offered is over at once, and moves when it is reclaimed.
    pub(super) fn offers_are_over(&mut self, member: &MemberId) {
        let names = self.corp.offers.of.get(member).cloned();
        for name in names.unwrap_or_default() {
            self.corp.offers.set_end(&name, Some(self.now_ms));
        }
    }

    pub(super) fn respond(&mut self, response: &Response) -> Responded {
        let Response {
            allocation,
            pool,
            subject,
            member,
            epoch,
            declined,
        } = response;
        let Some(mut open) = self.find(subject, pool, *allocation) else {
            return Responded::Unknown;
        };
        if open.epoch != *epoch || open.member.as_ref() != Some(member) {
            return Responded::Stale {
                member: open.member,
                epoch: open.epoch,
            };
        }
        if open.offer.is_none() {
            return match declined {
                None if open.hold.is_none() => Responded::Already,
                _ => Responded::Unknown,
            };
        }
        let name = offer_name(subject, pool);
        let until_ms = self.corp.offers.end_of.get(&name).copied().unwrap_or(0);
        if until_ms <= self.now_ms {
            let on = self.move_on(subject, &mut open);
            self.wake();
            return Responded::Late(on);
        }
        match declined {
            None => {
                self.end_offer(subject, &open);
                open.offer = None;
                self.put(subject, open);
                Responded::Accepted
            }
            Some(_) => {
                let on = self.move_on(subject, &mut open);
                self.wake();
                Responded::Declined(on)
            }
        }
    }

    /// The next member is asked, one who was not yet; or nobody, and a person must decide.
    fn move_on(&mut self, subject: &SubjectKey, open: &mut Open) -> MovedOn {
        self.end_offer(subject, open);
        self.release(open, subject);
        let mut tried = open.offer.take().map_or(Vec::new(), |offer| offer.tried);
        let from = open.member.take();
        tried.extend(from.clone());
        let rule = self.corp.offers.rules.get(&open.pool);
        let tries = rule.map_or(0, |rule| rule.tries as usize);
        let how = How::MovedOn { from };
        self.begins(open.id, &open.pool, how, &tried);
        let next = match tried.len() < tries {
            true => self.serve_without(open, tried.clone()),
            false => None,
        };
        open.epoch += 1;
        open.settled = false;
        open.mark = None;
        if let Some(next) = &next {
            open.mark = self.assign(next, open.source());
            self.pass_gate(open);
        }
        self.ends(next.as_ref());
        open.member = next;
        open.offer = Some(Offer {
            until_ms: 0,
            since_ms: 0,
            tried,
        });
        if open.member.is_some() {
            self.begin_offer(subject, open);
        }
        self.put(subject, open.clone());
        MovedOn {
            member: open.member.clone(),
            epoch: open.epoch,
            until_ms: open.offer.as_ref().map_or(0, |offer| offer.until_ms),
        }
    }

    pub(super) fn reclaim(&mut self, limit: u32) -> Answer {
        let ends = self.corp.offers.ends.iter();
        let due: Vec<String> = ends
            .take_while(|(until_ms, _)| *until_ms <= self.now_ms)
            .take(limit as usize)
            .map(|(_, name)| name.clone())
            .collect();
        let mut reclaimed = Vec::new();
        for name in due {
            let (subject, pool) = read_name(&name);
            let mut open = self.open_in(&subject, &pool).expect("an offer that ends");
            let from = open.member.clone().expect("somebody is asked");
            let to = self.move_on(&subject, &mut open);
            reclaimed.push(Reclaimed {
                allocation: open.id,
                pool,
                subject,
                from,
                to,
                holder: open.holder,
            });
        }
        self.wake();
        Answer::Reclaimed(reclaimed)
    }
}
