//! Drafts of pools: what a pool could be. Nothing follows from one until it is published.

use allocation::PoolId;
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use ledger::{Draft, DraftRefused, MOST_DRAFTS, NewDraft, Precondition, Publication, Put};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{Ctx, Operator, Viewer},
    docs::Refusals,
    etag::{self, Condition, Versioned},
    extract::{Json, MaybeJson, Path, Query},
    page::{List, list_query},
    policies::{self, PolicyView},
    pools::{self, PoolPath, PoolView, PutPool},
    problem::{Details, Problem},
    validate::Fields,
    when::When,
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(get, put, delete))
        .routes(routes!(publish))
}

/// What a pool could be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PutDraft {
    /// As in PUT …/pools/{pool_id}. Members may be unknown yet.
    content: PutPool,
    /// Why, at most 200 characters; it goes with the version when the draft is published.
    note: Option<String>,
    /// The version of the pool that it was made from. Left out: the present one, or of a draft that is changed what it was.
    #[schema(minimum = 1)]
    base_version: Option<u64>,
}

/// A draft as it is.
#[derive(Debug, Serialize, ToSchema)]
struct DraftView {
    #[serde(flatten)]
    head: DraftHead,
    content: PolicyView,
}

/// A draft without what is in it.
#[derive(Debug, Serialize, ToSchema)]
struct DraftHead {
    id: String,
    pool: String,
    /// The version of the pool that it was made from.
    base_version: u64,
    #[schema(required)]
    note: Option<String>,
    /// Who made it, for example `key:<id>`.
    author: String,
    version: u64,
    created_at: When,
    updated_at: When,
}

impl From<&Draft> for DraftHead {
    fn from(draft: &Draft) -> Self {
        Self {
            id: draft.id.to_string(),
            pool: draft.pool.to_string(),
            base_version: draft.base_version,
            note: draft.note.clone(),
            author: draft.author.clone(),
            version: draft.version,
            created_at: When(draft.created_ms),
            updated_at: When(draft.updated_ms),
        }
    }
}

/// Makes a draft of a pool. Nothing follows from it until it is published.
#[utoipa::path(post, path = "/pools/{pool_id}/drafts", tag = "policies", operation_id = "create_draft",
    params(("pool_id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), request_body = PutDraft,
    responses((status = 201, body = DraftView), Refusals))]
async fn create(
    Operator(ctx): Operator,
    Path(path): Path<PoolPath>,
    Json(wanted): Json<PutDraft>,
) -> Result<Response, Problem> {
    let new = check(&ctx, path.id()?, wanted)?;
    let id = Uuid::now_v7();
    let versioned = save(&ctx, id, &new, Precondition::Absent).await?;
    let place = format!("/api/v1/corps/{}/drafts/{id}", ctx.id());
    let mut response = versioned.into_response();
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

list_query! {
    /// Drafts have no filters.
    DraftQuery {}
}

/// Drafts of a pool, the latest first.
#[utoipa::path(get, path = "/pools/{pool_id}/drafts", tag = "policies", operation_id = "list_drafts",
    params(("pool_id" = String, Path), DraftQuery), responses((status = 200, body = List<DraftHead>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Path(path): Path<PoolPath>,
    Query(query): Query<DraftQuery>,
) -> Result<axum::Json<List<DraftHead>>, Problem> {
    let page = query.page();
    let drafts = ctx.app.ledger.drafts();
    let found = drafts.list(ctx.id(), &path.id()?, &page.request()?).await?;
    Ok(axum::Json(List::of(found, page.limit()?, |draft| {
        DraftHead::from(&draft)
    })))
}

/// One draft. Its `ETag` goes into `If-Match` of a change, and when it is published.
#[utoipa::path(get, path = "/drafts/{draft_id}", tag = "policies", operation_id = "get_draft",
    params(("draft_id" = String, Path)), responses((status = 200, body = DraftView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<DraftPath>,
) -> Result<Versioned<DraftView>, Problem> {
    let draft = path.find(&ctx).await?;
    Ok(Versioned::ok(draft.version, view(&ctx, &draft).await))
}

/// Changes a draft: the whole of it. `If-Match` with its ETag guards against overwriting somebody else's change.
#[utoipa::path(put, path = "/drafts/{draft_id}", tag = "policies", operation_id = "put_draft",
    params(("draft_id" = String, Path), ("If-Match" = Option<String>, Header)), request_body = PutDraft,
    responses((status = 200, body = DraftView),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn put(
    Operator(ctx): Operator,
    Path(path): Path<DraftPath>,
    Condition(condition): Condition,
    Json(wanted): Json<PutDraft>,
) -> Result<Versioned<DraftView>, Problem> {
    let draft = path.find(&ctx).await?;
    let new = check(&ctx, draft.pool.clone(), wanted)?;
    // It is never made here: whoever names one that is gone is told so.
    let condition = match condition {
        Precondition::None => Precondition::Present,
        condition => condition,
    };
    save(&ctx, draft.id, &new, condition).await
}

/// Throws a draft away.
#[utoipa::path(delete, path = "/drafts/{draft_id}", tag = "policies", operation_id = "delete_draft",
    params(("draft_id" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 204, description = "It is gone."),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn delete(
    Operator(ctx): Operator,
    Path(path): Path<DraftPath>,
    Condition(condition): Condition,
) -> Result<StatusCode, Problem> {
    let drafts = ctx.app.ledger.drafts();
    let trail = ctx.trail(None);
    let deleted = drafts.delete(ctx.id(), path.id()?, condition, &trail);
    etag::deleted(deleted.await?, "draft", version, |()| {
        Problem::not_found("draft")
    })
}

/// How a draft is published.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Publish {
    /// Whatever the pool has become since the draft was made from it.
    #[serde(default)]
    overwrite: bool,
}

/// Makes the pool what the draft says, as a new version, and ends the draft. `If-Match` with the draft's ETag: what you saw is
/// what is published. 409 `base_moved`: the pool has changed since the draft was made from it; 409 `pool_deleted`; 409
/// `unknown_members`; 409 `too_many_weights`; 409 `channel_has_visits`. POST …/drafts/{draft_id}/validate says all of it at once.
#[utoipa::path(post, path = "/drafts/{draft_id}/publish", tag = "policies", operation_id = "publish_draft",
    params(("draft_id" = String, Path), ("If-Match" = Option<String>, Header),
        ("Idempotency-Key" = Option<String>, Header)),
    request_body = Option<Publish>,
    responses((status = 200, body = PoolView),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn publish(
    Operator(ctx): Operator,
    Path(path): Path<DraftPath>,
    Condition(condition): Condition,
    MaybeJson(wanted): MaybeJson<Publish>,
) -> Result<Versioned<PoolView>, Problem> {
    let draft = path.find(&ctx).await?;
    if let Some(message) = pools::too_many_weights(&draft.content) {
        return Err(Problem::conflict("too_many_weights", message));
    }
    // What was looked at is what is published.
    let condition = match condition {
        Precondition::None => Precondition::Version(draft.version),
        condition => condition,
    };
    let drafts = ctx.app.ledger.drafts();
    let trail = ctx.trail(None);
    let published = drafts.publish(ctx.id(), draft.id, condition, wanted.overwrite, &trail);
    let pool = match published.await? {
        Publication::Published(pool) => pool,
        Publication::NoDraft => return Err(Problem::not_found("draft")),
        Publication::Stale(now) => return Err(etag::stale(Some(now.version))),
        Publication::BaseMoved(version) => {
            return Err(base_moved(draft.base_version, version));
        }
        Publication::NoPool => return Err(pool_deleted(&draft.pool)),
        Publication::Refused(misfit) => return Err(policies::refused(&ctx, &misfit).await),
    };
    pools::tell(&ctx, &pool.id).await;
    Ok(Versioned::ok(pool.version, pool.into()))
}

fn base_moved(base: u64, version: u64) -> Problem {
    let detail = format!(
        "The draft was made from version {base} of the pool, which is at version {version} now. Look at what changed, then PUT the draft with base_version {version}, or publish it with overwrite."
    );
    Problem::conflict("base_moved", detail).with_current(json!({"version": version}))
}

fn pool_deleted(pool: &PoolId) -> Problem {
    let detail = format!(
        "The pool {pool} was deleted. POST …/pools/{pool}/rollback brings it back; then publish the draft."
    );
    Problem::conflict("pool_deleted", detail)
}

async fn save(
    ctx: &Ctx,
    id: Uuid,
    new: &NewDraft,
    condition: Precondition,
) -> Result<Versioned<DraftView>, Problem> {
    let drafts = ctx.app.ledger.drafts();
    let trail = ctx.trail(None);
    let put = drafts.put(ctx.id(), id, new, condition, &trail);
    match put.await? {
        Put::Created(draft) => Ok(Versioned::created(draft.version, view(ctx, &draft).await)),
        Put::Changed(draft) | Put::Same(draft) => {
            Ok(Versioned::ok(draft.version, view(ctx, &draft).await))
        }
        Put::Stale(None) => Err(Problem::not_found("draft")),
        Put::Stale(Some(draft)) => Err(etag::stale(Some(draft.version))),
        Put::Refused(DraftRefused::NoPool) => Err(Problem::not_found("pool")),
        Put::Refused(DraftRefused::NoVersion) => Err(Problem::field(
            "/base_version",
            "unknown_version",
            "must be a version that the pool had",
        )),
        Put::Refused(DraftRefused::TooMany) => Err(Problem::conflict(
            "too_many_drafts",
            format!("The pool has {MOST_DRAFTS} drafts. Delete some that nobody needs."),
        )),
    }
}

fn check(ctx: &Ctx, pool: PoolId, wanted: PutDraft) -> Result<NewDraft, Problem> {
    let (mut fields, mut inner) = (Fields::default(), Fields::default());
    let content = pools::read(&pool, &wanted.content, &mut inner);
    fields.inside("/content", inner);
    let note = policies::note(&mut fields, wanted.note.as_deref());
    fields.range("/base_version", wanted.base_version, 1..=1 << 53);
    fields.check()?;
    Ok(NewDraft {
        pool,
        base_version: wanted.base_version,
        content,
        note,
        author: ctx.actor(),
    })
}

fn version(draft: &Draft) -> u64 {
    draft.version
}

async fn view(ctx: &Ctx, draft: &Draft) -> DraftView {
    DraftView {
        head: draft.into(),
        content: PolicyView::of(ctx, &draft.content).await,
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct DraftPath {
    draft_id: String,
}

impl DraftPath {
    fn id(&self) -> Result<Uuid, Problem> {
        let id = self.draft_id.parse();
        id.map_err(|_| Problem::not_found("draft"))
    }

    pub(super) async fn find(&self, ctx: &Ctx) -> Result<Draft, Problem> {
        let draft = ctx.app.ledger.drafts().get(ctx.id(), self.id()?).await?;
        draft.ok_or_else(|| Problem::not_found("draft"))
    }
}
