//! The programs that tests and demos need: installed where that is ours to do, else named.

use std::fmt::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use crate::process::{find, is_root};
use crate::progress::say;

/// What may be missing on a machine that has only Rust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Package {
    Redis,
    Postgres,
    /// For tests behind a pooler.
    PgBouncer,
    /// `setpriv`, `setsid`, `flock`.
    UtilLinux,
    /// `kill` as a program.
    Procps,
}

impl Package {
    fn is_there(self) -> bool {
        match self {
            Package::Redis => find("redis-server").is_some() && find("redis-cli").is_some(),
            Package::Postgres => super::postgres::bin_folder().is_some(),
            Package::PgBouncer => find("pgbouncer").is_some(),
            Package::UtilLinux => ["setpriv", "setsid", "flock"]
                .iter()
                .all(|program| find(program).is_some()),
            Package::Procps => find("kill").is_some(),
        }
    }

    fn debian(self) -> &'static str {
        match self {
            Package::Redis => "redis-server",
            Package::Postgres => "postgresql",
            Package::PgBouncer => "pgbouncer",
            Package::UtilLinux => "util-linux",
            Package::Procps => "procps",
        }
    }

    fn elsewhere(self) -> &'static str {
        match self {
            Package::Redis => "Redis 7.0 or later: redis-server and redis-cli on the search path",
            Package::Postgres => {
                "PostgreSQL 15 or later: postgres and initdb on the search path, or PAIDAN_POSTGRES_BIN=<their folder>"
            }
            Package::PgBouncer => "PgBouncer: pgbouncer on the search path",
            Package::UtilLinux => "util-linux: setpriv, setsid and flock",
            Package::Procps => "a kill program (procps)",
        }
    }
}

/// Installs what is missing with apt-get, as root on Debian; anywhere else an error that says what to install.
pub(crate) fn ensure(packages: &[Package]) -> anyhow::Result<()> {
    let mut missing = Vec::new();
    for package in packages.iter().chain(&[Package::UtilLinux]) {
        if !missing.contains(package) && !package.is_there() {
            missing.push(*package);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root() || find("apt-get").is_none() {
        anyhow::bail!(advice(&missing));
    }
    apt_get(&missing)?;
    let still: Vec<Package> = missing
        .into_iter()
        .filter(|package| !package.is_there())
        .collect();
    if still.is_empty() {
        Ok(())
    } else {
        anyhow::bail!(advice(&still))
    }
}

fn advice(missing: &[Package]) -> String {
    let mut text = String::from("missing on this machine:");
    for package in missing {
        // Writing to a String cannot fail.
        write!(text, "\n  - {}", package.elsewhere()).ok();
    }
    let names: Vec<&str> = missing.iter().map(|package| package.debian()).collect();
    let debian = names.join(" ");
    write!(
        text,
        "\nOn Debian or Ubuntu: sudo apt-get install --no-install-recommends {debian}"
    )
    .ok();
    text
}

fn apt_get(missing: &[Package]) -> anyhow::Result<()> {
    let names: Vec<&str> = missing.iter().map(|package| package.debian()).collect();
    say("Installing", &format!("{} (apt-get)", names.join(", ")));
    let _quiet = NoAutostart::new();
    let run = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
        command.output()
    };
    // Lists may be old or absent; whether that matters the next command tells.
    run(&["update", "-q"]).ok();
    let mut args = vec!["install", "-q", "-y", "--no-install-recommends"];
    args.extend(&names);
    let output = run(&args)?;
    if !output.status.success() {
        anyhow::bail!(
            "apt-get install {} failed: {}\n{}",
            names.join(" "),
            String::from_utf8_lossy(&output.stderr).trim(),
            advice(missing)
        );
    }
    Ok(())
}

/// While it lives, packages do not start their services: `policy-rc.d` is Debian's way to ask for that.
struct NoAutostart {
    ours: bool,
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

impl NoAutostart {
    fn new() -> Self {
        let made = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(Path::new(POLICY));
        let ours = made.is_ok_and(|mut file| {
            std::io::Write::write_all(&mut file, b"#!/bin/sh\nexit 101\n").is_ok()
        });
        Self { ours }
    }
}

impl Drop for NoAutostart {
    fn drop(&mut self) {
        if self.ours {
            std::fs::remove_file(POLICY).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_names_everything_and_one_command() {
        let text = advice(&[Package::Redis, Package::Postgres]);
        assert!(
            text.contains("Redis 7.0 or later") && text.contains("PAIDAN_POSTGRES_BIN"),
            "{text}"
        );
        assert!(
            text.ends_with("apt-get install --no-install-recommends redis-server postgresql"),
            "{text}"
        );
    }
}
