//! The pool: how it connects, which of its connections are trusted.

mod pooler;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use secrecy::{ExposeSecret, SecretString};
use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

use crate::Error;
pub(crate) use work::{Statement, Work};

#[derive(Debug, Clone)]
pub struct Config {
    /// `postgres://user:password@host:port/database`
    pub url: SecretString,
    pub max_connections: u32,
    /// How long a piece of work waits for a connection.
    pub acquire_timeout: Duration,
    /// How long one statement may take. What holds a transaction open longer than three times that is cut.
    pub statement_timeout: Duration,
    /// A pooler in transaction mode stands in front of Postgres. It is also found out by looking.
    pub pooler: bool,
}

impl Config {
    pub fn new(url: impl Into<String>) -> Config {
        Config {
            url: SecretString::from(url.into()),
            max_connections: 10,
            acquire_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            pooler: false,
        }
    }

    /// Whether this can be the address of a database, without connecting. The error does not repeat it: it may hold a
    /// password.
    pub fn check_url(url: &SecretString) -> Result<(), &'static str> {
        let text = url.expose_secret();
        let scheme = ["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| text.starts_with(scheme));
        if scheme && text.parse::<PgConnectOptions>().is_ok() {
            return Ok(());
        }
        Err("must be postgres://user:password@host:port/database")
    }
}

/// A connection that was idle longer than this is tried before it is used.
const TRY_IDLE: Duration = Duration::from_secs(1);
const LONG_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, Clone)]
pub(crate) struct Db {
    pool: PgPool,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pooler: bool,
    statement_timeout: Duration,
    /// Begin of a transaction, with its limits where the session cannot keep them.
    begin: Arc<str>,
    started: Instant,
    /// Connections made before this (milliseconds after `started`) lead to a node that has gone or takes no writes.
    distrust_before: AtomicU64,
}

impl Db {
    pub(crate) async fn connect(config: Config) -> Result<Db, Error> {
        let options: PgConnectOptions = config.url.expose_secret().parse()?;
        let options = options.application_name("paidan");
        let session = Session::new(config.statement_timeout);
        let mut pooler = config.pooler;
        if !pooler {
            let looked = pooler::is_between(&options, &session);
            pooler = work::in_time(config.acquire_timeout, looked).await?;
            if pooler {
                tracing::info!("a pooler in transaction mode stands in front of Postgres");
            }
        }
        let (options, begin) = if pooler {
            (options.statement_cache_capacity(0), session.begin().into())
        } else {
            (session.on(options), Arc::from("BEGIN"))
        };
        let shared = Arc::new(Shared {
            pooler,
            statement_timeout: config.statement_timeout,
            begin,
            started: Instant::now(),
            distrust_before: AtomicU64::new(0),
        });
        let pool = pool(&config, options, Arc::clone(&shared));
        let db = Db { pool, shared };
        db.single().await?.end().await?;
        Ok(db)
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Work of one statement. Behind a pooler it is a transaction all the same: the server's connection is ours
    /// only so long, and a statement goes there in two steps.
    pub(crate) async fn single(&self) -> Result<Work, Error> {
        let mut work = Work::new(self.clone(), self.pool.acquire().await?);
        if self.shared.pooler {
            work.begin().await?;
        }
        Ok(work)
    }

    pub(crate) async fn transaction(&self) -> Result<Work, Error> {
        let mut work = Work::new(self.clone(), self.pool.acquire().await?);
        work.begin().await?;
        Ok(work)
    }

    /// As `transaction`, for statements that may take minutes.
    pub(crate) async fn long_transaction(&self) -> Result<Work, Error> {
        let mut work = self.transaction().await?;
        work.set_limit(LONG_TIMEOUT).await?;
        Ok(work)
    }

    /// The node behind our connections has gone, or takes no writes any more: make them anew before the next use.
    fn distrust_present_connections(&self) {
        let now = millis(self.shared.started.elapsed());
        self.shared
            .distrust_before
            .fetch_max(now, Ordering::Relaxed);
    }
}

/// The limits every session of ours lives under.
struct Session {
    statement_ms: u128,
    idle_ms: u128,
}

impl Session {
    fn new(statement_timeout: Duration) -> Session {
        let statement_ms = statement_timeout.as_millis();
        Session {
            statement_ms,
            idle_ms: statement_ms * 3,
        }
    }

    /// As settings of the session from its start.
    fn on(&self, options: PgConnectOptions) -> PgConnectOptions {
        options.options([
            ("statement_timeout", self.statement_ms.to_string()),
            (
                "idle_in_transaction_session_timeout",
                self.idle_ms.to_string(),
            ),
        ])
    }

    /// Behind a pooler, which takes no settings at the start and keeps no session: each transaction brings its own.
    fn begin(&self) -> String {
        let Session {
            statement_ms,
            idle_ms,
        } = self;
        format!(
            "BEGIN; SET LOCAL statement_timeout = {statement_ms}; \
             SET LOCAL idle_in_transaction_session_timeout = {idle_ms}"
        )
    }
}

fn pool(config: &Config, options: PgConnectOptions, shared: Arc<Shared>) -> PgPool {
    PgPoolOptions::new()
        .max_connections(config.max_connections)
        .acquire_timeout(config.acquire_timeout)
        // Ours is below: trying each connection before each piece of work is a round trip too many.
        .test_before_acquire(false)
        .before_acquire(move |connection, meta| {
            let trusted = shared.trusts(meta.age);
            let limit = shared.statement_timeout;
            Box::pin(async move {
                if !trusted {
                    return Ok(false);
                }
                if meta.idle_for < TRY_IDLE {
                    return Ok(true);
                }
                Ok(matches!(
                    tokio::time::timeout(limit, connection.ping()).await,
                    Ok(Ok(()))
                ))
            })
        })
        // A batch leaves buffers of its own size behind, in every connection in turn.
        .after_release(|connection, _| {
            connection.shrink_buffers();
            Box::pin(async { Ok(true) })
        })
        .connect_lazy_with(options)
}

impl Shared {
    fn trusts(&self, age: Duration) -> bool {
        let made = millis(self.started.elapsed().saturating_sub(age));
        let before = self.distrust_before.load(Ordering::Relaxed);
        before == 0 || made > before
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
