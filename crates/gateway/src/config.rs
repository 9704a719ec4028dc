//! The gateway's configuration: `config/gateway.toml` (the commented defaults, embedded), then files, then the
//! environment (`PAIDAN__STORE__TIMEOUT_MS=3000`). Everything comes in through [`Sources`]; this module never looks at
//! the process environment, so tests need not change it. Every value is held against the rule of its key (`keys`), then
//! against its neighbours.
//!
//! It knows no key and no token: an endpoint only says where its secrets are ([`SecretRef`]).

mod endpoint;
mod keys;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, net::SocketAddr};

use serde::Deserialize;

pub use endpoint::{EndpointConfig, KeyPair, Kind};
pub use settings::{Error, Errors, SecretRef, Sources};

/// The defaults, with a comment for every key.
pub const DEFAULTS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../config/gateway.toml"
));

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
    endpoints: BTreeMap<String, settings::Value>,
    /// What is wrong with their values.
    #[serde(skip)]
    endpoint_errors: Vec<Error>,
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
    pub fn load(sources: &Sources) -> Result<Self, Errors> {
        let merged = sources.merge(DEFAULTS)?;
        let (endpoint_errors, errors) = settings::check(&merged, keys::KEYS)
            .into_iter()
            .partition(|error| error.key.starts_with("endpoints."));
        Errors::none_of(errors)?;
        let mut config = Self::read(merged, sources)?;
        Errors::none_of(config.conflicts())?;
        config.endpoint_errors = endpoint_errors;
        config.sources = sources.clone();
        Ok(config)
    }

    fn read(merged: settings::Merged, sources: &Sources) -> Result<Self, Error> {
        let shown = settings::shown(&merged);
        let mut config: Self = merged.try_deserialize().map_err(settings::describe)?;
        let redis = &mut config.redis;
        redis.url = settings::resolve(&redis.url, "redis.url", &sources.env)?;
        if let Some(password) = &mut redis.sentinel_password {
            *password = settings::resolve(password, "redis.sentinel_password", &sources.env)?;
        }
        config.shown = shown;
        Ok(config)
    }

    /// Reads the sources this configuration came from once more.
    pub fn reload(&self) -> Result<Self, Errors> {
        Self::load(&self.sources)
    }

    /// Names of the configured endpoints, well formed or not.
    pub fn endpoint_ids(&self) -> impl Iterator<Item = &str> {
        self.endpoints.keys().map(String::as_str)
    }

    /// One endpoint, or what is wrong with it.
    pub fn endpoint(&self, id: &str) -> Result<EndpointConfig, Errors> {
        let parent = settings::join("endpoints", id);
        let value = self
            .endpoints
            .get(id)
            .ok_or_else(|| Error::new(parent.as_str(), "is not configured"))?;
        let below = |key: &str| {
            key.strip_prefix(parent.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let errors = self.endpoint_errors.iter();
        Errors::none_of(errors.filter(|error| below(&error.key)).cloned().collect())?;
        Ok(endpoint::parse(value.clone()).map_err(|error| error.under(&parent))?)
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

    /// Values that are right alone and wrong beside each other.
    fn conflicts(&self) -> Vec<Error> {
        let Self {
            http,
            store,
            redis,
            inbox,
            ..
        } = self;
        let mut errors = Vec::new();
        let mut wrong = |is: bool, key: &str, problem: String| {
            if is {
                errors.push(Error::new(key, problem));
            }
        };
        wrong(
            http.listen == http.admin_listen && http.listen.port() != 0,
            "http.admin_listen",
            format!("must be another address than http.listen, {}", http.listen),
        );
        wrong(
            http.drain_ms + http.shutdown_ms > 30_000,
            "http.shutdown_ms",
            format!(
                "must be at most 30000 together with http.drain_ms ({}), and is {}: who stops programs kills them after 30 s",
                http.drain_ms, http.shutdown_ms
            ),
        );
        wrong(
            store.retry_max_ms < store.retry_min_ms,
            "store.retry_max_ms",
            format!(
                "must not be below store.retry_min_ms ({}), and is {}",
                store.retry_min_ms, store.retry_max_ms
            ),
        );
        wrong(
            redis.response_timeout_ms >= store.timeout_ms,
            "redis.response_timeout_ms",
            format!(
                "must be below store.timeout_ms ({}), and is {}: or nothing is tried again",
                store.timeout_ms, redis.response_timeout_ms
            ),
        );
        wrong(
            inbox.wait_replicas > 0 && inbox.wait_timeout_ms >= redis.response_timeout_ms,
            "inbox.wait_timeout_ms",
            format!(
                "must be below redis.response_timeout_ms ({}), and is {}: the call that waits for replicas would be given up first",
                redis.response_timeout_ms, inbox.wait_timeout_ms
            ),
        );
        if let Err(inbox::Error::Config(problem)) = redis.check() {
            wrong(
                true,
                "redis.url",
                problem.trim_start_matches("url: ").to_owned(),
            );
        } else {
            wrong(
                settings::has_query(&redis.url),
                "redis.url",
                settings::NO_QUERY.to_owned(),
            );
        }
        errors
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
