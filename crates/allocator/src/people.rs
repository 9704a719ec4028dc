//! Pools, members and channels: Postgres says what they are; Redis and this process's caches are told.
//!
//! Every write is told at once ([`tell_pool`], [`tell_member`], [`refresh`]). A process that dies between the two, or
//! a Redis that was away, is healed by the loop, which compares versions. Whoever tells reads Postgres anew before
//! and after, so that of two writers at once the later one's word stands.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use allocation::{MemberId, PoolConfig, PoolId, ScheduleId};
use ledger::{Member, NewPool, Pool, PoolVersion};
use metrics::counter;
use tokio_util::sync::CancellationToken;

use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
    faults::with_causes,
    payload::Payload,
};

pub mod channels;
pub mod hours;
pub(crate) mod limits;
mod reading;
mod telling;

use hours::Zone;
use limits::Days;
pub use reading::{default_pool, look_again, refresh};
pub use telling::tell_member;
use telling::{tell_members, tell_members_of};

/// Between two comparisons of everything, however often a pool is missed.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
/// Everything is compared at least this often, changed or not.
const WHOLE_EVERY: u32 = 12;
/// How long the spelling of a name may take.
const LOOK_UP: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("ledger")]
    Ledger(#[from] ledger::Error),
    #[error("roster")]
    Roster(#[from] roster::Error),
    #[error("pool {pool} cannot be told to Redis")]
    Pool {
        pool: PoolId,
        source: allocation::Error,
    },
}

/// How members are spelled, and how visitors see them; rules and tables know only the key form.
#[derive(Debug, Default)]
pub struct Names {
    spelled: RwLock<Arc<HashMap<MemberId, String>>>,
    /// Of those who have a name for visitors.
    shown: RwLock<Arc<HashMap<MemberId, String>>>,
}

impl Names {
    /// The spelling, or the key form of a member that is not known (yet).
    pub fn userid(&self, member: &MemberId) -> String {
        let names = self.all();
        names
            .get(member)
            .map_or_else(|| member.to_string(), Clone::clone)
    }

    /// As visitors of public pages see him.
    pub fn shown(&self, member: &MemberId) -> String {
        let shown = Arc::clone(&self.shown.read().unwrap_or_else(PoisonError::into_inner));
        let name = shown.get(member).cloned();
        name.unwrap_or_else(|| self.userid(member))
    }

    pub fn knows(&self, member: &MemberId) -> bool {
        self.all().contains_key(member)
    }

    fn all(&self) -> Arc<HashMap<MemberId, String>> {
        Arc::clone(&self.spelled.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, members: &[Member]) {
        let spelled = members.iter();
        let spelled = spelled.map(|one| (one.member.clone(), one.userid.clone()));
        let shown = members.iter();
        let shown = shown.filter_map(|one| Some((one.member.clone(), one.display_name.clone()?)));
        let put = |place: &RwLock<_>, names| {
            *place.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
        };
        put(&self.spelled, spelled.collect());
        put(&self.shown, shown.collect());
    }

    pub(crate) fn spell(&self, member: &MemberId, userid: &str) {
        let mut names = self.spelled.write().unwrap_or_else(PoisonError::into_inner);
        if names.get(member).map(String::as_str) != Some(userid) {
            Arc::make_mut(&mut names).insert(member.clone(), userid.to_owned());
        }
    }
}

/// Makes sure that the spelling of these members is at hand. Who is not known, or cannot be looked up at once, is shown
/// in his key form: nothing waits for a name.
pub async fn learn(app: &App, corp: &CorpApp, mut members: Vec<MemberId>) {
    let names = corp.names.all();
    members.retain(|member| !names.contains_key(member));
    if members.is_empty() {
        return;
    }
    let table = app.ledger.members();
    let found = tokio::time::timeout(LOOK_UP, table.get_many(&corp.id, &members)).await;
    for member in found.ok().and_then(Result::ok).unwrap_or_default() {
        corp.names.spell(&member.member, &member.userid);
    }
}

/// WeCom spells members like this. Known members are shown so from now on; who is not known stays unknown.
pub async fn heard(
    app: &App,
    corp: &CorpApp,
    mut userids: Vec<String>,
) -> Result<(), ledger::Error> {
    let names = corp.names.all();
    userids.retain(|userid| {
        let member = MemberId::new(userid.clone()).ok();
        let known = member.and_then(|member| names.get(&member));
        known.is_some_and(|known| known != userid)
    });
    if userids.is_empty() {
        return Ok(());
    }
    let now_ms = app.now_ms();
    app.ledger
        .members()
        .heard(&corp.id, &userids, now_ms)
        .await?;
    for userid in userids {
        if let Ok(member) = MemberId::new(userid.clone()) {
            corp.names.spell(&member, &userid);
        }
    }
    Ok(())
}

/// Compares until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    let mut last = Last::default();
    while !stop.is_cancelled() {
        match turn(&app, &corp, &mut last).await {
            Ok(()) => {
                backoff.reset();
                let pause = Duration::from_millis(app.config.roster.sync_every_ms);
                // A pool that is nowhere is missed with every customer.
                let least = pause.min(LEAST_PAUSE);
                sleep(least, &stop).await;
                tokio::select! {
                    biased;
                    () = corp.pool_missed.notified() => last = Last::default(),
                    _ = sleep(pause - least, &stop) => {}
                }
            }
            Err(error) => {
                last = Last::default();
                if matches!(error, Error::Roster(roster::Error::NotReady)) {
                    tracing::debug!(corp = %corp.id, "pools are compared when the corp is open");
                } else {
                    tracing::warn!(corp = %corp.id, error = %with_causes(&error), "pools and members were not compared");
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
    /// Days end by them.
    zones: BTreeMap<ScheduleId, Zone>,
    turns: u32,
    /// A day ends then, and how long the next one is must be looked up.
    day_end_ms: Option<u64>,
}

async fn turn(app: &App, corp: &CorpApp, last: &mut Last) -> Result<(), Error> {
    let mark = app.ledger.configuration_mark(&corp.id).await?;
    let generation = corp.roster.status().await?.generation;
    let zones = corp.hours.now().zones();
    let is_new_day = last.day_end_ms.is_some_and(|end_ms| end_ms <= app.now_ms());
    let unchanged = mark == last.mark
        && generation == last.generation
        && zones == last.zones
        && last.turns < WHOLE_EVERY
        && !is_new_day;
    if unchanged {
        last.turns += 1;
        return Ok(());
    }
    refresh(app, corp).await?;
    if generation.is_none() {
        return Err(roster::Error::NotReady.into());
    }
    let synced = sync_at(app, corp, None).await?;
    *last = Last {
        mark,
        generation,
        zones,
        turns: 0,
        day_end_ms: synced.day_end_ms,
    };
    Ok(())
}

/// Tells Redis what differs from Postgres; answers how many pools, members and limits of channels that were.
pub async fn sync(app: &App, corp: &CorpApp) -> Result<usize, Error> {
    Ok(sync_at(app, corp, None).await?.told)
}

/// What a comparison found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synced {
    /// Pools, members and limits of channels that differed.
    pub told: usize,
    /// When the first day ends that somebody's limits are counted in.
    pub day_end_ms: Option<u64>,
}

/// The same at a time that is passed in; None asks the clocks.
pub async fn sync_at(app: &App, corp: &CorpApp, now_ms: Option<u64>) -> Result<Synced, Error> {
    let members = app.ledger.members().all(&corp.id).await?;
    let at_ms = now_ms.unwrap_or_else(|| app.now_ms());
    let days = Days::of(app, corp, &members, at_ms).await?;
    let day_end_ms = members.iter().filter_map(|member| days.end(member)).min();
    let mut told = tell_members(app, corp, members, now_ms).await?;
    told += channels::tell_channels(app, corp, None, now_ms).await?;
    let limited = corp
        .routes()
        .channels
        .values()
        .any(|channel| channel.is_limited);
    let of_channels = channels::day_end(app, at_ms).filter(|_| limited);
    let day_end_ms = day_end_ms.into_iter().chain(of_channels).min();
    let pools = app.ledger.pools().versions(&corp.id).await?;
    let ids: Vec<PoolId> = pools.iter().map(|pool| pool.id.clone()).collect();
    let there = corp.roster.pool_versions(&ids).await?;
    for (pool, there) in pools.iter().zip(there) {
        if pool_differs(pool, there) {
            tell_pool_at(app, corp, &pool.id, now_ms).await?;
            told += 1;
        }
    }
    if told > 0 {
        counter!("paidan_people_told_total", "corp" => corp.id.to_string()).increment(told as u64);
    }
    Ok(Synced { told, day_end_ms })
}

fn pool_differs(pool: &PoolVersion, there: Option<roster::PoolVersion>) -> bool {
    match there {
        // One that was deleted before Redis ever heard of it is no difference.
        None => !pool.deleted,
        Some(there) => there.version < pool.version || there.removed != pool.deleted,
    }
}

/// Tells Redis a pool, and before it the members whose limits and blocks Redis does not know.
pub async fn tell_pool(app: &App, corp: &CorpApp, id: &PoolId) -> Result<(), Error> {
    tell_pool_at(app, corp, id, None).await
}

async fn tell_pool_at(
    app: &App,
    corp: &CorpApp,
    id: &PoolId,
    now_ms: Option<u64>,
) -> Result<(), Error> {
    let mut told = None;
    loop {
        let versions = app.ledger.pools().versions(&corp.id).await?;
        let Some(now) = versions.into_iter().find(|pool| pool.id == *id) else {
            return Ok(());
        };
        if told == Some(now.version) {
            return Ok(());
        }
        if now.deleted {
            corp.roster
                .remove_pool(id.clone(), now.version, &payload(), now_ms)
                .await?;
            told = Some(now.version);
        } else if let Some(pool) = app.ledger.pools().get(&corp.id, id).await? {
            tell_members_of(app, corp, &pool, now_ms).await?;
            told = Some(pool.version);
            let config = config(pool).map_err(|source| Error::Pool {
                pool: id.clone(),
                source,
            })?;
            corp.roster.set_pool(config, &payload(), now_ms).await?;
        }
        corp.log_grew.notify_one();
    }
}

pub(crate) fn config(pool: Pool) -> Result<PoolConfig, allocation::Error> {
    config_of(pool.id.clone(), pool.version, pool.content())
}

/// What the rules are told of a pool that is like this, or could be.
pub(crate) fn config_of(
    id: PoolId,
    version: u64,
    content: NewPool,
) -> Result<PoolConfig, allocation::Error> {
    let config = PoolConfig::new(id, version, content.strategy, content.members)?;
    let drip_ms = content.routing.drip_seconds.map(|seconds| seconds * 1_000);
    Ok(config
        .with_limits(content.limits)
        .with_offers(content.offers)
        .with_drip(drip_ms))
}

/// In the corp's log it says that configuration was told, not who changed it: that is in the audit.
fn payload() -> String {
    Payload {
        actor: Some("people".to_owned()),
        ..Payload::default()
    }
    .text()
}
