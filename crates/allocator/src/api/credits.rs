//! Credit entries: what a member of a fair pool is owed beside what the rule says, with author and reason. The entry is an
//! operation of the corp's log; the audit has who and why.

use allocation::{Adjusted, Adjustment, AllocationId, MemberId, PoolId};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::Operator,
    docs::Refusals,
    extract::{Json, Path},
    problem::Problem,
    validate::{self, Fields},
};
use crate::payload::Payload;

/// Customers, in thousandths.
const MOST: f64 = 1_000.0;
const REASON_CHARS: usize = 200;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(create))
}

#[derive(Debug, Deserialize)]
struct PoolPath {
    pool_id: String,
}

/// Why a member is owed more, or less.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum CreditKind {
    /// A customer turned out to be none: rejected, invalid, a test.
    MakeUp,
    /// The count is put right.
    Calibration,
}

/// A credit entry.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewCredit {
    member: String,
    /// Customers he is owed, in steps of 0.001; below 0 he has had too many. At most 1000 either way.
    #[schema(minimum = -1000, maximum = 1000)]
    amount: f64,
    kind: CreditKind,
    /// Why, 1 to 200 characters.
    reason: String,
    /// The allocation it is about.
    allocation_id: Option<Uuid>,
}

/// An entry that counts.
#[derive(Debug, Serialize, ToSchema)]
struct CreditView {
    /// Its number in the corp's log.
    seq: u64,
    pool: String,
    member: String,
    amount: f64,
    kind: CreditKind,
    reason: String,
    #[schema(required)]
    allocation_id: Option<String>,
}

/// Owes a member of a fair pool more, or less. Whoever can be picked at this moment pays by weight, so that credits still
/// sum to 0.
#[utoipa::path(post, path = "/pools/{pool_id}/credits", tag = "pools", operation_id = "create_credit",
    params(("pool_id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), request_body = NewCredit,
    responses((status = 201, body = CreditView), Refusals))]
async fn create(
    Operator(ctx): Operator,
    Path(path): Path<PoolPath>,
    Json(new): Json<NewCredit>,
) -> Result<(StatusCode, axum::Json<CreditView>), Problem> {
    let pool: PoolId = validate::in_path("pool_id", &path.pool_id)?;
    let mut fields = Fields::default();
    let member = fields.parse::<MemberId>("/member", &new.member);
    let thousandths = (new.amount * 1_000.0).round();
    if !new.amount.is_finite() || new.amount.abs() > MOST {
        fields.wrong("/amount", "out_of_range", "must be from -1000 to 1000");
    } else if (new.amount * 1_000.0 - thousandths).abs() > 1e-6 {
        fields.wrong("/amount", "too_fine", "has more than three decimals");
    } else if thousandths == 0.0 {
        fields.wrong("/amount", "zero", "owes nobody anything; leave it out");
    }
    let reason = new.reason.trim().to_owned();
    if reason.is_empty() {
        fields.wrong("/reason", "required", "say why");
    }
    fields.characters("/reason", &reason, REASON_CHARS);
    fields.check()?;
    let member = member.ok_or_else(|| Problem::not_found("member"))?;
    let view = |seq| CreditView {
        seq,
        pool: pool.to_string(),
        member: new.member.clone(),
        amount: thousandths / 1_000.0,
        kind: new.kind,
        reason: reason.clone(),
        allocation_id: new.allocation_id.map(|id| AllocationId(id).to_string()),
    };
    let after = serde_json::to_value(view(0)).map_err(|error| Problem::internal(&error))?;
    let after = json!({"member": after["member"], "amount": after["amount"], "kind": after["kind"],
        "allocation_id": after["allocation_id"]});
    let record = ctx.trail(Some(reason.clone())).record(
        "credit.create",
        format!("pools/{pool}"),
        None,
        Some(after),
    );
    let adjustment = Adjustment {
        pool: pool.clone(),
        member,
        thousandths: thousandths as i64,
    };
    let payload = Payload::default().by(record).text();
    let applied = ctx.corp.roster.adjust(adjustment, &payload, None).await;
    let applied = applied.map_err(|error| ctx.roster(error))?;
    ctx.corp.log_grew.notify_one();
    match applied.answer {
        Adjusted::Adjusted => Ok((StatusCode::CREATED, axum::Json(view(applied.seq)))),
        Adjusted::NoPool => Err(Problem::not_found("pool")),
        Adjusted::NotFair => Err(Problem::conflict(
            "not_fair",
            "A least-load pool has no credits: it looks at loads.",
        )),
        Adjusted::NotMember => Err(Problem::field(
            "/member",
            "not_in_pool",
            format!("{} is not in the pool, or has weight 0", new.member),
        )),
        Adjusted::Nobody => Err(Problem::conflict(
            "nobody_to_pay",
            "Nobody of the pool can be picked now, so nobody can pay. Try again when somebody is there.",
        )),
    }
}
