//! Starts a redis-server and waits until it is what a test expects.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::keeper;
use crate::server::{AppendOnly, Options};

/// Long enough for a busy machine, short enough that a broken one does not hang a run.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(20);

/// What a start waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// It takes connections; commands may be answered LOADING.
    Listening,
    /// Its data are there.
    Loaded,
}

/// None when the server ended by itself, which means that the port was taken.
pub(crate) fn launch(port: u16, dir: &Path, options: &Options, until: Until) -> Option<Child> {
    let mut command = Command::new("redis-server");
    if let Some((name, primary)) = &options.sentinel_of {
        command
            .arg(sentinel_file(dir, name, *primary))
            .arg("--sentinel");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        return answering(port, command, until);
    }
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--enable-debug-command", "local"])
        .args(["--repl-diskless-sync-delay", "0"])
        .args(["--maxmemory-policy", "noeviction", "--protected-mode", "no"])
        .arg("--dir")
        .arg(dir);
    let fsync = match options.appendonly {
        AppendOnly::Off => None,
        AppendOnly::Always => Some("always"),
        AppendOnly::EverySec => Some("everysec"),
        AppendOnly::No => Some("no"),
    };
    match fsync {
        Some(fsync) => command.args(["--appendonly", "yes", "--appendfsync", fsync]),
        None => command.args(["--appendonly", "no"]),
    };
    if options.cluster {
        // The default bus port, port + 10000, would reach into the range of outgoing ports.
        let bus = port - 8_000;
        command.args([
            "--cluster-enabled",
            "yes",
            "--cluster-port",
            &bus.to_string(),
        ]);
    }
    if let Some(maxmemory) = &options.maxmemory {
        command.args(["--maxmemory", maxmemory]);
    }
    if let Some(primary) = options.replica_of {
        command.args(["--replicaof", &format!("127.0.0.1 {primary}")]);
    }
    command.args(&options.args);
    answering(port, command, until)
}

/// A sentinel writes what it learns into its file; one that is there already is kept.
fn sentinel_file(dir: &Path, name: &str, primary: u16) -> std::path::PathBuf {
    let file = dir.join("sentinel.conf");
    if !file.exists() {
        let lines = format!(
            "dir {dir}\nsentinel monitor {name} 127.0.0.1 {primary} 1\n\
             sentinel down-after-milliseconds {name} 300\n\
             sentinel failover-timeout {name} 2000\n",
            dir = dir.display()
        );
        std::fs::write(&file, lines).expect("a writable folder");
    }
    file
}

/// Starts it and waits. None when it ended by itself.
fn answering(port: u16, command: Command, until: Until) -> Option<Child> {
    let mut child = keeper::spawn(command)
        .expect("setpriv and redis-server (Debian: apt-get install redis-server util-linux)");
    let deadline = Instant::now() + START_LIMIT;
    loop {
        // The process id tells ours from another server that holds the port.
        if let Some((id, loaded)) = server_at(port)
            && id == child.id()
            && (loaded || until == Until::Listening)
        {
            return Some(child);
        }
        if child
            .try_wait()
            .expect("the state of redis-server")
            .is_some()
        {
            return None;
        }
        if Instant::now() > deadline {
            child.kill().expect("SIGKILL");
            child.wait().expect("the killed server");
            panic!("redis-server did not answer on port {port} within {START_LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What runs at `port`: its process id, and whether it has loaded its data (INFO is answered before that, PING is
/// not). None while nothing answers.
fn server_at(port: u16) -> Option<(u32, bool)> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.write_all(b"INFO server\r\nPING\r\n").ok()?;
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = stream.read(&mut buffer).ok().filter(|n| *n > 0)?;
        text.extend_from_slice(&buffer[..n]);
        let answer = String::from_utf8_lossy(&text);
        let loaded = answer.ends_with("+PONG\r\n");
        if loaded || answer.contains("-LOADING") {
            let (_, rest) = answer.split_once("process_id:")?;
            return Some((rest.split_once("\r\n")?.0.parse().ok()?, loaded));
        }
    }
}
