//! Runs a command of a step, shows its output and keeps it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::root;

/// `cargo`, as the one that runs us, in the checkout.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root::checkout());
    // What cargo told us about ourselves is not for what it builds next.
    for name in [
        "CARGO_MANIFEST_DIR",
        "CARGO_MANIFEST_PATH",
        "CARGO_PKG_NAME",
        "CARGO_PKG_VERSION",
    ] {
        command.env_remove(name);
    }
    command
}

/// True when `cargo <name> --version` works.
pub(crate) fn has_cargo(name: &str) -> bool {
    let mut command = cargo(&[name, "--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs it with our own output as its output; true when it succeeded.
pub(crate) fn show(command: &mut Command) -> anyhow::Result<bool> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("{command:?}"))?;
    Ok(status.success())
}

/// The same, and everything it printed.
pub(crate) fn show_and_keep(command: &mut Command) -> anyhow::Result<(bool, String)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?}"))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let kept = std::thread::scope(|scope| {
        let out = scope.spawn(|| out.map(|from| copy(from, std::io::stdout())));
        let err = scope.spawn(|| err.map(|from| copy(from, std::io::stderr())));
        [out.join(), err.join()]
            .into_iter()
            .filter_map(|text| text.ok().flatten())
            .collect::<Vec<_>>()
            .join("\n")
    });
    Ok((child.wait()?.success(), kept))
}

/// Keeps what it prints and shows it only when it fails.
pub(crate) fn keep(command: &mut Command) -> anyhow::Result<(bool, String)> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{command:?}"))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        crate::progress::print(&text);
    }
    Ok((output.status.success(), text))
}

fn copy(from: impl Read, mut to: impl Write) -> String {
    let mut kept = String::new();
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        // If nobody reads our output any more the checks still run to their end.
        to.write_all(&line).ok();
        kept.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    to.flush().ok();
    kept
}
