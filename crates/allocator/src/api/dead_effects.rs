//! Dead letters: effects that WeCom would not take, or that were never clear. A person looks, then replays or discards
//! them.

use axum::{
    Json as Answer,
    response::{IntoResponse, Response},
};
use ledger::OutboxRow;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{Operator, Viewer},
    dead_letters::{Chosen, Counted, Discard, names},
    docs::Refusals,
    extract::{Json, Query},
    operations::{DryRun, OperationView, begin},
    page::{List, list_query},
    problem::Problem,
    validate::Fields,
    when::When,
    work,
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_effects))
        .routes(routes!(replay_effects))
        .routes(routes!(discard_effects))
}

/// An effect that was given up.
#[derive(Debug, Serialize, ToSchema)]
struct DeadEffect {
    id: String,
    /// `welcome`, `transfer`, `member_card`, `tag`, `goal_message`, `event`.
    kind: String,
    #[schema(required)]
    allocation_id: Option<String>,
    /// Of a `transfer`: which.
    #[schema(required)]
    transfer_id: Option<String>,
    /// Attempts that may have reached WeCom.
    tries: i32,
    #[schema(required)]
    errcode: Option<i32>,
    #[schema(required)]
    error: Option<String>,
    created_at: When,
    #[schema(required)]
    failed_at: Option<When>,
}

list_query! {
    /// Which effects.
    DeadEffectQuery {
        /// `welcome`, `transfer`, `member_card`, `tag`, `goal_message` or `event`.
        kind: Option<String>,
    }
}

/// Dead effects, the latest first.
#[utoipa::path(get, path = "/dead-letters/effects", tag = "dead letters", operation_id = "list_dead_effects",
    params(DeadEffectQuery), responses((status = 200, body = List<DeadEffect>), Refusals))]
async fn list_effects(
    Viewer(ctx): Viewer,
    Query(query): Query<DeadEffectQuery>,
) -> Result<Answer<List<DeadEffect>>, Problem> {
    let page = query.page();
    let rows = ctx
        .app
        .ledger
        .outbox()
        .dead(ctx.id(), query.kind.as_deref(), &page.request()?)
        .await?;
    let view = |row: OutboxRow| DeadEffect {
        id: row.id.to_string(),
        kind: row.kind,
        allocation_id: row.allocation.map(|id| id.to_string()),
        transfer_id: row.transfer.map(|id| id.to_string()),
        tries: row.tries,
        errcode: row.last_errcode,
        error: row.last_error,
        created_at: When(row.created_ms),
        failed_at: row.settled_ms.map(When),
    };
    Ok(Answer(List::of(rows, page.limit()?, view)))
}

/// Tries dead effects again. Some at once (200), all as an operation (202); with `dry_run` it counts. A welcome is never
/// tried again: its code is gone. Nor is a transfer: a person ends it, or has it tried again, by
/// `POST …/transfers/{transfer_id}/resolve`; one that is over begins anew when its allocation is reassigned.
#[utoipa::path(post, path = "/dead-letters/effects/replay", tag = "dead letters", operation_id = "replay_dead_effects",
    params(DryRun), request_body = Chosen,
    responses((status = 200, body = Counted), (status = 202, body = OperationView), Refusals))]
async fn replay_effects(
    Operator(ctx): Operator,
    Query(query): Query<DryRun>,
    Json(chosen): Json<Chosen>,
) -> Result<Response, Problem> {
    let outbox = ctx.app.ledger.outbox();
    let Some(ids) = chosen.check::<Uuid>()? else {
        let matched = outbox.count_dead(ctx.id(), None).await?;
        if query.dry_run {
            return Ok(Answer(Counted {
                matched,
                changed: 0,
            })
            .into_response());
        }
        return begin(&ctx, work::DEAD_EFFECTS, matched, &json!({}), chosen.note).await;
    };
    let transfers = outbox.starts_of_transfers(ctx.id(), &ids).await?;
    let mut fields = Fields::default();
    for (index, id) in ids.iter().enumerate() {
        if let Some(transfer) = transfers.get(id) {
            fields.wrong(
                format!("/ids/{index}"),
                "transfer",
                of_a_transfer(*transfer),
            );
        }
    }
    fields.check()?;
    let matched = outbox.count_dead(ctx.id(), Some(&ids)).await?;
    if query.dry_run {
        return Ok(Answer(Counted {
            matched,
            changed: 0,
        })
        .into_response());
    }
    let trail = ctx.trail(chosen.note);
    let replayed = outbox.replay(ctx.id(), &ids, trail.now_ms).await?;
    let after = json!({"ids": names(&replayed)});
    ctx.audit(trail.record(
        "dead_letters.replay",
        "dead-letters/effects".to_owned(),
        None,
        Some(after),
    ))
    .await?;
    ctx.corp.effects_due.notify_waiters();
    Ok(Answer(Counted {
        matched,
        changed: replayed.len() as u64,
    })
    .into_response())
}

/// Why the start of a transfer is not simply sent again.
pub(super) fn of_a_transfer(transfer: Uuid) -> String {
    format!(
        "starts a transfer: see …/transfers/{transfer}; POST …/transfers/{transfer}/resolve while it is in `human`, else \
         reassign its allocation"
    )
}

/// Gives dead effects up for good.
#[utoipa::path(post, path = "/dead-letters/effects/discard", tag = "dead letters", operation_id = "discard_dead_effects",
    request_body = Discard, responses((status = 200, body = Counted), Refusals))]
async fn discard_effects(
    Operator(ctx): Operator,
    Json(wanted): Json<Discard>,
) -> Result<Answer<Counted>, Problem> {
    let ids = wanted.check::<Uuid>()?;
    let gone = ctx
        .app
        .ledger
        .outbox()
        .discard(ctx.id(), &ids, &ctx.trail(Some(wanted.reason)))
        .await?;
    let changed = gone.len() as u64;
    Ok(Answer(Counted {
        matched: changed,
        changed,
    }))
}
