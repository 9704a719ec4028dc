//! `cargo xtask`: everything a developer and CI run. Each subcommand is a module with its own arguments and one
//! `run`; what they share is starting processes ([`process`]), a folder for each run ([`runs`]), free ports ([`ports`]),
//! private Redis and Postgres ([`services`]) and lines that say what happens ([`progress`]).

mod bench;
mod check;
mod demo;
mod dev;
mod ending;
mod numbers;
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
/// Private servers live in `.paidan/` and end with the command that started them. For root in a checkout that others
/// may not walk to (`/root/…`) they live in `/tmp/paidan-…` instead, because Postgres runs as another user.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senseless_numbers_are_refused_with_the_range() {
        let refused = |line: &str| {
            let words = ["xtask"].into_iter().chain(line.split(' '));
            Cli::try_parse_from(words).unwrap_err().to_string()
        };
        for (command, option, range, values) in [
            ("bench", "--rounds", "from 5 to 1000", "0 4 -1 1001 x 5.5"),
            ("demo", "--customers", "from 1 to 1000000", "0 -1 1000001 x"),
            ("demo", "--seconds", "from 1 to 86400", "0 -1 86401 x"),
            (
                "prove surge",
                "--scale",
                "from 0.001 to 1",
                "0 -0.5 1.1 NaN inf x",
            ),
            (
                "prove surge",
                "--seed",
                "from 0 to 9223372036854775807",
                "-1 9223372036854775808",
            ),
        ] {
            for value in values.split(' ') {
                let text = refused(&format!("{command} {option} {value}"));
                assert!(text.contains(option) && text.contains(range), "{text}");
            }
        }
    }

    #[test]
    fn sensible_numbers_are_taken() {
        for line in [
            "bench --rounds 5",
            "demo --customers 1 --seconds 1",
            "prove faults --scale 0.001 --seed 0",
            "prove surge --scale 1",
            "prove visits --scale 0.001",
        ] {
            let words = ["xtask"].into_iter().chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
    }
}
