//! `allocator`: arguments, configuration, logging, signals; then the command.

use std::{collections::HashMap, io::Write, path::PathBuf, process::ExitCode};

use allocator::{
    commands,
    config::{Config, Database, Errors},
    guard,
};
use anyhow::Context;
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Decides who gets each customer, acts on WeCom, keeps the ledger.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// A configuration file over the defaults; may be given several times, later ones win.
    #[arg(
        long,
        global = true,
        env = "PAIDAN_ALLOCATOR_CONFIG",
        value_delimiter = ':'
    )]
    config: Vec<PathBuf>,
    /// Print the configuration without its secrets, say what is wrong with it, and end.
    #[arg(long)]
    check_config: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service (the default).
    Serve,
    /// Bring the database to this version's tables.
    Migrate,
    /// Rebuild a corp's Redis state from the ledger; without --corp, every corp's.
    Rebuild {
        #[arg(long)]
        corp: Option<String>,
        /// Make the state of the ledger's rows (who has whom, who waits, pools, members), not of its log: for a log that
        /// folds to what is not so. A log that cannot be folded is passed over without this.
        #[arg(long)]
        from_rows: bool,
        /// Give up what Redis still has of the log, from the first entry on that the ledger cannot take: for an entry that
        /// no version can read. `/readyz` and the log name it. What is lost is what was decided since.
        #[arg(long)]
        drop_rest: bool,
    },
    /// Fold a corp's log in Postgres again and tell every entry that this version's rules would have answered otherwise:
    /// there must be none. Changes nothing.
    Replay {
        #[arg(long)]
        corp: String,
        /// As RFC 3339; without it, from the first entry on.
        #[arg(long)]
        from: Option<String>,
        /// As RFC 3339, itself left out; without it, up to the last entry.
        #[arg(long)]
        to: Option<String>,
    },
    /// Check stores, secrets, WeCom and the callback address, and say how to mend what is wrong.
    Doctor {
        /// Public URL of an endpoint, for example https://wecom.example.com/callback/main: checks that callbacks can arrive.
        #[arg(long, value_name = "URL")]
        callback: Option<String>,
        /// One JSON line for each check.
        #[arg(long)]
        json: bool,
    },
    /// API keys.
    Key {
        #[command(subcommand)]
        command: KeyCommand,
    },
}

#[derive(Subcommand)]
enum KeyCommand {
    /// Make a key and print it once: only its hash is kept. Its id goes to standard error.
    Create {
        /// The corp the key is for; without it the key is for every corp (admin only).
        #[arg(long)]
        corp: Option<String>,
        /// What the key may do: read; also run things; everything; one member's own presence and offers.
        #[arg(long, value_parser = ["viewer", "operator", "admin", "member"])]
        role: String,
        /// For role member: whose presence the key may set, and whose offers it may answer.
        #[arg(long)]
        member: Option<String>,
        /// What the key is for.
        #[arg(long, default_value = "made on the command line")]
        name: String,
        /// Days until it expires; without it, never.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=36_500))]
        days: Option<u32>,
    },
    /// List the keys of a corp; without --corp, those for every corp.
    List {
        #[arg(long)]
        corp: Option<String>,
    },
    /// End a key. Running allocators may know it for some seconds more.
    Revoke {
        /// As `key list` shows it.
        id: uuid::Uuid,
    },
}

fn main() -> std::io::Result<ExitCode> {
    start().or_else(|error| tell(&error).map(|()| ExitCode::FAILURE))
}

fn start() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let env = environment();
    if arguments.check_config {
        let config = Config::load(&arguments.config, &env)?;
        write!(std::io::stdout(), "{config}")?;
        Errors::none_of(config.check_secrets(&env))?;
        return Ok(ExitCode::SUCCESS);
    }
    commands::logging(&env)?;
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a TLS provider is installed already"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("runtime")?;
    runtime.block_on(run(
        arguments.command.unwrap_or(Command::Serve),
        &arguments.config,
        env,
    ))
}

/// What went wrong, on standard error: a line for each mistake in the configuration, one for anything else.
fn tell(error: &anyhow::Error) -> std::io::Result<()> {
    let mut out = std::io::stderr();
    match error.downcast_ref::<Errors>() {
        Some(errors) => errors
            .iter()
            .try_for_each(|error| writeln!(out, "configuration: {error}")),
        None => writeln!(out, "error: {}", commands::chain(error.as_ref())),
    }
}

/// The configuration with every secret that it names.
fn load(files: &[PathBuf], env: &HashMap<String, String>) -> Result<Config, Errors> {
    let config = Config::load(files, env)?;
    Errors::none_of(config.check_secrets(env))?;
    Ok(config)
}

async fn run(
    command: Command,
    files: &[PathBuf],
    env: HashMap<String, String>,
) -> anyhow::Result<ExitCode> {
    let whole = || load(files, &env);
    let database = || Config::load_database(files, &env);
    match command {
        Command::Serve => commands::serve(whole()?, env, until_signal()?).await,
        Command::Migrate => commands::migrate(database()?, env).await,
        Command::Rebuild {
            corp,
            from_rows,
            drop_rest,
        } => {
            let how = guard::Wanted {
                from_rows,
                drop_rest,
            };
            commands::rebuild(whole()?, env, corp, how).await
        }
        Command::Replay { corp, from, to } => {
            commands::replay(database()?, env, corp, from, to).await
        }
        Command::Doctor { callback, json } => {
            // Missing secrets are findings of its own.
            let config = Config::load(files, &env)?;
            commands::doctor::run(config, env, callback, json).await
        }
        Command::Key { command } => key(command, database()?, env).await,
    }
}

async fn key(
    command: KeyCommand,
    database: Database,
    env: HashMap<String, String>,
) -> anyhow::Result<ExitCode> {
    match command {
        KeyCommand::Create {
            corp,
            role,
            member,
            name,
            days,
        } => {
            let new = commands::key::NewKey {
                corp,
                role,
                member,
                name,
                days,
            };
            commands::key::create(database, env, new).await
        }
        KeyCommand::List { corp } => commands::key::list(database, env, corp).await,
        KeyCommand::Revoke { id } => commands::key::revoke(database, env, id).await,
    }
}

/// SIGTERM and SIGINT end the program in order.
fn until_signal() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let cancel = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        cancel.cancel();
    });
    Ok(stop)
}

/// Names and values that are text; others cannot be meant for us.
fn environment() -> HashMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
