//! Visits from own landing pages and mini programs: whom does this visitor see? And what became of a visit.

use allocation::{AllocationId, ChannelId, Closing, MemberId, Reason};
use axum::http::StatusCode;
use ledger::VisitEnd;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{Ctx, Operator, Viewer},
    allocations::{entity, is_recent},
    docs::Refusals,
    extract::{Json, Path},
    problem::Problem,
    routing,
    validate::{self, Fields},
    when::When,
};
use crate::{
    payload::Payload,
    reception::{
        slots,
        visits::{self, Visited, Visitor, VisitorKind, Wanted},
    },
};

/// Why somebody's hold ends before its time.
const CANCELLED: &str = "cancelled";

/// Decided in Redis alone; the visitor is what makes a repeat the same, so no key is needed.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(create))
}

pub(super) fn more_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(get, cancel))
}

#[derive(Debug, Deserialize)]
struct ChannelPath {
    channel_id: String,
}

#[derive(Debug, Deserialize)]
struct VisitPath {
    allocation_id: Uuid,
}

/// Which of WeChat's ids names the visitor.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum WechatId {
    /// The same in all apps of a company.
    Unionid,
    /// Of one app.
    Openid,
}

/// Who opens the page. The same visitor keeps whom he has.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewVisitor {
    kind: WechatId,
    /// 1 to 128 characters.
    id: String,
}

/// Somebody opens a page.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewVisit {
    visitor: NewVisitor,
    /// Skills that a member must have, beside those that the channel needs: together at most 8.
    #[serde(default)]
    #[schema(max_items = 8)]
    needs: Vec<String>,
    /// This member, if he is in one of the pools that serve, is free and has the skills; else whoever is next.
    prefer: Option<String>,
}

/// What he is to see.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum VisitState {
    /// The member's code.
    Held,
    /// Nobody is free: ask again before `until`, and he keeps his place.
    Waiting,
    /// He has added the member.
    Met,
}

/// Whom a visitor sees.
#[derive(Debug, Serialize, ToSchema)]
struct VisitView {
    state: VisitState,
    allocation_id: String,
    #[schema(required)]
    member: Option<String>,
    /// The code is this visitor's alone, so that the customer is known when he comes; without, the order of time is taken.
    own_code: bool,
    /// The picture of the code, as WeCom has it; null while there is none.
    #[schema(required)]
    qr_code: Option<String>,
    /// The same from here: a path on the public listener.
    #[schema(required)]
    picture: Option<String>,
    /// When the hold ends, or by when to ask again.
    #[schema(required)]
    until: Option<When>,
}

/// Decides whom a visitor of a channel sees, at once. Asked again for the same visitor, it answers the same until the
/// hold ends, or its member is blocked or leaves; then he is decided anew.
#[utoipa::path(post, path = "/channels/{channel_id}/visits", tag = "visits", operation_id = "create_visit",
    params(("channel_id" = String, Path)), request_body = NewVisit,
    responses((status = 200, body = VisitView), Refusals))]
async fn create(
    Operator(ctx): Operator,
    Path(path): Path<ChannelPath>,
    Json(new): Json<NewVisit>,
) -> Result<axum::Json<VisitView>, Problem> {
    let channel: ChannelId = validate::in_path("channel_id", &path.channel_id)?;
    let mut fields = Fields::default();
    fields.subject_id("/visitor/id", &new.visitor.id);
    let routes = ctx.corp.routes();
    let of_channel = routes.channels.get(&channel);
    let of_channel = of_channel.map_or(&[][..], |channel| &channel.needs[..]);
    let needs = routing::needs_with(&mut fields, &new.needs, of_channel);
    let prefer = new.prefer.as_deref();
    let prefer = prefer.and_then(|member| fields.parse::<MemberId>("/prefer", member));
    fields.check()?;
    let wanted = Wanted { needs, prefer };
    let visitor = Visitor {
        kind: match new.visitor.kind {
            WechatId::Unionid => VisitorKind::Unionid,
            WechatId::Openid => VisitorKind::Openid,
        },
        id: new.visitor.id,
    };
    let visited = visits::visit(&ctx.app, &ctx.corp, &channel, &visitor, wanted).await;
    let visited = visited.map_err(|error| match error {
        visits::Error::NotReady => ctx.roster(roster::Error::NotReady),
        visits::Error::Roster(error) => ctx.roster(error),
        visits::Error::Reason(error) => Problem::internal(&error),
    })?;
    Ok(axum::Json(view(&ctx, &channel, visited).await?))
}

async fn view(ctx: &Ctx, channel: &ChannelId, visited: Visited) -> Result<VisitView, Problem> {
    let none = |state, allocation: AllocationId| VisitView {
        state,
        allocation_id: allocation.to_string(),
        member: None,
        own_code: false,
        qr_code: None,
        picture: None,
        until: None,
    };
    Ok(match visited {
        Visited::Held(hold) => {
            let way = visits::way_of(&ctx.app, &ctx.corp, channel, &hold).await;
            let picture = match &way {
                Some(way) => slots::picture_of(&ctx.app, &ctx.corp, way).await?,
                None => None,
            };
            VisitView {
                member: Some(ctx.userid(&hold.member).await),
                own_code: hold.slot.is_some(),
                qr_code: picture.map(|picture| picture.qr_code.clone()),
                picture: way.map(|way| slots::picture_path(&way)),
                until: Some(When(hold.until_ms)),
                ..none(VisitState::Held, hold.allocation)
            }
        }
        Visited::Waiting {
            allocation,
            until_ms,
        } => VisitView {
            until: Some(When(until_ms)),
            ..none(VisitState::Waiting, allocation)
        },
        Visited::Met { allocation, member } => VisitView {
            member: Some(ctx.userid(&member).await),
            ..none(VisitState::Met, allocation)
        },
        // A channel's pool exists; Redis has not heard of it yet.
        Visited::NoPool => {
            return Err(Problem::unavailable(
                "not_ready",
                "The pool is not in use yet. Try again.",
                2,
            ));
        }
        Visited::Off if ctx.corp.routes().knows(channel.as_str()) => {
            return Err(Problem::conflict(
                "visits_off",
                "The channel has no visits: put it with `visits`.",
            ));
        }
        Visited::Off => return Err(Problem::not_found("channel")),
    })
}

/// How a hold ended.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum VisitEnding {
    /// The customer added the member in time.
    Confirmed,
    /// Nobody came in time.
    Expired,
    /// Nobody came in time; the customer added the member afterwards.
    Late,
    /// The customer added another member than he saw.
    Mismatched,
    /// The customer had an allocation already.
    Known,
    /// Somebody ended it.
    Closed,
}

impl From<VisitEnd> for VisitEnding {
    fn from(end: VisitEnd) -> Self {
        match end {
            VisitEnd::Confirmed => Self::Confirmed,
            VisitEnd::Expired => Self::Expired,
            VisitEnd::Late => Self::Late,
            VisitEnd::Mismatched => Self::Mismatched,
            VisitEnd::Known => Self::Known,
            VisitEnd::Closed => Self::Closed,
        }
    }
}

/// A visit as the ledger has it.
#[derive(Debug, Serialize, ToSchema)]
struct VisitRecord {
    /// Of the hold.
    allocation_id: String,
    channel: String,
    /// State of the contact way that was his alone.
    #[schema(required)]
    slot: Option<String>,
    began_at: When,
    held_until: When,
    #[schema(required)]
    ended_at: Option<When>,
    /// Null while it goes on.
    #[schema(required)]
    ended_as: Option<VisitEnding>,
    /// How the customer was found to be this visitor: `visitor`, `slot`, or `time`, which is a guess.
    #[schema(required)]
    matched_by: Option<String>,
    /// The allocation that the customer has, where it is another one.
    #[schema(required)]
    next_allocation_id: Option<String>,
}

/// The visit behind an allocation: its own, or the one that led to it.
#[utoipa::path(get, path = "/visits/{allocation_id}", tag = "visits", operation_id = "get_visit",
    params(("allocation_id" = Uuid, Path)), responses((status = 200, body = VisitRecord), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<VisitPath>,
) -> Result<axum::Json<VisitRecord>, Problem> {
    Ok(axum::Json(record(found(&ctx, path.allocation_id).await?)))
}

/// Ends a hold before its time: member and code are free at once. One that has ended stays as it is.
#[utoipa::path(delete, path = "/visits/{allocation_id}", tag = "visits", operation_id = "cancel_visit",
    params(("allocation_id" = Uuid, Path)),
    responses((status = 204, description = "It has ended."), Refusals))]
async fn cancel(
    Operator(ctx): Operator,
    Path(path): Path<VisitPath>,
) -> Result<StatusCode, Problem> {
    ctx.caught_up().await?;
    let visit = found(&ctx, path.allocation_id).await?;
    if visit.ended_as.is_some() {
        return Ok(StatusCode::NO_CONTENT);
    }
    let closing = Closing {
        subject: visit.visitor,
        pool: None,
        member: None::<MemberId>,
        allocation: Some(visit.allocation),
        reason: Reason::new(CANCELLED).map_err(|error| Problem::internal(&error))?,
    };
    let record = ctx.trail(None).record(
        "visit.cancel",
        entity(visit.allocation),
        None,
        Some(json!({"channel": visit.channel})),
    );
    let payload = Payload::default().by(record).text();
    let closed = ctx.corp.roster.close(vec![closing], &payload, None);
    closed.await.map_err(|error| ctx.roster(error))?;
    ctx.corp.log_grew.notify_one();
    Ok(StatusCode::NO_CONTENT)
}

/// The ledger's row. One that began a moment ago is waited for.
async fn found(ctx: &Ctx, id: Uuid) -> Result<ledger::Visit, Problem> {
    let table = ctx.app.ledger.visits();
    let mut visit = table.behind(ctx.id(), AllocationId(id)).await?;
    if visit.is_none() && is_recent(id, ctx.app.now_ms()) {
        ctx.caught_up().await?;
        visit = table.behind(ctx.id(), AllocationId(id)).await?;
    }
    visit.ok_or_else(|| Problem::not_found("visit"))
}

fn record(visit: ledger::Visit) -> VisitRecord {
    VisitRecord {
        allocation_id: visit.allocation.to_string(),
        channel: visit.channel.into(),
        slot: visit.slot.map(String::from),
        began_at: When(visit.began_ms),
        held_until: When(visit.held_until_ms),
        ended_at: visit.ended_ms.map(When),
        ended_as: visit.ended_as.map(VisitEnding::from),
        matched_by: visit.matched,
        next_allocation_id: visit.next_allocation.map(|id| id.to_string()),
    }
}
