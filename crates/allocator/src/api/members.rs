//! Members: people who can be given customers.

use allocation::{MAX_SKILLS, MemberId, PoolId, Reason, ScheduleId, model::MemberView as State};
use ledger::{Member, MemberFilter, NewMember, NoSchedule, PresenceMode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Operator, Viewer},
    docs::Refusals,
    etag::{self, Condition, Versioned},
    extract::{Json, Path, Query},
    page::{List, list_query},
    problem::{Details, Problem},
    routing,
    validate::{self, Fields},
    when::When,
};
use crate::people;

const DISPLAY_NAME_CHARS: usize = 32;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, put))
}

/// What a member is to be: the whole of it, what is left out is not.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PutMember {
    /// How visitors of public pages see him, 1 to 32 characters; null: by his userid.
    #[schema(min_length = 1, max_length = 32)]
    display_name: Option<String>,
    /// Most open customers over all pools; null: no limit.
    #[schema(maximum = 1_000_000)]
    cap: Option<u64>,
    /// Most customers given to him in one hour of the clock, over all pools; null: no limit.
    #[schema(maximum = 1_000_000)]
    per_hour: Option<u64>,
    /// Most customers given to him on one day, over all pools; null: no limit. A day is one of the zone of his schedule,
    /// or of `hours.default_zone`.
    #[schema(maximum = 1_000_000)]
    per_day: Option<u64>,
    /// Left out of every choice while it is set: a short code that says why, such as `on_leave`.
    blocked: Option<String>,
    /// The schedule with his hours; null: he is there when a heartbeat says so.
    schedule: Option<String>,
    #[serde(default)]
    #[schema(default = "auto")]
    presence_mode: ModeName,
    /// What he can do or is, such as `lang:en` or `vip`: letters, digits and _ - . :, in small letters. Channels, pools and
    /// requests ask for them by the same words; a word that is nobody's is no error.
    #[serde(default)]
    #[schema(max_items = 64)]
    skills: Vec<String>,
}

/// How a member with a schedule comes on within his hours.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ModeName {
    /// By himself.
    #[default]
    Auto,
    /// When he, or his heartbeat, says so.
    Manual,
}

impl From<ModeName> for PresenceMode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Auto => Self::Auto,
            ModeName::Manual => Self::Manual,
        }
    }
}

impl From<PresenceMode> for ModeName {
    fn from(mode: PresenceMode) -> Self {
        match mode {
            PresenceMode::Auto => Self::Auto,
            PresenceMode::Manual => Self::Manual,
        }
    }
}

/// A member as he is.
#[derive(Debug, Serialize, ToSchema)]
struct MemberView {
    /// The userid as WeCom spells it. Letter case makes no difference.
    userid: String,
    #[schema(required)]
    display_name: Option<String>,
    #[schema(required)]
    cap: Option<u32>,
    #[schema(required)]
    per_hour: Option<u32>,
    #[schema(required)]
    per_day: Option<u32>,
    #[schema(required)]
    blocked: Option<String>,
    #[schema(required)]
    schedule: Option<String>,
    presence_mode: ModeName,
    skills: Vec<String>,
    /// What Redis knows of him now; null while it cannot be asked.
    #[schema(required)]
    state: Option<MemberState>,
    version: u64,
    created_at: When,
    updated_at: When,
}

#[derive(Debug, Serialize, ToSchema)]
struct MemberState {
    online: bool,
    /// When his presence ends unless he is heard from again.
    #[schema(required)]
    lease_until: Option<When>,
    /// Open customers over all pools.
    load: u32,
    /// He is online, not blocked and below his limits over all pools.
    eligible: bool,
    /// What counts against his limits by the hour and day; null: he has none.
    #[schema(required)]
    given: Option<GivenView>,
}

/// What a member was given over all pools. A hold that nobody made use of is not counted when it is over.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GivenView {
    in_hour: u32,
    hour_ends_at: When,
    on_day: u32,
    day_ends_at: When,
}

impl GivenView {
    /// None: nobody needs to know.
    pub(super) fn of(state: &State, now_ms: u64) -> Option<Self> {
        let given = state.given?.at(now_ms);
        Some(Self {
            in_hour: given.in_hour,
            hour_ends_at: When(given.hour_end_ms),
            on_day: given.on_day,
            day_ends_at: When(given.day_end_ms),
        })
    }
}

list_query! {
    /// Which members.
    MemberQuery {
        /// Only those of this pool.
        pool: Option<String>,
        /// Only those who are, or are not, blocked.
        blocked: Option<bool>,
    }
}

/// All members, the latest first.
#[utoipa::path(get, path = "/members", tag = "members", operation_id = "list_members", params(MemberQuery),
    responses((status = 200, body = List<MemberView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<MemberQuery>,
) -> Result<axum::Json<List<MemberView>>, Problem> {
    let page = query.page();
    let mut fields = Fields::default();
    let pool = query
        .pool
        .as_deref()
        .and_then(|pool| fields.parse::<PoolId>("query:pool", pool));
    fields.check()?;
    let filter = MemberFilter {
        pool,
        blocked: query.blocked,
    };
    let members = ctx
        .app
        .ledger
        .members()
        .list(ctx.id(), &filter, &page.request()?)
        .await?;
    let ids: Vec<MemberId> = members
        .items
        .iter()
        .map(|member| member.member.clone())
        .collect();
    let states = ctx.corp.roster.members(&ids).await.ok();
    let now_ms = ctx.app.now_ms();
    let list = List::of(members, page.limit()?, |member| {
        view(member, states.as_deref(), now_ms)
    });
    Ok(axum::Json(list))
}

/// One member. Its `ETag` goes into `If-Match` of a change.
#[utoipa::path(get, path = "/members/{userid}", tag = "members", operation_id = "get_member",
    params(("userid" = String, Path)), responses((status = 200, body = MemberView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<MemberPath>,
) -> Result<Versioned<MemberView>, Problem> {
    let member = ctx
        .app
        .ledger
        .members()
        .get(ctx.id(), &path.member()?)
        .await?;
    answer(&ctx, member.ok_or_else(|| Problem::not_found("member"))?).await
}

/// Makes a member known, or changes him. The userid is kept as it is spelled until WeCom is heard to spell it otherwise;
/// two spellings that differ in letter case only are one member.
#[utoipa::path(put, path = "/members/{userid}", tag = "members", operation_id = "put_member",
    params(("userid" = String, Path), ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)),
    request_body = PutMember,
    responses((status = 200, body = MemberView), (status = 201, body = MemberView),
        (status = 412, description = "He is at another version.", body = Details), Refusals))]
async fn put(
    Operator(ctx): Operator,
    Path(path): Path<MemberPath>,
    Condition(condition): Condition,
    Json(wanted): Json<PutMember>,
) -> Result<Versioned<MemberView>, Problem> {
    let id = path.member()?;
    let mut fields = Fields::default();
    let display_name = wanted.display_name.as_deref().map(|name| {
        let name = fields.name("/display_name", name);
        fields.characters("/display_name", &name, DISPLAY_NAME_CHARS);
        name
    });
    let cap = fields.limit("/cap", wanted.cap);
    let per_hour = fields.limit("/per_hour", wanted.per_hour);
    let per_day = fields.limit("/per_day", wanted.per_day);
    let blocked = wanted
        .blocked
        .as_deref()
        .and_then(|code| fields.parse::<Reason>("/blocked", code));
    let schedule = wanted
        .schedule
        .as_deref()
        .and_then(|id| fields.parse::<ScheduleId>("/schedule", id));
    let skills = routing::skills(&mut fields, "/skills", &wanted.skills, MAX_SKILLS);
    fields.check()?;
    let new = NewMember {
        userid: path.userid,
        display_name,
        cap,
        per_hour,
        per_day,
        blocked,
        schedule,
        presence_mode: wanted.presence_mode.into(),
        skills: skills.into_iter().collect(),
    };
    let put = ctx
        .app
        .ledger
        .members()
        .put(ctx.id(), &id, &new, condition, &ctx.trail(None))
        .await?;
    let written: Versioned<Member> = etag::put(
        put,
        |member| member.version,
        |NoSchedule| unknown_schedule(),
    )?;
    if let Err(error) = people::tell_member(&ctx.app, &ctx.corp, &id).await {
        tracing::warn!(corp = %ctx.id(), member = %id, error = %error, "Redis learns of the member later");
    }
    people::hours::tell_anew(&ctx.app, &ctx.corp, &id).await;
    Ok(Versioned {
        status: written.status,
        ..answer(&ctx, written.body).await?
    })
}

#[derive(Debug, Deserialize)]
struct MemberPath {
    userid: String,
}

impl MemberPath {
    fn member(&self) -> Result<MemberId, Problem> {
        validate::in_path("userid", &self.userid)
    }
}

fn unknown_schedule() -> Problem {
    let message = "there is no such schedule; PUT …/schedules/{schedule_id} first";
    Problem::field("/schedule", "unknown_schedule", message)
}

async fn answer(ctx: &Ctx, member: Member) -> Result<Versioned<MemberView>, Problem> {
    let states = ctx
        .corp
        .roster
        .members(std::slice::from_ref(&member.member))
        .await
        .ok();
    Ok(Versioned::ok(
        member.version,
        view(member, states.as_deref(), ctx.app.now_ms()),
    ))
}

fn view(member: Member, states: Option<&[State]>, now_ms: u64) -> MemberView {
    let state = states.map(|states| {
        let state = states.iter().find(|state| state.member == member.member);
        let lease = state
            .map(|state| state.lease_until_ms)
            .filter(|until| *until > now_ms);
        MemberState {
            online: lease.is_some(),
            lease_until: lease.map(When),
            load: state.map_or(0, |state| state.load),
            eligible: lease.is_some() && state.is_some_and(|state| state.eligible),
            given: state.and_then(|state| GivenView::of(state, now_ms)),
        }
    });
    MemberView {
        userid: member.userid,
        display_name: member.display_name,
        cap: member.cap,
        per_hour: member.per_hour,
        per_day: member.per_day,
        blocked: member.blocked.map(String::from),
        schedule: member.schedule.map(String::from),
        presence_mode: member.presence_mode.into(),
        skills: routing::names(&member.skills),
        state,
        version: member.version,
        created_at: When(member.created_ms),
        updated_at: When(member.updated_ms),
    }
}
