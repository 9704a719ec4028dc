//! Group pools and groups to Redis: Postgres says what they are. What changed here is told at once; the loop compares
//! versions, so what another process changed, a process that died in between, and a Redis that was away or was rebuilt are
//! caught up with. Versions stand in both, so of two that tell, the later one's word stays.

use std::{sync::Arc, time::Duration};

use allocation::{ChatId, GroupChange, GroupPoolChange, GroupPoolId, SetGroup, SetGroupPool};
use futures_util::future::try_join_all;
use ledger::{Group, GroupState, GroupVersion};
use metrics::counter;
use quota::Acquired;
use roster::{GroupStanding, PoolVersion};
use tokio_util::sync::CancellationToken;

use super::waiting;
use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
    faults::with_causes,
    payload::Payload,
};

/// Groups told at a time: Redis writes down together what it was told together.
const TOLD_AT_ONCE: usize = 64;
/// Rows read at a time.
const READ_AT_ONCE: usize = 1_000;
/// Between two comparisons of everything, however often something changes.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// Everything is compared at least this often, changed or not.
const WHOLE_EVERY: u32 = 12;
/// One process tells: it would do no harm if all did, but each word is an entry of the log.
const LOCK: &str = "groups";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("ledger")]
    Ledger(#[from] ledger::Error),
    #[error("roster")]
    Roster(#[from] roster::Error),
}

/// Compares until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let pause = Duration::from_millis(app.config.roster.sync_every_ms);
    let mut backoff = Backoff::store();
    let mut last = Last::default();
    while !stop.is_cancelled() {
        match last.turn(&app, &corp).await {
            Ok(()) => {
                backoff.reset();
                // Many change one after the other, when they are imported.
                let least = pause.min(LEAST_PAUSE);
                sleep(least, &stop).await;
                tokio::select! {
                    biased;
                    () = corp.groups_changed.notified() => last = Last::default(),
                    _ = sleep(pause - least, &stop) => {}
                }
            }
            Err(error) => {
                last = Last::default();
                if !matches!(error, Error::Roster(roster::Error::NotReady)) {
                    tracing::warn!(corp = %corp.id, error = %with_causes(&error), "groups were not compared");
                }
                backoff.wait(&stop).await;
            }
        }
    }
}

/// What the last comparison saw.
#[derive(Default)]
struct Last {
    mark: String,
    generation: Option<u64>,
    turns: u32,
}

impl Last {
    async fn turn(&mut self, app: &App, corp: &CorpApp) -> Result<(), Error> {
        // Read first: what changes meanwhile makes another mark.
        let mark = app.ledger.groups().mark(&corp.id).await?;
        let generation = corp.roster.status().await?.generation;
        if mark == self.mark && generation == self.generation && self.turns < WHOLE_EVERY {
            self.turns += 1;
            return Ok(());
        }
        if generation.is_none() {
            return Err(roster::Error::NotReady.into());
        }
        let lock = match app.locks.acquire(corp.id.as_str(), &[LOCK]).await {
            Ok(Acquired::Held(lock)) => Some(lock),
            // Whoever has it tells; it is compared again soon.
            Ok(Acquired::Busy { .. }) => return Ok(()),
            // Without it rather than not at all.
            Err(error) => {
                tracing::debug!(corp = %corp.id, error = %error, "groups are told without a lock");
                None
            }
        };
        let synced = sync(app, corp).await;
        if let Some(lock) = lock {
            lock.release().await;
        }
        synced?;
        *self = Self {
            mark,
            generation,
            turns: 0,
        };
        Ok(())
    }
}

/// Tells Redis what differs from Postgres; answers how many pools and groups that were.
pub async fn sync(app: &App, corp: &CorpApp) -> Result<usize, Error> {
    let pools = app.ledger.group_pools().versions(&corp.id).await?;
    let ids: Vec<GroupPoolId> = pools.iter().map(|pool| pool.id.clone()).collect();
    let there = corp.roster.group_pool_versions(&ids).await?;
    let differing = pools.iter().zip(&there);
    let differing =
        differing.filter(|(pool, there)| pool_differs(pool.version, pool.deleted, **there));
    let (gone, wanted): (Vec<_>, Vec<_>) = differing
        .map(|(pool, _)| pool)
        .partition(|pool| pool.deleted);
    let mut told = 0;
    for pool in wanted {
        told += usize::from(tell_pool(app, corp, &pool.id).await?);
    }
    told += sync_groups(app, corp).await?;
    // No group is in them any more.
    for pool in gone {
        let (id, version) = (pool.id.clone(), pool.version);
        let removed = corp
            .roster
            .remove_group_pool(id, version, &payload(), None)
            .await?;
        told += 1;
        if removed.answer == GroupPoolChange::InUse {
            tracing::warn!(corp = %corp.id, pool = %pool.id, "a deleted group pool has groups in Redis; looked at again");
        }
    }
    if told > 0 {
        counter!("paidan_groups_told_total", "corp" => corp.id.to_string()).increment(told as u64);
        corp.log_grew.notify_one();
    }
    Ok(told)
}

fn pool_differs(version: u64, deleted: bool, there: Option<PoolVersion>) -> bool {
    match there {
        // One that was deleted before Redis ever heard of it is no difference.
        None => !deleted,
        Some(there) if deleted => !there.removed,
        Some(there) => there.removed || there.version < version,
    }
}

async fn tell_pool(app: &App, corp: &CorpApp, id: &GroupPoolId) -> Result<bool, Error> {
    let Some(pool) = app.ledger.group_pools().get(&corp.id, id).await? else {
        return Ok(false);
    };
    let set = SetGroupPool {
        pool: pool.id,
        version: pool.version,
        strategy: pool.strategy,
    };
    let told = corp.roster.set_group_pool(set, &payload(), None).await?;
    waiting::applied(corp, &told);
    Ok(true)
}

async fn sync_groups(app: &App, corp: &CorpApp) -> Result<usize, Error> {
    let groups = app.ledger.groups();
    groups.led(&corp.id, app.now_ms()).await?;
    let mut told = 0;
    for part in groups.versions(&corp.id).await?.chunks(READ_AT_ONCE) {
        let ids: Vec<ChatId> = part.iter().map(|group| group.id.clone()).collect();
        let there = corp.roster.group_standings(&ids).await?;
        let all = || part.iter().zip(&there);
        let is_unseen =
            |there: &Option<GroupStanding>| there.as_ref().is_none_or(|there| there.seen.is_none());
        let unseen = all().filter(|(group, there)| group.in_pool && is_unseen(there));
        let unseen: Vec<ChatId> = unseen.map(|(group, _)| group.id.clone()).collect();
        let differing = all().filter(|(group, there)| differs(group, there.as_ref()));
        let (wanted, gone): (Vec<_>, Vec<_>) = differing
            .map(|(group, _)| group)
            .partition(|group| group.in_pool);
        let wanted: Vec<ChatId> = wanted.iter().map(|group| group.id.clone()).collect();
        let wanted = groups.get_many(&corp.id, &wanted).await?;
        for some in wanted.chunks(TOLD_AT_ONCE) {
            try_join_all(some.iter().map(|group| tell_group(corp, group))).await?;
        }
        for some in gone.chunks(TOLD_AT_ONCE) {
            let removed = some
                .iter()
                .map(|group| remove(corp, &group.id, group.version));
            try_join_all(removed).await?;
        }
        if !unseen.is_empty() {
            groups.unknown(&corp.id, &unseen).await?;
        }
        told += wanted.len() + gone.len();
    }
    Ok(told)
}

fn differs(group: &GroupVersion, there: Option<&GroupStanding>) -> bool {
    match there {
        None => group.in_pool,
        Some(there) if group.in_pool => there.version < group.version,
        Some(there) => !there.removed,
    }
}

/// Tells Redis one group as Postgres has it now, or that it is not to be filled.
pub(super) async fn tell(app: &App, corp: &CorpApp, chat: &ChatId) -> Result<(), Error> {
    match app.ledger.groups().version(&corp.id, chat).await? {
        Some(group) if group.in_pool => {
            if let Some(group) = app.ledger.groups().get(&corp.id, chat).await? {
                tell_group(corp, &group).await?;
            }
        }
        Some(group) => remove(corp, chat, group.version).await?,
        None => {}
    }
    corp.log_grew.notify_one();
    Ok(())
}

async fn tell_group(corp: &CorpApp, group: &Group) -> Result<(), Error> {
    let set = match config(group) {
        Ok(Some(set)) => set,
        // It was taken out of its pool a moment ago.
        Ok(None) => return Ok(()),
        // The others must not wait for it.
        Err(error) => {
            tracing::warn!(corp = %corp.id, group = %group.id, error = %error, "a group cannot be told to Redis");
            return Ok(());
        }
    };
    let told = corp.roster.set_group(set, &payload(), None).await?;
    // Whoever waited may have found a seat in it.
    waiting::applied(corp, &told);
    match told.answer {
        GroupChange::NoPool | GroupChange::Full => {
            tracing::warn!(corp = %corp.id, group = %group.id, why = ?told.answer, "Redis does not take a group; it is told again");
        }
        _ => {}
    }
    Ok(())
}

/// As the rules are told of it; None: it is in no pool. Only open groups are shown, and those only that a code has led into:
/// whoever were given a seat in another would wait for a code that WeCom may refuse. Those in stock are known all the same, so
/// that they can be shown at once.
pub(super) fn config(group: &Group) -> Result<Option<SetGroup>, allocation::Error> {
    let (Some(pool), Some(caps)) = (group.pool.clone(), group.caps) else {
        return Ok(None);
    };
    let id = group.id.clone();
    let set = SetGroup::new(id, group.version, pool, caps.scan_cap, caps.buffer)?;
    let set = set
        .with_rank(group.rank)
        .with_open(group.state == GroupState::Open && group.way_ms.is_some())
        .with_tags(group.tags.iter().cloned())?;
    Ok(Some(set))
}

pub(super) async fn remove(corp: &CorpApp, chat: &ChatId, version: u64) -> Result<(), Error> {
    let removed = corp
        .roster
        .remove_group(chat.clone(), version, &payload(), None)
        .await?;
    waiting::applied(corp, &removed);
    let (_, ended) = removed.answer;
    if !ended.is_empty() {
        tracing::info!(corp = %corp.id, group = %chat, seats = ended.len(), "a group is filled no more; its seats ended");
    }
    Ok(())
}

/// In the corp's log it says that configuration was told, not who changed it: that is in the audit.
fn payload() -> String {
    Payload {
        actor: Some("groups".to_owned()),
        ..Payload::default()
    }
    .text()
}
