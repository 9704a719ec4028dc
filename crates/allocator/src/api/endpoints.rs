//! Endpoints: what came in at which callback address, as the ledger has it. Whether an address answers is the
//! gateway's to say.

use axum::Json as Answer;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Api, access::Viewer, docs::Refusals, extract::Query, problem::Problem, when::When};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const LONGEST_DAYS: u64 = 31;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EndpointQuery {
    /// Count what was received since then; a day without it, at most 31 days.
    #[param(value_type = Option<String>)]
    since: Option<When>,
}

#[derive(Debug, Serialize, ToSchema)]
struct EndpointView {
    /// As the gateway's configuration names it.
    endpoint: String,
    received: u64,
    /// Those that could not be read.
    unreadable: u64,
    /// Those without an outcome yet.
    pending: u64,
    last_received_at: When,
}

#[derive(Debug, Serialize, ToSchema)]
struct Endpoints {
    data: Vec<EndpointView>,
    since: When,
}

/// Deliveries per endpoint. One that is missing received nothing in that time.
#[utoipa::path(get, path = "/endpoints", tag = "endpoints", operation_id = "list_endpoints", params(EndpointQuery),
    responses((status = 200, body = Endpoints), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<EndpointQuery>,
) -> Result<Answer<Endpoints>, Problem> {
    let now_ms = ctx.app.now_ms();
    let since = query
        .since
        .map_or(now_ms.saturating_sub(DAY_MS), |since| since.0);
    if since > now_ms || now_ms - since > LONGEST_DAYS * DAY_MS {
        return Err(Problem::parameter(
            "since",
            "out_of_range",
            format!(
                "must be in the last {LONGEST_DAYS} days, not {}",
                When(since).text()
            ),
        ));
    }
    let counts = ctx
        .app
        .ledger
        .deliveries()
        .by_endpoint(ctx.id(), since, u64::MAX)
        .await?;
    let data = counts.into_iter().map(|count| EndpointView {
        endpoint: count.endpoint,
        received: count.received,
        unreadable: count.unreadable,
        pending: count.pending,
        last_received_at: When(count.last_received_ms),
    });
    Ok(Answer(Endpoints {
        data: data.collect(),
        since: When(since),
    }))
}
