//! How far the contact ways of a channel with a public page are.

use allocation::{ChannelId, MemberId};
use axum::Json as Answer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api, access::Viewer, docs::Refusals, extract::Path, problem::Problem, validate, when::When,
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list))
}

/// The contact ways of one member for the channel.
#[derive(Debug, Serialize, ToSchema)]
struct MemberWays {
    member: String,
    /// He has none that can be shown because WeCom refuses them: visitors are given to others until he has one. False for all
    /// where nobody else is left.
    passed_over: bool,
    /// Can be shown to a visitor each.
    slots_ready: u64,
    /// The one for visitors without a slot can be shown.
    plain_ready: bool,
    /// Wanted, asked for, or made and without a picture yet.
    coming: u64,
    /// No longer given out; deleted at WeCom when they have rested.
    retiring: u64,
    /// Given up until `next_try_at`.
    failed: u64,
    /// WeCom's number for why the last one that is not there yet is not.
    #[schema(required)]
    errcode: Option<i64>,
    #[schema(required)]
    problem: Option<String>,
    /// When the first that is not there yet is tried next.
    #[schema(required)]
    next_try_at: Option<When>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ChannelWays {
    data: Vec<MemberWays>,
}

#[derive(Debug, Deserialize)]
struct ChannelPath {
    channel_id: String,
}

/// How far the contact ways of each member are, by member. They follow `visits`, the pool and its members by themselves.
#[utoipa::path(get, path = "/channels/{channel_id}/contact-ways", tag = "channels", operation_id = "list_contact_ways",
    params(("channel_id" = String, Path)), responses((status = 200, body = ChannelWays), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Path(path): Path<ChannelPath>,
) -> Result<Answer<ChannelWays>, Problem> {
    let id: ChannelId = validate::in_path("channel_id", &path.channel_id)?;
    let ledger = &ctx.app.ledger;
    if ledger.channels().get(ctx.id(), &id).await?.is_none() {
        return Err(Problem::not_found("channel"));
    }
    let mut members = ledger.contact_ways().of_channel(ctx.id(), &id).await?;
    let wayless = ctx.corp.wayless.of(&id);
    // Where there is no room for any, there is not even a row.
    let of_none = |member: &&MemberId| !members.iter().any(|one| one.member == **member);
    let of_none: Vec<_> = wayless.iter().filter(of_none).cloned().collect();
    if !of_none.is_empty() {
        members.extend(of_none.into_iter().map(ledger::MemberWays::none));
        members.sort_by(|one, other| one.member.cmp(&other.member));
    }
    let data = members.into_iter().map(|one| MemberWays {
        passed_over: wayless.contains(&one.member),
        member: ctx.corp.names.userid(&one.member),
        slots_ready: one.slots_ready,
        plain_ready: one.plain_ready > 0,
        coming: one.coming,
        retiring: one.retiring,
        failed: one.failed,
        errcode: one.last_errcode,
        problem: one.last_error,
        next_try_at: one.next_try_ms.map(When),
    });
    Ok(Answer(ChannelWays {
        data: data.collect(),
    }))
}
