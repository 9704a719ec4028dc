//! Groups that inviters have no way of their own into yet. Visitors are shown the campaign's way meanwhile: nobody waits for one. What a
//! process that ends had not written down is wished again by the next visitor.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ledger::{InviterWayLimits, InviterWish, PlanLimits};
use metrics::gauge;
use moka::sync::Cache;

use crate::app::{App, CorpApp};

/// Wishes of one corp in this process; beyond them they are forgotten.
const MOST: usize = 4_096;
/// Written down at once.
const BATCH: usize = 200;
/// What was wished for is not wished again for so long, granted or not: it takes its time, or there is no room.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Wishes {
    new: Mutex<BTreeSet<InviterWish>>,
    known: Cache<InviterWish, ()>,
}

impl Default for Wishes {
    fn default() -> Self {
        let known = Cache::builder()
            .max_capacity(MOST as u64 * 4)
            .time_to_live(AGAIN_AFTER);
        Self {
            new: Mutex::default(),
            known: known.build(),
        }
    }
}

impl Wishes {
    pub fn add(&self, wish: InviterWish) {
        if self.known.contains_key(&wish) {
            return;
        }
        self.known.insert(wish.clone(), ());
        self.put(vec![wish]);
    }

    fn put(&self, wishes: Vec<InviterWish>) {
        let mut new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST.saturating_sub(new.len());
        new.extend(wishes.into_iter().take(room));
    }

    fn take(&self) -> Vec<InviterWish> {
        let mut new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = match new.iter().nth(BATCH).cloned() {
            Some(first) => new.split_off(&first),
            None => BTreeSet::new(),
        };
        std::mem::replace(&mut *new, rest).into_iter().collect()
    }
}

/// Writes down what was wished for since the last time. True: there is more, or somebody else plans now.
pub async fn write(app: &App, corp: &CorpApp, plan: PlanLimits) -> Result<bool, ledger::Error> {
    let wishes = corp.inviter_wishes.take();
    if wishes.is_empty() {
        return Ok(false);
    }
    let rules = &app.config.fission;
    let limits = InviterWayLimits {
        of_inviter: rules.ways_of_inviter,
        of_corp: rules.inviter_ways,
        plan,
    };
    let table = app.ledger.join_ways();
    let done = table.wish(&corp.id, &wishes, limits, app.now_ms()).await;
    let done = match done {
        Ok(done) if !done.busy => done,
        other => {
            corp.inviter_wishes.put(wishes);
            return other.map(|_| true);
        }
    };
    gauge!("paidan_inviter_ways_refused", "corp" => corp.id.to_string()).set(done.refused as f64);
    if done.refused > 0 {
        tracing::warn!(corp = %corp.id, refused = done.refused, of_inviter = rules.ways_of_inviter, of_corp = rules.inviter_ways,
            "inviters lack ways of their own: their visitors are shown the campaign's");
    }
    if done.wanted + done.revived > 0 {
        tracing::info!(corp = %corp.id, wanted = done.wanted, revived = done.revived, retired = done.retired,
            "inviters get ways of their own");
    }
    Ok(wishes.len() >= BATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(n: usize) -> InviterWish {
        InviterWish {
            campaign: "spring".parse().unwrap(),
            inviter: format!("i{n:05}").parse().unwrap(),
            chat: None,
        }
    }

    #[test]
    fn a_wish_is_taken_once_and_they_are_bounded() {
        let wishes = Wishes::default();
        for n in [1, 2, 1] {
            wishes.add(wish(n));
        }
        assert_eq!(wishes.take(), [wish(1), wish(2)]);
        wishes.add(wish(1));
        assert!(wishes.take().is_empty(), "it was wished a moment ago");
        wishes.put((0..2 * MOST).map(wish).collect());
        let mut n = 0;
        loop {
            let taken = wishes.take().len();
            n += taken;
            if taken < BATCH {
                break;
            }
        }
        assert_eq!(n, MOST);
    }
}
