//! Connections to Redis that find their way back by themselves: one server, Sentinel or Cluster.
//!
//! A call ends within the response time-out, whatever happens; then the next one finds a new connection if the
//! old one is silent, read-only or gone. Nothing is repeated here: whether a call may be repeated is its
//! caller's knowledge.

mod config;
mod link;

use std::fmt;
use std::time::Duration;

use futures_util::FutureExt;
use redis::aio::ConnectionLike;
use redis::cluster::ClusterConfig;
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, Pipeline, RedisFuture, Value};

pub use config::{Config, Mode};
use link::Link;

use crate::Error;

/// The longest time a reader on a connection of [`connect_blocking`] may ask Redis to wait for news.
pub const LONGEST_BLOCK: Duration = Duration::from_secs(5);

/// A cheap clone; all clones share one socket per server.
#[derive(Clone)]
pub enum Connection {
    /// One server, found by its address or through Sentinel.
    Single(Link),
    Cluster(ClusterConnection),
}

/// Connects for commands that answer at once. Fails if no server can be reached within the connect time-out:
/// a program that must start without Redis tries again, or begins with [`connect_lazy`].
pub async fn connect(config: &Config) -> Result<Connection, Error> {
    open(config, config.response_timeout()).await
}

/// Connects for readers that block up to [`LONGEST_BLOCK`]. Never share it with other calls: a blocking read
/// holds up everything behind it.
pub async fn connect_blocking(config: &Config) -> Result<Connection, Error> {
    open(config, config.response_timeout() + LONGEST_BLOCK).await
}

/// As [`connect`], but without looking whether anybody is there; the first call does. Must be called inside a
/// tokio runtime.
pub fn connect_lazy(config: &Config) -> Result<Connection, Error> {
    let response = config.response_timeout();
    if config.mode == Mode::Cluster {
        let client = config.cluster_client(response)?;
        let connection = client.get_pending_async_connection_with_config(ClusterConfig::new());
        return Ok(Connection::Cluster(connection));
    }
    let link = Link::new(config.source()?, response, config.connect_timeout());
    Ok(Connection::Single(link))
}

async fn open(config: &Config, response: Duration) -> Result<Connection, Error> {
    if config.mode == Mode::Cluster {
        let client = config.cluster_client(response)?;
        let connecting =
            tokio::time::timeout(config.connect_timeout() * 2, client.get_async_connection());
        let connection = connecting.await.map_err(|_| link::timed_out())??;
        return Ok(Connection::Cluster(connection));
    }
    let link = Link::new(config.source()?, response, config.connect_timeout());
    link.reach().await?;
    Ok(Connection::Single(link))
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Connection::Single(link) => link.command(cmd).boxed(),
            Connection::Cluster(cluster) => cluster.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Connection::Single(link) => link.commands(pipeline, offset, count).boxed(),
            Connection::Cluster(cluster) => cluster.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Connection::Single(link) => link.db(),
            Connection::Cluster(_) => 0,
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Connection::Single(_) => "Connection::Single",
            Connection::Cluster(_) => "Connection::Cluster",
        })
    }
}
