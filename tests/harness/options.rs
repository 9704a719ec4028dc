//! What a world is made of, and the configurations that say so to its parts.

use std::{collections::HashMap, net::TcpListener};

use allocation::{CorpId, OfferRule, Strategy};
use allocator::config::Config;
use wecom_sim::{Sim, SimHandle};

/// Keys of the callback: any will do.
pub const TOKEN: &str = "e2eTok3n";
pub const AES_KEY: &str = "BbrSK29CZTux1KMoBFeJDPYhgFy5pbnAnknyD7PmcAk";
pub(crate) const COOKIE_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub(crate) const AGENT: u32 = 1_000_002;
pub(crate) const SECRET: &str = "e2e-app-secret";

/// In every piece of configuration `{corp}` becomes the id of the corp: more corps can be named after it.
#[derive(Debug, Clone)]
pub struct Options {
    pub gateways: usize,
    pub allocators: usize,
    /// Members of the pool `sales` and their weights; member `desk` has every customer first.
    pub members: Vec<(&'static str, u32)>,
    pub strategy: Strategy,
    /// TOML over the allocator's defaults and those of the harness.
    pub allocator: String,
    /// TOML over the simulator's defaults.
    pub sim: String,
    /// More of the gateways' configuration.
    pub gateway: String,
    /// Text of the welcome message of channel `poster`.
    pub welcome: Option<&'static str>,
    /// Whether members are told of their customers. To one member that is done so often a minute, and what is more waits
    /// for the next one: not for tests with hundreds of customers.
    pub cards: bool,
    /// Open allocations of the pool end by themselves after this long.
    pub load_window_seconds: Option<u64>,
    /// Members are asked first, in this way.
    pub offers: Option<OfferRule>,
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
            cards: true,
            load_window_seconds: None,
            offers: None,
            own_stores: false,
        }
    }
}

impl Options {
    /// With the corp's id where it belongs.
    pub(crate) fn of(self, corp: &CorpId) -> Self {
        let named = |text: String| text.replace("{corp}", corp.as_str());
        Self {
            allocator: named(self.allocator),
            sim: named(self.sim),
            gateway: named(self.gateway),
            ..self
        }
    }

    pub(crate) fn gateway_config(
        &self,
        corp: &CorpId,
        env: &HashMap<String, String>,
        redis_url: &str,
    ) -> gateway::Config {
        let text = format!(
            "[redis]\nurl = \"{redis_url}\"\n[log]\nlevel = \"warn\"\n[endpoints.sales]\ncorp_id = \"{corp}\"\nkind = \"app\"\n\
             keys = [{{ token = \"env:CALLBACK_TOKEN\", aes_key = \"env:CALLBACK_KEY\" }}]\n{}",
            self.gateway
        );
        let file = file(&text);
        let sources = gateway::Sources {
            files: vec![file.path().to_owned()],
            env: env.clone(),
        };
        gateway::Config::load(&sources).expect("the gateway's configuration")
    }

    pub(crate) fn allocator_config(
        &self,
        corp: &CorpId,
        sim: &SimHandle,
        env: &HashMap<String, String>,
        redis_url: &str,
    ) -> Config {
        let text = format!(
            "[redis]\nurl = \"{redis_url}\"\n[postgres]\nurl = \"env:PAIDAN_POSTGRES_URL\"\n[wecom]\nbase_url = \"{}\"\n\
             egress = \"{corp}\"\n[roster]\nsync_every_ms = 100\nwake_every_ms = 500\n[inbox]\nblock_ms = 200\n\
             [public]\nlisten = \"127.0.0.1:0\"\nbase_url = \"http://127.0.0.1\"\ncookie_key = \"env:COOKIE_KEY\"\n\
             [corps.{corp}]\nagent_id = {AGENT}\nsecret = \"env:APP_SECRET\"\ndefault_pool = \"sales\"\n",
            sim.base_url(),
        );
        let files = [file(&text), file(&self.allocator)];
        let paths = files.each_ref().map(|file| file.path().to_owned());
        Config::load(&paths, env).expect("the allocator's configuration")
    }

    pub(crate) async fn start_sim(&self, corp: &CorpId, callback_urls: &[String]) -> SimHandle {
        let members: Vec<String> = std::iter::once("desk")
            .chain(self.members.iter().map(|(name, _)| *name))
            .map(|name| format!("{{ userid = \"{name}\" }}"))
            .collect();
        let text = format!(
            "[clock]\nmode = \"real\"\n{}\n[[corps]]\nid = \"{corp}\"\nmembers = [{}]\n[[corps.apps]]\nagent_id = {AGENT}\nsecret = \"{SECRET}\"\n\
             [corps.apps.callback]\nurls = {callback_urls:?}\ntoken = \"{TOKEN}\"\naes_key = \"{AES_KEY}\"\n",
            self.sim,
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
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), text).expect("written");
    file
}

pub(crate) fn free() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}
