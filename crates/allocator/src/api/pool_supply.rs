//! What a group pool has and lacks.

use allocation::GroupPoolId;
use ledger::{SupplySource, SupplyTask, SupplyTaskState, SupplyWhy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Viewer},
    docs::Refusals,
    extract::Path,
    group_words::SupplySourceName,
    problem::Problem,
    validate,
    when::When,
};
use crate::fission::supply::{self, Look};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(state_of_supply))
}

#[derive(Debug, Deserialize)]
pub(super) struct PoolPath {
    group_pool_id: String,
}

impl PoolPath {
    pub(super) fn id(&self) -> Result<GroupPoolId, Problem> {
        validate::in_path("group_pool_id", &self.group_pool_id)
    }
}

/// Of the corp, while it is open.
pub(super) async fn generation(ctx: &Ctx) -> Result<u64, Problem> {
    let status = ctx.corp.roster.status().await;
    let status = status.map_err(|error| ctx.roster(error))?;
    let generation = status.generation;
    generation.ok_or_else(|| ctx.roster(roster::Error::NotReady))
}

/// What the pool is like now.
pub(super) async fn why(ctx: &Ctx, pool: &GroupPoolId) -> Result<SupplyWhy, Problem> {
    let view = ctx.corp.roster.group_pool(pool).await;
    let view = view.map_err(|error| ctx.roster(error))?;
    Ok(view.map_or_else(SupplyWhy::default, |view| SupplyWhy {
        free: view.free,
        waiting: view.waiting,
        rate: 0.0,
    }))
}

/// A pool as supply sees it.
#[derive(Debug, Serialize, ToSchema)]
struct PoolSupplyView {
    /// False: it has no sources, no campaign fills it, or Redis has not heard of it; nothing is supplied.
    supplied: bool,
    /// Free seats of the groups that are shown.
    free: u64,
    /// People in the waiting room.
    waiting: u64,
    /// Seats asked for a second, of the last minutes.
    rate: f64,
    /// Groups that it lacks, whatever was asked for already.
    need: u32,
    /// Groups that are open and not shown yet.
    coming: u64,
    /// Groups that others were asked for and that have not come.
    asked_for: u32,
    /// Sources that are not tried now: one failed, did not come in time, or was called off. A change of the pool ends that.
    resting: Vec<RestingSource>,
    /// How often in a row the keeper was asked and made no group; each time he is left alone for longer.
    unanswered: u32,
}

/// A source that rests.
#[derive(Debug, Serialize, ToSchema)]
struct RestingSource {
    source: SupplySourceName,
    until: When,
}

/// How many seats are free and how many people wait, and how many groups that lacks.
#[utoipa::path(get, path = "/group-pools/{group_pool_id}/supply", tag = "groups", operation_id = "get_group_pool_supply",
    params(("group_pool_id" = String, Path)), responses((status = 200, body = PoolSupplyView), Refusals))]
async fn state_of_supply(
    Viewer(ctx): Viewer,
    Path(path): Path<PoolPath>,
) -> Result<axum::Json<PoolSupplyView>, Problem> {
    let id = path.id()?;
    let pool = ctx.app.ledger.group_pools().get(ctx.id(), &id).await?;
    pool.ok_or_else(|| Problem::not_found("group pool"))?;
    let generation = generation(&ctx).await?;
    let looks = supply::look(&ctx.app, &ctx.corp, generation).await;
    let looks = looks.map_err(|error| match error {
        supply::Error::Roster(error) => ctx.roster(error),
        supply::Error::Ledger(error) => error.into(),
        other => Problem::internal(&other),
    })?;
    let open = ctx.app.ledger.supply_tasks().open(ctx.id()).await?;
    let asked = open.iter().filter(|task| {
        task.pool == id
            && task.source != SupplySource::Spare
            && !matches!(task.state, SupplyTaskState::Overdue)
    });
    let asked_for = asked.map(SupplyTask::lacking).sum();
    let look = looks.into_iter().find(|look| look.pool.id == id);
    let why = match &look {
        Some(look) => look.why(),
        None => why(&ctx, &id).await?,
    };
    Ok(axum::Json(PoolSupplyView {
        supplied: look.is_some(),
        free: why.free,
        waiting: why.waiting,
        rate: why.rate,
        need: look.as_ref().map_or(0, |look| look.need),
        coming: look.as_ref().map_or(0, |look| look.seen.coming),
        asked_for,
        resting: look.as_ref().map_or_else(Vec::new, resting),
        unanswered: look.as_ref().map_or(0, |look| look.pool.unanswered),
    }))
}

/// In the order in which they are tried.
fn resting(look: &Look) -> Vec<RestingSource> {
    let sources = look.pool.supply.sources.iter();
    let resting = sources.filter_map(|source| {
        let until_ms = look.pool.resting.get(source)?;
        Some(RestingSource {
            source: (*source).into(),
            until: When(*until_ms),
        })
    });
    resting.collect()
}
