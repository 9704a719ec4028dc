//! Effects that are tried no more by themselves: dead ones, which WeCom would not take or which were never clear, and those that it
//! refused for good. A person looks, then replays or discards them.

use axum::{
    Json as Answer,
    response::{IntoResponse, Response},
};
use ledger::{GivenUp, OutboxRow, Role};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{Ctx, Operator, Viewer},
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
use crate::effect::Effect;

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
    /// What it is for: no two effects of a kind have the same.
    key: String,
    #[schema(required)]
    allocation_id: Option<String>,
    /// Of a `transfer`: which.
    #[schema(required)]
    transfer_id: Option<String>,
    /// Of a goal, its message or its tag: whose it is. So are the two below.
    #[schema(required)]
    campaign: Option<String>,
    #[schema(required)]
    inviter_id: Option<String>,
    /// Its name; null of a tag for whoever joins.
    #[schema(required)]
    goal: Option<String>,
    /// Of a tag: WeCom's id of it.
    #[schema(required)]
    tag: Option<String>,
    /// Of a tag for somebody who joined: WeCom's id of him, for operators.
    #[schema(required)]
    external_id: Option<String>,
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

/// What became of an effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum GivenUpName {
    /// Tried in vain, or never clear: a person is to decide.
    #[default]
    Dead,
    /// WeCom refused it for good, it was too late, or something that it needs is missing.
    Failed,
}

impl DeadEffect {
    fn of(ctx: &Ctx, row: OutboxRow) -> Self {
        let effect = serde_json::from_value::<Effect>(row.payload).ok();
        let (inviter, tag, external_id) = match effect {
            Some(Effect::Tag {
                inviter,
                tag,
                external_id,
            }) => (inviter, Some(tag), external_id),
            Some(Effect::GoalMessage { inviter, .. }) => (Some(inviter), None, None),
            _ => (None, None, None),
        };
        let (campaign, of) = inviter
            .map(|of| (of.campaign, (of.inviter, of.goal)))
            .unzip();
        let (inviter, goal) = of.unzip();
        Self {
            id: row.id.to_string(),
            kind: row.kind,
            key: row.key,
            allocation_id: row.allocation.map(|id| id.to_string()),
            transfer_id: row.transfer.map(|id| id.to_string()),
            campaign: campaign.map(String::from),
            inviter_id: inviter.map(String::from),
            goal,
            tag,
            // Who only looks need not know who it is.
            external_id: external_id.filter(|_| ctx.role >= Role::Operator),
            tries: row.tries,
            errcode: row.last_errcode,
            error: row.last_error,
            created_at: When(row.created_ms),
            failed_at: row.settled_ms.map(When),
        }
    }
}

list_query! {
    /// Which effects.
    DeadEffectQuery {
        /// `dead` if it is left out.
        #[param(inline)]
        state: Option<GivenUpName>,
        /// `welcome`, `transfer`, `member_card`, `tag`, `goal_message` or `event`.
        kind: Option<String>,
    }
}

/// Dead effects, or those that were refused for good, the latest first.
#[utoipa::path(get, path = "/dead-letters/effects", tag = "dead letters", operation_id = "list_dead_effects",
    params(DeadEffectQuery), responses((status = 200, body = List<DeadEffect>), Refusals))]
async fn list_effects(
    Viewer(ctx): Viewer,
    Query(query): Query<DeadEffectQuery>,
) -> Result<Answer<List<DeadEffect>>, Problem> {
    let page = query.page();
    let state = match query.state.unwrap_or_default() {
        GivenUpName::Dead => GivenUp::Dead,
        GivenUpName::Failed => GivenUp::Failed,
    };
    let outbox = ctx.app.ledger.outbox();
    let rows = outbox
        .given_up(ctx.id(), state, query.kind.as_deref(), &page.request()?)
        .await?;
    Ok(Answer(List::of(rows, page.limit()?, |row| {
        DeadEffect::of(&ctx, row)
    })))
}

/// Tries dead effects again, and those that were refused for good where they are named. Some at once (200), all dead ones as an operation (202); with `dry_run` it counts. A welcome is never
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
