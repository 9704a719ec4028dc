//! Inviters of a campaign: each has a page of his own, and what those whom he brought came to.

use allocation::{CampaignId, InviterId, MemberId, PersonKey, SubjectKey};
use ledger::{
    Customer, Inviter, InviterKind, InviterSaid, InviterWish, NewInviter, Reached, inviter_via,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Operator, Viewer},
    allocations::{self, CustomerView, Known},
    docs::Refusals,
    etag::{self, Condition, Versioned},
    extract::{Json, Path, Query},
    page::{List, list_query},
    problem::{Details, Problem},
    validate::{self, Fields},
    when::When,
};
use crate::{
    fission::{
        campaigns::public_path,
        inviters::{self, Busy},
    },
    reception::{intake::WECOM, visits::VisitorKind},
};

/// When it may be known whose page it is.
const BUSY_S: u32 = 1;
const REASON_CHARS: usize = 200;
/// Of somebody whom only the caller knows.
const OTHER: &str = "inviter";

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(get, put))
}

/// What an inviter is named by.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum InviterKindName {
    /// WeCom's id of a customer of the corp.
    ExternalId,
    /// WeChat's, the same in all apps of a company.
    Unionid,
    /// The userid of a member.
    Member,
    /// An id that only the caller knows.
    Other,
}

impl From<InviterKind> for InviterKindName {
    fn from(kind: InviterKind) -> Self {
        match kind {
            InviterKind::ExternalId => Self::ExternalId,
            InviterKind::Unionid => Self::Unionid,
            InviterKind::Member => Self::Member,
            InviterKind::Other => Self::Other,
        }
    }
}

/// Who is to bring others.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct InviterIdentity {
    kind: InviterKindName,
    /// 1 to 128 characters.
    id: String,
}

/// An inviter. The same one of a campaign is made once.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PostInviter {
    inviter: InviterIdentity,
    /// For lists and exports, at most 100 characters; kept where he has one.
    #[serde(default)]
    #[schema(max_length = 100)]
    name: String,
}

/// What an operator says of an inviter: the whole of it, what is left out is not.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PutInviter {
    /// At most 100 characters.
    #[serde(default)]
    #[schema(max_length = 100)]
    name: String,
    /// Why he earns nothing more, 1 to 200 characters: his page still gives seats, and what he has stays. Null: he earns.
    blocked: Option<String>,
}

/// What those whom an inviter brought came to.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(super) struct InviterCounts {
    /// Whom he brought, whatever became of it; without those who were refused.
    joined: u64,
    /// They have to stay yet.
    pending: u64,
    /// They stayed: these count.
    qualified: u64,
    /// They left, or nobody could say whether they stayed.
    revoked: u64,
    /// They never counted.
    refused: u64,
}

impl From<&Inviter> for InviterCounts {
    fn from(inviter: &Inviter) -> Self {
        Self {
            joined: inviter.joined,
            pending: inviter.pending,
            qualified: inviter.qualified,
            revoked: inviter.revoked,
            refused: inviter.refused,
        }
    }
}

/// A goal that was reached.
#[derive(Debug, Serialize, ToSchema)]
struct ReachedGoal {
    count: u64,
    name: String,
    reached_at: When,
}

impl From<Reached> for ReachedGoal {
    fn from(reached: Reached) -> Self {
        Self {
            count: reached.count,
            name: reached.name,
            reached_at: When(reached.reached_ms),
        }
    }
}

/// An inviter as he is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct InviterView {
    id: String,
    kind: InviterKindName,
    /// The userid of a member.
    #[schema(required)]
    member: Option<String>,
    /// Whoever is no member: what he was named by.
    #[schema(required)]
    customer: Option<CustomerView>,
    name: String,
    /// Names his page; made once and kept.
    public_code: String,
    /// Where his page is; only a path when the server is not told its own address.
    public_url: String,
    /// State of his join ways, where he has some.
    #[schema(required)]
    state: Option<String>,
    counts: InviterCounts,
    /// Why he earns nothing more.
    #[schema(required)]
    blocked: Option<String>,
    #[schema(required)]
    blocked_at: Option<When>,
    version: u64,
    created_at: When,
    updated_at: When,
}

impl InviterView {
    /// What is known of these.
    pub(super) async fn known(ctx: &Ctx, inviters: &[Inviter]) -> Result<Known, Problem> {
        let customers = inviters.iter().filter(|one| one.customer.is_some());
        allocations::known(ctx, customers.map(|one| one.subject).collect()).await
    }

    async fn one(ctx: &Ctx, inviter: Inviter) -> Result<Self, Problem> {
        let known = Self::known(ctx, std::slice::from_ref(&inviter)).await?;
        Ok(Self::of(ctx, inviter, &known))
    }

    pub(super) fn of(ctx: &Ctx, inviter: Inviter, known: &Known) -> Self {
        let counts = InviterCounts::from(&inviter);
        Self {
            id: inviter.id.into(),
            kind: inviter.kind.into(),
            member: inviter.userid,
            customer: inviter
                .customer
                .map(|customer| CustomerView::of(ctx, customer, known)),
            name: inviter.name,
            public_url: ctx
                .app
                .config
                .public
                .url(&public_path(&inviter.public_code)),
            state: inviter_via(&inviter.public_code).map(String::from),
            public_code: inviter.public_code,
            counts,
            blocked: inviter.blocked_reason,
            blocked_at: inviter.blocked_ms.map(When),
            version: inviter.version,
            created_at: When(inviter.created_ms),
            updated_at: When(inviter.updated_ms),
        }
    }
}

/// An inviter with what he reached.
#[derive(Debug, Serialize, ToSchema)]
struct InviterDetails {
    #[serde(flatten)]
    inviter: InviterView,
    /// In the order of their counts.
    goals: Vec<ReachedGoal>,
}

list_query! {
    /// Inviters have no filters.
    InviterQuery {}
}

/// Inviters of a campaign, the latest first.
#[utoipa::path(get, path = "/campaigns/{campaign_id}/inviters", tag = "campaigns", operation_id = "list_inviters",
    params(("campaign_id" = String, Path), InviterQuery),
    responses((status = 200, body = List<InviterView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Path(path): Path<InvitersPath>,
    Query(query): Query<InviterQuery>,
) -> Result<axum::Json<List<InviterView>>, Problem> {
    let (page, campaign) = (query.page(), path.id()?);
    let inviters = ctx.app.ledger.inviters();
    let inviters = inviters.list(ctx.id(), &campaign, &page.request()?).await?;
    // Only now: what is wrong with the query is said of any campaign.
    path.campaign(&ctx).await?;
    let known = InviterView::known(&ctx, &inviters.items).await?;
    Ok(axum::Json(List::of(inviters, page.limit()?, |inviter| {
        InviterView::of(&ctx, inviter, &known)
    })))
}

/// Makes an inviter, with a page of his own. The same one, asked for again, is the one that is there: 200 instead of 201. 409
/// `no_fission` where the campaign rewards nobody.
#[utoipa::path(post, path = "/campaigns/{campaign_id}/inviters", tag = "campaigns", operation_id = "create_inviter",
    params(("campaign_id" = String, Path)), request_body = PostInviter,
    responses((status = 200, body = InviterView), (status = 201, body = InviterView), Refusals))]
async fn create(
    Operator(ctx): Operator,
    Path(path): Path<InvitersPath>,
    Json(wanted): Json<PostInviter>,
) -> Result<Versioned<InviterView>, Problem> {
    let campaign = path.id()?;
    let content = ctx.app.ledger.campaigns().get(ctx.id(), &campaign).await?;
    let content = content
        .ok_or_else(|| Problem::not_found("campaign"))?
        .content;
    if content.fission.is_none() {
        let detail = "Nobody counts for an inviter of this campaign: put it with `fission` first ({} will do).";
        return Err(Problem::conflict("no_fission", detail));
    }
    let new = check(&ctx, &wanted).await?;
    let made = ctx.app.ledger.inviters();
    let made = made
        .register(ctx.id(), &campaign, &new, &ctx.trail(None))
        .await?;
    let (inviter, is_new) = made.ok_or_else(|| Problem::not_found("campaign"))?;
    ctx.app.inviter_pages.learn(ctx.id(), &inviter);
    let campaigns = &ctx.corp.campaigns;
    if campaigns.get(&campaign).is_some_and(|one| one.own_ways) {
        // His first visitors are to find a way of his.
        ctx.corp.inviter_wishes.add(InviterWish {
            campaign,
            inviter: inviter.id.clone(),
            chat: None,
        });
    }
    let version = inviter.version;
    let view = InviterView::one(&ctx, inviter).await?;
    Ok(match is_new {
        true => Versioned::created(version, view),
        false => Versioned::ok(version, view),
    })
}

/// One inviter, with the goals that he reached. Its `ETag` goes into `If-Match` of a change.
#[utoipa::path(get, path = "/campaigns/{campaign_id}/inviters/{inviter_id}", tag = "campaigns",
    operation_id = "get_inviter", params(("campaign_id" = String, Path), ("inviter_id" = String, Path)),
    responses((status = 200, body = InviterDetails), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<InviterPath>,
) -> Result<Versioned<InviterDetails>, Problem> {
    let (campaign, id) = path.ids()?;
    let inviters = ctx.app.ledger.inviters();
    let inviter = inviters.get(ctx.id(), &campaign, &id).await?;
    let inviter = inviter.ok_or_else(|| Problem::not_found("inviter"))?;
    let goals = inviters.reached(ctx.id(), &campaign, &id).await?;
    let version = inviter.version;
    Ok(Versioned::ok(
        version,
        InviterDetails {
            inviter: InviterView::one(&ctx, inviter).await?,
            goals: goals.into_iter().map(ReachedGoal::from).collect(),
        },
    ))
}

/// Changes an inviter's name, and whether he is blocked. Inviters are made by POST.
#[utoipa::path(put, path = "/campaigns/{campaign_id}/inviters/{inviter_id}", tag = "campaigns",
    operation_id = "put_inviter",
    params(("campaign_id" = String, Path), ("inviter_id" = String, Path), ("If-Match" = Option<String>, Header)),
    request_body = PutInviter,
    responses((status = 200, body = InviterView),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn put(
    Operator(ctx): Operator,
    Path(path): Path<InviterPath>,
    Condition(condition): Condition,
    Json(wanted): Json<PutInviter>,
) -> Result<Versioned<InviterView>, Problem> {
    let (campaign, id) = path.ids()?;
    let mut fields = Fields::default();
    let name = named(&mut fields, &wanted.name);
    let blocked = wanted.blocked.as_deref().map(str::trim);
    if blocked == Some("") {
        fields.wrong("/blocked", "empty", "must say why, or be null");
    }
    fields.characters("/blocked", blocked.unwrap_or_default(), REASON_CHARS);
    fields.check()?;
    let said = InviterSaid {
        name,
        blocked: blocked.map(str::to_owned),
    };
    let inviters = ctx.app.ledger.inviters();
    let trail = ctx.trail(None);
    let put = inviters
        .change(ctx.id(), &campaign, &id, &said, condition, &trail)
        .await?;
    let put = put.ok_or_else(|| Problem::not_found("inviter"))?;
    let put: Versioned<Inviter> = etag::put(
        put,
        |inviter: &Inviter| inviter.version,
        |never| match never {},
    )?;
    Ok(Versioned {
        status: put.status,
        version: put.version,
        body: InviterView::one(&ctx, put.body).await?,
    })
}

/// An inviter whom a request names, by his id or the code of his page.
pub(super) async fn known(
    ctx: &Ctx,
    campaign: &CampaignId,
    name: &str,
) -> Result<InviterId, Problem> {
    match inviters::named(&ctx.app, &ctx.corp, campaign, name).await {
        Ok(Some(id)) => Ok(id),
        Ok(None) => {
            let message = "must be the id or the code of an inviter of this campaign: POST …/inviters makes one";
            Err(Problem::field("/inviter", "unknown", message))
        }
        Err(Busy) => {
            let detail = "It cannot be said now whose code it is. Try again.";
            Err(Problem::unavailable("not_ready", detail, BUSY_S))
        }
    }
}

async fn check(ctx: &Ctx, wanted: &PostInviter) -> Result<NewInviter, Problem> {
    let mut fields = Fields::default();
    let (at, id) = ("/inviter/id", wanted.inviter.id.as_str());
    let name = named(&mut fields, &wanted.name);
    match wanted.inviter.kind {
        InviterKindName::Member => {
            fields.parse::<MemberId>(at, id);
        }
        _ => fields.subject_id(at, id),
    }
    fields.check()?;
    let corp = ctx.id();
    let customer = |kind: &str| Customer {
        kind: kind.to_owned(),
        external_id: Some(id.to_owned()),
    };
    let (kind, subject, person, customer) = match wanted.inviter.kind {
        InviterKindName::ExternalId => {
            let person = PersonKey::customer(corp, id);
            let customer = customer(WECOM);
            (
                InviterKind::ExternalId,
                person.0,
                Some(person),
                Some(customer),
            )
        }
        InviterKindName::Unionid => {
            let kind = VisitorKind::Unionid.as_str();
            let subject = SubjectKey::new(corp, kind, id);
            (InviterKind::Unionid, subject, None, Some(customer(kind)))
        }
        InviterKindName::Member => {
            let person = PersonKey::member(corp, id);
            (InviterKind::Member, person.0, Some(person), None)
        }
        InviterKindName::Other => {
            let subject = SubjectKey::new(corp, OTHER, id);
            (InviterKind::Other, subject, None, Some(customer(OTHER)))
        }
    };
    let customer = match customer {
        Some(customer) => {
            let customers = ctx.app.ledger.customers();
            let ids = customers.upsert(corp, &[(subject, customer)]).await?;
            ids.get(&subject).copied()
        }
        None => None,
    };
    Ok(NewInviter {
        userid: (kind == InviterKind::Member).then(|| id.to_owned()),
        kind,
        subject,
        customer,
        person,
        name,
    })
}

fn named(fields: &mut Fields, name: &str) -> String {
    match name.trim() {
        "" => String::new(),
        name => fields.name("/name", name),
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct InvitersPath {
    campaign_id: String,
}

impl InvitersPath {
    pub(super) fn id(&self) -> Result<CampaignId, Problem> {
        validate::in_path("campaign_id", &self.campaign_id)
    }

    /// One that there is.
    pub(super) async fn campaign(&self, ctx: &Ctx) -> Result<CampaignId, Problem> {
        let id = self.id()?;
        match ctx.app.ledger.campaigns().get(ctx.id(), &id).await? {
            Some(_) => Ok(id),
            None => Err(Problem::not_found("campaign")),
        }
    }
}

#[derive(Debug, Deserialize)]
struct InviterPath {
    campaign_id: String,
    inviter_id: String,
}

impl InviterPath {
    fn ids(&self) -> Result<(CampaignId, InviterId), Problem> {
        Ok((
            validate::in_path("campaign_id", &self.campaign_id)?,
            validate::in_path("inviter_id", &self.inviter_id)?,
        ))
    }
}
