//! The programs that are measured, built once by the command itself. Cargo keeps them beside each other, so the
//! folder of whoever runs is where the others are.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use super::Group;
use crate::check::cargo;
use crate::progress::say;

/// Where the built programs are.
#[derive(Debug, Clone)]
pub(crate) struct Programs(PathBuf);

impl Programs {
    /// Those built as we were.
    pub(crate) fn beside_us() -> anyhow::Result<Self> {
        let us = std::env::current_exe()?;
        let folder = us.parent().context("a program without a folder")?;
        Ok(Self(folder.to_owned()))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The same for a release build.
    fn release(&self) -> anyhow::Result<Self> {
        let target = self.0.parent().context("a program without a folder")?;
        Ok(Self(target.join("release")))
    }
}

/// Builds what these groups start, as we were built ourselves.
pub(crate) fn build_as_we_are(groups: &[Group]) -> anyhow::Result<()> {
    let packages = packages(groups);
    if packages.is_empty() {
        return Ok(());
    }
    build(&packages, &[])
}

/// Builds everything in release, ourselves included, and goes on as the release build of ourselves.
pub(crate) fn go_on_in_release(groups: &[Group]) -> anyhow::Result<()> {
    let release = Programs::beside_us()?.release()?;
    build(&packages(groups), &["--release"])?;
    let mut command = Command::new(release.path("xtask"));
    command.args(std::env::args_os().skip(1)).arg("--built");
    Err(command.exec()).context("cannot start the release build of xtask")
}

fn packages(groups: &[Group]) -> Vec<&'static str> {
    let wants = |those: &[Group]| groups.iter().any(|group| those.contains(group));
    let mut packages = Vec::new();
    if wants(&[Group::Gateway, Group::Path]) {
        packages.push("gateway");
    }
    if wants(&[Group::Path]) {
        packages.extend(["allocator", "wecom-sim"]);
    }
    packages
}

fn build(packages: &[&str], profile: &[&str]) -> anyhow::Result<()> {
    say("Building", &[&["xtask"], packages].concat().join(", "));
    // Ourselves too, even if nothing is new: together they share what they depend on, features and all.
    let mut command = cargo(&["build", "-p", "xtask"]);
    command.args(profile);
    command.args(packages.iter().flat_map(|package| ["-p", package]));
    let status = command.status().context("cannot start cargo")?;
    anyhow::ensure!(status.success(), "the build failed");
    Ok(())
}
