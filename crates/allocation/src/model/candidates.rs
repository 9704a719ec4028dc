//! What the rules see of a pool's members, in words: who can be picked, what keeps the others out, why somebody is next.

use serde::Serialize;

use super::Corp;
use super::member::Member;
use super::pool::{NO_CREDIT, Pool};
use super::windows::PlaceLimits;
use crate::id::{MemberId, PoolId, Skill};
use crate::pool::Strategy;
use crate::weight::Weight;

/// What keeps a member from being picked, in the order in which it is looked at: of several the first is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// A reassignment does not want him, or he was asked before.
    LeftOut,
    /// The plan avoids him: what he would be needed for he cannot do now.
    Avoided,
    WeightZero,
    /// He is off, or his presence lease is over.
    Away,
    Blocked,
    /// As many open allocations as he may have.
    Cap,
    HourLimit,
    DayLimit,
    /// As many open allocations of this pool as he may have.
    PoolCap,
    PoolHourLimit,
    PoolDayLimit,
    /// He cannot do something that is needed.
    Skills,
}

impl Filter {
    pub fn as_str(self) -> &'static str {
        match self {
            Filter::LeftOut => "left_out",
            Filter::Avoided => "avoided",
            Filter::WeightZero => "weight_zero",
            Filter::Away => "away",
            Filter::Blocked => "blocked",
            Filter::Cap => "cap",
            Filter::HourLimit => "hour_limit",
            Filter::DayLimit => "day_limit",
            Filter::PoolCap => "pool_cap",
            Filter::PoolHourLimit => "pool_hour_limit",
            Filter::PoolDayLimit => "pool_day_limit",
            Filter::Skills => "skills",
        }
    }
}

/// A member of a pool at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) member: MemberId,
    pub(crate) weight: Weight,
    /// Open allocations over all pools.
    pub(crate) load: u32,
    /// Only fair pools have it.
    pub(crate) credit: Option<f64>,
    pub(crate) filter: Option<Filter>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotInPool;

/// Why a member is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) rule: PickRule,
    /// How many others had the same claim, and what decided between them.
    pub(crate) tie: Option<(TieRule, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PickRule {
    EarliestDeadline,
    MostCredit,
    LeastLoad,
}

/// What decides between members with the same claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TieRule {
    /// Of one weight: the id that is first in the order of bytes.
    FirstId,
    /// Of different weights: the larger one.
    LargerWeight,
    /// Who was picked longest ago, or never.
    PickedLongestAgo,
}

impl TieRule {
    pub fn as_str(self) -> &'static str {
        match self {
            TieRule::FirstId => "first_id",
            TieRule::LargerWeight => "larger_weight",
            TieRule::PickedLongestAgo => "picked_longest_ago",
        }
    }
}

impl Corp {
    /// The version of the pool's configuration, and how it chooses; None: no such pool.
    pub(crate) fn policy(&self, pool: &PoolId) -> Option<(u64, Strategy)> {
        let config = self.configs.get(pool)?;
        Some((config.version, config.content.as_ref()?.strategy))
    }

    /// Members of the pool, in the order of their ids.
    pub(crate) fn candidates(
        &self,
        id: &PoolId,
        left_out: &[MemberId],
        avoid: &[MemberId],
        needs: &[Skill],
        now_ms: u64,
    ) -> Vec<Candidate> {
        let content = self
            .configs
            .get(id)
            .and_then(|config| config.content.as_ref());
        let Some((pool, content)) = self.pools.get(id).zip(content) else {
            return Vec::new();
        };
        let members = content.members.iter().filter_map(|(member, weight)| {
            let state = self.members.get(member)?;
            let place = state.places.iter().find(|place| place.pool == *id)?;
            let credit = || pool.credit(member, *weight).unwrap_or(place.credit);
            let is_fair = place.strategy == Strategy::WeightedRoundRobin;
            let cannot = || (!self.is_able(member, needs)).then_some(Filter::Skills);
            let filter = if left_out.contains(member) {
                Some(Filter::LeftOut)
            } else if avoid.contains(member) {
                Some(Filter::Avoided)
            } else {
                state
                    .filter(*weight, place.limits.as_ref(), now_ms)
                    .or_else(cannot)
            };
            Some(Candidate {
                member: member.clone(),
                weight: *weight,
                load: state.load,
                credit: is_fair.then(credit),
                filter,
            })
        });
        members.collect()
    }

    /// What keeps this member from being picked in the pool. Err: he is not in it.
    pub(crate) fn filter(
        &self,
        pool: &PoolId,
        member: &MemberId,
        now_ms: u64,
    ) -> Result<Option<Filter>, NotInPool> {
        let state = self.members.get(member).ok_or(NotInPool)?;
        let place = state.places.iter().find(|place| place.pool == *pool);
        let place = place.ok_or(NotInPool)?;
        Ok(state.filter(place.weight, place.limits.as_ref(), now_ms))
    }

    /// Pools that this member is in, and whether he can be picked there.
    pub(crate) fn places(
        &self,
        member: &MemberId,
    ) -> impl Iterator<Item = (&PoolId, Weight, bool)> {
        let places = self.members.get(member).map(|state| &state.places);
        let places = places.into_iter().flatten();
        places.map(|place| (&place.pool, place.weight, place.within))
    }

    /// Who can be picked now, in every pool.
    pub(crate) fn within(&self) -> impl Iterator<Item = (&PoolId, &MemberId, Weight)> {
        self.members.iter().flat_map(|(id, member)| {
            let places = member.places.iter().filter(|place| place.within);
            places.map(move |place| (&place.pool, id, place.weight))
        })
    }

    /// The weights of all who can be picked in the pool, in thousandths.
    pub(crate) fn sum(&self, pool: &PoolId) -> u64 {
        self.pools.get(pool).map_or(0, |pool| pool.sum)
    }

    /// Why the head of this class is next.
    pub(crate) fn choice(&self, pool: &PoolId, class: usize) -> Option<Choice> {
        Some(self.pools.get(pool)?.choice(class))
    }
}

impl Member {
    fn filter(&self, weight: Weight, limits: Option<&PlaceLimits>, now_ms: u64) -> Option<Filter> {
        let windows = self.windows.as_ref();
        let of_pool = |is_full: fn(&PlaceLimits) -> bool| limits.is_some_and(is_full);
        Some(if weight.is_zero() {
            Filter::WeightZero
        } else if self.lease_ms <= now_ms {
            Filter::Away
        } else if self.blocked.is_some() {
            Filter::Blocked
        } else if self.cap.is_some_and(|cap| self.load >= cap) {
            Filter::Cap
        } else if windows.is_some_and(|windows| windows.hour_is_full()) {
            Filter::HourLimit
        } else if windows.is_some_and(|windows| windows.day_is_full()) {
            Filter::DayLimit
        } else if of_pool(PlaceLimits::load_is_full) {
            Filter::PoolCap
        } else if of_pool(PlaceLimits::hour_is_full) {
            Filter::PoolHourLimit
        } else if of_pool(PlaceLimits::day_is_full) {
            Filter::PoolDayLimit
        } else {
            return None;
        })
    }
}

impl Pool {
    /// Why [`Pool::next`] answers the head of this class; the same numbers are compared.
    fn choice(&self, class: usize) -> Choice {
        if self.strategy == Strategy::LeastLoad {
            let first = self.least.first().map(|(score, ..)| *score);
            let same = self.least.iter();
            let same = same.take_while(|(score, ..)| Some(*score) == first).count();
            return Choice {
                rule: PickRule::LeastLoad,
                tie: (same > 1).then(|| (TieRule::PickedLongestAgo, same - 1)),
            };
        }
        let (base, count, sum) = (self.base, (self.count + 1) as f64, self.sum as f64);
        let claims = self.classes.iter().map(|class| {
            let (weight, head) = (class.weight.as_f64(), class.head());
            let credit = weight * base + weight * count / sum - head;
            (credit, (head + 1.0) / weight - base)
        });
        let claims: Vec<(f64, f64)> = claims.collect();
        let is_owed = claims[class].0 > NO_CREDIT;
        let is_same = |(credit, deadline): &(f64, f64)| match is_owed {
            true => *credit > NO_CREDIT && *deadline == claims[class].1,
            false => *credit == claims[class].0,
        };
        let heads = |class: usize| {
            let class = &self.classes[class];
            let head = class.head();
            class
                .order
                .iter()
                .take_while(|(score, _)| score.0 == head)
                .count()
        };
        let of_class = heads(class) - 1;
        let others = (0..claims.len()).filter(|other| *other != class && is_same(&claims[*other]));
        let of_others: usize = others.map(heads).sum();
        let tie = match (of_class, of_others) {
            (0, 0) => None,
            (same, 0) => Some((TieRule::FirstId, same)),
            (same, more) => Some((TieRule::LargerWeight, same + more)),
        };
        Choice {
            rule: match is_owed {
                true => PickRule::EarliestDeadline,
                false => PickRule::MostCredit,
            },
            tie,
        }
    }
}
