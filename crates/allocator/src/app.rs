//! What every part of the program shares: stores, clients, clock, configuration. Made once, in [`App::connect`].

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, RwLock, atomic::AtomicU64},
};

use allocation::CorpId;
use inbox::{Inbox, connect};
use ledger::Ledger;
use quota::{Locks, Quota, Tokens};
use roster::{CorpRoster, Roster};
use tokio::sync::Notify;
use wecom::client;

use crate::{
    clock::Clock,
    config::{self, Config, Hook},
    faults::Faults,
    fission::{
        campaigns::Campaigns,
        inviters,
        join_ways::{JoinWays, Wishes},
        waiting::Waiters,
    },
    guard,
    history::Questions,
    people::{Names, hours},
    reception::{
        routes::Routes,
        slots::{Unshown, Wayless, Ways},
    },
    tokens::SharedTokens,
    writer,
};

/// Single, Sentinel or Cluster, as configured.
pub type Redis = connect::Connection;

/// Why the program could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Config(#[from] config::Error),
    #[error("Redis")]
    Redis(#[source] inbox::Error),
    #[error("Postgres")]
    Postgres(#[source] ledger::Error),
    #[error("WeCom's client")]
    Wecom(#[source] wecom::Error),
    #[error("corps.{0}: {1}")]
    Corp(String, String),
}

/// The whole program's shared state.
pub struct App {
    pub config: Config,
    pub clock: Clock,
    pub redis: Redis,
    pub ledger: Ledger,
    pub quota: Quota<Redis>,
    pub locks: Locks<Redis>,
    pub corps: BTreeMap<CorpId, Arc<CorpApp>>,
    /// Where events are posted.
    pub hook: Option<Hook>,
    /// Whose pages are whose, of all corps.
    pub inviter_pages: inviters::Pages,
    /// About the past.
    pub questions: Questions,
    /// About what the past could have been.
    pub simulations: Questions,
    /// New in every process: names its consumers and its leases.
    pub instance: String,
}

/// One corp: its part of every store, and the app that acts for it.
pub struct CorpApp {
    pub id: CorpId,
    pub settings: config::Corp,
    pub inbox: Inbox<Redis>,
    pub roster: CorpRoster<Redis>,
    pub client: client::Client,
    /// State → channel → pool, as Postgres has it; replaced whole by `people`.
    routes: RwLock<Arc<Routes>>,
    /// Contact ways that can be shown; kept up by `reception::slots`.
    pub ways: Ways,
    /// Join ways that can be shown; kept up by `fission::join_ways`.
    pub join_ways: JoinWays,
    /// As visits need them.
    pub campaigns: Campaigns,
    /// Whom visits pass over; from there, too.
    pub wayless: Wayless,
    /// Whom they pass over for some seconds, as nothing of them could be shown.
    pub unshown: Unshown,
    /// How members are spelled.
    pub names: Names,
    /// Rung when the log grew, when effects are due, when a transfer should be looked at.
    pub log_grew: Notify,
    pub effects_due: Notify,
    pub transfers_due: Notify,
    /// Rung when a script answered NOT_READY.
    pub not_ready: Notify,
    /// Rung when a pool may be missing in Redis that Postgres has.
    pub pool_missed: Notify,
    /// Rung when a group pool or group changed here, or Redis may have lost them.
    pub groups_changed: Notify,
    /// Rung when seats are free and people still wait for them.
    pub seats_freed: Notify,
    /// Rung when somebody found no free seat.
    pub seats_lacking: Notify,
    /// Groups that inviters are to have ways of their own into.
    pub inviter_wishes: Wishes,
    /// Whose requests wait for a seat.
    pub waiters: Waiters,
    /// Who has hours, leaves, or something said of him; rung when that was changed here.
    pub hours: hours::Known,
    pub hours_changed: Notify,
    /// See [`people::look_again`](crate::people::look_again).
    pub no_look_before_ms: AtomicU64,
    /// See [`owners`](crate::reception::owners).
    pub no_owners_before_ms: AtomicU64,
    pub faults: Faults,
    pub last_written: writer::Remembered,
    pub unrecorded: guard::Unrecorded,
}

/// Clients and stores have nothing to show; the corp says which it is.
impl std::fmt::Debug for CorpApp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CorpApp")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App")
            .field("instance", &self.instance)
            .field("corps", &self.corps)
            .finish_non_exhaustive()
    }
}

impl CorpApp {
    pub fn routes(&self) -> Arc<Routes> {
        Arc::clone(
            &self
                .routes
                .read()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        )
    }

    pub fn set_routes(&self, routes: Routes) {
        *self
            .routes
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(routes);
    }
}

impl App {
    /// Connects to the stores and makes a client for every corp. Redis may be away; Postgres must answer once, so
    /// that a wrong address is known at once.
    pub async fn connect(
        config: Config,
        env: &HashMap<String, String>,
        clock: Clock,
    ) -> Result<Arc<Self>, Error> {
        let url = config.postgres.read_url(env)?;
        let hook = config.events.read(env)?;
        let ledger = Ledger::connect(config.postgres.ledger(url))
            .await
            .map_err(Error::Postgres)?;
        let redis = connect::connect_lazy(&config.redis).map_err(Error::Redis)?;
        let roster = Roster::new(redis.clone());
        let http = client::http_client().map_err(Error::Wecom)?;
        let mut corps = BTreeMap::new();
        for (id, settings) in &config.corps {
            let corp = CorpId::new(id.clone())
                .map_err(|error| Error::Corp(id.clone(), error.to_string()))?;
            let secret = settings.read_secret(id, env)?;
            let app = client::App {
                corp_id: id.clone(),
                agent_id: settings.agent_id,
                secret,
            };
            let tokens = Arc::new(SharedTokens(Tokens::new(redis.clone(), id)));
            let client = client::Client::new(http.clone(), &config.wecom.base_url, app, tokens)
                .map_err(Error::Wecom)?;
            let corp_app = CorpApp {
                inbox: Inbox::new(redis.clone(), id, config.inbox.stream.clone()),
                roster: roster.corp(&corp),
                client,
                settings: settings.clone(),
                routes: RwLock::default(),
                ways: Ways::new(config.visits.pictures_mb),
                join_ways: JoinWays::default(),
                campaigns: Campaigns::default(),
                wayless: Wayless::default(),
                unshown: Unshown::default(),
                names: Names::default(),
                log_grew: Notify::new(),
                effects_due: Notify::new(),
                transfers_due: Notify::new(),
                not_ready: Notify::new(),
                pool_missed: Notify::new(),
                groups_changed: Notify::new(),
                seats_freed: Notify::new(),
                seats_lacking: Notify::new(),
                inviter_wishes: Wishes::default(),
                waiters: Waiters::default(),
                hours: hours::Known::default(),
                hours_changed: Notify::new(),
                no_look_before_ms: AtomicU64::new(0),
                no_owners_before_ms: AtomicU64::new(0),
                faults: Faults::default(),
                last_written: writer::Remembered::default(),
                unrecorded: guard::Unrecorded::default(),
                id: corp.clone(),
            };
            corps.insert(corp, Arc::new(corp_app));
        }
        let quota =
            Quota::new(redis.clone(), config.quota.clone()).with_egress(&config.wecom.egress);
        let locks = Locks::new(redis.clone(), quota::Times::default());
        let instance = uuid::Uuid::now_v7().simple().to_string();
        Ok(Arc::new(Self {
            config,
            clock,
            redis,
            ledger,
            quota,
            locks,
            corps,
            questions: Questions::default(),
            hook,
            inviter_pages: inviters::Pages::default(),
            simulations: Questions::of_simulations(),
            instance,
        }))
    }

    /// A connection for reads that wait; nobody else may use it.
    pub async fn blocking(&self) -> Result<Redis, inbox::Error> {
        connect::connect_blocking(&self.config.redis).await
    }

    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }
}
