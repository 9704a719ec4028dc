//! The second listener: `/livez`, `/readyz`, `/metrics`. Keep it inside your network.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use metrics::{Label, gauge};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use tokio::time::Instant;

use crate::{
    app::{App, CorpApp},
    redis_setup,
};

/// A store that does not answer a probe in this time is away.
const PROBE: Duration = Duration::from_secs(2);
/// The ledger's figures are counted row by row: not more often than this, however many scrape.
const COUNT_EVERY: Duration = Duration::from_secs(10);

#[derive(Clone)]
struct Admin {
    app: Arc<App>,
    metrics: PrometheusHandle,
    /// Gauges of rows that were counted before: those that are gone now are 0.
    seen: Arc<Mutex<HashSet<Series>>>,
    /// When the ledger was counted last; locked while it is.
    counted: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

type Series = (String, String, String, String);

/// One thing that is wrong.
#[derive(Debug, Serialize)]
struct Problem {
    /// `redis`, `postgres`, `migrations` or `corp`.
    part: &'static str,
    /// Which corp.
    #[serde(skip_serializing_if = "String::is_empty")]
    id: String,
    problem: String,
}

#[derive(Debug, Serialize)]
struct Ready {
    ready: bool,
    problems: Vec<Problem>,
}

pub fn admin_router(app: Arc<App>, metrics: PrometheusHandle) -> Router {
    Router::new()
        // The process runs. Nothing else: a restart mends no store.
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape))
        .with_state(Admin {
            app,
            metrics,
            seen: Arc::default(),
            counted: Arc::default(),
        })
}

async fn ready(State(admin): State<Admin>) -> impl IntoResponse {
    let (stores, corps, cautions) =
        tokio::join!(stores(&admin.app), corps(&admin.app), cautions(&admin.app));
    // One closed corp is shown, but taking the whole process out would close the others too.
    let all_closed = !corps.is_empty() && corps.len() == admin.app.corps.len();
    let ready = stores.is_empty() && !all_closed;
    let faults = faults(&admin.app);
    let problems = stores.into_iter().chain(corps);
    let problems = problems.chain(faults).chain(cautions).collect();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(Ready { ready, problems }))
}

async fn stores(app: &App) -> Vec<Problem> {
    let problem = |part, problem: String| Problem {
        part,
        id: String::new(),
        problem,
    };
    let mut problems = Vec::new();
    let redis = async {
        redis::cmd("PING")
            .query_async::<()>(&mut app.redis.clone())
            .await
    };
    let (redis, postgres) = tokio::join!(
        tokio::time::timeout(PROBE, redis),
        tokio::time::timeout(PROBE, app.ledger.migration_status())
    );
    match redis {
        Ok(Ok(())) => {}
        Ok(Err(error)) => problems.push(problem("redis", error.category().to_owned())),
        Err(_) => problems.push(problem("redis", "does not answer".to_owned())),
    }
    match postgres {
        Ok(Ok(status)) if status.pending > 0 => {
            let text = format!(
                "{} migrations are missing: run `allocator migrate`",
                status.pending
            );
            problems.push(problem("migrations", text));
        }
        Ok(Ok(_)) => match tokio::time::timeout(PROBE, app.ledger.ping()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => problems.push(problem("postgres", error.to_string())),
            Err(_) => problems.push(problem("postgres", "does not answer".to_owned())),
        },
        Ok(Err(error)) => problems.push(problem("postgres", error.to_string())),
        Err(_) => problems.push(problem("postgres", "does not answer".to_owned())),
    }
    problems
}

/// What endangers promises, though it works at present: shown, and no reason to take the process out.
async fn cautions(app: &App) -> Option<Problem> {
    let eviction = tokio::time::timeout(PROBE, redis_setup::eviction(&app.redis)).await;
    // A Redis that is away is a problem of its own, and one that hides its settings was warned of at the start.
    let policy = eviction.ok()?.ok()??;
    let problem = format!(
        "maxmemory-policy is {policy}: locks and the memory of duplicates may be thrown away; set noeviction"
    );
    Some(Problem {
        part: "redis",
        id: String::new(),
        problem,
    })
}

async fn corps(app: &App) -> Vec<Problem> {
    let states = app.corps.values().map(async |corp| {
        let status = tokio::time::timeout(PROBE, corp.roster.status()).await;
        let problem = match status {
            Ok(Ok(status)) if status.generation.is_some() => return None,
            Ok(Ok(_)) => "closed: its working state is being rebuilt".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its state cannot be read".to_owned(),
        };
        Some(Problem {
            part: "corp",
            id: corp.id.to_string(),
            problem,
        })
    });
    futures_util::future::join_all(states)
        .await
        .into_iter()
        .flatten()
        .collect()
}

/// What a person must know of, and what takes no process out: another one has the same stores.
fn faults(app: &App) -> Vec<Problem> {
    let of = |corp: &Arc<CorpApp>| {
        let texts = corp.faults.texts().into_iter();
        let id = corp.id.to_string();
        texts.map(move |problem| Problem {
            part: "corp",
            id: id.clone(),
            problem,
        })
    };
    app.corps.values().flat_map(of).collect()
}

async fn scrape(State(admin): State<Admin>) -> impl IntoResponse {
    admin.look_at_ledger().await;
    admin.metrics.run_upkeep();
    (
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        admin.metrics.render(),
    )
}

impl Admin {
    /// Counts if nobody does and it was not done just now. What takes longer than a scrape may wait is finished behind
    /// its back, once, and seen by the next.
    async fn look_at_ledger(&self) {
        let Ok(mut counted) = Arc::clone(&self.counted).try_lock_owned() else {
            return;
        };
        if counted.is_some_and(|at| at.elapsed() < COUNT_EVERY) {
            return;
        }
        let admin = self.clone();
        let counting = tokio::spawn(async move {
            match admin.app.ledger.counters().await {
                Ok(counters) => admin.count(counters),
                Err(error) => {
                    tracing::warn!(error = %error, "the ledger's figures are not to be had");
                }
            }
            *counted = Some(Instant::now());
        });
        if tokio::time::timeout(PROBE, counting).await.is_err() {
            tracing::warn!("the ledger's figures take long");
        }
    }

    fn count(&self, counters: Vec<ledger::Counter>) {
        let mut now = HashSet::new();
        for counter in counters {
            let series = (
                counter.name,
                counter.corp.to_string(),
                counter.kind,
                counter.state,
            );
            set(&series, counter.value as f64);
            now.insert(series);
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in seen.difference(&now) {
            set(gone, 0.0);
        }
        seen.extend(now);
    }
}

fn set((name, corp, kind, state): &Series, value: f64) {
    let mut labels = vec![Label::new("corp", corp.clone())];
    for (label, text) in [("kind", kind), ("state", state)] {
        if !text.is_empty() {
            labels.push(Label::new(label, text.clone()));
        }
    }
    gauge!(format!("paidan_ledger_{name}"), labels).set(value);
}
