//! Group pools: customer groups that campaigns fill one after the other.

use std::{collections::BTreeSet, ops::RangeInclusive};

use allocation::{ChatId, GroupPoolId, MAX_SCAN_CAP, MemberId};
use axum::http::StatusCode;
use ledger::{
    GroupCaps, GroupPool, GroupPoolUsers, MOST_OPENERS, NewGroupPool, SPARE_OPENERS, Supply,
    SupplySource,
};
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
    group_words::{FillStrategyName, SupplySourceName},
    page::{List, list_query},
    problem::{Details, Problem},
    validate::{self, Fields},
    when::When,
};

/// What WeCom's groups are known to take; it says neither over its API.
const SCAN_CAP: u64 = 200;
const HARD_CAP: u64 = 500;
const BUFFER: u64 = 5;
pub(super) const CAPS: RangeInclusive<u64> = 1..=MAX_SCAN_CAP as u64;
pub(super) const BUFFERS: RangeInclusive<u64> = 0..=MAX_SCAN_CAP as u64 - 1;
const MOST_FREE: u64 = 1_000_000;
const LONGEST_AHEAD_S: u64 = 24 * 60 * 60;
const DEADLINE_SECONDS: RangeInclusive<u64> = 30..=24 * 60 * 60;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, put, delete))
}

/// What a group pool is to be: the whole of it, what is left out is not.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PutGroupPool {
    /// 1 to 100 characters.
    name: String,
    #[serde(default)]
    #[schema(default = "fill_first")]
    strategy: FillStrategyName,
    /// People in a group, the corp's own among them, beyond which nobody is shown it: WeCom lets nobody in by a code then.
    #[serde(default = "scan_cap")]
    #[schema(default = 200, minimum = 1, maximum = 2000)]
    scan_cap: u64,
    /// People in a group beyond which WeCom lets nobody in at all; not below `scan_cap`.
    #[serde(default = "hard_cap")]
    #[schema(default = 500, minimum = 1, maximum = 2000)]
    hard_cap: u64,
    /// Seats below `scan_cap` that are kept for those who come in another way; below `scan_cap`.
    #[serde(default = "buffer")]
    #[schema(default = 5, minimum = 0, maximum = 1999)]
    buffer: u64,
    /// A visitor for whose tags no group has room is shown any other; false: he waits.
    #[serde(default = "yes")]
    #[schema(default = true)]
    any_group: bool,
    /// Where the next group comes from.
    #[serde(default)]
    supply: GroupSupply,
}

fn scan_cap() -> u64 {
    SCAN_CAP
}

fn hard_cap() -> u64 {
    HARD_CAP
}

fn buffer() -> u64 {
    BUFFER
}

fn yes() -> bool {
    true
}

/// Where a pool's next group comes from, and when it is looked for.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct GroupSupply {
    /// Free seats of the pool below which it gets another group.
    #[schema(default = 50, maximum = 1_000_000)]
    min_free: u64,
    /// Seats that will be asked for in this time, as fast as they are now, count as taken.
    #[schema(default = 300, maximum = 86400)]
    ahead_seconds: u64,
    /// Tried in this order; none: the pool keeps the groups that it has. Left out: `spare` alone.
    sources: Vec<SupplySourceName>,
    /// The userid of who makes groups by hand; needed for `person`.
    keeper: Option<String>,
    /// How long he has for one.
    #[schema(default = 900, minimum = 30, maximum = 86400)]
    deadline_seconds: u64,
}

impl Default for GroupSupply {
    fn default() -> Self {
        Supply::default().into()
    }
}

impl From<Supply> for GroupSupply {
    fn from(supply: Supply) -> Self {
        Self {
            min_free: supply.min_free.into(),
            ahead_seconds: supply.ahead_seconds.into(),
            sources: supply.sources.into_iter().map(Into::into).collect(),
            keeper: supply.keeper.map(String::from),
            deadline_seconds: supply.deadline_seconds.into(),
        }
    }
}

/// A group pool as it is.
#[derive(Debug, Serialize, ToSchema)]
struct GroupPoolView {
    id: String,
    name: String,
    strategy: FillStrategyName,
    scan_cap: u32,
    hard_cap: u32,
    buffer: u32,
    any_group: bool,
    supply: GroupSupply,
    version: u64,
    created_at: When,
    updated_at: When,
}

impl From<GroupPool> for GroupPoolView {
    fn from(pool: GroupPool) -> Self {
        Self {
            id: pool.id.into(),
            name: pool.name,
            strategy: pool.strategy.into(),
            scan_cap: pool.caps.scan_cap,
            hard_cap: pool.caps.hard_cap,
            buffer: pool.caps.buffer,
            any_group: pool.any_group,
            supply: pool.supply.into(),
            version: pool.version,
            created_at: When(pool.created_ms),
            updated_at: When(pool.updated_ms),
        }
    }
}

impl GroupPoolView {
    /// With the keeper as WeCom spells him, where that is known.
    fn spelled(mut self, ctx: &Ctx) -> Self {
        let keeper = self.supply.keeper.take();
        self.supply.keeper = keeper.map(|keeper| match MemberId::new(keeper.clone()) {
            Ok(member) => ctx.corp.names.userid(&member),
            Err(_) => keeper,
        });
        self
    }
}

list_query! {
    /// Group pools have no filters.
    GroupPoolQuery {}
}

/// All group pools, the latest first.
#[utoipa::path(get, path = "/group-pools", tag = "groups", operation_id = "list_group_pools", params(GroupPoolQuery),
    responses((status = 200, body = List<GroupPoolView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<GroupPoolQuery>,
) -> Result<axum::Json<List<GroupPoolView>>, Problem> {
    let page = query.page();
    let pools = ctx.app.ledger.group_pools();
    let pools = pools.list(ctx.id(), &page.request()?).await?;
    Ok(axum::Json(List::of(pools, page.limit()?, |pool| {
        GroupPoolView::from(pool).spelled(&ctx)
    })))
}

/// One group pool. Its `ETag` goes into `If-Match` of a change.
#[utoipa::path(get, path = "/group-pools/{group_pool_id}", tag = "groups", operation_id = "get_group_pool",
    params(("group_pool_id" = String, Path)), responses((status = 200, body = GroupPoolView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<GroupPoolPath>,
) -> Result<Versioned<GroupPoolView>, Problem> {
    let pools = ctx.app.ledger.group_pools();
    let pool = pools.get(ctx.id(), &path.id()?).await?;
    let pool = pool.ok_or_else(|| Problem::not_found("group pool"))?;
    let version = pool.version;
    let view = GroupPoolView::from(pool).spelled(&ctx);
    Ok(Versioned::ok(version, view))
}

/// Makes or changes a group pool. `If-Match` with its ETag guards against overwriting somebody else's change,
/// `If-None-Match: *` makes it only if it is new; without either the last writer wins. New numbers hold for all its groups
/// that have none of their own.
#[utoipa::path(put, path = "/group-pools/{group_pool_id}", tag = "groups", operation_id = "put_group_pool",
    params(("group_pool_id" = String, Path),
        ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)),
    request_body = PutGroupPool,
    responses((status = 200, body = GroupPoolView), (status = 201, body = GroupPoolView),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn put(
    Operator(ctx): Operator,
    Path(path): Path<GroupPoolPath>,
    Condition(condition): Condition,
    Json(wanted): Json<PutGroupPool>,
) -> Result<Versioned<GroupPoolView>, Problem> {
    let id = path.id()?;
    let new = check(&wanted)?;
    let pools = ctx.app.ledger.group_pools();
    let put = pools
        .put(ctx.id(), &id, &new, condition, &ctx.trail(None))
        .await?;
    ctx.corp.groups_changed.notify_one();
    let mut answer = etag::put(put, version, |groups| caps_of_groups(&groups))?;
    let view: GroupPoolView = answer.body;
    answer.body = view.spelled(&ctx);
    Ok(answer)
}

/// Removes a group pool that no campaign fills and that no group is in.
#[utoipa::path(delete, path = "/group-pools/{group_pool_id}", tag = "groups", operation_id = "delete_group_pool",
    params(("group_pool_id" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 204, description = "It is gone."),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn delete(
    Operator(ctx): Operator,
    Path(path): Path<GroupPoolPath>,
    Condition(condition): Condition,
) -> Result<StatusCode, Problem> {
    let pools = ctx.app.ledger.group_pools();
    let deleted = pools
        .delete(ctx.id(), &path.id()?, condition, &ctx.trail(None))
        .await?;
    ctx.corp.groups_changed.notify_one();
    etag::deleted(deleted, "group pool", version, |users| in_use(&users))
}

fn in_use(users: &GroupPoolUsers) -> Problem {
    let campaigns: Vec<&str> = users.campaigns.iter().map(|id| id.as_str()).collect();
    let groups: Vec<&str> = users.groups.iter().map(ChatId::as_str).collect();
    let mut detail = Vec::new();
    if !campaigns.is_empty() {
        let campaigns = campaigns.join(", ");
        detail.push(format!(
            "Campaigns fill it: {campaigns}. Give them another pool first."
        ));
    }
    if !groups.is_empty() {
        let others = users.n_groups.saturating_sub(groups.len() as u64);
        let others = match others {
            0 => String::new(),
            others => format!(" and {others} others"),
        };
        detail.push(format!(
            "Groups are in it: {}{others}. Take them out first.",
            groups.join(", ")
        ));
    }
    let current = json!({"campaigns": campaigns, "groups": groups, "n_groups": users.n_groups});
    Problem::conflict("group_pool_in_use", detail.join(" ")).with_current(current)
}

fn caps_of_groups(groups: &[ChatId]) -> Problem {
    let names: Vec<&str> = groups.iter().map(ChatId::as_str).collect();
    let message = format!(
        "these groups have numbers of their own that make no sense with it: {}; change theirs first",
        names.join(", ")
    );
    Problem::field("/scan_cap", "groups_differ", message).with_current(json!({"groups": names}))
}

fn version(pool: &GroupPool) -> u64 {
    pool.version
}

#[derive(Debug, Deserialize)]
struct GroupPoolPath {
    group_pool_id: String,
}

impl GroupPoolPath {
    fn id(&self) -> Result<GroupPoolId, Problem> {
        validate::in_path("group_pool_id", &self.group_pool_id)
    }
}

fn check(wanted: &PutGroupPool) -> Result<NewGroupPool, Problem> {
    let mut fields = Fields::default();
    let name = fields.name("/name", &wanted.name);
    fields.range("/scan_cap", Some(wanted.scan_cap), CAPS);
    fields.range("/hard_cap", Some(wanted.hard_cap), CAPS);
    fields.range("/buffer", Some(wanted.buffer), BUFFERS);
    let caps = GroupCaps {
        scan_cap: small(wanted.scan_cap),
        hard_cap: small(wanted.hard_cap),
        buffer: small(wanted.buffer),
    };
    if fields.is_empty() {
        caps_make_sense(&mut fields, caps);
    }
    let supply = check_supply(&mut fields, &wanted.supply);
    let most = MOST_OPENERS.saturating_sub(SPARE_OPENERS) as u64;
    if supply.sources.contains(&SupplySource::AutoRoom) && wanted.buffer > most {
        let message = format!(
            "must be at most {most} where `supply.sources` has auto_room: so many people are shown the code of a full group at most"
        );
        fields.wrong("/buffer", "too_great_for_rooms", message);
    }
    fields.check()?;
    Ok(NewGroupPool {
        name,
        strategy: wanted.strategy.into(),
        caps,
        any_group: wanted.any_group,
        supply,
    })
}

/// What is wrong between the numbers, if anything is.
pub(super) fn caps_make_sense(fields: &mut Fields, caps: GroupCaps) {
    if caps.buffer >= caps.scan_cap {
        let message = format!(
            "must be below scan_cap ({}), not {}: no seat could be given away",
            caps.scan_cap, caps.buffer
        );
        fields.wrong("/buffer", "not_below_scan_cap", message);
    }
    if caps.scan_cap > caps.hard_cap {
        let message = format!(
            "must not be below scan_cap ({}), and is {}",
            caps.scan_cap, caps.hard_cap
        );
        fields.wrong("/hard_cap", "below_scan_cap", message);
    }
}

fn check_supply(fields: &mut Fields, wanted: &GroupSupply) -> Supply {
    let free = Some(wanted.min_free);
    fields.range("/supply/min_free", free, 0..=MOST_FREE);
    let ahead = Some(wanted.ahead_seconds);
    fields.range("/supply/ahead_seconds", ahead, 0..=LONGEST_AHEAD_S);
    let deadline = Some(wanted.deadline_seconds);
    fields.range("/supply/deadline_seconds", deadline, DEADLINE_SECONDS);
    let mut seen = BTreeSet::new();
    for (index, source) in wanted.sources.iter().enumerate() {
        if !seen.insert(*source) {
            let pointer = format!("/supply/sources/{index}");
            fields.wrong(pointer, "duplicate_source", "is in the list twice");
        }
    }
    let keeper = wanted.keeper.as_deref();
    let keeper = keeper.and_then(|keeper| fields.parse::<MemberId>("/supply/keeper", keeper));
    if seen.contains(&SupplySourceName::Person) && wanted.keeper.is_none() {
        let message = "must say who makes groups by hand where `sources` has person";
        fields.wrong("/supply/keeper", "required", message);
    }
    Supply {
        min_free: small(wanted.min_free),
        ahead_seconds: small(wanted.ahead_seconds),
        sources: wanted.sources.iter().copied().map(Into::into).collect(),
        keeper,
        deadline_seconds: small(wanted.deadline_seconds),
    }
}

/// What is out of range is refused beside this.
pub(super) fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
