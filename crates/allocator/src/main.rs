//! `allocator`: arguments, configuration, logging, signals; then the command.

use std::{collections::HashMap, path::PathBuf, process::ExitCode};

use allocator::{commands, config::Config, guard};
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
    /// Print the configuration without its secrets and end.
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
    /// Make a key and print it once: only its hash is kept.
    Create {
        /// The corp the key is for; without it the key is for every corp (admin only).
        #[arg(long)]
        corp: Option<String>,
        /// viewer, operator, admin or member.
        #[arg(long, default_value = "viewer")]
        role: String,
        /// For role member: whose presence the key may set.
        #[arg(long)]
        member: Option<String>,
        /// What the key is for.
        #[arg(long, default_value = "made on the command line")]
        name: String,
        /// Days until it expires; without it, never.
        #[arg(long)]
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

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let env = environment();
    let config = Config::load(&arguments.config, &env)?;
    if arguments.check_config {
        use std::io::Write;
        write!(std::io::stdout(), "{config}")?;
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
        config,
        env,
    ))
}

async fn run(
    command: Command,
    config: Config,
    env: HashMap<String, String>,
) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve => commands::serve(config, env, until_signal()?).await,
        Command::Migrate => commands::migrate(config, env).await,
        Command::Rebuild {
            corp,
            from_rows,
            drop_rest,
        } => {
            let how = guard::Wanted {
                from_rows,
                drop_rest,
            };
            commands::rebuild(config, env, corp, how).await
        }
        Command::Doctor { callback, json } => {
            commands::doctor::run(config, env, callback, json).await
        }
        Command::Key { command } => key(command, config, env).await,
    }
}

async fn key(
    command: KeyCommand,
    config: Config,
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
            commands::key::create(config, env, new).await
        }
        KeyCommand::List { corp } => commands::key::list(config, env, corp).await,
        KeyCommand::Revoke { id } => commands::key::revoke(config, env, id).await,
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
