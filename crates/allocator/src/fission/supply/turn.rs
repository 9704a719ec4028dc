//! One turn under the lease: pools that lack groups get them from their sources, in the order of these.

use ledger::{
    ASKED_BY_SUPPLY, Fence, NewSupplyTask, Opened, SupplySource, SupplyStep, SupplyTask,
    SupplyTaskState, Trail,
};

use super::{Error, Look, count, forecast, look, rooms};
use crate::{
    app::{App, CorpApp},
    fission::told,
};

const NO_SPARE: &str =
    "no group of the pool is in stock that was read, has room, and has a code that leads into it";

const ELSEWHERE: &str = "another source was asked for what is lacking";
pub(super) const ENOUGH: &str = "nothing is lacking any more";

/// Something is lacking that is not on its way, or groups out of stock are wanted by somebody, or by nobody any more.
pub(super) fn has_work(looks: &[Look], tasks: &[SupplyTask]) -> bool {
    let is_lacking = |look: &Look| look.need > asked_for(look, tasks) || can_open(look);
    let is_over = |task: &SupplyTask| {
        let is_needed = |look: &Look| look.pool.id == task.pool && look.need > 0;
        task.asked_by != ASKED_BY_SUPPLY || !looks.iter().any(is_needed)
    };
    let is_wanted = |task: &SupplyTask| {
        task.source == SupplySource::Spare && task.state == SupplyTaskState::Wanted
    };
    let mut wanted = tasks.iter().filter(|task| is_wanted(task));
    looks.iter().any(is_lacking) || wanted.any(is_over)
}

/// A group may have come into stock since.
fn can_open(look: &Look) -> bool {
    look.need > 0 && look.pool.supply.sources.contains(&SupplySource::Spare)
}

/// Groups that others than the stock were asked for.
fn asked_for(look: &Look, tasks: &[SupplyTask]) -> u32 {
    let others = [SupplySource::AutoRoom, SupplySource::Person];
    others
        .iter()
        .map(|source| coming_from(*source, look, tasks))
        .sum()
}

fn coming_from(source: SupplySource, look: &Look, tasks: &[SupplyTask]) -> u32 {
    let is_coming = |task: &&SupplyTask| {
        task.pool == look.pool.id
            && task.source == source
            && matches!(task.state, SupplyTaskState::Wanted | SupplyTaskState::Asked)
    };
    tasks
        .iter()
        .filter(is_coming)
        .map(SupplyTask::lacking)
        .sum()
}

/// Who works under the lease.
pub(super) struct Hands<'a> {
    pub(super) app: &'a App,
    pub(super) corp: &'a CorpApp,
    pub(super) generation: u64,
    pub(super) fence: Fence,
}

impl Hands<'_> {
    /// What was lacking before the lease may be there by now: everything is looked at again, and what a process that died had
    /// opened is told first.
    pub(super) async fn work(&self) -> Result<(), Error> {
        told::sync(self.app, self.corp).await?;
        let looks = look(self.app, self.corp, self.generation).await?;
        let tasks = self.app.ledger.supply_tasks();
        let open = tasks.open(&self.corp.id).await?;
        for look in &looks {
            self.supply(look, &open).await?;
        }
        Ok(())
    }

    /// Each source gets what those before it do not give.
    async fn supply(&self, look: &Look, open: &[SupplyTask]) -> Result<(), Error> {
        let stock = open.iter().find(|task| {
            task.pool == look.pool.id
                && task.source == SupplySource::Spare
                && task.state == SupplyTaskState::Wanted
        });
        let by_hand = stock.filter(|task| task.asked_by != ASKED_BY_SUPPLY);
        let mut lacking = look.need;
        if let Some(task) = by_hand {
            // What an operator asks for he gets, lacking or not.
            let Some(opened) = self.open(look, task.lacking().min(forecast::MOST)).await? else {
                return Ok(());
            };
            lacking = lacking.saturating_sub(opened);
            if opened < task.lacking() && task.last_error.as_deref() != Some(NO_SPARE) {
                let lacks = SupplyStep {
                    error: Some(NO_SPARE.to_owned()),
                    ..SupplyStep::default()
                };
                self.step(task, &lacks).await?;
            }
        }
        for source in &look.pool.supply.sources {
            if *source == SupplySource::Spare {
                let Some(opened) = self.open(look, lacking).await? else {
                    return Ok(());
                };
                lacking -= opened;
                match stock {
                    None if lacking > 0 && !look.pool.resting.contains_key(source) => {
                        self.ask(look, *source, lacking, Some(NO_SPARE)).await?;
                    }
                    Some(task) if lacking == 0 && by_hand.is_none() => {
                        let why = match look.need > opened {
                            true => ELSEWHERE,
                            false => ENOUGH,
                        };
                        self.enough(task, why).await?;
                    }
                    _ => {}
                }
                continue;
            }
            let coming = coming_from(*source, look, open);
            lacking = lacking.saturating_sub(coming);
            if lacking == 0 || coming > 0 || look.pool.resting.contains_key(source) {
                continue;
            }
            // WeCom opens one room at a time.
            let most = match source {
                SupplySource::AutoRoom => 1,
                SupplySource::Person | SupplySource::Spare => lacking,
            };
            if self.ask(look, *source, most, None).await? {
                lacking -= most;
            }
        }
        Ok(())
    }

    /// Opens up to so many groups out of stock; answers how many those were. None: a later lease works on the pool.
    async fn open(&self, look: &Look, most: u32) -> Result<Option<u32>, Error> {
        let tasks = self.app.ledger.supply_tasks();
        for opened in 0..most {
            let now_ms = self.app.now_ms();
            let (pool, why) = (&look.pool.id, look.why());
            let one = tasks.open_spare(
                &self.corp.id,
                pool,
                self.fence,
                why,
                self.generation,
                now_ms,
            );
            match one.await? {
                Opened::Opened(chat) => {
                    count(self.corp, "spare", "opened");
                    tracing::info!(corp = %self.corp.id, group = %chat, pool = %pool, free = why.free, waiting = why.waiting,
                        rate = why.rate, "a group in stock is opened");
                    told::tell(self.app, self.corp, &chat).await?;
                    self.corp.groups_changed.notify_one();
                }
                Opened::Nothing => return Ok(Some(opened)),
                Opened::NotOurs => return Ok(None),
            }
        }
        Ok(Some(most))
    }

    /// True: they are asked for from now on.
    async fn ask(
        &self,
        look: &Look,
        source: SupplySource,
        n_groups: u32,
        error: Option<&str>,
    ) -> Result<bool, Error> {
        let now_ms = self.app.now_ms();
        let supply = &look.pool.supply;
        let is_person = source == SupplySource::Person;
        let deadline_ms = match source {
            SupplySource::Spare => None,
            SupplySource::AutoRoom => rooms::deadline(look, now_ms),
            SupplySource::Person => Some(now_ms + u64::from(supply.deadline_seconds) * 1_000),
        };
        let keeper = supply.keeper.as_ref().filter(|_| is_person);
        let new = NewSupplyTask {
            pool: look.pool.id.clone(),
            source,
            n_groups,
            asked_by: ASKED_BY_SUPPLY.to_owned(),
            why: look.why(),
            keeper: keeper.map(|keeper| self.corp.names.userid(keeper)),
            deadline_ms,
            error: error.map(str::to_owned),
        };
        let trail = Trail::system(now_ms, "supply");
        let tasks = self.app.ledger.supply_tasks();
        let asked = tasks.ask(&self.corp.id, &new, Some(self.fence), &trail);
        let Some(task) = asked.await? else {
            return Ok(false);
        };
        count(self.corp, source.as_str(), "wanted");
        tracing::info!(corp = %self.corp.id, pool = %task.pool, source = source.as_str(), n_groups, free = look.seen.free,
            waiting = look.seen.waiting, rate = look.seen.rate, "a pool lacks groups");
        Ok(true)
    }

    /// Nobody needs its groups any more.
    pub(super) async fn enough(&self, task: &SupplyTask, why: &str) -> Result<(), Error> {
        let ended = SupplyStep {
            state: Some(SupplyTaskState::Cancelled),
            error: Some(why.to_owned()),
            ..SupplyStep::default()
        };
        self.step(task, &ended).await.map(drop)
    }

    /// None: somebody else has it.
    pub(super) async fn step(
        &self,
        task: &SupplyTask,
        step: &SupplyStep,
    ) -> Result<Option<SupplyTask>, Error> {
        let tasks = self.app.ledger.supply_tasks();
        let now_ms = self.app.now_ms();
        let stepped = tasks.step(&self.corp.id, task.id, task.state, self.fence, step, now_ms);
        Ok(stepped.await?)
    }
}
