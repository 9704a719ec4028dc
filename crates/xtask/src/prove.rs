//! `prove`: a stated scenario against real processes and the fake WeCom, and every promise counted at the end.
//!
//! Two gateways and two allocators run as processes of their own over a private Redis (AOF `always`) and Postgres; the
//! fake WeCom plays the customers. What is checked is read from the stores and from the simulator's own counters, never
//! from what the processes say of themselves. `--self-test` then breaks promises on purpose: a proof that
//! cannot fail is none.

pub(crate) mod checks;
mod faults;
pub(crate) mod seats;
pub(crate) mod surge;
mod visits;
mod web;

use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Value, json};

use crate::ending;
use crate::numbers::{share, whole};
use crate::progress::{fail, print, say};
use crate::stage::{Build, Stage, Wishes};
use checks::Invariant;
use seats::sabotage::SeatSabotage;

/// Ten customers: with fewer the scenarios have nobody left to come after the wipe.
const LEAST_SCALE: f64 = 0.001;
/// As large a number as the fake WeCom's configuration can hold.
const MOST_SEED: u64 = i64::MAX as u64;

/// Run a scenario against real processes and the fake WeCom, and check every promise at the end.
///
/// The last line is `{"scenario":…,"passed":…,"figures":{…}}`; the exit status says whether every invariant held.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// surge: customers while processes die. faults: the same while stores and WeCom misbehave. visits: visitors of
    /// public pages while allocators die. seats: visitors of campaigns fill groups, likewise, and Redis is wiped.
    #[arg(value_enum)]
    scenario: Scenario,
    /// Share of the stated size, from 0.001 to 1.
    #[arg(long, default_value_t = 0.05, allow_negative_numbers = true, value_parser = share(LEAST_SCALE))]
    scale: f64,
    /// The stated size and times, release build.
    #[arg(long)]
    full: bool,
    /// Which processes die when, and what the simulator does.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = whole(0, MOST_SEED))]
    seed: u64,
    /// Only the last line.
    #[arg(long)]
    json: bool,
    /// Afterwards break the promises on purpose, one after the other: each must be caught.
    #[arg(long)]
    self_test: bool,
    /// Take the programs that the tests were built with.
    #[arg(long, hide = true, conflicts_with = "full")]
    of_tests: bool,
}

impl Args {
    fn programs(&self) -> Build {
        match (self.full, self.of_tests) {
            (true, _) => Build::Release,
            (false, true) => Build::OfTests,
            (false, false) => Build::Debug,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Scenario {
    Surge,
    Faults,
    Visits,
    Seats,
}

impl Scenario {
    fn name(self) -> &'static str {
        match self {
            Self::Surge => "surge",
            Self::Faults => "faults",
            Self::Visits => "visits",
            Self::Seats => "seats",
        }
    }

    fn sabotages(self) -> Vec<Sabotage> {
        match self {
            Self::Surge | Self::Faults => SABOTAGES.into(),
            Self::Visits => SABOTAGES_OF_VISITS.into(),
            Self::Seats => SeatSabotage::ALL.map(Sabotage::Seats).into(),
        }
    }
}

/// What is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// A member's load in Redis is not what the log says.
    Load,
    /// One customer has a second allocation in the ledger.
    Twice,
    /// One customer is moved to a second member behind our back.
    Transfer,
    /// One entry is missing from the ledger's log.
    Log,
    /// A slot that nobody holds is lent, in Redis.
    SlotKept,
    /// The visit that a slot led to is another visitor's.
    OtherVisitor,
    /// Two visits had one slot at the same time.
    SlotTwice,
    /// A hold has no end.
    Endless,
    Seats(SeatSabotage),
}

impl Sabotage {
    /// The invariant that must notice it, where one alone is meant to.
    fn breaks(self) -> Option<&'static str> {
        match self {
            Self::Seats(one) => Some(one.breaks()),
            _ => None,
        }
    }
}

/// The log first: a load that is wrong makes the fold differ too.
const SABOTAGES: [Sabotage; 4] = [
    Sabotage::Log,
    Sabotage::Load,
    Sabotage::Twice,
    Sabotage::Transfer,
];

/// In an order in which each breaks something that still held.
const SABOTAGES_OF_VISITS: [Sabotage; 7] = [
    Sabotage::Log,
    Sabotage::SlotKept,
    Sabotage::Load,
    Sabotage::OtherVisitor,
    Sabotage::SlotTwice,
    Sabotage::Endless,
    Sabotage::Twice,
];

/// A scenario that has come to its end.
struct Played {
    stage: Stage,
    customers: u64,
    /// What visitors did, where there were any.
    script: Option<Script>,
    figures: Value,
}

enum Script {
    Visits(visits::Script),
    Seats(seats::Script),
}

impl Played {
    async fn invariants(&self) -> anyhow::Result<Vec<Invariant>> {
        match &self.script {
            Some(Script::Visits(script)) => visits::checks::all(&self.stage, script).await,
            Some(Script::Seats(script)) => seats::checks::all(&self.stage, script).await,
            None => checks::all(&self.stage, self.customers).await,
        }
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let scale = if args.full { 1.0 } else { args.scale };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    ending::watch("programs first, then the stores")?;
    let proved = runtime.block_on(async {
        tokio::select! {
            proved = prove(&args, scale) => proved,
            // What was started ends in order as the other future is dropped.
            () = ending::wait() => Err(anyhow::anyhow!("not proved to the end")),
        }
    });
    match (proved, ending::asked()) {
        (Err(error), Some(asker)) => {
            fail(&format!("{error:#} (by {})", asker.name()));
            Ok(asker.exit_code())
        }
        (proved, _) => proved,
    }
}

async fn prove(args: &Args, scale: f64) -> anyhow::Result<ExitCode> {
    let mut played = match args.scenario {
        Scenario::Surge => surge::run(scale, args).await,
        Scenario::Faults => faults::run(scale, args).await,
        Scenario::Visits => visits::run(scale, args).await,
        Scenario::Seats => seats::run(scale, args).await,
    }?;
    let invariants = played.invariants().await?;
    let mut passed = invariants.iter().all(|one| one.holds);
    if !args.json {
        invariants.iter().for_each(|one| print(&one.line()));
    }
    if args.self_test && passed {
        let missed = self_test(&played, &args.scenario.sabotages(), invariants).await?;
        passed = missed.is_empty();
        played.figures["missed"] = json!(missed);
    }
    let name = args.scenario.name();
    let figures = played.figures.take();
    // What its end says comes before the last line.
    tokio::task::block_in_place(|| drop(played));
    print(&json!({"scenario": name, "passed": passed, "figures": figures}).to_string());
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A proof that cannot fail is none: breaks one promise after the other and answers those that nobody noticed.
async fn self_test(
    played: &Played,
    sabotages: &[Sabotage],
    mut before: Vec<Invariant>,
) -> anyhow::Result<Vec<String>> {
    let mut missed = Vec::new();
    for &sabotage in sabotages {
        played.stage.sabotage(sabotage).await?;
        let after = played.invariants().await?;
        let caught: Vec<&str> = before
            .iter()
            .zip(&after)
            .filter(|(before, after)| before.holds && !after.holds)
            .map(|(_, after)| after.name)
            .collect();
        say("Caught", &format!("{sabotage:?}: {caught:?}"));
        let noticed = match sabotage.breaks() {
            Some(name) => caught.contains(&name),
            None => !caught.is_empty(),
        };
        if !noticed {
            missed.push(format!("{sabotage:?}"));
        }
        before = after;
    }
    Ok(missed)
}

/// Builds the programs and starts the stage.
async fn start(args: &Args, wishes: Wishes) -> anyhow::Result<Stage> {
    let stage =
        tokio::task::block_in_place(|| Stage::start("prove", wishes, args.programs(), args.seed))
            .context("the stage")?;
    stage.prepare().await?;
    say(
        "Ready",
        &format!(
            "gateways {:?}, console at {}",
            stage.callback_urls(),
            stage.console()
        ),
    );
    Ok(stage)
}
