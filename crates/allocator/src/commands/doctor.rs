//! `allocator doctor`: everything that must be right before a campaign, each with how to mend it.

mod redis;
mod wecom;

use std::{collections::HashMap, io::Write, process::ExitCode, time::Duration};

use serde::Serialize;

use crate::{
    app::{App, CorpApp},
    clock,
    config::Config,
};

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
}

/// Runs every check; the exit status is 0 only if none failed.
pub async fn run(
    config: Config,
    env: HashMap<String, String>,
    callback: Option<String>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut checks = secrets(&config, &env);
    match App::connect(config, &env, clock::system()).await {
        Ok(app) => {
            checks.push(Check::new("postgres", Verdict::Ok, "answers", ""));
            checks.push(migrations(&app).await);
            checks.extend(redis::checks(&app.redis).await);
            for corp in app.corps.values() {
                checks.push(state(&app, corp).await);
                checks.extend(wecom::checks(corp).await);
            }
            if app.corps.is_empty() {
                let mend = "add a [corps.ww…] table with agent_id and secret";
                checks.push(Check::new(
                    "corps",
                    Verdict::Warning,
                    "none configured",
                    mend,
                ));
            }
        }
        Err(error) => checks.push(Check::new(
            "postgres",
            Verdict::Failed,
            error_chain(&error),
            "check postgres.url, that the server runs, and that the user may log in",
        )),
    }
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

/// Every secret can be read. Their values are never shown.
fn secrets(config: &Config, env: &HashMap<String, String>) -> Vec<Check> {
    let mut named = vec![("postgres.url".to_owned(), &config.postgres.url)];
    named.extend(
        config
            .corps
            .iter()
            .map(|(id, corp)| (format!("corps.{id}.secret"), &corp.secret)),
    );
    named
        .into_iter()
        .map(|(key, secret)| match secret.read(&key, env) {
            Ok(_) => Check::new(key, Verdict::Ok, "can be read", ""),
            Err(error) => Check::new(
                key,
                Verdict::Failed,
                error.to_string(),
                "set the variable, or make the file readable for this user",
            ),
        })
        .collect()
}

async fn migrations(app: &App) -> Check {
    match app.ledger.migration_status().await {
        Ok(status) if status.pending > 0 => {
            let found = format!("{} pending", status.pending);
            Check::new(
                "migrations",
                Verdict::Failed,
                found,
                "run `allocator migrate`",
            )
        }
        Ok(status) if status.newer > 0 => {
            let found = format!("{} of a newer version", status.newer);
            Check::new(
                "migrations",
                Verdict::Warning,
                found,
                "a newer allocator has been here; upgrade this one",
            )
        }
        Ok(_) => Check::new("migrations", Verdict::Ok, "up to date", ""),
        Err(error) => Check::new(
            "migrations",
            Verdict::Failed,
            error_chain(&error),
            "see postgres",
        ),
    }
}

/// Whether the corp is open, and where ledger and Redis stand.
async fn state(app: &App, corp: &CorpApp) -> Check {
    let name = format!("state of {}", corp.id);
    let mend = "start an allocator: it rebuilds the state by itself; or run `allocator rebuild`";
    let (row, status) = match (
        app.ledger.corps().get(&corp.id).await,
        corp.roster.status().await,
    ) {
        (Ok(row), Ok(status)) => (row.unwrap_or_default(), status),
        (Err(error), _) => {
            return Check::new(name, Verdict::Failed, error_chain(&error), "see postgres");
        }
        (_, Err(error)) => {
            return Check::new(name, Verdict::Failed, error_chain(&error), "see redis");
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

/// A callback address without parameters answers 400 when it is ours (and 404 when the endpoint is unknown).
async fn reachable(url: &str) -> Check {
    let name = "callback address";
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
            "give the whole URL of an endpoint (…/callback/<endpoint>), and check the proxy's route to the gateway",
        ),
        Err(error) => Check::new(
            name,
            Verdict::Failed,
            error.without_url().to_string(),
            "the address cannot be reached from here: check DNS, certificate, proxy and firewall",
        ),
    }
}

fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
