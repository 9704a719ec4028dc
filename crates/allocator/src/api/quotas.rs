//! Quotas: what WeCom still lets us call.

use axum::Json as Answer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Operator, Viewer},
    docs::Refusals,
    extract::Json,
    problem::Problem,
    tree::quoted,
    validate::Fields,
    when::When,
};

const LONGEST_API: usize = 100;
const LONGEST_NOTE: usize = 500;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(unblock))
}

/// One API of WeCom.
#[derive(Debug, Serialize, ToSchema)]
struct QuotaView {
    /// As in WeCom's documentation, for example `externalcontact/transfer_customer`.
    api: String,
    minute_used: i64,
    minute_limit: u32,
    hour_used: i64,
    hour_limit: u32,
    in_flight: i64,
    /// Fewer than configured after WeCom refused for concurrency; it grows back.
    in_flight_limit: i64,
    /// No call before this.
    #[schema(required)]
    blocked_until: Option<When>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Quotas {
    data: Vec<QuotaView>,
}

/// Every API that was called of late or is blocked.
#[utoipa::path(get, path = "/quotas", tag = "quotas", operation_id = "list_quotas",
    responses((status = 200, body = Quotas), Refusals))]
async fn list(Viewer(ctx): Viewer) -> Result<Answer<Quotas>, Problem> {
    let usage = ctx.app.quota.usage(ctx.id().as_str(), None).await?;
    let data = usage.into_iter().map(|usage| QuotaView {
        api: usage.api,
        minute_used: usage.minute_used,
        minute_limit: usage.minute_limit,
        hour_used: usage.hour_used,
        hour_limit: usage.hour_limit,
        in_flight: usage.in_flight,
        in_flight_limit: usage.in_flight_limit,
        blocked_until: usage
            .blocked_until_ms
            .and_then(|until| u64::try_from(until).ok())
            .map(When),
    });
    Ok(Answer(Quotas {
        data: data.collect(),
    }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Unblock {
    /// The API, as `GET …/quotas` names it.
    api: String,
    /// Why, for the audit; at most 500 characters.
    note: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Unblocked {
    api: String,
    /// False: it was not blocked.
    changed: bool,
}

/// Lifts a block early, because somebody mended its cause at WeCom. If WeCom refuses again, it is blocked again.
#[utoipa::path(post, path = "/quotas/unblock", tag = "quotas", operation_id = "unblock_quota", request_body = Unblock,
    responses((status = 200, body = Unblocked), Refusals))]
async fn unblock(
    Operator(ctx): Operator,
    Json(wanted): Json<Unblock>,
) -> Result<Answer<Unblocked>, Problem> {
    let mut fields = Fields::default();
    fields.characters("/api", &wanted.api, LONGEST_API);
    if wanted.api.is_empty()
        || !wanted
            .api
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/_-".contains(c))
    {
        fields.wrong(
            "/api",
            "invalid",
            format!(
                "must be the name of an API, such as externalcontact/transfer_customer, not {}",
                quoted(&wanted.api)
            ),
        );
    }
    fields.characters(
        "/note",
        wanted.note.as_deref().unwrap_or_default(),
        LONGEST_NOTE,
    );
    fields.check()?;
    let corp = ctx.id().as_str();
    let known = ctx.app.quota.usage(corp, None).await?;
    let usage = known.iter().find(|usage| usage.api == wanted.api);
    let was = usage.is_some_and(|usage| usage.blocked_until_ms.is_some());
    if usage.is_none() && !is_blocked_in_ledger(&ctx, &wanted.api).await? {
        let message = format!(
            "must be an API that was called of late or is blocked, not {}; GET …/quotas lists them",
            quoted(&wanted.api)
        );
        return Err(Problem::field("/api", "unknown_api", message));
    }
    // The ledger first: a rebuild in between must not bring the block back.
    let kept = ctx
        .app
        .ledger
        .budget_blocks()
        .lift(ctx.id(), &wanted.api, &ctx.trail(wanted.note))
        .await?;
    ctx.app.quota.unblock(corp, &wanted.api, None).await?;
    ctx.corp.effects_due.notify_waiters();
    Ok(Answer(Unblocked {
        api: wanted.api,
        changed: was || kept,
    }))
}

/// Redis may have lost a block that the ledger has; a rebuild would bring it back.
async fn is_blocked_in_ledger(ctx: &Ctx, api: &str) -> Result<bool, Problem> {
    let blocks = ctx.app.ledger.budget_blocks();
    let blocks = blocks.load(ctx.id(), ctx.app.now_ms()).await?;
    Ok(blocks.iter().any(|block| block.api == api))
}
