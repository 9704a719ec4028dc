//! The allocation script in Redis, without Postgres and WeCom.
//!
//! A private Redis without an append-only file, so that the work of the scripts is seen and not the disk's.
//! `redis-benchmark` asks, 50 clients unless stated; a pool of 50 members, all there, with caps that are never reached
//! and the weights 1 to 6. Every request is about a new subject, so every one is decided. CPU ratios are those of
//! Redis.
//!
//! - **P13** one request a call through our own client, 64 callers over one connection of one thread ÷ redis-benchmark
//!   with 64 clients and the same script.
//! - **P14** the whole script (presence, one open allocation, pick, load, cap, log) ÷ plain SET, with one request of
//!   each client in flight and with 16; a fair pool and a least-load pool.
//! - **P15** the pick alone ÷ `INCR % N` in a script, 16 in flight, at 50 and at 1,000 members: the rule and the layout
//!   of the product without everything that makes a decision out of a pick; see [`picks`].
//! - **P16** 16 requests a call ÷ one a call, decisions a second.
//! - **P17** P13's rate ÷ what is done elsewhere, see [`rivals`].
//! - **P18** 64 callers, each with a connection of its own, 10,000 decisions: after every single one, how far is the
//!   member who is farthest from his exact weighted share. Read from the log, which is the order of the decisions.
//! - **P28** what windows, skills, tiers, sticky, offers and limits of channels cost, as multiples of a plain pool, see [`costs`].

mod corp;
mod costs;
mod fairness;
mod picks;
mod rivals;

use std::time::{Duration, Instant};

use allocation::{CorpId, PoolId};
use inbox::connect::{self, Connection};
use roster::CorpRoster;
use tokio::task::JoinSet;

use super::callbacks::CORP;
use super::redis_benchmark::Asking;
use super::row::Sample;
use super::store::Store;
use super::{Bench, Group, Samples, runtime};
use crate::services::Keep;
use corp::{POOL, Shape};

const CLIENTS: usize = 50;
const CALLERS: usize = 64;
const PIPELINE: usize = 16;
/// Requests in one call of P16.
const BATCH: u8 = 16;

pub(super) fn run(bench: &Bench, samples: &mut Samples) -> anyhow::Result<()> {
    let store = Store::start(&bench.place.folder, Keep::Nothing)?;
    let runtime = runtime()?;
    let connection = runtime.block_on(connect::connect(&connect::Config::single(&store.url())))?;
    let corp = CorpId::new(CORP)?;
    let mut stand = Stand {
        bench,
        store,
        connection,
        corp,
    };
    let rivals = runtime.block_on(rivals::Rivals::start(bench))?;
    runtime.block_on(async {
        for round in 0..bench.rounds {
            stand.scripts(samples).await?;
            picks::round(&mut stand, samples)?;
            let ours = stand.client(samples).await?;
            rivals.round(&mut stand, ours, samples).await?;
            fairness::round(&mut stand, samples).await?;
            costs::round(&mut stand, samples).await?;
            samples.tell(Group::Decide, round, bench.rounds);
        }
        anyhow::Ok(())
    })
}

struct Stand<'a> {
    bench: &'a Bench,
    store: Store,
    connection: Connection,
    corp: CorpId,
}

/// Requests a second, and what one costs Redis.
#[derive(Debug, Clone, Copy)]
struct Measured {
    per_second: f64,
    cpu: f64,
}

impl Measured {
    fn beside(self, limit: Measured) -> Sample {
        Sample::ratio(self.per_second, limit.per_second).cpu(self.cpu / limit.cpu)
    }
}

impl Stand<'_> {
    /// An empty Redis with an open corp.
    async fn open(&mut self, shape: Shape) -> anyhow::Result<CorpRoster<Connection>> {
        self.store.empty()?;
        corp::open(&self.connection, &self.corp, shape).await
    }

    fn asking(&self, clients: usize, pipeline: usize, requests: usize) -> Asking {
        Asking {
            port: self.store.port(),
            clients,
            pipeline,
            requests: self.bench.size(requests, 2_000),
        }
    }

    fn ask(&self, asking: Asking, command: &[String]) -> anyhow::Result<Measured> {
        let before = self.store.cpu()?;
        let per_second = asking.run(command)?;
        let used = self.store.cpu()?.saturating_sub(before);
        Ok(Measured {
            per_second,
            cpu: used.as_secs_f64() / asking.requests as f64,
        })
    }

    /// One call with this many requests.
    fn decide(&self, requests: u8) -> Vec<String> {
        let log = roster::bench::log_key(&self.corp);
        let mut command = words(&["EVALSHA", roster::bench::decide_hash(), "1", &log, "", ""]);
        command.extend((0..requests).flat_map(|salt| roster::bench::decide_request(POOL, salt)));
        command
    }

    /// P14 and P16.
    async fn scripts(&mut self, samples: &mut Samples) -> anyhow::Result<()> {
        let one = self.asking(CLIENTS, 1, 50_000);
        let many = self.asking(CLIENTS, PIPELINE, 200_000);
        let set = words(&["SET", "key:__rand_int__", "value"]);
        self.store.empty()?;
        let set_one = self.ask(one, &set)?;
        let set_many = self.ask(many, &set)?;
        let mut fair_one = None;
        let cases = [
            (Shape::FAIR, one, set_one, "P14-fair"),
            (Shape::FAIR, many, set_many, "P14-fair-16"),
            (Shape::LEAST, one, set_one, "P14-least"),
            (Shape::LEAST, many, set_many, "P14-least-16"),
        ];
        for (shape, asking, limit, row) in cases {
            let corp = self.open(shape).await?;
            let before = corp.status().await?.seq;
            let ours = self.ask(asking, &self.decide(1))?;
            let made = corp.status().await?.seq - before;
            anyhow::ensure!(made == asking.requests as u64, "{row}: {made} decisions");
            samples.add(row, ours.beside(limit));
            fair_one.get_or_insert(ours);
        }
        let fair_one = fair_one.unwrap_or(set_one);
        self.open(Shape::FAIR).await?;
        let batches = Asking {
            requests: one.requests / 4,
            ..one
        };
        let batch = self.ask(batches, &self.decide(BATCH))?;
        let each = Measured {
            per_second: batch.per_second * f64::from(BATCH),
            cpu: batch.cpu / f64::from(BATCH),
        };
        samples.add("P16", each.beside(fair_one));
        Ok(())
    }

    /// P13. Answers our rate.
    async fn client(&mut self, samples: &mut Samples) -> anyhow::Result<f64> {
        let asking = self.asking(CALLERS, 1, 50_000);
        self.open(Shape::FAIR).await?;
        let limit = self.ask(asking, &self.decide(1))?;
        let corp = self.open(Shape::FAIR).await?;
        let before = self.store.cpu()?;
        let per_second = through_our_client(&vec![corp; CALLERS], asking.requests).await?;
        let used = self.store.cpu()?.saturating_sub(before);
        let ours = Measured {
            per_second,
            cpu: used.as_secs_f64() / asking.requests as f64,
        };
        samples.add("P13", ours.beside(limit));
        Ok(ours.per_second)
    }
}

/// Every caller asks, waits for the answer and asks again. Decisions a second.
async fn through_our_client(
    callers: &[CorpRoster<Connection>],
    requests: usize,
) -> anyhow::Result<f64> {
    let each = requests / callers.len();
    let pool = PoolId::new(POOL)?;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for corp in callers {
        let (corp, pool) = (corp.clone(), pool.clone());
        tasks.spawn(async move {
            for _ in 0..each {
                let applied = corp.decide(vec![corp::request(&pool)], "", None).await?;
                corp::assigned(&applied.answer)?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok((each * callers.len()) as f64 / start.elapsed().as_secs_f64())
}

/// How long each rival runs in a round.
fn while_long(bench: &Bench) -> Duration {
    Duration::from_millis(if bench.quick { 100 } else { 1_500 })
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
