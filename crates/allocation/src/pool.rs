//! What a pool is told to be.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::id::{MemberId, PoolId};
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

/// A pool's whole configuration. Members are kept sorted by id, so equal configurations are equal texts and loading
/// an unchanged one again changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    pub(crate) pool: PoolId,
    pub(crate) version: u64,
    pub(crate) strategy: Strategy,
    pub(crate) members: Vec<(MemberId, Weight)>,
}

impl PoolConfig {
    pub fn new(
        pool: PoolId,
        version: u64,
        strategy: Strategy,
        members: impl IntoIterator<Item = (MemberId, Weight)>,
    ) -> Result<Self, Error> {
        let mut members: Vec<_> = members.into_iter().collect();
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
            strategy,
            members,
        })
    }

    pub fn pool(&self) -> &PoolId {
        &self.pool
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    pub fn members(&self) -> &[(MemberId, Weight)] {
        &self.members
    }
}
