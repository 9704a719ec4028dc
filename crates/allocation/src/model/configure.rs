//! Making a pool what its configuration says.

use std::collections::{BTreeMap, BTreeSet};

use super::Call;
use super::member::Place;
use super::pool::Pool;
use super::waiting::Drip;
use super::windows::PlaceLimits;
use crate::id::{MemberId, PoolId};
use crate::limits::Limits;
use crate::outcome::PoolChange;
use crate::pool::{PoolConfig, PoolContent};
use crate::weight::Weight;

/// The configuration in force. Of a removed pool only the version is left: an older configuration does not bring
/// it back.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Config {
    pub(super) version: u64,
    pub(super) content: Option<PoolContent>,
}

impl Call<'_> {
    pub(super) fn set_pool(&mut self, config: &PoolConfig) -> PoolChange {
        let content = config.content.clone();
        let stored = self.corp.configs.get(&config.pool).cloned();
        let stored_content = stored.as_ref().and_then(|stored| stored.content.as_ref());
        let same = stored_content == Some(&content);
        if let Some(stored) = &stored
            && (config.version < stored.version || config.version == stored.version && !same)
        {
            return PoolChange::Stale {
                version: stored.version,
            };
        }
        if !same {
            self.rebuild_pool(&config.pool, &content, stored_content);
        }
        let rules = &mut self.corp.offers.rules;
        match content.offer {
            Some(rule) => rules.insert(config.pool.clone(), rule),
            None => rules.remove(&config.pool),
        };
        let drips = &mut self.corp.drips;
        match content.drip_ms {
            Some(every_ms) => {
                let next_ms = drips.get(&config.pool).map_or(0, |drip| drip.next_ms);
                drips.insert(config.pool.clone(), Drip { every_ms, next_ms });
            }
            None => {
                drips.remove(&config.pool);
            }
        }
        let config_now = Config {
            version: config.version,
            content: Some(content),
        };
        self.corp.configs.insert(config.pool.clone(), config_now);
        if same {
            return PoolChange::Same;
        }
        self.wake();
        PoolChange::Changed
    }

    pub(super) fn remove_pool(&mut self, pool: &PoolId, version: u64) -> PoolChange {
        let Some(Config {
            version: stored,
            content: Some(content),
        }) = self.corp.configs.get(pool).cloned()
        else {
            return PoolChange::Unknown;
        };
        if version < stored {
            return PoolChange::Stale { version: stored };
        }
        self.vacate(pool, &content);
        self.corp.pools.remove(pool);
        self.corp.offers.rules.remove(pool);
        self.corp.drips.remove(pool);
        for (id, _) in &content.members {
            self.tidy(id);
        }
        let removed = Config {
            version,
            content: None,
        };
        self.corp.configs.insert(pool.clone(), removed);
        PoolChange::Changed
    }

    /// Who stays keeps his credit; what the removed ones were owed is spread by weight, so that credits sum to 0.
    fn rebuild_pool(&mut self, pool: &PoolId, content: &PoolContent, former: Option<&PoolContent>) {
        let (mut credits, mut counted) = (BTreeMap::new(), BTreeMap::new());
        if let Some(former) = former {
            for (id, (credit, limits)) in self.vacate(pool, former) {
                credits.insert(id.clone(), credit);
                counted.insert(id, limits);
            }
        }
        let weights: BTreeMap<&MemberId, Weight> = content
            .members
            .iter()
            .map(|(id, weight)| (id, *weight))
            .collect();
        let mut lost = 0.0;
        for (id, credit) in &credits {
            if !weights.contains_key(id) {
                lost += credit;
            }
        }
        let sum: f64 = weights.values().map(|weight| weight.as_f64()).sum();
        let distinct: BTreeSet<Weight> = weights.values().copied().collect();
        let new = Pool::new(content.strategy, &distinct);
        self.corp.pools.insert(pool.clone(), new);
        for (id, weight) in &content.members {
            self.create(id);
            let credit = match credits.get(id).copied().unwrap_or(0.0) {
                credit if sum > 0.0 => credit + lost * weight.as_f64() / sum,
                // Where nobody can be picked all start over.
                _ => 0.0,
            };
            let limits = content.limits.get(id).map(|limits| {
                let before = counted.remove(id).flatten();
                self.place_limits(*limits, before)
            });
            let place = Place {
                pool: pool.clone(),
                weight: *weight,
                strategy: content.strategy,
                credit,
                within: false,
                limits,
            };
            let now_ms = self.now_ms;
            if let Some(member) = self.corp.members.get_mut(id) {
                if place.limits.is_some() {
                    member.windows_mut(now_ms);
                }
                member.places.push(place);
            }
            self.change(id, |_| {});
        }
        let former = former.into_iter().flat_map(|former| &former.members);
        for (id, _) in former.chain(&content.members) {
            self.tidy(id);
        }
    }

    /// What was counted goes on counting; a member without limits here until now begins at 0.
    fn place_limits(&mut self, limits: Limits, before: Option<PlaceLimits>) -> PlaceLimits {
        match before {
            Some(before) => PlaceLimits { limits, ..before },
            None => PlaceLimits {
                load: 0,
                limits,
                hour_n: 0,
                day_n: 0,
                since: self.corp.turn(),
            },
        }
    }

    /// Takes everybody out of the pool and answers the credit of each, and what counts against his limits.
    fn vacate(
        &mut self,
        pool: &PoolId,
        content: &PoolContent,
    ) -> BTreeMap<MemberId, (f64, Option<PlaceLimits>)> {
        let mut credits = BTreeMap::new();
        for (id, _) in &content.members {
            self.seen.insert(id.clone());
            let mut member = self.corp.member(id).clone();
            let at = member.places.iter().position(|place| place.pool == *pool);
            let place = member.places.remove(at.expect("a member of the pool"));
            let credit = match place.within {
                true => self.leave(id, &member, &place),
                false => place.credit,
            };
            credits.insert(id.clone(), (credit, place.limits));
            self.corp.members.insert(id.clone(), member);
        }
        credits
    }
}
