//! What pools were: every version that was ever in force, and the way back to one.

use allocation::PoolId;
use ledger::{NewPool, PoolRefused, Published, Put, RolledBack};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Operator, Viewer},
    docs::Refusals,
    etag::{self, Condition, Versioned},
    extract::{Json, Path, Query},
    page::{List, list_query},
    pools::{self, PoolOffers, PoolPath, PoolView, StrategyName},
    problem::{Details, Problem},
    routing::{PoolFallback, PoolRelax, PoolSticky},
    validate::{Fields, JsonWeight},
    when::When,
};
use crate::people;

/// Of a note.
const LONGEST_NOTE: usize = 200;
const MOST_SHOWN: usize = 20;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(roll_back))
}

/// What a pool is told to be, as it is put.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PolicyView {
    name: String,
    strategy: StrategyName,
    #[schema(required)]
    load_window_seconds: Option<u64>,
    #[schema(required)]
    offers: Option<PoolOffers>,
    fallbacks: Vec<PoolFallback>,
    relax: Vec<PoolRelax>,
    #[schema(required)]
    sticky: Option<PoolSticky>,
    #[schema(required)]
    drip_seconds: Option<u64>,
    #[schema(required)]
    alert_after_seconds: Option<u64>,
    #[schema(required)]
    person_after_seconds: Option<u64>,
    members: Vec<PolicyMemberView>,
}

#[derive(Debug, Serialize, ToSchema)]
struct PolicyMemberView {
    /// The userid as WeCom spells it.
    member: String,
    #[schema(value_type = f64)]
    weight: JsonWeight,
    #[schema(required)]
    cap: Option<u32>,
    #[schema(required)]
    per_hour: Option<u32>,
    #[schema(required)]
    per_day: Option<u32>,
}

impl PolicyView {
    pub(super) async fn of(ctx: &Ctx, content: &NewPool) -> Self {
        let ids = content.members.iter().map(|(member, _)| member.clone());
        people::learn(&ctx.app, &ctx.corp, ids.collect()).await;
        let members = content.members.iter().map(|(member, weight)| {
            let limits = content.limits.get(member).copied().unwrap_or_default();
            PolicyMemberView {
                member: ctx.corp.names.userid(member),
                weight: JsonWeight(*weight),
                cap: limits.at_a_time,
                per_hour: limits.per_hour,
                per_day: limits.per_day,
            }
        });
        Self {
            name: content.name.clone(),
            strategy: content.strategy.into(),
            load_window_seconds: content.load_window_seconds,
            offers: content.offers.map(PoolOffers::from),
            fallbacks: content
                .routing
                .fallbacks
                .iter()
                .map(PoolFallback::from)
                .collect(),
            relax: content.routing.relax.iter().map(PoolRelax::from).collect(),
            sticky: content.routing.sticky.map(PoolSticky::from),
            drip_seconds: content.routing.drip_seconds,
            alert_after_seconds: content.routing.alert_after_seconds,
            person_after_seconds: content.routing.person_after_seconds,
            members: members.collect(),
        }
    }
}

/// That a pool was put or deleted.
#[derive(Debug, Serialize, ToSchema)]
struct VersionView {
    version: u64,
    /// It was the end of the pool, until it came back.
    deleted: bool,
    published_at: When,
    /// Who did it, for example `key:<id>`; null: it is from before versions were kept.
    #[schema(required)]
    actor: Option<String>,
    #[schema(required)]
    note: Option<String>,
}

impl From<Published> for VersionView {
    fn from(published: Published) -> Self {
        Self {
            version: published.version,
            deleted: published.deleted,
            published_at: When(published.published_ms),
            actor: published.actor,
            note: published.note,
        }
    }
}

/// A version, and what the pool was in it.
#[derive(Debug, Serialize, ToSchema)]
struct WholeVersionView {
    #[serde(flatten)]
    version: VersionView,
    /// Null: the pool was deleted.
    #[schema(required)]
    content: Option<PolicyView>,
}

list_query! {
    /// Versions have no filters.
    VersionQuery {}
}

/// Every version of a pool that was ever in force, the latest first; also of a pool that was deleted.
#[utoipa::path(get, path = "/pools/{pool_id}/versions", tag = "policies", operation_id = "list_pool_versions",
    params(("pool_id" = String, Path), VersionQuery),
    responses((status = 200, body = List<VersionView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Path(path): Path<PoolPath>,
    Query(query): Query<VersionQuery>,
) -> Result<axum::Json<List<VersionView>>, Problem> {
    let page = query.page();
    let pools = ctx.app.ledger.pools();
    let (pool, request) = (path.id()?, page.request()?);
    let found = pools.published(ctx.id(), &pool, &request).await?;
    if found.items.is_empty() && page.cursor().is_none() {
        return Err(Problem::not_found("pool"));
    }
    Ok(axum::Json(List::of(
        found,
        page.limit()?,
        VersionView::from,
    )))
}

/// One version, with what the pool was in it.
#[utoipa::path(get, path = "/pools/{pool_id}/versions/{version}", tag = "policies", operation_id = "get_pool_version",
    params(("pool_id" = String, Path), ("version" = u64, Path)),
    responses((status = 200, body = WholeVersionView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<VersionPath>,
) -> Result<axum::Json<WholeVersionView>, Problem> {
    let pool = PoolPath {
        pool_id: path.pool_id,
    };
    let pool = pool.id()?;
    let version = path.version.parse();
    let version = version.map_err(|_| Problem::not_found("version"))?;
    let pools = ctx.app.ledger.pools();
    let found = pools.version(ctx.id(), &pool, version).await?;
    let (published, content) = found.ok_or_else(|| Problem::not_found("version"))?;
    let content = match content {
        Some(content) => Some(PolicyView::of(&ctx, &content).await),
        None => None,
    };
    Ok(axum::Json(WholeVersionView {
        version: published.into(),
        content,
    }))
}

/// Back to which version, and why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Rollback {
    #[schema(minimum = 1)]
    version: u64,
    /// Why, at most 200 characters; it is kept with the new version.
    note: Option<String>,
}

/// Puts what the pool was in an earlier version, as a new one; a deleted pool comes back. `If-Match` with the pool's ETag guards
/// against overwriting somebody else's change. 409 `unknown_members`: some of its members are not known any more; 409
/// `unknown_pools`: nor are pools that it leads to; 409 `channel_has_visits`: it asked its members, and a channel with a public page leads to it now.
#[utoipa::path(post, path = "/pools/{pool_id}/rollback", tag = "policies", operation_id = "roll_pool_back",
    params(("pool_id" = String, Path), ("If-Match" = Option<String>, Header),
        ("Idempotency-Key" = Option<String>, Header)),
    request_body = Rollback,
    responses((status = 200, body = PoolView), (status = 201, description = "It came back.", body = PoolView),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn roll_back(
    Operator(ctx): Operator,
    Path(path): Path<PoolPath>,
    Condition(condition): Condition,
    Json(wanted): Json<Rollback>,
) -> Result<Versioned<PoolView>, Problem> {
    let id = path.id()?;
    let mut fields = Fields::default();
    let note = note(&mut fields, wanted.note.as_deref());
    fields.check()?;
    let pools = ctx.app.ledger.pools();
    let version = wanted.version;
    let trail = ctx.trail(note);
    let back = pools.roll_back(ctx.id(), &id, version, condition, &trail);
    let put = match back.await? {
        RolledBack::Put(put) => *put,
        RolledBack::NoVersion => {
            return Err(Problem::field(
                "/version",
                "unknown_version",
                format!("the pool had no version {version}"),
            ));
        }
        RolledBack::Deleted => {
            return Err(Problem::field(
                "/version",
                "deleted_version",
                format!("the pool was deleted in version {version}; name one before it"),
            ));
        }
    };
    let misfit = match &put {
        Put::Refused(misfit) => Some(refused(&ctx, misfit).await),
        _ => None,
    };
    let answer = etag::put(put, pools::version, |_| {
        misfit.unwrap_or_else(|| Problem::not_found("member"))
    })?;
    pools::tell(&ctx, &id).await;
    Ok(answer)
}

/// A note for people: at most 200 characters; one of spaces is none.
pub(super) fn note(fields: &mut Fields, note: Option<&str>) -> Option<String> {
    let note = note.unwrap_or_default().trim();
    fields.characters("/note", note, LONGEST_NOTE);
    if note.chars().any(char::is_control) {
        let message = "must not have control characters";
        fields.wrong("/note", "control_character", message);
    }
    (!note.is_empty()).then(|| note.to_owned())
}

/// What a pool was, or was drafted to be, cannot be put now.
pub(super) async fn refused(ctx: &Ctx, misfit: &PoolRefused) -> Problem {
    let unknown = match misfit {
        PoolRefused::Unknown(unknown) => unknown,
        PoolRefused::NoPools(unknown) => {
            let names: Vec<&str> = unknown.iter().map(PoolId::as_str).collect();
            let detail = format!(
                "Pools that it leads to are not there: {}. Make them first, or leave them out.",
                names.join(", ")
            );
            return Problem::conflict("unknown_pools", detail)
                .with_current(json!({"pools": names}));
        }
        PoolRefused::Visits(channels) => {
            let (detail, names) = pools::pages(channels);
            return Problem::conflict("channel_has_visits", detail)
                .with_current(json!({"channels": names}));
        }
    };
    people::learn(&ctx.app, &ctx.corp, unknown.to_vec()).await;
    let names = unknown.iter().map(|member| ctx.corp.names.userid(member));
    let names: Vec<String> = names.collect();
    let mut shown = names[..names.len().min(MOST_SHOWN)].join(", ");
    if names.len() > MOST_SHOWN {
        shown = format!("{shown} and {} others", names.len() - MOST_SHOWN);
    }
    let detail =
        format!("Members of it are not known: {shown}. PUT …/members/… first, or leave them out.");
    Problem::conflict("unknown_members", detail).with_current(json!({"members": names}))
}

#[derive(Debug, Deserialize)]
struct VersionPath {
    pool_id: String,
    version: String,
}
