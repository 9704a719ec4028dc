//! A Postgres of one's own, for tests that stop it, kill it or start it again.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::programs;

/// Start-up takes 0.2 s; the rest is for a machine that is busy elsewhere.
const START_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Server settings (`-c name=value`), after the fast ones for tests, so they win.
    pub settings: Vec<(String, String)>,
}

impl Options {
    pub fn set(mut self, name: &str, value: &str) -> Options {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Data and process go with the value. The address stays the same over restarts.
#[derive(Debug)]
pub struct Server {
    folder: tempfile::TempDir,
    options: Options,
    port: u16,
    running: Option<Running>,
}

/// The kernel ties the server's life to the *thread* that spawned it, so one thread does
/// nothing but spawn it and wait for its end.
#[derive(Debug)]
struct Running {
    pid: u32,
    keeper: std::thread::JoinHandle<()>,
}

impl Server {
    pub async fn start(options: Options) -> Server {
        let folder = tempfile::Builder::new()
            .prefix("paidan-postgres-")
            .tempdir()
            .expect("a temporary folder");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).expect("the temporary folder is ours");
        programs::init_data(&folder.path().join("data"));
        let mut server = Server {
            folder,
            options,
            port: programs::free_port(),
            running: None,
        };
        // Somebody else may take the port between the look and the bind.
        for _ in 0..5 {
            if server.launch().await {
                return server;
            }
            server.port = programs::free_port();
        }
        panic!("Postgres does not start: {}", server.log());
    }

    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://app@127.0.0.1:{}/{database}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Ends it in order: sessions are cut, committed work stays.
    pub async fn stop(&mut self) {
        self.end("INT");
    }

    /// Ends it as a crash would: no checkpoint; the next start recovers.
    pub async fn crash(&mut self) {
        self.end("QUIT");
    }

    /// Starts it again at the same address, with the same data.
    pub async fn resume(&mut self) {
        assert!(self.running.is_none(), "it is running");
        assert!(
            self.launch().await,
            "Postgres does not start again: {}",
            self.log()
        );
    }

    pub async fn restart(&mut self) {
        self.stop().await;
        self.resume().await;
    }

    /// What the server wrote to its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    async fn launch(&mut self) -> bool {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .expect("the folder is ours");
        let mut command: Command = programs::postgres(
            &self.folder.path().join("data"),
            self.port,
            &self.options.settings,
        );
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .current_dir("/");
        let (send_pid, receive_pid) = std::sync::mpsc::channel();
        let keeper = std::thread::spawn(move || {
            let mut child = command.spawn().expect("setpriv (util-linux) starts");
            send_pid.send(child.id()).expect("`launch` waits for it");
            drop(child.wait());
        });
        let pid = receive_pid.recv().expect("the keeper spawned it");
        self.running = Some(Running { pid, keeper });
        let began = Instant::now();
        while began.elapsed() < START_LIMIT {
            if programs::is_ready(self.port) {
                return true;
            }
            if self
                .running
                .as_ref()
                .is_none_or(|running| running.keeper.is_finished())
            {
                self.running = None;
                return false;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!(
            "Postgres is not ready after {START_LIMIT:?}: {}",
            self.log()
        );
    }

    fn end(&mut self, signal: &str) {
        if let Some(running) = self.running.take() {
            programs::send_signal(running.pid, signal);
            drop(running.keeper.join());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end("QUIT");
    }
}
