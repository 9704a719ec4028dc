//! One private `redis-server`: start on a free port, kill, restart in place, talk to it.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};

use crate::launch::{START_LIMIT, Until, launch};

/// How the server keeps what it was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppendOnly {
    /// Nothing survives a restart.
    #[default]
    Off,
    /// `appendfsync always`: what production should run.
    Always,
    /// `appendfsync everysec`.
    EverySec,
    /// `appendfsync no`.
    No,
}

/// What kind of server a test needs.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub appendonly: AppendOnly,
    /// One node that holds all slots.
    pub cluster: bool,
    /// For example "3mb"; the policy is `noeviction`.
    pub maxmemory: Option<String>,
    /// A fixed port; without it a free one is found.
    pub port: Option<u16>,
    /// Become a replica of this port.
    pub replica_of: Option<u16>,
    /// A sentinel of the primary with this name on this port. One sentinel is enough to fail over, after the
    /// primary was silent for 300 ms.
    pub sentinel_of: Option<(String, u16)>,
    /// More arguments of `redis-server`, e.g. `["--key-load-delay", "1000"]`.
    pub args: Vec<String>,
}

/// A running (or killed) private server. Dropping it stops it and removes its folder.
#[derive(Debug)]
pub struct Server {
    child: Mutex<Option<Child>>,
    port: u16,
    dir: tempfile::TempDir,
    options: Options,
}

const PREFIX: &str = "test-redis-";
const PORT_TRIES: usize = 50;

impl Server {
    /// Starts a server and waits until it answers. A replica is returned at once, before it is in step.
    ///
    /// # Panics
    /// When no server can be started: a missing service must fail loudly.
    pub fn start(options: Options) -> Server {
        sweep();
        let dir = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            .tempdir()
            .expect("a temporary folder");
        for _ in 0..PORT_TRIES {
            let port = options.port.unwrap_or_else(next_port);
            if let Some(child) = launch(port, dir.path(), &options, Until::Loaded) {
                let server = Server {
                    child: Mutex::new(Some(child)),
                    port,
                    dir,
                    options,
                };
                server.become_cluster();
                return server;
            }
            assert!(options.port.is_none(), "port {port} is taken");
        }
        panic!("redis-server did not start on any of {PORT_TRIES} ports");
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// The folder with the append-only files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Process id of the server, for signals such as STOP.
    pub fn pid(&self) -> Option<u32> {
        self.lock().as_ref().map(Child::id)
    }

    /// The connection programs use on their hot path; a response may take 5 s here.
    pub async fn connection_manager(&self) -> ConnectionManager {
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(Duration::from_secs(5)))
            .set_connection_timeout(Some(Duration::from_secs(5)));
        ConnectionManager::new_with_config(self.client(), config)
            .await
            .expect("a connection to the private redis-server")
    }

    /// A plain connection that never times out: for blocking reads and for looking from outside.
    pub async fn connection(&self) -> MultiplexedConnection {
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        self.client()
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .expect("a connection to the private redis-server")
    }

    /// A connection of a cluster client; only for servers started with `cluster`.
    pub async fn cluster_connection(&self) -> redis::cluster_async::ClusterConnection {
        redis::cluster::ClusterClient::new(vec![self.url()])
            .expect("a cluster url")
            .get_async_connection()
            .await
            .expect("a connection to the private cluster")
    }

    pub fn client(&self) -> redis::Client {
        redis::Client::open(self.url()).expect("a redis url")
    }

    /// Runs one command with `redis-cli` and returns what it printed.
    ///
    /// # Panics
    /// When `redis-cli` fails or the answer is an error.
    pub fn cli(&self, args: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-e", "-p", &self.port.to_string()])
            .args(args)
            .output()
            .expect("redis-cli");
        let text = String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned();
        assert!(
            output.status.success(),
            "redis-cli {args:?}: {text} {}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }

    /// SIGKILL, as a crash: nothing is flushed.
    pub fn kill(&self) {
        if let Some(mut child) = self.lock().take() {
            child.kill().expect("SIGKILL");
            child.wait().expect("the killed server");
        }
    }

    /// An orderly stop.
    pub fn stop(&self) {
        if let Some(mut child) = self.lock().take() {
            signal(child.id(), "TERM");
            child.wait().expect("the stopped server");
        }
    }

    /// Starts again on the same port and folder, after `kill` or `stop` or instead of them (then it is killed
    /// first), and mends its append-only file before that, as every deployment must: a Redis (7.0 to 8.x seen)
    /// whose last script call was written in part cuts off the last command but leaves the MULTI before it, and
    /// with the *next* restart either runs that half of a script or drops what was written after it.
    ///
    /// # Panics
    /// When the port is not to be had again.
    pub fn restart(&self) {
        self.restart_until(Until::Loaded);
    }

    /// As [`restart`](Self::restart), but returns while the data may still be loading.
    ///
    /// # Panics
    /// When the port is not to be had again.
    pub fn restart_loading(&self) {
        self.restart_until(Until::Listening);
    }

    fn restart_until(&self, until: Until) {
        self.kill();
        self.mend_append_only_file();
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if let Some(child) = launch(self.port, self.dir.path(), &self.options, until) {
                *self.lock() = Some(child);
                return;
            }
            assert!(
                Instant::now() < deadline,
                "port {} is not to be had again",
                self.port
            );
        }
    }

    /// `redis-check-aof --fix`: cuts off an incomplete script call at its beginning.
    fn mend_append_only_file(&self) {
        let manifest = self.dir().join("appendonlydir/appendonly.aof.manifest");
        if !manifest.exists() {
            return;
        }
        let mut check = Command::new("redis-check-aof")
            .arg("--fix")
            .arg(manifest)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("redis-check-aof");
        let mut yes = check.stdin.take().expect("a pipe");
        // It asks only when there is something to mend.
        yes.write_all(b"y\n").ok();
        let status = check.wait().expect("redis-check-aof");
        assert!(status.success(), "redis-check-aof --fix: {status}");
    }

    /// Freezes the process (SIGSTOP): connections stay open and nothing is answered.
    pub fn freeze(&self) {
        signal(self.pid().expect("a running server"), "STOP");
    }

    /// Ends [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        signal(self.pid().expect("a running server"), "CONT");
    }

    fn become_cluster(&self) {
        if !self.options.cluster {
            return;
        }
        self.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        let deadline = Instant::now() + START_LIMIT;
        while !self.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok") {
            assert!(Instant::now() < deadline, "the cluster did not form");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.child
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Killed, not stopped: a frozen server would not hear anything milder.
        self.kill();
    }
}

/// Removes the folders of test processes that are gone: a shared server is never dropped, and a killed process
/// drops nothing.
fn sweep() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let pid = name
                .to_str()
                .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
            if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                // Another test process may sweep at the same moment.
                std::fs::remove_dir_all(entry.path()).ok();
            }
        }
    });
}

/// Ports below the range from which the kernel takes outgoing ones, starting at a random place so that test
/// processes seldom meet. Whether one is free only the server's own bind can tell.
fn next_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 16_000;
    const COUNT: u16 = 16_000;
    let random = (uuid::Uuid::new_v4().as_u128() % u128::from(COUNT)) as u16;
    NEXT.compare_exchange(0, random, Ordering::Relaxed, Ordering::Relaxed)
        .ok();
    FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .expect("kill");
    assert!(status.success(), "signal {name} to {pid}");
}
