//! What is said to offers. An answer is one script call; of two answers one counts, and whoever was too late learns it.

use allocation::{MemberId, Reason, Responded, Response};
use ledger::{Allocation, Offer, OfferEnd, Role};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Anyone, Ctx},
    allocations::{AllocationPath, entity},
    docs::Refusals,
    extract::{Json, Path},
    moves::not_open,
    offers::{OfferState, own},
    problem::Problem,
    validate::Fields,
};
use crate::payload::Payload;

const LONGEST_NOTE: usize = 500;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(accept))
        .routes(routes!(decline))
}

/// The offer that is accepted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Accept {
    /// Whose offer it is. With a member's key it is his own and may be left out.
    member: Option<String>,
    /// The epoch of the offer.
    epoch: u64,
}

/// The offer that is declined.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Decline {
    /// Whose offer it is. With a member's key it is his own and may be left out.
    member: Option<String>,
    /// The epoch of the offer.
    epoch: u64,
    /// A short code, kept with the offer; `declined` without it.
    reason: Option<String>,
    /// In words, for the audit; at most 500 characters.
    note: Option<String>,
}

/// What was said to an offer.
#[derive(Debug, Serialize, ToSchema)]
struct AnsweredView {
    allocation_id: String,
    member: String,
    epoch: u64,
    state: OfferState,
}

/// Accepts an offer: the customer is the member's, and what follows from that is done now. Accepting twice is accepting once.
/// Whoever comes too late gets 409: `offer_over` (the time was over, or he had gone), `offer_moved` (it is another's, or was
/// offered anew), `not_offered`, `not_open`; operators learn in `current` who is asked or has the customer now.
#[utoipa::path(post, path = "/allocations/{allocation_id}/accept", tag = "offers", operation_id = "accept_offer",
    params(("allocation_id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), request_body = Accept,
    responses((status = 200, body = AnsweredView), Refusals))]
async fn accept(
    Anyone(ctx): Anyone,
    Path(path): Path<AllocationPath>,
    Json(said): Json<Accept>,
) -> Result<axum::Json<AnsweredView>, Problem> {
    let mut fields = Fields::default();
    let member = who(&ctx, said.member.as_deref(), &mut fields)?;
    fields.check()?;
    let member = member.ok_or_else(|| Problem::not_found("member"))?;
    let answer = Answer {
        member,
        epoch: said.epoch,
        declined: None,
        note: None,
    };
    answer.give(&ctx, &path).await.map(axum::Json)
}

/// Declines an offer: the next member is asked, or, where nobody is left to ask, a person must decide. Whoever is not asked any
/// more gets 409 as when he accepts. Who was asked has had his turn: the rules owe him nothing for it.
#[utoipa::path(post, path = "/allocations/{allocation_id}/decline", tag = "offers", operation_id = "decline_offer",
    params(("allocation_id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), request_body = Decline,
    responses((status = 200, body = AnsweredView), Refusals))]
async fn decline(
    Anyone(ctx): Anyone,
    Path(path): Path<AllocationPath>,
    Json(said): Json<Decline>,
) -> Result<axum::Json<AnsweredView>, Problem> {
    let mut fields = Fields::default();
    let member = who(&ctx, said.member.as_deref(), &mut fields)?;
    let code = said.reason.as_deref().unwrap_or("declined");
    let reason = fields.parse::<Reason>("/reason", code);
    let note = said.note.as_deref().unwrap_or_default();
    fields.characters("/note", note, LONGEST_NOTE);
    fields.check()?;
    let member = member.ok_or_else(|| Problem::not_found("member"))?;
    let answer = Answer {
        member,
        epoch: said.epoch,
        declined: reason,
        note: said.note,
    };
    answer.give(&ctx, &path).await.map(axum::Json)
}

/// Who answers: with a member's key he himself, else whom an operator names.
fn who(ctx: &Ctx, named: Option<&str>, fields: &mut Fields) -> Result<Option<MemberId>, Problem> {
    if ctx.role == Role::Viewer {
        let detail = "This needs the role operator, or the member's own key; the key has viewer.";
        return Err(Problem::forbidden(detail));
    }
    let member = named.and_then(|named| fields.parse::<MemberId>("/member", named));
    match (ctx.role, named, member) {
        (Role::Member, None, _) => Ok(ctx.member.clone()),
        (Role::Member, Some(_), Some(member)) => own(ctx, member).map(Some),
        (_, None, _) => {
            fields.wrong("/member", "missing", "say whose offer it is");
            Ok(None)
        }
        (.., member) => Ok(member),
    }
}

/// What somebody says to an offer.
struct Answer {
    member: MemberId,
    epoch: u64,
    declined: Option<Reason>,
    note: Option<String>,
}

impl Answer {
    fn state(&self) -> OfferState {
        match self.declined {
            None => OfferState::Accepted,
            Some(_) => OfferState::Declined,
        }
    }

    async fn give(self, ctx: &Ctx, path: &AllocationPath) -> Result<AnsweredView, Problem> {
        let row = path.find(ctx).await?;
        let open = ctx
            .corp
            .roster
            .allocations_of(&row.subject)
            .await
            .map_err(|error| ctx.roster(error))?;
        let open = open.into_iter().find(|open| open.allocation == row.id);
        let is_his = |member: &Option<MemberId>| member.as_ref() == Some(&self.member);
        if ctx.role == Role::Member
            && !open.as_ref().is_some_and(|open| is_his(&open.member))
            && !self.was_asked(ctx, &row).await?
        {
            return Err(Problem::forbidden("The customer was never offered to you."));
        }
        let userid = ctx.userid(&self.member).await;
        let given = AnsweredView {
            allocation_id: row.id.to_string(),
            member: userid.clone(),
            epoch: self.epoch,
            state: self.state(),
        };
        let response = Response {
            allocation: row.id,
            pool: row.pool.clone(),
            subject: row.subject,
            member: self.member.clone(),
            epoch: self.epoch,
            declined: self.declined.clone(),
        };
        let action = match self.declined {
            None => "offer.accept",
            Some(_) => "offer.decline",
        };
        let after = json!({"member": userid, "epoch": self.epoch, "reason": self.declined});
        let trail = ctx.trail(self.note.clone());
        let record = trail.record(action, entity(row.id), None, Some(after));
        let payload = Payload {
            // Who has the customer now, and hands him over.
            giver: open.and_then(|open| open.holder).map(String::from),
            ..Payload::default()
        }
        .by(record);
        let applied = ctx
            .corp
            .roster
            .respond(response, &payload.text(), None)
            .await
            .map_err(|error| ctx.roster(error))?;
        ctx.corp.log_grew.notify_one();
        self.count(ctx, &applied.answer);
        match applied.answer {
            Responded::Accepted | Responded::Declined(_) | Responded::Already => Ok(given),
            Responded::Late(on) => {
                let detail = "The offer was over: its time had passed, or the member had gone.";
                Err(too_late(ctx, "offer_over", detail, on.member, on.epoch).await)
            }
            Responded::Stale { member, epoch } => {
                if self.said_before(ctx, &row).await? {
                    return Ok(given);
                }
                let (code, detail) = match member {
                    Some(_) => (
                        "offer_moved",
                        "The offer is another member's by now, or was decided otherwise.",
                    ),
                    None => (
                        "offer_over",
                        "The offer was over: nobody is asked any more, a person must decide.",
                    ),
                };
                Err(too_late(ctx, code, detail, member, epoch).await)
            }
            Responded::Unknown => {
                let open = ctx.corp.roster.allocations_of(&row.subject).await;
                let open = open.map_err(|error| ctx.roster(error))?;
                Err(match open.iter().any(|open| open.allocation == row.id) {
                    true => Problem::conflict(
                        "not_offered",
                        "The customer is not offered: he was accepted, or given to the member at once.",
                    ),
                    false => not_open(),
                })
            }
        }
    }

    /// Whether he has had an offer of this allocation.
    async fn was_asked(&self, ctx: &Ctx, row: &Allocation) -> Result<bool, Problem> {
        ctx.caught_up().await?;
        Ok(self.offers(ctx, row).await?.next().is_some())
    }

    /// Somebody declines once more what he has declined.
    async fn said_before(&self, ctx: &Ctx, row: &Allocation) -> Result<bool, Problem> {
        if self.declined.is_none() {
            return Ok(false);
        }
        ctx.caught_up().await?;
        let mut offers = self.offers(ctx, row).await?;
        Ok(offers
            .any(|offer| offer.epoch == self.epoch && offer.ended_as == Some(OfferEnd::Declined)))
    }

    async fn offers(
        &self,
        ctx: &Ctx,
        row: &Allocation,
    ) -> Result<impl Iterator<Item = Offer>, Problem> {
        let offers = ctx.app.ledger.offers();
        let offers = offers.of_allocation(ctx.id(), row.id).await?.into_iter();
        Ok(offers.filter(|offer| offer.member == self.member))
    }

    fn count(&self, ctx: &Ctx, responded: &Responded) {
        let answer = match responded {
            Responded::Accepted => "accepted",
            Responded::Declined(_) => "declined",
            Responded::Late(_) => "late",
            Responded::Already => "already",
            Responded::Stale { .. } => "moved",
            Responded::Unknown => "unknown",
        };
        let corp = ctx.id().to_string();
        metrics::counter!("paidan_offers_answered_total", "corp" => corp, "answer" => answer)
            .increment(1);
    }
}

/// Whoever was too late. Operators learn who is asked, or has the customer, now.
async fn too_late(
    ctx: &Ctx,
    code: &'static str,
    detail: &'static str,
    member: Option<MemberId>,
    epoch: u64,
) -> Problem {
    let problem = Problem::conflict(code, detail);
    if ctx.role < Role::Operator {
        return problem;
    }
    let member = match member {
        Some(member) => Some(ctx.userid(&member).await),
        None => None,
    };
    problem.with_current(json!({"member": member, "epoch": epoch}))
}
