//! Child processes that never outlive us: the kernel signals them when we end, even by SIGKILL.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::ending;

/// How long a process may take to end in order before it is killed.
pub(crate) const GRACE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Those that were started and not seen to end yet, and what ends them at once.
static RUNNING: Mutex<BTreeMap<u32, &'static str>> = Mutex::new(BTreeMap::new());

/// Ends all children at once.
pub(crate) fn kill_all() {
    for (pid, signal_name) in running().iter() {
        signal(*pid, signal_name);
    }
}

fn running() -> MutexGuard<'static, BTreeMap<u32, &'static str>> {
    RUNNING
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// Where a program is, by the search path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// What to start, and how to end it.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(String, String)>,
    log: PathBuf,
    stop_signal: &'static str,
    kill_signal: &'static str,
    user: Option<String>,
}

impl Spec {
    /// `program` writes its output to the end of `log`.
    pub(crate) fn new(name: &str, program: impl Into<PathBuf>, log: &Path) -> Self {
        Self {
            name: name.to_owned(),
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            log: log.to_owned(),
            stop_signal: "TERM",
            kill_signal: "KILL",
            user: None,
        }
    }

    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// One more variable of its environment.
    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn stop_signal(mut self, signal: &'static str) -> Self {
        self.stop_signal = signal;
        self
    }

    /// For programs that have a way to end at once and yet leave nothing behind.
    pub(crate) fn kill_signal(mut self, signal: &'static str) -> Self {
        self.kill_signal = signal;
        self
    }

    /// Runs as this user; only root can.
    pub(crate) fn user(mut self, user: Option<&str>) -> Self {
        self.user = user.map(str::to_owned);
        self
    }

    /// As a function of a shell that runs the same program with other arguments beside its own.
    pub(crate) fn shell_function(&self, name: &str) -> String {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        let env = self.env.iter();
        let env = env.map(|(name, value)| format!("{name}={}", quoted(value)));
        let args = self.args.iter().map(|arg| quoted(&arg.to_string_lossy()));
        let program = quoted(&self.program.to_string_lossy());
        let words: Vec<String> = env.chain([program]).chain(args).collect();
        format!("{name}() {{ {} \"$@\"; }}", words.join(" "))
    }

    fn command(&self) -> anyhow::Result<Command> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("cannot write {}", self.log.display()))?;
        let mut command = Command::new("setpriv");
        command.args(as_user(self.user.as_deref()));
        command.args(["--pdeathsig", self.stop_signal, "--"]);
        command.arg(&self.program).args(&self.args);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        // A group of its own: Ctrl-C is for us, and we end our children in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(command)
    }
}

/// The arguments of `setpriv` for another user.
pub(crate) fn as_user(user: Option<&str>) -> Vec<OsString> {
    let Some(user) = user else {
        return Vec::new();
    };
    ["--reuid", user, "--regid", user, "--init-groups"]
        .map(OsString::from)
        .to_vec()
}

/// A running child. Dropping it ends it in order.
#[derive(Debug)]
pub(crate) struct Process {
    spec: Spec,
    id: u32,
    /// Behind a lock, so that whoever only watches can ask too.
    child: Mutex<Child>,
    /// When it was asked to end: once, for a second signal means more to some programs.
    asked: Option<Instant>,
}

impl Process {
    pub(crate) fn start(spec: Spec) -> anyhow::Result<Self> {
        let child = keeper_spawn(spec.command()?)
            .with_context(|| format!("cannot start {} ({})", spec.name, spec.program.display()))?;
        let id = child.id();
        running().insert(id, spec.kill_signal);
        Ok(Self {
            spec,
            id,
            child: Mutex::new(child),
            asked: None,
        })
    }

    /// Waits until `ready` says so. An error when the process ends before, after `limit`, or when we are to end.
    pub(crate) fn wait_until(
        &mut self,
        limit: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        while !ready() {
            ending::check()?;
            if let Some(status) = self.child().try_wait()? {
                anyhow::bail!(
                    "{} ended at its start: {status}\n{}",
                    self.spec.name,
                    self.log_end()
                );
            }
            if start.elapsed() > limit {
                anyhow::bail!(
                    "{} is not ready after {limit:?}\n{}",
                    self.spec.name,
                    self.log_end()
                );
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    /// What it wrote goes here.
    pub(crate) fn log(&self) -> &Path {
        &self.spec.log
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.child().try_wait(), Ok(None))
    }

    /// How it ended, once it has.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        self.child().try_wait().ok().flatten()
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Asks it to end in order and does not wait.
    pub(crate) fn ask_to_stop(&mut self) {
        if self.asked.is_none() && self.is_running() {
            signal(self.id, self.spec.stop_signal);
            self.asked = Some(Instant::now());
        }
    }

    /// Ends it in order; kills it when that takes too long.
    pub(crate) fn stop(&mut self) -> anyhow::Result<ExitStatus> {
        if let Some(status) = self.child().try_wait()? {
            return Ok(status);
        }
        self.ask_to_stop();
        let asked = self.asked.unwrap_or_else(Instant::now);
        while asked.elapsed() < GRACE {
            if let Some(status) = self.child().try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        self.child().kill()?;
        Ok(self.child().wait()?)
    }

    /// The end of what it wrote.
    fn log_end(&self) -> String {
        let text = std::fs::read(&self.spec.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            crate::progress::fail(&format!("{} does not end: {error}", self.spec.name));
        }
        running().remove(&self.id);
    }
}

/// Sends a signal; nothing happens when the process has gone meanwhile.
pub(crate) fn signal(pid: u32, name: &str) {
    // The shell has `kill` built in: a bare machine may not have the program.
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        "kill -s \"$1\" \"$2\" 2>/dev/null",
        "sh",
        name,
        &pid.to_string(),
    ]);
    shell.status().ok();
}

pub(crate) fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// The death signal comes when the *thread* that started the child ends, so one thread that stays starts them all.
fn keeper_spawn(command: Command) -> std::io::Result<Child> {
    type Order = (Command, Sender<std::io::Result<Child>>);
    static KEEPER: OnceLock<Sender<Order>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let (orders, waiting) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in waiting {
                answer.send(command.spawn()).ok();
            }
        });
        orders
    });
    let (answer, child) = channel();
    keeper
        .send((command, answer))
        .map_err(std::io::Error::other)?;
    child.recv().map_err(std::io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_then_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let spec = Spec::new("sleeper", "sh", &log).args(["-c", "echo here; exec sleep 60"]);
        let mut process = Process::start(spec).unwrap();
        let ready = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("here"));
        process.wait_until(Duration::from_secs(20), ready).unwrap();
        assert!(process.is_running());
        let status = process.stop().unwrap();
        assert!(!status.success());
        assert!(!process.is_running());
    }

    #[test]
    fn whoever_watches_sees_how_a_process_ended() {
        let folder = tempfile::tempdir().unwrap();
        let spec = Spec::new("sleeper", "sleep", &folder.path().join("log")).arg("60");
        let mut process = Process::start(spec).unwrap();
        assert_eq!(process.ended(), None);
        signal(process.id(), "KILL");
        let watched = &process;
        let mut status = None;
        let start = Instant::now();
        while status.is_none() && start.elapsed() < Duration::from_secs(20) {
            status = watched.ended();
        }
        assert_eq!(status.unwrap().to_string(), "signal: 9 (SIGKILL)");
        assert_eq!(process.stop().unwrap(), status.unwrap());
    }

    /// Several end side by side, each asked once.
    #[test]
    fn those_who_were_asked_end_together() {
        let folder = tempfile::tempdir().unwrap();
        let log = |n: u32| folder.path().join(n.to_string());
        // Says whenever it is asked, and ends only when the others were asked too.
        let script = "trap 'echo asked; touch \"$0.asked\"; while [ ! -e \"$1.asked\" ]; do sleep 0.01; done; exit 0' TERM
                      echo here; while :; do sleep 0.01; done";
        let start = |n: u32, other: u32| {
            let spec = Spec::new("asked", "sh", &log(n)).args(["-c", script]);
            let mut process = Process::start(spec.arg(log(n)).arg(log(other))).unwrap();
            let ready = || std::fs::read_to_string(log(n)).is_ok_and(|text| text.contains("here"));
            process.wait_until(Duration::from_secs(20), ready).unwrap();
            process
        };
        let mut both = [start(1, 2), start(2, 1)];
        both.iter_mut().for_each(Process::ask_to_stop);
        for process in &mut both {
            assert!(process.stop().unwrap().success());
        }
        for n in [1, 2] {
            let text = std::fs::read_to_string(log(n)).unwrap();
            assert_eq!(text, "here\nasked\n");
        }
    }

    #[test]
    fn a_process_that_ends_at_its_start_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let spec = Spec::new("broken", "sh", &folder.path().join("log"))
            .args(["-c", "echo no such thing >&2; exit 3"]);
        let mut process = Process::start(spec).unwrap();
        let error = process
            .wait_until(Duration::from_secs(20), || false)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("exit status: 3") && error.contains("no such thing"),
            "{error}"
        );
    }

    #[test]
    fn programs_are_found_by_the_search_path() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program-here"), None);
    }
}
