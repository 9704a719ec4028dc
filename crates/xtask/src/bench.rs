//! `cargo xtask bench`: how close Paidan comes to what the machine allows.
//!
//! Absolute figures say nothing on another machine, and little on the same one an hour later. So every row sets ours
//! beside a *limit* (a bare axum handler, redis-benchmark, COPY, the bare cryptography) that is measured in the same
//! run: in each round both are measured one after the other, the ratio is taken inside the round, and the row is the
//! median of the rounds with the least and the greatest. The senders run on the same cores as what they measure.
//! Redis and Postgres are private, on free ports, and end with the command.
//!
//! | group | rows | where |
//! |---|---|---|
//! | `gateway` | P1–P6, P8, P9, P24 (gateway), P25: callbacks over HTTP, stored in Redis | [`gateway`], [`memory`] |
//! | `decide` | P13–P18: the allocation script, its client, and what others do instead | [`decide`] |
//! | `seats` | P30: seats of customer groups | [`seats`] |
//! | `ledger` | P20: the ledger's writer | [`ledger`] |
//! | `path` | P10–P12, P23, P24 (allocator), P27: from callback to committed row | [`path`] |
//! | `open` | P26: one callback's cryptography | [`open`] |
//! | `replay` | P28: a million inputs again under another policy | [`replay`] |
//!
//! *bar* is what holds on two busy cores, *goal* what a quiet machine allows; `definitions` has them all. `ratio` is
//! what bar and goal are for: ours ÷ limit, or, where the unit says so, a plain figure (milliseconds, megabytes, …)
//! with the limit's own figure beside it for comparison. `cpu_ratio` is the CPU per operation of the program under
//! test ÷ that of the limit's program (the store they share is left out of both), and steadier than throughput. A row
//! under its bar is reported as it is; the exit status speaks only of errors.

mod callbacks;
mod cpu;
mod decide;
mod definitions;
mod gateway;
mod ledger;
mod load;
mod memory;
mod open;
mod path;
mod programs;
mod redis_benchmark;
mod replay;
mod row;
mod seats;
mod servers;
pub(crate) mod stand;
mod store;

use std::collections::BTreeMap;
use std::process::ExitCode;

use crate::numbers::whole;
use crate::progress::{print, say};
use crate::runs::RunFolder;
use crate::services::{Package, ensure};
use programs::Programs;
use row::{Row, Sample};
use servers::Place;

const LEAST_ROUNDS: u64 = 5;
const MOST_ROUNDS: u64 = 1000;

/// Measure ours beside the limit and print the ratios.
///
/// Without a group all of them. It builds everything in release first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure.
    groups: Vec<Group>,
    /// One line of JSON for each row.
    #[arg(long)]
    json: bool,
    /// Rounds, from 5 to 1000; fewer say nothing of the spread.
    #[arg(long, default_value_t = LEAST_ROUNDS, allow_negative_numbers = true, value_parser = whole(LEAST_ROUNDS, MOST_ROUNDS))]
    rounds: u64,
    /// The whole of what is scaled down otherwise (P12: 50,000 over 180 s).
    #[arg(long)]
    full: bool,
    /// A smoke test: one round of very little with programs that are not optimised. Its figures mean nothing.
    #[arg(long, conflicts_with_all = ["full", "rounds"])]
    quick: bool,
    /// Rows and their bars; nothing is measured.
    #[arg(long)]
    list: bool,
    /// Everything is built already.
    #[arg(long, hide = true)]
    built: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Group {
    /// Callbacks over HTTP, kept and under load, and memory; `load` is the same.
    #[value(alias = "load")]
    Gateway,
    /// Decisions in Redis.
    Decide,
    /// Seats of customer groups in Redis.
    Seats,
    /// The ledger's writer.
    Ledger,
    /// From the callback to the committed row.
    Path,
    /// Opening a callback.
    Open,
    /// The past again under another policy.
    Replay,
}

impl Group {
    const ALL: [Group; 7] = [
        Group::Open,
        Group::Replay,
        Group::Decide,
        Group::Seats,
        Group::Gateway,
        Group::Ledger,
        Group::Path,
    ];

    fn needs(self) -> &'static [Package] {
        match self {
            Group::Open | Group::Replay => &[],
            Group::Gateway | Group::Seats => &[Package::Redis],
            Group::Ledger => &[Package::Postgres],
            Group::Decide | Group::Path => &[Package::Redis, Package::Postgres],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Group::Gateway => "gateway",
            Group::Decide => "decide",
            Group::Seats => "seats",
            Group::Ledger => "ledger",
            Group::Path => "path",
            Group::Open => "open",
            Group::Replay => "replay",
        }
    }
}

/// What every group is told.
#[derive(Debug)]
struct Bench {
    rounds: usize,
    quick: bool,
    full: bool,
    place: Place,
}

impl Bench {
    /// How much work a round has.
    fn size(&self, normal: usize, quick: usize) -> usize {
        if self.quick { quick } else { normal }
    }
}

/// The samples of a group, by row.
#[derive(Debug, Default)]
struct Samples(BTreeMap<&'static str, Vec<Sample>>);

impl Samples {
    fn add(&mut self, name: &'static str, sample: Sample) {
        let name = definitions::find(name).name;
        self.0.entry(name).or_default().push(sample);
    }

    /// Says how a round went.
    fn tell(&self, group: Group, round: usize, rounds: usize) {
        let last = self.0.iter().filter_map(|(name, samples)| {
            let ratio = samples.get(round)?.ratio;
            Some(format!("{name} {ratio:.2}"))
        });
        let last: Vec<String> = last.collect();
        let line = format!(
            "{}/{rounds} {}: {}",
            round + 1,
            group.name(),
            last.join(", ")
        );
        say("Round", &line);
    }

    /// In the order of the definitions.
    fn rows(self) -> Vec<Row> {
        definitions::ROWS
            .iter()
            .filter_map(|row| Row::of(row, self.0.get(row.name)?))
            .collect()
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.list {
        list();
        return Ok(ExitCode::SUCCESS);
    }
    let mut groups = args.groups.clone();
    if groups.is_empty() {
        groups.extend(Group::ALL);
    }
    // What is missing is known before the minutes of the build, not after.
    let needed: Vec<Package> = groups
        .iter()
        .flat_map(|group| group.needs())
        .copied()
        .collect();
    ensure(&needed)?;
    if args.quick {
        programs::build_as_we_are(&groups)?;
    } else if !args.built {
        programs::go_on_in_release(&groups)?;
    }
    // Appended files of a run are large: nothing of it stays.
    let run = RunFolder::new("bench")?;
    let bench = Bench {
        rounds: if args.quick {
            1
        } else {
            usize::try_from(args.rounds)?
        },
        quick: args.quick,
        full: args.full,
        place: Place {
            folder: run.path().to_owned(),
            programs: Programs::beside_us()?,
        },
    };
    let mut rows = Vec::new();
    for group in groups {
        say("Measuring", group.name());
        let measured = measure(&bench, group)?;
        if args.json {
            for row in &measured {
                print(&row.json(group.name()));
            }
        }
        rows.extend(measured);
    }
    if !args.json {
        row::table(&rows);
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(bench: &Bench, group: Group) -> anyhow::Result<Vec<Row>> {
    let mut samples = Samples::default();
    match group {
        Group::Open => open::run(bench, &mut samples)?,
        Group::Replay => replay::run(bench, &mut samples)?,
        Group::Decide => decide::run(bench, &mut samples)?,
        Group::Seats => seats::run(bench, &mut samples)?,
        Group::Gateway => {
            gateway::run(bench, &mut samples)?;
            memory::run(bench, &mut samples)?;
        }
        Group::Ledger => ledger::run(bench, &mut samples)?,
        Group::Path => path::run(bench, &mut samples)?,
    }
    Ok(samples.rows())
}

fn list() {
    for row in definitions::ROWS {
        let bar = row
            .bar
            .map_or_else(|| "–".to_owned(), |bar| bar.to_string());
        let goal = row
            .goal
            .map_or_else(|| "–".to_owned(), |goal| goal.to_string());
        print(&format!(
            "{:<21} bar {bar:>5}  goal {goal:>5}  {}",
            row.name, row.what
        ));
    }
}

/// Milliseconds since the epoch: callbacks and leases say when they are.
fn now_ms() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "a measuring tool lives in the present"
    )]
    let now = std::time::SystemTime::now();
    let since = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// One thread: the senders are to leave the other cores to what they measure.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}
