//! When people work: who is on by himself, and who may not be on now. Redis knows leases only; this decides which are sent.
//!
//! Postgres has schedules, calendars, leaves and what was said; a process keeps what it needs of it in memory
//! ([`Known`]) and looks once a second whether it changed. Leases are short and never reach beyond what the rules allow,
//! so if every allocator dies they end by themselves, and a closing needs nobody to be punctual. Any number of allocators
//! may do this at once: a lease that another one has just renewed is left alone. Who told by what was no longer true finds
//! out with his next look, and tells anew.
//!
//! The rules ([`schedule`], [`rules`], [`leases`]) are here and not in `allocation`: what is folded from the log must not
//! depend on zone data, which change with every version of theirs, and nobody but the allocator asks for hours.

pub mod leases;
pub mod plan;
pub mod rules;
pub mod schedule;
mod zone;

#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use allocation::{MAX_BATCH, MemberId, PresenceChange, ScheduleId};
use ledger::{MemberHours, Trail};
use metrics::{counter, gauge};
use rand::RngExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub use zone::{Zone, midnights, next_local_midnight};

use super::Error;
use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
    faults::with_causes,
    payload::Payload,
};
use leases::Change;
use rules::{Facts, May};
use schedule::Schedule;

/// How often it is looked whether something changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks, however often something is said.
const LEAST_PAUSE: Duration = Duration::from_millis(200);
/// A process is at most this late where several have the same to do, so that mostly one does it.
const LATE_MS: u64 = 200;

/// What Postgres says of everybody with hours, as it was when this process looked last.
#[derive(Debug, Default)]
pub struct Known(RwLock<Arc<Everybody>>);

/// Members with a schedule, a leave, or something said of them; of others a heartbeat decides.
#[derive(Debug, Default, Clone)]
pub struct Everybody {
    mark: String,
    /// Somebody was put in beside the mark: it is all to be read anew soon.
    patched: bool,
    members: BTreeMap<MemberId, MemberHours>,
    schedules: HashMap<ScheduleId, Arc<Schedule>>,
    never: Option<Arc<Schedule>>,
}

impl Known {
    pub fn now(&self) -> Arc<Everybody> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, everybody: Everybody) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(everybody);
    }

    fn patch(&self, hours: MemberHours) {
        let mut everybody = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let everybody = Arc::make_mut(&mut everybody);
        everybody.patched = true;
        if hours.is_any() {
            everybody.members.insert(hours.member.clone(), hours);
        } else {
            everybody.members.remove(&hours.member);
        }
    }
}

impl Everybody {
    /// Postgres was asked at least once.
    pub fn is_known(&self) -> bool {
        !self.mark.is_empty()
    }

    /// His schedule is at hand, or he has none.
    pub fn has_schedule_of(&self, hours: &MemberHours) -> bool {
        self.knows_schedule(hours.schedule.as_ref())
    }

    /// Where the members of each schedule are.
    pub fn zones(&self) -> BTreeMap<ScheduleId, Zone> {
        let schedules = self.schedules.iter();
        schedules
            .map(|(id, schedule)| (id.clone(), schedule.zone().clone()))
            .collect()
    }

    /// It is at hand, or there is none.
    pub fn knows_schedule(&self, schedule: Option<&ScheduleId>) -> bool {
        schedule.is_none_or(|id| self.schedules.contains_key(id))
    }

    pub fn zone_of(&self, schedule: &ScheduleId) -> Option<&Zone> {
        self.schedules.get(schedule).map(|schedule| schedule.zone())
    }

    /// None: his heartbeat alone decides.
    pub fn of(&self, member: &MemberId) -> Option<Facts<'_>> {
        self.members.get(member).map(|hours| self.facts(hours))
    }

    /// With the schedule that he has now. One that is not there, or cannot be read, never opens.
    pub fn facts<'a>(&'a self, hours: &'a MemberHours) -> Facts<'a> {
        let schedule = hours
            .schedule
            .as_ref()
            .and_then(|id| self.schedules.get(id).or(self.never.as_ref()));
        Facts {
            hours,
            schedule: schedule.map(Arc::as_ref),
        }
    }
}

/// Sends leases until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    let mut last = Last::default();
    while !stop.is_cancelled() {
        match turn(&app, &corp, &mut last, None).await {
            Ok(due_ms) => {
                backoff.reset();
                let until = Duration::from_millis(due_ms.saturating_sub(app.now_ms()));
                let late = rand::rng().random_range(0..=LATE_MS);
                let pause = (until + Duration::from_millis(late)).min(LOOK_EVERY);
                // Who said something is told at once beside this; many at a time are read once.
                let least = pause.min(LEAST_PAUSE);
                sleep(least, &stop).await;
                tokio::select! {
                    () = corp.hours_changed.notified() => {}
                    _ = sleep(pause - least, &stop) => {}
                }
            }
            Err(error) => {
                last = Last::default();
                if matches!(error, Error::Roster(roster::Error::NotReady)) {
                    tracing::debug!(corp = %corp.id, "presence is told when the corp is open");
                } else {
                    tracing::warn!(corp = %corp.id, error = %with_causes(&error), "presence by hours was not told");
                }
                backoff.wait(&stop).await;
            }
        }
    }
}

/// What the last turn saw.
#[derive(Debug, Default)]
pub struct Last {
    mark: String,
    generation: Option<u64>,
    due_ms: u64,
}

/// Tells Redis who is on by himself, and ends leases of who may not be on; answers when the next turn is due if nothing
/// changes. `now_ms` is for tests, None asks the clocks.
pub async fn turn(
    app: &App,
    corp: &CorpApp,
    last: &mut Last,
    now_ms: Option<u64>,
) -> Result<u64, Error> {
    let now = || now_ms.unwrap_or_else(|| app.now_ms());
    let mark = match app.ledger.hours().mark(&corp.id).await {
        Ok(mark) => Some(mark),
        // Who is on stays on by what is known: deciding goes on without Postgres.
        Err(error) if error.is_passing() && corp.hours.now().is_known() => {
            tracing::warn!(corp = %corp.id, error = %error, "whether hours changed is not known");
            None
        }
        Err(error) => return Err(error.into()),
    };
    let generation = corp.roster.status().await?.generation;
    if generation.is_none() {
        return Err(roster::Error::NotReady.into());
    }
    let mut everybody = corp.hours.now();
    let known = mark.is_none_or(|mark| everybody.mark == mark && !everybody.patched);
    let seen = everybody.mark == last.mark && generation == last.generation;
    if known && seen && now() < last.due_ms {
        return Ok(last.due_ms);
    }
    if !known {
        everybody = refresh(app, corp, now()).await?;
    }
    let at_ms = now();
    let next_ms = send(app, corp, &everybody, None, at_ms, now_ms).await?;
    let renew_ms = at_ms + app.config.hours.renew_every_ms;
    let due_ms = next_ms.map_or(renew_ms, |next_ms| next_ms.min(renew_ms));
    *last = Last {
        mark: everybody.mark.clone(),
        generation,
        due_ms,
    };
    Ok(due_ms)
}

/// Reads Postgres anew.
pub async fn refresh(
    app: &App,
    corp: &CorpApp,
    now_ms: u64,
) -> Result<Arc<Everybody>, ledger::Error> {
    // Read first: what changes meanwhile makes another mark.
    let mark = app.ledger.hours().mark(&corp.id).await?;
    let members = app.ledger.hours().all(&corp.id, now_ms).await?;
    let calendars = app.ledger.calendars().all(&corp.id).await?;
    let calendars: HashMap<_, _> = calendars.iter().map(|one| (&one.id, one)).collect();
    let mut schedules = HashMap::new();
    for schedule in app.ledger.schedules().all(&corp.id).await? {
        let of = schedule.calendars.iter();
        let of = of.filter_map(|id| calendars.get(id).copied());
        match plan::stored(&schedule, of) {
            Ok(read) => {
                schedules.insert(schedule.id, Arc::new(read));
            }
            Err(problem) => {
                tracing::error!(corp = %corp.id, schedule = %schedule.id, problem, "a schedule cannot be read; its members are off");
            }
        }
    }
    corp.hours.set(Everybody {
        mark,
        patched: false,
        members: members
            .into_iter()
            .map(|hours| (hours.member.clone(), hours))
            .collect(),
        schedules,
        never: Zone::named("UTC").map(|zone| Arc::new(Schedule::never(zone))),
    });
    Ok(corp.hours.now())
}

/// What was just written of one member is told to Redis at once, whatever the loop is at. If it cannot be told now, the loop
/// does it: the change itself is safe.
pub async fn tell(app: &App, corp: &CorpApp, hours: &MemberHours) {
    let known = corp.hours.now();
    let told = async {
        if known.is_known() && known.has_schedule_of(hours) {
            corp.hours.patch(hours.clone());
        } else {
            refresh(app, corp, app.now_ms()).await?;
        }
        let (everybody, at_ms) = (corp.hours.now(), app.now_ms());
        send(app, corp, &everybody, Some(&hours.member), at_ms, None).await
    };
    let told: Result<_, Error> = told.await;
    if let Err(error) = told {
        tracing::warn!(corp = %corp.id, member = %hours.member, error = %with_causes(&error), "Redis learns of it later");
    }
    corp.hours_changed.notify_one();
}

/// The same where it must be read first.
pub async fn tell_anew(app: &App, corp: &CorpApp, member: &MemberId) {
    let hours = app.ledger.hours();
    match hours.get(&corp.id, member, app.now_ms()).await {
        Ok(Some(hours)) => tell(app, corp, &hours).await,
        Ok(None) => {}
        Err(error) => {
            tracing::warn!(corp = %corp.id, member = %member, error = %error, "Redis learns of it later");
        }
    }
}

/// A schedule or calendar was just written: this process knows at once, its loop tells Redis, and the others look within a
/// second.
pub async fn changed(app: &App, corp: &CorpApp) {
    if let Err(error) = refresh(app, corp, app.now_ms()).await {
        tracing::warn!(corp = %corp.id, error = %error, "hours are read later");
    }
    corp.hours_changed.notify_one();
}

/// Leases were sent by what `used` said. If more is known meanwhile, what it says is sent.
pub async fn told_by(app: &App, corp: &CorpApp, used: &Arc<Everybody>) -> Result<(), Error> {
    let now = corp.hours.now();
    if Arc::ptr_eq(used, &now) {
        return Ok(());
    }
    send(app, corp, &now, None, app.now_ms(), None)
        .await
        .map(drop)
}

/// Sends what is due of everybody, or of one; answers when the rules say something else next.
async fn send(
    app: &App,
    corp: &CorpApp,
    everybody: &Everybody,
    only: Option<&MemberId>,
    at_ms: u64,
    redis_now_ms: Option<u64>,
) -> Result<Option<u64>, Error> {
    let standings: Vec<_> = everybody
        .members
        .iter()
        .filter(|(member, _)| only.is_none_or(|only| only == *member))
        .map(|(member, hours)| (member.clone(), everybody.facts(hours).standing(at_ms)))
        .collect();
    let next_ms = standings.iter().filter_map(|(_, one)| one.until_ms).min();
    let ids: Vec<MemberId> = standings.iter().map(|(member, _)| member.clone()).collect();
    let ends = corp.roster.leases_of(&ids).await?;
    let lease_ms = app.config.hours.lease_ms;
    let mut changes = Vec::new();
    let mut kept = 0u32;
    for ((member, standing), end) in standings.into_iter().zip(ends) {
        kept += u32::from(standing.may == May::On);
        if let Some(change) = leases::due(standing, end.unwrap_or(0), at_ms, lease_ms) {
            changes.push((member, change));
        }
    }
    if only.is_none() {
        gauge!("paidan_hours_on", "corp" => corp.id.to_string()).set(kept);
    }
    for part in changes.chunks(MAX_BATCH) {
        let leases = part.iter().map(|(member, change)| PresenceChange {
            member: member.clone(),
            lease_until_ms: change.lease_until_ms,
        });
        let payload = payload(corp, part, at_ms);
        corp.roster
            .presence(leases.collect(), &payload, redis_now_ms)
            .await?;
        corp.log_grew.notify_one();
        counter!("paidan_hours_leases_total", "corp" => corp.id.to_string())
            .increment(part.len() as u64);
    }
    Ok(next_ms)
}

/// A change from on to off or back is in the audit, a renewal is not.
fn payload(corp: &CorpApp, part: &[(MemberId, Change)], at_ms: u64) -> String {
    let turned: Vec<Value> = part
        .iter()
        .filter(|(_, change)| change.turned)
        .map(|(member, change)| {
            json!({
                "member": corp.names.userid(member),
                "online": change.lease_until_ms > 0,
                "why": change.why.as_str(),
            })
        })
        .collect();
    let payload = Payload {
        actor: Some("hours".to_owned()),
        ..Payload::default()
    };
    if turned.is_empty() {
        return payload.text();
    }
    let trail = Trail::system(at_ms, "hours");
    let after = Some(turned.into());
    let record = trail.record("presence.put", "presence".to_owned(), None, after);
    payload.by(record).text()
}
