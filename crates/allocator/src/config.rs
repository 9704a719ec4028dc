//! The allocator's configuration: `config/allocator.toml` (the commented defaults, embedded), then the files named on
//! the command line, then the environment (`PAIDAN__OUTBOX__WORKERS=8`). Unknown keys are refused, secrets are
//! `env:NAME` or `file:/path` and never printed.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// The defaults, with a comment for every key.
pub const DEFAULTS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../config/allocator.toml"
));

/// What is wrong with the configuration. The text names the key and the fix, never a secret's value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("configuration: {0}")]
    Invalid(String),
    #[error("configuration: {key}: {problem}")]
    Secret { key: String, problem: String },
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub http: Http,
    pub redis: inbox::connect::Config,
    pub postgres: Postgres,
    pub wecom: Wecom,
    pub quota: quota::Limits,
    pub inbox: Inbox,
    pub roster: Roster,
    pub outbox: Outbox,
    pub card: Card,
    pub handover: Handover,
    pub audit: Audit,
    pub retention: Retention,
    #[serde(default)]
    pub corps: BTreeMap<String, Corp>,
    #[serde(skip)]
    shown: String,
}

/// As it was read, without secrets: references stay, what is named like a secret and a password inside a URL do not.
impl std::fmt::Display for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// REST API.
    pub listen: SocketAddr,
    /// `/livez`, `/readyz`, `/metrics`.
    pub admin_listen: SocketAddr,
    /// Largest request body, bytes.
    pub body_limit: usize,
    /// Time for one request, milliseconds.
    pub timeout_ms: u64,
    /// Longest time for what is under way when the program is told to end, milliseconds.
    pub shutdown_ms: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Postgres {
    pub url: SecretRef,
    pub max_connections: u32,
    pub acquire_timeout_ms: u64,
    pub statement_timeout_ms: u64,
    /// Behind a pooler in transaction mode: no prepared statements are kept.
    pub pooler: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wecom {
    pub base_url: String,
    /// Name of the address we call from; instances behind one address share it.
    pub egress: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inbox {
    /// Deliveries taken in one read.
    pub batch: usize,
    /// How long a read waits for something new, milliseconds.
    pub block_ms: u64,
    /// The stream itself: lengths, pauses, tries.
    pub stream: inbox::Config,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roster {
    /// Log entries written in one transaction.
    pub writer_batch: usize,
    /// Log entries between two snapshots.
    pub snapshot_every: u64,
    /// The longest a waiting customer is overlooked when a wake-up was lost, milliseconds.
    pub wake_every_ms: u64,
    /// How often pools and members are compared with Redis, milliseconds.
    pub sync_every_ms: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outbox {
    /// Calls of one kind at once; no more welcome messages than that are claimed.
    pub workers: usize,
    /// Transfers, and cards, claimed at once: they are grouped into calls.
    pub batch: u32,
    /// A welcome message that was claimed and not begun is anybody's again after this, milliseconds.
    pub claim_ms: u64,
    /// Of a call that was begun, and of other rows from the claim on: they are looked up and locked before. Must be longer than the 5 s limit of one call.
    pub lease_ms: u64,
    pub max_attempts: i32,
    pub backoff_min_ms: u64,
    pub backoff_max_ms: u64,
    pub poll_ms: u64,
    /// Cards to one member in a minute before they are sent as one digest (WeCom drops above 30 silently).
    pub cards_per_minute: u32,
}

/// What the card to the chosen member says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    pub title: String,
    pub description: String,
    /// For several customers at once; `{count}` is their number.
    pub digest: String,
    /// Where the card leads; `{allocation}` is the id of the (first) allocation.
    pub url: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// Accepted starts of one customer in the window, by our own records.
    pub max_moves: u32,
    /// Length of that window in natural days.
    pub window_days: u32,
    /// First look at `transfer_result` after a start whose outcome is unknown, milliseconds.
    pub settle_after_ms: u64,
    /// An unknown start is resent only after this long without a trace of it, milliseconds.
    pub unknown_for_ms: u64,
    /// A transfer without an end after this long goes to a person, milliseconds.
    pub human_after_ms: u64,
    pub poll_ms: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// Every member's customers are compared once in this time, milliseconds; 0 switches the audit off.
    pub period_ms: u64,
    /// Re-reads of a doubtful pair after its event, milliseconds.
    pub reread_ms: Vec<u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Days after which raw deliveries and their outcomes are dropped, a whole day (UTC) at once; 0 keeps them for ever.
    pub deliveries_days: u32,
    /// Dead deliveries one corp's Redis holds; beyond it the oldest are in the ledger only.
    pub dead_letters: u64,
}

/// One corp and the app that acts for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corp {
    pub agent_id: i64,
    pub secret: SecretRef,
    /// For natural days and local midnight.
    #[serde(default = "shanghai")]
    pub utc_offset_minutes: i32,
    /// Pool of customers whose State names no channel.
    pub default_pool: Option<String>,
}

fn shanghai() -> i32 {
    8 * 60
}

/// Where a secret is: `env:NAME` or `file:/path`. A value in plain text is refused.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub enum SecretRef {
    Env(String),
    File(PathBuf),
}

impl TryFrom<String> for SecretRef {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("env:") {
            return Ok(Self::Env(name.to_owned()));
        }
        if let Some(path) = text.strip_prefix("file:") {
            return Ok(Self::File(path.into()));
        }
        Err("a secret is written as env:NAME or file:/path, never as its value".to_owned())
    }
}

impl SecretRef {
    /// Reads the secret. `env` is the environment as the program found it.
    pub fn read(&self, key: &str, env: &HashMap<String, String>) -> Result<SecretString, Error> {
        let value = match self {
            Self::Env(name) => env.get(name).cloned().ok_or_else(|| Error::Secret {
                key: key.to_owned(),
                problem: format!("the environment variable {name} is not set"),
            })?,
            Self::File(path) => std::fs::read_to_string(path).map_err(|error| Error::Secret {
                key: key.to_owned(),
                problem: format!("cannot read {}: {error}", path.display()),
            })?,
        };
        let value = value.trim().to_owned();
        if value.is_empty() {
            return Err(Error::Secret {
                key: key.to_owned(),
                problem: "the secret is empty".to_owned(),
            });
        }
        Ok(SecretString::from(value))
    }
}

/// A value that may be given as it is, because it need not hold a secret, or as a reference.
fn resolve(
    value: &SecretString,
    key: &str,
    env: &HashMap<String, String>,
) -> Result<SecretString, Error> {
    SecretRef::try_from(value.expose_secret().to_owned())
        .map_or_else(|_| Ok(value.clone()), |secret| secret.read(key, env))
}

impl Postgres {
    /// The ledger's own settings.
    pub fn ledger(&self, url: SecretString) -> ledger::Config {
        ledger::Config {
            url,
            max_connections: self.max_connections,
            acquire_timeout: Duration::from_millis(self.acquire_timeout_ms),
            statement_timeout: Duration::from_millis(self.statement_timeout_ms),
            pooler: self.pooler,
        }
    }
}

impl Config {
    /// Defaults, then `files` in order, then `PAIDAN__…` of `env`.
    pub fn load(files: &[PathBuf], env: &HashMap<String, String>) -> Result<Self, Error> {
        let mut builder = config::Config::builder()
            .add_source(config::File::from_str(DEFAULTS, config::FileFormat::Toml));
        for file in files {
            builder = builder
                .add_source(config::File::from(file.as_path()).format(config::FileFormat::Toml));
        }
        let vars = env.iter().filter(|(name, _)| name.starts_with("PAIDAN__"));
        let source = config::Environment::with_prefix("PAIDAN")
            .prefix_separator("__")
            .separator("__")
            .try_parsing(true)
            .source(Some(
                vars.map(|(name, value)| (name.clone(), value.clone()))
                    .collect(),
            ));
        let invalid = |error: config::ConfigError| Error::Invalid(error.to_string());
        let merged = builder.add_source(source).build().map_err(invalid)?;
        let mut config: Self = merged.clone().try_deserialize().map_err(invalid)?;
        let redis = &mut config.redis;
        redis.url = resolve(&redis.url, "redis.url", env)?;
        if let Some(password) = &mut redis.sentinel_password {
            *password = resolve(password, "redis.sentinel_password", env)?;
        }
        let mut table: toml::Table = merged.try_deserialize().map_err(invalid)?;
        table
            .iter_mut()
            .for_each(|(name, value)| without_secrets(name, value));
        config.shown =
            toml::to_string(&table).map_err(|error| Error::Invalid(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), Error> {
        let invalid = |text: &str| Err(Error::Invalid(text.to_owned()));
        if self.outbox.lease_ms <= 5_000 {
            return invalid("outbox.lease_ms must be above 5000: one call to WeCom may take 5 s");
        }
        if self.quota.lease_ms < 1_000 {
            return invalid(
                "quota.lease_ms must be at least 1000: renewals every quarter of it must reach Redis in time",
            );
        }
        if self.quota.longest_ms < self.quota.lease_ms {
            return invalid("quota.longest_ms must not be less than quota.lease_ms");
        }
        if self.outbox.claim_ms < 1_000 {
            return invalid(
                "outbox.claim_ms must be at least 1000: beginning a row takes its time",
            );
        }
        if self.http.shutdown_ms > 30_000 {
            return invalid(
                "http.shutdown_ms must be at most 30000: who stops programs kills them then",
            );
        }
        if self.outbox.workers == 0 || self.outbox.batch == 0 {
            return invalid("outbox.workers and outbox.batch must be at least 1");
        }
        if self.inbox.batch == 0 || self.roster.writer_batch == 0 {
            return invalid("inbox.batch and roster.writer_batch must be at least 1");
        }
        if self.retention.deliveries_days == 1 {
            return invalid(
                "retention.deliveries_days must be 0 or at least 2: duplicates are known for a day, and replays need what they repeat",
            );
        }
        if self.outbox.cards_per_minute > 30 {
            return invalid(
                "outbox.cards_per_minute must be at most 30: WeCom drops more without a word",
            );
        }
        Ok(())
    }
}

/// A key with one of these words in its name is a secret, unless it only says where the secret is.
const SECRET_WORDS: [&str; 3] = ["password", "secret", "token"];

/// What is named like a secret is left out, and `scheme://user:password@host` loses what stands before the host.
fn without_secrets(name: &str, value: &mut toml::Value) {
    match value {
        toml::Value::Table(table) => table
            .iter_mut()
            .for_each(|(name, value)| without_secrets(name, value)),
        toml::Value::Array(items) => items
            .iter_mut()
            .for_each(|value| without_secrets(name, value)),
        toml::Value::String(text) if text.starts_with("env:") || text.starts_with("file:") => {}
        // A password of digits alone is a number.
        _ if SECRET_WORDS.iter().any(|word| name.contains(word)) => {
            *value = toml::Value::String("[redacted]".to_owned());
        }
        toml::Value::String(text) => {
            if let (Some(scheme), Some(at)) = (text.find("://"), text.rfind('@'))
                && scheme < at
            {
                *text = format!("{}://[redacted]{}", &text[..scheme], &text[at..]);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<Config, Error> {
        Config::load(&[], &HashMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn no_password_is_shown() {
        for (name, value) in [
            ("PAIDAN__REDIS__URL", "redis://:hush@127.0.0.1:6379"),
            ("PAIDAN__REDIS__SENTINEL_PASSWORD", "hush"),
            ("PAIDAN__REDIS__SENTINEL_PASSWORD", "987654321"),
        ] {
            let shown = with(name, value).unwrap().to_string();
            assert!(
                shown.contains("[redacted]")
                    && !shown.contains("hush")
                    && !shown.contains("987654321"),
                "{shown}"
            );
        }
    }

    #[test]
    fn redis_secrets_may_be_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "hush\n").unwrap();
        let reference = format!("file:{}", file.display());
        let mut env = HashMap::from(
            [
                ("PAIDAN__REDIS__URL", "env:THERE"),
                ("PAIDAN__REDIS__SENTINEL_PASSWORD", &reference),
                ("THERE", "redis://:hush@10.0.0.1:6379"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let config = Config::load(&[], &env).unwrap();
        let redis = &config.redis;
        assert_eq!(redis.url.expose_secret(), "redis://:hush@10.0.0.1:6379");
        let password = redis.sentinel_password.as_ref().unwrap();
        assert_eq!(password.expose_secret(), "hush");
        let shown = config.to_string();
        assert!(
            shown.contains("env:THERE") && shown.contains(&reference) && !shown.contains("hush"),
            "{shown}"
        );
        env.remove("THERE");
        let error = Config::load(&[], &env).unwrap_err().to_string();
        assert!(
            error.contains("redis.url") && error.contains("THERE"),
            "{error}"
        );
    }

    #[test]
    fn a_lease_that_renewals_could_not_keep_is_refused() {
        let refused = |name: &str, value: &str| match with(name, value) {
            Err(Error::Invalid(text)) => text.starts_with("quota."),
            _ => false,
        };
        assert!(refused("PAIDAN__QUOTA__LEASE_MS", "999"));
        assert!(refused("PAIDAN__QUOTA__LONGEST_MS", "3999"));
        assert!(with("PAIDAN__QUOTA__LEASE_MS", "1000").is_ok());
        assert!(with("PAIDAN__QUOTA__LONGEST_MS", "4000").is_ok());
    }
}
