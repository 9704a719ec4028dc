//! Changing an allocation: closing it, giving it to another member. Both happen in Redis, in one script call; of two
//! callers who saw the same state one wins, the other learns who has it now.

use allocation::{Closing, MAX_EXCLUDED, MemberId, Reason, Reassigned, Reassignment};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Operator},
    allocations::{AllocationPath, entity},
    docs::Refusals,
    extract::{Json, MaybeJson, Path},
    problem::Problem,
    validate::Fields,
};
use crate::{payload::Payload, people};

const LONGEST_NOTE: usize = 500;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(close))
        .routes(routes!(reassign))
}

/// Why it is closed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Close {
    /// A short code, kept with the allocation; `closed_by_console` without it.
    reason: Option<String>,
    /// In words, for the audit; at most 500 characters.
    note: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ClosedView {
    allocation_id: String,
    /// False: it was closed before.
    changed: bool,
}

/// Ends an allocation: its member is free for another customer. What was to be done for it and is not sent yet is
/// cancelled. Closing it again changes nothing.
#[utoipa::path(post, path = "/allocations/{allocation_id}/close", tag = "allocations", operation_id = "close_allocation",
    params(("allocation_id" = String, Path)), request_body = Option<Close>,
    responses((status = 200, body = ClosedView), Refusals))]
async fn close(
    Operator(ctx): Operator,
    Path(path): Path<AllocationPath>,
    MaybeJson(wanted): MaybeJson<Close>,
) -> Result<axum::Json<ClosedView>, Problem> {
    let mut fields = Fields::default();
    let code = wanted.reason.as_deref().unwrap_or("closed_by_console");
    let reason = fields.parse::<Reason>("/reason", code);
    fields.characters(
        "/note",
        wanted.note.as_deref().unwrap_or_default(),
        LONGEST_NOTE,
    );
    fields.check()?;
    let reason = reason.ok_or_else(|| Problem::not_found("reason"))?;
    let row = path.find(&ctx).await?;
    let after = json!({"state": "closed", "reason": reason});
    let before = json!({"state": row.state.as_str(), "member": row.member});
    let record = ctx.trail(wanted.note).record(
        "allocation.close",
        entity(row.id),
        Some(before),
        Some(after),
    );
    let closing = Closing {
        subject: row.subject,
        pool: Some(row.pool),
        member: None,
        allocation: Some(row.id),
        reason,
    };
    let payload = Payload::default().by(record);
    let applied = ctx
        .corp
        .roster
        .close(vec![closing], &payload.text(), None)
        .await
        .map_err(|error| ctx.roster(error))?;
    ctx.corp.log_grew.notify_one();
    let changed = !applied.answer.is_empty();
    Ok(axum::Json(ClosedView {
        allocation_id: row.id.to_string(),
        changed,
    }))
}

/// Who gets it, and what the caller saw.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Reassign {
    /// The member who gets it; he may be away. Without it the pool picks anew, the present member left out.
    to: Option<String>,
    /// Members that are not to be picked; at most 64.
    #[serde(default)]
    #[schema(max_items = 64)]
    exclude: Vec<String>,
    /// The epoch that the caller saw.
    expect_epoch: Option<u64>,
    /// The member who had it when the caller looked. One of the two is needed: of two callers one wins.
    expect_member: Option<String>,
    /// Why, in words, for the audit; at most 500 characters.
    note: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ReassignedView {
    allocation_id: String,
    /// Who has it now.
    member: String,
    /// As it is now; goes into the next `expect_epoch`.
    epoch: u64,
    /// False: he had it already.
    changed: bool,
}

/// Gives an allocation to another member. If another one has the customer at WeCom, he is transferred. Whoever was
/// slower than somebody else gets 409, with the present owner in `current`.
#[utoipa::path(post, path = "/allocations/{allocation_id}/reassign", tag = "allocations",
    operation_id = "reassign_allocation", params(("allocation_id" = String, Path)), request_body = Reassign,
    responses((status = 200, body = ReassignedView), Refusals))]
async fn reassign(
    Operator(ctx): Operator,
    Path(path): Path<AllocationPath>,
    Json(wanted): Json<Reassign>,
) -> Result<axum::Json<ReassignedView>, Problem> {
    let checked = check(&ctx, &wanted).await?;
    let row = path.find(&ctx).await?;
    let open = ctx
        .corp
        .roster
        .allocations_of(&row.subject)
        .await
        .map_err(|error| ctx.roster(error))?;
    let open = open
        .into_iter()
        .find(|open| open.allocation == row.id)
        .ok_or_else(not_open)?;
    if open.hold.is_some() {
        return Err(held());
    }
    let named = open.member.iter().chain(&checked.to).cloned().collect();
    people::learn(&ctx.app, &ctx.corp, named).await;
    let userid = |member: &MemberId| ctx.corp.names.userid(member);
    if checked.expect_member.is_some() && checked.expect_member != open.member {
        return Err(taken(open.member.as_ref().map(userid), open.epoch));
    }
    let epoch = wanted.expect_epoch.unwrap_or(open.epoch);
    // Once the customer has come to a member it is he who gives; until then it is who had him before.
    let giver = if open.settled {
        open.member.clone()
    } else {
        open.holder.clone()
    };
    let before = json!({"member": open.member.as_ref().map(userid), "epoch": open.epoch});
    let after = json!({"to": checked.to.as_ref().map(userid), "expect_epoch": epoch});
    let trail = ctx.trail(wanted.note);
    let record = trail.record(
        "allocation.reassign",
        entity(row.id),
        Some(before),
        Some(after),
    );
    let payload = Payload {
        giver: giver.map(String::from),
        ..Payload::default()
    }
    .by(record);
    let reassignment = Reassignment {
        allocation: row.id,
        pool: row.pool,
        subject: row.subject,
        to: checked.to.clone(),
        exclude: checked.exclude,
        expect_epoch: epoch,
    };
    let applied = ctx
        .corp
        .roster
        .reassign(reassignment, &payload.text(), None)
        .await
        .map_err(|error| ctx.roster(error))?;
    ctx.corp.log_grew.notify_one();
    let (member, epoch, changed) = match applied.answer {
        Reassigned::Moved { member, epoch } => (ctx.userid(&member).await, epoch, true),
        Reassigned::Same { epoch } => (
            checked.to.as_ref().map(userid).unwrap_or_default(),
            epoch,
            false,
        ),
        Reassigned::Stale { member, epoch } => {
            people::learn(&ctx.app, &ctx.corp, member.iter().cloned().collect()).await;
            return Err(taken(member.as_ref().map(userid), epoch));
        }
        // Held meanwhile, or ended.
        Reassigned::Unknown => return Err(not_open()),
        Reassigned::Nobody => {
            return Err(Problem::conflict(
                "nobody_free",
                "Nobody else in the pool is free; nothing changed.",
            ));
        }
        Reassigned::Full => {
            return Err(Problem::conflict(
                "member_full",
                "The member has as many customers as his cap allows.",
            ));
        }
        Reassigned::Blocked => {
            return Err(Problem::conflict(
                "member_blocked",
                "The member is blocked; GET …/members/{userid} says why.",
            ));
        }
    };
    Ok(axum::Json(ReassignedView {
        allocation_id: row.id.to_string(),
        member,
        epoch,
        changed,
    }))
}

struct Checked {
    to: Option<MemberId>,
    exclude: Vec<MemberId>,
    expect_member: Option<MemberId>,
}

async fn check(ctx: &Ctx, wanted: &Reassign) -> Result<Checked, Problem> {
    let mut fields = Fields::default();
    let to = wanted
        .to
        .as_deref()
        .and_then(|to| fields.parse::<MemberId>("/to", to));
    let expect_member = wanted
        .expect_member
        .as_deref()
        .and_then(|member| fields.parse("/expect_member", member));
    if wanted.exclude.len() > MAX_EXCLUDED {
        fields.wrong(
            "/exclude",
            "too_many",
            format!("at most {MAX_EXCLUDED} members are possible"),
        );
    }
    let exclude = wanted.exclude.iter().enumerate().take(MAX_EXCLUDED);
    let exclude = exclude
        .filter_map(|(index, member)| fields.parse(format!("/exclude/{index}"), member))
        .collect();
    if wanted.expect_epoch.is_none() && wanted.expect_member.is_none() {
        fields.wrong(
            "/expect_epoch",
            "missing",
            "give the epoch, or in expect_member the owner, that you saw",
        );
    }
    fields.characters(
        "/note",
        wanted.note.as_deref().unwrap_or_default(),
        LONGEST_NOTE,
    );
    if let Some(to) = &to
        && !ctx.corp.names.knows(to)
        && ctx.app.ledger.members().get(ctx.id(), to).await?.is_none()
    {
        fields.wrong(
            "/to",
            "unknown_member",
            format!("{to} is not known; PUT …/members/{to} first"),
        );
    }
    fields.check()?;
    Ok(Checked {
        to,
        exclude,
        expect_member,
    })
}

/// Another member's code would be no use to the visitor, who looks at this one's.
pub(super) fn held() -> Problem {
    let detail = "It is a visit: the visitor sees this member's code and has not added him yet. DELETE …/visits/{allocation_id} ends it; when he opens the page again he is given somebody anew.";
    Problem::conflict("held", detail)
}

pub(super) fn not_open() -> Problem {
    Problem::conflict("not_open", "The allocation is closed.")
}

fn taken(member: Option<String>, epoch: u64) -> Problem {
    let owner = member.as_deref().unwrap_or("nobody yet");
    let detail =
        format!("Somebody was faster: the customer is with {owner} now, at epoch {epoch}.");
    Problem::conflict("owner_changed", detail)
        .with_current(json!({"member": member, "epoch": epoch}))
}
