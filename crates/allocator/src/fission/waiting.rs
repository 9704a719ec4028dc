//! Visitors who came when no seat was free: their requests stay open for a moment, for a seat may come back, or a group be
//! opened for them. Nobody asks again and again: whatever frees a seat in this process says whose it is by now, and one look at
//! Redis for all of them together, while there are any, finds the seats that another process gave.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use allocation::{SeatName, model::SeatPlace};
use roster::SeatsApplied;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    app::{App, CorpApp},
    backoff::sleep,
};

/// Requests of one corp that wait in this process; whoever comes beyond them has his place in the waiting room at once.
pub const MOST: usize = 4_096;
/// How late a seat may be seen that another process gave.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Who waits. Requests that are given up leave it by themselves.
#[derive(Debug, Default)]
pub struct Waiters {
    known: Mutex<Known>,
    /// Rung when the first one comes.
    came: Notify,
}

#[derive(Debug, Default)]
struct Known {
    next: u64,
    n: usize,
    /// A visitor may have his page open more than once.
    of: HashMap<SeatName, HashMap<u64, Arc<Notify>>>,
}

/// One request that waits, until it is dropped.
#[derive(Debug)]
pub struct Place<'a> {
    waiters: &'a Waiters,
    name: SeatName,
    id: u64,
    told: Arc<Notify>,
}

impl Waiters {
    /// None: too many wait.
    pub fn enter(&self, name: SeatName) -> Option<Place<'_>> {
        let told = Arc::new(Notify::new());
        let mut known = self.known();
        if known.n >= MOST {
            return None;
        }
        let id = known.next;
        known.next += 1;
        known.n += 1;
        let of = known.of.entry(name.clone()).or_default();
        of.insert(id, Arc::clone(&told));
        drop(known);
        self.came.notify_one();
        Some(Place {
            waiters: self,
            name,
            id,
            told,
        })
    }

    /// Something has become of their places.
    pub fn tell<'a>(&self, names: impl IntoIterator<Item = &'a SeatName>) {
        let known = self.known();
        for name in names {
            for told in known.of.get(name).into_iter().flat_map(HashMap::values) {
                told.notify_one();
            }
        }
    }

    /// How many requests wait.
    pub fn n(&self) -> usize {
        self.known().n
    }

    fn names(&self) -> Vec<SeatName> {
        self.known().of.keys().cloned().collect()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Returns when something has become of it since the last time.
    pub async fn told(&self) {
        self.told.notified().await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut known = self.waiters.known();
        known.n -= 1;
        if let Some(of) = known.of.get_mut(&self.name) {
            of.remove(&self.id);
            if of.is_empty() {
                known.of.remove(&self.name);
            }
        }
    }
}

/// After every operation on seats: the log grew, those who found a seat are told, and the rest is served soon.
pub(crate) fn applied<T>(corp: &CorpApp, applied: &SeatsApplied<T>) {
    corp.log_grew.notify_one();
    if applied.more {
        corp.seats_freed.notify_one();
    }
    if applied.woken.is_empty() {
        return;
    }
    let woken = applied.woken.iter().map(|woken| SeatName {
        campaign: woken.campaign.clone(),
        subject: woken.subject,
    });
    let woken: Vec<SeatName> = woken.collect();
    corp.waiters.tell(&woken);
}

/// Looks while anybody waits, until the program stops.
pub async fn run(_: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        tokio::select! {
            () = corp.waiters.came.notified() => {}
            () = stop.cancelled() => return,
        }
        while corp.waiters.n() > 0 && sleep(LOOK_EVERY, &stop).await {
            if let Err(error) = look(&corp).await {
                // They are answered when their time is over.
                tracing::debug!(corp = %corp.id, error = %error, "nobody looked for those who wait");
            }
        }
    }
}

/// Tells those whose place is none in the waiting room any more.
pub async fn look(corp: &CorpApp) -> Result<(), roster::Error> {
    let names = corp.waiters.names();
    let seats = corp.roster.seats(&names).await?;
    let moved = names.iter().zip(&seats).filter(|(_, seat)| {
        let place = seat.as_ref().map(|seat| &seat.place);
        !matches!(place, Some(SeatPlace::Waiting { .. }))
    });
    corp.waiters.tell(moved.map(|(name, _)| name));
    Ok(())
}

#[cfg(test)]
mod tests {
    use allocation::{CampaignId, CorpId, SubjectKey};

    use super::*;

    fn name(who: &str) -> SeatName {
        let corp = CorpId::new("ww1").unwrap();
        SeatName {
            campaign: CampaignId::new("spring").unwrap(),
            subject: SubjectKey::new(&corp, "unionid", who),
        }
    }

    #[tokio::test]
    async fn who_is_told_goes_on_and_who_goes_leaves_nothing() {
        let waiters = Waiters::default();
        let (one, again) = (waiters.enter(name("a")), waiters.enter(name("a")));
        let other = waiters.enter(name("b")).unwrap();
        let (one, again) = (one.unwrap(), again.unwrap());
        // Told before it is waited for, both of a visitor's requests, and nobody else.
        waiters.tell(&[name("a"), name("c")]);
        one.told().await;
        again.told().await;
        let told = tokio::time::timeout(Duration::ZERO, other.told()).await;
        assert!(told.is_err());
        drop((one, again));
        assert_eq!((waiters.n(), waiters.names()), (1, vec![name("b")]));
        drop(other);
        assert_eq!((waiters.n(), waiters.names().len()), (0, 0));
    }

    #[test]
    fn beyond_the_limit_nobody_waits() {
        let waiters = Waiters::default();
        let mut all: Vec<Place> = (0..MOST)
            .map(|n| waiters.enter(name(&n.to_string())).unwrap())
            .collect();
        assert!(waiters.enter(name("x")).is_none());
        all.pop();
        assert!(waiters.enter(name("x")).is_some());
    }
}
