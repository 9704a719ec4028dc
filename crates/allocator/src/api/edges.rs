//! What inviters came to: whom they brought, who is ahead, and all of it as a table.

use std::collections::HashMap;

use allocation::InviterId;
use axum::{
    body::{Body, Bytes},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use ledger::{Edge, EdgeFilter, EdgeState, Inviter, Role};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{Ctx, Viewer},
    docs::Refusals,
    extract::{Path, Query},
    inviters::{InviterView, InvitersPath},
    page::{List, list_query},
    problem::Problem,
    sheet,
    validate::Fields,
    when::When,
};
use crate::fission::campaigns::public_path;

/// Inviters read at once for an export.
const EXPORTED: u32 = 1_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(edges))
        .routes(routes!(leaderboard))
        .routes(routes!(export))
}

/// What became of somebody who was brought.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum EdgeStateName {
    /// He has to stay yet.
    Pending,
    /// He stayed: he counts.
    Qualified,
    /// He left (`left`), or for a day after his time nobody could say whether he is there (`unread`).
    Revoked,
    /// It never counted: `self_invite`, `blocked_inviter`, `circle`, `already_member` or `over_limit`.
    Refused,
}

impl From<EdgeState> for EdgeStateName {
    fn from(state: EdgeState) -> Self {
        match state {
            EdgeState::Pending => Self::Pending,
            EdgeState::Qualified => Self::Qualified,
            EdgeState::Revoked => Self::Revoked,
            EdgeState::Refused => Self::Refused,
        }
    }
}

impl From<EdgeStateName> for EdgeState {
    fn from(name: EdgeStateName) -> Self {
        match name {
            EdgeStateName::Pending => Self::Pending,
            EdgeStateName::Qualified => Self::Qualified,
            EdgeStateName::Revoked => Self::Revoked,
            EdgeStateName::Refused => Self::Refused,
        }
    }
}

/// Somebody was brought by an inviter. There is one for each person and campaign.
#[derive(Debug, Serialize, ToSchema)]
struct EdgeView {
    /// A hash of WeCom's id of him.
    person: String,
    inviter_id: String,
    /// Null: he asked for no seat, and came by a code of the inviter's.
    #[schema(required)]
    seat_id: Option<String>,
    /// The group that he is in, or was in last.
    chat_id: String,
    state: EdgeStateName,
    /// Why it does not count.
    #[schema(required)]
    reason: Option<String>,
    joined_at: When,
    /// When he counts, if he is still there then.
    qualifies_at: When,
    #[schema(required)]
    qualified_at: Option<When>,
    /// Since when it is what it is.
    changed_at: When,
    /// Times that he left and came back too late.
    rejoins: u32,
}

impl From<Edge> for EdgeView {
    fn from(edge: Edge) -> Self {
        Self {
            person: edge.person.to_string(),
            inviter_id: edge.inviter.into(),
            seat_id: edge.seat.map(|seat| seat.to_string()),
            chat_id: edge.chat.into(),
            state: edge.state.into(),
            reason: edge.reason,
            joined_at: When(edge.joined_ms),
            qualifies_at: When(edge.qualifies_ms),
            qualified_at: edge.qualified_ms.map(When),
            changed_at: When(edge.changed_ms),
            rejoins: edge.rejoins,
        }
    }
}

list_query! {
    /// Which of those who were brought.
    EdgeQuery {
        /// The id of an inviter.
        inviter: Option<String>,
        state: Option<EdgeStateName>,
    }
}

/// Those who were brought into the groups of a campaign, the latest first. Nobody's outside id is shown.
#[utoipa::path(get, path = "/campaigns/{campaign_id}/edges", tag = "campaigns", operation_id = "list_edges",
    params(("campaign_id" = String, Path), EdgeQuery), responses((status = 200, body = List<EdgeView>), Refusals))]
async fn edges(
    Viewer(ctx): Viewer,
    Path(path): Path<InvitersPath>,
    Query(query): Query<EdgeQuery>,
) -> Result<axum::Json<List<EdgeView>>, Problem> {
    let mut fields = Fields::default();
    let inviter = query.inviter.as_deref();
    let inviter = inviter.and_then(|id| fields.parse::<InviterId>("query:inviter", id));
    fields.check()?;
    let (page, campaign) = (query.page(), path.id()?);
    let filter = EdgeFilter {
        inviter,
        state: query.state.map(EdgeState::from),
    };
    let inviters = ctx.app.ledger.inviters();
    let edges = inviters
        .edges(ctx.id(), &campaign, &filter, &page.request()?)
        .await?;
    path.campaign(&ctx).await?;
    Ok(axum::Json(List::of(edges, page.limit()?, EdgeView::from)))
}

list_query! {
    /// A leaderboard has no filters.
    BoardQuery {}
}

/// Inviters who are not blocked, by how many they brought who stayed; of two with the same number who has it longer is ahead. Whoever rises while it
/// is read page by page may be seen twice.
#[utoipa::path(get, path = "/campaigns/{campaign_id}/leaderboard", tag = "campaigns", operation_id = "get_leaderboard",
    params(("campaign_id" = String, Path), BoardQuery), responses((status = 200, body = List<InviterView>), Refusals))]
async fn leaderboard(
    Viewer(ctx): Viewer,
    Path(path): Path<InvitersPath>,
    Query(query): Query<BoardQuery>,
) -> Result<axum::Json<List<InviterView>>, Problem> {
    let (page, campaign) = (query.page(), path.id()?);
    let inviters = ctx.app.ledger.inviters();
    let board = inviters
        .leaderboard(ctx.id(), &campaign, &page.request()?)
        .await?;
    path.campaign(&ctx).await?;
    let known = InviterView::known(&ctx, &board.items).await?;
    Ok(axum::Json(List::of(board, page.limit()?, |inviter| {
        InviterView::of(&ctx, inviter, &known)
    })))
}

const HEAD: &str = "inviter_id,kind,member,external_id,name,public_url,joined,pending,qualified,revoked,refused,blocked,created_at\r\n";

/// All inviters of a campaign as CSV (UTF-8, with a byte order mark), by their ids; `external_id` is what one who is no member was
/// named by, for operators. Whoever was brought is only counted. A cell that a
/// spreadsheet would take for a formula begins with an apostrophe.
#[utoipa::path(get, path = "/campaigns/{campaign_id}/export", tag = "campaigns", operation_id = "export_inviters",
    params(("campaign_id" = String, Path)),
    responses((status = 200, body = String, content_type = "text/csv"), Refusals))]
async fn export(Viewer(ctx): Viewer, Path(path): Path<InvitersPath>) -> Result<Response, Problem> {
    let campaign = path.campaign(&ctx).await?;
    let name = format!("inviters-{campaign}.csv");
    // The first part is read before anything is answered: a store that is away is an error, no empty table.
    let inviters = ctx.app.ledger.inviters();
    let first = inviters.after(ctx.id(), &campaign, "", EXPORTED).await?;
    let parts = stream::try_unfold(
        (ctx, campaign, Some(first), true),
        |(ctx, campaign, part, is_first)| async move {
            let Some(part) = part else {
                return Ok::<_, ledger::Error>(None);
            };
            let mut text = String::new();
            if is_first {
                text.push('\u{feff}');
                text.push_str(HEAD);
            }
            let names = outside_ids(&ctx, &part).await?;
            text.push_str(&sheet::rows(
                part.iter().map(|inviter| row(&ctx, inviter, &names)),
            ));
            let next = match part.last() {
                Some(last) if part.len() == EXPORTED as usize => {
                    let inviters = ctx.app.ledger.inviters();
                    let last = last.id.as_str();
                    Some(inviters.after(ctx.id(), &campaign, last, EXPORTED).await?)
                }
                _ => None,
            };
            Ok(Some((Bytes::from(text), (ctx, campaign, next, false))))
        },
    );
    Ok((sheet::headers(&name), Body::from_stream(parts)).into_response())
}

/// What those are named by who are no members; who only looks need not know it.
async fn outside_ids(ctx: &Ctx, part: &[Inviter]) -> Result<HashMap<Uuid, String>, ledger::Error> {
    if ctx.role < Role::Operator {
        return Ok(HashMap::new());
    }
    let customers = part.iter().filter(|one| one.customer.is_some());
    let subjects: Vec<_> = customers.map(|one| one.subject).collect();
    let known = ctx.app.ledger.customers();
    let known = known.find_many(ctx.id(), &subjects).await?;
    let names = known
        .into_iter()
        .filter_map(|one| Some((one.id, one.external_id?)));
    Ok(names.collect())
}

fn row(ctx: &Ctx, inviter: &Inviter, names: &HashMap<Uuid, String>) -> [String; 13] {
    let name = inviter.customer.and_then(|customer| names.get(&customer));
    let public = &ctx.app.config.public;
    [
        inviter.id.to_string(),
        inviter.kind.as_str().to_owned(),
        sheet::text(inviter.userid.as_deref().unwrap_or_default()),
        sheet::text(name.map(String::as_str).unwrap_or_default()),
        sheet::text(&inviter.name),
        public.url(&public_path(&inviter.public_code)),
        inviter.joined.to_string(),
        inviter.pending.to_string(),
        inviter.qualified.to_string(),
        inviter.revoked.to_string(),
        inviter.refused.to_string(),
        sheet::text(inviter.blocked_reason.as_deref().unwrap_or_default()),
        When(inviter.created_ms).text(),
    ]
}
