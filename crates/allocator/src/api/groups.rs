//! Customer groups: which pool they are in, and what is known of them.

use std::collections::BTreeSet;

use allocation::{ChatId, GroupCount, GroupPoolId, GroupTag, MAX_SEAT_TAGS};
use axum::http::StatusCode;
use ledger::{Group, GroupCaps, GroupFilter, GroupRefused, GroupState, NewGroup, OwnCaps};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Operator, Viewer},
    docs::Refusals,
    etag::{self, Condition, Versioned},
    extract::{Json, Path, Query},
    group_pools::{BUFFERS, CAPS, caps_make_sense, small},
    group_words::{GroupSourceName, GroupStateName, WantedGroupState},
    groups_at_wecom::at_wecom,
    open_seats::Force,
    page::{List, list_query},
    problem::{Details, Problem},
    validate::{self, Fields},
    when::When,
};

const MOST_RANK: u64 = 1_000_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, put, delete))
}

/// What a group is to be: the whole of it, what is left out is not.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PutGroup {
    /// The pool that it is filled in; null: nobody fills it.
    group_pool: Option<String>,
    /// Its place in the pool; the lowest is filled first.
    #[serde(default)]
    #[schema(default = 0, maximum = 1_000_000)]
    rank: u64,
    /// Null: as the pool has it; so are the two below.
    #[schema(minimum = 1, maximum = 2000)]
    scan_cap: Option<u64>,
    #[schema(minimum = 1, maximum = 2000)]
    hard_cap: Option<u64>,
    #[schema(minimum = 0, maximum = 1999)]
    buffer: Option<u64>,
    /// A city, a topic: visitors may be sent to groups with one. Each once.
    #[serde(default)]
    #[schema(max_items = 8)]
    tags: Vec<String>,
    #[serde(default)]
    #[schema(default = "open")]
    state: WantedGroupState,
}

/// A group as it is.
#[derive(Debug, Serialize, ToSchema)]
struct GroupView {
    /// WeCom's chat_id.
    id: String,
    #[schema(required)]
    group_pool: Option<String>,
    rank: u32,
    /// Its own; null: as the pool has it.
    #[schema(required)]
    scan_cap: Option<u32>,
    #[schema(required)]
    hard_cap: Option<u32>,
    #[schema(required)]
    buffer: Option<u32>,
    /// What counts; null while it is in no pool.
    #[schema(required)]
    caps: Option<GroupCapsView>,
    tags: Vec<String>,
    state: GroupStateName,
    source: GroupSourceName,
    /// What keeps it from being shown, whether there is room or not; nothing: it is shown while there is.
    not_shown: Vec<NotShown>,
    /// As WeCom said when it was last read; so are the two below. Null: it never was.
    #[schema(required)]
    name: Option<String>,
    /// The userid.
    #[schema(required)]
    owner: Option<String>,
    /// Everybody in it, the corp's own people too.
    #[schema(required)]
    people: Option<u32>,
    #[schema(required)]
    read_at: Option<When>,
    /// Its seats in this moment. Null: it is in no pool, or its people are not known (yet); then it is shown to nobody.
    #[schema(required)]
    seats: Option<GroupSeatsView>,
    /// Why it could not be read the last time; null: it could.
    #[schema(required)]
    problem: Option<GroupProblemView>,
    version: u64,
    created_at: When,
    updated_at: When,
}

/// How many people a group takes.
#[derive(Debug, Serialize, ToSchema)]
struct GroupCapsView {
    scan_cap: u32,
    hard_cap: u32,
    buffer: u32,
}

impl From<GroupCaps> for GroupCapsView {
    fn from(caps: GroupCaps) -> Self {
        Self {
            scan_cap: caps.scan_cap,
            hard_cap: caps.hard_cap,
            buffer: caps.buffer,
        }
    }
}

/// How full a group is.
#[derive(Debug, Serialize, ToSchema)]
struct GroupSeatsView {
    /// Who is in it, the corp's own people too, as far as events and reads said.
    people: u32,
    /// Held for visitors who were shown it.
    held: u32,
    /// Left below `scan_cap` less `buffer`.
    free: u32,
    /// So many of these people and visitors are above `scan_cap`: others came in past us. Who is not known by name yet is not counted
    /// beside a hold that may be his.
    oversold: u32,
}

impl From<GroupCount> for GroupSeatsView {
    fn from(count: GroupCount) -> Self {
        Self {
            people: count.people,
            held: count.held,
            free: count.free,
            oversold: count.oversold,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
struct GroupProblemView {
    /// WeCom's number; null: it gave none.
    #[schema(required)]
    errcode: Option<i64>,
    problem: String,
}

/// Why a group is shown to nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum NotShown {
    NotInPool,
    Closed,
    Spare,
    Dismissed,
    /// WeCom has not said yet who is in it.
    NeverRead,
    /// It was read, and is to be read again before it is shown: it came into the pool a moment ago, or Redis was rebuilt.
    NotCounted,
    /// No code of a campaign has led into it yet.
    NoJoinWay,
}

impl NotShown {
    fn of(group: &Group, seats: Option<GroupCount>) -> Vec<Self> {
        let mut why = Vec::new();
        if group.pool.is_none() {
            why.push(Self::NotInPool);
        }
        match group.state {
            GroupState::Open => {}
            GroupState::Closed => why.push(Self::Closed),
            GroupState::Spare => why.push(Self::Spare),
            GroupState::Dismissed => why.push(Self::Dismissed),
        }
        // In a pool what counts is what Redis knows: after a rebuild a group is read again though its row has a read.
        let is_there = group.state != GroupState::Dismissed;
        let is_unread = seats.is_none() && group.pool.is_some() && is_there;
        if group.said.is_none() {
            why.push(Self::NeverRead);
        } else if is_unread {
            why.push(Self::NotCounted);
        }
        if group.pool.is_some() && group.way_ms.is_none() && is_there {
            why.push(Self::NoJoinWay);
        }
        why
    }
}

impl GroupView {
    fn of(group: Group, seats: Option<GroupCount>) -> Self {
        let not_shown = NotShown::of(&group, seats);
        let said = group.said;
        let (people, read_at) = said
            .as_ref()
            .map(|said| (said.member_count, When(said.read_ms)))
            .unzip();
        let (name, owner) = said.map(|said| (said.name, said.owner)).unzip();
        Self {
            id: group.id.into(),
            group_pool: group.pool.map(String::from),
            rank: group.rank,
            scan_cap: group.own_caps.scan_cap,
            hard_cap: group.own_caps.hard_cap,
            buffer: group.own_caps.buffer,
            caps: group.caps.map(GroupCapsView::from),
            tags: group.tags.into_iter().map(String::from).collect(),
            state: group.state.into(),
            source: group.source.into(),
            not_shown,
            name,
            owner,
            people,
            read_at,
            seats: seats.map(GroupSeatsView::from),
            problem: group.problem.map(|problem| GroupProblemView {
                errcode: problem.errcode,
                problem: problem.error,
            }),
            version: group.version,
            created_at: When(group.created_ms),
            updated_at: When(group.updated_ms),
        }
    }
}

list_query! {
    /// Which groups.
    GroupQuery {
        /// Of this pool.
        group_pool: Option<String>,
        #[param(inline)]
        state: Option<GroupStateName>,
    }
}

/// Groups, the latest first.
#[utoipa::path(get, path = "/groups", tag = "groups", operation_id = "list_groups", params(GroupQuery),
    responses((status = 200, body = List<GroupView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<GroupQuery>,
) -> Result<axum::Json<List<GroupView>>, Problem> {
    let page = query.page();
    let mut fields = Fields::default();
    let pool = query.group_pool.as_deref();
    let pool = pool.and_then(|pool| fields.parse::<GroupPoolId>("query:group_pool", pool));
    fields.check()?;
    let filter = GroupFilter {
        pool,
        state: query.state.map(GroupState::from),
    };
    let groups = ctx.app.ledger.groups();
    let groups = groups.list(ctx.id(), &filter, &page.request()?).await?;
    let mut seats = seats(&ctx, &groups.items).await.into_iter();
    Ok(axum::Json(List::of(groups, page.limit()?, |group| {
        GroupView::of(group, seats.next().flatten())
    })))
}

/// One group. Its `ETag` goes into `If-Match` of a change.
#[utoipa::path(get, path = "/groups/{chat_id}", tag = "groups", operation_id = "get_group",
    params(("chat_id" = String, Path)), responses((status = 200, body = GroupView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<GroupPath>,
) -> Result<Versioned<GroupView>, Problem> {
    let group = ctx.app.ledger.groups().get(ctx.id(), &path.id()?).await?;
    let group = group.ok_or_else(|| Problem::not_found("group"))?;
    let seats = seats(&ctx, std::slice::from_ref(&group)).await;
    let (version, seats) = (group.version, seats.into_iter().next().flatten());
    Ok(Versioned::ok(version, GroupView::of(group, seats)))
}

/// Of each of these, in their order. Redis being away keeps nobody from reading what Postgres has.
async fn seats(ctx: &Ctx, groups: &[Group]) -> Vec<Option<GroupCount>> {
    let chats: Vec<ChatId> = groups.iter().map(|group| group.id.clone()).collect();
    match ctx.corp.roster.group_counts(&chats).await {
        Ok(counts) => counts,
        Err(error) => {
            tracing::debug!(corp = %ctx.corp.id, error = %error, "how full groups are is not known now");
            vec![None; groups.len()]
        }
    }
}

/// Says what a group is to be; one that is not known is known from then on, and shown to nobody before it was read at WeCom.
/// One that WeCom does not have is refused; while WeCom does not answer it is taken.
/// `If-Match` with its ETag guards against overwriting somebody else's change, `If-None-Match: *` makes it only if it is new;
/// without either the last writer wins. 409 `group_has_seats` where it is to be in no pool and visitors hold seats in it.
#[utoipa::path(put, path = "/groups/{chat_id}", tag = "groups", operation_id = "put_group",
    params(("chat_id" = String, Path), Force,
        ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)),
    request_body = PutGroup,
    responses((status = 200, body = GroupView), (status = 201, body = GroupView),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn put(
    Operator(ctx): Operator,
    Path(path): Path<GroupPath>,
    Query(force): Query<Force>,
    Condition(condition): Condition,
    Json(wanted): Json<PutGroup>,
) -> Result<Versioned<GroupView>, Problem> {
    let id = path.id()?;
    let new = check(&wanted)?;
    if new.pool.is_none() {
        force.check_group(&ctx, &id).await?;
    }
    at_wecom(&ctx, &id, "path:chat_id").await?;
    let groups = ctx.app.ledger.groups();
    let put = groups
        .put(ctx.id(), &id, &new, condition, &ctx.trail(None))
        .await?;
    ctx.corp.groups_changed.notify_one();
    let put: Versioned<Group> = etag::put(put, version, |why| {
        refused(why, wanted.group_pool.as_deref())
    })?;
    let seats = seats(&ctx, std::slice::from_ref(&put.body)).await;
    Ok(Versioned {
        body: GroupView::of(put.body, seats.into_iter().next().flatten()),
        status: put.status,
        version: put.version,
    })
}

/// Forgets a group; at WeCom it stays as it is. An import, or a PUT, makes it known again. 409 `group_has_seats` while visitors
/// hold seats in it.
#[utoipa::path(delete, path = "/groups/{chat_id}", tag = "groups", operation_id = "delete_group",
    params(("chat_id" = String, Path), Force, ("If-Match" = Option<String>, Header)),
    responses((status = 204, description = "It is gone."),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn delete(
    Operator(ctx): Operator,
    Path(path): Path<GroupPath>,
    Query(force): Query<Force>,
    Condition(condition): Condition,
) -> Result<StatusCode, Problem> {
    let (groups, id) = (ctx.app.ledger.groups(), path.id()?);
    force.check_group(&ctx, &id).await?;
    let deleted = groups
        .delete(ctx.id(), &id, condition, &ctx.trail(None))
        .await?;
    ctx.corp.groups_changed.notify_one();
    etag::deleted(deleted, "group", version, |never| match never {})
}

fn refused(why: GroupRefused, pool: Option<&str>) -> Problem {
    let pool = pool.unwrap_or_default();
    match why {
        GroupRefused::NoPool => no_pool(pool),
        GroupRefused::PoolFull(most) => Problem::conflict(
            "group_pool_full",
            format!("{pool} has {most} groups; more are not possible."),
        ),
        GroupRefused::Caps(caps) => {
            let mut fields = Fields::default();
            caps_make_sense(&mut fields, caps);
            fields
                .check()
                .err()
                .unwrap_or_else(|| Problem::not_found("group pool"))
        }
        GroupRefused::Dismissed => Problem::conflict(
            "group_dismissed",
            "It is no more at WeCom. Should that be wrong, delete it here and put it again.",
        ),
    }
}

pub(super) fn no_pool(pool: &str) -> Problem {
    let message = format!("there is no group pool {pool}");
    Problem::field("/group_pool", "unknown_group_pool", message)
}

fn version(group: &Group) -> u64 {
    group.version
}

#[derive(Debug, Deserialize)]
struct GroupPath {
    chat_id: String,
}

impl GroupPath {
    fn id(&self) -> Result<ChatId, Problem> {
        validate::in_path("chat_id", &self.chat_id)
    }
}

fn check(wanted: &PutGroup) -> Result<NewGroup, Problem> {
    let mut fields = Fields::default();
    let pool = wanted.group_pool.as_deref();
    let pool = pool.and_then(|pool| fields.parse::<GroupPoolId>("/group_pool", pool));
    fields.range("/rank", Some(wanted.rank), 0..=MOST_RANK);
    fields.range("/scan_cap", wanted.scan_cap, CAPS);
    fields.range("/hard_cap", wanted.hard_cap, CAPS);
    fields.range("/buffer", wanted.buffer, BUFFERS);
    let tags = tags(&mut fields, &wanted.tags);
    let caps = OwnCaps {
        scan_cap: wanted.scan_cap.map(small),
        hard_cap: wanted.hard_cap.map(small),
        buffer: wanted.buffer.map(small),
    };
    // What its pool has is looked at with the pool; alone, only its own numbers can be at odds.
    if fields.is_empty() && pool.is_none() {
        let scan_cap = caps.scan_cap.or(caps.hard_cap).unwrap_or(u32::MAX);
        let own = GroupCaps {
            scan_cap,
            hard_cap: caps.hard_cap.unwrap_or(u32::MAX),
            buffer: caps.buffer.unwrap_or_default(),
        };
        caps_make_sense(&mut fields, own);
    }
    fields.check()?;
    Ok(NewGroup {
        pool,
        rank: small(wanted.rank),
        caps,
        tags,
        state: wanted.state.into(),
    })
}

/// Tags of a group, each once and in order.
pub(super) fn tags(fields: &mut Fields, wanted: &[String]) -> Vec<GroupTag> {
    if wanted.len() > MAX_SEAT_TAGS {
        let message = format!("at most {MAX_SEAT_TAGS} tags are possible");
        fields.wrong("/tags", "too_many", message);
    }
    let mut tags = BTreeSet::new();
    for (index, text) in wanted.iter().enumerate().take(MAX_SEAT_TAGS) {
        let pointer = format!("/tags/{index}");
        let Some(tag) = fields.parse::<GroupTag>(pointer.clone(), text) else {
            continue;
        };
        if !tags.insert(tag.clone()) {
            let message = format!("{tag} is in the list twice");
            fields.wrong(pointer, "duplicate_tag", message);
        }
    }
    tags.into_iter().collect()
}
