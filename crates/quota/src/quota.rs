//! Permits for calls: the corp's budget first, then that of the address we call from.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::budget_block::{BudgetBlock, Mode};
use crate::budget_give::BudgetGive;
use crate::budget_read::{BudgetRead, Row};
use crate::budget_renew::BudgetRenew;
use crate::budget_take::{BudgetTake, Taken};
use crate::permit::Place;
use crate::renewing::{Clock, Renewal, Renewing};
use crate::window::{HOUR_GRAIN_MS, MINUTE_GRAIN_MS, Window};
use crate::{BudgetKeys, Connection, Error, Limits, Outcome, Permit, Reason};

/// How much a call matters beside others of the same API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Urgency {
    #[default]
    Ordinary,
    /// A person waits for it within seconds: it may use the last part of a window, and ordinary calls let it pass.
    Urgent,
}

/// Whose limit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Corp,
    Egress,
}

/// Whether a call may go out now.
#[derive(Debug)]
pub enum Take<C: Connection> {
    Taken(Permit<C>),
    /// Ask again then, with jitter, and hold nothing meanwhile.
    Wait {
        until_ms: i64,
        reason: Reason,
        scope: Scope,
    },
}

/// No call of this API before a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    pub api: String,
    pub until_ms: i64,
}

/// One API's budget, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    pub api: String,
    pub minute_used: i64,
    pub minute_limit: u32,
    pub hour_used: i64,
    pub hour_limit: u32,
    pub in_flight: i64,
    /// Places now; fewer than configured after WeCom refused for concurrency.
    pub in_flight_limit: i64,
    pub blocked_until_ms: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct Scripts {
    pub(crate) take: BudgetTake,
    pub(crate) give: BudgetGive,
    pub(crate) renew: BudgetRenew,
    block: BudgetBlock,
    read: BudgetRead,
}

/// What WeCom still lets us call. A cheap clone.
#[derive(Clone)]
pub struct Quota<C> {
    pub(crate) conn: C,
    limits: Arc<Limits>,
    egress: Option<Arc<str>>,
    pub(crate) scripts: Arc<Scripts>,
}

impl<C> std::fmt::Debug for Quota<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quota")
            .field("limits", &self.limits)
            .field("egress", &self.egress)
            .finish_non_exhaustive()
    }
}

impl<C: Connection> Quota<C> {
    pub fn new(conn: C, limits: Limits) -> Self {
        Self {
            conn,
            limits: Arc::new(limits),
            egress: None,
            scripts: Arc::default(),
        }
    }

    /// Calls go out from this address (any name that all processes behind it share): its limits count too.
    #[must_use]
    pub fn with_egress(mut self, address: &str) -> Self {
        self.egress = Some(address.into());
        self
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A permit for one call of `api` by `corp`. Its place is renewed in the background, unless the caller says the time.
    pub async fn take(
        &self,
        corp: &str,
        api: &str,
        urgency: Urgency,
        now_ms: Option<i64>,
    ) -> Result<Take<C>, Error> {
        let urgent = urgency == Urgency::Urgent;
        let id = format!("{:016x}", rand::random::<u64>());
        let keys = BudgetKeys::corp(corp, api);
        let limits = self.limits.corp(api, urgent);
        let mut conn = self.conn.clone();
        let take = &self.scripts.take;
        let sent = Instant::now();
        let corp_place = match take
            .call(&mut conn, &keys, api, &id, limits, urgent, now_ms)
            .await?
        {
            Taken::Taken { taken_ms, cap } => Place { taken_ms, cap },
            Taken::Wait { until_ms, reason } => {
                return Ok(Take::Wait {
                    until_ms,
                    reason,
                    scope: Scope::Corp,
                });
            }
        };
        let mut permit = Permit {
            quota: self.clone(),
            corp: corp.into(),
            api: api.into(),
            id: id.into(),
            corp_place,
            egress_place: None,
            renewing: None,
        };
        if now_ms.is_none() {
            permit.renewing = Some(self.renewing(keys, &permit, limits.lease_ms, sent));
        }
        let Some(keys) = self.egress_keys(api) else {
            return Ok(Take::Taken(permit));
        };
        let limits = self.limits.egress(urgent);
        let second = take
            .call(&mut conn, &keys, api, &permit.id, limits, urgent, now_ms)
            .await;
        match second {
            Ok(Taken::Taken { taken_ms, cap }) => {
                permit.egress_place = Some(Place { taken_ms, cap });
                Ok(Take::Taken(permit))
            }
            Ok(Taken::Wait { until_ms, reason }) => {
                permit.done(Outcome::Unused, now_ms).await?;
                Ok(Take::Wait {
                    until_ms,
                    reason,
                    scope: Scope::Egress,
                })
            }
            Err(error) => {
                // If this fails too, the lease gives the place back.
                permit.done(Outcome::Unused, now_ms).await.ok();
                Err(error)
            }
        }
    }

    fn renewing(
        &self,
        keys: BudgetKeys,
        permit: &Permit<C>,
        lease_ms: u64,
        sent: Instant,
    ) -> Renewing {
        let renewal = Renewal {
            conn: self.conn.clone(),
            scripts: self.scripts.clone(),
            keys,
            permit: permit.id.clone(),
            lease_ms,
            longest: Duration::from_millis(self.limits.longest_ms),
            clock: Clock {
                redis_ms: permit.corp_place.taken_ms,
                arrived: Instant::now(),
            },
        };
        Renewing::start(renewal, sent)
    }

    pub(crate) fn egress_keys(&self, api: &str) -> Option<BudgetKeys> {
        let address = self.egress.as_deref()?;
        Some(BudgetKeys::egress(address, api))
    }

    /// No call before `until_ms`; never shortens a block. Works while the corp is closed: the rebuild restores the
    /// blocks that the ledger knows, then seeds the fence.
    pub async fn block(
        &self,
        corp: &str,
        api: &str,
        until_ms: i64,
        now_ms: Option<i64>,
    ) -> Result<(), Error> {
        self.set_block(
            &BudgetKeys::corp(corp, api),
            api,
            until_ms,
            Mode::Raise,
            now_ms,
        )
        .await
    }

    /// Lifts a block, as a person did at WeCom.
    pub async fn unblock(&self, corp: &str, api: &str, now_ms: Option<i64>) -> Result<(), Error> {
        self.set_block(&BudgetKeys::corp(corp, api), api, 0, Mode::Set, now_ms)
            .await
    }

    /// As [`block`](Self::block) for every corp behind our address; nothing without one.
    pub async fn block_egress(
        &self,
        api: &str,
        until_ms: i64,
        now_ms: Option<i64>,
    ) -> Result<(), Error> {
        let Some(keys) = self.egress_keys(api) else {
            return Ok(());
        };
        self.set_block(&keys, api, until_ms, Mode::Raise, now_ms)
            .await
    }

    /// The blocks of a corp that are not over.
    pub async fn blocks(&self, corp: &str, now_ms: Option<i64>) -> Result<Vec<Blocked>, Error> {
        let (now, rows) = self.read(&BudgetKeys::corp(corp, ""), now_ms).await?;
        Ok(rows
            .into_iter()
            .filter(|row| row.block_until_ms > now)
            .map(|row| Blocked {
                api: row.api,
                until_ms: row.block_until_ms,
            })
            .collect())
    }

    /// Every API that the corp used of late or that is blocked.
    pub async fn usage(&self, corp: &str, now_ms: Option<i64>) -> Result<Vec<Usage>, Error> {
        let (now, rows) = self.read(&BudgetKeys::corp(corp, ""), now_ms).await?;
        Ok(rows
            .into_iter()
            .map(|row| self.usage_of(row, now))
            .collect())
    }

    fn usage_of(&self, row: Row, now_ms: i64) -> Usage {
        let limits = self.limits.corp(&row.api, true);
        let most = i64::from(limits.in_flight);
        let grow_ms = i64::try_from(limits.grow_back_ms).unwrap_or(i64::MAX);
        Usage {
            minute_used: Window::read(&row.minute, MINUTE_GRAIN_MS, now_ms).used(),
            minute_limit: limits.per_minute,
            hour_used: Window::read(&row.hour, HOUR_GRAIN_MS, now_ms).used(),
            hour_limit: limits.per_hour,
            in_flight: row.in_flight,
            in_flight_limit: row.shrunk.map_or(most, |(cap, at)| {
                most.min(cap + ((now_ms - at) / grow_ms).max(0))
            }),
            blocked_until_ms: Some(row.block_until_ms).filter(|until| *until > now_ms),
            api: row.api,
        }
    }

    async fn read(&self, keys: &BudgetKeys, now_ms: Option<i64>) -> Result<(i64, Vec<Row>), Error> {
        let read = &self.scripts.read;
        let (now, mut rows) = read.call(&mut self.conn.clone(), keys, now_ms).await?;
        rows.sort_by(|a, b| a.api.cmp(&b.api));
        Ok((now, rows))
    }

    async fn set_block(
        &self,
        keys: &BudgetKeys,
        api: &str,
        until_ms: i64,
        mode: Mode,
        now_ms: Option<i64>,
    ) -> Result<(), Error> {
        let block = &self.scripts.block;
        block
            .call(&mut self.conn.clone(), keys, api, until_ms, mode, now_ms)
            .await?;
        Ok(())
    }
}
