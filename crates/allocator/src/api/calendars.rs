//! Calendars: dates that are special for a whole corp, such as holidays. Schedules refer to them.

use allocation::{CalendarId, ScheduleId};
use axum::http::StatusCode;
use ledger::{Calendar, NewCalendar};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Operator, Viewer},
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
    plan::{self, SpecialDay},
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, put, delete))
}

/// What a calendar is to be: the whole of it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PutCalendar {
    /// 1 to 100 characters.
    name: String,
    /// Each date once. A holiday has no hours; a weekend's day on which people work has some.
    #[schema(max_items = 366)]
    days: Vec<SpecialDay>,
}

/// A calendar as it is.
#[derive(Debug, Serialize, ToSchema)]
struct CalendarView {
    id: String,
    name: String,
    days: Vec<SpecialDay>,
    version: u64,
    created_at: When,
    updated_at: When,
}

impl From<Calendar> for CalendarView {
    fn from(calendar: Calendar) -> Self {
        Self {
            id: calendar.id.into(),
            name: calendar.name,
            days: plan::list(&calendar.days),
            version: calendar.version,
            created_at: When(calendar.created_ms),
            updated_at: When(calendar.updated_ms),
        }
    }
}

list_query! {
    /// Calendars have no filters.
    CalendarQuery {}
}

/// All calendars, the latest first.
#[utoipa::path(get, path = "/calendars", tag = "calendars", operation_id = "list_calendars", params(CalendarQuery),
    responses((status = 200, body = List<CalendarView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<CalendarQuery>,
) -> Result<axum::Json<List<CalendarView>>, Problem> {
    let page = query.page();
    let calendars = ctx.app.ledger.calendars();
    let calendars = calendars.list(ctx.id(), &page.request()?).await?;
    let list = List::of(calendars, page.limit()?, CalendarView::from);
    Ok(axum::Json(list))
}

/// One calendar. Its `ETag` goes into `If-Match` of a change.
#[utoipa::path(get, path = "/calendars/{calendar_id}", tag = "calendars", operation_id = "get_calendar",
    params(("calendar_id" = String, Path)), responses((status = 200, body = CalendarView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<CalendarPath>,
) -> Result<Versioned<CalendarView>, Problem> {
    let calendars = ctx.app.ledger.calendars();
    let calendar = calendars.get(ctx.id(), &path.id()?).await?;
    let calendar = calendar.ok_or_else(|| Problem::not_found("calendar"))?;
    Ok(Versioned::ok(calendar.version, calendar.into()))
}

/// Makes or changes a calendar; schedules that refer to it follow at once. `If-Match` with its ETag guards against
/// overwriting somebody else's change, `If-None-Match: *` makes it only if it is new.
#[utoipa::path(put, path = "/calendars/{calendar_id}", tag = "calendars", operation_id = "put_calendar",
    params(("calendar_id" = String, Path),
        ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)),
    request_body = PutCalendar,
    responses((status = 200, body = CalendarView), (status = 201, body = CalendarView),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn put(
    Operator(ctx): Operator,
    Path(path): Path<CalendarPath>,
    Condition(condition): Condition,
    Json(wanted): Json<PutCalendar>,
) -> Result<Versioned<CalendarView>, Problem> {
    let id = path.id()?;
    let mut fields = Fields::default();
    let name = fields.name("/name", &wanted.name);
    let mut wrongs = Vec::new();
    plan::days(&wanted.days, &mut wrongs);
    fields.all(wrongs);
    fields.check()?;
    let new = NewCalendar {
        name,
        days: json!(wanted.days),
    };
    let calendars = ctx.app.ledger.calendars();
    let put = calendars
        .put(ctx.id(), &id, &new, condition, &ctx.trail(None))
        .await?;
    let answer = etag::put(put, version, |never| match never {})?;
    hours::changed(&ctx.app, &ctx.corp).await;
    Ok(answer)
}

/// Removes a calendar to which no schedule refers.
#[utoipa::path(delete, path = "/calendars/{calendar_id}", tag = "calendars", operation_id = "delete_calendar",
    params(("calendar_id" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 204, description = "It is gone."),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn delete(
    Operator(ctx): Operator,
    Path(path): Path<CalendarPath>,
    Condition(condition): Condition,
) -> Result<StatusCode, Problem> {
    let calendars = ctx.app.ledger.calendars();
    let deleted = calendars
        .delete(ctx.id(), &path.id()?, condition, &ctx.trail(None))
        .await?;
    etag::deleted(deleted, "calendar", version, |schedules| {
        let names: Vec<&str> = schedules.iter().map(ScheduleId::as_str).collect();
        let detail = format!(
            "Schedules refer to it: {}. Take it out of them first.",
            names.join(", ")
        );
        Problem::conflict("calendar_in_use", detail).with_current(json!({"schedules": names}))
    })
}

fn version(calendar: &Calendar) -> u64 {
    calendar.version
}

#[derive(Debug, Deserialize)]
struct CalendarPath {
    calendar_id: String,
}

impl CalendarPath {
    fn id(&self) -> Result<CalendarId, Problem> {
        validate::in_path("calendar_id", &self.calendar_id)
    }
}
