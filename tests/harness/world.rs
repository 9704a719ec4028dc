//! Starting and stopping the parts, and asking them.

use std::{collections::HashMap, net::TcpListener, sync::Arc};

use allocation::{
    ChannelId, CorpId, MemberId, PoolId, PresenceChange, Strategy, SubjectKey, Weight,
};
use allocator::{app::App, clock, config::Config};
use ledger::{Allocation, NewChannel, NewMember, NewPool, Precondition, Trail};
use test_postgres::Database;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wecom_sim::{ScanRequest, Sim, SimHandle};

use crate::eventually;

/// Keys of the callback: any will do.
pub const TOKEN: &str = "e2eTok3n";
pub const AES_KEY: &str = "BbrSK29CZTux1KMoBFeJDPYhgFy5pbnAnknyD7PmcAk";
const AGENT: u32 = 1_000_002;
const SECRET: &str = "e2e-app-secret";

/// What a world is made of.
#[derive(Debug, Clone)]
pub struct Options {
    pub gateways: usize,
    pub allocators: usize,
    /// Members of the pool `sales` and their weights; member `desk` has every customer first.
    pub members: Vec<(&'static str, u32)>,
    pub strategy: Strategy,
    /// TOML over the allocator's defaults.
    pub allocator: String,
    /// TOML over the simulator's defaults.
    pub sim: String,
    /// More of the gateways' configuration; `{corp}` becomes the id of the corp.
    pub gateway: String,
    /// Text of the welcome message of channel `poster`.
    pub welcome: Option<&'static str>,
    /// Open allocations of the pool end by themselves after this long.
    pub load_window_seconds: Option<u64>,
    /// A Redis (AOF `always`) and a Postgres of its own, which may be stopped and wiped.
    pub own_stores: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            gateways: 1,
            allocators: 1,
            members: vec![("ma", 1), ("mb", 1), ("mc", 1)],
            strategy: Strategy::WeightedRoundRobin,
            allocator: String::new(),
            sim: String::new(),
            gateway: String::new(),
            welcome: None,
            load_window_seconds: None,
            own_stores: false,
        }
    }
}

struct Running {
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
    options: Options,
    config: Config,
    env: HashMap<String, String>,
    gateways: Vec<Running>,
    allocators: Vec<Running>,
    pub redis: Option<test_redis::Server>,
    pub postgres: Option<test_postgres::Server>,
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
                format!(
                    "http://{}/callback/sales",
                    listener.local_addr().expect("bound")
                )
            })
            .collect();
        let sim = start_sim(&corp, &callback_urls, &options).await;
        let env = HashMap::from([
            ("PAIDAN_POSTGRES_URL".to_owned(), postgres_url),
            ("APP_SECRET".to_owned(), SECRET.to_owned()),
            ("CALLBACK_TOKEN".to_owned(), TOKEN.to_owned()),
            ("CALLBACK_KEY".to_owned(), AES_KEY.to_owned()),
        ]);
        let config = allocator_config(&corp, &sim, &options, &env, &redis_url);
        let app = App::connect(config.clone(), &env, clock::system())
            .await
            .expect("the stores answer");
        app.ledger
            .prepare(std::slice::from_ref(&corp))
            .await
            .expect("the database is ready");
        let mut world = Self {
            corp,
            sim,
            app,
            callback_urls,
            options,
            config,
            env,
            gateways: Vec::new(),
            allocators: Vec::new(),
            redis,
            postgres,
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
        let text = format!(
            "[redis]\nurl = \"{}\"\n[log]\nlevel = \"warn\"\n[endpoints.sales]\ncorp_id = \"{}\"\nkind = \"app\"\n\
             keys = [{{ token = \"env:CALLBACK_TOKEN\", aes_key = \"env:CALLBACK_KEY\" }}]\n{}",
            redis_url,
            self.corp,
            self.options.gateway.replace("{corp}", self.corp.as_str())
        );
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), text).expect("written");
        let sources = gateway::Sources {
            files: vec![file.path().to_owned()],
            env: self.env.clone(),
        };
        let config = gateway::Config::load(&sources).expect("the gateway's configuration");
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
            drop(file);
        });
        self.gateways.push(Running { stop, task });
    }

    /// One more allocator process.
    pub async fn start_allocator(&mut self) {
        let app = App::connect(self.config.clone(), &self.env, clock::system())
            .await
            .expect("the stores answer");
        allocator::people::refresh(&app, &app.corps[&self.corp])
            .await
            .expect("the configuration is read");
        let stop = CancellationToken::new();
        let loops = allocator::pipeline::start(&app, &stop);
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            stopped.cancelled().await;
            allocator::pipeline::drained(loops).await;
            app.ledger.close().await;
        });
        self.allocators.push(Running { stop, task });
    }

    /// Kills an allocator: its tasks end wherever they are.
    pub fn kill_allocator(&mut self, index: usize) {
        let running = self.allocators.remove(index);
        running.task.abort();
        running.stop.cancel();
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
            members: self
                .options
                .members
                .iter()
                .map(|(name, weight)| {
                    let weight = Weight::from_thousandths(weight * 1000).expect("a weight");
                    (MemberId::new(*name).expect("a member"), weight)
                })
                .collect(),
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
            card: true,
        };
        let id = ChannelId::new("poster").expect("a channel");
        ledger
            .channels()
            .put(&self.corp, &id, &channel, Precondition::None, &trail)
            .await
            .expect("a channel");
    }

    /// The corp, as the bystander sees it.
    pub fn corp_app(&self) -> &Arc<allocator::app::CorpApp> {
        &self.app.corps[&self.corp]
    }

    /// Waits until decisions are possible.
    pub async fn wait_open(&self) {
        let corp = self.corp_app();
        let pool = PoolId::new("sales").expect("a pool");
        eventually("the corp is open and knows the pool", || async {
            corp.roster.wake(pool.clone(), 1, "", None).await.ok()?;
            let dump = corp.roster.dump().await.ok()?;
            dump.keys
                .keys()
                .any(|key| key.contains("pool:sales"))
                .then_some(())
        })
        .await;
    }

    /// A heartbeat of everybody.
    pub async fn all_online(&self) {
        let until = self.app.now_ms() + 3_600_000;
        let changes = self
            .options
            .members
            .iter()
            .map(|(name, _)| PresenceChange {
                member: MemberId::new(*name).expect("a member"),
                lease_until_ms: until,
            })
            .collect();
        self.corp_app()
            .roster
            .presence(changes, "", None)
            .await
            .expect("a heartbeat");
    }

    /// A customer scans the code of member `desk` with the State of the channel.
    pub fn scan(&self, customer: &str) {
        self.scan_state(customer, "poster");
    }

    pub fn scan_state(&self, customer: &str, state: &str) {
        self.sim
            .scan(&ScanRequest::member("desk", state).customer(customer))
            .expect("a scan");
    }

    pub fn subject(&self, customer: &str) -> SubjectKey {
        SubjectKey::new(&self.corp, "wecom", customer)
    }

    /// The open or waiting allocation of a customer, as soon as the ledger has it.
    pub async fn allocated(&self, customer: &str) -> Allocation {
        let subject = self.subject(customer);
        eventually(&format!("{customer} is in the ledger"), || async {
            self.app
                .ledger
                .allocations()
                .open_of(&self.corp, &subject)
                .await
                .ok()?
                .pop()
        })
        .await
    }

    /// Waits until every delivery is through, the ledger has all of the log, and no effect is under way.
    pub async fn quiet(&self) {
        let corp = self.corp_app();
        let seen = std::cell::RefCell::new(String::new());
        let look = || async {
            let stats = corp.inbox.stats(None).await.ok()?;
            let row = self.app.ledger.corps().get(&self.corp).await.ok()??;
            let seq = corp.roster.status().await.ok()?.seq;
            let unfinished = self
                .app
                .ledger
                .outbox()
                .unfinished(Some(&self.corp))
                .await
                .ok()?;
            let waiting: u64 = unfinished.iter().map(|one| one.count).sum();
            *seen.borrow_mut() =
                format!("{stats:?}, log {seq}, ledger {row:?}, effects {unfinished:?}");
            (stats.length == 0 && row.log_seq == seq && waiting == 0).then_some(())
        };
        let limit = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
        while look().await.is_none() {
            assert!(
                tokio::time::Instant::now() < limit,
                "it never gets quiet: {}",
                seen.borrow()
            );
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Every customer has exactly one open allocation; answers how many each member has.
    pub async fn each_has_one(
        &self,
        customers: &[String],
    ) -> std::collections::BTreeMap<String, u64> {
        for customer in customers {
            self.allocated(customer).await;
            let rows = self
                .app
                .ledger
                .allocations()
                .of_subject(&self.corp, &self.subject(customer))
                .await
                .expect("the ledger answers");
            let open = rows.iter().filter(|row| row.closed_ms.is_none()).count();
            assert_eq!(
                (rows.len(), open),
                (1, 1),
                "allocations of {customer}: {rows:?}"
            );
        }
        let counts = self
            .app
            .ledger
            .allocations()
            .open_by_member(&self.corp)
            .await
            .expect("the ledger answers");
        counts
            .into_iter()
            .map(|(member, count)| (member.to_string(), count))
            .collect()
    }

    /// Folding the ledger's log gives what Redis has, at a moment when the log stands still: a late duplicate may add
    /// an entry at any time.
    async fn fold_is_state(&self) {
        let corp = self.corp_app();
        let (dump, seq) = eventually("the log stands still", || async {
            let before = corp.roster.status().await.ok()?.seq;
            let dump = corp.roster.dump().await.ok()?;
            let after = corp.roster.status().await.ok()?.seq;
            let written = self.app.ledger.corps().get(&self.corp).await.ok()??.log_seq;
            (before == after && after == written).then_some((dump, after))
        })
        .await;
        let mut state = allocation::model::Corp::new();
        let mut after = 0;
        while after < seq {
            let rows = self
                .app
                .ledger
                .corps()
                .read_log(&self.corp, after, 5_000)
                .await
                .expect("the log");
            for row in rows.iter().filter(|row| row.seq <= seq) {
                state
                    .fold(&row.parse().expect("an entry"))
                    .expect("an entry folds to what it says");
            }
            after = rows.last().map_or(seq, |row| row.seq);
        }
        assert!(
            state.dump() == dump,
            "fold(log) is not what Redis has at entry {seq}"
        );
    }

    /// Stops everything in order and asserts the promises that always hold.
    pub async fn close(self) {
        self.quiet().await;
        self.fold_is_state().await;
        let report = self.sim.check();
        assert!(report.holds, "the simulator saw a broken rule: {report:?}");
        for running in self.allocators.into_iter().chain(self.gateways) {
            running.stop.cancel();
            running.task.await.expect("a process ends in order");
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

fn free() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}

async fn start_sim(corp: &CorpId, callback_urls: &[String], options: &Options) -> SimHandle {
    let members: Vec<String> = std::iter::once("desk")
        .chain(options.members.iter().map(|(name, _)| *name))
        .map(|name| format!("{{ userid = \"{name}\" }}"))
        .collect();
    let text = format!(
        "[clock]\nmode = \"real\"\n{}\n[[corps]]\nid = \"{corp}\"\nmembers = [{}]\n[[corps.apps]]\nagent_id = {AGENT}\nsecret = \"{SECRET}\"\n\
         [corps.apps.callback]\nurls = {callback_urls:?}\ntoken = \"{TOKEN}\"\naes_key = \"{AES_KEY}\"\n",
        options.sim,
        members.join(", "),
    );
    let config = wecom_sim::Config::parse(&text).expect("the simulator's configuration");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    Sim::start(config, listener)
        .await
        .expect("the simulator starts")
}

fn allocator_config(
    corp: &CorpId,
    sim: &SimHandle,
    options: &Options,
    env: &HashMap<String, String>,
    redis_url: &str,
) -> Config {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let text = format!(
        "{}\n[redis]\nurl = \"{}\"\n[postgres]\nurl = \"env:PAIDAN_POSTGRES_URL\"\n[wecom]\nbase_url = \"{}\"\n\
         egress = \"{corp}\"\n[roster]\nsync_every_ms = 100\nwake_every_ms = 500\n[inbox]\nblock_ms = 200\n\
         [corps.{corp}]\nagent_id = {AGENT}\nsecret = \"env:APP_SECRET\"\ndefault_pool = \"sales\"\n",
        options.allocator,
        redis_url,
        sim.base_url(),
    );
    std::fs::write(file.path(), text).expect("written");
    Config::load(&[file.path().to_owned()], env).expect("the allocator's configuration")
}
