//! Callbacks over HTTP, verified and stored, beside a bare axum handler that reads the same requests and answers 200.
//!
//! Sealed callbacks, each about another customer, are made before the clock runs. Bare axum, a gateway that stores
//! nothing and the gateway itself run side by side as processes of their own; in each round they are loaded one after
//! the other, in turn forwards and backwards. Between two loads Redis is emptied.
//!
//! - **P1** the gateway without its store ÷ bare axum, 64 connections that stay open, callbacks a second.
//! - **P2**, **P3**, **P4** the gateway with Redis' append-only file: `everysec` with 64 connections, `always` with 256,
//!   `always` with 64; each ÷ bare axum with as many.
//! - **P5** a new connection for every callback, 64 at a time, `everysec` ÷ bare axum.
//! - **P6** the gateway's CPU for a callback of P2 ÷ bare axum's, microseconds. Redis is not counted: it is another
//!   program's cost, and seen in P2.
//! - **P8** the 99th percentile of the acknowledgement while callbacks come evenly at half the rate of P2 (`everysec`)
//!   and of P3 (`always`); milliseconds, with bare axum's own at the rate of the former beside the former.
//! - **P9** 10,000 connections are open, each sends its callback at the same instant: milliseconds until all are
//!   acknowledged ÷ bare axum; `P9-refused` counts those that were not (a callback the gateway may refuse with 503).
//!   Where the system allows fewer files, as many as it allows.

use std::process::Command;
use std::sync::Arc;

use super::callbacks::{Connections, Requests};
use super::load::{self, Outcome};
use super::row::Sample;
use super::servers::Server;
use super::store::{Fsync, Store};
use super::{Bench, Group, Samples, runtime};
use crate::services::Keep;

const FEW: usize = 64;
const MANY: usize = 256;
/// Files that a sender or a server needs beside its connections.
const OTHER_FILES: usize = 500;

pub(super) fn run(bench: &Bench, samples: &mut Samples) -> anyhow::Result<()> {
    let store = Store::start(&bench.place.folder, Keep::Everything)?;
    let at_once = at_once(bench.size(10_000, 200));
    let mut stand = Stand {
        bare: Server::bare(&bench.place)?,
        unstored: Server::unstored(&bench.place)?,
        gateway: Server::gateway(&bench.place, &store.url())?,
        store,
        count: bench.size(20_000, 300),
        at_once,
    };
    runtime()?.block_on(async {
        stand.warm_up().await?;
        for round in 0..bench.rounds {
            stand.round(round, samples).await?;
            samples.tell(Group::Gateway, round, bench.rounds);
        }
        anyhow::Ok(())
    })
}

struct Stand {
    bare: Server,
    unstored: Server,
    gateway: Server,
    store: Store,
    count: usize,
    at_once: usize,
}

/// Rate, and CPU of the server for one callback in microseconds.
#[derive(Debug, Clone, Copy)]
struct Measured {
    per_second: f64,
    cpu_us: f64,
}

impl Measured {
    /// Ours beside the limit.
    fn beside(self, limit: Measured) -> Sample {
        Sample::ratio(self.per_second, limit.per_second).cpu(self.cpu_us / limit.cpu_us)
    }
}

impl Stand {
    async fn warm_up(&mut self) -> anyhow::Result<()> {
        for server in [&self.bare, &self.unstored, &self.gateway] {
            let requests = Requests::new(self.count / 4, Connections::Kept)?;
            load::kept(server.address, &requests, FEW)
                .await?
                .all("warming up")?;
        }
        self.store.empty()
    }

    async fn round(&mut self, round: usize, samples: &mut Samples) -> anyhow::Result<()> {
        let (mut bare, mut unstored) = (None, None);
        let (mut everysec, mut always) = (None, None);
        let (mut bare_many, mut always_many) = (None, None);
        let mut cases: Vec<usize> = (0..6).collect();
        if round % 2 == 1 {
            cases.reverse();
        }
        for case in cases {
            match case {
                0 => bare = Some(self.kept(Which::Bare, FEW).await?),
                1 => unstored = Some(self.kept(Which::Unstored, FEW).await?),
                2 => everysec = Some(self.kept(Which::Stored(Fsync::EverySecond), FEW).await?),
                3 => always = Some(self.kept(Which::Stored(Fsync::Always), FEW).await?),
                4 => always_many = Some(self.kept(Which::Stored(Fsync::Always), MANY).await?),
                _ => bare_many = Some(self.kept(Which::Bare, MANY).await?),
            }
        }
        let all = (bare, unstored, everysec, always, bare_many, always_many);
        let (
            Some(bare),
            Some(unstored),
            Some(everysec),
            Some(always),
            Some(bare_many),
            Some(always_many),
        ) = all
        else {
            anyhow::bail!("a case was left out");
        };
        samples.add("P1", unstored.beside(bare));
        samples.add("P2", everysec.beside(bare));
        samples.add("P3", always_many.beside(bare_many));
        samples.add("P4", always.beside(bare));
        samples.add("P6", Sample::ratio(everysec.cpu_us, bare.cpu_us));
        let ours = self.fresh(Which::Stored(Fsync::EverySecond)).await?;
        let limit = self.fresh(Which::Bare).await?;
        samples.add("P5", ours.beside(limit));
        self.paced(everysec.per_second, always_many.per_second, samples)
            .await?;
        self.all_at_once(samples).await
    }

    fn server(&self, which: Which) -> &Server {
        match which {
            Which::Bare => &self.bare,
            Which::Unstored => &self.unstored,
            Which::Stored(_) => &self.gateway,
        }
    }

    fn prepare(&mut self, which: Which) -> anyhow::Result<()> {
        if let Which::Stored(fsync) = which {
            self.store.fsync(fsync)?;
            self.store.empty()?;
        }
        Ok(())
    }

    async fn kept(&mut self, which: Which, connections: usize) -> anyhow::Result<Measured> {
        self.prepare(which)?;
        let requests = Requests::new(self.count, Connections::Kept)?;
        let server = self.server(which);
        let before = server.cpu()?;
        let outcome = load::kept(server.address, &requests, connections).await?;
        measured(server, before, outcome, which)
    }

    async fn fresh(&mut self, which: Which) -> anyhow::Result<Measured> {
        self.prepare(which)?;
        let requests = Requests::new(self.count / 2, Connections::ClosedByServer)?;
        let server = self.server(which);
        let before = server.cpu()?;
        let outcome = load::fresh(server.address, &requests, FEW).await?;
        measured(server, before, outcome, which)
    }

    async fn paced(
        &mut self,
        everysec: f64,
        always: f64,
        samples: &mut Samples,
    ) -> anyhow::Result<()> {
        let cases = [
            ("P8-everysec", Fsync::EverySecond, FEW, everysec / 2.0),
            ("P8-always", Fsync::Always, MANY, always / 2.0),
        ];
        for (row, fsync, connections, rate) in cases {
            let which = Which::Stored(fsync);
            self.prepare(which)?;
            let requests = Requests::new(self.count, Connections::Kept)?;
            let address = self.gateway.address;
            let ours = load::paced(address, &requests, connections, rate)
                .await?
                .all(row)?;
            let limit = load::paced(self.bare.address, &requests, connections, rate).await?;
            samples.add(row, Sample::figure(ours.p99_ms(), Some(limit.p99_ms())));
        }
        Ok(())
    }

    async fn all_at_once(&mut self, samples: &mut Samples) -> anyhow::Result<()> {
        let requests: Arc<Requests> = Requests::new(self.at_once, Connections::ClosedByServer)?;
        let limit = load::at_once(self.bare.address, &requests)
            .await?
            .all("bare axum")?;
        let cases = [
            ("P9-everysec", Fsync::EverySecond),
            ("P9-always", Fsync::Always),
        ];
        let mut refused = 0;
        for (row, fsync) in cases {
            self.prepare(Which::Stored(fsync))?;
            let ours = load::at_once(self.gateway.address, &requests).await?;
            refused += ours.acks.len() - ours.acknowledged();
            let ms = |outcome: &Outcome| outcome.took.as_secs_f64() * 1000.0;
            samples.add(row, Sample::ratio(ms(&ours), ms(&limit)));
        }
        samples.add("P9-refused", Sample::figure(refused as f64, None));
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
enum Which {
    Bare,
    Unstored,
    Stored(Fsync),
}

fn measured(
    server: &Server,
    before: std::time::Duration,
    outcome: Outcome,
    which: Which,
) -> anyhow::Result<Measured> {
    let used = server.cpu()?.saturating_sub(before);
    let outcome = outcome.all(&format!("{which:?}"))?;
    Ok(Measured {
        per_second: outcome.per_second(),
        cpu_us: used.as_secs_f64() * 1e6 / outcome.acks.len() as f64,
    })
}

/// As many connections as we may have open; asks for more files first. Children inherit the limit.
pub(super) fn at_once(wanted: usize) -> usize {
    let pid = std::process::id().to_string();
    let files = |bound: &str| -> Option<usize> {
        let mut command = Command::new("prlimit");
        command.args([
            "--pid",
            &pid,
            "--nofile",
            "--noheadings",
            "--raw",
            "--output",
            bound,
        ]);
        let output = command.output().ok()?;
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    };
    let (soft, hard) = (
        files("SOFT").unwrap_or(1_024),
        files("HARD").unwrap_or(1_024),
    );
    let needed = wanted + OTHER_FILES;
    if soft < needed {
        let limit = format!("--nofile={}:{hard}", needed.min(hard));
        Command::new("prlimit")
            .args(["--pid", &pid, &limit])
            .status()
            .ok();
    }
    let allowed = files("SOFT").unwrap_or(soft).saturating_sub(OTHER_FILES);
    wanted.min(allowed)
}
