//! Servers that exist for measurements only, each a hidden subcommand of its own so that it runs as a process of its
//! own.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;
use tokio::net::TcpSocket;

/// As the gateway's: what the kernel holds until it is accepted.
const BACKLOG: u32 = 4_096;

/// The limit of the gateway's rows: axum as everybody uses it, a POST that reads its body and answers 200.
#[derive(Debug, clap::Args)]
pub(crate) struct BareAxumArgs {
    #[arg(long)]
    listen: SocketAddr,
}

/// A gateway that verifies, reads and answers, but keeps nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct UnstoredArgs {
    /// The gateway's configuration.
    #[arg(long)]
    config: PathBuf,
}

pub(crate) fn bare_axum(args: BareAxumArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(args.listen)?;
        let listener = socket.listen(BACKLOG)?;
        let answer = async |_body: Bytes| -> Result<StatusCode, Infallible> { Ok(StatusCode::OK) };
        let router = Router::new().route("/callback/{endpoint}", post(answer));
        axum::serve(listener, router).await?;
        Ok(ExitCode::SUCCESS)
    })
}

pub(crate) fn unstored(args: UnstoredArgs) -> anyhow::Result<ExitCode> {
    let sources = gateway::Sources {
        files: vec![args.config],
        ..gateway::Sources::default()
    };
    let config = gateway::Config::load(&sources)?;
    gateway::logging::start(&config)?;
    let listeners = gateway::Listeners::bind(&config)?;
    // As the gateway's own main.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(gateway::run_unstored(
        config,
        listeners,
        gateway::Signals::default(),
    ))?;
    Ok(ExitCode::SUCCESS)
}
