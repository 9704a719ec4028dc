//! `cargo xtask`: everything a developer and CI run. Each subcommand is a module with its own arguments and one
//! `run`; what they share is starting processes ([`process`]), a folder for each run ([`runs`]), free ports ([`ports`]),
//! private Redis and Postgres ([`services`]) and lines that say what happens ([`progress`]).

mod bench;
mod check;
mod demo;
mod dev;
mod ending;
mod ports;
mod process;
mod progress;
mod prove;
mod root;
mod runs;
mod services;
mod stage;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds, checks and runs Paidan from a checkout.
///
/// Nothing is installed but Debian packages that are missing, and only as root; no service of the system is used.
/// Private servers live in `.paidan/` and end with the command that started them.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Test(check::Args),
    Bench(bench::Args),
    #[command(hide = true)]
    BenchBareAxum(bench::stand::BareAxumArgs),
    #[command(hide = true)]
    BenchUnstored(bench::stand::UnstoredArgs),
    Demo(demo::Args),
    Prove(prove::Args),
    Up(dev::UpArgs),
    Down(dev::DownArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Test(args) => check::run(args),
        Command::Bench(args) => bench::run(args),
        Command::BenchBareAxum(args) => bench::stand::bare_axum(args),
        Command::BenchUnstored(args) => bench::stand::unstored(args),
        Command::Demo(args) => demo::run(args),
        Command::Prove(args) => prove::run(args),
        Command::Up(args) => dev::up(args),
        Command::Down(args) => dev::down(args),
    };
    result.unwrap_or_else(|error| {
        progress::fail(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}
