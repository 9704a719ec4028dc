//! One corp in a database of its own and a shared Redis, with as many allocators as a test wants: their APIs on real
//! sockets, and the loops the API needs beside it.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use allocation::{CorpId, MemberId};
use allocator::{
    api,
    app::{App, CorpApp},
    clock::{self, Clock},
    commands,
    config::Config,
    guard, people, writer,
};
use axum::Router;
use ledger::{ApiKey, Ledger, Role, Trail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use test_postgres::Database;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) use crate::console::{Answer, Console, answer};

pub(crate) struct World {
    pub(crate) corp: CorpId,
    pub(crate) database: Database,
    pub(crate) nodes: Vec<Node>,
    config: Config,
    /// What the configuration file says.
    text: String,
    env: HashMap<String, String>,
    stop: CancellationToken,
    writer: Option<JoinHandle<()>>,
}

/// One allocator.
pub(crate) struct Node {
    pub(crate) app: Arc<App>,
    pub(crate) addr: SocketAddr,
}

impl Node {
    pub(crate) fn corp(&self) -> &Arc<CorpApp> {
        self.app.corps.values().next().unwrap()
    }
}

#[derive(Default)]
pub(crate) struct Options {
    /// More of the configuration file, before the corp's table.
    pub(crate) config: String,
    /// More of the corp's table.
    pub(crate) corp: String,
    /// Where Redis is reached, if not directly.
    pub(crate) redis: Option<String>,
    /// The corp's id, and where its WeCom is; else a new one and nowhere.
    pub(crate) wecom: Option<(CorpId, String)>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(1, Options::default()).await
    }

    pub(crate) async fn with(n_nodes: usize, options: Options) -> Self {
        let texts: Vec<&str> = ledger::MIGRATIONS
            .iter()
            .map(|migration| migration.sql)
            .collect();
        let database = Database::migrated(texts, |url| async move {
            let ledger = Ledger::connect(ledger::Config::new(url)).await.unwrap();
            ledger.migrate().await.unwrap();
            ledger.close().await;
        })
        .await;
        let (corp, wecom) = options.wecom.unwrap_or_else(|| {
            let corp = CorpId::new(test_redis::corp()).unwrap();
            (corp, "http://127.0.0.1:9".to_owned())
        });
        let redis = options.redis.unwrap_or_else(|| test_redis::shared().url());
        let env = HashMap::from([
            ("PAIDAN_POSTGRES_URL".to_owned(), database.url()),
            ("SECRET".to_owned(), "caseSecret".to_owned()),
        ]);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("allocator.toml");
        let text = format!(
            "{}\n[redis]\nurl = \"{redis}\"\n[wecom]\nbase_url = \"{wecom}\"\negress = \"{corp}\"\n\
             [corps.{corp}]\nagent_id = 1000002\nsecret = \"env:SECRET\"\n{}\n",
            options.config, options.corp
        );
        std::fs::write(&file, &text).unwrap();
        let mut config = Config::load(&[file], &env).unwrap();
        config.postgres.acquire_timeout_ms = 20_000;
        let stop = CancellationToken::new();
        let mut world = Self {
            corp,
            database,
            nodes: Vec::new(),
            config,
            text,
            env,
            stop,
            writer: None,
        };
        for _ in 0..n_nodes {
            world.start().await;
        }
        let node = &world.nodes[0];
        guard::look(&node.app, node.corp()).await.unwrap();
        world.writer = Some(tokio::spawn(writer::run(
            Arc::clone(&node.app),
            Arc::clone(node.corp()),
            world.stop.clone(),
        )));
        world
    }

    /// Nobody writes the log any more.
    pub(crate) async fn end_writer(&mut self) {
        self.stop.cancel();
        if let Some(writer) = self.writer.take() {
            writer.await.unwrap();
        }
    }

    /// What one more process shares among its parts; nothing of it runs.
    pub(crate) async fn process(&self, clock: Clock) -> Arc<App> {
        App::connect(self.config.clone(), &self.env, clock)
            .await
            .unwrap()
    }

    /// The same, with more said in its configuration.
    pub(crate) async fn process_with(&self, more: &str) -> Arc<App> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("more.toml");
        std::fs::write(&file, format!("{more}\n{}", self.text)).unwrap();
        let config = Config::load(&[file], &self.env).unwrap();
        App::connect(config, &self.env, clock::system())
            .await
            .unwrap()
    }

    /// One more allocator.
    async fn start(&mut self) {
        let app = self.process(clock::system()).await;
        app.ledger
            .prepare(std::slice::from_ref(&self.corp))
            .await
            .unwrap();
        let addr = serve(api::router(Arc::clone(&app))).await;
        self.nodes.push(Node { app, addr });
    }

    pub(crate) fn node(&self) -> &Node {
        &self.nodes[0]
    }

    pub(crate) fn app(&self) -> &Arc<App> {
        &self.node().app
    }

    pub(crate) fn app_at(&self, node: usize) -> &Arc<App> {
        &self.nodes[node].app
    }

    pub(crate) fn corp_app(&self) -> &Arc<CorpApp> {
        self.node().corp()
    }

    pub(crate) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// A console with a new key of this role, at the first allocator.
    pub(crate) async fn console(&self, role: Role) -> Console {
        let key = commands::key::insert_key(self.app(), Some(self.corp.clone()), role)
            .await
            .unwrap();
        self.at(0, &key)
    }

    pub(crate) async fn operator(&self) -> Console {
        self.console(Role::Operator).await
    }

    pub(crate) async fn member_key(&self, userid: &str) -> Console {
        let secret = commands::key::new_secret();
        let now_ms = self.app().now_ms();
        let key = ApiKey {
            id: Uuid::now_v7(),
            corp: Some(self.corp.clone()),
            role: Role::Member,
            member: Some(MemberId::new(userid).unwrap()),
            name: "test".to_owned(),
            created_ms: now_ms,
            expires_ms: None,
            revoked_ms: None,
        };
        let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        self.app()
            .ledger
            .api_keys()
            .create(&key, &hash, &Trail::system(now_ms, "test"))
            .await
            .unwrap();
        self.at(0, &secret)
    }

    /// A console with this key at one of the allocators.
    pub(crate) fn at(&self, node: usize, key: &str) -> Console {
        Console {
            http: reqwest::Client::new(),
            base: format!(
                "http://{}/api/v1/corps/{}",
                self.nodes[node].addr, self.corp
            ),
            key: Some(key.to_owned()),
        }
    }

    /// Members that are on for an hour, in a pool, each with a weight.
    pub(crate) async fn pool(&self, console: &Console, pool: &str, members: &[(&str, f64)]) {
        for (member, _) in members {
            console
                .put(&format!("/members/{member}"), json!({}))
                .await
                .ok();
        }
        let places: Vec<Value> = members
            .iter()
            .map(|(member, weight)| json!({"member": member, "weight": weight}))
            .collect();
        console
            .put(
                &format!("/pools/{pool}"),
                json!({"name": pool, "members": places}),
            )
            .await
            .ok();
        let names: Vec<&str> = members.iter().map(|(member, _)| *member).collect();
        console.on(&names).await;
    }

    /// Waits until the ledger has all that the log has.
    pub(crate) async fn written(&self) {
        let (app, corp) = (self.app(), self.corp_app());
        loop {
            let logged = corp.roster.status().await.unwrap().seq;
            let row = app
                .ledger
                .corps()
                .get(&corp.id)
                .await
                .unwrap()
                .unwrap_or_default();
            if row.log_seq >= logged {
                return;
            }
            corp.log_grew.notify_one();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What Redis and the ledger say of every member's load, and of who has what, is the same.
    pub(crate) async fn check(&self) {
        self.written().await;
        let (app, corp) = (self.app(), self.corp_app());
        let open = app
            .ledger
            .allocations()
            .open_by_member(&corp.id)
            .await
            .unwrap();
        let ids: Vec<MemberId> = app
            .ledger
            .members()
            .all(&corp.id)
            .await
            .unwrap()
            .into_iter()
            .map(|m| m.member)
            .collect();
        for view in corp.roster.members(&ids).await.unwrap() {
            let rows = open
                .iter()
                .find(|(member, _)| *member == view.member)
                .map_or(0, |(_, n)| *n);
            assert_eq!(u64::from(view.load), rows, "load of {}", view.member);
        }
    }

    pub(crate) async fn sync(&self) -> usize {
        people::sync(self.app(), self.corp_app()).await.unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    addr
}
