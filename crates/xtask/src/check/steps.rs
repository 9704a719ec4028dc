//! The checks themselves. Cheap ones first.

use anyhow::Context as _;

use super::Outcome;
use super::count::Counts;
use super::deny::{TREE, check};
use super::peers;
use super::run::{cargo, has_cargo, keep, show, show_and_keep};
use crate::progress::say;
use crate::root;
use crate::runs::RunFolder;
use crate::services::{Keep, Package, Postgres, ensure};

/// What the steps are given.
pub(crate) struct Context {
    /// More arguments for the test runner.
    pub(crate) runner: Vec<String>,
}

/// One check.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// What must be on the machine; all steps' packages are installed before the first step.
    pub(crate) packages: &'static [Package],
    /// Which tool is missing that does it better, and what does it now.
    pub(crate) instead: fn() -> Option<&'static str>,
    pub(crate) run: fn(&Context) -> anyhow::Result<Outcome>,
}

const STORES: [Package; 2] = [Package::Redis, Package::Postgres];
const TESTS: [Package; 4] = [
    Package::Redis,
    Package::Postgres,
    Package::PgBouncer,
    Package::Procps,
];

fn no_deny() -> Option<&'static str> {
    (!has_cargo("deny")).then_some(
        "cargo-deny is not installed: checked by our own reading of deny.toml, which sees less",
    )
}

fn no_nextest() -> Option<&'static str> {
    (!has_cargo("nextest")).then_some("cargo-nextest is not installed: run by cargo test")
}

/// All checks in their order.
pub(crate) fn all() -> Vec<Step> {
    vec![
        Step {
            name: "fmt",
            what: "the code is formatted",
            packages: &[],
            instead: || None,
            run: fmt,
        },
        Step {
            name: "clippy",
            what: "no lint complains",
            packages: &[],
            instead: || None,
            run: clippy,
        },
        Step {
            name: "rustdoc",
            what: "the documentation builds without a warning",
            packages: &[],
            instead: || None,
            run: rustdoc,
        },
        Step {
            name: "deny",
            what: "bans, licences and sources of all dependencies, by deny.toml",
            packages: &[],
            instead: no_deny,
            run: deny,
        },
        Step {
            name: "tests",
            what: "all tests, with real services (cargo-nextest, else cargo test)",
            packages: &TESTS,
            instead: no_nextest,
            run: tests,
        },
        Step {
            name: "peers",
            what: "callbacks that other libraries sealed (npm @wecom/crypto, PyPI wechatpy)",
            packages: &STORES,
            instead: || None,
            run: peers,
        },
        Step {
            name: "prove",
            what: "surge, faults, visits and seats against real processes, scaled down; and that broken promises are caught",
            packages: &STORES,
            instead: || None,
            run: prove,
        },
        Step {
            name: "doctests",
            what: "the examples in the documentation",
            packages: &[],
            instead: || None,
            run: doctests,
        },
    ]
}

fn fmt(_: &Context) -> anyhow::Result<Outcome> {
    if !has_cargo("fmt") {
        return Ok(Outcome::LeftOut(
            "not installed: rustup component add rustfmt".into(),
        ));
    }
    // Names only: a diff of everything would bury the rest.
    let ok = show(&mut cargo(&["fmt", "--all", "--check", "--", "-l"]))?;
    Ok(plain(ok, "run cargo fmt --all"))
}

fn clippy(_: &Context) -> anyhow::Result<Outcome> {
    if !has_cargo("clippy") {
        return Ok(Outcome::LeftOut(
            "not installed: rustup component add clippy".into(),
        ));
    }
    let args = [
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--features",
        "e2e/peers",
        "--",
        "-D",
        "warnings",
    ];
    Ok(plain(show(&mut cargo(&args))?, "see clippy's words above"))
}

fn rustdoc(_: &Context) -> anyhow::Result<Outcome> {
    let mut command = cargo(&["doc", "--locked", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    Ok(plain(show(&mut command)?, "see rustdoc's words above"))
}

fn deny(_: &Context) -> anyhow::Result<Outcome> {
    if has_cargo("deny") {
        // Advisories need a database from the network.
        let args = [
            "deny",
            "--offline",
            "--workspace",
            "check",
            "--hide-inclusion-graph",
            "bans",
            "licenses",
            "sources",
        ];
        return Ok(plain(
            show(&mut cargo(&args))?,
            "see cargo-deny's words above",
        ));
    }
    let rules = std::fs::read_to_string(root::checkout().join("deny.toml"))?;
    let rules = toml::from_str(&rules).context("deny.toml")?;
    let output = cargo(TREE).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "cargo tree failed\n{errors}");
    let (built, problems) = check(&rules, &String::from_utf8_lossy(&output.stdout));
    if problems.is_empty() {
        say("Checked", &format!("{built} packages"));
        return Ok(Outcome::Passed(Counts::default()));
    }
    Ok(Outcome::Failed {
        why: format!("{} problems\n{}", problems.len(), problems.join("\n")),
        counts: Counts::default(),
    })
}

fn tests(context: &Context) -> anyhow::Result<Outcome> {
    ensure(&TESTS)?;
    let folder = RunFolder::new("test")?;
    // One server for all test processes, with a database for each test. Redis servers the tests start themselves.
    let postgres = Postgres::start(folder.path(), Keep::Nothing, None)?;
    let mut command = if has_cargo("nextest") {
        let mut command = cargo(&[
            "nextest",
            "run",
            "--locked",
            "--workspace",
            "--no-fail-fast",
        ]);
        command.args(["--config-file", "config/nextest.toml"]);
        command
    } else {
        cargo(&[
            "test",
            "--locked",
            "--workspace",
            "--all-targets",
            "--no-fail-fast",
        ])
    };
    command.args(&context.runner);
    command.env("PAIDAN_TEST_POSTGRES", postgres.url("postgres"));
    let (ok, output) = show_and_keep(&mut command)?;
    Ok(counted(ok, &output))
}

fn peers(_: &Context) -> anyhow::Result<Outcome> {
    if let Some(missing) = peers::missing() {
        return Ok(Outcome::LeftOut(missing));
    }
    let installed = root::folder("peers")?;
    peers::install(&installed)?;
    ensure(&STORES)?;
    let folder = RunFolder::new("test")?;
    let postgres = Postgres::start(folder.path(), Keep::Nothing, None)?;
    // Of the workspace, not of its package: what all depend on is there with the features that it chooses.
    let args = [
        "test",
        "--locked",
        "--workspace",
        "--features",
        "e2e/peers",
        "--test",
        "peers",
    ];
    let mut command = cargo(&args);
    command.env("PAIDAN_PEERS", installed);
    command.env("PAIDAN_TEST_POSTGRES", postgres.url("postgres"));
    let (ok, output) = show_and_keep(&mut command)?;
    Ok(counted(ok, &output))
}

fn doctests(_: &Context) -> anyhow::Result<Outcome> {
    let args = ["test", "--locked", "--workspace", "--doc", "--no-fail-fast"];
    // Most crates have none and say so at length.
    let (ok, output) = keep(&mut cargo(&args))?;
    let mut outcome = counted(ok, &output);
    // One closing line for each crate, most of them "0 passed": the table has the sum.
    if let Outcome::Passed(counts) = &mut outcome {
        counts.closing.clear();
    }
    Ok(outcome)
}

fn plain(ok: bool, why: &str) -> Outcome {
    if ok {
        Outcome::Passed(Counts::default())
    } else {
        Outcome::Failed {
            why: why.to_owned(),
            counts: Counts::default(),
        }
    }
}

fn counted(ok: bool, output: &str) -> Outcome {
    let counts = Counts::read(output);
    if ok && counts.failed == 0 {
        Outcome::Passed(counts)
    } else {
        let why = match counts.failed {
            0 => "the tests did not run to their end: see above".to_owned(),
            failed => format!("{failed} failed, {} passed", counts.passed),
        };
        Outcome::Failed { why, counts }
    }
}

/// All scenarios, small, and their self-tests.
fn prove(_: &Context) -> anyhow::Result<Outcome> {
    // Nothing to do after the tests.
    let args = ["build", "--locked", "--workspace", "--bins", "--tests"];
    if !show(&mut cargo(&args))? {
        return Ok(plain(false, "the programs do not build"));
    }
    for (scenario, scale) in [
        ("surge", "0.03"),
        ("faults", "0.03"),
        ("visits", "0.01"),
        ("seats", "0.01"),
    ] {
        // Through cargo: the tests may have replaced the program that runs this.
        let program = ["run", "--quiet", "--locked", "--package", "xtask", "--"];
        let mut command = cargo(&program);
        command.args([
            "prove",
            scenario,
            "--scale",
            scale,
            "--self-test",
            "--of-tests",
        ]);
        if !show(&mut command)? {
            return Ok(plain(
                false,
                "see the lines above that begin with BROKEN, or with Caught",
            ));
        }
    }
    Ok(plain(true, ""))
}
