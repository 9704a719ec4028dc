//! A private Redis.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::{Keep, start_on};
use crate::process::{Process, Spec, find};
use crate::progress::say;

const START_LIMIT: Duration = Duration::from_secs(60);
/// The first version whose scripts may begin with `#!lua`.
const LEAST: u32 = 7;

#[derive(Debug)]
pub(crate) struct Redis {
    process: Process,
    port: u16,
}

impl Redis {
    pub(crate) fn start(folder: &Path, keep: Keep, wished: Option<u16>) -> anyhow::Result<Self> {
        let program = find("redis-server").context("no redis-server on the search path")?;
        let version = version(&program)?;
        let data = folder.join("redis");
        std::fs::create_dir_all(&data)?;
        mend(&data)?;
        let redis = start_on(wished, |port| {
            let mut process = Process::start(spec(&program, folder, &data, port, keep))?;
            let pid = process.id();
            process.wait_until(START_LIMIT, || process_id_at(port) == Some(pid))?;
            Ok(Self { process, port })
        })?;
        say("Started", &format!("Redis {version} at {}", redis.url()));
        Ok(redis)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.is_running()
    }
}

fn spec(program: &Path, folder: &Path, data: &Path, port: u16, keep: Keep) -> Spec {
    let spec = Spec::new("Redis", program, &folder.join("redis.log"))
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .arg("--dir")
        .arg(data)
        .args(["--save", "", "--maxmemory-policy", "noeviction"]);
    match keep {
        Keep::Nothing => spec.args(["--appendonly", "no"]),
        Keep::Everything => spec.args(["--appendonly", "yes", "--appendfsync", "always"]),
    }
}

/// Cuts an incomplete script call off the end of the append-only file, at its beginning: loading alone would cut off
/// only the last command of it and run the rest.
fn mend(data: &Path) -> anyhow::Result<()> {
    let manifest = data.join("appendonlydir/appendonly.aof.manifest");
    let (true, Some(program)) = (manifest.exists(), find("redis-check-aof")) else {
        return Ok(());
    };
    let mut check = Command::new(program)
        .arg("--fix")
        .arg(manifest)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()?;
    // It asks only when there is something to mend.
    if let Some(mut answer) = check.stdin.take() {
        answer.write_all(b"y\n").ok();
    }
    let status = check.wait()?;
    anyhow::ensure!(status.success(), "redis-check-aof --fix: {status}");
    Ok(())
}

/// Refuses a server that is too old for our scripts.
fn version(program: &PathBuf) -> anyhow::Result<String> {
    let output = Command::new(program).arg("--version").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix("v="))
        .with_context(|| format!("{} --version says: {text}", program.display()))?;
    let major = version
        .split('.')
        .next()
        .and_then(|n| n.parse::<u32>().ok());
    anyhow::ensure!(
        major.is_some_and(|major| major >= LEAST),
        "Redis {version} is too old: {LEAST}.0 or later is needed"
    );
    Ok(version.to_owned())
}

/// Who answers there, once it answers and has loaded its data: ours, or a stranger who took the port.
fn process_id_at(port: u16) -> Option<u32> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.write_all(b"PING\r\nINFO server\r\nQUIT\r\n").ok()?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    if !text.starts_with("+PONG") {
        return None;
    }
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"))?;
    line.trim().parse().ok()
}
