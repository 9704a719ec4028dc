//! Offers: whom members are asked about, and were.

use allocation::{AllocationId, MemberId, PoolId};
use ledger::{Offer, OfferEnd, OfferFilter, Role};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Anyone, Ctx},
    docs::Refusals,
    extract::Query,
    page::{List, list_query},
    problem::Problem,
    validate::Fields,
    when::When,
};
use crate::people;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list))
}

/// One time that a member was asked.
#[derive(Debug, Serialize, ToSchema)]
struct OfferView {
    allocation_id: String,
    /// Of this offer; goes into the answer.
    epoch: u64,
    pool: String,
    member: String,
    state: OfferState,
    offered_at: When,
    /// Until when he may answer.
    until: When,
    #[schema(required)]
    ended_at: Option<When>,
    /// Why he declined.
    #[schema(required)]
    reason: Option<String>,
    /// The key of whoever answered.
    #[schema(required)]
    responded_by: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OfferState {
    /// Not answered yet.
    Open,
    Accepted,
    Declined,
    /// He did not answer in time.
    TimedOut,
    /// He went, or was blocked, before he answered.
    Offline,
    /// The allocation was closed.
    Closed,
    /// A person gave the customer to somebody.
    Reassigned,
}

impl OfferState {
    fn of(end: Option<OfferEnd>) -> Self {
        match end {
            None => Self::Open,
            Some(OfferEnd::Accepted) => Self::Accepted,
            Some(OfferEnd::Declined) => Self::Declined,
            Some(OfferEnd::TimedOut) => Self::TimedOut,
            Some(OfferEnd::Offline) => Self::Offline,
            Some(OfferEnd::Closed) => Self::Closed,
            Some(OfferEnd::Reassigned) => Self::Reassigned,
        }
    }

    fn end(self) -> Option<OfferEnd> {
        Some(match self {
            Self::Open => return None,
            Self::Accepted => OfferEnd::Accepted,
            Self::Declined => OfferEnd::Declined,
            Self::TimedOut => OfferEnd::TimedOut,
            Self::Offline => OfferEnd::Offline,
            Self::Closed => OfferEnd::Closed,
            Self::Reassigned => OfferEnd::Reassigned,
        })
    }
}

list_query! {
    /// Which offers; every filter that is given must match.
    OfferQuery {
        /// The userid; with a member's key it is his own.
        member: Option<String>,
        pool: Option<String>,
        /// All that were made about this allocation.
        allocation: Option<String>,
        #[param(inline)]
        state: Option<OfferState>,
    }
}

/// Offers, the latest first. A member's key sees his own.
#[utoipa::path(get, path = "/offers", tag = "offers", operation_id = "list_offers", params(OfferQuery),
    responses((status = 200, body = List<OfferView>), Refusals))]
async fn list(
    Anyone(ctx): Anyone,
    Query(query): Query<OfferQuery>,
) -> Result<axum::Json<List<OfferView>>, Problem> {
    let page = query.page();
    let mut fields = Fields::default();
    let member = query
        .member
        .as_deref()
        .and_then(|member| fields.parse::<MemberId>("query:member", member));
    let pool = query
        .pool
        .as_deref()
        .and_then(|pool| fields.parse::<PoolId>("query:pool", pool));
    let allocation = query.allocation.as_deref().and_then(|id| {
        let parsed = id.parse::<AllocationId>().ok();
        if parsed.is_none() {
            fields.wrong("query:allocation", "invalid", "must be a UUID");
        }
        parsed
    });
    fields.check()?;
    let filter = OfferFilter {
        member: match (ctx.role, member) {
            (Role::Member, None) => ctx.member.clone(),
            (Role::Member, Some(member)) => Some(own(&ctx, member)?),
            (_, member) => member,
        },
        pool,
        allocation,
        ended_as: query.state.map(OfferState::end),
    };
    let offers = ctx.app.ledger.offers();
    let rows = offers.list(ctx.id(), &filter, &page.request()?).await?;
    let members = rows.items.iter().map(|offer| offer.member.clone());
    people::learn(&ctx.app, &ctx.corp, members.collect()).await;
    let list = List::of(rows, page.limit()?, |offer| view(&ctx, offer));
    Ok(axum::Json(list))
}

fn view(ctx: &Ctx, offer: Offer) -> OfferView {
    OfferView {
        allocation_id: offer.allocation.to_string(),
        epoch: offer.epoch,
        pool: offer.pool.into(),
        member: ctx.corp.names.userid(&offer.member),
        state: OfferState::of(offer.ended_as),
        offered_at: When(offer.offered_ms),
        until: When(offer.until_ms),
        ended_at: offer.ended_ms.map(When),
        reason: offer.reason,
        responded_by: offer.responded_by,
    }
}

pub(super) fn own(ctx: &Ctx, member: MemberId) -> Result<MemberId, Problem> {
    if ctx.member.as_ref() == Some(&member) {
        return Ok(member);
    }
    Err(Problem::forbidden(
        "A member's key is for his own offers only.",
    ))
}
