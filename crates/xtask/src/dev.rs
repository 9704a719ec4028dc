//! `up` and `down`: a Redis and a Postgres to develop against, kept over restarts.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::process::{is_alive, signal};
use crate::progress::{print, say};
use crate::root;
use crate::runs::Lock;
use crate::services::{Keep, Services};

/// Held by the process that keeps the servers.
const LOCK: &str = "lock";
const LIMIT: Duration = Duration::from_secs(120);

/// Start a private Redis and Postgres for development and print their addresses.
///
/// Data stay in `.paidan/dev` until `down --wipe`. Both keep everything they acknowledge, as in production.
#[derive(Debug, clap::Args)]
pub(crate) struct UpArgs {
    /// Stay and end both on Ctrl-C, instead of leaving them to `cargo xtask down`.
    #[arg(long)]
    foreground: bool,
}

/// End what `up` started.
#[derive(Debug, clap::Args)]
pub(crate) struct DownArgs {
    /// Also throw the data away.
    #[arg(long)]
    wipe: bool,
}

/// What the keeper of the servers tells the others.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    pid: u32,
    redis_port: u16,
    postgres_port: u16,
    redis_url: String,
    postgres_url: String,
    /// False once they were ended: the ports are still worth another try.
    running: bool,
}

pub(crate) fn up(args: UpArgs) -> anyhow::Result<ExitCode> {
    let folder = root::folder("dev")?;
    if let Some(state) = running(&folder) {
        say("Running", "already; `cargo xtask down` ends it");
        show(&state);
        return Ok(ExitCode::SUCCESS);
    }
    if args.foreground {
        return keep(&folder);
    }
    let mut child = detached(&folder)?;
    let start = Instant::now();
    loop {
        let state = state(&folder).filter(|state| state.running && state.pid == child.id());
        if let Some(state) = state {
            show(&state);
            return Ok(ExitCode::SUCCESS);
        }
        let ended = child.try_wait()?;
        if ended.is_some() || start.elapsed() > LIMIT {
            let log = std::fs::read_to_string(folder.join("up.log")).unwrap_or_default();
            anyhow::bail!("the servers did not start:\n{log}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn down(args: DownArgs) -> anyhow::Result<ExitCode> {
    let folder = root::folder("dev")?;
    match running(&folder) {
        Some(state) => {
            signal(state.pid, "TERM");
            let start = Instant::now();
            while is_alive(state.pid) {
                anyhow::ensure!(
                    start.elapsed() < LIMIT,
                    "process {} does not end",
                    state.pid
                );
                std::thread::sleep(Duration::from_millis(20));
            }
            say("Ended", "Redis and Postgres");
        }
        None => say("Ended", "nothing was running"),
    }
    if args.wipe {
        let _nobody_starts = take(&folder)?;
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
        say("Removed", &folder.display().to_string());
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs both until a signal comes.
fn keep(folder: &Path) -> anyhow::Result<ExitCode> {
    let _ours = take(folder)?;
    let mut ports = None;
    if let Some(mut last) = state(folder) {
        ports = Some((last.redis_port, last.postgres_port));
        // Whoever was killed said that it runs, and was not there to take it back.
        last.running = false;
        write(folder, &last)?;
    }
    let services = Services::start(folder, Keep::Everything, ports)?;
    let mut state = State {
        pid: std::process::id(),
        redis_port: services.redis.port(),
        postgres_port: services.postgres.port(),
        redis_url: services.redis.url(),
        postgres_url: services.postgres.url("postgres"),
        running: true,
    };
    write(folder, &state)?;
    show(&state);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let lost = runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut interrupt, mut terminate) = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        );
        loop {
            tokio::select! {
                _ = interrupt.recv() => return anyhow::Ok(false),
                _ = terminate.recv() => return Ok(false),
                () = tokio::time::sleep(Duration::from_secs(1)) => {
                    if !services.redis.is_running() || !services.postgres.is_running() {
                        return Ok(true);
                    }
                }
            }
        }
    })?;
    drop(services);
    state.running = false;
    write(folder, &state)?;
    anyhow::ensure!(!lost, "a server ended by itself: see {}", folder.display());
    Ok(ExitCode::SUCCESS)
}

/// Ourselves once more, in a session of its own so that no Ctrl-C of this terminal reaches it.
fn detached(folder: &Path) -> anyhow::Result<std::process::Child> {
    let log = std::fs::File::create(folder.join("up.log"))?;
    let mut command = Command::new("setsid");
    command
        .arg(std::env::current_exe()?)
        .args(["up", "--foreground"])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    command.spawn().context("cannot start setsid (util-linux)")
}

fn show(state: &State) {
    print(&format!("export PAIDAN__REDIS__URL={}", state.redis_url));
    print(&format!(
        "export PAIDAN_POSTGRES_URL={}",
        state.postgres_url
    ));
}

fn running(folder: &Path) -> Option<State> {
    // A process id may have been given to another since, even to one of our own; the lock is its keeper's alone.
    state(folder).filter(|state| state.running && Lock::is_held(&folder.join(LOCK)))
}

/// The folder, for as long as the lock is kept.
fn take(folder: &Path) -> anyhow::Result<Lock> {
    let start = Instant::now();
    loop {
        if let Some(lock) = Lock::take(&folder.join(LOCK))? {
            return Ok(lock);
        }
        // Whoever only looks whether it is held holds it for an instant.
        anyhow::ensure!(
            start.elapsed() < Duration::from_secs(1),
            "another `cargo xtask up` is starting or ending in {}",
            folder.display()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn state(folder: &Path) -> Option<State> {
    serde_json::from_slice(&std::fs::read(path(folder)).ok()?).ok()
}

fn write(folder: &Path, state: &State) -> anyhow::Result<()> {
    let new = path(folder).with_extension("new");
    std::fs::write(&new, serde_json::to_vec_pretty(state)?)?;
    std::fs::rename(new, path(folder))?;
    Ok(())
}

fn path(folder: &Path) -> PathBuf {
    folder.join("state.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_was_killed_does_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let said = State {
            // There is such a process, and it is an xtask.
            pid: std::process::id(),
            redis_port: 1,
            postgres_port: 2,
            redis_url: String::new(),
            postgres_url: String::new(),
            running: true,
        };
        write(folder, &said).unwrap();
        assert!(running(folder).is_none());
        let lock = take(folder).unwrap();
        assert_eq!(running(folder).map(|state| state.redis_port), Some(1));
        let refused = take(folder).unwrap_err().to_string();
        assert!(refused.contains("another `cargo xtask up`"), "{refused}");
        drop(lock);
        assert!(running(folder).is_none());
    }
}
