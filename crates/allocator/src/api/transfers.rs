//! Transfers: customers on their way from one member to another at WeCom, and the ends that a person gives to those of
//! which WeCom could not say what became of them.

use allocation::{MemberId, SubjectKey};
use ledger::{Found, Resolved, Transfer, TransferFilter, TransferState};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{Ctx, Operator, Viewer},
    allocations::{CustomerView, Known, known},
    docs::Refusals,
    extract::{Json, Path, Query},
    page::{List, list_query},
    problem::Problem,
    validate::Fields,
    when::When,
};
use crate::{handover, people, reception::intake::WECOM};

const LONGEST_NOTE: usize = 500;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(resolve))
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum TransferWord {
    /// To be asked for.
    Planned,
    /// Asked for.
    Submitted,
    /// Asked for, and it may have begun.
    Unknown,
    /// WeCom moves the customer; that takes a day.
    Waiting,
    /// WeCom did not say in time what became of it: a person finds out.
    Human,
    Done,
    /// By the customer.
    Refused,
    /// The taker has as many customers as WeCom allows.
    Capped,
    /// Refused by WeCom, or given up.
    Failed,
    Cancelled,
}

macro_rules! same_words {
    ($($word:ident),+) => {
        impl From<TransferWord> for TransferState {
            fn from(word: TransferWord) -> Self {
                match word { $(TransferWord::$word => Self::$word),+ }
            }
        }

        impl From<TransferState> for TransferWord {
            fn from(state: TransferState) -> Self {
                match state { $(TransferState::$word => Self::$word),+ }
            }
        }
    };
}
same_words!(
    Planned, Submitted, Unknown, Waiting, Human, Done, Refused, Capped, Failed, Cancelled
);

#[derive(Debug, Serialize, ToSchema)]
struct TransferView {
    id: String,
    #[schema(required)]
    allocation_id: Option<String>,
    customer: CustomerView,
    giver: String,
    taker: String,
    /// `in_service`, or `resigned` when the giver has left.
    kind: &'static str,
    state: TransferWord,
    /// WeCom's last refusal.
    #[schema(required)]
    errcode: Option<i32>,
    /// The status that `transfer_result` told last, as it came.
    #[schema(required)]
    raw_status: Option<i32>,
    created_at: When,
    /// When it began, or may have begun: one of the customer's moves.
    #[schema(required)]
    started_at: Option<When>,
    /// When WeCom wants to be done.
    #[schema(required)]
    takeover_at: Option<When>,
    /// When WeCom is asked the next time.
    #[schema(required)]
    next_check_at: Option<When>,
    /// How often it was asked.
    checks: i32,
    #[schema(required)]
    unknown_since: Option<When>,
    #[schema(required)]
    ended_at: Option<When>,
}

list_query! {
    /// Which transfers; every filter that is given must match.
    TransferQuery {
        #[param(inline)]
        state: Option<TransferWord>,
        /// Giver or taker.
        member: Option<String>,
        /// Only this customer's.
        external_userid: Option<String>,
    }
}

/// Transfers, the latest first. Those with `state=human` wait for a person.
#[utoipa::path(get, path = "/transfers", tag = "transfers", operation_id = "list_transfers", params(TransferQuery),
    responses((status = 200, body = List<TransferView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<TransferQuery>,
) -> Result<axum::Json<List<TransferView>>, Problem> {
    let page = query.page();
    let mut fields = Fields::default();
    let filter = TransferFilter {
        state: query.state.map(TransferState::from),
        member: query
            .member
            .as_deref()
            .and_then(|member| fields.parse("query:member", member)),
        subject: query
            .external_userid
            .map(|id| SubjectKey::new(ctx.id(), WECOM, &id)),
    };
    fields.check()?;
    let transfers = ctx.app.ledger.transfers();
    let rows = transfers.list(ctx.id(), &filter, &page.request()?).await?;
    let customers = learn(&ctx, &rows.items).await?;
    let list = List::of(rows, page.limit()?, |row| view(&ctx, row, &customers));
    Ok(axum::Json(list))
}

/// One transfer.
#[utoipa::path(get, path = "/transfers/{transfer_id}", tag = "transfers", operation_id = "get_transfer",
    params(("transfer_id" = String, Path)), responses((status = 200, body = TransferView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<TransferPath>,
) -> Result<axum::Json<TransferView>, Problem> {
    let row = ctx
        .app
        .ledger
        .transfers()
        .get(ctx.id(), path.id()?)
        .await?
        .ok_or_else(missing)?;
    shown(&ctx, row).await.map(axum::Json)
}

#[derive(Debug, Deserialize)]
struct TransferPath {
    transfer_id: String,
}

impl TransferPath {
    fn id(&self) -> Result<Uuid, Problem> {
        self.transfer_id.parse().map_err(|_| missing())
    }
}

fn missing() -> Problem {
    Problem::not_found("transfer")
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum FoundWord {
    /// The taker has the customer.
    Done,
    /// The giver has kept him.
    Kept,
    /// Nothing was begun at WeCom: it is asked for once more.
    Retry,
}

/// What a person found out.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Resolve {
    found: FoundWord,
    /// How it was found out, for the audit; at most 500 characters.
    note: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ResolvedView {
    transfer: TransferView,
    /// False: it was so before.
    changed: bool,
}

/// Ends a transfer in `human` by what a person found out, or has it asked for once more; its allocation follows. One that
/// goes on, or has ended otherwise, stays as it is (409). Saying it again changes nothing.
#[utoipa::path(post, path = "/transfers/{transfer_id}/resolve", tag = "transfers", operation_id = "resolve_transfer",
    params(("transfer_id" = String, Path)), request_body = Resolve,
    responses((status = 200, body = ResolvedView), Refusals))]
async fn resolve(
    Operator(ctx): Operator,
    Path(path): Path<TransferPath>,
    Json(wanted): Json<Resolve>,
) -> Result<axum::Json<ResolvedView>, Problem> {
    let mut fields = Fields::default();
    fields.characters(
        "/note",
        wanted.note.as_deref().unwrap_or_default(),
        LONGEST_NOTE,
    );
    fields.check()?;
    let found = match wanted.found {
        FoundWord::Done => Found::Done,
        FoundWord::Kept => Found::Kept,
        FoundWord::Retry => Found::Retry,
    };
    let resolved = ctx
        .app
        .ledger
        .transfers()
        .resolve(ctx.id(), path.id()?, found, &ctx.trail(wanted.note))
        .await?
        .ok_or_else(missing)?;
    let (transfer, changed) = match resolved {
        Resolved::Changed(transfer) => {
            handover::end::by_hand(&ctx.app, &ctx.corp, &transfer, found).await;
            (transfer, true)
        }
        Resolved::Before(transfer) => (transfer, false),
        Resolved::NotStuck(transfer) => {
            let detail = match transfer.ended_ms {
                Some(_) => "It has ended already, and otherwise.",
                None => "It goes on by itself; only one in `human` is ended by hand.",
            };
            let current = json!({"state": transfer.state.as_str()});
            return Err(Problem::conflict("not_stuck", detail).with_current(current));
        }
        Resolved::NoUse(_) => {
            let detail = "Its allocation is closed, carried out or another member's by now, or WeCom is being asked this \
                          very moment. Nothing changed.";
            return Err(Problem::conflict("no_use", detail));
        }
    };
    let transfer = shown(&ctx, transfer).await?;
    Ok(axum::Json(ResolvedView { transfer, changed }))
}

async fn shown(ctx: &Ctx, row: Transfer) -> Result<TransferView, Problem> {
    let customers = learn(ctx, std::slice::from_ref(&row)).await?;
    Ok(view(ctx, row, &customers))
}

/// The customers of these rows; the names of their members are at hand afterwards.
async fn learn(ctx: &Ctx, rows: &[Transfer]) -> Result<Known, Problem> {
    let named = rows.iter().flat_map(|row| [&row.giver, &row.taker]);
    people::learn(&ctx.app, &ctx.corp, named.cloned().collect()).await;
    known(ctx, rows.iter().map(|row| row.subject).collect()).await
}

fn view(ctx: &Ctx, row: Transfer, customers: &Known) -> TransferView {
    let userid = |member: &MemberId| ctx.corp.names.userid(member);
    TransferView {
        id: row.id.to_string(),
        allocation_id: row.allocation.map(|id| id.to_string()),
        customer: CustomerView::of(ctx, row.customer, customers),
        giver: userid(&row.giver),
        taker: userid(&row.taker),
        kind: row.kind.as_str(),
        state: row.state.into(),
        errcode: row.errcode,
        raw_status: row.raw_status,
        created_at: When(row.created_ms),
        started_at: row.started_ms.map(When),
        takeover_at: row.takeover_ms.map(When),
        next_check_at: row.next_check_ms.map(When),
        checks: row.checks,
        unknown_since: row.unknown_since_ms.map(When),
        ended_at: row.ended_ms.map(When),
    }
}
