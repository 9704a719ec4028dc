//! Why a member got less than others, or nothing: over a span of the log, per pool, what was decided while he was in it, what
//! he was entitled to, and what kept him out of the rest.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use crate::error::Error;
use crate::explain::Filter;
use crate::id::{MemberId, PoolId};
use crate::log::LogEntry;
use crate::model::{Corp, Turn, Watcher};
use crate::plan::Plan;
use crate::weight::Weight;

/// Spans of time that are kept per pool, the newest.
pub const MOST_SPANS: usize = 100;

/// A member in one pool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PoolShortfall {
    /// Customers that somebody was chosen for while he was in the pool.
    pub decisions: u64,
    /// Those at which he could be chosen.
    pub eligible: u64,
    /// Those for which he was, or which came to him by themselves; one that another member had in the end was paid back.
    pub got: i64,
    /// The sum of his weight / weights of all who could be chosen, over those at which he could be; and his credit entries,
    /// less his part of those of others.
    pub entitlement: f64,
    /// What kept him out of the others: the first filter of each.
    pub filters: BTreeMap<Filter, u64>,
    /// When something kept him out, oldest first, at most [`MOST_SPANS`].
    pub spans: VecDeque<Span>,
    /// Older spans were left out.
    pub more_spans: bool,
}

/// He could not be chosen in all of this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub from_ms: u64,
    /// Where the span of the question ends, at the latest.
    pub to_ms: u64,
    pub filter: Filter,
}

/// Counts while a log is folded.
#[derive(Debug)]
pub struct Shortfall {
    member: MemberId,
    only: Option<PoolId>,
    to_ms: u64,
    now_ms: u64,
    left_out: bool,
    avoided: bool,
    pools: BTreeMap<PoolId, PoolShortfall>,
    /// What keeps him out now, and since when.
    out: BTreeMap<PoolId, (u64, Filter)>,
}

impl Shortfall {
    /// Of the time from `from_ms` until `to_ms`, beginning with this state.
    pub fn new(
        state: &Corp,
        member: MemberId,
        only: Option<PoolId>,
        from_ms: u64,
        to_ms: u64,
    ) -> Self {
        let mut shortfall = Self {
            member,
            only,
            to_ms,
            now_ms: from_ms,
            left_out: false,
            avoided: false,
            pools: BTreeMap::new(),
            out: BTreeMap::new(),
        };
        shortfall.look(state);
        shortfall
    }

    /// Folds the entry and counts what it did.
    pub fn fold(&mut self, state: &mut Corp, entry: &LogEntry) -> Result<(), Error> {
        self.now_ms = entry.at_ms;
        state.fold_watched(entry, self)?;
        self.look(state);
        Ok(())
    }

    /// Pools that he was in; of others nothing is said.
    pub fn end(mut self) -> BTreeMap<PoolId, PoolShortfall> {
        let to_ms = self.to_ms;
        for pool in self.out.keys().cloned().collect::<Vec<_>>() {
            self.in_again(&pool, to_ms);
        }
        self.pools
    }

    fn means(&self, pool: &PoolId) -> bool {
        self.only.as_ref().is_none_or(|only| only == pool)
    }

    /// What keeps him out may be something else now.
    fn look(&mut self, state: &Corp) {
        let mut out = BTreeMap::new();
        let places = state.places(&self.member);
        for (pool, ..) in places {
            if !self.means(pool) {
                continue;
            }
            if !self.pools.contains_key(pool) {
                self.pools.insert(pool.clone(), PoolShortfall::default());
            }
            if let Ok(Some(filter)) = state.filter(pool, &self.member, self.now_ms) {
                out.insert(pool.clone(), filter);
            }
        }
        let now_ms = self.now_ms;
        let is_over = |pool: &PoolId, since: &(u64, Filter)| out.get(pool) != Some(&since.1);
        let over = self.out.iter().filter(|(pool, since)| is_over(pool, since));
        for pool in over.map(|(pool, _)| pool.clone()).collect::<Vec<_>>() {
            self.in_again(&pool, now_ms);
        }
        for (pool, filter) in out {
            self.out.entry(pool).or_insert((now_ms, filter));
        }
    }

    fn in_again(&mut self, pool: &PoolId, to_ms: u64) {
        let Some((from_ms, filter)) = self.out.remove(pool) else {
            return;
        };
        let of_pool = self.pools.entry(pool.clone()).or_default();
        if from_ms >= to_ms {
            return;
        }
        match of_pool.spans.back_mut() {
            Some(last) if last.to_ms == from_ms && last.filter == filter => last.to_ms = to_ms,
            _ => of_pool.spans.push_back(Span {
                from_ms,
                to_ms,
                filter,
            }),
        }
        if of_pool.spans.len() > MOST_SPANS {
            of_pool.spans.pop_front();
            of_pool.more_spans = true;
        }
    }
}

impl Shortfall {
    /// Somebody was chosen among members whose weights have this sum.
    fn earned(&mut self, corp: &Corp, pool: &PoolId, sum: u64, is_able: bool) {
        if !self.means(pool) {
            return;
        }
        let mut places = corp.places(&self.member);
        let Some((_, weight, within)) = places.find(|(id, ..)| *id == pool) else {
            return;
        };
        let filter = match self.left_out {
            true => Some(Filter::LeftOut),
            false if self.avoided => Some(Filter::Avoided),
            false if within => (!is_able).then_some(Filter::Skills),
            false => corp
                .filter(pool, &self.member, self.now_ms)
                .unwrap_or_default(),
        };
        let of_pool = self.pools.entry(pool.clone()).or_default();
        of_pool.decisions += 1;
        match filter {
            None => {
                of_pool.eligible += 1;
                of_pool.entitlement += share(weight, sum);
            }
            Some(filter) => *of_pool.filters.entry(filter).or_default() += 1,
        }
    }
}

impl Watcher for Shortfall {
    fn begins(&mut self, _: &Corp, turn: &Turn<'_>) {
        self.left_out = turn.left_out.contains(&self.member);
        self.avoided = false;
    }

    fn follows(&mut self, _: &Corp, plan: &Plan) {
        self.avoided = plan.avoid().contains(&self.member);
    }

    fn earn(&mut self, corp: &Corp, pool: &PoolId, sum: u64) {
        self.earned(corp, pool, sum, true);
    }

    fn earn_among(&mut self, corp: &Corp, pool: &PoolId, able: &[(MemberId, Weight)]) {
        let weights = able.iter().map(|(_, weight)| weight.thousandths());
        let sum = weights.map(u64::from).sum();
        let is_able = able.iter().any(|(member, _)| *member == self.member);
        self.earned(corp, pool, sum, is_able);
    }

    fn pays(&mut self, pool: &PoolId, member: &MemberId, customers: i64) {
        if *member == self.member && self.means(pool) {
            self.pools.entry(pool.clone()).or_default().got += customers;
        }
    }

    fn adjusts(&mut self, corp: &Corp, pool: &PoolId, member: &MemberId, amount: f64) {
        let mut places = corp.places(&self.member);
        let Some((_, weight, within)) = places.find(|(id, ..)| *id == pool) else {
            return;
        };
        let mut owed = 0.0;
        if *member == self.member {
            owed += amount;
        }
        if within {
            owed -= amount * share(weight, corp.sum(pool));
        }
        if self.means(pool) {
            self.pools.entry(pool.clone()).or_default().entitlement += owed;
        }
    }
}

fn share(weight: Weight, sum: u64) -> f64 {
    weight.as_f64() / sum as f64
}
