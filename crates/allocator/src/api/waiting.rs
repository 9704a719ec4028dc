//! Who waits in a pool, and for how long.

use allocation::PoolId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api, access::Viewer, docs::Refusals, extract::Path, problem::Problem, validate, when::When,
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(get))
}

#[derive(Debug, Deserialize)]
struct PoolPath {
    pool_id: String,
}

/// The waiting list of a pool, in figures.
#[derive(Debug, Serialize, ToSchema)]
struct WaitingView {
    pool: String,
    /// Customers who were asked for in this pool and whom nobody has got yet, wherever they may be served.
    waiting: u64,
    /// When the one was asked for who has waited longest; null: nobody waits.
    #[schema(required)]
    oldest_since: Option<When>,
    #[schema(required)]
    longest_seconds: Option<u64>,
    /// Have waited longer than `alert_after_seconds`.
    too_long: u64,
    #[schema(required)]
    alert_after_seconds: Option<u64>,
}

/// How many wait in a pool, for how long, and how many of them too long. Who they are is in
/// `GET …/allocations?state=waiting&pool=…`.
#[utoipa::path(get, path = "/pools/{pool_id}/waiting", tag = "pools", operation_id = "get_pool_waiting",
    params(("pool_id" = String, Path)), responses((status = 200, body = WaitingView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<PoolPath>,
) -> Result<axum::Json<WaitingView>, Problem> {
    let id: PoolId = validate::in_path("pool_id", &path.pool_id)?;
    let table = ctx.app.ledger.pools();
    let pool = table.get(ctx.id(), &id).await?;
    let pool = pool.ok_or_else(|| Problem::not_found("pool"))?;
    let now_ms = ctx.app.now_ms();
    let mut waits = table.waits(ctx.id(), now_ms).await?.into_iter();
    let wait = waits.find(|wait| wait.pool == id);
    let oldest_ms = wait.as_ref().map(|wait| wait.oldest_ms);
    Ok(axum::Json(WaitingView {
        pool: id.into(),
        waiting: wait.as_ref().map_or(0, |wait| wait.waiting),
        oldest_since: oldest_ms.map(When),
        longest_seconds: oldest_ms.map(|oldest_ms| now_ms.saturating_sub(oldest_ms) / 1_000),
        too_long: wait.map_or(0, |wait| wait.too_long),
        alert_after_seconds: pool.routing.alert_after_seconds,
    }))
}
