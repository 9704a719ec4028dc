//! The stage: private stores, the fake WeCom, gateways and allocators as processes that can be killed and started
//! again, and a bystander who reads the stores.

mod build;
mod config;
mod presence;
mod sabotage;
mod watch;

use std::path::Path;
use std::time::Duration;

use allocation::CorpId;
pub(crate) use build::Build;
use build::{Programs, build, command};
use rand::{RngExt, SeedableRng, rngs::StdRng};
pub(crate) use sabotage::change_one;
use serde_json::{Value, json};

use crate::process::{GRACE, Process, Spec, signal};
use crate::progress::say;
use crate::runs::RunFolder;
use crate::services::{Keep, Package, Postgres, Redis, Services, ensure};
use crate::{ending, ports};

pub(crate) const CORP: &str = "ww0000000000paidan";
const AGENT: u32 = 1_000_002;
const SECRET: &str = "prove-app-secret";
const TOKEN: &str = "proveTok3n";
const COOKIE_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const AES_KEY: &str = "BbrSK29CZTux1KMoBFeJDPYhgFy5pbnAnknyD7PmcAk";
const START: Duration = Duration::from_secs(60);

/// What a scenario wants.
#[derive(Debug, Clone)]
pub(crate) struct Wishes {
    /// Members and their weights; customers come to member `desk` first.
    pub(crate) members: Vec<(String, u32)>,
    /// Whom WeCom knows too, and no pool.
    pub(crate) others: Vec<String>,
    /// TOML over the simulator's defaults.
    pub(crate) sim: String,
    /// TOML over the allocator's defaults.
    pub(crate) allocator: String,
    pub(crate) gateways: usize,
    pub(crate) allocators: usize,
}

/// A process of ours, and how to start it again at the same address.
struct Node {
    name: String,
    spec: Spec,
    url: String,
    /// Where an allocator has its visitors' pages.
    pages: String,
    process: Option<Process>,
}

pub(crate) struct Stage {
    pub(crate) corp: CorpId,
    pub(crate) http: reqwest::Client,
    pub(crate) sim_url: String,
    pub(crate) members: Vec<(String, u32)>,
    pub(crate) ledger: ledger::Ledger,
    pub(crate) redis: redis::aio::ConnectionManager,
    key: String,
    gateways: usize,
    random: StdRng,
    // In the order of their end: whoever uses another goes before him.
    nodes: Vec<Node>,
    sim_process: Process,
    redis_server: Option<Redis>,
    postgres_server: Option<Postgres>,
    folder: RunFolder,
}

impl Stage {
    pub(crate) fn start(
        name: &str,
        wishes: Wishes,
        programs: Build,
        seed: u64,
    ) -> anyhow::Result<Self> {
        // What is missing is known before the minutes of the first build, not after.
        ensure(&[Package::Redis, Package::Postgres])?;
        let programs = build(programs)?;
        let run = RunFolder::new(name)?.staying();
        let folder = run.path().to_owned();
        let services = Services::start(&folder, Keep::Everything, None)?;
        let gateway_ports: Vec<u16> = (0..wishes.gateways)
            .map(|_| ports::free())
            .collect::<Result<_, _>>()?;
        let sim_port = ports::free()?;
        let sim_url = format!("http://127.0.0.1:{sim_port}");
        let postgres_url = services.postgres.url("postgres");
        let sim = config::start_sim(&programs, &folder, sim_port, &gateway_ports, &wishes, seed)?;
        let mut nodes = Vec::new();
        for (n, port) in gateway_ports.iter().enumerate() {
            nodes.push(config::gateway(
                &programs,
                &folder,
                n,
                *port,
                &services.redis,
            )?);
        }
        for n in 0..wishes.allocators {
            nodes.push(config::allocator(
                &programs,
                &folder,
                n,
                &services.redis,
                &postgres_url,
                &sim_url,
                &wishes,
            )?);
        }
        let file = folder.join("allocator-0.toml");
        command(&programs, &file, &postgres_url, &["migrate"])?;
        let key = command(
            &programs,
            &file,
            &postgres_url,
            &[
                "key", "create", "--corp", CORP, "--role", "admin", "--name", "prove",
            ],
        )?;
        for node in &mut nodes {
            node.start()?;
        }
        ending::check()?;
        let runtime = tokio::runtime::Handle::current();
        let (ledger, redis) = runtime.block_on(async {
            let ledger = ledger::Ledger::connect(ledger::Config::new(postgres_url)).await?;
            let client = redis::Client::open(services.redis.url())?;
            anyhow::Ok((ledger, redis::aio::ConnectionManager::new(client).await?))
        })?;
        Ok(Self {
            corp: CorpId::new(CORP)?,
            // Whoever hangs, the proof must not.
            http: reqwest::Client::builder()
                .timeout(Duration::from_secs(30))
                .build()?,
            sim_url,
            members: wishes.members,
            ledger,
            redis,
            redis_server: Some(services.redis),
            postgres_server: Some(services.postgres),
            folder: run,
            key: key.trim().to_owned(),
            nodes,
            gateways: wishes.gateways,
            random: StdRng::seed_from_u64(seed),
            sim_process: sim,
        })
    }

    /// Members, pool and channel over the REST API, as an operator would, then everybody online.
    pub(crate) async fn prepare(&self) -> anyhow::Result<()> {
        self.until("the console answers", START, || async {
            self.http
                .get(format!("{}/openapi.json", self.console()))
                .send()
                .await
                .is_ok()
                .then_some(())
        })
        .await?;
        for (member, _) in &self.members {
            self.put(&format!("members/{member}"), &json!({})).await?;
        }
        let members: Vec<Value> = self
            .members
            .iter()
            .map(|(member, weight)| json!({"member": member, "weight": weight}))
            .collect();
        self.put(
            "pools/sales",
            &json!({"name": "Sales", "strategy": "weighted_round_robin", "members": members}),
        )
        .await?;
        self.put(
            "channels/poster",
            &json!({"name": "Poster", "pool": "sales", "states": ["poster"], "card": false,
                "welcome": {"text": "欢迎 Welcome"}}),
        )
        .await?;
        self.until("everybody is online", START, || async {
            self.heartbeat().await.ok()
        })
        .await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        self.put_at(self.console(), path, body).await
    }

    async fn put_at(&self, console: &str, path: &str, body: &Value) -> anyhow::Result<()> {
        let url = format!("{console}/api/v1/corps/{CORP}/{path}");
        let answer = self
            .http
            .put(url)
            .bearer_auth(&self.key)
            .json(body)
            .send()
            .await?;
        let status = answer.status();
        anyhow::ensure!(
            status.is_success(),
            "PUT {path}: {status} {}",
            answer.text().await.unwrap_or_default()
        );
        Ok(())
    }

    /// What the REST API has there.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let url = format!("{}/api/v1/corps/{CORP}/{path}", self.console());
        let answer = self.http.get(url).bearer_auth(&self.key).send().await?;
        Ok(answer.error_for_status()?.json().await?)
    }

    /// A POST to the simulator's admin API.
    pub(crate) async fn sim(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let answer = self
            .http
            .post(format!("{}/sim/{path}", self.sim_url))
            .json(body)
            .send()
            .await?;
        let status = answer.status();
        let text = answer.text().await?;
        anyhow::ensure!(status.is_success(), "POST /sim/{path}: {status} {text}");
        Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    pub(crate) async fn sim_get(&self, path: &str) -> anyhow::Result<Value> {
        Ok(self
            .http
            .get(format!("{}/sim/{path}", self.sim_url))
            .send()
            .await?
            .error_for_status()?
            .json()
            .await?)
    }

    pub(crate) fn callback_urls(&self) -> Vec<&str> {
        self.nodes
            .iter()
            .take(self.gateways)
            .map(|node| node.url.as_str())
            .collect()
    }

    /// The allocators' REST APIs.
    pub(crate) fn consoles(&self) -> Vec<&str> {
        self.allocators().map(|node| node.url.as_str()).collect()
    }

    /// The first allocator's REST API.
    pub(crate) fn console(&self) -> &str {
        self.allocators().next().map_or("", |node| &node.url)
    }

    /// Runs the first allocator's program with its configuration.
    pub(crate) fn allocator_function(&self) -> String {
        let first = self.allocators().next();
        first.map_or_else(String::new, |node| node.spec.shell_function("allocator"))
    }

    /// The allocators' pages for visitors.
    pub(crate) fn page_urls(&self) -> Vec<&str> {
        self.allocators().map(|node| node.pages.as_str()).collect()
    }

    fn allocators(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().skip(self.gateways)
    }

    /// Where configuration, logs and data are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The admin key of the console.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Ends gateways and allocators in order, side by side; the stores and the fake WeCom can still be asked.
    pub(crate) fn end_programs(&mut self) {
        let mut running: Vec<(&str, &mut Process)> = Vec::new();
        for node in &mut self.nodes {
            let process = node.process.as_mut().filter(|process| process.is_running());
            running.extend(process.map(|process| (&*node.name, process)));
        }
        if running.is_empty() {
            return;
        }
        let names: Vec<&str> = running.iter().map(|(name, _)| *name).collect();
        say(
            "Ending",
            &format!("{} (at most {} s)", names.join(", "), GRACE.as_secs()),
        );
        for (_, process) in &mut running {
            process.ask_to_stop();
        }
        for node in &mut self.nodes {
            node.process = None;
        }
    }

    /// Kills one process, whichever it is, and starts it again. Answers its name.
    pub(crate) fn kill_one(&mut self) -> anyhow::Result<String> {
        self.kill_among(0)
    }

    /// Likewise, but only allocators.
    pub(crate) fn kill_allocator(&mut self) -> anyhow::Result<String> {
        self.kill_among(self.gateways)
    }

    fn kill_among(&mut self, first: usize) -> anyhow::Result<String> {
        let index = self.random.random_range(first..self.nodes.len());
        let node = &mut self.nodes[index];
        if let Some(process) = &node.process {
            signal(process.id(), "KILL");
        }
        node.process = None;
        node.start()?;
        Ok(node.name.clone())
    }

    /// Ends Redis in order and starts it again at the same address, from its append-only file.
    pub(crate) fn restart_redis(&mut self) -> anyhow::Result<()> {
        let port = self.redis_server.as_ref().map(Redis::port);
        self.redis_server = None;
        self.redis_server = Some(Redis::start(self.folder(), Keep::Everything, port)?);
        Ok(())
    }

    /// Postgres is away for a while.
    pub(crate) async fn stop_postgres_for(&mut self, pause: Duration) -> anyhow::Result<()> {
        let port = self.postgres_server.as_ref().map(Postgres::port);
        self.postgres_server = None;
        tokio::time::sleep(pause).await;
        self.postgres_server = Some(tokio::task::block_in_place(|| {
            Postgres::start(self.folder(), Keep::Everything, port)
        })?);
        Ok(())
    }

    /// Everything Redis has is gone.
    pub(crate) async fn wipe_redis(&self) -> anyhow::Result<()> {
        redis::cmd("FLUSHALL")
            .query_async::<()>(&mut self.redis.clone())
            .await?;
        Ok(())
    }

    /// Waits for a condition.
    pub(crate) async fn until<T, F, Fut>(
        &self,
        what: &str,
        limit: Duration,
        mut probe: F,
    ) -> anyhow::Result<T>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Option<T>>,
    {
        let start = tokio::time::Instant::now();
        loop {
            if let Some(value) = probe().await {
                return Ok(value);
            }
            anyhow::ensure!(
                start.elapsed() < limit,
                "waited {limit:?} in vain: {what}; logs are in {}",
                self.folder().display()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end_programs();
        say("Ending", "the fake WeCom, Redis and Postgres");
    }
}

impl Node {
    fn start(&mut self) -> anyhow::Result<()> {
        self.process = Some(Process::start(self.spec.clone())?);
        Ok(())
    }
}
