//! When a member first answered a customer. WeCom tells no app of it: whoever can see the chat (an archive, the console)
//! reports it here, and the reports say how soon members answer.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::Operator,
    allocations::AllocationPath,
    docs::Refusals,
    extract::{MaybeJson, Path},
    problem::Problem,
    validate::Fields,
    when::When,
};

/// Clocks differ a little.
const AHEAD_MS: u64 = 60_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(first_response))
}

/// When it was.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct FirstResponse {
    /// Not before the customer was decided, and not in the future; now without it.
    at: Option<When>,
}

#[derive(Debug, Serialize, ToSchema)]
struct FirstResponseView {
    allocation_id: String,
    /// The earliest that was reported.
    first_response_at: When,
}

/// Reports that the member has answered the customer. Of several reports the earliest counts, so they may come in any order and
/// more than once. `GET …/reports/fairness` tells the median and the 95th percentile.
#[utoipa::path(post, path = "/allocations/{allocation_id}/first-response", tag = "allocations",
    operation_id = "report_first_response", params(("allocation_id" = String, Path)),
    request_body = Option<FirstResponse>, responses((status = 200, body = FirstResponseView), Refusals))]
async fn first_response(
    Operator(ctx): Operator,
    Path(path): Path<AllocationPath>,
    MaybeJson(wanted): MaybeJson<FirstResponse>,
) -> Result<axum::Json<FirstResponseView>, Problem> {
    let row = path.find(&ctx).await?;
    let now_ms = ctx.app.now_ms();
    let at = wanted.at.unwrap_or(When(now_ms));
    let mut fields = Fields::default();
    if row.member.is_none() {
        return Err(Problem::conflict(
            "nobody_has_it",
            "No member has this customer (yet), so none can have answered.".to_owned(),
        ));
    }
    if at.0 < row.decided_ms {
        let message = "must not be before the customer was decided";
        fields.wrong("/at", "out_of_range", message);
    } else if at.0 > now_ms + AHEAD_MS {
        fields.wrong("/at", "out_of_range", "must not be in the future");
    }
    fields.check()?;
    let allocations = ctx.app.ledger.allocations();
    let first = allocations.responded(ctx.id(), row.id, at.0).await?;
    let first = first.ok_or_else(|| Problem::not_found("allocation"))?;
    Ok(axum::Json(FirstResponseView {
        allocation_id: row.id.to_string(),
        first_response_at: When(first),
    }))
}
