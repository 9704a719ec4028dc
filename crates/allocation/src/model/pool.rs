//! Who of a pool is next.
//!
//! **Fair pools.** With every decision each member who can be picked earns a credit of weight / sum of weights, and
//! the one who is picked pays 1. Credits say how far everybody is from his exact share, and they sum to 0. Among
//! those with credit above 0 the one wins whose credit would reach 1 first, were he not picked: the earliest
//! deadline among the eligible. This is the rule of Tijdeman's chairman assignment (1980), found again for
//! processor shares by Stoica and Abdel-Wahab (1995): as long as the pool does not change, nobody is ever a whole
//! pick away from his share, neither above nor below. If nobody has credit (it happens after absences), the one
//! with most of it wins. Members who are away, blocked or full earn nothing and keep what they have.
//!
//! Crediting everybody costs nothing, because time is virtual: V moves 1 / sum with every pick, a member's score is
//! the number of his picks on that scale, and his credit is weight × V − score. A pick adds exactly 1 to a score.
//! V = base + count / sum with an exact count, put into the base only when the sum changes: adding 1 / sum a
//! million times would drift past the bound. His deadline is the V at which credit reaches 1: (score + 1) / weight.
//! Among members of one weight the smallest score is the earliest deadline, so only the heads of the weights (at
//! most 16) are compared.
//!
//! **Least load.** The smallest load / weight, ties to the one who was picked longest ago.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::MemberId;
use crate::pool::Strategy;
use crate::weight::Weight;

/// Orders scores as Redis does; there is no NaN and no −0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Score(pub(super) f64);

impl Eq for Score {}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Load by weight; weights are in thousandths.
fn least_score(load: u32, weight: Weight) -> Score {
    Score(f64::from(load) * 1000.0 / weight.as_f64())
}

/// Below this a credit is no credit: what is left of 0 after sums and differences.
pub(super) const NO_CREDIT: f64 = 1e-9;

/// Those members of a pool who can be picked now.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pool {
    pub(super) strategy: Strategy,
    pub(super) base: f64,
    pub(super) count: u64,
    /// Sum of the weights of all who can be picked.
    pub(super) sum: u64,
    /// The distinct weights above 0, largest first; empty for least load.
    pub(super) classes: Vec<Class>,
    /// Load / weight, tie, member.
    pub(super) least: BTreeSet<(Score, u64, MemberId)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Class {
    pub(super) weight: Weight,
    pub(super) order: BTreeSet<(Score, MemberId)>,
    pub(super) scores: BTreeMap<MemberId, f64>,
}

impl Class {
    pub(super) fn new(weight: Weight) -> Self {
        Self {
            weight,
            order: BTreeSet::new(),
            scores: BTreeMap::new(),
        }
    }

    pub(super) fn head(&self) -> f64 {
        self.order
            .first()
            .map_or(f64::INFINITY, |(score, _)| score.0)
    }

    pub(super) fn put(&mut self, member: &MemberId, score: f64) {
        self.take(member);
        self.scores.insert(member.clone(), score);
        self.order.insert((Score(score), member.clone()));
    }

    fn take(&mut self, member: &MemberId) -> Option<f64> {
        let score = self.scores.remove(member)?;
        self.order.remove(&(Score(score), member.clone()));
        Some(score)
    }
}

impl Pool {
    pub(super) fn new(strategy: Strategy, weights: &BTreeSet<Weight>) -> Self {
        let classes = match strategy {
            Strategy::WeightedRoundRobin => weights.iter().rev().filter(|weight| !weight.is_zero()),
            Strategy::LeastLoad => return Self::with(strategy, Vec::new()),
        };
        Self::with(
            strategy,
            classes.map(|weight| Class::new(*weight)).collect(),
        )
    }

    fn with(strategy: Strategy, classes: Vec<Class>) -> Self {
        Self {
            strategy,
            base: 0.0,
            count: 0,
            sum: 0,
            classes,
            least: BTreeSet::new(),
        }
    }

    /// Puts the count into the base: the sum is about to change.
    fn fold(&mut self) {
        if self.count > 0 {
            self.base += self.count as f64 / self.sum as f64;
            self.count = 0;
        }
    }

    fn class(&mut self, weight: Weight) -> &mut Class {
        self.classes
            .iter_mut()
            .find(|class| class.weight == weight)
            .expect("a class for every weight of the pool")
    }

    /// A member can be picked, with the credit he was left with.
    pub(super) fn enter(&mut self, member: &MemberId, weight: Weight, credit: f64) {
        self.fold();
        let score = weight.as_f64() * self.base - credit;
        self.class(weight).put(member, score);
        self.sum += u64::from(weight.thousandths());
    }

    /// He cannot be picked any more; answers his credit.
    pub(super) fn leave(&mut self, member: &MemberId, weight: Weight) -> f64 {
        self.fold();
        let base = self.base;
        let score = self
            .class(weight)
            .take(member)
            .expect("a member of the class");
        self.sum -= u64::from(weight.thousandths());
        if self.sum == 0 {
            // Nobody is left: virtual time may start over.
            self.base = 0.0;
        }
        weight.as_f64() * base - score
    }

    pub(super) fn enter_least(&mut self, member: &MemberId, weight: Weight, load: u32, tie: u64) {
        self.put_least(member, weight, load, tie);
        self.sum += u64::from(weight.thousandths());
    }

    pub(super) fn leave_least(&mut self, member: &MemberId, weight: Weight, load: u32, tie: u64) {
        self.take_least(member, weight, load, tie);
        self.sum -= u64::from(weight.thousandths());
    }

    pub(super) fn put_least(&mut self, member: &MemberId, weight: Weight, load: u32, tie: u64) {
        let score = least_score(load, weight);
        self.least.insert((score, tie, member.clone()));
    }

    pub(super) fn take_least(&mut self, member: &MemberId, weight: Weight, load: u32, tie: u64) {
        let score = least_score(load, weight);
        self.least.remove(&(score, tie, member.clone()));
    }

    /// How many can be picked.
    pub(super) fn n_free(&self) -> usize {
        let classes = self.classes.iter().map(|class| class.order.len());
        classes.sum::<usize>() + self.least.len()
    }

    /// The member to pick, and the class he is in.
    pub(super) fn next(&self) -> Option<(MemberId, usize)> {
        if self.sum == 0 {
            return None;
        }
        if self.strategy == Strategy::LeastLoad {
            return self.least.first().map(|(_, _, member)| (member.clone(), 0));
        }
        let (base, count, sum) = (self.base, (self.count + 1) as f64, self.sum as f64);
        let (mut best, mut soonest) = (None, f64::INFINITY);
        let (mut any, mut most) = (None, f64::NEG_INFINITY);
        for (i, class) in self.classes.iter().enumerate() {
            let (weight, head) = (class.weight.as_f64(), class.head());
            let credit = weight * base + weight * count / sum - head;
            if credit > most {
                (any, most) = (Some(i), credit);
            }
            if credit > NO_CREDIT {
                let deadline = (head + 1.0) / weight - base;
                if deadline < soonest {
                    (best, soonest) = (Some(i), deadline);
                }
            }
        }
        let class = best.or(any)?;
        let (_, member) = self.classes[class].order.first()?;
        Some((member.clone(), class))
    }

    /// Counts a pick of the head of a class.
    pub(super) fn charge(&mut self, member: &MemberId, class: usize) {
        if self.strategy == Strategy::LeastLoad {
            return;
        }
        self.count += 1;
        let class = &mut self.classes[class];
        let score = class.head() + 1.0;
        class.put(member, score);
    }

    /// Everybody who can be picked pays his part of so much, by weight. Somebody can.
    pub(super) fn all_pay(&mut self, amount: f64) {
        self.fold();
        self.base -= amount / self.sum as f64;
    }

    /// Changes the credit of a member who can be picked.
    pub(super) fn pay(&mut self, member: &MemberId, weight: Weight, amount: f64) {
        let class = self.class(weight);
        let score = class.scores[member] - amount;
        class.put(member, score);
    }

    /// Credit of a member who can be picked.
    pub(super) fn credit(&self, member: &MemberId, weight: Weight) -> Option<f64> {
        let class = self.classes.iter().find(|class| class.weight == weight)?;
        let score = class.scores.get(member)?;
        let moved = match self.count {
            0 => 0.0,
            count => weight.as_f64() * count as f64 / self.sum as f64,
        };
        Some(weight.as_f64() * self.base + moved - score)
    }
}
