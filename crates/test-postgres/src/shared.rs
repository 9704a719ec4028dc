//! The one server that all test processes share.
//!
//! `start.lock` is held while somebody looks for the server or starts it; `clients.lock` is held
//! (shared) by every process that uses it, until the process ends however it ends. A detached
//! shell loop (`watch.sh`) stops the server when nobody has held the second for a minute.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::programs;

const IDLE_SECONDS: &str = "60";
const START_LIMIT: Duration = Duration::from_secs(60);

/// Raise it when folder or settings change their meaning, so that an old server is not found.
const LAYOUT: u32 = 1;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) admin_url: String,
    /// Held until the process ends.
    _client: Option<File>,
}

/// Finds or starts it, once per process.
pub(crate) fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| match std::env::var("PAIDAN_TEST_POSTGRES") {
        Ok(url) if !url.is_empty() => Shared {
            admin_url: url,
            _client: None,
        },
        _ => find_or_start(),
    })
}

fn find_or_start() -> Shared {
    let folder = std::env::temp_dir().join(format!(
        "paidan-postgres-{}-{LAYOUT}",
        programs::effective_uid()
    ));
    std::fs::create_dir_all(&folder)
        .unwrap_or_else(|e| panic!("cannot make {}: {e}", folder.display()));
    let start = open(&folder.join("start.lock"));
    start.lock().expect("the start lock");
    let client = open(&folder.join("clients.lock"));
    client.lock_shared().expect("the clients' lock");
    let port = match running_port(&folder) {
        Some(port) => port,
        None => start_server(&folder),
    };
    Shared {
        admin_url: format!("postgres://app@127.0.0.1:{port}/postgres"),
        _client: Some(client),
    }
}

fn running_port(folder: &Path) -> Option<u16> {
    let port = std::fs::read_to_string(folder.join("port"))
        .ok()?
        .trim()
        .parse()
        .ok()?;
    // Ours, and not a stranger who got the port later: it runs on our data.
    let ours = std::fs::read_to_string(folder.join("data/postmaster.pid")).ok()?;
    let same = ours.lines().nth(3)?.trim() == format!("{port}");
    (same && programs::is_ready(port)).then_some(port)
}

fn start_server(folder: &Path) -> u16 {
    let data = folder.join("data");
    drop(std::fs::remove_file(folder.join("port")));
    if data.exists() {
        // Left by a server that was killed. Had its postmaster survived, `postgres` itself would
        // refuse to share the port, never the data.
        std::fs::remove_dir_all(&data)
            .unwrap_or_else(|e| panic!("cannot remove {}: {e}", data.display()));
    }
    programs::init_data(&data);
    for _ in 0..5 {
        let port = programs::free_port();
        launch(folder, &data, port);
        let began = Instant::now();
        while began.elapsed() < START_LIMIT {
            if programs::is_ready(port) && data.join("postmaster.pid").exists() {
                std::fs::write(folder.join("port"), port.to_string()).expect("the folder is ours");
                return port;
            }
            if log(folder).contains("database system is shut down") {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    panic!("the shared Postgres does not start: {}", log(folder));
}

fn launch(folder: &Path, data: &Path, port: u16) {
    let settings = [
        ("max_connections", "400"),
        ("shared_buffers", "64MB"),
        ("max_wal_size", "256MB"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let server = programs::postgres(data, port, &settings);
    drop(std::fs::remove_file(folder.join("log")));
    // A session of its own: it must not end with the group of the test that came first.
    let mut watcher = Command::new("setsid");
    watcher
        .args(["sh", "-c", include_str!("watch.sh"), "paidan-test-postgres"])
        .arg(folder)
        .arg(IDLE_SECONDS);
    watcher.arg(server.get_program()).args(server.get_args());
    watcher
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/");
    let child = watcher.spawn().expect("setsid (util-linux) starts");
    // Nobody waits for it: it outlives this process on purpose.
    drop(child);
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}

fn open(path: &PathBuf) -> File {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .unwrap_or_else(|e| panic!("cannot open {}: {e}", path.display()))
}
