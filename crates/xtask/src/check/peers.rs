//! Other people's libraries seal callbacks and our gateway must understand them. The libraries are pinned in
//! `tests/peers` and installed into `.paidan/peers`, so that the checkout stays clean.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::process::find;
use crate::root;

const FILES: [&str; 3] = ["package.json", "package-lock.json", "requirements.txt"];
/// What was installed, written last.
const STAMP: &str = "installed";

/// What is missing on this machine, if anything.
pub(super) fn missing() -> Option<String> {
    let without: Vec<&str> = ["node", "npm", "python3"]
        .into_iter()
        .filter(|program| find(program).is_none())
        .collect();
    if !without.is_empty() {
        return Some(format!("not installed: {}", without.join(", ")));
    }
    // Debian has the module, but not what it needs, in a package of its own.
    (!succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"])))
        .then(|| "not installed: python3-venv".to_owned())
}

/// Installs what `tests/peers` pins, unless that is there already.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    let source = root::checkout().join("tests/peers");
    let mut wanted = String::new();
    for file in FILES {
        wanted += &std::fs::read_to_string(source.join(file)).context(file)?;
        std::fs::copy(source.join(file), folder.join(file)).context(file)?;
    }
    let stamp = folder.join(STAMP);
    let python = folder.join("venv/bin/python");
    let usable = succeeds(Command::new(&python).arg("--version"));
    if usable && std::fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    std::fs::remove_file(&stamp).ok();
    done(
        Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(folder),
    )?;
    done(
        Command::new("python3")
            .args(["-m", "venv", "--clear", "venv"])
            .current_dir(folder),
    )?;
    done(
        Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(["--requirement", "requirements.txt"])
            .current_dir(folder),
    )?;
    std::fs::write(stamp, wanted)?;
    Ok(())
}

fn done(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("{command:?}"))?;
    anyhow::ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
