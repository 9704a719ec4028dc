//! The second address: `/livez`, `/readyz`, `/metrics`. Apart from the public one, so that a proxy which passes
//! everything on shows nobody our figures, and so that probes are answered when all public connections are taken.

use std::sync::Arc;

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    body::Budget,
    health::{Health, Problem},
    metrics::Metrics,
    worker::WaitingByCorp,
};

#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) waiting: WaitingByCorp,
    pub(crate) budget: Budget,
}

#[derive(Serialize)]
struct Ready {
    ready: bool,
    problems: Vec<Problem>,
}

pub(crate) async fn serve(
    admin: Admin,
    listener: tokio::net::TcpListener,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        // The process runs. Nothing else: a restart mends no Redis.
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(admin);
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}

async fn ready(State(admin): State<Admin>) -> impl IntoResponse {
    let (ready, problems) = admin.health.report();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(Ready { ready, problems }))
}

async fn metrics(State(admin): State<Admin>) -> impl IntoResponse {
    admin.metrics.buffered_bytes.set(admin.budget.used() as f64);
    for (corp, waiting) in admin.waiting.all() {
        admin.metrics.queue_depth(&corp).set(waiting as f64);
    }
    (
        [("content-type", "text/plain; version=0.0.4; charset=utf-8")],
        admin.metrics.render(),
    )
}
