//! Campaigns: each brings people into the groups of a pool.

use std::ops::RangeInclusive;

use allocation::{CampaignId, GroupPoolId};
use axum::http::StatusCode;
use ledger::{Campaign, NewCampaign, NoGroupPool, WaysOf};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Operator, Viewer},
    docs::Refusals,
    etag::{self, Condition, Versioned},
    extract::{Json, Path, Query},
    fission_rules::FissionRules,
    group_pools::small,
    groups,
    open_seats::Force,
    page::{List, list_query},
    problem::{Details, Problem},
    validate::{self, Fields},
    when::When,
};
use crate::{fission::campaigns::public_path, people};

const HOLD_SECONDS: RangeInclusive<u64> = 30..=24 * 60 * 60;
const USUAL_HOLD_S: u64 = 600;
const TITLE_CHARS: usize = 60;
/// WeCom takes no more groups into one join way.
const GROUPS_PER_WAY: RangeInclusive<u64> = 1..=5;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, put, delete))
        .routes(routes!(join_ways))
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum CampaignState {
    #[default]
    Open,
    /// Nobody is given a seat any more.
    Closed,
}

/// Whose State the join ways carry.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum WaysName {
    /// The same for everybody.
    #[default]
    Campaign,
    /// Each inviter has his own, into the groups that his visitors are shown: whoever comes by it was brought by him. Until one is
    /// made, and beyond `fission.ways_of_inviter` and `fission.inviter_ways`, his visitors are shown the campaign's.
    Inviter,
}

impl From<WaysName> for WaysOf {
    fn from(name: WaysName) -> Self {
        match name {
            WaysName::Campaign => Self::Campaign,
            WaysName::Inviter => Self::Inviter,
        }
    }
}

impl From<WaysOf> for WaysName {
    fn from(ways: WaysOf) -> Self {
        match ways {
            WaysOf::Campaign => Self::Campaign,
            WaysOf::Inviter => Self::Inviter,
        }
    }
}

/// What a campaign is to be: the whole of it, what is left out is not.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PutCampaign {
    /// 1 to 100 characters.
    name: String,
    /// The pool whose groups it fills.
    group_pool: String,
    /// How long a seat is held for a visitor who was shown its group, 30 s to a day.
    #[serde(default = "usual_hold")]
    #[schema(default = 600, minimum = 30, maximum = 86400)]
    hold_seconds: u64,
    /// What its page is headed with, at most 60 characters.
    #[serde(default)]
    #[schema(max_length = 60)]
    title: String,
    #[serde(default)]
    #[schema(default = "open")]
    state: CampaignState,
    /// Nobody is given a seat before; null: since ever.
    starts_at: Option<When>,
    /// Nor from then on; null: for ever.
    ends_at: Option<When>,
    #[serde(default)]
    #[schema(default = "campaign")]
    ways: WaysName,
    /// Groups of one join way. With 1 a visitor comes into the group that he was shown; with more WeCom chooses.
    #[serde(default = "one")]
    #[schema(default = 1, minimum = 1, maximum = 5)]
    groups_per_way: u64,
    /// What inviters are rewarded for; null: nothing.
    fission: Option<FissionRules>,
}

fn usual_hold() -> u64 {
    USUAL_HOLD_S
}

fn one() -> u64 {
    1
}

/// A campaign as it is.
#[derive(Debug, Serialize, ToSchema)]
struct CampaignView {
    id: String,
    name: String,
    group_pool: String,
    hold_seconds: u32,
    title: String,
    state: CampaignState,
    #[schema(required)]
    starts_at: Option<When>,
    #[schema(required)]
    ends_at: Option<When>,
    ways: WaysName,
    groups_per_way: u32,
    /// What inviters are rewarded for; null: nothing.
    #[schema(required)]
    fission: Option<FissionRules>,
    /// Names its public page; made once and kept.
    public_code: String,
    /// Where its public page is; only a path when the server is not told its own address.
    public_url: String,
    version: u64,
    created_at: When,
    updated_at: When,
}

impl CampaignView {
    /// With the whole address of its page, where pages are served.
    fn at(mut self, ctx: &Ctx) -> Self {
        self.public_url = ctx.app.config.public.url(&self.public_url);
        self
    }
}

impl From<Campaign> for CampaignView {
    fn from(campaign: Campaign) -> Self {
        let content = campaign.content;
        Self {
            id: campaign.id.into(),
            name: content.name,
            group_pool: content.pool.into(),
            hold_seconds: content.hold_seconds,
            title: content.title,
            state: match content.open {
                true => CampaignState::Open,
                false => CampaignState::Closed,
            },
            starts_at: content.starts_ms.map(When),
            ends_at: content.ends_ms.map(When),
            ways: content.ways.into(),
            groups_per_way: content.groups_per_way,
            fission: content.fission.map(FissionRules::from),
            public_url: public_path(&campaign.public_code),
            public_code: campaign.public_code,
            version: campaign.version,
            created_at: When(campaign.created_ms),
            updated_at: When(campaign.updated_ms),
        }
    }
}

list_query! {
    /// Campaigns have no filters.
    CampaignQuery {}
}

/// All campaigns, the latest first.
#[utoipa::path(get, path = "/campaigns", tag = "campaigns", operation_id = "list_campaigns", params(CampaignQuery),
    responses((status = 200, body = List<CampaignView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<CampaignQuery>,
) -> Result<axum::Json<List<CampaignView>>, Problem> {
    let page = query.page();
    let campaigns = ctx.app.ledger.campaigns();
    let campaigns = campaigns.list(ctx.id(), &page.request()?).await?;
    Ok(axum::Json(List::of(campaigns, page.limit()?, |campaign| {
        CampaignView::from(campaign).at(&ctx)
    })))
}

/// One campaign. Its `ETag` goes into `If-Match` of a change.
#[utoipa::path(get, path = "/campaigns/{campaign_id}", tag = "campaigns", operation_id = "get_campaign",
    params(("campaign_id" = String, Path)), responses((status = 200, body = CampaignView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<CampaignPath>,
) -> Result<Versioned<CampaignView>, Problem> {
    let campaigns = ctx.app.ledger.campaigns();
    let campaign = campaigns.get(ctx.id(), &path.id()?).await?;
    let campaign = campaign.ok_or_else(|| Problem::not_found("campaign"))?;
    let version = campaign.version;
    let view = CampaignView::from(campaign).at(&ctx);
    Ok(Versioned::ok(version, view))
}

/// Makes or changes a campaign. `If-Match` with its ETag guards against overwriting somebody else's change,
/// `If-None-Match: *` makes it only if it is new; without either the last writer wins.
#[utoipa::path(put, path = "/campaigns/{campaign_id}", tag = "campaigns", operation_id = "put_campaign",
    params(("campaign_id" = String, Path),
        ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)),
    request_body = PutCampaign,
    responses((status = 200, body = CampaignView), (status = 201, body = CampaignView),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn put(
    Operator(ctx): Operator,
    Path(path): Path<CampaignPath>,
    Condition(condition): Condition,
    Json(wanted): Json<PutCampaign>,
) -> Result<Versioned<CampaignView>, Problem> {
    let id = path.id()?;
    let new = check(&wanted)?;
    let campaigns = ctx.app.ledger.campaigns();
    let put = campaigns
        .put(ctx.id(), &id, &new, condition, &ctx.trail(None))
        .await?;
    refresh(&ctx).await;
    let put: Versioned<CampaignView> = etag::put(put, version, |NoGroupPool| {
        groups::no_pool(&wanted.group_pool)
    })?;
    Ok(Versioned {
        body: put.body.at(&ctx),
        ..put
    })
}

/// Removes a campaign. Its groups, and who is in them, stay as they are; so do its inviters and what they brought, which are its
/// own again when it is put again. 409 `campaign_has_seats` while visitors hold or wait for a seat.
#[utoipa::path(delete, path = "/campaigns/{campaign_id}", tag = "campaigns", operation_id = "delete_campaign",
    params(("campaign_id" = String, Path), Force, ("If-Match" = Option<String>, Header)),
    responses((status = 204, description = "It is gone."),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn delete(
    Operator(ctx): Operator,
    Path(path): Path<CampaignPath>,
    Query(force): Query<Force>,
    Condition(condition): Condition,
) -> Result<StatusCode, Problem> {
    let (campaigns, id) = (ctx.app.ledger.campaigns(), path.id()?);
    force.check_campaign(&ctx, &id).await?;
    let deleted = campaigns
        .delete(ctx.id(), &id, condition, &ctx.trail(None))
        .await?;
    refresh(&ctx).await;
    etag::deleted(deleted, "campaign", version, |never| match never {})
}

/// This process shows it as it is at once; the other processes with their next comparison.
async fn refresh(ctx: &Ctx) {
    if let Err(error) = people::refresh(&ctx.app, &ctx.corp).await {
        tracing::warn!(corp = %ctx.id(), error = %error, "campaigns are read anew later");
    }
}

/// How far the join ways of a campaign are.
#[derive(Debug, Serialize, ToSchema)]
struct JoinWays {
    /// Their groups can be shown to visitors.
    ready: u64,
    /// Wanted, asked for, or made and without a picture yet.
    coming: u64,
    /// No longer shown; deleted at WeCom when they have rested.
    retiring: u64,
    /// Given up until `next_try_at`.
    failed: u64,
    /// Of inviters (`ways: inviter`): those that can be shown, and those on their way. `ready` and `coming` are the campaign's.
    own_ready: u64,
    own_coming: u64,
    /// Calls for those that are not there yet, whose answer never came: as many ways may be at WeCom that nobody sees.
    lost: u64,
    /// WeCom's number for why the last one is not as it should be.
    #[schema(required)]
    errcode: Option<i64>,
    #[schema(required)]
    problem: Option<String>,
    /// When the first that is not as it should be is tried next.
    #[schema(required)]
    next_try_at: Option<When>,
}

/// How far the join ways of a campaign are, the codes that lead into its groups. They follow the campaign, its pool and the
/// groups by themselves.
#[utoipa::path(get, path = "/campaigns/{campaign_id}/join-ways", tag = "campaigns", operation_id = "get_join_ways",
    params(("campaign_id" = String, Path)), responses((status = 200, body = JoinWays), Refusals))]
async fn join_ways(
    Viewer(ctx): Viewer,
    Path(path): Path<CampaignPath>,
) -> Result<axum::Json<JoinWays>, Problem> {
    let (ledger, id) = (&ctx.app.ledger, path.id()?);
    if ledger.campaigns().get(ctx.id(), &id).await?.is_none() {
        return Err(Problem::not_found("campaign"));
    }
    let ways = ledger.join_ways().of_campaign(ctx.id(), &id).await?;
    Ok(axum::Json(JoinWays {
        ready: ways.ready,
        coming: ways.coming,
        retiring: ways.retiring,
        failed: ways.failed,
        own_ready: ways.own_ready,
        own_coming: ways.own_coming,
        lost: ways.lost,
        errcode: ways.last_errcode,
        problem: ways.last_error,
        next_try_at: ways.next_try_ms.map(When),
    }))
}

fn version(campaign: &Campaign) -> u64 {
    campaign.version
}

#[derive(Debug, Deserialize)]
struct CampaignPath {
    campaign_id: String,
}

impl CampaignPath {
    fn id(&self) -> Result<CampaignId, Problem> {
        validate::in_path("campaign_id", &self.campaign_id)
    }
}

fn check(wanted: &PutCampaign) -> Result<NewCampaign, Problem> {
    let mut fields = Fields::default();
    let name = fields.name("/name", &wanted.name);
    let pool = fields.parse::<GroupPoolId>("/group_pool", &wanted.group_pool);
    fields.range("/hold_seconds", Some(wanted.hold_seconds), HOLD_SECONDS);
    let title = wanted.title.trim();
    if title.chars().any(char::is_control) {
        let message = "must not have control characters";
        fields.wrong("/title", "control_character", message);
    }
    fields.characters("/title", title, TITLE_CHARS);
    let begins_first = wanted
        .starts_at
        .zip(wanted.ends_at)
        .is_none_or(|(starts, ends)| starts < ends);
    if !begins_first {
        fields.wrong("/ends_at", "not_after_start", "must be after starts_at");
    }
    let per_way = Some(wanted.groups_per_way);
    fields.range("/groups_per_way", per_way, GROUPS_PER_WAY);
    let fission = wanted.fission.as_ref();
    let fission = fission.map(|rules| rules.check(&mut fields, "/fission"));
    if fission.is_none() && matches!(wanted.ways, WaysName::Inviter) {
        let message =
            "inviter needs `fission` ({} will do): without it nobody counts for an inviter";
        fields.wrong("/ways", "needs_fission", message);
    }
    fields.check()?;
    Ok(NewCampaign {
        name,
        pool: pool.ok_or_else(|| Problem::not_found("group pool"))?,
        hold_seconds: small(wanted.hold_seconds),
        title: title.to_owned(),
        open: wanted.state == CampaignState::Open,
        starts_ms: wanted.starts_at.map(|at| at.0),
        ends_ms: wanted.ends_at.map(|at| at.0),
        ways: wanted.ways.into(),
        groups_per_way: small(wanted.groups_per_way),
        fission,
    })
}
