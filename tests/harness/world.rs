//! Starting and stopping the parts.

use std::{collections::HashMap, net::TcpListener, sync::Arc};

use allocation::{ChannelId, CorpId, MemberId, PoolId, Weight};
use allocator::{app::App, clock, config::Config};
use ledger::{NewChannel, NewMember, NewPool, Precondition, Trail};
use test_postgres::Database;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wecom_sim::SimHandle;

use crate::{
    Allocator,
    options::{AES_KEY, COOKIE_KEY, Options, SECRET, TOKEN, free},
};

struct Gateway {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Everything, running.
pub struct World {
    pub corp: CorpId,
    pub sim: SimHandle,
    /// The stores, seen by a bystander.
    pub app: Arc<App>,
    pub callback_urls: Vec<String>,
    pub allocators: Vec<Allocator>,
    pub redis: Option<test_redis::Server>,
    pub postgres: Option<test_postgres::Server>,
    pub(crate) options: Options,
    config: Config,
    env: HashMap<String, String>,
    gateways: Vec<Gateway>,
    _database: Option<Database>,
}

/// Processes and stores have nothing to show; the corp says which world it is.
impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("corp", &self.corp)
            .finish_non_exhaustive()
    }
}

impl World {
    /// Starts everything and waits until the corp is open, the pool is known and its members are online.
    pub async fn start(options: Options) -> Self {
        let corp = CorpId::new(test_redis::corp()).expect("a corp id");
        let options = options.of(&corp);
        let (redis, postgres, database) = if options.own_stores {
            let durable = test_redis::Options {
                appendonly: test_redis::AppendOnly::Always,
                ..test_redis::Options::default()
            };
            let postgres = test_postgres::Server::start(test_postgres::Options::default()).await;
            (
                Some(test_redis::Server::start(durable)),
                Some(postgres),
                None,
            )
        } else {
            (None, None, Some(migrated().await))
        };
        let redis_url = redis
            .as_ref()
            .map_or_else(|| test_redis::shared().url(), test_redis::Server::url);
        let postgres_url = match (&postgres, &database) {
            (Some(postgres), _) => postgres.url(),
            (None, Some(database)) => database.url(),
            (None, None) => unreachable!("one of them was started"),
        };
        let callback_listeners: Vec<TcpListener> = (0..options.gateways).map(|_| free()).collect();
        let callback_urls: Vec<String> = callback_listeners
            .iter()
            .map(|listener| {
                let addr = listener.local_addr().expect("bound");
                format!("http://{addr}/callback/sales")
            })
            .collect();
        let sim = options.start_sim(&corp, &callback_urls).await;
        let env = HashMap::from([
            ("PAIDAN_POSTGRES_URL".to_owned(), postgres_url),
            ("APP_SECRET".to_owned(), SECRET.to_owned()),
            ("CALLBACK_TOKEN".to_owned(), TOKEN.to_owned()),
            ("CALLBACK_KEY".to_owned(), AES_KEY.to_owned()),
            ("COOKIE_KEY".to_owned(), COOKIE_KEY.to_owned()),
        ]);
        let config = options.allocator_config(&corp, &sim, &env, &redis_url);
        let app = App::connect(config.clone(), &env, clock::system())
            .await
            .expect("the stores answer");
        let corps: Vec<CorpId> = app.corps.keys().cloned().collect();
        app.ledger
            .prepare(&corps)
            .await
            .expect("the database is ready");
        let mut world = Self {
            corp,
            sim,
            app,
            callback_urls,
            allocators: Vec::new(),
            redis,
            postgres,
            options,
            config,
            env,
            gateways: Vec::new(),
            _database: database,
        };
        world.configure().await;
        for listener in callback_listeners {
            world.start_gateway(listener, &redis_url);
        }
        for _ in 0..world.options.allocators {
            world.start_allocator().await;
        }
        world.wait_open().await;
        world.all_online().await;
        world
    }

    fn start_gateway(&mut self, callback: TcpListener, redis_url: &str) {
        let config = self
            .options
            .gateway_config(&self.corp, &self.env, redis_url);
        let listeners = gateway::Listeners {
            callback: vec![callback],
            admin: free(),
        };
        let signals = gateway::Signals::default();
        let stop = signals.shutdown.clone();
        let task = tokio::spawn(async move {
            gateway::run(config, listeners, signals)
                .await
                .expect("the gateway ends in order");
        });
        self.gateways.push(Gateway { stop, task });
    }

    /// One more allocator process.
    pub async fn start_allocator(&mut self) {
        let allocator = self.spawn_allocator();
        allocator.serves().await;
        self.allocators.push(allocator);
    }

    /// One that may find its stores away.
    pub fn spawn_allocator(&self) -> Allocator {
        Allocator::spawn(self.config.clone(), self.env.clone())
    }

    /// Kills an allocator: its tasks end wherever they are.
    pub fn kill_allocator(&mut self, index: usize) {
        self.allocators.remove(index).kill();
    }

    async fn configure(&self) {
        let trail = Trail::system(self.app.now_ms(), "test");
        let ledger = &self.app.ledger;
        for (name, _) in &self.options.members {
            let member = MemberId::new(*name).expect("a member");
            let new = NewMember {
                userid: (*name).to_owned(),
                cap: None,
                blocked: None,
                ..NewMember::default()
            };
            ledger
                .members()
                .put(&self.corp, &member, &new, Precondition::None, &trail)
                .await
                .expect("a member");
        }
        let pool = NewPool {
            name: "sales".to_owned(),
            strategy: self.options.strategy,
            load_window_seconds: self.options.load_window_seconds,
            offers: self.options.offers,
            routing: Default::default(),
            members: self
                .options
                .members
                .iter()
                .map(|(name, weight)| {
                    let weight = Weight::from_thousandths(weight * 1000).expect("a weight");
                    (MemberId::new(*name).expect("a member"), weight)
                })
                .collect(),
            limits: Default::default(),
        };
        let id = PoolId::new("sales").expect("a pool");
        ledger
            .pools()
            .put(&self.corp, &id, &pool, Precondition::None, &trail)
            .await
            .expect("a pool");
        let channel = NewChannel {
            name: "poster".to_owned(),
            pool: id,
            states: vec!["poster".to_owned()],
            welcome: self
                .options
                .welcome
                .map(|text| serde_json::json!({ "text": text })),
            card: self.options.cards,
            needs: Vec::new(),
            limits: ledger::ChannelLimits::default(),
            visits: None,
        };
        let id = ChannelId::new("poster").expect("a channel");
        ledger
            .channels()
            .put(&self.corp, &id, &channel, Precondition::None, &trail)
            .await
            .expect("a channel");
    }

    /// Stops everything in order and asserts the promises that always hold.
    pub async fn close(self) {
        self.quiet().await;
        self.fold_is_state().await;
        let report = self.sim.check();
        assert!(report.holds, "the simulator saw a broken rule: {report:?}");
        for allocator in self.allocators {
            allocator.stop().await;
        }
        for gateway in self.gateways {
            gateway.stop.cancel();
            gateway.task.await.expect("a gateway ends in order");
        }
        self.sim.shutdown().await;
    }
}

/// A database of its own, cloned from one that is migrated.
async fn migrated() -> Database {
    let texts: Vec<&str> = ledger::MIGRATIONS.iter().map(|one| one.sql).collect();
    Database::migrated(texts, |url| async move {
        let ledger = ledger::Ledger::connect(ledger::Config::new(url))
            .await
            .expect("the template answers");
        ledger.migrate().await.expect("migrations apply");
        ledger.close().await;
    })
    .await
}
