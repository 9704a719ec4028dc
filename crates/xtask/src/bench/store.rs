//! The private Redis of a group, and the few things that are done to it between measurements.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use super::cpu;
use crate::services::{Keep, Package, Redis, ensure};

/// How soon what was written is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fsync {
    EverySecond,
    Always,
}

pub(crate) struct Store {
    redis: Redis,
    connection: redis::Connection,
    pid: u32,
}

impl Store {
    /// `keep` Nothing: no append-only file, so that only the work of Redis itself is seen.
    pub(crate) fn start(folder: &Path, keep: Keep) -> anyhow::Result<Self> {
        ensure(&[Package::Redis])?;
        let redis = Redis::start(folder, keep, None)?;
        let mut connection = redis::Client::open(redis.url())?.get_connection()?;
        let info: redis::InfoDict = redis::cmd("INFO").arg("server").query(&mut connection)?;
        let pid = info
            .get("process_id")
            .context("Redis does not tell its process")?;
        let mut store = Self {
            redis,
            connection,
            pid,
        };
        // A rewrite of the file in the middle of a round would be measured.
        store.set("auto-aof-rewrite-percentage", "0")?;
        Ok(store)
    }

    pub(crate) fn url(&self) -> String {
        self.redis.url()
    }

    pub(crate) fn port(&self) -> u16 {
        self.redis.port()
    }

    pub(crate) fn fsync(&mut self, fsync: Fsync) -> anyhow::Result<()> {
        let value = match fsync {
            Fsync::EverySecond => "everysec",
            Fsync::Always => "always",
        };
        self.set("appendfsync", value)
    }

    fn set(&mut self, name: &str, value: &str) -> anyhow::Result<()> {
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg(name).arg(value);
        Ok(command.query(&mut self.connection)?)
    }

    /// Throws everything away; scripts stay loaded.
    pub(crate) fn empty(&mut self) -> anyhow::Result<()> {
        Ok(redis::cmd("FLUSHALL")
            .arg("SYNC")
            .query(&mut self.connection)?)
    }

    /// Any command; for the few questions a group has.
    pub(crate) fn ask<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> anyhow::Result<T> {
        let (name, rest) = words.split_first().context("no command")?;
        Ok(redis::cmd(name).arg(rest).query(&mut self.connection)?)
    }

    pub(crate) fn set_bytes(&mut self, key: &str, value: &[u8]) -> anyhow::Result<()> {
        Ok(redis::cmd("SET")
            .arg(key)
            .arg(value)
            .query(&mut self.connection)?)
    }

    pub(crate) fn add_scored(&mut self, key: &str, score: f64, name: &[u8]) -> anyhow::Result<()> {
        let mut command = redis::cmd("ZADD");
        command.arg(key).arg(score).arg(name);
        Ok(command.query(&mut self.connection)?)
    }

    /// Bytes that its data take.
    pub(crate) fn memory(&mut self) -> anyhow::Result<f64> {
        let info: redis::InfoDict = redis::cmd("INFO")
            .arg("memory")
            .query(&mut self.connection)?;
        info.get("used_memory")
            .context("Redis does not tell its memory")
    }

    /// CPU used so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        cpu::used(self.pid)
    }
}
