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
/// A crash leaves at most one call half written. What is more than this is damage, and everything behind it would go.
const MOST_TO_CUT: u64 = 1024 * 1024;
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

    pub(crate) fn is_running(&self) -> bool {
        self.process.is_running()
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
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
        // A file that was not mended is refused.
        Keep::Everything => spec
            .args(["--appendonly", "yes", "--appendfsync", "always"])
            .args(["--aof-load-truncated", "no"]),
    }
}

/// Cuts an incomplete script call off the end of the append-only file, at its beginning: loading alone would cut off
/// only the last command of it and run the rest. Refuses to cut off more than a crash leaves.
fn mend(data: &Path) -> anyhow::Result<()> {
    let manifest = data.join("appendonlydir/appendonly.aof.manifest");
    let (true, Some(program)) = (manifest.exists(), find("redis-check-aof")) else {
        return Ok(());
    };
    let checked = Command::new(&program).arg(&manifest).output()?;
    if checked.status.success() {
        return Ok(());
    }
    let found = String::from_utf8_lossy(&checked.stdout);
    let cut = cut_off(&found);
    anyhow::ensure!(
        cut.is_some_and(|bytes| (1..=MOST_TO_CUT).contains(&bytes)),
        "{} is damaged, and redis-check-aof --fix would cut off everything behind the damage, which is more than a crash \
         leaves: look at it yourself, or remove the folder\n{found}",
        manifest.display()
    );
    let mut check = Command::new(program)
        .arg("--fix")
        .arg(manifest)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()?;
    if let Some(mut answer) = check.stdin.take() {
        answer.write_all(b"y\n").ok();
    }
    let status = check.wait()?;
    anyhow::ensure!(status.success(), "redis-check-aof --fix: {status}");
    Ok(())
}

/// How many bytes stand behind the first damage, as `redis-check-aof` says of the file that it looked at last.
fn cut_off(found: &str) -> Option<u64> {
    let line = found
        .lines()
        .rfind(|line| line.starts_with("AOF analyzed: "))?;
    line.rsplit_once(" diff=")?.1.trim().parse().ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Three writes: Redis puts MULTI before them and EXEC behind.
    const CALL: &str =
        "for _, key in ipairs({'a', 'b', 'c'}) do redis.call('SET', key, ARGV[1]) end";
    const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
    const FILE: &str = "redis/appendonlydir/appendonly.aof.1.incr.aof";

    fn connection(redis: &Redis) -> redis::Connection {
        let client = redis::Client::open(redis.url()).unwrap();
        client.get_connection().unwrap()
    }

    fn call(redis: &Redis, value: u8) {
        let mut eval = redis::cmd("EVAL");
        eval.arg(CALL).arg(0).arg(value);
        eval.exec(&mut connection(redis)).unwrap();
    }

    fn seen(redis: &Redis) -> Vec<u8> {
        let mut get = redis::cmd("MGET");
        get.arg(&["a", "b", "c"]);
        get.query(&mut connection(redis)).unwrap()
    }

    /// The file of a Redis that did the call with 1 and then with 2, and where the second call begins in it.
    fn two_calls(folder: &Path) -> (Vec<u8>, usize) {
        let redis = Redis::start(folder, Keep::Everything, None).unwrap();
        call(&redis, 1);
        call(&redis, 2);
        drop(redis);
        let whole = std::fs::read(folder.join(FILE)).unwrap();
        let begins = |at: &usize| whole[*at..].starts_with(MULTI);
        let second = (0..whole.len()).rfind(begins).unwrap();
        (whole, second)
    }

    /// Wherever the crash cut it, and however often Redis is started after that.
    #[test]
    fn a_call_comes_back_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, second) = two_calls(folder.path());
        let cuts = (second + 1..whole.len()).step_by(11);
        for end in cuts.chain([whole.len()]) {
            std::fs::write(folder.path().join(FILE), &whole[..end]).unwrap();
            let redis = Redis::start(folder.path(), Keep::Everything, None).unwrap();
            let expected = if end == whole.len() { 2 } else { 1 };
            assert_eq!(seen(&redis), [expected; 3], "cut at {end}");
            // A MULTI that was left open would swallow this, or run the half before it, at the next start.
            call(&redis, 3);
            drop(redis);
            let redis = Redis::start(folder.path(), Keep::Everything, None).unwrap();
            assert_eq!(seen(&redis), [3; 3], "cut at {end}");
        }
    }

    /// A bad sector in the middle: the hours behind it are not thrown away without asking.
    #[test]
    fn more_than_a_crash_leaves_is_not_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, second) = two_calls(folder.path());
        let mut damaged = whole[..second].to_vec();
        damaged.extend_from_slice(&[0; 16]);
        while damaged.len() < second + MOST_TO_CUT as usize {
            damaged.extend_from_slice(&whole[second..]);
        }
        let start = |bytes: &[u8]| {
            std::fs::write(folder.path().join(FILE), bytes).unwrap();
            Redis::start(folder.path(), Keep::Everything, None)
        };
        let most = &damaged[..second + MOST_TO_CUT as usize];
        let more = &damaged[..=second + MOST_TO_CUT as usize];
        let refused = start(more).unwrap_err().to_string();
        assert!(refused.contains("is damaged"), "{refused}");
        assert_eq!(std::fs::read(folder.path().join(FILE)).unwrap(), more);
        assert_eq!(seen(&start(most).unwrap()), [1; 3]);
    }

    #[test]
    fn a_file_that_was_not_mended_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, second) = two_calls(folder.path());
        // Behind the first of the three writes: every command in it is complete.
        let third = whole[second..].windows(4).enumerate();
        let writes: Vec<usize> = third
            .filter(|(_, at)| at == b"*3\r\n")
            .map(|(at, _)| at)
            .collect();
        std::fs::write(folder.path().join(FILE), &whole[..second + writes[1]]).unwrap();
        let (program, data) = (find("redis-server").unwrap(), folder.path().join("redis"));
        let port = crate::ports::free().unwrap();
        let started = spec(&program, folder.path(), &data, port, Keep::Everything);
        let mut process = Process::start(started).unwrap();
        let pid = process.id();
        let refused = process
            .wait_until(START_LIMIT, || process_id_at(port) == Some(pid))
            .unwrap_err()
            .to_string();
        assert!(refused.contains("redis-check-aof --fix"), "{refused}");
        mend(&data).unwrap();
        assert_eq!(
            std::fs::read(folder.path().join(FILE)).unwrap(),
            whole[..second]
        );
    }
}
