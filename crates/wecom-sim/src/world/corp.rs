//! One company: its apps, members, customers, contact ways, groups, tags and counters.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;
use crate::admin::{CorpCounters, CorpState};
use crate::api::Api;
use crate::config::{CorpConfig, Secret};
use crate::quota::Meter;
use crate::sync::{Lock, Shards, Slot};

use super::World;
use super::app::App;
use super::customer::{Code, Customer};
use super::groups::Groups;
use super::member::Member;
use super::stats::{ApiStat, Gettoken, api_stats};
use super::tags::{Tag, TagBook, TagGroup};
use super::transfer::{Attempt, Pair};
use super::way::Way;

#[derive(Debug)]
pub(crate) struct Corp {
    pub(crate) id: Arc<str>,
    pub(crate) settings: Slot<Settings>,
    pub(crate) apps: Slot<BTreeMap<u32, Arc<App>>>,
    /// By lower-case userid.
    pub(crate) members: Slot<HashMap<Arc<str>, Arc<Member>>>,
    pub(crate) customers: Shards<Arc<str>, Customer>,
    pub(crate) ways: Shards<Arc<str>, Way>,
    /// The latest way of each State.
    pub(crate) way_states: Lock<HashMap<String, Arc<str>>>,
    /// config_id by rank, with the time of making.
    pub(crate) way_order: Lock<BTreeMap<u64, (i64, Arc<str>)>>,
    pub(crate) groups: Groups,
    pub(crate) tags: Lock<TagBook>,
    pub(crate) pairs: Shards<Pair, Vec<Arc<Attempt>>>,
    pub(crate) codes: Shards<Arc<str>, Code>,
    /// Records that a call is writing right now (45035).
    pub(crate) writing: Shards<String, ()>,
    /// Bodies of app messages under duplicate check, with the time until when.
    pub(crate) sent_bodies: Lock<HashMap<(u32, Vec<u8>), i64>>,
    pub(crate) webhook_meters: Shards<String, Arc<Meter>>,
    pub(crate) stats: Vec<ApiStat>,
    /// gettoken calls whose secret fits no app.
    wrong_gettoken: Lock<Gettoken>,
    pub(crate) totals: CorpTotals,
    ranks: AtomicU64,
}

/// What the configuration says about a corp besides apps and members.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) webhooks: Vec<Secret>,
    pub(crate) account_cap: u64,
    pub(crate) temp_ways: bool,
}

/// Counters that belong to no single API.
#[derive(Debug, Default)]
pub(crate) struct CorpTotals {
    pub(crate) transfers_accepted: AtomicU64,
    pub(crate) transfers_asked_again: AtomicU64,
    pub(crate) transfers_doubled: AtomicU64,
    pub(crate) transfers_over_limit: AtomicU64,
    pub(crate) welcomes_delivered: AtomicU64,
    pub(crate) welcomes_repeated: AtomicU64,
    pub(crate) messages_duplicate: AtomicU64,
    pub(crate) webhook_messages: AtomicU64,
}

impl Corp {
    pub(crate) fn new(id: &str) -> Self {
        Self {
            id: id.into(),
            settings: Slot::default(),
            apps: Slot::default(),
            members: Slot::default(),
            customers: Shards::default(),
            ways: Shards::default(),
            way_states: Lock::default(),
            way_order: Lock::default(),
            groups: Groups::default(),
            tags: Lock::default(),
            pairs: Shards::default(),
            codes: Shards::default(),
            writing: Shards::default(),
            sent_bodies: Lock::default(),
            webhook_meters: Shards::default(),
            stats: api_stats(),
            wrong_gettoken: Lock::default(),
            totals: CorpTotals::default(),
            ranks: AtomicU64::new(1),
        }
    }

    /// Takes over what the configuration says; tokens, customers and counters stay.
    pub(crate) fn configure(&self, world: &World, config: &CorpConfig) -> Result<(), Error> {
        self.settings.set(Settings {
            webhooks: config.webhooks.clone(),
            account_cap: config.account_cap,
            temp_ways: config.temp_ways,
        });
        let live = self.apps.get();
        let mut apps = BTreeMap::new();
        for app_config in &config.apps {
            let app = match live.get(&app_config.agent_id) {
                Some(app) => {
                    app.configure(&self.id, app_config.clone())?;
                    Arc::clone(app)
                }
                None => Arc::new(App::new(&self.id, app_config.clone())?),
            };
            apps.insert(app_config.agent_id, app);
        }
        self.apps.set(apps);

        let live = self.members.get();
        let mut members = HashMap::new();
        for member_config in config.all_members() {
            let key = member_config.userid.to_ascii_lowercase();
            let member = match live.get(key.as_str()) {
                Some(member) => {
                    member.def.set(member_config);
                    Arc::clone(member)
                }
                None => Arc::new(Member::new(member_config)),
            };
            members.insert(Arc::clone(&member.key), member);
        }
        self.members.set(members);

        for group in &config.tags {
            for tag in &group.tags {
                self.console_tag(world, &group.group, tag);
            }
        }
        Ok(())
    }

    /// What the corp looks like as configuration.
    pub(crate) fn config(&self) -> CorpConfig {
        let settings = self.settings.get();
        let mut members: Vec<_> = self
            .members
            .get()
            .values()
            .map(|member| (*member.def.get()).clone())
            .collect();
        members.sort_by(|a, b| a.userid.cmp(&b.userid));
        CorpConfig {
            id: self.id.to_string(),
            apps: self
                .apps
                .get()
                .values()
                .map(|app| app.def.get().config.clone())
                .collect(),
            members,
            generate: Vec::new(),
            webhooks: settings.webhooks.clone(),
            tags: Vec::new(),
            account_cap: settings.account_cap,
            temp_ways: settings.temp_ways,
        }
    }

    pub(crate) fn member(&self, userid: &str) -> Option<Arc<Member>> {
        let members = self.members.get();
        if let Some(member) = members.get(userid) {
            return Some(Arc::clone(member));
        }
        members.get(userid.to_ascii_lowercase().as_str()).cloned()
    }

    /// The app with this secret.
    pub(crate) fn app_of(&self, secret: &str) -> Option<Arc<App>> {
        self.apps
            .get()
            .values()
            .find(|app| app.def.get().config.secret.0 == secret)
            .cloned()
    }

    /// Where a gettoken is counted: with its app, or with those whose secret fits none.
    pub(crate) fn gettoken<'a>(&'a self, app: Option<&'a App>) -> &'a Lock<Gettoken> {
        app.map_or(&self.wrong_gettoken, |app| &app.gettoken)
    }

    /// The next place in a list.
    pub(crate) fn rank(&self) -> u64 {
        self.ranks.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn stat(&self, api: Api) -> &ApiStat {
        &self.stats[api.index()]
    }

    /// A tag made in the admin console: its id, the id of its group, and which of the two are new.
    pub(crate) fn console_tag(&self, world: &World, group: &str, tag: &str) -> ConsoleTag {
        let created_s = world.now_ms().div_euclid(1_000);
        let mut book = self.tags.lock();
        let (group_id, new_group) = match book.named(group) {
            Some(id) => (id, false),
            None => {
                let id = world.fresh_id("et");
                let made = TagGroup {
                    name: group.to_owned(),
                    created_s,
                    order: 0,
                    owner: None,
                    tags: BTreeMap::new(),
                };
                book.groups.insert(Arc::clone(&id), made);
                (id, true)
            }
        };
        let fresh = world.fresh_id("et");
        let made = Tag {
            name: tag.to_owned(),
            created_s,
            order: 0,
            owner: None,
        };
        let tag_id = book
            .add(&group_id, Arc::clone(&fresh), made)
            .unwrap_or_else(|| Arc::clone(&fresh));
        ConsoleTag {
            new_tag: tag_id == fresh,
            tag_id,
            group_id,
            new_group,
        }
    }

    pub(crate) fn counters(&self) -> CorpCounters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut counters = CorpCounters {
            transfers_accepted: load(&self.totals.transfers_accepted),
            transfers_asked_again: load(&self.totals.transfers_asked_again),
            transfers_doubled: load(&self.totals.transfers_doubled),
            transfers_over_limit: load(&self.totals.transfers_over_limit),
            welcomes_delivered: load(&self.totals.welcomes_delivered),
            welcomes_repeated: load(&self.totals.welcomes_repeated),
            messages_duplicate: load(&self.totals.messages_duplicate),
            webhook_messages: load(&self.totals.webhook_messages),
            groups: self.groups.counters(),
            ..CorpCounters::default()
        };
        for api in Api::all() {
            let api_counters = self.stat(api).counters();
            if api_counters.calls > 0 {
                counters.apis.insert(api.name().to_owned(), api_counters);
            }
        }
        for (agent_id, app) in &*self.apps.get() {
            counters
                .gettoken
                .insert(*agent_id, app.gettoken.lock().counters());
        }
        let wrong = self.wrong_gettoken.lock().counters();
        if wrong.calls > 0 {
            counters.gettoken.insert(0, wrong);
        }
        self.customers.for_each(|_, customer| {
            counters.customers += u64::from(customer.known());
            counters.relations += customer
                .follows
                .iter()
                .filter(|follow| !follow.half)
                .count() as u64;
            if customer.transfers_accepted > 0 {
                *counters
                    .customers_by_transfers
                    .entry(customer.transfers_accepted)
                    .or_default() += 1;
            }
        });
        self.pairs.for_each(|_, attempts| {
            let mut by_customer: HashMap<&str, u32> = HashMap::new();
            for attempt in attempts {
                *by_customer.entry(&attempt.customer).or_default() += 1;
                *counters
                    .transfers
                    .entry(attempt.status_name().to_owned())
                    .or_default() += 1;
            }
            let most = by_customer.into_values().max().unwrap_or(0);
            counters.same_pair_transfers_max = counters.same_pair_transfers_max.max(most);
        });
        self.codes.for_each(|_, code| {
            *counters
                .welcome_codes_by_calls
                .entry(code.calls)
                .or_default() += 1
        });
        for member in self.members.get().values() {
            let messages = member.messages.lock();
            if messages.delivered > 0 {
                counters
                    .messages
                    .insert(member.userid.to_string(), messages.delivered);
            }
            if messages.dropped > 0 {
                counters
                    .messages_dropped
                    .insert(member.userid.to_string(), messages.dropped);
            }
        }
        counters
    }

    /// Some customers with more accepted starts than this, for a message.
    pub(crate) fn moved_more_than(&self, most: u32, show: usize) -> Vec<String> {
        let mut found = Vec::new();
        self.customers.for_each(|id, customer| {
            if customer.transfers_accepted > most && found.len() < show {
                found.push(format!("{id} ({})", customer.transfers_accepted));
            }
        });
        found
    }

    pub(crate) fn state(&self) -> CorpState {
        let mut state = CorpState::default();
        state.members = self
            .members
            .get()
            .values()
            .map(|member| member.state())
            .collect();
        state.members.sort_by(|a, b| a.userid.cmp(&b.userid));
        self.customers.for_each(|id, customer| {
            if customer.known() {
                state.customers.push(customer.state(id));
            }
        });
        state.customers.sort_by(|a, b| a.id.cmp(&b.id));
        self.pairs.for_each(|_, attempts| {
            state
                .transfers
                .extend(attempts.iter().map(|attempt| attempt.state_dump()));
        });
        state
            .transfers
            .sort_by(|a, b| (a.started_ms, &a.customer).cmp(&(b.started_ms, &b.customer)));
        for (_, config_id) in self.way_order.lock().values() {
            if let Some(way) = self.ways.part(config_id).get(config_id) {
                state.contact_ways.push(way.shown(None));
            }
        }
        state.groups = self.groups.state(true);
        state.join_ways = self.groups.ways_state();
        let book = self.tags.lock();
        state.tag_groups = book
            .groups
            .keys()
            .filter_map(|id| book.shown(id, |_| true))
            .collect();
        state
    }
}

/// See [`Corp::console_tag`].
#[derive(Debug)]
pub(crate) struct ConsoleTag {
    pub(crate) tag_id: Arc<str>,
    pub(crate) group_id: Arc<str>,
    pub(crate) new_tag: bool,
    pub(crate) new_group: bool,
}
