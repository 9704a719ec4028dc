//! Whether a member is at work, why, and until when; and what he or an operator says of it.

use allocation::{MemberId, Reason};
use ledger::{MemberHours, PresenceMode, Role, Said, SaidWhat};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Anyone, Ctx},
    docs::Refusals,
    extract::{MaybeJson, Path},
    heartbeat,
    members::{GivenView, ModeName},
    problem::Problem,
    validate::{self, Fields},
    when::When,
};
use crate::people::hours::{
    self,
    leases::Refused,
    rules::{Facts, May, Why},
};

/// A year; longer is without an end.
const LONGEST_MS: u64 = 366 * 24 * 60 * 60 * 1000;
/// Of a member without a schedule who says that he is on.
const USUAL_LEASE_MS: u64 = 120_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(get))
        .routes(routes!(on))
        .routes(routes!(off))
}

/// Until when it stands; nothing: see the route.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SayOn {
    /// In the next 366 days.
    until: Option<When>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SayOff {
    /// In the next 366 days; without it until somebody says "on".
    until: Option<When>,
    /// A short code that says why, such as `lunch`.
    reason: Option<String>,
}

/// How it is with one member now.
#[derive(Debug, Serialize, ToSchema)]
struct StandingView {
    /// The userid as WeCom spells it.
    userid: String,
    /// As Redis has it, which follows within a second.
    online: bool,
    /// `within_hours`, `said_on`, `override` (an operator's), `heartbeat`: on. `lease_over` (he was not heard from),
    /// `outside_hours`, `paused`, `leave`, `blocked`: off.
    why: &'static str,
    /// The code that goes with `paused`, `leave` and `blocked`.
    #[schema(required)]
    reason: Option<String>,
    /// Until when `why` holds at the latest; null: until somebody changes it, or for longer than is looked ahead.
    #[schema(required)]
    until: Option<When>,
    /// When on ends, or when he may be on again; null: not for as long as is looked ahead.
    #[schema(required)]
    next_change: Option<When>,
    /// When his presence ends unless it is renewed.
    #[schema(required)]
    lease_until: Option<When>,
    #[schema(required)]
    schedule: Option<String>,
    presence_mode: ModeName,
    /// What counts against his limits by the hour and day; null: he has none. Who has reached one is on, and given nothing.
    #[schema(required)]
    given: Option<GivenView>,
}

/// Whether a member is on, why, and until when.
#[utoipa::path(get, path = "/members/{userid}/presence", tag = "presence", operation_id = "get_standing",
    params(("userid" = String, Path)), responses((status = 200, body = StandingView), Refusals))]
async fn get(
    Anyone(ctx): Anyone,
    Path(path): Path<MemberPath>,
) -> Result<axum::Json<StandingView>, Problem> {
    let member = path.member()?;
    if ctx.role == Role::Member {
        heartbeat::own(&ctx, &member)?;
    }
    let hours = hours_of(&ctx, &member).await?;
    view(&ctx, &hours).await.map(axum::Json)
}

/// Says that a member is on: it ends a pause. With `until` from an operator he is on until then, outside his hours too.
/// Otherwise it counts within his hours and ends with them; outside them it is refused (`outside_hours`), but for a pause
/// of a member who will come on by himself. One without a schedule is on until then, or for 120 s. On a leave it is refused
/// (`on_leave`).
#[utoipa::path(post, path = "/members/{userid}/presence/on", tag = "presence", operation_id = "say_on",
    params(("userid" = String, Path)), request_body = Option<SayOn>,
    responses((status = 200, body = StandingView), Refusals))]
async fn on(
    Anyone(ctx): Anyone,
    Path(path): Path<MemberPath>,
    MaybeJson(wanted): MaybeJson<SayOn>,
) -> Result<axum::Json<StandingView>, Problem> {
    let member = path.member()?;
    heartbeat::may(&ctx, std::iter::once(&member))?;
    let until_ms = until(&ctx, wanted.until)?;
    let is_operator = ctx.role != Role::Member;
    // So that his schedule is at hand below.
    hours_of(&ctx, &member).await?;
    let now_ms = ctx.app.now_ms();
    let everybody = ctx.corp.hours.now();
    let said = say(&ctx, &member, |hours| {
        said_on(&everybody.facts(hours), now_ms, until_ms, is_operator)
    });
    let hours = said.await?;
    let facts = everybody.facts(&hours);
    if facts.schedule.is_none() && facts.standing(now_ms).may == May::BeOn {
        heartbeat::tell(&ctx, vec![(member, now_ms + USUAL_LEASE_MS)]).await?;
    }
    view(&ctx, &hours).await.map(axum::Json)
}

/// Says that a member is off: at once, until then or until somebody says "on", whatever his hours and heartbeats say.
#[utoipa::path(post, path = "/members/{userid}/presence/off", tag = "presence", operation_id = "say_off",
    params(("userid" = String, Path)), request_body = Option<SayOff>,
    responses((status = 200, body = StandingView), Refusals))]
async fn off(
    Anyone(ctx): Anyone,
    Path(path): Path<MemberPath>,
    MaybeJson(wanted): MaybeJson<SayOff>,
) -> Result<axum::Json<StandingView>, Problem> {
    let member = path.member()?;
    heartbeat::may(&ctx, std::iter::once(&member))?;
    let until_ms = until(&ctx, wanted.until)?;
    let mut fields = Fields::default();
    let reason = wanted
        .reason
        .as_deref()
        .and_then(|code| fields.parse::<Reason>("/reason", code));
    fields.check()?;
    let said = Said {
        what: SaidWhat::Off,
        until_ms,
        reason,
    };
    let hours = say(&ctx, &member, |_| Ok(Some(said.clone()))).await?;
    view(&ctx, &hours).await.map(axum::Json)
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

fn until(ctx: &Ctx, until: Option<When>) -> Result<Option<u64>, Problem> {
    let now_ms = ctx.app.now_ms();
    match until {
        Some(When(ms)) if ms <= now_ms => {
            Err(Problem::field("/until", "past", "must be in the future"))
        }
        Some(When(ms)) if ms > now_ms + LONGEST_MS => {
            let message = "must be in the next 366 days";
            Err(Problem::field("/until", "too_late", message))
        }
        until => Ok(until.map(|until| until.0)),
    }
}

/// What "on" comes to.
fn said_on(
    facts: &Facts<'_>,
    now_ms: u64,
    until_ms: Option<u64>,
    is_operator: bool,
) -> Result<Option<Said>, Refused> {
    let unsaid = MemberHours {
        said: None,
        ..facts.hours.clone()
    };
    let unsaid = Facts {
        hours: &unsaid,
        ..*facts
    };
    let standing = unsaid.standing(now_ms);
    let refused = Refused::Off {
        why: standing.why,
        next_open_ms: unsaid.next_open(now_ms),
    };
    let said = |what, until_ms| Said {
        what,
        until_ms,
        reason: None,
    };
    if matches!(standing.why, Why::Blocked | Why::Leave) {
        return Err(refused);
    }
    if is_operator && until_ms.is_some() {
        return Ok(Some(said(SaidWhat::Override, until_ms)));
    }
    let is_auto = facts.schedule.is_some() && facts.hours.mode == PresenceMode::Auto;
    if standing.may == May::No {
        let is_paused = facts.standing(now_ms).why == Why::Paused;
        return (is_auto && is_paused).then_some(None).ok_or(refused);
    }
    // He is on by himself, or his heartbeats are what there is.
    if until_ms.is_none() && (is_auto || facts.schedule.is_none()) {
        return Ok(None);
    }
    let ends = [until_ms, standing.until_ms];
    let end_ms = ends.into_iter().flatten().min();
    Ok(Some(said(SaidWhat::On, end_ms)))
}

async fn say(
    ctx: &Ctx,
    member: &MemberId,
    decide: impl Fn(&MemberHours) -> Result<Option<Said>, Refused>,
) -> Result<MemberHours, Problem> {
    let table = ctx.app.ledger.hours();
    let trail = ctx.trail(None);
    let said = table.say(ctx.id(), member, &trail, decide);
    let hours = said.await?.ok_or_else(|| Problem::not_found("member"))?;
    let hours = hours.map_err(refused)?;
    hours::tell(&ctx.app, &ctx.corp, &hours).await;
    Ok(hours)
}

/// As Postgres has him, and his schedule in memory.
pub(super) async fn hours_of(ctx: &Ctx, member: &MemberId) -> Result<MemberHours, Problem> {
    let now_ms = ctx.app.now_ms();
    let hours = ctx.app.ledger.hours().get(ctx.id(), member, now_ms).await?;
    let hours = hours.ok_or_else(|| Problem::not_found("member"))?;
    if !ctx.corp.hours.now().has_schedule_of(&hours) {
        hours::refresh(&ctx.app, &ctx.corp, now_ms).await?;
    }
    Ok(hours)
}

/// A heartbeat, a goodbye or "on" that does not count.
pub(super) fn refused(refused: Refused) -> Problem {
    let (detail, current) = match refused {
        Refused::Off { why, next_open_ms } => {
            let next = next_open_ms.map(When);
            let detail = match next {
                Some(next) => format!("He may not be on now; next at {}.", next.text()),
                None => "He may not be on now.".to_owned(),
            };
            (detail, json!({"why": why.as_str(), "next_open": next}))
        }
        Refused::KeptOn => (
            "He is on without heartbeats. POST …/members/{userid}/presence/off pauses him."
                .to_owned(),
            json!({}),
        ),
    };
    Problem::conflict(refused.code(), detail).with_current(current)
}

async fn view(ctx: &Ctx, hours: &MemberHours) -> Result<StandingView, Problem> {
    let lease_ms = heartbeat::lease_of(ctx, &hours.member).await?;
    let member = std::slice::from_ref(&hours.member);
    let states = ctx.corp.roster.members(member).await;
    let states = states.map_err(|error| ctx.roster(error))?;
    let state = states.first();
    let everybody = ctx.corp.hours.now();
    let facts = everybody.facts(hours);
    let now_ms = ctx.app.now_ms();
    let standing = facts.standing(now_ms);
    let mut next_ms = facts.next_change(now_ms);
    let (mut why, mut until_ms) = (standing.why.as_str(), standing.until_ms);
    if standing.may == May::BeOn {
        match lease_ms {
            Some(lease_ms) => {
                let end_ms = until_ms.map_or(lease_ms, |until_ms| until_ms.min(lease_ms));
                (until_ms, next_ms) = (Some(end_ms), Some(end_ms));
            }
            None => why = "lease_over",
        }
    }
    let reason = match standing.why {
        Why::Blocked => hours.blocked.clone(),
        Why::Paused => hours.said.as_ref().and_then(|said| said.reason.clone()),
        Why::Leave => {
            let mut leaves = hours.leaves.iter();
            let on = leaves.find(|leave| leave.from_ms <= now_ms && now_ms < leave.to_ms);
            on.map(|leave| leave.reason.clone())
        }
        _ => None,
    };
    Ok(StandingView {
        userid: ctx.userid(&hours.member).await,
        online: lease_ms.is_some(),
        why,
        reason: reason.map(String::from),
        until: until_ms.map(When),
        next_change: next_ms.map(When),
        lease_until: lease_ms.map(When),
        schedule: hours.schedule.as_ref().map(ToString::to_string),
        presence_mode: hours.mode.into(),
        given: state.and_then(|state| GivenView::of(state, now_ms)),
    })
}
