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
use reqwest::{Method, StatusCode, header::HeaderMap};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use test_postgres::Database;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) struct World {
    pub(crate) corp: CorpId,
    pub(crate) database: Database,
    pub(crate) nodes: Vec<Node>,
    config: Config,
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
        std::fs::write(&file, text).unwrap();
        let mut config = Config::load(&[file], &env).unwrap();
        config.postgres.acquire_timeout_ms = 20_000;
        let stop = CancellationToken::new();
        let mut world = Self {
            corp,
            database,
            nodes: Vec::new(),
            config,
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

#[derive(Clone)]
pub(crate) struct Console {
    pub(crate) http: reqwest::Client,
    pub(crate) base: String,
    pub(crate) key: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|_| panic!("{}: {}", self.status, self.text))
    }

    /// The body of a request that must work.
    pub(crate) fn ok(&self) -> Value {
        assert!(self.status.is_success(), "{}: {}", self.status, self.text);
        if self.text.is_empty() {
            Value::Null
        } else {
            self.json()
        }
    }

    /// Status and stable code of a request that must not work.
    pub(crate) fn refused(&self) -> (u16, String) {
        assert!(!self.status.is_success(), "{}: {}", self.status, self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["status"], self.status.as_u16());
        assert!(problem["request_id"].is_string(), "{problem}");
        (
            self.status.as_u16(),
            problem["code"].as_str().unwrap().to_owned(),
        )
    }

    /// Pointers of the fields that are wrong.
    pub(crate) fn pointers(&self) -> Vec<String> {
        assert_eq!(self.status, 422, "{}", self.text);
        let errors = self.json()["errors"].as_array().cloned().unwrap();
        errors
            .iter()
            .map(|error| error["pointer"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn etag(&self) -> String {
        assert!(self.status.is_success(), "{}", self.text);
        self.header("etag").to_owned()
    }
}

impl Console {
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Answer {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        answer(request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], None).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PUT, path, &[], Some(body)).await
    }

    pub(crate) async fn put_if(&self, path: &str, condition: (&str, &str), body: Value) -> Answer {
        self.send(Method::PUT, path, &[condition], Some(body)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, &[], Some(body)).await
    }

    pub(crate) async fn post_once(&self, path: &str, key: &str, body: Value) -> Answer {
        self.send(Method::POST, path, &[("idempotency-key", key)], Some(body))
            .await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], None).await
    }

    /// Members are on for an hour.
    pub(crate) async fn on(&self, members: &[&str]) {
        let members: Vec<Value> = members
            .iter()
            .map(|member| json!({"member": member, "online": true, "lease_seconds": 3600}))
            .collect();
        self.put("/presence", json!({"members": members}))
            .await
            .ok();
    }

    /// Asks who gets a customer of a pool.
    pub(crate) async fn ask(&self, pool: &str, customer: &str) -> Value {
        let body = json!({"subject": {"kind": "wecom", "id": customer}, "pool": pool});
        self.post("/allocations", body).await.ok()
    }

    /// All rows of a list, page by page.
    pub(crate) async fn all(&self, path: &str) -> Vec<Value> {
        let (mut rows, mut cursor) = (Vec::new(), String::new());
        let sign = if path.contains('?') { '&' } else { '?' };
        loop {
            let page = self
                .get(&format!("{path}{sign}limit=250{cursor}"))
                .await
                .ok();
            rows.extend(page["data"].as_array().cloned().unwrap());
            match page["page"]["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return rows,
            }
        }
    }
}

pub(crate) async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    Answer {
        status,
        headers,
        text: response.text().await.unwrap(),
    }
}
