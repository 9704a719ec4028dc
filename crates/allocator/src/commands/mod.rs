//! What `allocator` can be told to do, apart from its arguments.

pub mod doctor;
pub mod key;

use std::{collections::HashMap, io::Write, process::ExitCode};

use allocation::CorpId;
use anyhow::Context;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{EnvFilter, fmt};

use crate::{
    app::App,
    clock,
    config::Config,
    guard,
    run::{self, Listeners},
};

/// JSON lines on standard error; `RUST_LOG` chooses what, `info` without it.
pub fn logging(env: &HashMap<String, String>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(env.get("RUST_LOG").map_or("info", String::as_str))
        .context("RUST_LOG")?;
    fmt()
        .json()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init()
        .map_err(|error| anyhow::anyhow!("logging: {error}"))
}

/// The service.
pub async fn serve(
    config: Config,
    env: HashMap<String, String>,
    stop: CancellationToken,
) -> anyhow::Result<ExitCode> {
    let listeners = Listeners::bind(&config).context("http.listen, http.admin_listen")?;
    run::run(config, env, listeners, stop).await?;
    Ok(ExitCode::SUCCESS)
}

/// Tables and today's partitions. Safe to run from several places at once.
pub async fn migrate(config: Config, env: HashMap<String, String>) -> anyhow::Result<ExitCode> {
    let app = App::connect(config, &env, clock::system()).await?;
    let applied = app.ledger.migrate().await.context("migrations")?;
    let corps: Vec<CorpId> = app.corps.keys().cloned().collect();
    app.ledger.prepare(&corps).await.context("partitions")?;
    writeln!(
        std::io::stdout(),
        "{applied} migrations applied, {} corps known",
        corps.len()
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Rebuilds Redis from the ledger; the corp is closed meanwhile, and everybody is off until the next heartbeat.
pub async fn rebuild(
    config: Config,
    env: HashMap<String, String>,
    corp: Option<String>,
    how: guard::Wanted,
) -> anyhow::Result<ExitCode> {
    let app = App::connect(config, &env, clock::system()).await?;
    let wanted = corp.map(CorpId::new).transpose().context("--corp")?;
    if let Some(wanted) = &wanted
        && !app.corps.contains_key(wanted)
    {
        anyhow::bail!("--corp {wanted}: the configuration has no [corps.{wanted}]");
    }
    for (id, corp) in app
        .corps
        .iter()
        .filter(|(id, _)| wanted.as_ref().is_none_or(|wanted| wanted == *id))
    {
        let seq = guard::rebuild(&app, corp, how)
            .await
            .with_context(|| format!("corp {id}"))?;
        writeln!(std::io::stdout(), "{id}: rebuilt, the log stands at {seq}")?;
    }
    Ok(ExitCode::SUCCESS)
}
