//! What a pool is told to be.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::id::{MemberId, PoolId};
use crate::limits::Limits;
use crate::offer::OfferRule;
use crate::text::{Fields, optional};
use crate::weight::Weight;
use crate::{MAX_MEMBERS, MAX_WEIGHTS};

/// How a pool chooses among its free members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Shares by weight, each member at every moment less than one pick away from his exact share.
    WeightedRoundRobin,
    /// The smallest live load (open allocations over all pools) divided by weight; ties to the least recently
    /// assigned.
    LeastLoad,
}

impl Strategy {
    pub fn as_str(self) -> &'static str {
        match self {
            Strategy::WeightedRoundRobin => "weighted_round_robin",
            Strategy::LeastLoad => "least_load",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "weighted_round_robin" => Ok(Strategy::WeightedRoundRobin),
            "least_load" => Ok(Strategy::LeastLoad),
            other => Err(Error::unreadable("strategy", other)),
        }
    }
}

/// What a pool is: how it chooses, and among whom. Members are kept sorted by id, so equal contents are equal texts and
/// loading an unchanged one again changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolContent {
    pub(crate) strategy: Strategy,
    pub(crate) members: Vec<(MemberId, Weight)>,
    /// Of those who have any here, beside those over all pools.
    pub(crate) limits: BTreeMap<MemberId, Limits>,
    /// Members are asked before they are given anybody.
    pub(crate) offer: Option<OfferRule>,
    /// Each member gets about one of those who waited in this time.
    pub(crate) drip_ms: Option<u64>,
}

/// Behind the name of the strategy, and between its two numbers: how offers are made.
const OFFERS: char = '@';
const TRIES: char = '/';
/// Behind the name of the strategy and the offers: how fast those who waited are handed out.
const DRIP: char = '~';
/// Behind the name of the strategy: three limits follow each weight.
const LIMITED: char = '+';

impl PoolContent {
    /// As arguments, and as Redis keeps it.
    pub(crate) fn args(&self) -> Vec<String> {
        let limited = !self.limits.is_empty();
        let mut strategy = self.strategy.as_str().to_owned();
        if let Some(rule) = &self.offer {
            let (accept_ms, tries) = (rule.accept_ms, rule.tries);
            strategy.push_str(&format!("{OFFERS}{accept_ms}{TRIES}{tries}"));
        }
        if let Some(drip_ms) = self.drip_ms {
            strategy.push_str(&format!("{DRIP}{drip_ms}"));
        }
        if limited {
            strategy.push(LIMITED);
        }
        let mut args = vec![strategy];
        for (member, weight) in &self.members {
            args.extend([member.to_string(), weight.thousandths().to_string()]);
            if limited {
                let limits = self.limits.get(member).copied().unwrap_or_default();
                args.extend([
                    optional(limits.at_a_time.as_ref()),
                    optional(limits.per_hour.as_ref()),
                    optional(limits.per_day.as_ref()),
                ]);
            }
        }
        args
    }

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let word = fields.next()?;
        let plain = word.strip_suffix(LIMITED);
        let word = plain.unwrap_or(word);
        let (word, drip_ms) = match word.split_once(DRIP) {
            Some((word, drip)) => {
                let drip_ms = drip.parse().map_err(|_| Error::unreadable("drip", drip))?;
                (word, Some(drip_ms))
            }
            None => (word, None),
        };
        let (strategy, offer) = match word.split_once(OFFERS) {
            Some((strategy, rule)) => (strategy, Some(read_rule(rule)?)),
            None => (word, None),
        };
        let mut content = Self {
            strategy: Strategy::parse(strategy)?,
            members: Vec::new(),
            limits: BTreeMap::new(),
            offer,
            drip_ms,
        };
        while !fields.is_empty() {
            let member: MemberId = fields.parse()?;
            let weight = Weight::from_thousandths(fields.parse()?)?;
            if plain.is_some() {
                let limits = Limits {
                    at_a_time: fields.optional()?,
                    per_hour: fields.optional()?,
                    per_day: fields.optional()?,
                };
                if !limits.is_none() {
                    content.limits.insert(member.clone(), limits);
                }
            }
            content.members.push((member, weight));
        }
        Ok(content)
    }
}

fn read_rule(text: &str) -> Result<OfferRule, Error> {
    let unreadable = || Error::unreadable("offers", text);
    let (accept_ms, tries) = text.split_once(TRIES).ok_or_else(unreadable)?;
    Ok(OfferRule {
        accept_ms: accept_ms.parse().map_err(|_| unreadable())?,
        tries: tries.parse().map_err(|_| unreadable())?,
    })
}

/// A pool's whole configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    pub(crate) pool: PoolId,
    pub(crate) version: u64,
    pub(crate) content: PoolContent,
}

impl PoolConfig {
    pub fn new(
        pool: PoolId,
        version: u64,
        strategy: Strategy,
        members: impl IntoIterator<Item = (MemberId, Weight)>,
    ) -> Result<Self, Error> {
        let content = PoolContent {
            strategy,
            members: members.into_iter().collect(),
            limits: BTreeMap::new(),
            offer: None,
            drip_ms: None,
        };
        Self::of(pool, version, content)
    }

    pub(crate) fn of(pool: PoolId, version: u64, mut content: PoolContent) -> Result<Self, Error> {
        let members = &mut content.members;
        members.sort();
        if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::MemberTwice(pair[0].0.clone()));
        }
        if members.len() > MAX_MEMBERS {
            return Err(Error::TooManyMembers);
        }
        let weights: BTreeSet<Weight> = members.iter().map(|(_, weight)| *weight).collect();
        if weights.iter().filter(|weight| !weight.is_zero()).count() > MAX_WEIGHTS {
            return Err(Error::TooManyWeights);
        }
        Ok(Self {
            pool,
            version,
            content,
        })
    }

    /// What each member may be given of this pool; of those who are not in it nothing is kept.
    #[must_use]
    pub fn with_limits(mut self, limits: impl IntoIterator<Item = (MemberId, Limits)>) -> Self {
        let members = &self.content.members;
        self.content.limits = limits
            .into_iter()
            .filter(|(id, limits)| {
                !limits.is_none() && members.iter().any(|(member, _)| member == id)
            })
            .collect();
        self
    }

    pub fn pool(&self) -> &PoolId {
        &self.pool
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn strategy(&self) -> Strategy {
        self.content.strategy
    }

    pub fn members(&self) -> &[(MemberId, Weight)] {
        &self.content.members
    }

    /// Of this pool alone.
    pub fn limits(&self, member: &MemberId) -> Limits {
        self.content.limits.get(member).copied().unwrap_or_default()
    }

    /// Members are asked first, in this way.
    #[must_use]
    pub fn with_offers(mut self, rule: Option<OfferRule>) -> Self {
        self.content.offer = rule;
        self
    }

    pub fn offers(&self) -> Option<OfferRule> {
        self.content.offer
    }

    /// While somebody waits, each member is given about one in this time: the first who comes in the morning does not get
    /// the whole night.
    #[must_use]
    pub fn with_drip(mut self, drip_ms: Option<u64>) -> Self {
        self.content.drip_ms = drip_ms.filter(|drip_ms| *drip_ms > 0);
        self
    }

    pub fn drip_ms(&self) -> Option<u64> {
        self.content.drip_ms
    }

    /// It says more than strategy and weights.
    pub(crate) fn is_more(&self) -> bool {
        let content = &self.content;
        !content.limits.is_empty() || content.offer.is_some() || content.drip_ms.is_some()
    }
}
