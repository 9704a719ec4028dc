//! Who got how much of what was his. The log is folded, and at every decision it is counted who earned how much of a
//! customer, and who paid for him: the same numbers by which the rules choose, so a member's variance over a time in which
//! his pool did not change is what his credit lost in it.

mod measures;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::error::Error;
use crate::id::{MemberId, PoolId};
use crate::log::LogEntry;
use crate::model::{Corp, How, Turn, Watcher};
use crate::offer::{MovedOn, Responded};
use crate::op::Op;
use crate::outcome::{Answer, Decision, Settled};
use crate::weight::Weight;

pub use measures::Measures;

/// What a member got of a pool in a span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Got {
    /// Customers he paid for: chosen for them, or they came to him by themselves. One that another member had in the end
    /// was paid back.
    pub count: i64,
    /// The sum of weight / weights of all who could be chosen, over all decisions at which he could be; and his credit
    /// entries, less his part of those of others.
    pub entitlement: f64,
    /// Customers he did not pay for: given to him by name, or they stayed with him.
    pub received: u64,
    /// Taken from him and given to another member, or offered to him, and he declined or did not answer.
    pub reassigned: u64,
    /// Visitors who did not come in time.
    pub expired: u64,
    /// Ended before they were carried out.
    pub closed_early: u64,
    /// So often he was asked to take a customer of the pool.
    pub offered: u64,
    /// He said no.
    pub declined: u64,
    /// He did not answer in time, or went; they were taken back.
    pub reclaimed: u64,
    /// Given to him, and it came to nothing: WeCom or the customer refused.
    pub failed: u64,
}

impl Got {
    /// How far above (below 0: below) his entitlement he is, in customers.
    pub fn variance(&self) -> f64 {
        self.count as f64 - self.entitlement
    }
}

/// A pool in a span of time.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolSpan {
    /// When it began.
    pub from_ms: u64,
    pub pool: PoolId,
    /// Customers that somebody paid for.
    pub decisions: u64,
    /// Who could be chosen or got something.
    pub members: BTreeMap<MemberId, Got>,
}

/// Counts while a log is folded.
#[derive(Debug)]
pub struct Tally {
    /// None: all pools.
    only: Option<PoolId>,
    /// When the spans of time begin, ascending.
    starts: Vec<u64>,
    at: usize,
    pools: BTreeMap<PoolId, Earning>,
    spans: Vec<PoolSpan>,
    under_way: Option<UnderWay>,
}

/// Nobody's share is added at each decision: what one thousandth of weight earned is, and a member's share is the
/// difference between when he came and when he left.
#[derive(Debug, Default)]
struct Earning {
    earned: f64,
    within: BTreeMap<MemberId, (Weight, f64)>,
    decisions: u64,
    members: BTreeMap<MemberId, Got>,
}

#[derive(Debug)]
struct UnderWay {
    pool: PoolId,
    how: How,
    paid: bool,
}

impl Tally {
    /// Begins with this state; `starts` are ascending, and the first is not after the first entry to come.
    pub fn new(state: &Corp, only: Option<PoolId>, starts: Vec<u64>) -> Self {
        let mut tally = Self {
            only,
            starts,
            at: 0,
            pools: BTreeMap::new(),
            spans: Vec::new(),
            under_way: None,
        };
        for (pool, member, weight) in state.within() {
            tally.enters(pool, member, weight);
        }
        tally
    }

    /// Folds the entry and counts what it did.
    pub fn fold(&mut self, state: &mut Corp, entry: &LogEntry) -> Result<(), Error> {
        while self
            .starts
            .get(self.at + 1)
            .is_some_and(|start| *start <= entry.at_ms)
        {
            self.end_span();
            self.at += 1;
        }
        state.fold_watched(entry, self)?;
        for woken in &entry.outcome.woken {
            if woken.offer_until_ms.is_some() {
                self.got(&woken.pool, &woken.member, |got| got.offered += 1);
            }
        }
        match (&entry.op, &entry.outcome.answer) {
            (_, Answer::Expired { expired, .. }) => {
                for one in expired {
                    if let Some(member) = &one.member {
                        self.got(&one.pool, member, |got| got.expired += 1);
                    }
                }
            }
            (Op::Decide(requests), Answer::Decided(decisions)) => {
                for (request, decision) in requests.iter().zip(decisions) {
                    if let Decision::Offered { member, .. } = decision {
                        self.got(&request.pool, member, |got| got.offered += 1);
                    }
                }
            }
            (Op::Respond(said), Answer::Responded(Responded::Declined(to))) => {
                self.got(&said.pool, &said.member, |got| got.declined += 1);
                self.moved_on(&said.pool, to);
            }
            (Op::Respond(said), Answer::Responded(Responded::Late(to))) => {
                self.got(&said.pool, &said.member, |got| got.reclaimed += 1);
                self.moved_on(&said.pool, to);
            }
            (_, Answer::Reclaimed(reclaimed)) => {
                for one in reclaimed {
                    self.got(&one.pool, &one.from, |got| got.reclaimed += 1);
                    self.moved_on(&one.pool, &one.to);
                }
            }
            (
                Op::Settle(settlement),
                Answer::Settled(Settled::Void {
                    member: Some(member),
                }),
            ) => self.got(&settlement.pool, member, |got| got.failed += 1),
            _ => {}
        }
        Ok(())
    }

    fn moved_on(&mut self, pool: &PoolId, to: &MovedOn) {
        if let Some(member) = &to.member {
            self.got(pool, member, |got| got.offered += 1);
        }
    }

    /// By time, then by pool; spans in which nothing happened are left out.
    pub fn end(mut self) -> Vec<PoolSpan> {
        self.end_span();
        self.spans
    }

    fn end_span(&mut self) {
        let from_ms = self.starts.get(self.at).copied().unwrap_or_default();
        for (id, pool) in &mut self.pools {
            let present: Vec<_> = pool.within.keys().cloned().collect();
            for member in present {
                pool.settle(&member);
            }
            let members = std::mem::take(&mut pool.members);
            let decisions = std::mem::take(&mut pool.decisions);
            if decisions > 0 || members.values().any(|got| *got != Got::default()) {
                self.spans.push(PoolSpan {
                    from_ms,
                    pool: id.clone(),
                    decisions,
                    members,
                });
            }
        }
    }

    fn pool(&mut self, id: &PoolId) -> Option<&mut Earning> {
        let is_meant = self.only.as_ref().is_none_or(|only| only == id);
        if is_meant && !self.pools.contains_key(id) {
            self.pools.insert(id.clone(), Earning::default());
        }
        self.pools.get_mut(id)
    }

    fn got(&mut self, pool: &PoolId, member: &MemberId, count: impl FnOnce(&mut Got)) {
        if let Some(pool) = self.pool(pool) {
            count(pool.members.entry(member.clone()).or_default());
        }
    }
}

impl Earning {
    /// Adds what the member has earned since it was added last.
    fn settle(&mut self, member: &MemberId) {
        if let Some((weight, since)) = self.within.get_mut(member) {
            let got = self.members.entry(member.clone()).or_default();
            got.entitlement += weight.as_f64() * (self.earned - *since);
            *since = self.earned;
        }
    }
}

impl Watcher for Tally {
    fn begins(&mut self, _: &Corp, turn: &Turn<'_>) {
        self.under_way = Some(UnderWay {
            pool: turn.pool.clone(),
            how: turn.how.clone(),
            paid: false,
        });
    }

    fn ends(&mut self, _: &Corp, member: Option<&MemberId>) {
        let Some(UnderWay { pool, how, paid }) = self.under_way.take() else {
            return;
        };
        let taken = matches!(how, How::MovedOn { .. }) || member.is_some();
        if let How::Reassigned {
            from: Some(from), ..
        }
        | How::MovedOn { from: Some(from) } = &how
            && taken
        {
            self.got(&pool, from, |got| got.reassigned += 1);
        }
        let Some(member) = member else {
            return;
        };
        let had_it = matches!(how, How::Confirmed | How::Kept { moved: false });
        if !paid && !had_it {
            self.got(&pool, member, |got| got.received += 1);
        }
    }

    fn enters(&mut self, pool: &PoolId, member: &MemberId, weight: Weight) {
        if let Some(pool) = self.pool(pool) {
            pool.within.insert(member.clone(), (weight, pool.earned));
        }
    }

    fn leaves(&mut self, pool: &PoolId, member: &MemberId, _: Weight) {
        if let Some(pool) = self.pool(pool) {
            pool.settle(member);
            pool.within.remove(member);
        }
    }

    fn earn(&mut self, _: &Corp, pool: &PoolId, sum: u64) {
        if let Some(pool) = self.pool(pool) {
            pool.earned += 1.0 / sum as f64;
            pool.decisions += 1;
        }
    }

    fn earn_among(&mut self, _: &Corp, pool: &PoolId, able: &[(MemberId, Weight)]) {
        let sum: f64 = able.iter().map(|(_, weight)| weight.as_f64()).sum();
        if let Some(pool) = self.pool(pool) {
            pool.decisions += 1;
            for (member, weight) in able {
                let got = pool.members.entry(member.clone()).or_default();
                got.entitlement += weight.as_f64() / sum;
            }
        }
    }

    fn pays(&mut self, pool: &PoolId, member: &MemberId, customers: i64) {
        if customers > 0
            && let Some(under_way) = &mut self.under_way
        {
            under_way.paid = true;
        }
        self.got(pool, member, |got| got.count += customers);
    }

    fn adjusts(&mut self, corp: &Corp, pool: &PoolId, member: &MemberId, amount: f64) {
        let sum = corp.sum(pool) as f64;
        if let Some(pool) = self.pool(pool) {
            pool.earned -= amount / sum;
        }
        self.got(pool, member, |got| got.entitlement += amount);
    }

    fn closes(&mut self, pool: &PoolId, member: &MemberId, settled: bool) {
        if !settled {
            self.got(pool, member, |got| got.closed_early += 1);
        }
    }
}
