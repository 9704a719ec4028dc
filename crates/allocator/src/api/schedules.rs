//! Schedules: hours of work in a time zone, which members share.

use std::{collections::BTreeSet, sync::Arc};

use allocation::{CalendarId, MemberId, ScheduleId};
use axum::http::StatusCode;
use ledger::{NewSchedule, Schedule};
use serde::{Deserialize, Serialize};
use serde_json::json;
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
    validate::{self, Fields},
    when::When,
};
use crate::people::hours::{
    self,
    plan::{self, SpecialDay, WeeklyHours},
    schedule::State,
};

/// Calendars of one schedule.
const MOST_CALENDARS: usize = 8;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, put, delete))
}

/// What a schedule is to be: the whole of it, what is left out is not.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PutSchedule {
    /// 1 to 100 characters.
    name: String,
    /// IANA name, such as `Asia/Shanghai`: hours are those of the clocks there.
    zone: String,
    /// Any number a day; hours may end on the next day, and none may overlap.
    #[schema(max_items = 84)]
    weekly: Vec<WeeklyHours>,
    /// Dates on which it is otherwise.
    #[serde(default)]
    #[schema(max_items = 366)]
    days: Vec<SpecialDay>,
    /// Special dates that others share. Of a date that several know this schedule's own counts, then the first
    /// calendar's.
    #[serde(default)]
    #[schema(max_items = 8)]
    calendars: Vec<String>,
}

/// A schedule as it is.
#[derive(Debug, Serialize, ToSchema)]
struct ScheduleView {
    id: String,
    name: String,
    zone: String,
    weekly: Vec<WeeklyHours>,
    days: Vec<SpecialDay>,
    calendars: Vec<String>,
    /// Whether it is open now; null while that is not known.
    #[schema(required)]
    open: Option<bool>,
    /// When it opens next; null: not in the next two years, or it stays open for longer than a month.
    #[schema(required)]
    next_open: Option<When>,
    /// `never_opens`: not in the next two years.
    warnings: Vec<&'static str>,
    version: u64,
    created_at: When,
    updated_at: When,
}

list_query! {
    /// Schedules have no filters.
    ScheduleQuery {}
}

/// All schedules, the latest first.
#[utoipa::path(get, path = "/schedules", tag = "schedules", operation_id = "list_schedules", params(ScheduleQuery),
    responses((status = 200, body = List<ScheduleView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<ScheduleQuery>,
) -> Result<axum::Json<List<ScheduleView>>, Problem> {
    let page = query.page();
    let schedules = ctx.app.ledger.schedules();
    let schedules = schedules.list(ctx.id(), &page.request()?).await?;
    let calendars = ctx.app.ledger.calendars().all(ctx.id()).await?;
    let list = List::of(schedules, page.limit()?, |schedule| {
        view(&ctx, schedule, &calendars)
    });
    Ok(axum::Json(list))
}

/// One schedule. Its `ETag` goes into `If-Match` of a change.
#[utoipa::path(get, path = "/schedules/{schedule_id}", tag = "schedules", operation_id = "get_schedule",
    params(("schedule_id" = String, Path)), responses((status = 200, body = ScheduleView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<SchedulePath>,
) -> Result<Versioned<ScheduleView>, Problem> {
    let schedules = ctx.app.ledger.schedules();
    let schedule = schedules.get(ctx.id(), &path.id()?).await?;
    let schedule = schedule.ok_or_else(|| Problem::not_found("schedule"))?;
    let calendars = ctx.app.ledger.calendars().all(ctx.id()).await?;
    Ok(Versioned::ok(
        schedule.version,
        view(&ctx, schedule, &calendars),
    ))
}

/// Makes or changes a schedule; its members follow at once. `If-Match` with its ETag guards against overwriting somebody
/// else's change, `If-None-Match: *` makes it only if it is new. One that never opens is taken, with a warning.
#[utoipa::path(put, path = "/schedules/{schedule_id}", tag = "schedules", operation_id = "put_schedule",
    params(("schedule_id" = String, Path),
        ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)),
    request_body = PutSchedule,
    responses((status = 200, body = ScheduleView), (status = 201, body = ScheduleView),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn put(
    Operator(ctx): Operator,
    Path(path): Path<SchedulePath>,
    Condition(condition): Condition,
    Json(wanted): Json<PutSchedule>,
) -> Result<Versioned<ScheduleView>, Problem> {
    let id = path.id()?;
    let new = check(&wanted)?;
    let schedules = ctx.app.ledger.schedules();
    let put = schedules
        .put(ctx.id(), &id, &new, condition, &ctx.trail(None))
        .await?;
    let written: Versioned<Schedule> =
        etag::put(put, version, |unknown| unknown_calendars(&wanted, &unknown))?;
    hours::changed(&ctx.app, &ctx.corp).await;
    let calendars = ctx.app.ledger.calendars().all(ctx.id()).await?;
    Ok(Versioned {
        status: written.status,
        version: written.version,
        body: view(&ctx, written.body, &calendars),
    })
}

/// Removes a schedule that no member has.
#[utoipa::path(delete, path = "/schedules/{schedule_id}", tag = "schedules", operation_id = "delete_schedule",
    params(("schedule_id" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 204, description = "It is gone."),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn delete(
    Operator(ctx): Operator,
    Path(path): Path<SchedulePath>,
    Condition(condition): Condition,
) -> Result<StatusCode, Problem> {
    let schedules = ctx.app.ledger.schedules();
    let deleted = schedules
        .delete(ctx.id(), &path.id()?, condition, &ctx.trail(None))
        .await?;
    etag::deleted(deleted, "schedule", version, |members| {
        in_use(&ctx, &members)
    })
}

fn in_use(ctx: &Ctx, members: &[MemberId]) -> Problem {
    const MOST_SHOWN: usize = 20;
    let names: Vec<String> = members
        .iter()
        .map(|member| ctx.corp.names.userid(member))
        .collect();
    let mut shown = names[..names.len().min(MOST_SHOWN)].join(", ");
    if names.len() > MOST_SHOWN {
        shown = format!("{shown} and {} others", names.len() - MOST_SHOWN);
    }
    let detail = format!("Members have it: {shown}. Give them another schedule first.");
    Problem::conflict("schedule_in_use", detail).with_current(json!({"members": names}))
}

fn version(schedule: &Schedule) -> u64 {
    schedule.version
}

#[derive(Debug, Deserialize)]
struct SchedulePath {
    schedule_id: String,
}

impl SchedulePath {
    fn id(&self) -> Result<ScheduleId, Problem> {
        validate::in_path("schedule_id", &self.schedule_id)
    }
}

fn check(wanted: &PutSchedule) -> Result<NewSchedule, Problem> {
    let mut fields = Fields::default();
    let name = fields.name("/name", &wanted.name);
    let mut wrongs = Vec::new();
    let zone = plan::zone(&wanted.zone, &mut wrongs);
    plan::week(&wanted.weekly, &mut wrongs);
    plan::days(&wanted.days, &mut wrongs);
    fields.all(wrongs);
    if wanted.calendars.len() > MOST_CALENDARS {
        let message = format!("at most {MOST_CALENDARS} calendars are possible");
        fields.wrong("/calendars", "too_many", message);
    }
    let mut seen = BTreeSet::new();
    let mut calendars = Vec::new();
    for (index, id) in wanted.calendars.iter().enumerate().take(MOST_CALENDARS) {
        let pointer = format!("/calendars/{index}");
        let Some(id) = fields.parse::<CalendarId>(pointer.clone(), id) else {
            continue;
        };
        if !seen.insert(id.clone()) {
            fields.wrong(
                pointer,
                "duplicate_calendar",
                format!("{id} is in the list twice"),
            );
        }
        calendars.push(id);
    }
    fields.check()?;
    Ok(NewSchedule {
        name,
        zone: zone.map_or_else(String::new, |zone| zone.name().to_owned()),
        weekly: json!(wanted.weekly),
        days: json!(wanted.days),
        calendars,
    })
}

fn unknown_calendars(wanted: &PutSchedule, unknown: &[CalendarId]) -> Problem {
    let mut fields = Fields::default();
    for (index, id) in wanted.calendars.iter().enumerate() {
        if unknown.iter().any(|unknown| unknown.as_str() == id) {
            let message = format!("there is no such calendar; PUT …/calendars/{id} first");
            fields.wrong(format!("/calendars/{index}"), "unknown_calendar", message);
        }
    }
    fields
        .check()
        .err()
        .unwrap_or_else(|| Problem::not_found("calendar"))
}

fn view(ctx: &Ctx, schedule: Schedule, calendars: &[ledger::Calendar]) -> ScheduleView {
    let of = schedule.calendars.iter();
    let of = of.filter_map(|id| calendars.iter().find(|calendar| calendar.id == *id));
    let read = plan::stored(&schedule, of).ok().map(Arc::new);
    let now_ms = ctx.app.now_ms();
    let state = read.as_ref().map(|read| read.state(now_ms));
    let never = state == Some(State::Closed { opens_ms: None });
    ScheduleView {
        id: schedule.id.into(),
        name: schedule.name,
        zone: schedule.zone,
        weekly: plan::list(&schedule.weekly),
        days: plan::list(&schedule.days),
        calendars: schedule.calendars.into_iter().map(String::from).collect(),
        open: state.map(|state| matches!(state, State::Open { .. })),
        next_open: read.and_then(|read| read.next_open(now_ms)).map(When),
        warnings: if never {
            vec!["never_opens"]
        } else {
            Vec::new()
        },
        version: schedule.version,
        created_at: When(schedule.created_ms),
        updated_at: When(schedule.updated_ms),
    }
}
