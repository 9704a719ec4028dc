//! What a period would have been, had a pool been something else all along: the inputs of its log once more, through the same
//! rules, beside the log itself.
//!
//! Two states go forward together. One is folded as recorded, and must give the recorded outcomes. The other begins as the same
//! state, with the drafted pools put at once; it is asked what the log says was asked, at the same times. Without a draft, or
//! with one that is what the pool was, both are the same at every entry, byte for byte: [`Report::differences`] is 0.
//!
//! What is assumed:
//!
//! - **Stays**: who asked for which pool and when, what it needed and whom it preferred (so earlier members whom only a draft
//!   would look for are not tried); visits; who was there; limits, blocks, hours, skills and slots of members; credit
//!   entries; other pools; and by name given customers. A pool that has a draft is put when the period begins; what puts or
//!   removes it in the log is skipped, and counted as such. Which pools serve when, and what is done without after a
//!   while, is as the draft says, if it says so ([`Change::plan`]).
//! - **Is about whoever has that subject under the draft**: closings (a customer who left somebody leaves whoever has him, or the
//!   waiting list; one who left a member that did not have him leaves nobody), results of transfers, reassignments, answers to
//!   offers. A transfer that there is not, under the draft, has no end.
//! - **A visitor** who added the member he saw adds the one he sees under the draft; one who added another member adds
//!   that one. One who was shown nobody yet adds nobody: what he would have done later is not known.
//! - **Cannot be said**: an input whose subject has nothing under the draft, or is with nobody yet, is left out and counted
//!   ([`Report::not_applicable`]).
//! - **Offers**: where the pool offers under the draft and did not, everybody accepts at once; where it did, each answer
//!   goes to whoever is asked, and answers that nobody gave are none.
//! - **By itself**: who is free for someone who waits gets him at once; holds, offers, and hours and days of limits that end only
//!   under the draft end on time. A load window that is another one ends customers that long after they asked, whether
//!   their transfers are done or not.
//!
//! What it costs: both states in memory, and each entry twice. Nothing is cloned per entry.

mod change;
mod inputs;
mod meter;
mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::explain::{self, Explanation};
use crate::id::{AllocationId, PoolId, SubjectKey};
use crate::log::LogEntry;
use crate::model::{Corp, Due, Traced};
use crate::offer::Response;
use crate::op::{Closing, Op, Request};
use crate::outcome::{Adjusted, Answer, Decision, Outcome};
use crate::visit::Confirmed;
use crate::{MAX_BATCH, MAX_WAKE};

use inputs::{Both, Mapped};
use meter::Meter;

pub use change::{Change, Replan, Window};
pub use report::{Compared, Customers, Pool, Report, Waits};

/// Differences that are named.
const FIRST_DIFFERENCES: usize = 10;
/// Ends and wake-ups between two entries. More than that is a rule that never comes to rest.
const MOST_BESIDE: usize = 10_000;

/// Goes forward through a log.
#[derive(Debug)]
pub struct WhatIf {
    draft: Corp,
    changes: BTreeMap<PoolId, Change>,
    was: Meter,
    would: Meter,
    /// Whose window passes when.
    let_go: BTreeSet<(u64, SubjectKey, PoolId, AllocationId)>,
    report: Report,
}

impl WhatIf {
    /// Begins with this state. Without changes the log is done again as it is.
    pub fn new(recorded: &Corp, changes: impl IntoIterator<Item = Change>, from_ms: u64) -> Self {
        let from_ms = from_ms.max(recorded.at_ms());
        let changes = changes.into_iter();
        let changes = changes.map(|change| (change.config.pool.clone(), change));
        let mut whatif = Self {
            draft: recorded.clone(),
            changes: changes.collect(),
            was: Meter::new(recorded, from_ms),
            would: Meter::new(recorded, from_ms),
            let_go: BTreeSet::new(),
            report: Report::default(),
        };
        whatif.put(from_ms);
        whatif.wake(recorded, from_ms);
        whatif.begin_windows(from_ms);
        whatif
    }

    fn put(&mut self, now_ms: u64) {
        let configs = self.changes.values().map(|change| change.config.clone());
        for mut config in configs.collect::<Vec<_>>() {
            if self.draft.content(&config.pool) == Some(&config.content) {
                continue;
            }
            config.version = self.draft.next_version(&config.pool);
            self.beside(Op::SetPool(config), now_ms);
        }
    }

    /// Folds the entry into the recorded state, and does what it asks for in the other one.
    pub fn fold(&mut self, recorded: &mut Corp, entry: &LogEntry) -> Result<(), Error> {
        let now_ms = entry.at_ms;
        self.end_by_itself(recorded, now_ms);
        let skipped = self.is_fixed(&entry.op);
        let mapped = match skipped {
            true => Mapped::skipped(),
            false => {
                let mut both = Both {
                    recorded: &mut *recorded,
                    draft: &mut self.draft,
                    changes: &self.changes,
                };
                both.map(entry)
            }
        };
        let shown = visits_of(recorded, &entry.op, now_ms);
        self.was.now_ms = now_ms;
        recorded.fold_watched(entry, &mut self.was)?;
        self.was.after(recorded, &entry.op, &entry.outcome, &shown);

        let shown = visits_of(&mut self.draft, &mapped.op, now_ms);
        self.would.now_ms = now_ms;
        let outcome = self.draft.go_on(&mapped.op, now_ms, &mut self.would);
        self.would.after(&self.draft, &mapped.op, &outcome, &shown);
        self.compare(entry, &mapped, &outcome, skipped);
        self.begin_window(&mapped.op, &outcome, now_ms);
        self.accept(recorded, now_ms);
        self.wake(recorded, now_ms);
        Ok(())
    }

    /// The state under the draft.
    pub fn draft(&self) -> &Corp {
        &self.draft
    }

    /// Entries so far.
    pub fn entries(&self) -> u64 {
        self.report.entries
    }

    pub fn end(self, recorded: &Corp) -> Report {
        let mut report = self.report;
        report.pools = report::compared(self.was.end(recorded), self.would.end(&self.draft));
        report
    }

    /// Of a pool that has a draft.
    fn is_fixed(&self, op: &Op) -> bool {
        match op {
            Op::SetPool(config) => self.changes.contains_key(&config.pool),
            Op::RemovePool { pool, .. } => self.changes.contains_key(pool),
            _ => false,
        }
    }

    fn compare(&mut self, entry: &LogEntry, mapped: &Mapped<'_>, outcome: &Outcome, skipped: bool) {
        let report = &mut self.report;
        report.entries += 1;
        report.inputs += inputs::count(&entry.op);
        report.not_applicable += mapped.not_applicable;
        if skipped {
            report.skipped += 1;
            return;
        }
        if *outcome == entry.outcome {
            return;
        }
        report.differences += 1;
        if report.first_differences.len() < FIRST_DIFFERENCES {
            report.first_differences.push(entry.seq);
        }
        if entry.outcome.answer == Answer::Adjusted(Adjusted::Adjusted)
            && outcome.answer != entry.outcome.answer
        {
            report.not_applicable += 1;
        }
    }

    /// Does something under the draft that is no entry of the log.
    fn beside(&mut self, op: Op, at_ms: u64) -> Outcome {
        let now_ms = at_ms.max(self.draft.at_ms());
        self.would.now_ms = now_ms;
        let outcome = self.draft.go_beside(&op, now_ms, &mut self.would);
        self.would.after(&self.draft, &op, &outcome, &[]);
        outcome
    }

    /// Nobody waits while somebody is free who can serve him. Where the recorded state has the same, an entry of the log sees to
    /// it.
    fn wake(&mut self, recorded: &Corp, now_ms: u64) {
        for _ in 0..MOST_BESIDE {
            let mut pools = self.draft.can_wake();
            pools.retain(|pool| !self.draft.has_same_queues(recorded, pool));
            let mut woken = 0;
            for pool in pools {
                let limit = MAX_WAKE as u32;
                woken += self.beside(Op::Wake { pool, limit }, now_ms).woken.len();
            }
            if woken == 0 {
                return;
            }
        }
    }

    /// What ends until then under the draft, and not in the recorded state or not yet.
    fn end_by_itself(&mut self, recorded: &Corp, until_ms: u64) {
        for _ in 0..MOST_BESIDE {
            let due = self.draft.due_beside(recorded, until_ms);
            let window_ms = self.let_go.first().map(|(at_ms, ..)| *at_ms);
            let window_ms = window_ms.filter(|at_ms| *at_ms <= until_ms);
            let limit = MAX_BATCH as u32;
            let (op, at_ms) = match (due, window_ms) {
                (None, None) => return,
                (Some((at_ms, due)), window_ms) if window_ms.is_none_or(|ms| at_ms <= ms) => {
                    let op = match due {
                        Due::Alarm => Op::Note,
                        Due::Hold => Op::Expire { limit },
                        Due::Offer => Op::Reclaim { limit },
                        Due::Patience => Op::Advance { limit },
                    };
                    (op, at_ms)
                }
                (_, window_ms) => {
                    let at_ms = window_ms.unwrap_or(until_ms);
                    (Op::Close(self.passed(at_ms)), at_ms)
                }
            };
            if self.beside(op, at_ms).more {
                self.wake(recorded, at_ms);
            }
        }
    }

    /// Those whose window has passed then.
    fn passed(&mut self, at_ms: u64) -> Vec<Closing> {
        let mut closings = Vec::new();
        while closings.len() < MAX_BATCH
            && self.let_go.first().is_some_and(|(due, ..)| *due <= at_ms)
            && let Some((_, subject, pool, allocation)) = self.let_go.pop_first()
        {
            let change = self.changes.get(&pool);
            let Some(window) = change.and_then(|change| change.window.as_ref()) else {
                continue;
            };
            closings.push(Closing {
                subject,
                pool: Some(pool),
                member: None,
                allocation: Some(allocation),
                reason: window.reason.clone(),
            });
        }
        closings
    }

    /// Who is there when the period begins counts since he asked: his allocation's id says when that was.
    fn begin_windows(&mut self, from_ms: u64) {
        if self.changes.values().all(|change| change.window.is_none()) {
            return;
        }
        for one in self.draft.allocations().collect::<Vec<_>>() {
            let asked_ms = asked_ms(one.allocation).unwrap_or(from_ms);
            self.window_begins(one.subject, one.pool, one.allocation, asked_ms);
        }
    }

    fn begin_window(&mut self, op: &Op, outcome: &Outcome, now_ms: u64) {
        if self.changes.values().all(|change| change.window.is_none()) {
            return;
        }
        match (op, &outcome.answer) {
            (Op::Decide(requests), Answer::Decided(decisions)) => {
                for (request, decision) in requests.iter().zip(decisions) {
                    if let Decision::Assigned { allocation, .. }
                    | Decision::Offered { allocation, .. }
                    | Decision::Waiting { allocation } = decision
                    {
                        let pool = request.pool.clone();
                        self.window_begins(request.subject, pool, *allocation, now_ms);
                    }
                }
            }
            (Op::Confirm(confirmations), Answer::Confirmed(confirmed)) => {
                for (asked, found) in confirmations.iter().zip(confirmed) {
                    let allocation = match found {
                        Confirmed::Confirmed { held, .. } => *held,
                        Confirmed::Late { allocation, .. }
                        | Confirmed::Mismatched { allocation, .. }
                        | Confirmed::Direct { allocation } => *allocation,
                        _ => continue,
                    };
                    for pool in self.changes.keys().cloned().collect::<Vec<_>>() {
                        let held = self.draft.held(&asked.subject, &pool);
                        if held.is_some_and(|held| held.allocation == allocation) {
                            self.window_begins(asked.subject, pool, allocation, now_ms);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn window_begins(
        &mut self,
        subject: SubjectKey,
        pool: PoolId,
        allocation: AllocationId,
        asked_ms: u64,
    ) {
        let change = self.changes.get(&pool);
        let window = change.and_then(|change| change.window.as_ref());
        if let Some(after_ms) = window.and_then(|window| window.after_ms) {
            let due_ms = asked_ms.saturating_add(after_ms);
            self.let_go.insert((due_ms, subject, pool, allocation));
        }
    }

    /// Nobody knows what they would have said who were not asked.
    fn accept(&mut self, recorded: &Corp, now_ms: u64) {
        let offers = |corp: &Corp, pool| corp.content(pool).is_some_and(|one| one.offer.is_some());
        let pools = self.changes.keys();
        let new = pools.filter(|pool| offers(&self.draft, pool) && !offers(recorded, pool));
        for pool in new.cloned().collect::<Vec<_>>() {
            for subject in self.draft.asked_in(&pool) {
                let held = self.draft.held(&subject, &pool);
                let Some((held, member)) = held.and_then(|one| Some((one.clone(), one.member?)))
                else {
                    continue;
                };
                let response = Response {
                    allocation: held.allocation,
                    pool: pool.clone(),
                    subject,
                    member,
                    epoch: held.epoch,
                    declined: None,
                };
                self.beside(Op::Respond(response), now_ms);
            }
        }
    }
}

/// Whom a request would come to that is made now, and why. The state is left as it is.
pub fn explain_one(
    state: &Corp,
    change: Change,
    request: &Request,
    now_ms: u64,
) -> Result<Vec<Explanation>, Error> {
    let mut before = WhatIf::new(state, [change], now_ms).draft;
    let op = Op::Decide(vec![request.clone()]);
    let entry = LogEntry {
        seq: before.seq() + 1,
        at_ms: now_ms,
        outcome: before.clone().apply(&op, now_ms),
        op,
        payload: None,
    };
    explain::fold_and_explain(&mut before, &entry, request.allocation)
}

/// The visits that confirmations come from.
fn visits_of(corp: &mut Corp, op: &Op, now_ms: u64) -> Vec<Option<Traced>> {
    match op {
        Op::Confirm(asked) => {
            let shown = asked.iter().map(|one| corp.traced(one, now_ms));
            shown.collect()
        }
        _ => Vec::new(),
    }
}

/// When an allocation was asked for, if its id says so.
fn asked_ms(allocation: AllocationId) -> Option<u64> {
    let (seconds, nanos) = allocation.0.get_timestamp()?.to_unix();
    Some(seconds * 1000 + u64::from(nanos) / 1_000_000)
}
