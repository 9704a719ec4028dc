//! Seats as the ledger has them: what became of whoever asked for one, and giving one back by hand.

use allocation::{CampaignId, ChatId, Reason, ReleaseSeat, Released, SeatId, SubjectKey};
use axum::http::StatusCode;
use ledger::{Seat, SeatFilter, SeatStage};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{Ctx, Operator, Viewer},
    allocations::{CustomerView, Known, is_recent, known},
    docs::Refusals,
    extract::{Path, Query},
    page::{List, list_query},
    problem::Problem,
    seats::PersonId,
    validate::{self, Fields},
    when::When,
};
use crate::{payload::Payload, reception::visits::VisitorKind};

/// Why a seat is given back before its time.
const CANCELLED: &str = "cancelled";

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, cancel))
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SeatRecordState {
    /// In the waiting room.
    Waiting,
    /// He was shown the group.
    Held,
    /// He is in a group.
    Confirmed,
    /// The same, and the seat had been given back before he came.
    Late,
    /// Nobody came in time.
    Expired,
    /// It was given back for another reason.
    Cancelled,
    /// He waited, and asked no more.
    Lapsed,
    /// He was in the group and is not any more.
    Left,
}

macro_rules! same_words {
    ($($word:ident),+) => {
        impl From<SeatRecordState> for SeatStage {
            fn from(word: SeatRecordState) -> Self {
                match word { $(SeatRecordState::$word => Self::$word),+ }
            }
        }

        impl From<SeatStage> for SeatRecordState {
            fn from(stage: SeatStage) -> Self {
                match stage { $(SeatStage::$word => Self::$word),+ }
            }
        }
    };
}
same_words!(
    Waiting, Held, Confirmed, Late, Expired, Cancelled, Lapsed, Left
);

/// A seat, or a place in the waiting room, as the ledger has it.
#[derive(Debug, Serialize, ToSchema)]
struct SeatRecord {
    id: String,
    campaign: String,
    group_pool: String,
    /// Who asked. Of a page's visitor, whom only a cookie knows, nothing but an id of ours is kept.
    customer: CustomerView,
    state: SeatRecordState,
    /// The group that he was shown, then the one that he came into; null: none.
    #[schema(required)]
    chat_id: Option<String>,
    /// The group that he was shown, where he came into another one.
    #[schema(required)]
    moved_from: Option<String>,
    /// How he was known when he came: by `unionid` or `external_id`; by `state` (whoever was shown a code with that State first) or by
    /// `count` (the oldest seat of the group), which are guesses. Null: he has not come.
    #[schema(required)]
    matched_by: Option<String>,
    asked_at: When,
    /// Since when he was shown the group.
    #[schema(required)]
    held_at: Option<When>,
    /// The hold ends then, once the group was read; while he waits, his place.
    held_until: When,
    #[schema(required)]
    confirmed_at: Option<When>,
    #[schema(required)]
    ended_at: Option<When>,
    /// Why it ended: `expired`, `cancelled`, `lapsed`, `left`, or `group_removed`.
    #[schema(required)]
    end_reason: Option<String>,
}

list_query! {
    /// Which seats; every filter that is given must match.
    SeatQuery {
        #[param(inline)]
        state: Option<SeatRecordState>,
        /// Those of this group.
        chat_id: Option<String>,
        /// With `visitor_id`: what kind of id that is.
        #[param(inline)]
        visitor_kind: Option<PersonId>,
        /// With `visitor_kind`: only this visitor's.
        visitor_id: Option<String>,
    }
}

#[derive(Debug, Deserialize)]
struct CampaignPath {
    campaign_id: String,
}

#[derive(Debug, Deserialize)]
struct SeatPath {
    seat_id: Uuid,
}

/// Seats of a campaign, the latest first. Seats of the last seconds may be missing yet.
#[utoipa::path(get, path = "/campaigns/{campaign_id}/seats", tag = "seats", operation_id = "list_seats",
    params(("campaign_id" = String, Path), SeatQuery), responses((status = 200, body = List<SeatRecord>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Path(path): Path<CampaignPath>,
    Query(query): Query<SeatQuery>,
) -> Result<axum::Json<List<SeatRecord>>, Problem> {
    let campaign: CampaignId = validate::in_path("campaign_id", &path.campaign_id)?;
    let page = query.page();
    let mut fields = Fields::default();
    let chat = query.chat_id.as_deref();
    let chat = chat.and_then(|chat| fields.parse::<ChatId>("query:chat_id", chat));
    let subject = match (query.visitor_kind, &query.visitor_id) {
        (Some(kind), Some(id)) => {
            let kind = VisitorKind::from(kind);
            Some(SubjectKey::new(ctx.id(), kind.as_str(), id))
        }
        (None, None) => None,
        (Some(_), None) => {
            fields.wrong(
                "query:visitor_id",
                "required",
                "is needed with visitor_kind",
            );
            None
        }
        (None, Some(_)) => {
            fields.wrong(
                "query:visitor_kind",
                "required",
                "is needed with visitor_id",
            );
            None
        }
    };
    fields.check()?;
    let filter = SeatFilter {
        stage: query.state.map(SeatStage::from),
        chat,
        subject,
    };
    let table = ctx.app.ledger.seats();
    let seats = table
        .list(ctx.id(), &campaign, &filter, &page.request()?)
        .await?;
    // Only now: what is wrong with the query is said of any campaign.
    let there = ctx.app.ledger.campaigns().get(ctx.id(), &campaign).await?;
    if there.is_none() {
        return Err(Problem::not_found("campaign"));
    }
    let subjects = seats.items.iter().map(|seat| seat.subject).collect();
    let customers = known(&ctx, subjects).await?;
    Ok(axum::Json(List::of(seats, page.limit()?, |seat| {
        record(&ctx, seat, &customers)
    })))
}

/// What became of a seat. One that was given a moment ago is waited for.
#[utoipa::path(get, path = "/seats/{seat_id}", tag = "seats", operation_id = "get_seat",
    params(("seat_id" = Uuid, Path)), responses((status = 200, body = SeatRecord), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<SeatPath>,
) -> Result<axum::Json<SeatRecord>, Problem> {
    let seat = found(&ctx, path.seat_id).await?;
    let customers = known(&ctx, vec![seat.subject]).await?;
    Ok(axum::Json(record(&ctx, seat, &customers)))
}

/// Gives a seat, or a place in the waiting room, back before its time: its room is free at once. Whoever comes into the group
/// all the same is counted, and the seat is `late`. A seat that has ended stays as it is; who is in the group keeps his: 409.
#[utoipa::path(delete, path = "/seats/{seat_id}", tag = "seats", operation_id = "cancel_seat",
    params(("seat_id" = Uuid, Path)),
    responses((status = 204, description = "It has ended."), Refusals))]
async fn cancel(
    Operator(ctx): Operator,
    Path(path): Path<SeatPath>,
) -> Result<StatusCode, Problem> {
    ctx.caught_up().await?;
    let seat = found(&ctx, path.seat_id).await?;
    match seat.stage {
        SeatStage::Waiting | SeatStage::Held => {}
        SeatStage::Confirmed | SeatStage::Late => return Err(is_in()),
        _ => return Ok(StatusCode::NO_CONTENT),
    }
    let asked = ReleaseSeat {
        campaign: seat.campaign.clone(),
        subject: seat.subject,
        seat: seat.id,
        expect_until_ms: None,
        reason: Reason::new(CANCELLED).map_err(|error| Problem::internal(&error))?,
        memory_ms: ctx.app.config.fission.memory_ms,
    };
    let record = ctx.trail(None).record(
        "seat.cancel",
        format!("seats/{}", seat.id),
        None,
        Some(json!({"campaign": seat.campaign, "chat_id": seat.chat})),
    );
    let payload = Payload::default().by(record).text();
    let told = ctx.corp.roster.release_seats(vec![asked], &payload, None);
    let told = told.await.map_err(|error| ctx.roster(error))?;
    ctx.corp.log_grew.notify_one();
    if told.more {
        ctx.corp.seats_freed.notify_one();
    }
    if told.answer.first() != Some(&Released::Stale) {
        return Ok(StatusCode::NO_CONTENT);
    }
    // He came into the group since the ledger was read, or has another seat by now.
    ctx.caught_up().await?;
    match found(&ctx, path.seat_id).await?.stage {
        SeatStage::Confirmed | SeatStage::Late => Err(is_in()),
        _ => Ok(StatusCode::NO_CONTENT),
    }
}

fn is_in() -> Problem {
    let detail = "The visitor is in the group: his seat is free when he leaves it.";
    Problem::conflict("seat_taken", detail)
}

async fn found(ctx: &Ctx, id: Uuid) -> Result<Seat, Problem> {
    let table = ctx.app.ledger.seats();
    let mut seat = table.get(ctx.id(), SeatId(id)).await?;
    if seat.is_none() && is_recent(id, ctx.app.now_ms()) {
        ctx.caught_up().await?;
        seat = table.get(ctx.id(), SeatId(id)).await?;
    }
    seat.ok_or_else(|| Problem::not_found("seat"))
}

fn record(ctx: &Ctx, seat: Seat, customers: &Known) -> SeatRecord {
    SeatRecord {
        id: seat.id.to_string(),
        campaign: seat.campaign.into(),
        group_pool: seat.pool.into(),
        customer: CustomerView::of(ctx, seat.customer, customers),
        state: seat.stage.into(),
        chat_id: seat.chat.map(String::from),
        moved_from: seat.moved_from.map(String::from),
        matched_by: seat.matched,
        asked_at: When(seat.asked_ms),
        held_at: seat.held_ms.map(When),
        held_until: When(seat.held_until_ms),
        confirmed_at: seat.confirmed_ms.map(When),
        ended_at: seat.ended_ms.map(When),
        end_reason: seat.reason,
    }
}
