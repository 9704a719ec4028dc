//! Allocations: who got whom, as the ledger has it.

use std::collections::HashMap;

use allocation::{AllocationId, MemberId, SubjectKey};
use ledger::{Allocation, AllocationFilter, AllocationState, KnownCustomer, Role};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{Ctx, Viewer},
    docs::Refusals,
    extract::{Path, Query},
    ids::SubjectKind,
    page::{List, list_query},
    problem::Problem,
    validate::Fields,
    when::When,
};
use crate::{people, reception::intake::WECOM};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
}

/// An allocation as the ledger has it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AllocationView {
    id: String,
    pool: String,
    #[schema(required)]
    channel: Option<String>,
    customer: CustomerView,
    /// Who has the customer, or is asked about him. Null: it waits, or a person must decide, or it ended so.
    #[schema(required)]
    member: Option<String>,
    /// Who had the customer at WeCom when it was decided, if that was somebody else.
    #[schema(required)]
    giver: Option<String>,
    state: StateName,
    /// Raised by every reassignment and every further offer; goes into `expect_epoch`, and into an answer to an offer.
    epoch: u64,
    /// Who asked: `callback`, `api`, `audit`, `reread`.
    source: String,
    #[schema(required)]
    delivery: Option<String>,
    decided_at: When,
    /// Null while nobody has him, and while a member is only asked.
    #[schema(required)]
    assigned_at: Option<When>,
    /// Until when the member who is asked may accept; null: nobody is asked.
    #[schema(required)]
    offered_until: Option<When>,
    /// When the decision had been carried out at WeCom.
    #[schema(required)]
    settled_at: Option<When>,
    /// `done`, `kept` (the customer stayed where he was), `void`.
    #[schema(required)]
    settled_as: Option<String>,
    #[schema(required)]
    closed_at: Option<When>,
    #[schema(required)]
    close_reason: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CustomerView {
    /// Ours; stays when the person is forgotten.
    id: String,
    #[schema(required)]
    kind: Option<String>,
    /// The outside id, of the kind `kind`, for operators; null when it was forgotten.
    #[schema(required)]
    external_id: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum StateName {
    /// For a free member.
    Waiting,
    /// A member is asked, and has not accepted yet.
    Offered,
    /// Nobody is left to ask: a person must give it to somebody (`reassign`) or close it.
    Undecided,
    Open,
    Closed,
}

list_query! {
    /// Which allocations; every filter that is given must match.
    AllocationQuery {
        pool: Option<String>,
        member: Option<String>,
        #[param(inline)]
        state: Option<StateName>,
        channel: Option<String>,
        /// With `subject_id`: the kind of the customer's outside id; `wecom` without it.
        subject_kind: Option<String>,
        /// Only this customer's.
        subject_id: Option<String>,
        #[param(value_type = Option<String>)]
        created_after: Option<When>,
        #[param(value_type = Option<String>)]
        created_before: Option<When>,
    }
}

/// Allocations, the latest first.
#[utoipa::path(get, path = "/allocations", tag = "allocations", operation_id = "list_allocations", params(AllocationQuery),
    responses((status = 200, body = List<AllocationView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<AllocationQuery>,
) -> Result<axum::Json<List<AllocationView>>, Problem> {
    let page = query.page();
    let mut fields = Fields::default();
    let kind = query.subject_kind.as_deref().unwrap_or(WECOM);
    fields.parse::<SubjectKind>("query:subject_kind", kind);
    let filter = AllocationFilter {
        pool: query
            .pool
            .as_deref()
            .and_then(|pool| fields.parse("query:pool", pool)),
        member: query
            .member
            .as_deref()
            .and_then(|member| fields.parse("query:member", member)),
        channel: query
            .channel
            .as_deref()
            .and_then(|channel| fields.parse("query:channel", channel)),
        state: query.state.map(|state| match state {
            StateName::Waiting => AllocationState::Waiting,
            StateName::Offered => AllocationState::Offered,
            StateName::Undecided => AllocationState::Undecided,
            StateName::Open => AllocationState::Open,
            StateName::Closed => AllocationState::Closed,
        }),
        subject: query
            .subject_id
            .as_ref()
            .map(|id| SubjectKey::new(ctx.id(), kind, id)),
        decided_from_ms: query.created_after.map(|when| when.0),
        decided_before_ms: query.created_before.map(|when| when.0),
    };
    fields.check()?;
    let rows = ctx
        .app
        .ledger
        .allocations()
        .list(ctx.id(), &filter, &page.request()?)
        .await?;
    let customers = customers(&ctx, &rows.items).await?;
    let list = List::of(rows, page.limit()?, |row| view(&ctx, row, &customers));
    Ok(axum::Json(list))
}

/// One allocation.
#[utoipa::path(get, path = "/allocations/{allocation_id}", tag = "allocations", operation_id = "get_allocation",
    params(("allocation_id" = String, Path)), responses((status = 200, body = AllocationView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<AllocationPath>,
) -> Result<axum::Json<AllocationView>, Problem> {
    let row = path.find(&ctx).await?;
    shown(&ctx, row).await.map(axum::Json)
}

#[derive(Debug, Deserialize)]
pub(super) struct AllocationPath {
    allocation_id: String,
}

impl AllocationPath {
    /// The ledger's row. One that was decided a moment ago is waited for.
    pub(super) async fn find(&self, ctx: &Ctx) -> Result<Allocation, Problem> {
        let missing = || Problem::not_found("allocation");
        let id: AllocationId = self.allocation_id.parse().map_err(|_| missing())?;
        if let Some(row) = ctx.app.ledger.allocations().get(ctx.id(), id).await? {
            return Ok(row);
        }
        if !is_recent(id.0, ctx.app.now_ms()) {
            return Err(missing());
        }
        ctx.caught_up().await?;
        ctx.app
            .ledger
            .allocations()
            .get(ctx.id(), id)
            .await?
            .ok_or_else(missing)
    }
}

/// Made less than a minute ago, by its own time.
pub(super) fn is_recent(id: Uuid, now_ms: u64) -> bool {
    const MINUTE_MS: u64 = 60_000;
    let bytes = id.as_bytes();
    let made_ms = bytes[..6]
        .iter()
        .fold(0, |ms, byte| ms << 8 | u64::from(*byte));
    id.get_version_num() == 7 && made_ms.abs_diff(now_ms) < MINUTE_MS
}

/// What an entry of the audit is about.
pub(super) fn entity(allocation: AllocationId) -> String {
    format!("allocations/{allocation}")
}

pub(super) async fn shown(ctx: &Ctx, row: Allocation) -> Result<AllocationView, Problem> {
    let customers = customers(ctx, std::slice::from_ref(&row)).await?;
    Ok(view(ctx, row, &customers))
}

/// What is known of customers, by our ids.
pub(super) type Known = HashMap<Uuid, KnownCustomer>;

/// The customers of these rows; the names of their members are at hand afterwards.
async fn customers(ctx: &Ctx, rows: &[Allocation]) -> Result<Known, Problem> {
    let named = rows
        .iter()
        .flat_map(|row| row.member.iter().chain(&row.giver).cloned());
    people::learn(&ctx.app, &ctx.corp, named.collect()).await;
    known(ctx, rows.iter().map(|row| row.subject).collect()).await
}

pub(super) async fn known(ctx: &Ctx, subjects: Vec<SubjectKey>) -> Result<Known, Problem> {
    let known = ctx
        .app
        .ledger
        .customers()
        .find_many(ctx.id(), &subjects)
        .await?;
    Ok(known
        .into_iter()
        .map(|customer| (customer.id, customer))
        .collect())
}

impl CustomerView {
    pub(super) fn of(ctx: &Ctx, id: Uuid, known: &Known) -> Self {
        let customer = known.get(&id);
        Self {
            id: id.to_string(),
            kind: customer.map(|customer| customer.kind.clone()),
            // Who only looks need not know who it is.
            external_id: customer
                .and_then(|customer| customer.external_id.clone())
                .filter(|_| ctx.role >= Role::Operator),
        }
    }
}

fn view(ctx: &Ctx, row: Allocation, customers: &Known) -> AllocationView {
    let userid = |member: MemberId| ctx.corp.names.userid(&member);
    AllocationView {
        id: row.id.to_string(),
        pool: row.pool.into(),
        channel: row.channel.map(String::from),
        customer: CustomerView::of(ctx, row.customer, customers),
        member: row.member.map(userid),
        giver: row.giver.map(userid),
        state: match row.state {
            AllocationState::Waiting => StateName::Waiting,
            AllocationState::Offered => StateName::Offered,
            AllocationState::Undecided => StateName::Undecided,
            AllocationState::Open => StateName::Open,
            AllocationState::Closed => StateName::Closed,
        },
        epoch: row.epoch,
        source: row.source,
        delivery: row.delivery,
        decided_at: When(row.decided_ms),
        assigned_at: row.assigned_ms.map(When),
        offered_until: row.offer_until_ms.map(When),
        settled_at: row.settled_ms.map(When),
        settled_as: row.settled_as,
        closed_at: row.closed_ms.map(When),
        close_reason: row.close_reason,
    }
}
