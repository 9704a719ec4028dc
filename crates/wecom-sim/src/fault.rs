//! Faults in force: which of them meets a call.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::api::{Api, Fields};
use crate::config::{Act, Fault, When};
use crate::random::{For, Random};
use crate::sync::{Lock, Slot};

/// What is known of a call when faults are chosen.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) api: Api,
    pub(crate) corp: Option<&'a str>,
    pub(crate) agent_id: Option<u32>,
    pub(crate) ip: IpAddr,
    pub(crate) fields: &'a Fields,
    pub(crate) seq: u64,
    pub(crate) seed: u64,
}

/// All faults in force.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    armed: Slot<Vec<Arc<Armed>>>,
    /// Spares calls the look when there are none.
    any: AtomicBool,
    numbers: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Armed {
    id: String,
    number: u64,
    fault: Fault,
    from_ms: i64,
    until_ms: i64,
    left: AtomicU64,
    hits: AtomicU64,
    removed: CancellationToken,
    /// Calls per corp that met this fault as a block.
    in_block: Lock<HashMap<Option<String>, u64>>,
}

/// A fault as `GET /sim/faults` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, serde::Deserialize)]
pub struct ArmedFault {
    /// For removing it.
    pub id: String,
    /// How many calls met it.
    pub hits: u64,
    /// As given.
    pub fault: Fault,
}

/// What strikes a call.
#[derive(Debug)]
pub(crate) struct Strike {
    pub(crate) act: Act,
    /// For a scripted 45009 that lasts: which call of the block this is, from 0.
    pub(crate) nth_in_block: Option<u64>,
}

impl Faults {
    /// Puts a fault in force; its id.
    pub(crate) fn add(&self, fault: Fault, now_ms: i64) -> Result<String, Error> {
        fault.check("fault")?;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let id = fault
            .id
            .clone()
            .unwrap_or_else(|| format!("fault-{}", number + 1));
        let from_ms = fault.from_ms.unwrap_or(i64::MIN);
        let until_ms = match (fault.until_ms, fault.for_ms) {
            (Some(until_ms), _) => until_ms,
            (None, Some(for_ms)) => fault.from_ms.unwrap_or(now_ms).saturating_add(for_ms),
            (None, None) => i64::MAX,
        };
        let armed = Arc::new(Armed {
            left: AtomicU64::new(fault.times.unwrap_or(u64::MAX)),
            hits: AtomicU64::new(0),
            removed: CancellationToken::new(),
            in_block: Lock::default(),
            id: id.clone(),
            number,
            fault,
            from_ms,
            until_ms,
        });
        self.armed.update(|list| {
            if list.iter().any(|other| other.id == id) {
                return (
                    list.clone(),
                    Err(Error::Request(format!(
                        "a fault {id} is in force already; delete it first"
                    ))),
                );
            }
            let mut list = list.clone();
            list.push(armed);
            (list, Ok(()))
        })?;
        self.any.store(true, Ordering::Release);
        Ok(id)
    }

    /// Ends one fault, or all; calls it held go on. How many ended.
    pub(crate) fn remove(&self, id: Option<&str>) -> usize {
        let removed = self.armed.update(|list| {
            let (removed, kept): (Vec<_>, Vec<_>) = list
                .iter()
                .cloned()
                .partition(|armed| id.is_none_or(|id| armed.id == id));
            self.any.store(!kept.is_empty(), Ordering::Release);
            (kept, removed)
        });
        for armed in &removed {
            armed.removed.cancel();
        }
        removed.len()
    }

    pub(crate) fn list(&self) -> Vec<ArmedFault> {
        let list = self.armed.get();
        list.iter()
            .map(|armed| ArmedFault {
                id: armed.id.clone(),
                hits: armed.hits.load(Ordering::Relaxed),
                fault: armed.fault.clone(),
            })
            .collect()
    }

    /// There are some.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Waits where faults say so; the first that does more than that.
    pub(crate) async fn strike(
        &self,
        when: When,
        facts: &Facts<'_>,
        now_ms: i64,
    ) -> Option<Strike> {
        if !self.any() {
            return None;
        }
        let list = self.armed.get();
        for armed in list
            .iter()
            .filter(|armed| armed.fault.when == when && !armed.is_for_rows(facts.api))
        {
            if !armed.meets(facts, now_ms) || !armed.spend() {
                continue;
            }
            match &armed.fault.act {
                Act::DelayMs(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
                Act::Hold => armed.removed.cancelled().await,
                act => {
                    return Some(Strike {
                        act: act.clone(),
                        nth_in_block: armed.nth_in_block(facts),
                    });
                }
            }
        }
        None
    }

    /// The scripted code of one customer's, or group's, row in a transfer.
    pub(crate) fn row_code(&self, facts: &Facts<'_>, row: &str, now_ms: i64) -> Option<i32> {
        if !self.any() {
            return None;
        }
        self.armed
            .get()
            .iter()
            .find_map(|armed| match armed.fault.act {
                Act::Errcode(code)
                    if armed.is_for_rows(facts.api)
                        && armed.row(facts.api) == Some(row)
                        && armed.meets(facts, now_ms)
                        && armed.spend() =>
                {
                    Some(code)
                }
                _ => None,
            })
    }
}

impl Armed {
    /// An errcode for one customer, or group, of a transfer belongs into that row, not to the whole call.
    fn is_for_rows(&self, api: Api) -> bool {
        self.row(api).is_some()
            && self.fault.when == When::Before
            && matches!(self.fault.act, Act::Errcode(_))
    }

    /// The customer or group that it is about, in a transfer of such.
    fn row(&self, api: Api) -> Option<&str> {
        if api.is_transfer() {
            self.fault.customer.as_deref()
        } else if api.is_group_transfer() {
            self.fault.chat.as_deref()
        } else {
            None
        }
    }

    fn meets(&self, facts: &Facts<'_>, now_ms: i64) -> bool {
        let fault = &self.fault;
        (self.from_ms..self.until_ms).contains(&now_ms)
            && (fault.api == "*" || fault.api == facts.api.name())
            && fault
                .corp
                .as_deref()
                .is_none_or(|corp| facts.corp == Some(corp))
            && fault
                .agent_id
                .is_none_or(|agent_id| facts.agent_id == Some(agent_id))
            && fault.ip.is_none_or(|ip| facts.ip == ip)
            && fault
                .member
                .as_deref()
                .is_none_or(|member| facts.fields.names_member(member))
            && fault
                .taker
                .as_deref()
                .is_none_or(|taker| facts.fields.names_taker(taker))
            && fault
                .customer
                .as_deref()
                .is_none_or(|customer| facts.fields.names_customer(customer))
            && fault
                .chat
                .as_deref()
                .is_none_or(|chat| facts.fields.names_chat(chat))
            && (fault.probability >= 1.0
                || Random::new(facts.seed ^ self.number, For::Fault, facts.seq)
                    .chance(fault.probability))
    }

    /// Uses up one of its times.
    fn spend(&self) -> bool {
        let spend = |left: u64| match left {
            u64::MAX => Some(u64::MAX),
            left => left.checked_sub(1),
        };
        let spent = self
            .left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, spend)
            .is_ok();
        if spent {
            self.hits.fetch_add(1, Ordering::Relaxed);
        }
        spent
    }

    /// A certain 45009 over a stretch of time is a block, as if the quota had been exceeded.
    fn nth_in_block(&self, facts: &Facts<'_>) -> Option<u64> {
        let fault = &self.fault;
        let lasts = fault.times.is_none() && fault.probability >= 1.0 && self.until_ms < i64::MAX;
        if fault.act != Act::Errcode(45009) || !lasts {
            return None;
        }
        let mut in_block = self.in_block.lock();
        let nth = in_block.entry(facts.corp.map(str::to_owned)).or_default();
        *nth += 1;
        Some(*nth - 1)
    }
}
