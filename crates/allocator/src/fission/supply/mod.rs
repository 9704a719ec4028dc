//! Groups before they are needed. WeCom's API makes no group, so a pool that lacks some gets them out of its stock, WeCom opens
//! a room by itself, or a member is asked to make some by hand.
//!
//! | step | takes → gives | what makes it safe |
//! |---|---|---|
//! | [`forecast`] | free seats, people who wait, how fast seats go → groups that are lacking | pure; what is on its way counts |
//! | `turn` | lacking → a spare group is opened, or a task | one process under a lease, which looks again when it has it; rows carry its fence, and a pool has one open task of a source |
//! | `person` | task → a message to the keeper, a reminder, an end of the time | the try is written before the call; the same words, once within WeCom's duplicate check |
//! | [`mod@rooms`] | task → a join way that opens a room, a few who wait are shown its full group | the way's row says it before WeCom knows; who were shown it stands in the task |
//! | [`found`] | new group of a keeper, or a room → open in the pool, task done | the group's owner, and that it was made since |
//!
//! Nothing is asked for while the corp is closed or no campaign fills the pool. What WeCom's limits do not let go waits for
//! exactly as long as the quota says.

pub mod forecast;
pub mod found;
mod person;
pub mod rooms;
mod turn;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use allocation::{ChatId, GroupPoolId};
use ledger::{SuppliedPool, SupplyTaskState, SupplyWhy};
use metrics::{counter, gauge};
use quota::Acquired;
use tokio_util::sync::CancellationToken;

use self::forecast::Seen;
use super::{import, told};
use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
    faults::with_causes,
};

/// Everything is looked at so often, and at once when somebody finds no seat.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks, however many find none.
const LEAST_PAUSE: Duration = Duration::from_millis(200);
const COUNT_EVERY_MS: u64 = 15_000;
/// A group that was opened so long ago and still is not shown is not reckoned with any more.
const COMING_MS: u64 = 600_000;
const LOCK: &str = "supply";
const PEOPLE_LOCK: &str = "supply_people";
const ROOMS_LOCK: &str = "supply_rooms";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("ledger")]
    Ledger(#[from] ledger::Error),
    #[error("roster")]
    Roster(#[from] roster::Error),
    #[error("quota")]
    Quota(#[from] quota::Error),
    #[error("inbox")]
    Inbox(#[from] inbox::Error),
    #[error(transparent)]
    Told(#[from] told::Error),
    #[error("a card's limit: {0}")]
    Card(String),
}

impl Error {
    fn is_not_ready(&self) -> bool {
        matches!(
            self,
            Self::Roster(roster::Error::NotReady)
                | Self::Told(told::Error::Roster(roster::Error::NotReady))
        )
    }
}

/// Supplies until the program stops. Groups out of stock wait for no call of WeCom's: people and rooms are beside it.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    tokio::join!(
        run_stock(&app, &corp, &stop),
        run_tasks(&app, &corp, Of::People, &stop),
        run_tasks(&app, &corp, Of::Rooms, &stop)
    );
}

/// Whose tasks.
#[derive(Clone, Copy)]
enum Of {
    People,
    Rooms,
}

async fn run_tasks(app: &App, corp: &CorpApp, of: Of, stop: &CancellationToken) {
    let mut backoff = Backoff::store();
    while !stop.is_cancelled() {
        let turned = match of {
            Of::People => people(app, corp).await,
            Of::Rooms => rooms(app, corp).await,
        };
        match turned {
            Ok(_) => {
                backoff.reset();
                sleep(LOOK_EVERY, stop).await;
            }
            Err(error) => {
                say(corp, &error);
                backoff.wait(stop).await;
            }
        }
    }
}

fn say(corp: &CorpApp, error: &Error) {
    if !error.is_not_ready() {
        tracing::warn!(corp = %corp.id, error = %with_causes(error), "pools were not supplied");
    }
}

async fn run_stock(app: &App, corp: &CorpApp, stop: &CancellationToken) {
    let mut here = Supplier::default();
    let mut backoff = Backoff::store();
    while !stop.is_cancelled() {
        match here.turn(app, corp).await {
            Ok(_) => {
                backoff.reset();
                sleep(LEAST_PAUSE, stop).await;
                tokio::select! {
                    biased;
                    () = corp.seats_lacking.notified() => {}
                    _ = sleep(LOOK_EVERY, stop) => {}
                }
            }
            Err(error) => {
                say(corp, &error);
                backoff.wait(stop).await;
            }
        }
    }
}

/// What a turn came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turned {
    /// The corp is closed.
    Closed,
    /// Nothing is lacking and nothing is due.
    Idle,
    /// Another process has it in hand.
    Busy,
    Worked,
}

/// A pool, and how it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    pub pool: SuppliedPool,
    pub seen: Seen,
    /// Groups that it lacks, whatever was asked for already.
    pub need: u32,
}

impl Look {
    pub fn why(&self) -> SupplyWhy {
        SupplyWhy {
            free: self.seen.free,
            waiting: self.seen.waiting,
            rate: self.seen.rate,
        }
    }
}

/// Goes on with the tasks of people that are due, if nobody else does.
pub async fn people(app: &App, corp: &CorpApp) -> Result<Turned, Error> {
    let Some(generation) = corp.roster.status().await?.generation else {
        return Ok(Turned::Closed);
    };
    let tasks = app.ledger.supply_tasks().open(&corp.id).await?;
    let now_ms = app.now_ms();
    if !tasks.iter().any(|task| person::is_due(task, now_ms)) {
        return Ok(Turned::Idle);
    }
    under(app, corp, generation, PEOPLE_LOCK, async |hands| {
        hands.people().await
    })
    .await
}

/// Goes on with the tasks of rooms that are due, if nobody else does. Ways whose task has ended are to open none any more, whoever
/// ended it.
pub async fn rooms(app: &App, corp: &CorpApp) -> Result<Turned, Error> {
    let Some(generation) = corp.roster.status().await?.generation else {
        return Ok(Turned::Closed);
    };
    let table = app.ledger.supply_tasks();
    let tasks = table.open(&corp.id).await?;
    let now_ms = app.now_ms();
    let is_due = tasks.iter().any(|task| rooms::is_due(task, now_ms));
    let turned = match is_due {
        true => {
            under(app, corp, generation, ROOMS_LOCK, async |hands| {
                hands.rooms().await
            })
            .await
        }
        false => Ok(Turned::Idle),
    };
    table.disarm(&corp.id, app.now_ms()).await?;
    turned
}

/// Works under a lease, as long as it lasts.
async fn under(
    app: &App,
    corp: &CorpApp,
    generation: u64,
    name: &str,
    work: impl AsyncFnOnce(turn::Hands<'_>) -> Result<(), Error>,
) -> Result<Turned, Error> {
    let lock = match app.locks.acquire(corp.id.as_str(), &[name]).await? {
        Acquired::Held(lock) => lock,
        Acquired::Busy { .. } => return Ok(Turned::Busy),
    };
    let fence = ledger::Fence {
        generation: u64::try_from(lock.fence().generation).unwrap_or_default(),
        counter: u64::try_from(lock.fence().counter).unwrap_or_default(),
    };
    let lost = lock.lost().clone();
    let hands = turn::Hands {
        app,
        corp,
        generation,
        fence,
    };
    let worked = tokio::select! {
        worked = work(hands) => worked,
        // Whoever has it now goes on with the rows.
        () = lost.cancelled() => Ok(()),
    };
    lock.release().await;
    worked.map(|()| Turned::Worked)
}

/// What this process remembers between turns.
#[derive(Debug, Default)]
pub struct Supplier {
    count_ms: u64,
    /// Pools whose figures were shown.
    shown: BTreeSet<GroupPoolId>,
}

impl Supplier {
    /// Looks, and does what is lacking if nobody else does.
    pub async fn turn(&mut self, app: &App, corp: &CorpApp) -> Result<Turned, Error> {
        let Some(generation) = corp.roster.status().await?.generation else {
            return Ok(Turned::Closed);
        };
        let looks = look(app, corp, generation).await?;
        let tasks = app.ledger.supply_tasks().open(&corp.id).await?;
        self.show(app, corp, &looks).await?;
        if !turn::has_work(&looks, &tasks) {
            return Ok(Turned::Idle);
        }
        under(app, corp, generation, LOCK, async |hands| {
            hands.work().await
        })
        .await
    }

    async fn show(&mut self, app: &App, corp: &CorpApp, looks: &[Look]) -> Result<(), Error> {
        let set = |pool: &GroupPoolId, seen: &Seen, need: u32| {
            let labels = [("corp", corp.id.to_string()), ("pool", pool.to_string())];
            gauge!("paidan_group_pool_free", &labels).set(seen.free as f64);
            gauge!("paidan_group_pool_waiting", &labels).set(seen.waiting as f64);
            gauge!("paidan_group_pool_need", &labels).set(f64::from(need));
        };
        let unanswered = |pool: &GroupPoolId, times: u32| {
            let labels = [("corp", corp.id.to_string()), ("pool", pool.to_string())];
            gauge!("paidan_supply_unanswered", &labels).set(f64::from(times));
        };
        let shown: BTreeSet<GroupPoolId> = looks.iter().map(|look| look.pool.id.clone()).collect();
        for gone in self.shown.difference(&shown) {
            set(gone, &Seen::default(), 0);
            unanswered(gone, 0);
        }
        self.shown = shown;
        for look in looks {
            set(&look.pool.id, &look.seen, look.need);
            unanswered(&look.pool.id, look.pool.unanswered);
        }
        let now_ms = app.now_ms();
        if now_ms < self.count_ms {
            return Ok(());
        }
        self.count_ms = now_ms + COUNT_EVERY_MS;
        let counts = app.ledger.supply_tasks().counts(&corp.id).await?;
        for state in SupplyTaskState::ALL {
            let count = counts.iter().find(|(one, _)| *one == state);
            let count = count.map_or(0, |(_, count)| *count);
            gauge!("paidan_supply_tasks", "corp" => corp.id.to_string(), "state" => state.as_str())
                .set(count as f64);
        }
        Ok(())
    }
}

/// All pools that are supplied, as they are now. One that Redis has not heard of is left out.
pub async fn look(app: &App, corp: &CorpApp, generation: u64) -> Result<Vec<Look>, Error> {
    let now_ms = app.now_ms();
    let since_ms = now_ms.saturating_sub(COMING_MS);
    let tasks = app.ledger.supply_tasks();
    let mut looks = Vec::new();
    for pool in tasks.pools(&corp.id, generation, since_ms, now_ms).await? {
        let Some(view) = corp.roster.group_pool(&pool.id).await? else {
            continue;
        };
        let seen = Seen {
            free: view.free,
            waiting: view.waiting,
            rate: forecast::rate(&pool.asked),
            coming: pool.coming,
            // Its owner is in it.
            room: pool.caps.scan_cap.saturating_sub(pool.caps.buffer + 1),
        };
        let need = forecast::need(&seen, &pool.supply);
        looks.push(Look { pool, seen, need });
    }
    Ok(looks)
}

/// Counts what was asked of a source.
fn count(corp: &CorpApp, source: &'static str, outcome: &'static str) {
    counter!("paidan_supply_calls_total", "corp" => corp.id.to_string(), "source" => source, "outcome" => outcome)
        .increment(1);
}

/// Groups of an owner that WeCom lists and that nobody here knows are to be read: no event told of them.
async fn mark_unknown(app: &App, corp: &CorpApp, owner: &str) -> Result<(), Error> {
    let Ok(owner) = allocation::MemberId::new(owner) else {
        return Ok(());
    };
    let listed = match import::owned(app, corp, &owner).await {
        Ok(listed) => listed,
        // It is looked again.
        Err(problem) => {
            tracing::debug!(corp = %corp.id, %problem, "the groups of a keeper were not listed");
            return Ok(());
        }
    };
    let ids: Vec<ChatId> = listed.into_iter().collect();
    let known = app.ledger.groups().get_many(&corp.id, &ids).await?;
    let unknown = ids
        .iter()
        .filter(|chat| known.iter().all(|group| group.id != **chat));
    let now_ms = app.now_ms();
    let marks: Vec<(&str, u64)> = unknown.map(|chat| (chat.as_str(), now_ms)).collect();
    corp.inbox
        .dirty_mark_many(super::dirty::CHAT_NEW, &marks)
        .await?;
    Ok(())
}
