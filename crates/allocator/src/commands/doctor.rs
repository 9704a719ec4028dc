//! `allocator doctor`: everything that must be right before a campaign, each with how to mend it.

mod redis;
mod wecom;

use std::{collections::HashMap, io::Write, process::ExitCode, time::Duration};

use allocation::{CorpId, PoolId};
use inbox::connect;
use ledger::Ledger;
use roster::Roster;
use serde::Serialize;

use super::chain;
use crate::{app::Redis, config::Config};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warning,
    Failed,
}

/// One check.
#[derive(Debug, Serialize)]
struct Check {
    name: String,
    verdict: Verdict,
    found: String,
    /// What to do; empty when nothing is to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    mend: String,
}

impl Check {
    fn new(
        name: impl Into<String>,
        verdict: Verdict,
        found: impl Into<String>,
        mend: &str,
    ) -> Self {
        let mend = if verdict == Verdict::Ok {
            String::new()
        } else {
            mend.to_owned()
        };
        Self {
            name: name.into(),
            verdict,
            found: found.into(),
            mend,
        }
    }

    fn failed(
        name: impl Into<String>,
        error: &(dyn std::error::Error + 'static),
        mend: &str,
    ) -> Self {
        Self::new(name, Verdict::Failed, chain(error), mend)
    }
}

/// Runs every check; the exit status is 0 only if none failed.
pub async fn run(
    config: Config,
    env: HashMap<String, String>,
    callback: Option<String>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut checks = all(&config, &env).await;
    if let Some(url) = callback {
        checks.push(reachable(&url).await);
    }
    print(&checks, json)?;
    let failed = checks.iter().any(|check| check.verdict == Verdict::Failed);
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Each part by itself, so that one that is wrong hides no other and is not blamed for it.
async fn all(config: &Config, env: &HashMap<String, String>) -> Vec<Check> {
    let mut checks = Vec::new();
    let ledger = postgres(config, env, &mut checks).await;
    let redis = match connect::connect_lazy(&config.redis) {
        Ok(redis) => {
            checks.extend(redis::checks(&redis).await);
            Some(redis)
        }
        Err(error) => {
            let mend = "correct the keys of [redis]";
            checks.push(Check::failed("redis", &error, mend));
            None
        }
    };
    if config.public.listen.is_some() {
        let key = "public.cookie_key";
        checks.push(match config.public.read_keys(env) {
            Ok(_) => Check::new(key, Verdict::Ok, "can be read", ""),
            Err(error) => Check::new(key, Verdict::Failed, error.problem, MEND_COOKIE_KEY),
        });
    }
    for (id, corp) in &config.corps {
        if let (Some(ledger), Some(redis)) = (&ledger, &redis)
            && let Ok(corp) = CorpId::new(id.as_str())
        {
            checks.push(state(ledger, redis, &corp).await);
        }
        if let (Some(ledger), Some(pool)) = (&ledger, &corp.default_pool) {
            checks.extend(default_pool(ledger, id, pool).await);
        }
        let key = format!("corps.{id}.secret");
        let secret = match corp.read_secret(id, env) {
            Ok(secret) => secret,
            Err(error) => {
                checks.push(Check::new(key, Verdict::Failed, error.problem, MEND_SECRET));
                continue;
            }
        };
        checks.push(Check::new(key, Verdict::Ok, "can be read", ""));
        match wecom::client(&config.wecom.base_url, id, corp, secret) {
            Ok(client) => checks.extend(wecom::checks(&client).await),
            Err(error) => {
                let name = format!("WeCom client of {id}");
                let mend = "correct the keys of [wecom] and of the corp's table";
                checks.push(Check::failed(name, &error, mend));
            }
        }
    }
    if config.corps.is_empty() {
        let mend = "add a [corps.ww…] table with agent_id and secret";
        checks.push(Check::new(
            "corps",
            Verdict::Warning,
            "none configured",
            mend,
        ));
    }
    checks
}

const MEND_COOKIE_KEY: &str =
    "give every allocator the same key, made once with `openssl rand -base64 32`";
const MEND_SECRET: &str = "set the variable, or make the file readable for this user";

/// The ledger, if it can be reached and has its tables.
async fn postgres(
    config: &Config,
    env: &HashMap<String, String>,
    checks: &mut Vec<Check>,
) -> Option<Ledger> {
    let url = match config.postgres.read_url(env) {
        Ok(url) => url,
        Err(error) => {
            checks.push(Check::new(
                error.key,
                Verdict::Failed,
                error.problem,
                MEND_SECRET,
            ));
            return None;
        }
    };
    checks.push(Check::new("postgres.url", Verdict::Ok, "can be read", ""));
    match Ledger::connect(config.postgres.ledger(url)).await {
        Ok(ledger) => {
            checks.push(Check::new("postgres", Verdict::Ok, "answers", ""));
            let migrations = migrations(&ledger).await;
            let usable = migrations.verdict != Verdict::Failed;
            checks.push(migrations);
            usable.then_some(ledger)
        }
        Err(error) => {
            let mend = "check the address in postgres.url, that the server runs, and that the user may log in to the database";
            checks.push(Check::failed("postgres", &error, mend));
            None
        }
    }
}

fn print(checks: &[Check], json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    for check in checks {
        if json {
            writeln!(out, "{}", serde_json::to_string(check)?)?;
            continue;
        }
        let mark = match check.verdict {
            Verdict::Ok => "ok      ",
            Verdict::Warning => "warning ",
            Verdict::Failed => "FAILED  ",
        };
        writeln!(out, "{mark}{}: {}", check.name, check.found)?;
        if !check.mend.is_empty() {
            writeln!(out, "        → {}", check.mend)?;
        }
    }
    Ok(())
}

async fn migrations(ledger: &Ledger) -> Check {
    let name = "migrations";
    match ledger.migration_status().await {
        Ok(status) if status.pending > 0 => {
            let found = format!(
                "{} pending; the state of the corps was not looked at",
                status.pending
            );
            Check::new(name, Verdict::Failed, found, MEND_TABLES)
        }
        Ok(status) if status.newer > 0 => {
            let found = format!("{} of a newer version", status.newer);
            let mend = "a newer allocator has been here; upgrade this one";
            Check::new(name, Verdict::Warning, found, mend)
        }
        Ok(_) => Check::new(name, Verdict::Ok, "up to date", ""),
        Err(error) => Check::failed(name, &error, mend_ledger(&error)),
    }
}

const MEND_CALLBACK: &str = "give the whole URL of an endpoint (https://…/callback/<endpoint>), and check the proxy's route to the gateway";

const MEND_TABLES: &str = "run `allocator migrate`";

fn mend_ledger(error: &ledger::Error) -> &'static str {
    match error {
        ledger::Error::NotMigrated(_) | ledger::Error::Migration { .. } => MEND_TABLES,
        error if error.is_passing() => {
            "Postgres answered before and does not now: look at its log, and run doctor again"
        }
        _ => "give the user all rights on the tables of its database, and look at Postgres' log",
    }
}

/// Whether the corp is open, and where ledger and Redis stand.
async fn state(ledger: &Ledger, redis: &Redis, corp: &CorpId) -> Check {
    let name = format!("state of {corp}");
    let mend = "start an allocator: it rebuilds the state by itself; or run `allocator rebuild`";
    let roster = Roster::new(redis.clone()).corp(corp);
    let (row, status) = match (ledger.corps().get(corp).await, roster.status().await) {
        (Ok(row), Ok(status)) => (row.unwrap_or_default(), status),
        (Err(error), _) => return Check::failed(name, &error, mend_ledger(&error)),
        (_, Err(error)) => {
            let mend = "see the checks of redis above";
            return Check::failed(name, &error, mend);
        }
    };
    let found = format!(
        "generation {} (ledger {}), log at {} (ledger {})",
        status
            .generation
            .map_or_else(|| "none".to_owned(), |generation| generation.to_string()),
        row.opened_generation,
        status.seq,
        row.log_seq
    );
    let open = status.generation == Some(row.opened_generation) && status.seq >= row.log_seq;
    Check::new(
        name,
        if open { Verdict::Ok } else { Verdict::Warning },
        found,
        mend,
    )
}

/// Whether the pool of customers without a channel is there; nothing if the ids are none.
async fn default_pool(ledger: &Ledger, corp: &str, pool: &str) -> Option<Check> {
    let name = format!("corps.{corp}.default_pool");
    let (corp, pool) = (CorpId::new(corp).ok()?, PoolId::new(pool).ok()?);
    Some(match ledger.pools().get(&corp, &pool).await {
        Ok(Some(_)) => Check::new(name, Verdict::Ok, format!("{pool} is there"), ""),
        Ok(None) => {
            let mend = "make the pool, or name one that is there: a customer whose State names no channel needs it";
            let found = format!("there is no pool {pool}");
            Check::new(name, Verdict::Warning, found, mend)
        }
        Err(error) => Check::failed(name, &error, mend_ledger(&error)),
    })
}

/// A callback address without parameters answers 400 when it is ours (and 404 when the endpoint is unknown).
async fn reachable(url: &str) -> Check {
    let name = "callback address";
    let is_web = reqwest::Url::parse(url)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if !is_web {
        let found = format!("{url:?} is no URL that begins with http:// or https://");
        return Check::new(name, Verdict::Failed, found, MEND_CALLBACK);
    }
    let client = match reqwest::Client::builder()
        .timeout(Duration::from_secs(5))
        .build()
    {
        Ok(client) => client,
        Err(error) => return Check::new(name, Verdict::Failed, error.to_string(), "this is a bug"),
    };
    match client.get(url).send().await {
        Ok(answer) if answer.status() == 400 => {
            Check::new(name, Verdict::Ok, "answers as a gateway does", "")
        }
        Ok(answer) => Check::new(
            name,
            Verdict::Failed,
            format!("answers {}", answer.status()),
            MEND_CALLBACK,
        ),
        Err(error) => Check::new(
            name,
            Verdict::Failed,
            error.without_url().to_string(),
            "the address cannot be reached from here: check DNS, certificate, proxy and firewall",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{Verdict, reachable};

    #[tokio::test]
    async fn what_is_no_url_is_said_to_be_none() {
        for wrong in [
            "nonsense",
            "",
            "wecom.example.com:443/callback/main",
            "file:///etc",
        ] {
            let check = reachable(wrong).await;
            assert_eq!(check.verdict, Verdict::Failed);
            assert!(
                check.found.contains("is no URL") && check.mend.contains("the whole URL"),
                "{check:?}"
            );
        }
    }
}
