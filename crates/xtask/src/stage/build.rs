//! The programs of the stage, built by the cargo that runs us.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::SECRET;
use crate::check::cargo;
use crate::progress::say;
use crate::{ending, process, root};

const NAMES: [&str; 3] = ["gateway", "allocator", "wecom-sim"];
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often whoever reads a log hears that it goes on.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// Which programs play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    Debug,
    Release,
    /// Those that `cargo build --workspace --bins --tests` left. It chooses the features of what all depend on for the whole
    /// workspace: built by their names, the programs would have other ones, and all of it would be built once more.
    OfTests,
}

pub(super) struct Programs {
    folder: PathBuf,
}

impl Programs {
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

pub(super) fn build(build: Build) -> anyhow::Result<Programs> {
    let (profile, folder) = match build {
        Build::Debug | Build::OfTests => ("dev", "debug"),
        Build::Release => ("release", "release"),
    };
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root::checkout().join("target"), PathBuf::from);
    let programs = Programs {
        folder: target.join(folder),
    };
    if build == Build::OfTests {
        for path in NAMES.map(|name| programs.path(name)) {
            anyhow::ensure!(path.exists(), "{} is not built", path.display());
        }
        return Ok(programs);
    }
    say(
        "Building",
        &format!(
            "{} ({profile}); the first time this takes minutes",
            NAMES.join(", ")
        ),
    );
    let mut command = cargo(&["build", "--profile", profile, "--bins"]);
    command.args(NAMES.iter().flat_map(|name| ["-p", name]));
    // On a terminal cargo shows how far it is; elsewhere it would write a line for each of hundreds of crates.
    let quiet = !std::io::stderr().is_terminal();
    if quiet {
        command.arg("--quiet");
    }
    let child = command.stdin(Stdio::null()).spawn().context("cargo")?;
    let built = wait(child, quiet)?;
    ending::check()?;
    anyhow::ensure!(built, "the programs do not build");
    Ok(programs)
}

/// Whether it succeeded. Says now and then that it goes on; ends it when we are to end.
fn wait(mut child: Child, tell: bool) -> anyhow::Result<bool> {
    let start = Instant::now();
    let mut told = Duration::ZERO;
    let mut asked = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        // Ctrl-C reached cargo by itself, for it is in our group; SIGTERM did not.
        if !asked && ending::asked().is_some() {
            process::signal(child.id(), "TERM");
            asked = true;
        }
        if tell && start.elapsed() - told >= TELL_EVERY {
            told = start.elapsed();
            say("Building", &format!("still, for {} s", told.as_secs()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// One of the allocator's commands; answers what it printed.
pub(super) fn command(
    programs: &Programs,
    config: &Path,
    postgres_url: &str,
    args: &[&str],
) -> anyhow::Result<String> {
    let output = Command::new(programs.path("allocator"))
        .arg("--config")
        .arg(config)
        .args(args)
        .env("APP_SECRET", SECRET)
        .env("PAIDAN_POSTGRES_URL", postgres_url)
        .env("RUST_LOG", "warn")
        .output()?;
    ending::check()?;
    anyhow::ensure!(
        output.status.success(),
        "allocator {}: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
