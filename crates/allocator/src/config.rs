//! The allocator's configuration: `config/allocator.toml` (the commented defaults, embedded), then the files named on
//! the command line, then the environment (`PAIDAN__OUTBOX__WORKERS=8`). Every value is held against the rule of its key
//! (`keys`), then against its neighbours ([`Config::load`]). Secrets are `env:NAME` or `file:/path` and never printed.

mod events;
mod keys;
mod public;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use allocation::CorpId;
pub use events::{Events, Hook};
pub use public::{Network, Public};
use secrecy::SecretString;
use serde::Deserialize;
pub use settings::{Error, Errors, SecretRef};
use settings::{Merged, Sources};

/// The defaults, with a comment for every key.
pub const DEFAULTS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../config/allocator.toml"
));

const POSTGRES_URL: &str = "postgres.url";

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub http: Http,
    pub public: Public,
    pub redis: inbox::connect::Config,
    pub postgres: Postgres,
    pub wecom: Wecom,
    pub quota: quota::Limits,
    pub inbox: Inbox,
    pub roster: Roster,
    pub hours: Hours,
    pub outbox: Outbox,
    pub card: Card,
    pub events: Events,
    pub handover: Handover,
    pub audit: Audit,
    pub visits: Visits,
    pub fission: Fission,
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

/// The database and whose data it holds.
#[derive(Debug, Clone)]
pub struct Database {
    pub postgres: Postgres,
    pub corps: Vec<CorpId>,
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

/// Presence of members with hours.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hours {
    /// How often it is looked whose lease is to be renewed, milliseconds.
    pub renew_every_ms: u64,
    /// The lease of a member who is on by his hours: so long he stays on when every allocator died.
    pub lease_ms: u64,
    /// Where members without a schedule are: their days begin at midnight there.
    pub default_zone: String,
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
    /// Of the card that asks a member.
    pub offer_title: String,
    /// `{seconds}` is how long he has.
    pub offer_description: String,
    /// About several customers at once; `{count}` is their number, `{seconds}` the shortest time.
    pub offer_digest: String,
    /// Where the cards lead; `{allocation}` is the id of the (first) allocation.
    pub url: String,
    /// Of the card that asks a keeper for groups.
    pub supply_title: String,
    /// `{count}` groups for the pool named `{pool}` by `{time}`.
    pub supply_description: String,
    /// The same, once more: so many are lacking.
    pub supply_reminder: String,
    /// Where it leads; `{task}` is the id of the supply task.
    pub supply_url: String,
    /// Asks a member to tell a customer of a goal; `{name}` is the customer, `{goal}` the goal. The goal's message follows it.
    pub goal: String,
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
    #[serde(deserialize_with = "settings::list")]
    pub reread_ms: Vec<u64>,
}

/// Contact ways of channels with a public page.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visits {
    /// Ways of one corp, resting ones too.
    pub max_ways: u64,
    /// Calls that make ways at once in this process.
    pub workers: usize,
    pub poll_ms: u64,
    /// Between a way's last use and its deletion at WeCom, milliseconds.
    pub slot_rest_ms: u64,
    /// A call without any answer is looked for after this, milliseconds.
    pub ask_lease_ms: u64,
    /// A call whose answer got lost is looked for after this, milliseconds.
    pub look_after_ms: u64,
    /// A call of which WeCom shows no trace so long after it had no effect, milliseconds.
    pub unknown_for_ms: u64,
    pub max_attempts: i32,
    pub backoff_min_ms: u64,
    pub backoff_max_ms: u64,
    /// What was given up is tried again after this, milliseconds.
    pub failed_ms: u64,
    /// Pause of a corp that has as many ways as WeCom allows, milliseconds.
    pub full_pause_ms: u64,
    /// Pictures of one corp in memory, megabytes.
    pub pictures_mb: u64,
    /// Customers whose visit was guessed, or is not known, are looked up by their unionid.
    pub look_up_unionid: bool,
}

/// Customer groups and seats in them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fission {
    /// A group is read so long after an event of it, milliseconds.
    pub read_after_ms: u64,
    /// So long a read may be older than the events before it, milliseconds.
    pub read_lag_ms: u64,
    /// Groups read at once in this process.
    pub reads: usize,
    pub poll_ms: u64,
    /// Every group of a pool is read once in this time, milliseconds; 0: only when there is a reason.
    pub period_ms: u64,
    /// A group that WeCom does not let be read is tried again after this, milliseconds.
    pub failed_ms: u64,
    /// A seat whose group cannot be read is given back so long after its end, milliseconds.
    pub unread_release_ms: u64,
    /// So long it is remembered whose a seat was that was given back: he may still come, milliseconds.
    pub memory_ms: u64,
    /// A visitor who finds no free seat is answered so long after he asked, unless one comes for him before, milliseconds; 0: at
    /// once. At most half of `http.timeout_ms`.
    pub wait_ms: u64,
    /// Join ways that one inviter has of his own in a campaign with `ways: inviter`, each into another group.
    pub ways_of_inviter: u64,
    /// Of all inviters of a corp together; beyond it the campaign's ways are shown.
    pub inviter_ways: u64,
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

impl Corp {
    /// The app's secret.
    pub fn read_secret(
        &self,
        corp: &str,
        env: &HashMap<String, String>,
    ) -> Result<SecretString, Error> {
        self.secret.read(&format!("corps.{corp}.secret"), env)
    }
}

impl Postgres {
    /// Where the database is; the address is a secret, because it may hold a password.
    pub fn read_url(&self, env: &HashMap<String, String>) -> Result<SecretString, Error> {
        let url = self.url.read(POSTGRES_URL, env)?;
        ledger::Config::check_url(&url).map_err(|problem| Error::new(POSTGRES_URL, problem))?;
        Ok(url)
    }

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
    /// Defaults, then `files` in order, then `PAIDAN__…` of `env`. Everything that is wrong is named at once.
    pub fn load(files: &[PathBuf], env: &HashMap<String, String>) -> Result<Self, Errors> {
        let sources = Sources {
            files: files.to_vec(),
            env: env.clone(),
        };
        let merged = sources.merge(DEFAULTS)?;
        Errors::check(&merged, keys::KEYS)?;
        let config = Self::read(merged, env)?;
        Errors::none_of(config.conflicts())?;
        Ok(config)
    }

    /// What commands need that use the database and nothing else: secrets of other parts need not be there.
    pub fn load_database(
        files: &[PathBuf],
        env: &HashMap<String, String>,
    ) -> Result<Database, Errors> {
        let sources = Sources {
            files: files.to_vec(),
            env: env.clone(),
        };
        let merged = sources.merge(DEFAULTS)?;
        let wrong = settings::check(&merged, keys::KEYS).into_iter();
        let ours = wrong.filter(|error| error.key.split('.').next() == Some("postgres"));
        Errors::none_of(ours.collect())?;
        let postgres = merged.get("postgres").map_err(settings::describe)?;
        let corps = merged.get_table("corps").unwrap_or_default();
        let corps = corps.into_keys().filter_map(|id| CorpId::new(id).ok());
        Ok(Database {
            postgres,
            corps: corps.collect(),
        })
    }

    fn read(merged: Merged, env: &HashMap<String, String>) -> Result<Self, Error> {
        let shown = settings::shown(&merged);
        let mut config: Self = merged.try_deserialize().map_err(settings::describe)?;
        let redis = &mut config.redis;
        redis.url = settings::resolve(&redis.url, "redis.url", env)?;
        if let Some(password) = &mut redis.sentinel_password {
            *password = settings::resolve(password, "redis.sentinel_password", env)?;
        }
        config.shown = shown;
        Ok(config)
    }

    /// The secrets that cannot be read, and addresses in them that cannot be used. Not looked up by [`Config::load`]: most
    /// commands need some of them only.
    pub fn check_secrets(&self, env: &HashMap<String, String>) -> Vec<Error> {
        let postgres = self.postgres.read_url(env).err();
        let public = self.public.read_keys(env).err();
        let events = self.events.read(env).err();
        let corps = self
            .corps
            .iter()
            .filter_map(|(id, corp)| corp.read_secret(id, env).err());
        postgres
            .into_iter()
            .chain(public)
            .chain(events)
            .chain(corps)
            .collect()
    }

    /// Corps whose ids differ in case only: WeCom has one of them at most, and its customers would be split.
    fn twins(&self) -> Vec<Error> {
        let mut seen: BTreeMap<String, &str> = BTreeMap::new();
        let mut errors = Vec::new();
        for id in self.corps.keys() {
            if let Some(other) = seen.insert(id.to_lowercase(), id) {
                let problem = format!(
                    "must differ from corps.{other} by more than capital and small letters: keep the one that WeCom's console shows"
                );
                errors.push(Error::new(settings::join("corps", id), problem));
            }
        }
        errors
    }

    /// Values that are right alone and wrong beside each other.
    fn conflicts(&self) -> Vec<Error> {
        let mut errors = Vec::new();
        let mut below = |key: &str, value: u64, other: &str, limit: u64, why: &str| {
            if value > limit {
                let problem = format!("must not be above {other} ({limit}), and is {value}{why}");
                errors.push(Error::new(key, problem));
            }
        };
        let Self {
            outbox,
            quota,
            visits,
            ..
        } = self;
        let stream = &self.inbox.stream;
        below(
            "quota.lease_ms",
            quota.lease_ms,
            "quota.longest_ms",
            quota.longest_ms,
            "",
        );
        below(
            "outbox.backoff_min_ms",
            outbox.backoff_min_ms,
            "outbox.backoff_max_ms",
            outbox.backoff_max_ms,
            "",
        );
        below(
            "visits.backoff_min_ms",
            visits.backoff_min_ms,
            "visits.backoff_max_ms",
            visits.backoff_max_ms,
            "",
        );
        below(
            "inbox.stream.first_pause_ms",
            stream.first_pause_ms,
            "inbox.stream.longest_pause_ms",
            stream.longest_pause_ms,
            "",
        );
        below(
            "hours.renew_every_ms",
            self.hours.renew_every_ms,
            "a third of hours.lease_ms",
            self.hours.lease_ms / 3,
            ": a lease is renewed in the second half of its life, and one renewal may fail",
        );
        if stream.wait_replicas > 0 {
            below(
                "inbox.stream.wait_timeout_ms",
                stream.wait_timeout_ms,
                "one less than redis.response_timeout_ms",
                self.redis.response_timeout_ms - 1,
                ": the call that waits for replicas would be given up first",
            );
        }
        errors.extend(self.twins());
        let http = &self.http;
        errors.extend(self.public.conflicts(http));
        errors.extend(self.events.conflicts());
        if http.listen == http.admin_listen && http.listen.port() != 0 {
            let problem = format!("must be another address than http.listen, {}", http.listen);
            errors.push(Error::new("http.admin_listen", problem));
        }
        if let Err(inbox::Error::Config(problem)) = self.redis.check() {
            errors.push(Error::new("redis.url", problem.trim_start_matches("url: ")));
        } else if settings::has_query(&self.redis.url) {
            errors.push(Error::new("redis.url", settings::NO_QUERY));
        }
        errors
    }
}
