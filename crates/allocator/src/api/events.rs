//! What happened that others want to hear of, as a feed.

use ledger::{EventsAfter, OutgoingEvent};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api, access::Viewer, docs::Refusals, extract::Query, page::LONGEST, problem::Problem,
    validate::Fields, when::When,
};

const USUAL: u32 = 50;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(feed))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct FeedQuery {
    /// `next` of the answer before; without it the feed begins.
    after: Option<String>,
    /// Events in the answer.
    #[param(minimum = 1, maximum = 250, default = 50)]
    limit: Option<u64>,
}

/// Something happened.
#[derive(Debug, Serialize, ToSchema)]
struct EventView {
    /// The same in the feed and in `webhook-id`.
    id: String,
    /// `goal.reached`: `data` has `campaign_id`, `inviter_id`, `count` and `goal`, and how many of his were `qualified` then.
    #[serde(rename = "type")]
    kind: String,
    at: When,
    #[schema(value_type = Object)]
    data: serde_json::Value,
}

impl From<OutgoingEvent> for EventView {
    fn from(event: OutgoingEvent) -> Self {
        Self {
            id: format!("evt_{}", event.id.simple()),
            kind: event.kind,
            at: When(event.at_ms),
            data: event.body,
        }
    }
}

/// Events in the order in which they are read: none is ever put before one that was read.
#[derive(Debug, Serialize, ToSchema)]
struct EventFeed {
    data: Vec<EventView>,
    /// For `after` of the next request; null: nothing has happened yet.
    #[schema(required)]
    next: Option<String>,
}

/// What happened after a place in the feed. An answer without events is no end: ask again later with the same place. Events are kept
/// for 90 days.
#[utoipa::path(get, path = "/events", tag = "campaigns", operation_id = "list_events", params(FeedQuery),
    responses((status = 200, body = EventFeed), Refusals))]
async fn feed(
    Viewer(ctx): Viewer,
    Query(query): Query<FeedQuery>,
) -> Result<axum::Json<EventFeed>, Problem> {
    let mut fields = Fields::default();
    fields.range("query:limit", query.limit, 1..=LONGEST.into());
    let after = query.after.as_deref().map(str::parse::<EventsAfter>);
    let after = after.transpose().unwrap_or_else(|_| {
        let message = "must be `next` of an answer of this feed; leave it out to begin";
        fields.wrong("query:after", "invalid_cursor", message);
        None
    });
    fields.check()?;
    let limit = query.limit.and_then(|limit| u32::try_from(limit).ok());
    let inviters = ctx.app.ledger.inviters();
    let events = inviters
        .events(ctx.id(), after.unwrap_or_default(), limit.unwrap_or(USUAL))
        .await?;
    let next = events.last().map(|event| event.position.to_string());
    Ok(axum::Json(EventFeed {
        data: events.into_iter().map(EventView::from).collect(),
        next: next.or(query.after),
    }))
}
