//! API keys on the command line: made, listed, revoked.

use std::{collections::HashMap, io::Write, process::ExitCode, sync::Arc};

use allocation::{CorpId, MemberId};
use anyhow::Context;
use ledger::{ApiKey, Ledger, Role, Trail};
use rand::Rng;
use sha2::{Digest, Sha256};
use time::{OffsetDateTime, macros::format_description};
use uuid::Uuid;

use crate::{api::ids::Id, app::App, clock, config::Database};

/// Longest name of a key, characters.
const NAME_MAX: usize = 128;

/// What a new key is for.
#[derive(Debug)]
pub struct NewKey {
    pub corp: Option<String>,
    pub role: String,
    pub member: Option<String>,
    pub name: String,
    pub days: Option<u32>,
}

/// Makes a key and prints it, once: only its hash is kept. What can be known of it later goes to standard error, so that
/// standard output is the key and nothing else.
pub async fn create(
    database: Database,
    env: HashMap<String, String>,
    new: NewKey,
) -> anyhow::Result<ExitCode> {
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    let role: Role = new.role.parse().map_err(|_| {
        let all: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
        anyhow::anyhow!("--role {}: must be one of {}", new.role, all.join(", "))
    })?;
    let corp = new.corp.map(CorpId::new).transpose().context("--corp")?;
    let member = new.member.as_deref().map(member).transpose()?;
    if corp.is_none() && role != Role::Admin {
        anyhow::bail!(
            "--corp is missing: a key of role {} is for one corp; only an admin's may be for every corp",
            role.as_str()
        );
    }
    if (role == Role::Member) != member.is_some() {
        anyhow::bail!("--member goes with --role member, and only with it");
    }
    check_name(&new.name)?;
    if new.days == Some(0) {
        anyhow::bail!(
            "--days 0: the key would never be valid; leave it out for one without an end"
        );
    }
    let ledger = super::ledger(&database.postgres, &env).await?;
    if let Some(corp) = &corp {
        known(&database, &ledger, corp).await?;
        ledger.corps().ensure(corp).await?;
    }
    let secret = new_secret();
    let now_ms = clock::system().now_ms();
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
    ledger
        .api_keys()
        .create(&key, &hash, &Trail::system(now_ms, "allocator key create"))
        .await?;
    writeln!(std::io::stdout(), "{secret}")?;
    let corp = key.corp.as_ref().map_or("every corp", CorpId::as_str);
    let until = key.expires_ms.map_or_else(|| "revoked".to_owned(), moment);
    let (id, role) = (key.id, role.as_str());
    writeln!(
        std::io::stderr(),
        "id {id}, {role} of {corp}, valid until {until}. It is not shown again; `allocator key revoke {id}` ends it."
    )?;
    Ok(ExitCode::SUCCESS)
}

/// A table of the keys of a corp (of none: those for every corp), the oldest first.
pub async fn list(
    database: Database,
    env: HashMap<String, String>,
    corp: Option<String>,
) -> anyhow::Result<ExitCode> {
    let corp = corp.map(CorpId::new).transpose().context("--corp")?;
    let ledger = super::ledger(&database.postgres, &env).await?;
    if let Some(corp) = &corp {
        known(&database, &ledger, corp).await?;
    }
    let keys = ledger.api_keys().list(corp.as_ref()).await?;
    let text = table(&keys, clock::system().now_ms());
    write!(std::io::stdout(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}

/// Ends a key.
pub async fn revoke(
    database: Database,
    env: HashMap<String, String>,
    id: Uuid,
) -> anyhow::Result<ExitCode> {
    let ledger = super::ledger(&database.postgres, &env).await?;
    let trail = Trail::system(clock::system().now_ms(), "allocator key revoke");
    if !ledger.api_keys().revoke(id, &trail).await? {
        anyhow::bail!("there is no valid key {id}: `allocator key list` shows them");
    }
    writeln!(std::io::stdout(), "{id} is revoked")?;
    Ok(ExitCode::SUCCESS)
}

/// As the REST API lets members be named: a key for another id would open nothing.
fn member(text: &str) -> anyhow::Result<MemberId> {
    MemberId::read(text)
        .ok_or_else(|| anyhow::anyhow!("--member {text:?}: must be {}", MemberId::RULE))
}

fn check_name(name: &str) -> anyhow::Result<()> {
    if name.trim().is_empty() {
        anyhow::bail!("--name is empty: say what the key is for, or leave it out");
    }
    let length = name.chars().count();
    if length > NAME_MAX {
        anyhow::bail!("--name: must have at most {NAME_MAX} characters, and has {length}");
    }
    if name.chars().any(steers) {
        anyhow::bail!(
            "--name \"{}\": must be one line without control characters",
            printable(name)
        );
    }
    Ok(())
}

/// Whether a terminal would act on the character instead of showing it: colours, other lines, text that runs backwards.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// With such characters escaped.
fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            printable.extend(c.escape_default());
        } else {
            printable.push(c);
        }
    }
    printable
}

/// A corp that is misspelt would get a key that opens nothing.
async fn known(database: &Database, ledger: &Ledger, corp: &CorpId) -> anyhow::Result<()> {
    if database.corps.contains(corp) || ledger.corps().get(corp).await?.is_some() {
        return Ok(());
    }
    let known: Vec<&str> = database.corps.iter().map(CorpId::as_str).collect();
    anyhow::bail!(
        "--corp {corp}: there is no such corp; the configuration has {}",
        if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        }
    )
}

fn table(keys: &[ApiKey], now_ms: u64) -> String {
    let mut text = format!(
        "{:<36}  {:<10}  {:<7}  {:<17}  {:<17}  NAME\n",
        "ID", "ROLE", "STATE", "CREATED", "ENDS"
    );
    for key in keys {
        let state = match (key.revoked_ms, key.expires_ms) {
            (Some(_), _) => "revoked",
            (None, Some(expires_ms)) if expires_ms <= now_ms => "expired",
            _ => "valid",
        };
        let role = key.member.as_ref().map_or_else(
            || key.role.as_str().to_owned(),
            |member| format!("{} {}", key.role.as_str(), printable(member.as_str())),
        );
        let ends = key.revoked_ms.or(key.expires_ms);
        text.push_str(&format!(
            "{}  {role:<10}  {state:<7}  {}  {:<17}  {}\n",
            key.id,
            moment(key.created_ms),
            ends.map_or_else(|| "never".to_owned(), moment),
            printable(&key.name)
        ));
    }
    text
}

/// To the minute, UTC.
fn moment(ms: u64) -> String {
    let seconds = i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    let at = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    at.format(format_description!("[year]-[month]-[day]T[hour]:[minute]Z"))
        .unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_header_states_and_dates() {
        let key = |expires_ms, revoked_ms| ApiKey {
            id: Uuid::nil(),
            corp: None,
            role: Role::Admin,
            member: None,
            name: "n".to_owned(),
            created_ms: 1_796_000_000_000,
            expires_ms,
            revoked_ms,
        };
        let now_ms = 1_797_000_000_000;
        let keys = [
            key(None, None),
            key(Some(now_ms), None),
            key(Some(now_ms + 1), Some(now_ms - 120_000)),
        ];
        let text = table(&keys, now_ms);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0], ["ID", "ROLE", "STATE", "CREATED", "ENDS", "NAME"]);
        let id = "00000000-0000-0000-0000-000000000000";
        let made = "2026-11-30T00:53Z";
        assert_eq!(lines[1], [id, "admin", "valid", made, "never", "n"]);
        assert_eq!(
            lines[2],
            [id, "admin", "expired", made, "2026-12-11T14:40Z", "n"]
        );
        assert_eq!(
            lines[3],
            [id, "admin", "revoked", made, "2026-12-11T14:38Z", "n"]
        );
        // Older versions took any name.
        let old = ApiKey {
            name: "a\u{1b}[31mred\nb\u{202e}c é 李".to_owned(),
            ..key(None, None)
        };
        let old = table(&[old], now_ms);
        assert_eq!(old.lines().count(), 2, "{old}");
        assert!(
            old.ends_with("a\\u{1b}[31mred\\nb\\u{202e}c é 李\n"),
            "{old}"
        );
        // Columns stand below their heads.
        let at = text.lines().next().unwrap().find("NAME").unwrap();
        assert!(
            text.lines().skip(1).all(|line| line[at..] == *"n"),
            "{text}"
        );
    }
}
