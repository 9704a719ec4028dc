//! Deliveries: what WeCom sent, as it came, and what became of it.

use allocation::SubjectKey;
use axum::{
    Json as Answer,
    response::{IntoResponse, Response},
};
use ledger::{Delivery, DeliveryFilter, Role};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Operator, Viewer},
    docs::Refusals,
    extract::{Json, MaybeJson, Path, Query},
    operations::{DryRun, OperationView, begin},
    page::{List, list_query},
    problem::Problem,
    validate::Fields,
    when::When,
    work,
};
use crate::{decide, reception::intake::WECOM};

const LONGEST_NOTE: usize = 500;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(replay))
        .routes(routes!(replay_one))
}

#[derive(Debug, Serialize, ToSchema)]
struct DeliveryView {
    id: String,
    endpoint: String,
    received_at: When,
    /// Event or InfoType; MsgType of a message.
    #[schema(required)]
    event: Option<String>,
    #[schema(required)]
    change_type: Option<String>,
    /// When the event says it happened.
    #[schema(required)]
    event_at: Option<When>,
    /// Why it could not be read.
    #[schema(required)]
    problem: Option<String>,
    /// `decided`, `waiting`, `already`, `ignored`, `closed`, `advanced`, `reread`, `discarded`, …; null: under way.
    #[schema(required)]
    outcome: Option<String>,
    #[schema(required)]
    outcome_at: Option<When>,
    #[schema(required)]
    reason: Option<String>,
    #[schema(required)]
    allocation_id: Option<String>,
    /// Its customer was forgotten: the body is empty.
    #[schema(required)]
    scrubbed_at: Option<When>,
}

#[derive(Debug, Serialize, ToSchema)]
struct DeliveryDetail {
    #[serde(flatten)]
    delivery: DeliveryView,
    /// The decrypted text, for admins; it names customers.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

impl From<Delivery> for DeliveryView {
    fn from(row: Delivery) -> Self {
        let delivery = row.delivery;
        Self {
            id: delivery.id,
            endpoint: delivery.endpoint,
            received_at: When(delivery.received_ms),
            event: delivery.event,
            change_type: delivery.change_type,
            event_at: delivery.event_ms.map(When),
            problem: delivery.problem,
            outcome: row.outcome,
            outcome_at: row.outcome_ms.map(When),
            reason: row.reason,
            allocation_id: row.allocation.map(|id| id.to_string()),
            scrubbed_at: row.scrubbed_ms.map(When),
        }
    }
}

list_query! {
    /// Which deliveries; every filter that is given must match.
    DeliveryQuery {
        endpoint: Option<String>,
        event: Option<String>,
        change_type: Option<String>,
        outcome: Option<String>,
        /// Only those without an outcome.
        pending: Option<bool>,
        /// Only those that could not be read.
        unreadable: Option<bool>,
        /// Only those about this external_userid.
        external_userid: Option<String>,
        #[param(value_type = Option<String>)]
        received_after: Option<When>,
        #[param(value_type = Option<String>)]
        received_before: Option<When>,
    }
}

/// Deliveries, the latest first.
#[utoipa::path(get, path = "/deliveries", tag = "deliveries", operation_id = "list_deliveries", params(DeliveryQuery),
    responses((status = 200, body = List<DeliveryView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<DeliveryQuery>,
) -> Result<Answer<List<DeliveryView>>, Problem> {
    let page = query.page();
    let filter = DeliveryFilter {
        endpoint: query.endpoint,
        event: query.event,
        change_type: query.change_type,
        outcome: query.outcome,
        pending: query.pending.unwrap_or_default(),
        unreadable: query.unreadable.unwrap_or_default(),
        subject: query
            .external_userid
            .map(|id| SubjectKey::new(ctx.id(), WECOM, &id)),
        received_from_ms: query.received_after.map(|when| when.0),
        received_before_ms: query.received_before.map(|when| when.0),
    };
    let rows = ctx
        .app
        .ledger
        .deliveries()
        .list(ctx.id(), &filter, &page.request()?)
        .await?;
    Ok(Answer(List::of(rows, page.limit()?, DeliveryView::from)))
}

/// One delivery; for admins with its body.
#[utoipa::path(get, path = "/deliveries/{delivery_id}", tag = "deliveries", operation_id = "get_delivery",
    params(("delivery_id" = String, Path)), responses((status = 200, body = DeliveryDetail), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<DeliveryPath>,
) -> Result<Answer<DeliveryDetail>, Problem> {
    let row = ctx
        .app
        .ledger
        .deliveries()
        .get(ctx.id(), &path.delivery_id)
        .await?;
    let row = row.ok_or_else(|| Problem::not_found("delivery"))?;
    let body = (ctx.role >= Role::Admin).then(|| row.delivery.body.clone());
    Ok(Answer(DeliveryDetail {
        delivery: row.into(),
        body,
    }))
}

#[derive(Debug, Deserialize)]
struct DeliveryPath {
    delivery_id: String,
}

/// Which deliveries are to be taken up again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Replay {
    received_after: When,
    received_before: When,
    endpoint: Option<String>,
    event: Option<String>,
    change_type: Option<String>,
    /// Why, for the audit; at most 500 characters.
    note: Option<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReplayOne {
    /// Why, for the audit; at most 500 characters.
    note: Option<String>,
}

/// What a replay would do.
#[derive(Debug, Serialize, ToSchema)]
struct ReplayCount {
    matched: u64,
    /// Those that had no effect yet: without an outcome, or ignored. The others are left alone.
    replayable: u64,
    /// Those of them that came more than a day ago. Their welcome codes are dead, and what they say may not be true any
    /// more: WeCom is asked instead (outcome `reread`, reason `late`).
    late: u64,
}

/// Takes deliveries of a span of time up again, as if they had just come: after a channel or pool was put right. Those
/// that had their effect are left alone; of those that came more than a day ago WeCom is asked what is true now. With `dry_run` it counts (200), otherwise it begins an operation (202).
#[utoipa::path(post, path = "/deliveries/replay", tag = "deliveries", operation_id = "replay_deliveries", params(DryRun),
    request_body = Replay,
    responses((status = 200, body = ReplayCount), (status = 202, body = OperationView), Refusals))]
async fn replay(
    Operator(ctx): Operator,
    Query(query): Query<DryRun>,
    Json(wanted): Json<Replay>,
) -> Result<Response, Problem> {
    let mut fields = Fields::default();
    if wanted.received_after >= wanted.received_before {
        fields.wrong(
            "/received_before",
            "out_of_range",
            "must be after received_after",
        );
    }
    fields.characters(
        "/note",
        wanted.note.as_deref().unwrap_or_default(),
        LONGEST_NOTE,
    );
    fields.check()?;
    let filter = DeliveryFilter {
        endpoint: wanted.endpoint.clone(),
        event: wanted.event.clone(),
        change_type: wanted.change_type.clone(),
        received_from_ms: Some(wanted.received_after.0),
        received_before_ms: Some(wanted.received_before.0),
        ..DeliveryFilter::default()
    };
    let late_before_ms = ctx.app.now_ms().saturating_sub(decide::LATE_MS);
    let deliveries = ctx.app.ledger.deliveries();
    let count = deliveries.count(ctx.id(), &filter, late_before_ms).await?;
    if query.dry_run {
        return Ok(Answer(ReplayCount {
            matched: count.matched,
            replayable: count.replayable,
            late: count.late,
        })
        .into_response());
    }
    let request = json!({
        "received_after": wanted.received_after,
        "received_before": wanted.received_before,
        "endpoint": wanted.endpoint,
        "event": wanted.event,
        "change_type": wanted.change_type,
        "late": count.late,
    });
    begin(&ctx, work::DELIVERIES, count.matched, &request, wanted.note).await
}

/// Takes one delivery up again, as `POST …/deliveries/replay` does several.
#[utoipa::path(post, path = "/deliveries/{delivery_id}/replay", tag = "deliveries", operation_id = "replay_delivery",
    params(("delivery_id" = String, Path), DryRun), request_body = Option<ReplayOne>,
    responses((status = 200, body = ReplayCount), (status = 202, body = OperationView), Refusals))]
async fn replay_one(
    Operator(ctx): Operator,
    Path(path): Path<DeliveryPath>,
    Query(query): Query<DryRun>,
    MaybeJson(wanted): MaybeJson<ReplayOne>,
) -> Result<Response, Problem> {
    let mut fields = Fields::default();
    fields.characters(
        "/note",
        wanted.note.as_deref().unwrap_or_default(),
        LONGEST_NOTE,
    );
    fields.check()?;
    let row = ctx
        .app
        .ledger
        .deliveries()
        .get(ctx.id(), &path.delivery_id)
        .await?;
    let row = row.ok_or_else(|| Problem::not_found("delivery"))?;
    if row.scrubbed_ms.is_some() {
        return Err(Problem::conflict(
            "scrubbed",
            "Its customer was forgotten, so there is nothing to read.",
        ));
    }
    let replayable = work::is_replayable(&row);
    let late = replayable && decide::is_late(row.delivery.received_ms, ctx.app.now_ms());
    if query.dry_run {
        return Ok(Answer(ReplayCount {
            matched: 1,
            replayable: replayable.into(),
            late: late.into(),
        })
        .into_response());
    }
    begin(
        &ctx,
        work::DELIVERIES,
        1,
        &json!({"delivery": row.delivery.id, "late": u64::from(late)}),
        wanted.note,
    )
    .await
}
