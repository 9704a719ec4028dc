//! A private Postgres. It refuses root, so as root it runs as the user of Debian's package.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::{Keep, start_on};
use crate::process::{Process, Spec, as_user, find, is_root};
use crate::progress::say;

const START_LIMIT: Duration = Duration::from_secs(60);
const USER: &str = "postgres";

#[derive(Debug)]
pub(crate) struct Postgres {
    process: Process,
    port: u16,
}

impl Postgres {
    pub(crate) fn start(folder: &Path, keep: Keep, wished: Option<u16>) -> anyhow::Result<Self> {
        let bin = bin_folder().context("no PostgreSQL on this machine")?;
        let version = version(&bin)?;
        let data = folder.join("postgres");
        if !data.join("PG_VERSION").exists() {
            init(&bin, &data)?;
        }
        let postgres = start_on(wished, |port| {
            let mut process = Process::start(spec(&bin, folder, &data, port, keep))?;
            process.wait_until(START_LIMIT, || is_ready(&bin, port))?;
            Ok(Self { process, port })
        })?;
        say(
            "Started",
            &format!("{version} at {}", postgres.url("postgres")),
        );
        Ok(postgres)
    }

    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://app@127.0.0.1:{}/{database}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn is_running(&self) -> bool {
        self.process.is_running()
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }
}

/// The newest folder with `postgres` and `initdb`; `PAIDAN_POSTGRES_BIN` wins.
pub(crate) fn bin_folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("PAIDAN_POSTGRES_BIN") {
        return Some(folder.into());
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let newest = versions
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse::<u32>().ok()?,
                entry.path().join("bin"),
            ))
        })
        .filter(|(_, bin)| bin.join("postgres").exists())
        .max()
        .map(|(_, bin)| bin);
    newest.or_else(|| {
        let bin = find("postgres")?.parent()?.to_owned();
        bin.join("initdb").exists().then_some(bin)
    })
}

fn user() -> Option<&'static str> {
    is_root().then_some(USER)
}

fn init(bin: &Path, data: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(data)?;
    if is_root() {
        run(Command::new("chown")
            .arg(format!("{USER}:{USER}"))
            .arg(data))?;
    }
    let mut initdb = Command::new("setpriv");
    initdb
        .args(as_user(user()))
        .arg("--")
        .arg(bin.join("initdb"));
    initdb.arg("-D").arg(data).current_dir("/");
    initdb.args(["-U", "app", "-A", "trust", "-E", "UTF8"]);
    // The order of C.UTF-8 is that of C, where comparing two keys needs no locale.
    initdb.args(["--locale=C.UTF-8", "--lc-collate=C"]);
    initdb.args(["--no-sync", "--no-instructions"]);
    run(&mut initdb)
}

fn spec(bin: &Path, folder: &Path, data: &Path, port: u16, keep: Keep) -> Spec {
    let settings = [
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "max_connections=400",
    ];
    let fast = [
        "shared_buffers=64MB",
        "max_wal_size=256MB",
        "fsync=off",
        "synchronous_commit=off",
        "full_page_writes=off",
    ];
    // As in docker-compose.yml: what a surge touches stays in memory, and checkpoints do not chase each other.
    let kept = ["shared_buffers=512MB", "max_wal_size=4GB"];
    let chosen: &[&str] = match keep {
        Keep::Nothing => &fast,
        Keep::Everything => &kept,
    };
    Spec::new(
        "Postgres",
        bin.join("postgres"),
        &folder.join("postgres.log"),
    )
    .user(user())
    // Fast shutdown: sessions are cut, nothing committed is lost.
    .stop_signal("INT")
    // Immediate shutdown: killed outright, it would leave shared memory behind.
    .kill_signal("QUIT")
    .arg("-D")
    .arg(data)
    .args(["-p", &port.to_string()])
    .args(
        settings
            .iter()
            .chain(chosen)
            .flat_map(|setting| ["-c", setting]),
    )
}

fn is_ready(bin: &Path, port: u16) -> bool {
    let mut command = Command::new(bin.join("pg_isready"));
    command.args([
        "-q",
        "-t",
        "2",
        "-h",
        "127.0.0.1",
        "-U",
        "app",
        "-d",
        "postgres",
    ]);
    command.args(["-p", &port.to_string()]);
    command.status().is_ok_and(|status| status.success())
}

fn version(bin: &Path) -> anyhow::Result<String> {
    let output = Command::new(bin.join("postgres"))
        .arg("--version")
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text
        .split_whitespace()
        .nth(2)
        .unwrap_or("of unknown version");
    Ok(format!("PostgreSQL {number}"))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    anyhow::ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
