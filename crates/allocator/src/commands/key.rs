//! API keys on the command line: made, listed, revoked.

use std::{collections::HashMap, io::Write, process::ExitCode, sync::Arc};

use allocation::{CorpId, MemberId};
use anyhow::Context;
use ledger::{ApiKey, Role, Trail};
use rand::Rng;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{app::App, clock, config::Config};

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
pub async fn create(
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

/// One line for each key of a corp (of none: those for every corp): id, role, state, name.
pub async fn list(
    config: Config,
    env: HashMap<String, String>,
    corp: Option<String>,
) -> anyhow::Result<ExitCode> {
    let app = App::connect(config, &env, clock::system()).await?;
    let corp = corp.map(CorpId::new).transpose().context("--corp")?;
    let now_ms = app.now_ms();
    let mut out = std::io::stdout();
    for key in app.ledger.api_keys().list(corp.as_ref()).await? {
        let state = match (key.revoked_ms, key.expires_ms) {
            (Some(_), _) => "revoked",
            (None, Some(expires_ms)) if expires_ms <= now_ms => "expired",
            _ => "valid",
        };
        let role = key.member.as_ref().map_or_else(
            || key.role.as_str().to_owned(),
            |member| format!("{} {member}", key.role.as_str()),
        );
        writeln!(out, "{}  {role:<10}  {state:<7}  {}", key.id, key.name)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends a key.
pub async fn revoke(
    config: Config,
    env: HashMap<String, String>,
    id: Uuid,
) -> anyhow::Result<ExitCode> {
    let app = App::connect(config, &env, clock::system()).await?;
    let trail = Trail::system(app.now_ms(), "allocator key revoke");
    if !app.ledger.api_keys().revoke(id, &trail).await? {
        anyhow::bail!("there is no valid key {id}: `allocator key list` shows them");
    }
    writeln!(std::io::stdout(), "{id} is revoked")?;
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
