//! The gateway's configuration: `config/gateway.toml` (the commented defaults, embedded), then files, then the
//! environment (`PAIDAN__STORE__TIMEOUT_MS=3000`). Everything comes in through [`Sources`]; this module never looks at
//! the process environment, so tests need not change it.
//!
//! It knows no key and no token: an endpoint only says where its secrets are ([`SecretRef`]).

mod endpoint;
mod redact;
mod secret;
mod sources;

use std::{collections::BTreeMap, net::SocketAddr};

use serde::Deserialize;

pub use endpoint::{EndpointConfig, KeyPair, Kind};
pub use secret::SecretRef;
pub use sources::Sources;

/// What is wrong with a configuration: the key, and what it should be. Never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct Error {
    /// For example `endpoints.sales.keys[0].token`, or the path of a file.
    pub key: String,
    pub problem: String,
}

impl Error {
    pub(crate) fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            problem: problem.into(),
        }
    }

    /// The same, found inside of `parent`.
    pub(crate) fn under(self, parent: &str) -> Self {
        let key = match self.key.as_str() {
            "" => parent.to_owned(),
            key if key.starts_with('[') => format!("{parent}{key}"),
            key => format!("{parent}.{key}"),
        };
        Self { key, ..self }
    }
}

/// All of it, as read. Endpoints are kept unread: a malformed one must not take the others along.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub http: Http,
    pub store: Store,
    pub redis: inbox::connect::Config,
    pub inbox: inbox::Config,
    pub log: Log,
    #[serde(default)]
    endpoints: BTreeMap<String, config::Value>,
    #[serde(skip)]
    sources: Sources,
    #[serde(skip)]
    shown: String,
}

/// Sockets, sizes and times of HTTP.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    pub listen: SocketAddr,
    pub admin_listen: SocketAddr,
    pub workers: usize,
    pub max_connections: usize,
    pub backlog: i32,
    pub body_limit: usize,
    pub buffered_limit: usize,
    pub header_timeout_ms: u64,
    pub body_timeout_ms: u64,
    pub keep_alive_ms: u64,
    pub drain_ms: u64,
    pub shutdown_ms: u64,
}

/// How long and how much may wait for the append.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    pub timeout_ms: u64,
    pub max_in_flight: usize,
    pub max_batch: usize,
    pub max_batches: usize,
    pub retry_min_ms: u64,
    pub retry_max_ms: u64,
    pub probe_ms: u64,
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub level: String,
    pub format: LogFormat,
    pub refusals_burst: u32,
    pub refusals_per_second: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Json,
    Text,
}

impl Config {
    /// Reads defaults, files and environment. What is wrong inside of an endpoint is not found here but by
    /// [`Config::endpoint`].
    pub fn load(sources: &Sources) -> Result<Self, Error> {
        let merged = sources.merge()?;
        let mut config: Self = merged
            .clone()
            .try_deserialize()
            .map_err(sources::describe)?;
        let redis = &mut config.redis;
        redis.url =
            secret::resolve(&redis.url, sources).map_err(|text| Error::new("redis.url", text))?;
        if let Some(password) = &mut redis.sentinel_password {
            *password = secret::resolve(password, sources)
                .map_err(|text| Error::new("redis.sentinel_password", text))?;
        }
        config.check()?;
        config.shown = redact::shown(merged);
        config.sources = sources.clone();
        Ok(config)
    }

    /// Reads the sources this configuration came from once more.
    pub fn reload(&self) -> Result<Self, Error> {
        Self::load(&self.sources)
    }

    /// Names of the configured endpoints, well formed or not.
    pub fn endpoint_ids(&self) -> impl Iterator<Item = &str> {
        self.endpoints.keys().map(String::as_str)
    }

    /// One endpoint, or what is wrong with it.
    pub fn endpoint(&self, id: &str) -> Result<EndpointConfig, Error> {
        let parent = format!("endpoints.{id}");
        let value = self
            .endpoints
            .get(id)
            .ok_or_else(|| Error::new(parent.as_str(), "is not configured"))?;
        endpoint::parse(id, value.clone()).map_err(|error| error.under(&parent))
    }

    /// What secrets may be found in, for [`SecretRef::read`].
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Number of worker threads.
    pub fn workers(&self) -> usize {
        match self.http.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        }
    }

    /// Parts of `other` that differ here and are only read at the start.
    pub fn needs_restart(&self, other: &Self) -> Vec<&'static str> {
        let part = |config: &Self, name: &str| -> Vec<String> {
            config
                .shown
                .lines()
                .filter(|line| line.starts_with(name))
                .map(str::to_owned)
                .collect()
        };
        let parts = ["http.", "store.", "redis.", "inbox.", "log."];
        parts
            .into_iter()
            .filter(|name| part(self, name) != part(other, name))
            .collect()
    }

    fn check(&self) -> Result<(), Error> {
        let Http {
            body_limit,
            header_timeout_ms,
            body_timeout_ms,
            keep_alive_ms,
            max_connections,
            ..
        } = self.http;
        let Store {
            timeout_ms,
            max_in_flight,
            max_batch,
            max_batches,
            retry_min_ms,
            retry_max_ms,
            probe_ms,
        } = self.store;
        let at_least_one = [
            ("http.max_connections", max_connections as u64),
            ("http.header_timeout_ms", header_timeout_ms),
            ("http.body_timeout_ms", body_timeout_ms),
            ("http.keep_alive_ms", keep_alive_ms),
            ("http.buffered_limit", self.http.buffered_limit as u64),
            ("store.max_in_flight", max_in_flight as u64),
            ("store.max_batch", max_batch as u64),
            ("store.max_batches", max_batches as u64),
            ("store.retry_min_ms", retry_min_ms),
            ("store.probe_ms", probe_ms),
        ];
        for (key, value) in at_least_one {
            if value == 0 {
                return Err(Error::new(key, "must be at least 1"));
            }
        }
        if body_limit < 131_072 {
            return Err(Error::new(
                "http.body_limit",
                "must be at least 131072: WeCom's largest callbacks have about 90 KB",
            ));
        }
        if timeout_ms == 0 || timeout_ms > 4_500 {
            return Err(Error::new(
                "store.timeout_ms",
                "must be 1 to 4500: WeCom gives up after 5 s",
            ));
        }
        if retry_max_ms < retry_min_ms {
            return Err(Error::new(
                "store.retry_max_ms",
                "must not be below store.retry_min_ms",
            ));
        }
        self.redis
            .check()
            .map_err(|error| Error::new("redis", error.to_string()))?;
        if self.redis.response_timeout_ms >= timeout_ms {
            return Err(Error::new(
                "redis.response_timeout_ms",
                "must be below store.timeout_ms, or nothing is tried again",
            ));
        }
        if self.http.drain_ms + self.http.shutdown_ms > 30_000 {
            return Err(Error::new(
                "http.shutdown_ms",
                "drain_ms and shutdown_ms must not exceed 30000 together",
            ));
        }
        Ok(())
    }
}

/// The merged configuration with every secret replaced: what `--check-config` prints.
impl std::fmt::Display for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Config({})", self.shown)
    }
}
