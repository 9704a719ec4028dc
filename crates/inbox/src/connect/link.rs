//! One multiplexed connection that is replaced when it is of no use any more.
//!
//! The library's own manager replaces a connection that was closed. It keeps one whose server has fallen silent
//! (a dead host sends no RST) or has become a replica behind the same address, and while it reconnects its
//! callers wait without a limit. Hence this one.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::sentinel::SentinelClient;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, RedisError, RedisResult,
    ServerErrorKind, Value,
};

/// A connection younger than this is not replaced for what it answers, nor is a failed attempt followed by
/// another: a server that is down or read-only for a while must not be flooded with connections.
const SHORTEST_LIFE: Duration = Duration::from_millis(100);
/// Requests queued before callers wait. The library's 50 is fewer than a busy gateway has in flight.
const BUFFER: usize = 1024;

/// Where connections come from.
pub(super) struct Source(From);

enum From {
    Server(Client),
    /// Asked again for each connection. It keeps connections to the sentinels, hence the lock.
    Sentinel(tokio::sync::Mutex<SentinelClient>),
}

impl Source {
    pub(super) fn server(client: Client) -> Source {
        Source(From::Server(client))
    }

    pub(super) fn sentinel(client: SentinelClient) -> Source {
        Source(From::Sentinel(tokio::sync::Mutex::new(client)))
    }

    async fn open(&self, config: &AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
        match &self.0 {
            From::Server(client) => {
                client
                    .get_multiplexed_async_connection_with_config(config)
                    .await
            }
            From::Sentinel(client) => {
                let client = client.lock().await.async_get_client().await?;
                client
                    .get_multiplexed_async_connection_with_config(config)
                    .await
            }
        }
    }
}

/// See the module. A cheap clone.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

struct Inner {
    source: Source,
    config: AsyncConnectionConfig,
    response: Duration,
    connect: Duration,
    db: i64,
    current: Mutex<Current>,
}

type Attempt = Shared<BoxFuture<'static, RedisResult<MultiplexedConnection>>>;

/// One attempt to connect serves everybody who comes while it runs, and everybody after it succeeded.
struct Current {
    number: u64,
    begun: Instant,
    attempt: Option<Attempt>,
}

impl Link {
    pub(super) fn new(source: Source, response: Duration, connect: Duration) -> Link {
        let db = match &source.0 {
            From::Server(client) => client.get_connection_info().redis_settings().db(),
            From::Sentinel(_) => 0,
        };
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(response))
            .set_connection_timeout(Some(connect))
            .set_pipeline_buffer_size(BUFFER);
        Link(Arc::new(Inner {
            source,
            config,
            response,
            connect,
            db,
            current: Mutex::new(Current {
                number: 0,
                begun: Instant::now(),
                attempt: None,
            }),
        }))
    }

    /// Looks whether a server is there.
    pub(super) async fn reach(&self) -> RedisResult<()> {
        self.connection().await.map(drop)
    }

    pub(super) fn db(&self) -> i64 {
        self.0.db
    }

    pub(super) async fn command(&self, cmd: &Cmd) -> RedisResult<Value> {
        let (number, mut connection) = self.connection().await?;
        let answer = self.limited(connection.req_packed_command(cmd)).await;
        match &answer {
            Ok(Value::ServerError(error)) if is_stale(error.kind()) => self.replace(number, false),
            Err(error) => self.judge(number, error),
            Ok(_) => {}
        }
        answer
    }

    pub(super) async fn commands(
        &self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let (number, mut connection) = self.connection().await?;
        let answers = self
            .limited(connection.req_packed_commands(pipeline, offset, count))
            .await;
        match &answers {
            Ok(answers) => {
                let stale = answers.iter().any(
                    |answer| matches!(answer, Value::ServerError(error) if is_stale(error.kind())),
                );
                if stale {
                    self.replace(number, false);
                }
            }
            Err(error) => self.judge(number, error),
        }
        answers
    }

    /// The library limits the wait for an answer; queueing for a place in its buffer it does not limit.
    async fn limited<T>(&self, call: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
        tokio::time::timeout(self.0.response + SHORTEST_LIFE, call)
            .await
            .unwrap_or_else(|_| Err(timed_out()))
    }

    fn judge(&self, number: u64, error: &RedisError) {
        if error.is_unrecoverable_error() || error.is_io_error() {
            // Closed, or silent for the whole response time-out.
            self.replace(number, true);
        } else if let ErrorKind::Server(kind) = error.kind()
            && is_stale(Some(kind))
        {
            self.replace(number, false);
        }
    }

    /// Forgets connection `number`; the next caller makes another.
    fn replace(&self, number: u64, useless: bool) {
        let mut current = self.current();
        if current.number == number && (useless || current.begun.elapsed() > SHORTEST_LIFE) {
            current.attempt = None;
        }
    }

    async fn connection(&self) -> RedisResult<(u64, MultiplexedConnection)> {
        let (number, attempt) = self.attempt();
        // Sentinels are asked without a limit of their own, and somebody has to poll: a caller that is dropped
        // leaves the attempt to the others.
        match tokio::time::timeout(self.0.connect * 2, attempt).await {
            Ok(Ok(connection)) => Ok((number, connection)),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                self.replace(number, true);
                Err(timed_out())
            }
        }
    }

    fn attempt(&self) -> (u64, Attempt) {
        let mut current = self.current();
        if let Some(attempt) = &current.attempt {
            let failed = attempt.peek().is_some_and(Result::is_err);
            if !failed || current.begun.elapsed() < SHORTEST_LIFE {
                return (current.number, attempt.clone());
            }
        }
        let inner = Arc::clone(&self.0);
        let attempt = async move { inner.source.open(&inner.config).await }
            .boxed()
            .shared();
        current.number += 1;
        current.begun = Instant::now();
        current.attempt = Some(attempt.clone());
        (current.number, attempt)
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.0
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server is not the one to write to any more.
fn is_stale(kind: Option<ServerErrorKind>) -> bool {
    matches!(
        kind,
        Some(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown)
    )
}

pub(super) fn timed_out() -> RedisError {
    RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}
