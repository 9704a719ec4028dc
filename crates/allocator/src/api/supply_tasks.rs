//! Groups that pools lack: what was asked for, and what came of it.

use allocation::{ChatId, GroupPoolId};
use axum::http::StatusCode;
use ledger::{
    Completed, NewSupplyTask, SupplySource, SupplyTask, SupplyTaskFilter, SupplyTaskState,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{Operator, Viewer},
    docs::Refusals,
    extract::{Json, Path, Query},
    group_words::SupplySourceName,
    groups_at_wecom::at_wecom,
    page::{List, list_query},
    pool_supply::{PoolPath, generation, why},
    problem::Problem,
    validate::Fields,
    when::When,
};
use crate::fission::supply::{forecast, rooms::NO_WAY};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(create))
        .routes(routes!(complete))
        .routes(routes!(cancel))
}

/// How far the groups are.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SupplyTaskWord {
    /// Nothing was done yet: `problem` says why.
    Wanted,
    /// They are on their way.
    Asked,
    /// They did not come in time, and the next source was tried; those that come all the same are taken.
    Overdue,
    Done,
    /// Given up for a while.
    Failed,
    Cancelled,
}

macro_rules! same_words {
    ($($word:ident),+) => {
        impl From<SupplyTaskWord> for SupplyTaskState {
            fn from(word: SupplyTaskWord) -> Self {
                match word { $(SupplyTaskWord::$word => Self::$word),+ }
            }
        }

        impl From<SupplyTaskState> for SupplyTaskWord {
            fn from(state: SupplyTaskState) -> Self {
                match state { $(SupplyTaskState::$word => Self::$word),+ }
            }
        }
    };
}
same_words!(Wanted, Asked, Overdue, Done, Failed, Cancelled);

/// Groups that a pool is to get from one source.
#[derive(Debug, Serialize, ToSchema)]
struct SupplyTaskView {
    id: String,
    group_pool: String,
    source: SupplySourceName,
    state: SupplyTaskWord,
    /// How many.
    groups: u32,
    /// Those that came.
    chat_ids: Vec<String>,
    /// `supply`, or who asked over the API.
    asked_by: String,
    /// What the pool was like then.
    why: SupplyWhyView,
    /// Who makes groups by hand, or in whose name WeCom opens a room.
    #[schema(required)]
    keeper: Option<String>,
    /// People who were shown the code of a full group, so that WeCom opens a room.
    openers: u32,
    /// Since when they are on their way.
    #[schema(required)]
    asked_at: Option<When>,
    #[schema(required)]
    reminded_at: Option<When>,
    #[schema(required)]
    deadline_at: Option<When>,
    /// Of a task that failed, is overdue or was called off: so long its source rests, unless the pool is changed.
    #[schema(required)]
    next_try_at: Option<When>,
    tries: u32,
    #[schema(required)]
    errcode: Option<i64>,
    #[schema(required)]
    problem: Option<String>,
    created_at: When,
    #[schema(required)]
    settled_at: Option<When>,
}

#[derive(Debug, Serialize, ToSchema)]
struct SupplyWhyView {
    /// Free seats.
    free: u64,
    /// People in the waiting room.
    waiting: u64,
    /// Seats asked for a second.
    rate: f64,
}

impl From<SupplyTask> for SupplyTaskView {
    fn from(task: SupplyTask) -> Self {
        Self {
            id: task.id.to_string(),
            group_pool: task.pool.into(),
            source: task.source.into(),
            state: task.state.into(),
            groups: task.n_groups,
            chat_ids: task.chats.into_iter().map(String::from).collect(),
            asked_by: task.asked_by,
            why: SupplyWhyView {
                free: task.why.free,
                waiting: task.why.waiting,
                rate: task.why.rate,
            },
            keeper: task.keeper,
            openers: task.openers,
            asked_at: task.asked_ms.map(When),
            reminded_at: task.reminded_ms.map(When),
            deadline_at: task.deadline_ms.map(When),
            next_try_at: task.next_try_ms.map(When),
            tries: task.tries,
            errcode: task.last_errcode,
            problem: task.last_error,
            created_at: When(task.created_ms),
            settled_at: task.settled_ms.map(When),
        }
    }
}

list_query! {
    /// Which tasks; every filter that is given must match.
    SupplyTaskQuery {
        /// Of this pool.
        group_pool: Option<String>,
        #[param(inline)]
        state: Option<SupplyTaskWord>,
        #[param(inline)]
        source: Option<SupplySourceName>,
    }
}

/// Groups that pools lack or lacked, the latest first.
#[utoipa::path(get, path = "/supply-tasks", tag = "groups", operation_id = "list_supply_tasks", params(SupplyTaskQuery),
    responses((status = 200, body = List<SupplyTaskView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<SupplyTaskQuery>,
) -> Result<axum::Json<List<SupplyTaskView>>, Problem> {
    let page = query.page();
    let mut fields = Fields::default();
    let pool = query.group_pool.as_deref();
    let pool = pool.and_then(|pool| fields.parse::<GroupPoolId>("query:group_pool", pool));
    fields.check()?;
    let filter = SupplyTaskFilter {
        pool,
        state: query.state.map(SupplyTaskState::from),
        source: query.source.map(SupplySource::from),
    };
    let tasks = ctx.app.ledger.supply_tasks();
    let tasks = tasks.list(ctx.id(), &filter, &page.request()?).await?;
    let list = List::of(tasks, page.limit()?, SupplyTaskView::from);
    Ok(axum::Json(list))
}

/// One task.
#[utoipa::path(get, path = "/supply-tasks/{supply_task_id}", tag = "groups", operation_id = "get_supply_task",
    params(("supply_task_id" = String, Path)), responses((status = 200, body = SupplyTaskView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<SupplyTaskPath>,
) -> Result<axum::Json<SupplyTaskView>, Problem> {
    let tasks = ctx.app.ledger.supply_tasks();
    let task = tasks.get(ctx.id(), path.id()?).await?.ok_or_else(missing)?;
    Ok(axum::Json(task.into()))
}

#[derive(Debug, Deserialize)]
struct SupplyTaskPath {
    supply_task_id: String,
}

impl SupplyTaskPath {
    fn id(&self) -> Result<Uuid, Problem> {
        self.supply_task_id.parse().map_err(|_| missing())
    }
}

fn missing() -> Problem {
    Problem::not_found("supply task")
}

/// Groups that are wanted now.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewSupplyTaskBody {
    source: SupplySourceName,
    /// How many.
    #[serde(default = "one")]
    #[schema(default = 1, minimum = 1, maximum = 20)]
    groups: u64,
}

fn one() -> u64 {
    1
}

/// Gets the pool groups from this source now, whether it lacks some or not, and whether the source rests or not. While such a task is
/// open another one is refused (409). A room is opened when somebody waits and scans; the task's time begins then.
#[utoipa::path(post, path = "/group-pools/{group_pool_id}/supply-tasks", tag = "groups", operation_id = "create_supply_task",
    params(("group_pool_id" = String, Path)), request_body = NewSupplyTaskBody,
    responses((status = 201, body = SupplyTaskView), Refusals))]
async fn create(
    Operator(ctx): Operator,
    Path(path): Path<PoolPath>,
    Json(wanted): Json<NewSupplyTaskBody>,
) -> Result<(StatusCode, axum::Json<SupplyTaskView>), Problem> {
    let id = path.id()?;
    let pool = ctx.app.ledger.group_pools().get(ctx.id(), &id).await?;
    let pool = pool.ok_or_else(|| Problem::not_found("group pool"))?;
    let mut fields = Fields::default();
    fields.range("/groups", Some(wanted.groups), 1..=forecast::MOST.into());
    let source = SupplySource::from(wanted.source);
    let is_person = source == SupplySource::Person;
    if is_person && pool.supply.keeper.is_none() {
        let message = "needs a keeper: put the pool with `supply.keeper`";
        fields.wrong("/source", "no_keeper", message);
    }
    if source == SupplySource::AutoRoom {
        if wanted.groups > 1 {
            let message = "must be 1: WeCom opens one room at a time";
            fields.wrong("/groups", "one_room", message);
        }
        if !pool.supply.sources.contains(&source) {
            let message =
                "is none of the pool's: put the pool with auto_room among `supply.sources`";
            fields.wrong("/source", "no_source", message);
        }
    }
    fields.check()?;
    let trail = ctx.trail(None);
    let tasks = ctx.app.ledger.supply_tasks();
    if source == SupplySource::AutoRoom {
        let generation = generation(&ctx).await?;
        let (corp, now_ms) = (ctx.id(), trail.now_ms);
        if !tasks.can_open(corp, &id, generation, now_ms).await? {
            return Err(Problem::conflict("no_way", format!("{NO_WAY}.")));
        }
    }
    let keeper = pool.supply.keeper.as_ref().filter(|_| is_person);
    let deadline_ms = trail.now_ms + u64::from(pool.supply.deadline_seconds) * 1_000;
    let new = NewSupplyTask {
        pool: id.clone(),
        source,
        n_groups: u32::try_from(wanted.groups).unwrap_or(1),
        asked_by: trail.actor.clone(),
        why: why(&ctx, &id).await?,
        keeper: keeper.map(|keeper| ctx.corp.names.userid(keeper)),
        deadline_ms: is_person.then_some(deadline_ms),
        error: None,
    };
    let Some(task) = tasks.ask(ctx.id(), &new, None, &trail).await? else {
        let detail = "A task of this pool and source is open: see GET /supply-tasks.";
        return Err(Problem::conflict("supply_task_open", detail));
    };
    ctx.corp.seats_lacking.notify_one();
    Ok((StatusCode::CREATED, axum::Json(task.into())))
}

/// A group that somebody made for the pool.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CompleteSupplyTask {
    /// WeCom's id of the group.
    chat_id: String,
}

/// Says that this group is one of those that the task waits for: it comes into the pool, open, after all others. One that WeCom does
/// not have is refused; while WeCom does not answer it is taken, and shown to nobody before it was read. Saying it again changes
/// nothing.
#[utoipa::path(post, path = "/supply-tasks/{supply_task_id}/complete", tag = "groups", operation_id = "complete_supply_task",
    params(("supply_task_id" = String, Path)), request_body = CompleteSupplyTask,
    responses((status = 200, body = SupplyTaskView), Refusals))]
async fn complete(
    Operator(ctx): Operator,
    Path(path): Path<SupplyTaskPath>,
    Json(wanted): Json<CompleteSupplyTask>,
) -> Result<axum::Json<SupplyTaskView>, Problem> {
    let id = path.id()?;
    let mut fields = Fields::default();
    let chat = fields.parse::<ChatId>("/chat_id", &wanted.chat_id);
    fields.check()?;
    let chat = chat.ok_or_else(missing)?;
    let tasks = ctx.app.ledger.supply_tasks();
    tasks.get(ctx.id(), id).await?.ok_or_else(missing)?;
    at_wecom(&ctx, &chat, "/chat_id").await?;
    let completed = tasks
        .complete(ctx.id(), id, &chat, &ctx.trail(None))
        .await?;
    match completed {
        Completed::Taken(task) => {
            ctx.corp.groups_changed.notify_one();
            Ok(axum::Json(task.into()))
        }
        Completed::Before(task) => Ok(axum::Json(task.into())),
        Completed::NoTask => Err(missing()),
        Completed::Ended(task) => Err(ended(&task)),
        Completed::Elsewhere(pool) => {
            let message = format!("is in the group pool {pool}; take it out there first");
            Err(Problem::field("/chat_id", "in_another_pool", message))
        }
        Completed::Dismissed => {
            let message = "is no more at WeCom";
            Err(Problem::field("/chat_id", "group_dismissed", message))
        }
        Completed::PoolFull(most) => {
            let detail = format!("The pool has {most} groups; more are not possible.");
            Err(Problem::conflict("group_pool_full", detail))
        }
        Completed::NoPool => Err(Problem::not_found("group pool")),
    }
}

/// Nobody waits for its groups any more; those that came stay. Its source rests for the pool's `deadline_seconds`, and a change of the
/// pool or a task by hand ends that. Saying it again changes nothing.
#[utoipa::path(post, path = "/supply-tasks/{supply_task_id}/cancel", tag = "groups", operation_id = "cancel_supply_task",
    params(("supply_task_id" = String, Path)), responses((status = 200, body = SupplyTaskView), Refusals))]
async fn cancel(
    Operator(ctx): Operator,
    Path(path): Path<SupplyTaskPath>,
) -> Result<axum::Json<SupplyTaskView>, Problem> {
    let (tasks, id) = (ctx.app.ledger.supply_tasks(), path.id()?);
    let task = tasks.get(ctx.id(), id).await?.ok_or_else(missing)?;
    let pools = ctx.app.ledger.group_pools();
    let pool = pools.get(ctx.id(), &task.pool).await?;
    let rest_s = pool.map_or(0, |pool| pool.supply.deadline_seconds);
    let trail = ctx.trail(None);
    let rest_until_ms = trail.now_ms + u64::from(rest_s) * 1_000;
    let cancelled = tasks.cancel(ctx.id(), id, rest_until_ms, &trail).await?;
    let (task, changed) = cancelled.ok_or_else(missing)?;
    if !changed && task.state != SupplyTaskState::Cancelled {
        return Err(ended(&task));
    }
    Ok(axum::Json(task.into()))
}

fn ended(task: &SupplyTask) -> Problem {
    let current = json!({"state": task.state.as_str()});
    Problem::conflict("supply_task_ended", "It has ended already.").with_current(current)
}
