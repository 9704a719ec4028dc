//! Finds Postgres' programs and runs them as somebody Postgres accepts: it refuses root.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user that Debian's package makes.
const POSTGRES_USER: &str = "postgres";

/// For tests only: a crash of the machine may lose the data.
const FAST: &[&str] = &[
    "-c",
    "fsync=off",
    "-c",
    "synchronous_commit=off",
    "-c",
    "full_page_writes=off",
];

pub(crate) fn effective_uid() -> u32 {
    std::fs::metadata("/proc/self").map_or(0, |meta| meta.uid())
}

/// The newest `bin` folder that has `postgres` in it.
pub(crate) fn bin_dir() -> PathBuf {
    if let Some(path) = std::env::var_os("PAIDAN_POSTGRES_BIN") {
        return path.into();
    }
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse().ok()?,
                entry.path().join("bin"),
            ))
        })
        .filter(|(_, bin)| bin.join("postgres").exists())
        .collect();
    found.sort();
    if let Some((_, bin)) = found.pop() {
        return bin;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .find(|folder| folder.join("postgres").exists() && folder.join("initdb").exists())
        .unwrap_or_else(|| {
            panic!("no Postgres found: install it (Debian: apt-get install postgresql) or set PAIDAN_POSTGRES_BIN to its bin folder")
        })
}

/// A command line that starts `program` as a user whom Postgres accepts. With `dies_with_parent`
/// the kernel stops it when the thread that spawned it ends, however it ends.
pub(crate) fn command(program: &Path, dies_with_parent: bool) -> Command {
    let mut command = Command::new("setpriv");
    if effective_uid() == 0 {
        for option in ["--reuid", "--regid"] {
            command.arg(option).arg(POSTGRES_USER);
        }
        command.arg("--init-groups");
    }
    if dies_with_parent {
        command.args(["--pdeathsig", "INT"]);
    }
    command.arg("--").arg(program);
    command
}

/// The server itself, in the foreground.
pub(crate) fn postgres(data: &Path, port: u16, settings: &[(String, String)]) -> Command {
    let mut command = command(&bin_dir().join("postgres"), true);
    command.arg("-D").arg(data);
    command.args([
        "-p",
        &port.to_string(),
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        "unix_socket_directories=",
    ]);
    command.args(FAST);
    for (name, value) in settings {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    command
}

/// Makes an empty cluster in `data`, which must not exist yet. Superuser `app`, no password.
pub(crate) fn init_data(data: &Path) {
    std::fs::create_dir_all(data).unwrap_or_else(|e| panic!("cannot make {}: {e}", data.display()));
    if effective_uid() == 0 {
        let owner = format!("{POSTGRES_USER}:{POSTGRES_USER}");
        run(Command::new("chown").arg(owner).arg(data), "chown");
    }
    let mut initdb = command(&bin_dir().join("initdb"), false);
    initdb.arg("-D").arg(data).current_dir("/");
    initdb.args([
        "-U",
        "app",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C.UTF-8",
        "--lc-collate=C",
        "--no-sync",
        "--no-instructions",
    ]);
    run(&mut initdb, "initdb");
}

/// True once the server answers; false while it starts, or when nobody is there.
pub(crate) fn is_ready(port: u16) -> bool {
    let mut command = Command::new(bin_dir().join("pg_isready"));
    command.args([
        "-q",
        "-t",
        "2",
        "-h",
        "127.0.0.1",
        "-p",
        &port.to_string(),
        "-U",
        "app",
        "-d",
        "postgres",
    ]);
    command.status().is_ok_and(|status| status.success())
}

pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port on the loopback")
        .port()
}

pub(crate) fn send_signal(pid: u32, signal: &str) {
    let mut command = Command::new("kill");
    // It may have gone meanwhile: that is what was wanted.
    drop(
        command
            .args([&format!("-{signal}"), &pid.to_string()])
            .output(),
    );
}

fn run(command: &mut Command, what: &str) {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{what} does not start: {e}"));
    assert!(
        output.status.success(),
        "{what} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
