//! Why a member got less than others, or nothing, over a span of time.

use std::collections::BTreeMap;

use allocation::{
    MemberId, PoolId,
    shortfall::{PoolShortfall, Shortfall},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::Viewer,
    docs::Refusals,
    extract::{Path, Query},
    problem::Problem,
    reports::{short, span},
    validate::{self, Fields},
    when::When,
};
use crate::history::Walk;

const MOST_DAYS: u64 = 7;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(get))
}

#[derive(Debug, Deserialize)]
struct MemberPath {
    userid: String,
}

/// Of which time.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ShortfallQuery {
    /// Only this pool.
    pool: Option<String>,
    /// Without it a day before `to`.
    #[param(value_type = Option<String>)]
    from: Option<When>,
    /// At most 7 days after `from`; itself left out. Without it now.
    #[param(value_type = Option<String>)]
    to: Option<When>,
}

/// What a member got, and what kept him out of the rest.
#[derive(Debug, Serialize, ToSchema)]
struct ShortfallView {
    /// The userid as WeCom spells it.
    member: String,
    from: When,
    to: When,
    /// Those that he was in.
    pools: Vec<PoolShortfallView>,
}

/// A member in one pool.
#[derive(Debug, Serialize, ToSchema)]
struct PoolShortfallView {
    pool: String,
    /// Customers that somebody was chosen for while he was in the pool.
    decisions: u64,
    /// Those at which he could be chosen.
    eligible: u64,
    /// Customers he was chosen for, or who came to him by themselves; one that another member had in the end is taken off.
    got: i64,
    /// The sum of his weight / weights of all who could be chosen, over those at which he could be; and his credit entries,
    /// less his part of those of others.
    entitlement: f64,
    /// Decisions that he was kept out of, by the first filter that did it: `left_out`, `avoided`, `weight_zero`, `away`,
    /// `blocked`, `cap`, `hour_limit`, `day_limit`, `pool_cap`, `pool_hour_limit`, `pool_day_limit`, `skills`.
    kept_out: BTreeMap<&'static str, u64>,
    /// When he was kept out, the newest first; the newest 100.
    spans: Vec<OutView>,
    /// There were older ones.
    more_spans: bool,
}

/// He could not be chosen in all of this time. It begins and ends with an entry of the log.
#[derive(Debug, Serialize, ToSchema)]
struct OutView {
    from: When,
    to: When,
    /// As in `kept_out`.
    reason: &'static str,
}

/// Why a member got less than others, or nothing: for each of his pools what was decided, what he was entitled to, and what
/// kept him out, counted and as spans of time. Folds the corp's log, at most 200,000 entries (422 `too_many_entries`); where
/// the log is not whole nothing is said (409 `log_incomplete`).
#[utoipa::path(get, path = "/members/{userid}/shortfall", tag = "reports", operation_id = "explain_shortfall",
    params(("userid" = String, Path), ShortfallQuery), responses((status = 200, body = ShortfallView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<MemberPath>,
    Query(query): Query<ShortfallQuery>,
) -> Result<axum::Json<ShortfallView>, Problem> {
    let member: MemberId = validate::in_path("userid", &path.userid)?;
    let mut fields = Fields::default();
    let pool = query.pool.as_deref();
    let pool: Option<PoolId> = pool.and_then(|pool| fields.parse("query:pool", pool));
    let (from, to) = span(&ctx, &mut fields, (query.from, query.to), 1, MOST_DAYS);
    fields.check()?;
    let app = &ctx.app;
    let members = app.ledger.members();
    let known = members.get_many(ctx.id(), std::slice::from_ref(&member));
    if known.await?.is_empty() {
        return Err(Problem::not_found("member"));
    }
    let (from_ms, to_ms) = (from.0, to.0);
    // What lasts is not told beyond now.
    let until_ms = to_ms.min(app.now_ms());
    let walk = Walk::over(&app.ledger, &app.questions, ctx.id(), from_ms, to_ms);
    let (walk, last) = walk.await?;
    let seen = Shortfall::new(walk.state(), member.clone(), pool, from_ms, until_ms);
    let (_, seen) = walk.through(last, seen, Shortfall::fold).await?;
    let pools = seen.end();
    Ok(axum::Json(ShortfallView {
        member: ctx.userid(&member).await,
        from,
        to,
        pools: pools.into_iter().map(view).collect(),
    }))
}

fn view((pool, found): (PoolId, PoolShortfall)) -> PoolShortfallView {
    let filters = found.filters.iter();
    let spans = found.spans.iter().rev().map(|span| OutView {
        from: When(span.from_ms),
        to: When(span.to_ms),
        reason: span.filter.as_str(),
    });
    PoolShortfallView {
        pool: pool.into(),
        decisions: found.decisions,
        eligible: found.eligible,
        got: found.got,
        entitlement: short(found.entitlement),
        kept_out: filters.map(|(filter, n)| (filter.as_str(), *n)).collect(),
        spans: spans.collect(),
        more_spans: found.more_spans,
    }
}
