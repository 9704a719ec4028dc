//! Leaves: from a moment to another a member gets nobody, whatever his hours say.

use allocation::{MemberId, Reason};
use axum::http::StatusCode;
use ledger::{AddLeave, Leave, NewLeave};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{Operator, Viewer},
    docs::Refusals,
    extract::{Json, Path},
    member_presence::hours_of,
    problem::Problem,
    validate::{self, Fields},
    when::When,
};
use crate::people::hours;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, post))
        .routes(routes!(delete))
}

/// A leave that is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PostLeave {
    from: When,
    /// After `from`, and in the future; not included.
    to: When,
    /// A short code that says why, such as `annual_leave`.
    reason: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct LeaveView {
    id: Uuid,
    from: When,
    to: When,
    reason: String,
    created_at: When,
}

impl From<Leave> for LeaveView {
    fn from(leave: Leave) -> Self {
        Self {
            id: leave.id,
            from: When(leave.from_ms),
            to: When(leave.to_ms),
            reason: leave.reason.into(),
            created_at: When(leave.created_ms),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
struct Leaves {
    data: Vec<LeaveView>,
}

/// A member's leaves that are not over, by their beginning; 100 at most.
#[utoipa::path(get, path = "/members/{userid}/leaves", tag = "members", operation_id = "list_leaves",
    params(("userid" = String, Path)), responses((status = 200, body = Leaves), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Path(path): Path<MemberPath>,
) -> Result<axum::Json<Leaves>, Problem> {
    let hours = hours_of(&ctx, &member(&path.userid)?).await?;
    let data = hours.leaves.into_iter().map(LeaveView::from).collect();
    Ok(axum::Json(Leaves { data }))
}

/// Gives a member leave. If he is on it now, he is off at once.
#[utoipa::path(post, path = "/members/{userid}/leaves", tag = "members", operation_id = "post_leave",
    params(("userid" = String, Path)), request_body = PostLeave,
    responses((status = 201, body = LeaveView), Refusals))]
async fn post(
    Operator(ctx): Operator,
    Path(path): Path<MemberPath>,
    Json(wanted): Json<PostLeave>,
) -> Result<(StatusCode, axum::Json<LeaveView>), Problem> {
    let member = member(&path.userid)?;
    let mut fields = Fields::default();
    if wanted.to <= wanted.from {
        fields.wrong("/to", "not_after_from", "must be after from");
    } else if wanted.to.0 <= ctx.app.now_ms() {
        fields.wrong("/to", "past", "must be in the future");
    }
    let reason = fields.parse::<Reason>("/reason", &wanted.reason);
    fields.check()?;
    let new = NewLeave {
        from_ms: wanted.from.0,
        to_ms: wanted.to.0,
        reason: reason.ok_or_else(|| Problem::not_found("reason"))?,
    };
    let table = ctx.app.ledger.hours();
    match table
        .add_leave(ctx.id(), &member, &new, &ctx.trail(None))
        .await?
    {
        AddLeave::Added(leave) => {
            hours::tell_anew(&ctx.app, &ctx.corp, &member).await;
            Ok((StatusCode::CREATED, axum::Json(leave.into())))
        }
        AddLeave::NoMember => Err(Problem::not_found("member")),
        AddLeave::TooMany(most) => {
            let detail = format!("He has {most} leaves that are not over; more are not possible.");
            Err(Problem::conflict("too_many_leaves", detail))
        }
    }
}

/// Takes a leave back, or ends it. One that is over stays as it was.
#[utoipa::path(delete, path = "/members/{userid}/leaves/{leave_id}", tag = "members", operation_id = "delete_leave",
    params(("userid" = String, Path), ("leave_id" = Uuid, Path)),
    responses((status = 204, description = "It is gone."), Refusals))]
async fn delete(
    Operator(ctx): Operator,
    Path(path): Path<LeavePath>,
) -> Result<StatusCode, Problem> {
    let member = member(&path.userid)?;
    let id = Uuid::try_parse(&path.leave_id).map_err(|_| Problem::not_found("leave"))?;
    let table = ctx.app.ledger.hours();
    let trail = ctx.trail(None);
    let gone = table.cancel_leave(ctx.id(), &member, id, &trail);
    gone.await?.ok_or_else(|| Problem::not_found("leave"))?;
    hours::tell_anew(&ctx.app, &ctx.corp, &member).await;
    Ok(StatusCode::NO_CONTENT)
}

fn member(userid: &str) -> Result<MemberId, Problem> {
    validate::in_path("userid", userid)
}

#[derive(Debug, Deserialize)]
struct MemberPath {
    userid: String,
}

#[derive(Debug, Deserialize)]
struct LeavePath {
    userid: String,
    leave_id: String,
}
