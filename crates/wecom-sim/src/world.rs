//! Everything the fake WeCom knows, and what people (not APIs) do in it.
//!
//! `api` reads and changes it for callers, `admin` for tests; neither HTTP nor sealing is known here.

mod app;
mod corp;
mod customer;
mod group;
mod group_leave;
mod group_move;
mod group_people;
mod group_scan;
mod groups;
mod join_way;
mod member;
mod people;
mod scan;
mod stats;
mod tags;
mod transfer;
mod way;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use app::{App, AppDef, Token};
pub(crate) use corp::Corp;
pub(crate) use customer::{Customer, Follow};
pub(crate) use group::{Book, Group, Person};
pub(crate) use group_move::GroupMove;
pub(crate) use join_way::{JoinPlan, JoinWay};
pub(crate) use member::Member;
pub(crate) use stats::Caller;
pub(crate) use tags::{Tag as CorpTag, TagBook, TagGroup as CorpTagGroup};
pub(crate) use transfer::{Start, end_now, start};
pub(crate) use way::Way;

use crate::Error;
use crate::callback::Callbacks;
use crate::clock::{Action, Clock, Schedule};
use crate::config::Config;
use crate::fault::Faults;
use crate::log::{CallLog, MessageLog};
use crate::random::{For, Random};
use crate::sync::{Shards, Slot};

#[derive(Debug)]
pub(crate) struct World {
    /// The rules in force. Its corps and faults are those of the start; the live ones are below.
    pub(crate) rules: Slot<Config>,
    pub(crate) clock: Clock,
    pub(crate) schedule: Schedule,
    pub(crate) corps: Slot<BTreeMap<String, Arc<Corp>>>,
    pub(crate) tokens: Shards<Arc<str>, Arc<Token>>,
    pub(crate) callers: Shards<IpAddr, Arc<Caller>>,
    pub(crate) faults: Faults,
    pub(crate) log: CallLog,
    pub(crate) messages: MessageLog,
    pub(crate) callbacks: Callbacks,
    pub(crate) totals: Totals,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    numbers: AtomicU64,
    arrivals: AtomicU64,
}

/// Counters that belong to no corp.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) unknown_corp_gettoken: AtomicU64,
    pub(crate) unknown_token: AtomicU64,
    pub(crate) while_blocked: AtomicU64,
    pub(crate) while_blocked_unexcused: AtomicU64,
}

impl World {
    pub(crate) fn new(config: Config) -> Result<Arc<Self>, Error> {
        config.check()?;
        let callbacks = Callbacks::new(&config.callbacks)?;
        let world = Arc::new(Self {
            clock: Clock::new(&config.clock),
            schedule: Schedule::default(),
            corps: Slot::default(),
            tokens: Shards::default(),
            callers: Shards::default(),
            faults: Faults::default(),
            log: CallLog::default(),
            messages: MessageLog::default(),
            callbacks,
            totals: Totals::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            numbers: AtomicU64::new(0),
            arrivals: AtomicU64::new(0),
            rules: Slot::new(Config {
                corps: Vec::new(),
                faults: Vec::new(),
                ..config.clone()
            }),
        });
        world.set_corps(&config)?;
        for fault in config.faults {
            world.faults.add(fault, world.now_ms())?;
        }
        Ok(world)
    }

    /// Makes the corps what the configuration says; what they hold stays.
    pub(crate) fn set_corps(&self, config: &Config) -> Result<(), Error> {
        let live = self.corps.get();
        let mut corps = BTreeMap::new();
        for corp_config in &config.corps {
            let corp = match live.get(&corp_config.id) {
                Some(corp) => Arc::clone(corp),
                None => Arc::new(Corp::new(&corp_config.id)),
            };
            corp.configure(self, corp_config)?;
            corps.insert(corp_config.id.clone(), corp);
        }
        self.corps.set(corps);
        Ok(())
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    pub(crate) fn at(&self, due_ms: i64, action: Action) {
        self.schedule.at(due_ms, action);
    }

    /// Whether any corp has this contact or join way.
    pub(crate) fn has_way(&self, config_id: &str) -> bool {
        let corps = self.corps.get();
        let has = |corp: &Arc<Corp>| {
            corp.ways.part(config_id).contains_key(config_id)
                || corp.groups.ways.part(config_id).contains_key(config_id)
        };
        corps.values().any(has)
    }

    /// The corp of that id, or the only one.
    pub(crate) fn corp(&self, id: Option<&str>) -> Result<Arc<Corp>, Error> {
        let corps = self.corps.get();
        match id {
            Some(id) => corps
                .get(id)
                .cloned()
                .ok_or_else(|| Error::unknown("corp", id)),
            None if corps.len() == 1 => corps
                .values()
                .next()
                .cloned()
                .ok_or_else(|| Error::Request("there is no corp".to_owned())),
            None => Err(Error::Request(format!(
                "there are {} corps, name one with \"corp\"",
                corps.len()
            ))),
        }
    }

    /// A number never used before.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// The number of a call, from 1 in order of arrival.
    pub(crate) fn arrival(&self) -> u64 {
        self.arrivals.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A new id: prefix and 30 letters and digits, as WeCom's look.
    pub(crate) fn fresh_id(&self, prefix: &str) -> Arc<str> {
        let mut random = self.random(For::Id, self.number());
        format!("{prefix}{}", random.text(30)).into()
    }

    pub(crate) fn random(&self, purpose: For, number: u64) -> Random {
        Random::new(self.rules.get().seed, purpose, number)
    }

    pub(crate) fn caller(&self, ip: IpAddr) -> Arc<Caller> {
        Arc::clone(self.callers.part(&ip).entry(ip).or_default())
    }
}
