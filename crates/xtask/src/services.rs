//! A private Redis and a private Postgres: on free ports of the loopback, in a folder of their own, ended with us.

mod install;
mod postgres;
mod redis;

use std::path::Path;

pub(crate) use install::{Package, ensure};
pub(crate) use postgres::Postgres;
pub(crate) use redis::Redis;

/// How much the servers keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Nothing that outlives a crash: fast, for tests.
    Nothing,
    /// As production does: an append-only file with an fsync for every turn, and fsync in Postgres.
    Everything,
}

/// Both servers. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) redis: Redis,
    pub(crate) postgres: Postgres,
}

impl Services {
    /// Installs what is missing and starts both in `folder`; data that are there already are kept. `ports` are tried
    /// first.
    pub(crate) fn start(
        folder: &Path,
        keep: Keep,
        ports: Option<(u16, u16)>,
    ) -> anyhow::Result<Self> {
        ensure(&[Package::Redis, Package::Postgres])?;
        Ok(Self {
            redis: Redis::start(folder, keep, ports.map(|(redis, _)| redis))?,
            postgres: Postgres::start(folder, keep, ports.map(|(_, postgres)| postgres))?,
        })
    }
}

/// The wished port, then free ones: whoever is told to start may find that its port was taken meanwhile.
fn start_on<T>(
    wished: Option<u16>,
    mut start: impl FnMut(u16) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut last = None;
    for attempt in 0..5 {
        crate::ending::check()?;
        let port = match wished.filter(|port| attempt == 0 && crate::ports::is_free(*port)) {
            Some(port) => port,
            None => crate::ports::free()?,
        };
        match start(port) {
            Ok(started) => return Ok(started),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| anyhow::anyhow!("not tried")))
}
