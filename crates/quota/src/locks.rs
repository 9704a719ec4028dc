//! Locks of one corp: several names at once, for one owner, with a fence number.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use tokio::time::Instant;

use crate::fence_seed::{FenceSeed, Seeded};
use crate::held::{Held, Renewal};
use crate::lock_acquire::{Answered, LockAcquire};
use crate::lock_release::LockRelease;
use crate::lock_renew::LockRenew;
use crate::{Connection, Error, LockKeys};

/// How long locks last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// A lock that nobody renews is free after this.
    pub lease: Duration,
    /// Renewals end here: whoever works longer has lost the lock.
    pub longest: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            longest: Duration::from_secs(60),
        }
    }
}

/// What an attempt gave.
#[derive(Debug)]
pub enum Acquired {
    Held(Held),
    /// Somebody else has this name; it is free at `until_ms` unless he renews. Do something else meanwhile.
    Busy {
        name: String,
        until_ms: i64,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Scripts {
    acquire: LockAcquire,
    pub(crate) renew: LockRenew,
    pub(crate) release: LockRelease,
    seed: FenceSeed,
}

/// A cheap clone.
#[derive(Clone)]
pub struct Locks<C> {
    conn: C,
    times: Times,
    scripts: Arc<Scripts>,
}

impl<C> std::fmt::Debug for Locks<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locks")
            .field("times", &self.times)
            .finish_non_exhaustive()
    }
}

impl<C: Connection> Locks<C> {
    pub fn new(conn: C, times: Times) -> Self {
        Self {
            conn,
            times,
            scripts: Arc::default(),
        }
    }

    /// All of `names` or none. While the guard lives they are renewed; dropping this future at any moment leaves
    /// nothing behind that outlives one lease.
    pub async fn acquire(&self, corp: &str, names: &[&str]) -> Result<Acquired, Error> {
        let keys = LockKeys::new(corp, names);
        let owner = owner();
        let mut conn = self.conn.clone();
        let sent = Instant::now();
        let answered = self
            .scripts
            .acquire
            .call(
                &mut conn,
                &keys,
                &owner,
                millis(self.times.lease),
                millis(self.times.longest),
                None,
            )
            .await?;
        match answered {
            Answered::Held { fence, left_ms } => Ok(Acquired::Held(Held::start(
                Renewal {
                    conn,
                    scripts: self.scripts.clone(),
                    keys,
                    owner,
                    lease: self.times.lease,
                },
                fence,
                sent,
                Duration::from_millis(left_ms),
            ))),
            Answered::Busy { which, until_ms } => {
                let mut sorted = names.to_vec();
                sorted.sort_unstable();
                sorted.dedup();
                Ok(Acquired::Busy {
                    name: sorted.get(which).copied().unwrap_or_default().to_owned(),
                    until_ms,
                })
            }
        }
    }

    /// Opens a corp's quota and locks after Redis was new or emptied. `least` is the ledger's greatest counter.
    pub async fn fence_seed(
        &self,
        corp: &str,
        generation: i64,
        least: i64,
    ) -> Result<Seeded, Error> {
        let keys = LockKeys::new(corp, &[]);
        self.scripts
            .seed
            .call(&mut self.conn.clone(), &keys, generation, least)
            .await
    }
}

/// 47 random bits in 8 bytes: it only has to differ from the last few owners of the same names.
fn owner() -> String {
    let mut rng = rand::rng();
    (0..8)
        .map(|_| char::from(rng.sample(rand::distr::Alphanumeric)))
        .collect()
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
