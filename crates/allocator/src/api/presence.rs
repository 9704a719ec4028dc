//! Presence: who is there now. A heartbeat holds for a lease; when it ends the member is off. Redis alone knows; a
//! change from on to off or back is in the audit, a renewal is not.

use std::collections::BTreeSet;

use allocation::{MemberId, PresenceChange};
use axum::http::StatusCode;
use ledger::Role;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Anyone, Ctx, Viewer},
    docs::Refusals,
    extract::{Json, Path, Query},
    page::{List, list_query, slice},
    problem::Problem,
    validate::{self, Fields},
    when::When,
};
use crate::{payload::Payload, people};

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
    /// `unknown_member`: he was left out; the others were not.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
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

/// Heartbeats and goodbyes of several members. Who is not known is left out, and said so; the others count.
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
    let lease = leases(&ctx)
        .await?
        .into_iter()
        .find(|(id, _)| *id == member);
    Ok(axum::Json(view(
        &ctx,
        &member,
        lease.map_or(0, |(_, until)| until),
    )))
}

/// Heartbeat or goodbye of one member.
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
    tell(
        ctx,
        vec![PresenceChange {
            member: member.clone(),
            lease_until_ms: until_ms,
        }],
    )
    .await?;
    Ok(view(ctx, &member, until_ms))
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
    let mut changes = Vec::new();
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
        changes.push(PresenceChange {
            member,
            lease_until_ms: until(ctx, seconds),
        });
    }
    fields.check()?;
    may(ctx, seen.iter())?;
    let ids: Vec<MemberId> = seen.into_iter().collect();
    let unknown = unknown(ctx, &ids).await;
    let data = changes.iter().map(|change| {
        let known = !unknown.contains(&change.member);
        let until_ms = if known { change.lease_until_ms } else { 0 };
        let view = view(ctx, &change.member, until_ms);
        let error = (!known).then_some("unknown_member");
        PresenceResult {
            member: view.member,
            online: view.online,
            lease_until: view.lease_until,
            error,
        }
    });
    let data = data.collect();
    changes.retain(|change| !unknown.contains(&change.member));
    if !changes.is_empty() {
        tell(ctx, changes).await?;
    }
    Ok(PresenceResults { data })
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

/// A member's key is for himself; others must be operators.
fn may<'a>(ctx: &Ctx, mut members: impl Iterator<Item = &'a MemberId>) -> Result<(), Problem> {
    match ctx.role {
        Role::Member => members.try_for_each(|member| own(ctx, member)),
        Role::Viewer => Err(Problem::forbidden(
            "This needs the role operator; the key has viewer.",
        )),
        Role::Operator | Role::Admin => Ok(()),
    }
}

fn own(ctx: &Ctx, member: &MemberId) -> Result<(), Problem> {
    if ctx.member.as_ref() == Some(member) {
        return Ok(());
    }
    Err(Problem::forbidden(
        "A member's key is for his own presence only.",
    ))
}

/// Those who are not known. Postgres is asked only about whom this process does not know, and while it is away a
/// heartbeat is believed.
async fn unknown(ctx: &Ctx, members: &[MemberId]) -> BTreeSet<MemberId> {
    let doubtful: Vec<MemberId> = members
        .iter()
        .filter(|member| !ctx.corp.names.knows(member))
        .cloned()
        .collect();
    if doubtful.is_empty() {
        return BTreeSet::new();
    }
    match ctx.app.ledger.members().get_many(ctx.id(), &doubtful).await {
        Ok(known) => {
            for member in &known {
                ctx.corp.names.spell(&member.member, &member.userid);
            }
            let known: BTreeSet<MemberId> = known.into_iter().map(|member| member.member).collect();
            doubtful
                .into_iter()
                .filter(|member| !known.contains(member))
                .collect()
        }
        Err(error) => {
            tracing::warn!(corp = %ctx.id(), error = %error, "members were not looked up");
            BTreeSet::new()
        }
    }
}

async fn leases(ctx: &Ctx) -> Result<Vec<(MemberId, u64)>, Problem> {
    let now_ms = ctx.app.now_ms();
    let status = ctx
        .corp
        .roster
        .status()
        .await
        .map_err(|error| ctx.roster(error))?;
    if status.generation.is_none() {
        return Err(ctx.roster(roster::Error::NotReady));
    }
    let leases = ctx
        .corp
        .roster
        .leases()
        .await
        .map_err(|error| ctx.roster(error))?;
    Ok(leases
        .into_iter()
        .filter(|(_, until)| *until > now_ms)
        .collect())
}

async fn tell(ctx: &Ctx, changes: Vec<PresenceChange>) -> Result<(), Problem> {
    let now_ms = ctx.app.now_ms();
    let ids: Vec<MemberId> = changes.iter().map(|change| change.member.clone()).collect();
    let ends = ctx.corp.roster.leases_of(&ids).await;
    let ends = ends.map_err(|error| ctx.roster(error))?;
    let turned = changes
        .iter()
        .zip(ends)
        .filter(|(change, end)| end.is_some_and(|end| end > now_ms) != (change.lease_until_ms > 0));
    let turned: Vec<_> = turned
        .map(|(change, _)| json!({"member": ctx.corp.names.userid(&change.member), "online": change.lease_until_ms > 0}))
        .collect();
    let mut payload = Payload {
        actor: Some(ctx.actor()),
        ..Payload::default()
    };
    if !turned.is_empty() {
        payload = payload.by(ctx.trail(None).record(
            "presence.put",
            "presence".to_owned(),
            None,
            Some(turned.into()),
        ));
    }
    let applied = ctx
        .corp
        .roster
        .presence(changes, &payload.text(), None)
        .await;
    applied.map_err(|error| ctx.roster(error))?;
    ctx.corp.log_grew.notify_one();
    Ok(())
}

fn view(ctx: &Ctx, member: &MemberId, until_ms: u64) -> PresenceView {
    PresenceView {
        member: ctx.corp.names.userid(member),
        online: until_ms > 0,
        lease_until: (until_ms > 0).then_some(When(until_ms)),
    }
}
