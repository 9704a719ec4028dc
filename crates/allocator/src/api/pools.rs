//! Pools: members that share incoming customers, by weight or by load.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    time::Duration,
};

use allocation::{
    ChannelId, Limits, MAX_MEMBERS, MAX_WEIGHTS, MemberId, OfferRule, PoolId, Strategy,
};
use axum::http::StatusCode;
use ledger::{NewPool, Pool, PoolRefused, PoolUsers};
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
    problem::{Details, Problem},
    routing::{self, PoolFallback, PoolRelax, PoolSticky, PutRouting},
    validate::{self, Fields, JsonWeight},
    when::When,
};
use crate::people;

/// A year; longer is never.
const LONGEST_WINDOW_S: u64 = 366 * 24 * 60 * 60;
const ACCEPT_SECONDS: RangeInclusive<u64> = 5..=24 * 60 * 60;
const TRIES: RangeInclusive<u64> = 1..=20;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, put, delete))
}

/// How a pool chooses among its free members.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum StrategyName {
    /// Shares by weight; nobody is ever a whole customer away from his exact share.
    WeightedRoundRobin,
    /// The fewest open customers for his weight.
    LeastLoad,
}

impl From<StrategyName> for Strategy {
    fn from(name: StrategyName) -> Self {
        match name {
            StrategyName::WeightedRoundRobin => Self::WeightedRoundRobin,
            StrategyName::LeastLoad => Self::LeastLoad,
        }
    }
}

impl From<Strategy> for StrategyName {
    fn from(strategy: Strategy) -> Self {
        match strategy {
            Strategy::WeightedRoundRobin => Self::WeightedRoundRobin,
            Strategy::LeastLoad => Self::LeastLoad,
        }
    }
}

/// What a pool is to be: the whole of it, what is left out is not.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PutPool {
    /// 1 to 100 characters.
    name: String,
    #[serde(default = "weighted_round_robin")]
    #[schema(default = "weighted_round_robin")]
    strategy: StrategyName,
    /// Open customers stop counting this many seconds after their decision; null: never.
    #[schema(minimum = 1, maximum = 31_622_400)]
    load_window_seconds: Option<u64>,
    /// A member is asked first and may decline; null: he is given the customer at once. Not with a channel that has a public
    /// page.
    offers: Option<PoolOffers>,
    /// Other pools that serve, each from its time on; at most 7, and with the times in `relax` at most 7 steps.
    #[serde(default)]
    #[schema(max_items = 7)]
    fallbacks: Vec<PoolFallback>,
    /// Skills that are done without after a while, here and in the fallbacks that begin later.
    #[serde(default)]
    #[schema(max_items = 64)]
    relax: Vec<PoolRelax>,
    /// Null: whose a customer was before makes no difference.
    sticky: Option<PoolSticky>,
    /// While somebody waits each member is given about one customer in this time, so that whoever comes first in the morning
    /// does not get all who waited; null: as many as he may have.
    #[schema(minimum = 1, maximum = 86_400)]
    drip_seconds: Option<u64>,
    /// Who waits longer is counted and warned of; null: nobody is.
    #[schema(minimum = 1, maximum = 2_592_000)]
    alert_after_seconds: Option<u64>,
    /// Who waits longer leaves the list, and a person must decide; null: he waits on. Visitors of a page are never left to a
    /// person.
    #[schema(minimum = 1, maximum = 2_592_000)]
    person_after_seconds: Option<u64>,
    /// Known members, each once; at most 10,000, with at most 16 distinct weights above 0.
    members: Vec<PutPoolMember>,
}

/// How members are asked.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolOffers {
    /// How long a member may think, 5 s to a day; then the next one is asked.
    #[schema(minimum = 5, maximum = 86400)]
    accept_seconds: u64,
    /// Members that are asked about one customer, 1 to 20; then a person must decide.
    #[schema(minimum = 1, maximum = 20)]
    tries: u64,
}

impl From<OfferRule> for PoolOffers {
    fn from(rule: OfferRule) -> Self {
        Self {
            accept_seconds: rule.accept_ms / 1_000,
            tries: rule.tries.into(),
        }
    }
}

impl PoolOffers {
    fn check(self, fields: &mut Fields) -> OfferRule {
        let Self {
            accept_seconds,
            tries,
        } = self;
        fields.range(
            "/offers/accept_seconds",
            Some(accept_seconds),
            ACCEPT_SECONDS,
        );
        fields.range("/offers/tries", Some(tries), TRIES);
        OfferRule {
            accept_ms: accept_seconds.saturating_mul(1_000),
            tries: u32::try_from(tries).unwrap_or(u32::MAX),
        }
    }
}

fn weighted_round_robin() -> StrategyName {
    StrategyName::WeightedRoundRobin
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PutPoolMember {
    /// The userid; letter case does not matter.
    member: String,
    /// 0 to 10000, at most three decimal places; 0: in the pool, but gets nothing.
    #[schema(value_type = f64, minimum = 0, maximum = 10000)]
    weight: JsonWeight,
    /// Most open customers of this pool; of those that he is given from now on. Null: no limit but the member's own.
    #[schema(maximum = 1_000_000)]
    cap: Option<u64>,
    /// Most customers of this pool given to him in one hour of the clock.
    #[schema(maximum = 1_000_000)]
    per_hour: Option<u64>,
    /// Most customers of this pool given to him on one day where he is.
    #[schema(maximum = 1_000_000)]
    per_day: Option<u64>,
}

/// A pool as it is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PoolView {
    id: String,
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
    members: Vec<PoolMemberView>,
    version: u64,
    created_at: When,
    updated_at: When,
}

#[derive(Debug, Serialize, ToSchema)]
struct PoolMemberView {
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
    /// Why he gets nothing at present, in every pool; null: he is not blocked.
    #[schema(required)]
    blocked: Option<String>,
}

impl From<Pool> for PoolView {
    fn from(pool: Pool) -> Self {
        let members = pool.members.into_iter().map(|member| PoolMemberView {
            member: member.userid,
            weight: JsonWeight(member.weight),
            cap: member.limits.at_a_time,
            per_hour: member.limits.per_hour,
            per_day: member.limits.per_day,
            blocked: member.blocked.map(String::from),
        });
        Self {
            id: pool.id.into(),
            name: pool.name,
            strategy: pool.strategy.into(),
            load_window_seconds: pool.load_window_seconds,
            offers: pool.offers.map(PoolOffers::from),
            fallbacks: pool
                .routing
                .fallbacks
                .iter()
                .map(PoolFallback::from)
                .collect(),
            relax: pool.routing.relax.iter().map(PoolRelax::from).collect(),
            sticky: pool.routing.sticky.map(PoolSticky::from),
            drip_seconds: pool.routing.drip_seconds,
            alert_after_seconds: pool.routing.alert_after_seconds,
            person_after_seconds: pool.routing.person_after_seconds,
            members: members.collect(),
            version: pool.version,
            created_at: When(pool.created_ms),
            updated_at: When(pool.updated_ms),
        }
    }
}

list_query! {
    /// Pools have no filters.
    PoolQuery {}
}

/// All pools, the latest first.
#[utoipa::path(get, path = "/pools", tag = "pools", operation_id = "list_pools", params(PoolQuery),
    responses((status = 200, body = List<PoolView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<PoolQuery>,
) -> Result<axum::Json<List<PoolView>>, Problem> {
    let page = query.page();
    let pools = ctx
        .app
        .ledger
        .pools()
        .list(ctx.id(), &page.request()?)
        .await?;
    Ok(axum::Json(List::of(pools, page.limit()?, PoolView::from)))
}

/// One pool. Its `ETag` goes into `If-Match` of a change.
#[utoipa::path(get, path = "/pools/{pool_id}", tag = "pools", operation_id = "get_pool",
    params(("pool_id" = String, Path)), responses((status = 200, body = PoolView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<PoolPath>,
) -> Result<Versioned<PoolView>, Problem> {
    let pool = ctx.app.ledger.pools().get(ctx.id(), &path.id()?).await?;
    let pool = pool.ok_or_else(|| Problem::not_found("pool"))?;
    Ok(Versioned::ok(pool.version, pool.into()))
}

/// Makes or changes a pool. `If-Match` with its ETag guards against overwriting somebody else's change,
/// `If-None-Match: *` makes it only if it is new; without either the last writer wins. Members must be known.
#[utoipa::path(put, path = "/pools/{pool_id}", tag = "pools", operation_id = "put_pool",
    params(("pool_id" = String, Path),
        ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)),
    request_body = PutPool,
    responses((status = 200, body = PoolView), (status = 201, body = PoolView),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn put(
    Operator(ctx): Operator,
    Path(path): Path<PoolPath>,
    Condition(condition): Condition,
    Json(wanted): Json<PutPool>,
) -> Result<Versioned<PoolView>, Problem> {
    let id = path.id()?;
    let new = check(&id, &wanted)?;
    let put = ctx
        .app
        .ledger
        .pools()
        .put(ctx.id(), &id, &new, condition, &ctx.trail(None))
        .await?;
    let answer = etag::put(put, version, |refused| match refused {
        PoolRefused::Unknown(unknown) => unknown_members(&wanted, &unknown),
        PoolRefused::NoPools(unknown) => routing::unknown_pools(&wanted.fallbacks, &unknown),
        PoolRefused::Visits(channels) => has_pages(&channels),
    })?;
    tell(&ctx, &id).await;
    Ok(answer)
}

/// Removes a pool. Customers it gave away stay where they are; those who wait in it wait on until they are closed or
/// the pool comes back.
#[utoipa::path(delete, path = "/pools/{pool_id}", tag = "pools", operation_id = "delete_pool",
    params(("pool_id" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 204, description = "It is gone."),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn delete(
    Operator(ctx): Operator,
    Path(path): Path<PoolPath>,
    Condition(condition): Condition,
) -> Result<StatusCode, Problem> {
    let id = path.id()?;
    if people::default_pool(&ctx.corp).as_ref() == Some(&id) {
        let detail =
            "It is the corp's default pool (corps.<id>.default_pool in the configuration).";
        return Err(Problem::conflict("pool_in_use", detail));
    }
    let deleted = ctx
        .app
        .ledger
        .pools()
        .delete(ctx.id(), &id, condition, &ctx.trail(None))
        .await?;
    let gone = etag::deleted(deleted, "pool", version, |users| in_use(&users))?;
    tell(&ctx, &id).await;
    Ok(gone)
}

fn in_use(users: &PoolUsers) -> Problem {
    let channels: Vec<&str> = users.channels.iter().map(ChannelId::as_str).collect();
    let pools: Vec<&str> = users.pools.iter().map(PoolId::as_str).collect();
    let mut detail = Vec::new();
    if !channels.is_empty() {
        let channels = channels.join(", ");
        detail.push(format!(
            "Channels lead to it: {channels}. Point them to another pool first."
        ));
    }
    if !pools.is_empty() {
        let pools = pools.join(", ");
        detail.push(format!(
            "It is a fallback of pools: {pools}. Take it out of theirs first."
        ));
    }
    Problem::conflict("pool_in_use", detail.join(" "))
        .with_current(json!({"channels": channels, "pools": pools}))
}

pub(super) fn version(pool: &Pool) -> u64 {
    pool.version
}

#[derive(Debug, Deserialize)]
pub(super) struct PoolPath {
    pub(super) pool_id: String,
}

impl PoolPath {
    pub(super) fn id(&self) -> Result<PoolId, Problem> {
        validate::in_path("pool_id", &self.pool_id)
    }
}

/// Redis is told at once. If it cannot be, or not within half of the time of a request, the loop in `people` does it: the
/// change itself is safe, and whoever made it gets his answer.
pub(super) async fn tell(ctx: &Ctx, id: &PoolId) {
    let telling = async {
        // How it routes is in this process's memory, as channels are: the others know it with their next comparison.
        if let Err(error) = people::refresh(&ctx.app, &ctx.corp).await {
            tracing::warn!(corp = %ctx.id(), pool = %id, error = %error, "pools are read anew later");
        }
        if let Err(error) = people::tell_pool(&ctx.app, &ctx.corp, id).await {
            tracing::warn!(corp = %ctx.id(), pool = %id, error = %error, "Redis learns of the pool later");
        }
    };
    let longest = Duration::from_millis(ctx.app.config.http.timeout_ms / 2);
    if tokio::time::timeout(longest, telling).await.is_err() {
        tracing::warn!(corp = %ctx.id(), pool = %id, "Redis learns of the whole pool later");
    }
}

fn check(id: &PoolId, wanted: &PutPool) -> Result<NewPool, Problem> {
    let mut fields = Fields::default();
    let new = read(id, wanted, &mut fields);
    if let Some(message) = too_many_weights(&new) {
        fields.wrong("/members", "too_many_weights", message);
    }
    fields.check()?;
    Ok(new)
}

/// In words, if there are more distinct weights than the rules take.
pub(super) fn too_many_weights(pool: &NewPool) -> Option<String> {
    let weights = pool.members.iter().map(|(_, weight)| *weight);
    let weights: BTreeSet<_> = weights.filter(|weight| !weight.is_zero()).collect();
    let many = weights.len();
    (many > MAX_WEIGHTS)
        .then(|| format!("{many} distinct weights, at most {MAX_WEIGHTS} are possible"))
}

/// What is wrong with any single field goes to `fields`.
pub(super) fn read(id: &PoolId, wanted: &PutPool, fields: &mut Fields) -> NewPool {
    let name = fields.name("/name", &wanted.name);
    fields.range(
        "/load_window_seconds",
        wanted.load_window_seconds,
        1..=LONGEST_WINDOW_S,
    );
    let offers = wanted.offers.map(|offers| offers.check(fields));
    if wanted.members.len() > MAX_MEMBERS {
        fields.wrong(
            "/members",
            "too_many",
            format!("at most {MAX_MEMBERS} members are possible"),
        );
    }
    let mut seen = BTreeSet::new();
    let mut members = Vec::with_capacity(wanted.members.len());
    let mut limits = BTreeMap::new();
    for (index, place) in wanted.members.iter().enumerate().take(MAX_MEMBERS) {
        let pointer = |field| format!("/members/{index}/{field}");
        let of_member = Limits {
            at_a_time: fields.limit(pointer("cap"), place.cap),
            per_hour: fields.limit(pointer("per_hour"), place.per_hour),
            per_day: fields.limit(pointer("per_day"), place.per_day),
        };
        let pointer = pointer("member");
        let Some(member) = fields.parse::<MemberId>(pointer.clone(), &place.member) else {
            continue;
        };
        if !seen.insert(member.clone()) {
            fields.wrong(
                pointer,
                "duplicate_member",
                format!("{} is in the list twice", place.member),
            );
        }
        if !of_member.is_none() {
            limits.insert(member.clone(), of_member);
        }
        members.push((member, place.weight.0));
    }
    let routing = routing::check(
        id,
        PutRouting {
            fallbacks: &wanted.fallbacks,
            relax: &wanted.relax,
            sticky: wanted.sticky.as_ref(),
            drip_seconds: wanted.drip_seconds,
            alert_after_seconds: wanted.alert_after_seconds,
            person_after_seconds: wanted.person_after_seconds,
        },
        fields,
    );
    let strategy = wanted.strategy.into();
    NewPool {
        name,
        strategy,
        load_window_seconds: wanted.load_window_seconds,
        offers,
        routing,
        members,
        limits,
    }
}

fn has_pages(channels: &[ChannelId]) -> Problem {
    let (message, names) = pages(channels);
    Problem::field("/offers", "channel_has_visits", message)
        .with_current(json!({"channels": names}))
}

/// Why the pool cannot ask its members, and the channels that are in the way.
pub(super) fn pages(channels: &[ChannelId]) -> (String, Vec<&str>) {
    let names: Vec<&str> = channels.iter().map(ChannelId::as_str).collect();
    let message = format!(
        "members cannot be asked first where a public page shows one at once: {} (`visits`); take one of the two away",
        names.join(", ")
    );
    (message, names)
}

fn unknown_members(wanted: &PutPool, unknown: &[MemberId]) -> Problem {
    let mut fields = Fields::default();
    for (index, place) in wanted.members.iter().enumerate() {
        if MemberId::new(place.member.clone()).is_ok_and(|member| unknown.contains(&member)) {
            let message = format!(
                "{} is not known; PUT …/members/{} first",
                place.member, place.member
            );
            fields.wrong(
                format!("/members/{index}/member"),
                "unknown_member",
                message,
            );
        }
    }
    fields
        .check()
        .err()
        .unwrap_or_else(|| Problem::not_found("member"))
}
