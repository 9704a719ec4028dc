//! `gateway`: arguments, configuration, logging, signals; then [`gateway::run`].

use std::{io::Write, path::PathBuf, process::ExitCode};

use clap::Parser;
use gateway::{Config, Listeners, Signals, Sources, check_endpoints, config::Error, logging};
use tokio::signal::unix::{SignalKind, signal};

/// Receives WeCom's callbacks, stores them, answers.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// A configuration file over the defaults; may be given several times, later ones win.
    #[arg(long, env = "PAIDAN_GATEWAY_CONFIG", value_delimiter = ':')]
    config: Vec<PathBuf>,
    /// Print the configuration without its secrets, say what is wrong with it, and end.
    #[arg(long)]
    check_config: bool,
}

fn main() -> std::io::Result<ExitCode> {
    start().or_else(|error| match error.downcast_ref::<gateway::Error>() {
        Some(gateway::Error::Configuration(errors)) => refuse(errors.iter()),
        _ => {
            writeln!(std::io::stderr(), "error: {error:#}")?;
            Ok(ExitCode::FAILURE)
        }
    })
}

fn start() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let sources = Sources {
        files: arguments.config,
        env: environment(),
    };
    let config = match Config::load(&sources) {
        Ok(config) => config,
        Err(errors) => return Ok(refuse(errors.iter())?),
    };
    if arguments.check_config {
        write!(std::io::stdout(), "{config}")?;
        return Ok(refuse(&check_endpoints(&config))?);
    }
    logging::start(&config)?;
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a TLS provider is installed already"))?;
    let listeners = Listeners::bind(&config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let signals = Signals::default();
        listen_to_signals(signals.clone())?;
        gateway::run(config, listeners, signals).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// A line for each problem; a success without one.
fn refuse<'a>(problems: impl IntoIterator<Item = &'a Error>) -> std::io::Result<ExitCode> {
    let mut status = ExitCode::SUCCESS;
    for problem in problems {
        writeln!(std::io::stderr(), "configuration: {problem}")?;
        status = ExitCode::FAILURE;
    }
    Ok(status)
}

/// SIGTERM and SIGINT end the gateway, SIGHUP reloads it.
fn listen_to_signals(signals: Signals) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hang_up.recv() => signals.reload.notify_one(),
            }
        }
        signals.shutdown.cancel();
    });
    Ok(())
}

/// Names and values that are text; others cannot be meant for us.
fn environment() -> std::collections::HashMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
