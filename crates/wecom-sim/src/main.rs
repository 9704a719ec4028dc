//! The simulator as a program: prints where it listens, stops on SIGTERM and Ctrl-C.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use wecom_sim::{Config, Sim};

/// A fake WeCom over HTTP. GET /sim lists its admin routes.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0", env = "WECOM_SIM_LISTEN")]
    listen: SocketAddr,
    /// TOML file; without it the simulator starts empty and is set up through PUT /sim/config.
    #[arg(long, env = "WECOM_SIM_CONFIG")]
    config: Option<PathBuf>,
    /// Checks the configuration, prints it with all defaults, and ends.
    #[arg(long)]
    check_config: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .init();
    let config = match &args.config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    if args.check_config {
        let text = toml::to_string(&config).context("printing the configuration")?;
        std::io::stdout().write_all(text.as_bytes())?;
        return Ok(());
    }
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("listening on {}", args.listen))?;
    let mut terminate = signal(SignalKind::terminate())?;
    let sim = Sim::start(config, listener).await?;
    // One line for scripts that start it on a free port.
    let mut stdout = std::io::stdout();
    writeln!(stdout, "http://{}", sim.addr)?;
    stdout.flush()?;
    tokio::select! {
        _ = terminate.recv() => {}
        result = tokio::signal::ctrl_c() => result?,
    }
    sim.shutdown().await;
    Ok(())
}
