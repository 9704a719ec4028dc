//! Presence: who is there now. A heartbeat holds for a lease; when it ends the member is off. Redis alone knows; a
//! change from on to off or back is in the audit, a renewal is not.

use std::collections::{BTreeMap, BTreeSet};

use allocation::MemberId;
use axum::http::StatusCode;
use ledger::Role;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Anyone, Ctx, Viewer},
    docs::Refusals,
    extract::{Json, Path, Query},
    heartbeat::{Heard, hear, lease_of, leases, may, own, unknown},
    member_presence::refused,
    page::{List, list_query, slice},
    problem::Problem,
    validate::{self, Fields},
    when::When,
};
use crate::people::{self, hours::leases::Refused};

const MOST_MEMBERS: usize = 1_000;
const LONGEST_LEASE_S: u64 = 24 * 60 * 60;
const USUAL_LEASE_S: u64 = 120;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, put, post))
        .routes(routes!(get_one, put_one, delete_one))
}

/// Heartbeats and goodbyes of several members.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PutPresence {
    /// At most 1,000, each member once.
    #[schema(max_items = 1000)]
    members: Vec<MemberPresence>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct MemberPresence {
    /// The userid; letter case does not matter.
    member: String,
    online: bool,
    /// How long he stays on without being heard from again; 1 to 86400, 120 without it.
    #[schema(minimum = 1, maximum = 86_400, default = 120)]
    lease_seconds: Option<u64>,
}

/// Heartbeat or goodbye of one member.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PutOnePresence {
    online: bool,
    /// How long he stays on without being heard from again; 1 to 86400, 120 without it.
    #[schema(minimum = 1, maximum = 86_400, default = 120)]
    lease_seconds: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
struct PresenceView {
    member: String,
    online: bool,
    #[schema(required)]
    lease_until: Option<When>,
}

/// What became of one of several.
#[derive(Debug, Serialize, ToSchema)]
struct PresenceResult {
    member: String,
    online: bool,
    #[schema(required)]
    lease_until: Option<When>,
    /// He was left out, the others were not: `unknown_member`; `outside_hours`, `paused`, `on_leave` or `blocked`, of a
    /// member with hours; `kept_on`: a goodbye of a member who is on without heartbeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    /// When he may be on next, where that is why he was left out and it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_open: Option<When>,
}

#[derive(Debug, Serialize, ToSchema)]
struct PresenceResults {
    data: Vec<PresenceResult>,
}

list_query! {
    /// Presence has no filters.
    PresenceQuery {}
}

/// Members who are on now, by userid.
#[utoipa::path(get, path = "/presence", tag = "presence", operation_id = "list_presence", params(PresenceQuery),
    responses((status = 200, body = List<PresenceView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<PresenceQuery>,
) -> Result<axum::Json<List<PresenceView>>, Problem> {
    let mut on = leases(&ctx).await?;
    on.sort_by(|one, two| one.0.cmp(&two.0));
    let list = slice(on, &query.page(), |(member, _)| member.as_str())?;
    let named = list.data.iter().map(|(member, _)| member.clone());
    people::learn(&ctx.app, &ctx.corp, named.collect()).await;
    let data = list
        .data
        .into_iter()
        .map(|(member, until)| view(&ctx, &member, until))
        .collect();
    Ok(axum::Json(List {
        data,
        page: list.page,
    }))
}

/// Heartbeats and goodbyes of several members. Who is not known, or may not be on now, is left out, and said so; the others
/// count. A lease never reaches beyond the member's hours.
#[utoipa::path(put, path = "/presence", tag = "presence", operation_id = "put_presence", request_body = PutPresence,
    responses((status = 200, body = PresenceResults), Refusals))]
async fn put(
    Anyone(ctx): Anyone,
    Json(wanted): Json<PutPresence>,
) -> Result<axum::Json<PresenceResults>, Problem> {
    set(&ctx, wanted).await.map(axum::Json)
}

/// The same as PUT, for senders that can only POST.
#[utoipa::path(post, path = "/presence", tag = "presence", operation_id = "post_presence", request_body = PutPresence,
    responses((status = 200, body = PresenceResults), Refusals))]
async fn post(
    Anyone(ctx): Anyone,
    Json(wanted): Json<PutPresence>,
) -> Result<axum::Json<PresenceResults>, Problem> {
    set(&ctx, wanted).await.map(axum::Json)
}

/// Whether one member is on.
#[utoipa::path(get, path = "/presence/{userid}", tag = "presence", operation_id = "get_member_presence",
    params(("userid" = String, Path)), responses((status = 200, body = PresenceView), Refusals))]
async fn get_one(
    Anyone(ctx): Anyone,
    Path(path): Path<PresencePath>,
) -> Result<axum::Json<PresenceView>, Problem> {
    let member = path.member()?;
    if ctx.role == Role::Member {
        own(&ctx, &member)?;
    }
    if unknown(&ctx, std::slice::from_ref(&member))
        .await
        .contains(&member)
    {
        return Err(Problem::not_found("member"));
    }
    let lease = lease_of(&ctx, &member).await?;
    Ok(axum::Json(view(&ctx, &member, lease.unwrap_or(0))))
}

/// Heartbeat or goodbye of one member. 409 if he may not be on now (`outside_hours`, `paused`, `on_leave`, `blocked`;
/// `current` says when he may be next), or is on without heartbeats and says goodbye (`kept_on`).
#[utoipa::path(put, path = "/presence/{userid}", tag = "presence", operation_id = "put_member_presence",
    params(("userid" = String, Path)), request_body = PutOnePresence,
    responses((status = 200, body = PresenceView), Refusals))]
async fn put_one(
    Anyone(ctx): Anyone,
    Path(path): Path<PresencePath>,
    Json(wanted): Json<PutOnePresence>,
) -> Result<axum::Json<PresenceView>, Problem> {
    let member = path.member()?;
    let mut fields = Fields::default();
    let seconds = lease(&mut fields, "", wanted.online, wanted.lease_seconds);
    fields.check()?;
    one(&ctx, member, seconds).await.map(axum::Json)
}

/// Goodbye of one member.
#[utoipa::path(delete, path = "/presence/{userid}", tag = "presence", operation_id = "delete_member_presence",
    params(("userid" = String, Path)), responses((status = 204, description = "He is off."), Refusals))]
async fn delete_one(
    Anyone(ctx): Anyone,
    Path(path): Path<PresencePath>,
) -> Result<StatusCode, Problem> {
    one(&ctx, path.member()?, 0).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
struct PresencePath {
    userid: String,
}

impl PresencePath {
    fn member(&self) -> Result<MemberId, Problem> {
        validate::in_path("userid", &self.userid)
    }
}

async fn one(ctx: &Ctx, member: MemberId, seconds: u64) -> Result<PresenceView, Problem> {
    may(ctx, std::iter::once(&member))?;
    if unknown(ctx, std::slice::from_ref(&member))
        .await
        .contains(&member)
    {
        return Err(Problem::not_found("member"));
    }
    let until_ms = until(ctx, seconds);
    let mut heard = hear(ctx, vec![(member.clone(), until_ms)]).await?;
    match heard.remove(&member) {
        Some(Heard::Refused(why)) => Err(refused(why)),
        Some(Heard::Until(until_ms)) => Ok(view(ctx, &member, until_ms)),
        None => Ok(view(ctx, &member, 0)),
    }
}

async fn set(ctx: &Ctx, wanted: PutPresence) -> Result<PresenceResults, Problem> {
    let mut fields = Fields::default();
    if wanted.members.len() > MOST_MEMBERS {
        fields.wrong(
            "/members",
            "too_many",
            format!("at most {MOST_MEMBERS} members are possible"),
        );
    }
    let mut seen = BTreeSet::new();
    let mut wanted_until = Vec::new();
    for (index, item) in wanted.members.iter().enumerate().take(MOST_MEMBERS) {
        let pointer = format!("/members/{index}/member");
        let Some(member) = fields.parse::<MemberId>(pointer.clone(), &item.member) else {
            continue;
        };
        if !seen.insert(member.clone()) {
            fields.wrong(
                pointer,
                "duplicate_member",
                format!("{} is in the list twice", item.member),
            );
        }
        let seconds = lease(
            &mut fields,
            &format!("/members/{index}"),
            item.online,
            item.lease_seconds,
        );
        wanted_until.push((member, until(ctx, seconds)));
    }
    fields.check()?;
    may(ctx, seen.iter())?;
    let ids: Vec<MemberId> = seen.into_iter().collect();
    let unknown = unknown(ctx, &ids).await;
    let known = wanted_until.iter();
    let known = known.filter(|(member, _)| !unknown.contains(member));
    let heard: BTreeMap<MemberId, Heard> = hear(ctx, known.cloned().collect()).await?;
    let data = wanted_until.iter().map(|(member, _)| {
        let (until_ms, error, next_open) = match heard.get(member) {
            Some(Heard::Until(until_ms)) => (*until_ms, None, None),
            Some(Heard::Refused(why)) => (0, Some(why.code()), why.next_open_ms()),
            None => (0, Some("unknown_member"), None),
        };
        let view = view(ctx, member, until_ms);
        PresenceResult {
            member: view.member,
            online: view.online || error == Some(Refused::KeptOn.code()),
            lease_until: view.lease_until,
            error,
            next_open: next_open.map(When),
        }
    });
    Ok(PresenceResults {
        data: data.collect(),
    })
}

fn lease(fields: &mut Fields, at: &str, online: bool, seconds: Option<u64>) -> u64 {
    fields.range(format!("{at}/lease_seconds"), seconds, 1..=LONGEST_LEASE_S);
    if online {
        seconds.unwrap_or(USUAL_LEASE_S)
    } else {
        0
    }
}

fn until(ctx: &Ctx, seconds: u64) -> u64 {
    if seconds == 0 {
        0
    } else {
        ctx.app
            .now_ms()
            .saturating_add(seconds.saturating_mul(1000))
    }
}

fn view(ctx: &Ctx, member: &MemberId, until_ms: u64) -> PresenceView {
    PresenceView {
        member: ctx.corp.names.userid(member),
        online: until_ms > 0,
        lease_until: (until_ms > 0).then_some(When(until_ms)),
    }
}
