//! `test`: every check, one after the other, each with a name, and a table of what came of them.
//!
//! A new check is one entry in [`steps::all`]. A step that cannot run here (a tool that is not installed) is left out
//! and says so; a step that finds something wrong fails, and the others still run.

mod count;
mod deny;
mod peers;
mod run;
mod steps;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use count::Counts;
pub(crate) use run::cargo;
use steps::Step;

use crate::progress::{fail, print, say};
use crate::services::{Package, ensure};

/// Run all checks: formatting, lints, documentation, dependencies, tests against real services.
///
/// Missing services are installed (Debian, as root) or named. Ends with a table of the steps, the test runner's
/// closing lines and a line `N passed, N failed`; the exit status is 0 only if no step failed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these steps (see --list).
    #[arg(value_name = "STEP")]
    only: Vec<String>,
    /// Not this step; may be given more than once.
    #[arg(long, value_name = "STEP")]
    skip: Vec<String>,
    /// Stop at the first step that fails.
    #[arg(long)]
    fail_fast: bool,
    /// Print the names of the steps and what each does.
    #[arg(long)]
    list: bool,
    /// More arguments for the test runner, such as a filter: `cargo xtask test tests -- -E 'test(fence)'`.
    #[arg(last = true, value_name = "ARG")]
    runner: Vec<String>,
}

/// What came of a step.
#[derive(Debug)]
pub(crate) enum Outcome {
    Passed(Counts),
    /// Why it could not run here.
    LeftOut(String),
    /// What is wrong, in one line; the details were printed.
    Failed {
        why: String,
        counts: Counts,
    },
}

/// A finished step.
#[derive(Debug)]
struct Finished {
    name: &'static str,
    outcome: Outcome,
    /// Which tool was missing, and what did its work.
    instead: Option<&'static str>,
    took: Duration,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let all = steps::all();
    if args.list {
        for step in &all {
            print(&format!("{:<10} {}", step.name, step.what));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = choose(all, &args)?;
    let context = steps::Context {
        runner: args.runner,
    };
    let packages: Vec<Package> = chosen
        .iter()
        .flat_map(|step| step.packages)
        .copied()
        .collect();
    if let Err(error) = ensure(&packages) {
        // Known now and not after the minutes before the step that needs it; that one fails, and the others still run.
        fail(&format!("{error:#}"));
    }
    let mut finished = Vec::new();
    for step in chosen {
        say("Checking", &format!("{}: {}", step.name, step.what));
        let start = Instant::now();
        let outcome = (step.run)(&context).unwrap_or_else(|error| Outcome::Failed {
            why: format!("{error:#}"),
            counts: Counts::default(),
        });
        let failed = matches!(outcome, Outcome::Failed { .. });
        finished.push(Finished {
            name: step.name,
            outcome,
            instead: (step.instead)(),
            took: start.elapsed(),
        });
        if failed && args.fail_fast {
            break;
        }
    }
    Ok(summary(&finished))
}

fn choose(all: Vec<Step>, args: &Args) -> anyhow::Result<Vec<Step>> {
    for name in args.only.iter().chain(&args.skip) {
        anyhow::ensure!(
            all.iter().any(|step| step.name == name),
            "there is no step {name}: see cargo xtask test --list"
        );
    }
    Ok(all
        .into_iter()
        .filter(|step| args.only.is_empty() || args.only.iter().any(|name| name == step.name))
        .filter(|step| !args.skip.iter().any(|name| name == step.name))
        .collect())
}

/// What a green table does not say: which steps did not run, or not with the tool that they are meant for.
fn remarks(finished: &[Finished]) -> Vec<String> {
    let mut lines = Vec::new();
    for step in finished {
        if let Outcome::LeftOut(why) = &step.outcome {
            lines.push(format!("{} was left out: {why}", step.name));
        } else if let Some(instead) = step.instead {
            lines.push(format!("{}: {instead}", step.name));
        }
    }
    lines
}

/// Prints the table, the closing lines and the count.
fn summary(finished: &[Finished]) -> ExitCode {
    let mut total = Counts::default();
    print("");
    print("step       result      time  ");
    for step in finished {
        let (result, note) = match &step.outcome {
            Outcome::Passed(counts) => {
                total.add(counts);
                ("passed", counts.to_string())
            }
            Outcome::LeftOut(why) => ("left out", why.clone()),
            Outcome::Failed { why, counts } => {
                total.add(counts);
                // A failed step is a failure even where no test of it was counted.
                total.failed += u64::from(counts.failed == 0);
                ("FAILED", why.lines().next().unwrap_or_default().to_owned())
            }
        };
        let seconds = step.took.as_secs_f64();
        let line = format!("{:<10} {result:<8} {seconds:>6.1} s  {note}", step.name);
        print(line.trim_end());
    }
    for line in finished.iter().filter_map(|step| match &step.outcome {
        Outcome::Failed { why, .. } => why.split_once('\n').map(|(_, more)| more),
        _ => None,
    }) {
        print(line);
    }
    print("");
    for line in &total.closing {
        print(line);
    }
    for line in remarks(finished) {
        print(&line);
    }
    print(&format!("{} passed, {} failed", total.passed, total.failed));
    if total.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_done_as_meant_is_said() {
        let step = |name, outcome, instead| Finished {
            name,
            outcome,
            instead,
            took: Duration::ZERO,
        };
        let passed = || Outcome::Passed(Counts::default());
        let finished = [
            step("fmt", passed(), None),
            step("deny", passed(), Some("cargo-deny is not installed: x")),
            step("peers", Outcome::LeftOut("not installed: npm".into()), None),
        ];
        assert_eq!(
            remarks(&finished),
            [
                "deny: cargo-deny is not installed: x",
                "peers was left out: not installed: npm"
            ]
        );
    }
}
