//! What `allocator` can be told to do, apart from its arguments.

pub mod doctor;
pub mod key;
mod replay;

use std::{collections::HashMap, io::Write, process::ExitCode};

use allocation::CorpId;
use anyhow::Context;
use ledger::Ledger;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{EnvFilter, fmt};

pub use replay::replay;

use crate::{
    app::App,
    clock,
    config::{Config, Database, Postgres},
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

/// An error and its causes on one line. What says its cause itself, as many do, does not say it twice, and what its cause
/// begins with does not say it before.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let (mut text, mut source) = said(error);
    while let Some(cause) = source {
        let (cause_text, next) = said(cause);
        if cause_text.starts_with(&text) {
            text = cause_text;
        } else if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = next;
    }
    text
}

/// What an error says, and its cause if that says more. Of Postgres the message alone: the line behind it is one of its
/// own source text.
fn said<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> (String, Option<&'a (dyn std::error::Error + 'static)>) {
    if let Some(ledger::Error::NotMigrated(_)) = error.downcast_ref() {
        let text = "the tables of this version are not there: run `allocator migrate`";
        return (text.to_owned(), None);
    }
    match error.downcast_ref() {
        Some(sqlx::Error::Database(database)) => (database.message().to_owned(), None),
        _ => (error.to_string(), error.source()),
    }
}

/// The ledger alone: for what needs nothing else of the configuration.
async fn ledger(postgres: &Postgres, env: &HashMap<String, String>) -> anyhow::Result<Ledger> {
    let url = postgres.read_url(env)?;
    Ledger::connect(postgres.ledger(url))
        .await
        .context("Postgres")
}

/// The service.
pub async fn serve(
    config: Config,
    env: HashMap<String, String>,
    stop: CancellationToken,
) -> anyhow::Result<ExitCode> {
    let listeners = Listeners::bind(&config)?;
    run::run(config, env, listeners, stop).await?;
    Ok(ExitCode::SUCCESS)
}

/// Tables and a row for each corp. Safe to run from several places at once.
pub async fn migrate(database: Database, env: HashMap<String, String>) -> anyhow::Result<ExitCode> {
    let ledger = ledger(&database.postgres, &env).await?;
    let applied = ledger.migrate().await.context("migrations")?;
    ledger.prepare(&database.corps).await.context("corps")?;
    writeln!(
        std::io::stdout(),
        "{applied} migrations applied, {} corps known",
        database.corps.len()
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

#[cfg(test)]
mod tests {
    use super::chain;

    #[test]
    fn a_cause_is_said_once() {
        let io = || std::io::Error::other("refused");
        let error = |text: &str| anyhow::Error::new(io()).context(text.to_owned());
        for (error, expected) in [
            (error("Postgres: refused"), "Postgres: refused"),
            (error("Postgres"), "Postgres: refused"),
            (
                error("Postgres is away").context("Postgres"),
                "Postgres is away: refused",
            ),
            (anyhow::Error::new(io()), "refused"),
        ] {
            assert_eq!(chain(error.as_ref()), expected);
        }
    }
}
