//! Trying a policy before it is live: one request now, or a period of the log again. Neither changes anything.

use allocation::{
    AllocationId, MemberId, Plan, Request, SubjectKey,
    whatif::{self, Change},
};
use axum::response::Response;
use ledger::{Draft, NewPool};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::spawn_blocking;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{Ctx, Operator},
    docs::Refusals,
    drafts::DraftPath,
    explanation::{self, DecisionView, USUAL_CANDIDATES},
    extract::{Json, MaybeJson, Path},
    operations::{self, OperationView},
    pools::{self, PoolPath},
    problem::Problem,
    routing,
    simulate::{Simulate, span},
    validate::Fields,
    when::When,
};
use crate::{
    history::{self, MOST_SIMULATED, Walk},
    people,
    reception::{plans, routes as rules},
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const MOST_DAYS: u64 = 92;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(simulate_draft))
        .routes(routes!(simulate_pool))
        .routes(routes!(decide))
}

/// Which time.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Period {
    #[schema(value_type = String, format = DateTime)]
    from: When,
    /// At most 92 days after `from`; itself left out. Later than now is now.
    #[schema(value_type = String, format = DateTime)]
    until: When,
}

/// What a simulation found: the `result` of its operation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SimulationView {
    pub(super) pool: String,
    /// Null: the pool as it was.
    #[schema(required)]
    pub(super) draft: Option<String>,
    #[schema(required)]
    pub(super) draft_version: Option<u64>,
    #[schema(value_type = String, format = DateTime)]
    pub(super) from: When,
    #[schema(value_type = String, format = DateTime)]
    pub(super) until: When,
    /// Entries of the corp's log in this time.
    pub(super) entries: u64,
    /// What they asked for: customers, visits, endings, results.
    pub(super) inputs: u64,
    /// Entries that would have had another outcome. Of the pool as it was: 0.
    pub(super) differences: u64,
    /// The first of them, by their number in the log.
    pub(super) first_differences: Vec<u64>,
    /// Inputs that are about something which would not have been; they were left out.
    pub(super) not_applicable: u64,
    /// Entries that put or deleted the pool in this time; the draft stands instead.
    pub(super) skipped: u64,
    /// The drafted pool first, then others that would have been different.
    pub(super) pools: Vec<SimulatedPoolView>,
}

/// A pool as it was and as it would have been.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SimulatedPoolView {
    pub(super) pool: String,
    pub(super) recorded: SideView,
    pub(super) simulated: SideView,
    /// By member; of other pools only who would have had more or less.
    pub(super) members: Vec<GainView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SideView {
    /// Customers and visitors that came to somebody.
    pub(super) decided: u64,
    /// Waiting at the end.
    pub(super) waiting: u64,
    /// Had to wait and found somebody.
    pub(super) waited: u64,
    /// Left while they waited.
    pub(super) gave_up: u64,
    /// Half of those who found somebody waited no longer.
    #[schema(required)]
    pub(super) wait_p50_seconds: Option<f64>,
    #[schema(required)]
    pub(super) wait_p95_seconds: Option<f64>,
    /// How often a member came to a limit, by limit: `cap`, `hour_limit`, `day_limit`, `pool_cap`, `pool_hour_limit`,
    /// `pool_day_limit`.
    #[schema(value_type = std::collections::BTreeMap<String, u64>)]
    pub(super) limits_reached: serde_json::Value,
    /// How often a member was passed over because of a limit: at each decision those whom one kept out.
    pub(super) kept_out: u64,
    /// Who is furthest from what he was entitled to.
    #[schema(required)]
    pub(super) largest_deviation: Option<FurthestView>,
    /// Jain's index; 1: everybody got the same of what was his.
    #[schema(required)]
    pub(super) jain: Option<f64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FurthestView {
    pub(super) member: String,
    /// So many above it; below 0: below it.
    pub(super) customers: f64,
}

/// Customers and visitors that came to a member, less those that were taken from him again or did not come.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GainView {
    /// The userid as WeCom spells it.
    pub(super) member: String,
    pub(super) recorded: i64,
    pub(super) simulated: i64,
    /// Above 0: he would have had more.
    pub(super) gain: i64,
}

/// Runs a period of the corp's log again under a draft: who gains and who loses, who would have waited, how often limits were
/// reached. 202 and an operation; its `result` has it when it is done. One runs at a time in a corp (409 `simulation_running`),
/// over at most 92 days and 5,000,000 entries of the log (422 `too_many_entries`). What is assumed is in the manual.
#[utoipa::path(post, path = "/drafts/{draft_id}/simulations", tag = "policies", operation_id = "simulate_draft",
    params(("draft_id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), request_body = Period,
    responses((status = 202, body = OperationView), Refusals))]
async fn simulate_draft(
    Operator(ctx): Operator,
    Path(path): Path<DraftPath>,
    Json(period): Json<Period>,
) -> Result<Response, Problem> {
    let draft = path.find(&ctx).await?;
    can_be_tried(&draft.content)?;
    let wanted = Simulate {
        pool: draft.pool,
        draft: Some(draft.id),
        draft_version: Some(draft.version),
        from: period.from,
        until: period.until,
    };
    begin(&ctx, wanted).await
}

/// The same with the pool as it was: what the log says must come out again. `differences` other than 0 say that the rules of
/// this version would have decided otherwise.
#[utoipa::path(post, path = "/pools/{pool_id}/simulations", tag = "policies", operation_id = "simulate_pool",
    params(("pool_id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), request_body = Period,
    responses((status = 202, body = OperationView), Refusals))]
async fn simulate_pool(
    Operator(ctx): Operator,
    Path(path): Path<PoolPath>,
    Json(period): Json<Period>,
) -> Result<Response, Problem> {
    let pool = path.id()?;
    let found = ctx.app.ledger.pools().get(ctx.id(), &pool).await?;
    found.ok_or_else(|| Problem::not_found("pool"))?;
    let wanted = Simulate {
        pool,
        draft: None,
        draft_version: None,
        from: period.from,
        until: period.until,
    };
    begin(&ctx, wanted).await
}

async fn begin(ctx: &Ctx, mut wanted: Simulate) -> Result<Response, Problem> {
    wanted.until = wanted.until.min(When(ctx.app.now_ms()));
    let mut fields = Fields::default();
    if wanted.until <= wanted.from {
        let message = "must be after from, and from must be before now";
        fields.wrong("/until", "out_of_range", message);
    } else if wanted.until.0 - wanted.from.0 > MOST_DAYS * DAY_MS {
        let message = format!("must be at most {MOST_DAYS} days after from");
        fields.wrong("/until", "out_of_range", message);
    }
    fields.check()?;
    let (first, last) = span(&ctx.app, ctx.id(), &wanted).await?;
    let corps = ctx.app.ledger.corps();
    let snapshot = corps.snapshot_seq_before(ctx.id(), first - 1).await?;
    let entries = last.saturating_sub(snapshot);
    if entries > MOST_SIMULATED {
        return Err(history::Error::TooMany {
            from: snapshot + 1,
            entries,
            most: MOST_SIMULATED,
        }
        .into());
    }
    let request = serde_json::to_value(&wanted).map_err(|error| Problem::internal(&error))?;
    let total = (last + 1).saturating_sub(first);
    let operations = ctx.app.ledger.operations();
    let trail = ctx.trail(None);
    let begun = operations.create_simulation(ctx.id(), total, &request, &trail);
    let begun = begun.await?.ok_or_else(|| {
        Problem::conflict(
            "simulation_running",
            "Another simulation of this corp runs. Wait for its end, or cancel it.",
        )
    })?;
    Ok(operations::begun(ctx, begun))
}

/// The customer who is tried.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct Try {
    /// Skills that a member must have.
    #[schema(max_items = 8)]
    needs: Vec<String>,
    /// This member, if he is in one of the pools that serve at once, is free and has the skills.
    prefer: Option<String>,
}

/// Whom a customer would come to.
#[derive(Debug, Serialize, ToSchema)]
struct TriedView {
    /// Null: he would wait.
    #[schema(required)]
    member: Option<String>,
    /// Why; its `policy` is null: a draft is no version yet.
    explanation: DecisionView,
}

/// Whom a new customer would come to if the draft were published now, and why. Uses the present state (presence, loads, credits)
/// from the ledger and changes nothing.
#[utoipa::path(post, path = "/drafts/{draft_id}/decide", tag = "policies", operation_id = "try_draft",
    params(("draft_id" = String, Path)), request_body = Option<Try>,
    responses((status = 200, body = TriedView), Refusals))]
async fn decide(
    Operator(ctx): Operator,
    Path(path): Path<DraftPath>,
    MaybeJson(wanted): MaybeJson<Try>,
) -> Result<axum::Json<TriedView>, Problem> {
    let mut fields = Fields::default();
    let needs = routing::needs(&mut fields, &wanted.needs);
    let prefer = wanted.prefer.as_deref();
    let prefer = prefer.and_then(|member| fields.parse::<MemberId>("/prefer", member));
    fields.check()?;
    let draft = path.find(&ctx).await?;
    let change = change(draft.clone())?;
    let (app, now_ms) = (&ctx.app, ctx.app.now_ms());
    let walk = Walk::present(&app.ledger, &app.questions, ctx.id()).await?;
    let id = Uuid::now_v7();
    let subject = SubjectKey::new(ctx.id(), "draft", &id.to_string());
    let pool = rules::Pool {
        routing: draft.content.routing.clone(),
        ..rules::Pool::default()
    };
    let asked = plans::Asked {
        pool: &draft.pool,
        subject,
        needs: &needs,
        prefer: prefer.as_ref(),
        owner: None,
        avoid: &[],
        through: None,
    };
    let (plan, why) = match plans::plan(&pool, &asked) {
        Some(planned) => (Some(planned.plan), planned.why),
        None => (None, Vec::new()),
    };
    let preferred = plan.as_ref().map_or(&[][..], Plan::prefer).iter().cloned();
    let preferences: Vec<_> = preferred.zip(why).collect();
    let request = Request {
        allocation: AllocationId(id),
        pool: draft.pool,
        subject,
        holder: None,
        request: None,
        echo: false,
        plan,
    };
    let tried = spawn_blocking(move || whatif::explain_one(walk.state(), change, &request, now_ms));
    let tried = tried.await.map_err(|error| Problem::internal(&error))?;
    let mut tried = tried.map_err(|error| Problem::internal(&error))?;
    let found = tried.pop().ok_or_else(|| Problem::not_found("pool"))?;
    let (found, whole) = explanation::shortened(found, USUAL_CANDIDATES);
    let members = found.candidates.iter().map(|one| one.member.clone());
    people::learn(&ctx.app, &ctx.corp, members.collect()).await;
    let mut explanation = explanation::view(&ctx, found, whole, &preferences);
    explanation.policy = None;
    Ok(axum::Json(TriedView {
        member: explanation.chosen.clone(),
        explanation,
    }))
}

/// As the rules take it; its load window is as it was.
fn change(draft: Draft) -> Result<Change, Problem> {
    can_be_tried(&draft.content)?;
    let config = people::config_of(draft.pool, draft.version, draft.content);
    Ok(Change {
        config: config.map_err(|error| Problem::internal(&error))?,
        window: None,
        plan: None,
    })
}

fn can_be_tried(content: &NewPool) -> Result<(), Problem> {
    match pools::too_many_weights(content) {
        Some(message) => Err(Problem::conflict("too_many_weights", message)
            .with_current(json!({"pointer": "/content/members"}))),
        None => Ok(()),
    }
}
