//! `prove`: a stated scenario against real processes and the fake WeCom, and every promise counted at the end.
//!
//! Two gateways and two allocators run as processes of their own over a private Redis (AOF `always`) and Postgres; the
//! fake WeCom plays the customers. What is checked is read from the stores and from the simulator's own counters, never
//! from what the processes say of themselves. `--sabotage` breaks one promise on purpose before the checks: a proof
//! that cannot fail is none.

pub(crate) mod checks;
mod faults;
pub(crate) mod surge;

use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;

use crate::progress::{print, say};
use crate::stage::{Stage, Wishes};
use checks::Invariant;

/// Run a scenario against real processes and the fake WeCom, and check every promise at the end.
///
/// The last line is `{"scenario":…,"passed":…,"figures":{…}}`; the exit status says whether every invariant held.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// surge: customers while processes die. faults: the same while stores and WeCom misbehave.
    #[arg(value_enum)]
    scenario: Scenario,
    /// Share of the stated size.
    #[arg(long, default_value_t = 0.05)]
    scale: f64,
    /// The stated size and times, release build.
    #[arg(long)]
    full: bool,
    /// Which processes die when, and what the simulator does.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the last line.
    #[arg(long)]
    json: bool,
    /// Break a promise on purpose before the checks; the run must then fail.
    #[arg(long, value_enum)]
    sabotage: Option<Sabotage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Scenario {
    Surge,
    Faults,
}

/// What is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sabotage {
    /// A member's load in Redis is one too high.
    Load,
    /// One customer has a second allocation in the ledger.
    Twice,
    /// One entry is missing from the ledger's log.
    Log,
    /// One customer is moved to a second member behind our back.
    Transfer,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let scale = if args.full { 1.0 } else { args.scale };
    anyhow::ensure!(
        scale > 0.0 && scale <= 1.0,
        "--scale {scale}: must be above 0 and at most 1"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let (invariants, figures) = runtime.block_on(async {
        match args.scenario {
            Scenario::Surge => surge::run(scale, &args).await,
            Scenario::Faults => faults::run(scale, &args).await,
        }
    })?;
    let passed = invariants.iter().all(|one| one.holds);
    if !args.json {
        for one in &invariants {
            let mark = if one.holds { "holds " } else { "BROKEN" };
            print(&format!(
                "{mark} {:<58} {:>9} checked  {}",
                one.name, one.checked, one.found
            ));
        }
    }
    let name = match args.scenario {
        Scenario::Surge => "surge",
        Scenario::Faults => "faults",
    };
    print(&json!({"scenario": name, "passed": passed, "figures": figures}).to_string());
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Builds the programs and starts the stage.
async fn start(args: &Args, wishes: Wishes) -> anyhow::Result<Stage> {
    let stage = tokio::task::block_in_place(|| Stage::start("prove", wishes, args.full, args.seed))
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

/// What both scenarios check at the end, after the sabotage if there is one.
async fn conclude(stage: &Stage, args: &Args, customers: u64) -> anyhow::Result<Vec<Invariant>> {
    if let Some(sabotage) = args.sabotage {
        stage.sabotage(sabotage).await?;
    }
    checks::all(stage, customers).await
}
