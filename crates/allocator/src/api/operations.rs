//! Operations: long work, with its progress and first errors. It can be cancelled; what is done by then stays done.

use axum::{
    Json as Answer,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use ledger::{Operation, OperationState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{Ctx, Operator, Viewer},
    docs::Refusals,
    extract::{Path, Query},
    page::{List, list_query},
    problem::Problem,
    simulations::SimulationView,
    when::When,
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(cancel))
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OperationWord {
    Running,
    /// Its end was asked for.
    Cancelling,
    Done,
    Failed,
    Cancelled,
}

impl From<OperationState> for OperationWord {
    fn from(state: OperationState) -> Self {
        match state {
            OperationState::Running => Self::Running,
            OperationState::Cancelling => Self::Cancelling,
            OperationState::Done => Self::Done,
            OperationState::Failed => Self::Failed,
            OperationState::Cancelled => Self::Cancelled,
        }
    }
}

impl From<OperationWord> for OperationState {
    fn from(state: OperationWord) -> Self {
        match state {
            OperationWord::Running => Self::Running,
            OperationWord::Cancelling => Self::Cancelling,
            OperationWord::Done => Self::Done,
            OperationWord::Failed => Self::Failed,
            OperationWord::Cancelled => Self::Cancelled,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OperationView {
    id: String,
    /// For example `deliveries.replay`.
    kind: String,
    state: OperationWord,
    /// As it was counted at the start; of an import of groups 0 until they are listed.
    total: u64,
    done: u64,
    /// There was nothing to do for them.
    skipped: u64,
    failed: u64,
    first_errors: Vec<Value>,
    /// What was asked for.
    request: Value,
    /// What a simulation found, once it is done; null otherwise.
    #[schema(required, value_type = Option<SimulationView>)]
    result: Option<Value>,
    actor: String,
    created_at: When,
    updated_at: When,
}

impl From<Operation> for OperationView {
    fn from(operation: Operation) -> Self {
        Self {
            id: operation.id.to_string(),
            kind: operation.kind,
            state: operation.state.into(),
            total: operation.progress.total,
            done: operation.progress.done,
            skipped: operation.progress.skipped,
            failed: operation.progress.failed,
            first_errors: operation.progress.first_errors,
            request: operation.request,
            result: operation.result,
            actor: operation.actor,
            created_at: When(operation.created_ms),
            updated_at: When(operation.updated_ms),
        }
    }
}

list_query! {
    /// Which operations.
    OperationQuery {
        kind: Option<String>,
        #[param(inline)]
        state: Option<OperationWord>,
    }
}

/// Operations, the latest first.
#[utoipa::path(get, path = "/operations", tag = "operations", operation_id = "list_operations", params(OperationQuery),
    responses((status = 200, body = List<OperationView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<OperationQuery>,
) -> Result<Answer<List<OperationView>>, Problem> {
    let page = query.page();
    let state = query.state.map(OperationState::from);
    let operations = ctx.app.ledger.operations();
    let found = operations
        .list(ctx.id(), query.kind.as_deref(), state, &page.request()?)
        .await?;
    Ok(Answer(List::of(found, page.limit()?, OperationView::from)))
}

/// One operation.
#[utoipa::path(get, path = "/operations/{operation_id}", tag = "operations", operation_id = "get_operation",
    params(("operation_id" = String, Path)), responses((status = 200, body = OperationView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<OperationPath>,
) -> Result<Answer<OperationView>, Problem> {
    let operation = ctx
        .app
        .ledger
        .operations()
        .get(ctx.id(), path.id()?)
        .await?;
    Ok(Answer(
        operation
            .ok_or_else(|| Problem::not_found("operation"))?
            .into(),
    ))
}

/// Asks for an operation's end. One that has ended stays as it is.
#[utoipa::path(post, path = "/operations/{operation_id}/cancel", tag = "operations", operation_id = "cancel_operation",
    params(("operation_id" = String, Path)), responses((status = 200, body = OperationView), Refusals))]
async fn cancel(
    Operator(ctx): Operator,
    Path(path): Path<OperationPath>,
) -> Result<Answer<OperationView>, Problem> {
    let operation = ctx
        .app
        .ledger
        .operations()
        .cancel(ctx.id(), path.id()?, &ctx.trail(None))
        .await?;
    Ok(Answer(
        operation
            .ok_or_else(|| Problem::not_found("operation"))?
            .into(),
    ))
}

#[derive(Debug, Deserialize)]
struct OperationPath {
    operation_id: String,
}

impl OperationPath {
    fn id(&self) -> Result<Uuid, Problem> {
        self.operation_id
            .parse()
            .map_err(|_| Problem::not_found("operation"))
    }
}

/// Whether to count only.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DryRun {
    /// Count what it would do, and do nothing.
    #[serde(default)]
    pub(super) dry_run: bool,
}

/// Begins an operation; `work` carries it out.
pub(super) async fn begin(
    ctx: &Ctx,
    kind: &str,
    total: u64,
    request: &Value,
    note: Option<String>,
) -> Result<Response, Problem> {
    let operation = ctx
        .app
        .ledger
        .operations()
        .create(ctx.id(), kind, total, request, &ctx.trail(note))
        .await?;
    Ok(begun(ctx, operation))
}

/// Where it can be followed.
pub(super) fn begun(ctx: &Ctx, operation: Operation) -> Response {
    let place = format!("/api/v1/corps/{}/operations/{}", ctx.id(), operation.id);
    let mut response =
        (StatusCode::ACCEPTED, Answer(OperationView::from(operation))).into_response();
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}
