//! What `allocator` can be told to do, apart from its arguments.

pub mod doctor;

use std::{collections::HashMap, io::Write, process::ExitCode, sync::Arc};

use allocation::{CorpId, MemberId};
use anyhow::Context;
use ledger::{ApiKey, Role, Trail};
use rand::Rng;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{EnvFilter, fmt};
use uuid::Uuid;

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
        let seq = guard::rebuild(&app, corp)
            .await
            .with_context(|| format!("corp {id}"))?;
        writeln!(std::io::stdout(), "{id}: rebuilt, the log stands at {seq}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a new key is for.
#[derive(Debug)]
pub struct NewKey {
    pub corp: Option<String>,
    pub role: String,
    pub member: Option<String>,
    pub name: String,
    pub days: Option<u32>,
}

/// Makes a key and prints it, once: only its hash is kept.
pub async fn key_create(
    config: Config,
    env: HashMap<String, String>,
    new: NewKey,
) -> anyhow::Result<ExitCode> {
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    let app = App::connect(config, &env, clock::system()).await?;
    let role: Role = new.role.parse().map_err(|_| {
        let all: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
        anyhow::anyhow!("--role {}: must be one of {}", new.role, all.join(", "))
    })?;
    let corp = new.corp.map(CorpId::new).transpose().context("--corp")?;
    let member = new
        .member
        .map(MemberId::new)
        .transpose()
        .context("--member")?;
    if corp.is_none() && role != Role::Admin {
        anyhow::bail!("--corp is missing: only an admin's key may be for every corp");
    }
    if (role == Role::Member) != member.is_some() {
        anyhow::bail!("--member goes with --role member, and only with it");
    }
    if let Some(corp) = &corp {
        app.ledger.corps().ensure(corp).await?;
    }
    let secret = new_secret();
    let now_ms = app.now_ms();
    let key = ApiKey {
        id: Uuid::now_v7(),
        corp,
        role,
        member,
        name: new.name,
        created_ms: now_ms,
        expires_ms: new.days.map(|days| now_ms + u64::from(days) * DAY_MS),
        revoked_ms: None,
    };
    let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
    app.ledger
        .api_keys()
        .create(&key, &hash, &Trail::system(now_ms, "allocator key create"))
        .await?;
    writeln!(std::io::stdout(), "{secret}")?;
    Ok(ExitCode::SUCCESS)
}

/// 256 random bits; the prefix lets people and scanners recognise a leaked one.
pub fn new_secret() -> String {
    let mut bytes = [0; 32];
    rand::rng().fill_bytes(&mut bytes);
    format!("pdn_{}", hex::encode(bytes))
}

/// For tests and tools that have an [`App`] already.
pub async fn insert_key(
    app: &Arc<App>,
    corp: Option<CorpId>,
    role: Role,
) -> Result<String, ledger::Error> {
    let secret = new_secret();
    let key = ApiKey {
        id: Uuid::now_v7(),
        corp,
        role,
        member: None,
        name: "generated".to_owned(),
        created_ms: app.now_ms(),
        expires_ms: None,
        revoked_ms: None,
    };
    let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
    app.ledger
        .api_keys()
        .create(&key, &hash, &Trail::system(app.now_ms(), "generated"))
        .await?;
    Ok(secret)
}
