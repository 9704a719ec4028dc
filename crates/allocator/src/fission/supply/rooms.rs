//! WeCom opens a room by itself when somebody scans the code of a group that is full, if its join way says so. The API has no other
//! way to make a group, and we show no full group: so one way of the pool is told to open rooms, and a few of those who wait are
//! shown its code (`show`). They keep their place; whoever comes into the group, or into the new one, has his seat by that.
//!
//! Which way that is stands in its row before WeCom knows (`ledger`: `arm`), and `join_ways::change` tells WeCom, as it does of
//! groups: once more until it is known, within the quota. A task that ends in any way takes it back the same way.

use allocation::{ChatId, GroupTag, GroupTags, SeatId};
use ledger::{
    ASKED_BY_SUPPLY, Armed, ArmedWay, Completed, SupplySource, SupplyStep, SupplyTask,
    SupplyTaskState, Trail,
};
use quota::Urgency;
use wecom::client::api;

use super::{
    Error, Look, count, found, look, mark_unknown,
    turn::{ENOUGH, Hands},
};
use crate::{
    app::{App, CorpApp},
    backoff::jittered,
    fission::campaigns::Campaign,
    permit,
};

/// Rooms are looked for so often while nobody was shown the code, and once somebody was.
const SEARCH_MS: u64 = 60_000;
const SHOWN_SEARCH_MS: u64 = 15_000;
/// After a code was shown WeCom is asked so soon.
const OPENED_MS: u64 = 5_000;
/// Another way may still open rooms until then.
const BUSY_MS: u64 = 1_000;
/// The source rests so long when no way can open one.
const NO_WAY_MS: u64 = 300_000;
pub(crate) const NO_WAY: &str = "no code leads into one open group of the pool alone that was read and whose buffer is at most 18: WeCom \
                      opens no room";

const NOT_SUPPLIED: &str =
    "no open campaign fills the pool any more, or auto_room is none of its sources";

/// Something is to be done about it now.
pub(super) fn is_due(task: &SupplyTask, now_ms: u64) -> bool {
    let due_ms = [
        task.next_try_ms.unwrap_or_default(),
        task.deadline_ms.unwrap_or(u64::MAX),
    ];
    task.source == SupplySource::AutoRoom && due_ms.into_iter().min() <= Some(now_ms)
}

/// Since when the groups are late: nobody opens a room before somebody waits, so a task's time does not begin before.
pub(super) fn deadline(look: &Look, now_ms: u64) -> Option<u64> {
    let seconds = u64::from(look.pool.supply.deadline_seconds);
    (look.seen.waiting > 0).then_some(now_ms + seconds * 1_000)
}

/// The code of a full group that whoever has this place in the waiting room is shown, so that WeCom opens a room for him; None:
/// he just waits. `tags`: those of the groups that are right for him.
pub(in crate::fission) async fn show(
    app: &App,
    corp: &CorpApp,
    campaign: &Campaign,
    seat: SeatId,
    position: u32,
    tags: &GroupTags,
) -> Result<Option<String>, Error> {
    let Some((way, chat)) = corp.join_ways.opening(&campaign.id) else {
        return Ok(None);
    };
    if position as usize > ledger::MOST_OPENERS {
        return Ok(None);
    }
    let Some(group) = corp.roster.group(&chat).await? else {
        return Ok(None);
    };
    let has = |wish: Option<&GroupTag>| wish.is_none_or(|tag| group.config.tags().contains(tag));
    if group.seen.is_none() || !tags.wishes().any(has) {
        return Ok(None);
    }
    // A place that is held is somebody else's: he must find it, and if he does not come it is given to whoever waits.
    let taken = group.count.people.saturating_add(group.count.held);
    let lacking = group.config.scan_cap().saturating_sub(taken);
    let look_ms = app.now_ms() + OPENED_MS;
    let tasks = app.ledger.supply_tasks();
    let is_shown = tasks.opens(&corp.id, &way, seat, lacking, look_ms).await?;
    Ok(is_shown.then_some(way))
}

impl Hands<'_> {
    /// All tasks that are due.
    pub(super) async fn rooms(&self) -> Result<(), Error> {
        let looks = look(self.app, self.corp, self.generation).await?;
        let tasks = self.app.ledger.supply_tasks().open(&self.corp.id).await?;
        let now_ms = self.app.now_ms();
        let due = tasks.iter().filter(|task| is_due(task, now_ms));
        let ended = due.map(|task| {
            let look = looks.iter().find(|look| look.pool.id == task.pool);
            self.room(task, look)
        });
        let ended = futures_util::future::join_all(ended).await;
        ended.into_iter().collect()
    }

    /// `look` None: its pool is not supplied now.
    async fn room(&self, task: &SupplyTask, look: Option<&Look>) -> Result<(), Error> {
        let now_ms = self.app.now_ms();
        let is_due = task.next_try_ms.is_none_or(|next_ms| next_ms <= now_ms);
        let is_over = task.deadline_ms.is_some_and(|end_ms| end_ms <= now_ms);
        if task.state == SupplyTaskState::Overdue {
            return match is_due {
                true => self.given_up(task).await,
                false => Ok(()),
            };
        }
        let look = look.filter(|look| look.pool.supply.sources.contains(&SupplySource::AutoRoom));
        let Some(look) = look else {
            return self.enough(task, NOT_SUPPLIED).await;
        };
        let armed = self.app.ledger.supply_tasks();
        let armed = armed.armed(&self.corp.id, task.id).await?;
        if is_over {
            if let Some(way) = &armed {
                self.search(task, way).await?;
            }
            let rest_ms = u64::from(look.pool.supply.deadline_seconds) * 1_000;
            return self.overdue(task, rest_ms.max(SEARCH_MS)).await;
        }
        let is_lacking = look.need > 0 || look.seen.waiting > 0;
        if !is_lacking && task.asked_by == ASKED_BY_SUPPLY {
            return self.enough(task, ENOUGH).await;
        }
        match (task.state, armed) {
            (_, None) => self.arm(task, look).await,
            (SupplyTaskState::Wanted, Some(way)) => self.told(task, look, &way).await,
            (SupplyTaskState::Asked, Some(way)) if is_due => {
                self.search(task, &way).await?;
                let pause_ms = match task.openers {
                    0 => SEARCH_MS,
                    _ => SHOWN_SEARCH_MS,
                };
                let step = SupplyStep {
                    next_try_ms: Some(now_ms + pause_ms),
                    deadline_ms: deadline(look, now_ms),
                    ..SupplyStep::default()
                };
                self.step(task, &step).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Chooses the way.
    async fn arm(&self, task: &SupplyTask, look: &Look) -> Result<(), Error> {
        let now_ms = self.app.now_ms();
        let tasks = self.app.ledger.supply_tasks();
        let (id, name) = (&self.corp.id, &look.pool.name);
        let armed = tasks.arm(id, task, self.fence, self.generation, name, now_ms);
        let step = match armed.await? {
            Armed::Armed { way, chat } => {
                count(self.corp, "auto_room", "armed");
                tracing::info!(corp = %self.corp.id, pool = %task.pool, task = %task.id, way, group = %chat,
                    "a join way is to open a room when its group is full");
                return Ok(());
            }
            Armed::NotOurs => return Ok(()),
            Armed::Busy => SupplyStep {
                next_try_ms: Some(now_ms + BUSY_MS),
                deadline_ms: deadline(look, now_ms),
                error: Some("another way of the pool may still open rooms".to_owned()),
                ..SupplyStep::default()
            },
            Armed::NoWay => {
                count(self.corp, "auto_room", "unusable");
                SupplyStep {
                    state: Some(SupplyTaskState::Failed),
                    next_try_ms: Some(now_ms + NO_WAY_MS),
                    error: Some(NO_WAY.to_owned()),
                    ..SupplyStep::default()
                }
            }
        };
        self.step(task, &step).await.map(drop)
    }

    /// Whether WeCom knows it by now. What it says instead is the task's, too; what it will say to the end of the task's time ends
    /// it at once.
    async fn told(&self, task: &SupplyTask, look: &Look, way: &ArmedWay) -> Result<(), Error> {
        let now_ms = self.app.now_ms();
        if way.is_told {
            let step = SupplyStep {
                state: Some(SupplyTaskState::Asked),
                asked_ms: Some(now_ms),
                next_try_ms: Some(now_ms + SEARCH_MS),
                deadline_ms: deadline(look, now_ms),
                ..SupplyStep::default()
            };
            count(self.corp, "auto_room", "asked");
            return self.step(task, &step).await.map(drop);
        }
        let seconds = u64::from(look.pool.supply.deadline_seconds);
        let end_ms = task.deadline_ms.unwrap_or(now_ms + seconds * 1_000);
        let error = || way.last_error.clone();
        if way.last_errcode.is_some() && way.next_try_ms.is_some_and(|next_ms| next_ms > end_ms) {
            count(self.corp, "auto_room", "failed");
            tracing::warn!(corp = %self.corp.id, pool = %task.pool, task = %task.id, way = way.way, error = error(),
                "a join way cannot be told to open a room");
            let step = SupplyStep {
                state: Some(SupplyTaskState::Failed),
                next_try_ms: Some(now_ms + jittered(self.app.config.fission.failed_ms)),
                errcode: way.last_errcode,
                error: error(),
                ..SupplyStep::default()
            };
            return self.step(task, &step).await.map(drop);
        }
        let begins = task.deadline_ms.is_none() && look.seen.waiting > 0;
        if !begins && task.last_error == way.last_error {
            return Ok(());
        }
        let step = SupplyStep {
            deadline_ms: deadline(look, now_ms),
            errcode: way.last_errcode,
            error: error(),
            ..SupplyStep::default()
        };
        self.step(task, &step).await.map(drop)
    }

    /// Rooms of which no event told: in the way's own list, if WeCom puts them there, and among the groups of the owner.
    async fn search(&self, task: &SupplyTask, way: &ArmedWay) -> Result<(), Error> {
        let (app, corp) = (self.app, self.corp);
        if let Ok(permit) = permit::take(app, corp, api::GET_JOIN_WAY, Urgency::Ordinary).await {
            let answer = corp.client.get_join_way(&way.config_id).await;
            permit::done(app, corp, api::GET_JOIN_WAY, &permit, &answer).await;
            match answer {
                Ok(there) => self.listed(task, way, there.chat_id_list).await?,
                // It is looked again.
                Err(error) => {
                    tracing::debug!(corp = %corp.id, way = way.way, error = %error, "a join way was not read");
                }
            }
        }
        match &task.keeper {
            Some(owner) => mark_unknown(app, corp, owner).await,
            None => Ok(()),
        }
    }

    /// What is in the list of a way that was told one group only, and in no pool, is a room of its.
    async fn listed(
        &self,
        task: &SupplyTask,
        way: &ArmedWay,
        listed: Option<Vec<String>>,
    ) -> Result<(), Error> {
        let listed = listed.into_iter().flatten();
        let listed = listed.filter_map(|chat| ChatId::new(chat).ok());
        let others: Vec<ChatId> = listed.filter(|chat| !way.chats.contains(chat)).collect();
        let known = self.app.ledger.groups();
        let known = known.get_many(&self.corp.id, &others).await?;
        let in_pool = |chat: &ChatId| {
            let known = known.iter().find(|group| group.id == *chat);
            known.is_some_and(|group| group.pool.is_some())
        };
        for chat in others.iter().filter(|chat| !in_pool(chat)) {
            let trail = Trail::system(self.app.now_ms(), "supply");
            let tasks = self.app.ledger.supply_tasks();
            if let Completed::Taken(task) =
                tasks.opened(&self.corp.id, task.id, chat, &trail).await?
            {
                found::came(self.corp, chat, &task);
            }
        }
        Ok(())
    }
}
