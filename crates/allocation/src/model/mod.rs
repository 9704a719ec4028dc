//! Every script of `roster` once more, as pure functions over plain values: the tests' oracle, the rebuilder's
//! fold, and the place to read the rules.
//!
//! The same operations with the same times give the same state, byte for byte: [`Corp::dump`] is what Redis holds
//! after the scripts did them. That needs the same arithmetic in the same order, so where a formula here looks as
//! if it could be simplified, its twin in `lua/` would have to be, too.

mod beside;
mod candidates;
mod close;
mod configure;
mod confirm;
mod credit;
mod decide;
mod dump;
mod gates;
#[cfg(test)]
mod gates_tests;
mod load;
mod member;
mod offer;
mod offer_dump;
#[cfg(test)]
mod offer_tests;
mod pick;
mod pool;
mod presence;
mod reassign;
mod route;
mod route_dump;
mod rows;
mod seats;
mod settle;
mod skills;
mod slots;
mod slots_dump;
#[cfg(test)]
mod tests;
mod view;
mod visit;
mod waiting;
mod watch;
mod windows;
#[cfg(test)]
mod windows_tests;
#[cfg(test)]
mod windows_told_tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::id::{AllocationId, ChannelId, MemberId, PoolId, RequestId, Skill, SubjectKey};
use crate::log::LogEntry;
use crate::op::Op;
use crate::outcome::{Answer, Decision, Outcome, Woken};
use crate::{MAX_LEASE_ENDS, MAX_WAKE, REQUEST_MEMORY_MS};

use configure::Config;
use member::Member;
use offer::{Offer, Offers};
use pool::Pool;
use route::Route;
use seats::Seats;
use slots::{Hold, Slots};
use waiting::{Drip, Queue, Waiting};
use windows::Windows;

pub(crate) use beside::{Due, Held, Traced};
pub(crate) use candidates::{Candidate, Choice, PickRule};
pub use candidates::{Filter, TieRule};
pub(crate) use watch::{How, Turn, Wait, Watcher};

pub use seats::{GroupPoolView, GroupView, PersonView, SeatPlace, SeatRows, SeatView};
pub use view::{AllocationView, Given, HoldView, MemberView, RouteView, Share, SlotView};

const HOUR_MS: u64 = 60 * 60 * 1000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The state of one corp.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Corp {
    seq: u64,
    at_ms: u64,
    /// Counts picks, newcomers and arrivals in waiting lists, over the whole corp: what orders them.
    turn: u64,
    members: BTreeMap<MemberId, Member>,
    /// Presence leases by their end.
    leases: BTreeSet<(u64, MemberId)>,
    /// When windows end that keep members out of pools.
    alarms: BTreeSet<(u64, MemberId)>,
    /// What channels with limits gave.
    gates: BTreeMap<ChannelId, Windows>,
    /// Channels that gave what they may, and when they may again.
    gate_alarms: BTreeSet<(u64, ChannelId)>,
    pools: BTreeMap<PoolId, Pool>,
    configs: BTreeMap<PoolId, Config>,
    /// Those that are not empty; they outlive their pool.
    queues: BTreeMap<Queue, Waiting>,
    /// How fast pools hand out those who waited.
    drips: BTreeMap<PoolId, Drip>,
    /// When plans of those who wait go on, with their names, in the order of Redis.
    patience: BTreeSet<(u64, String)>,
    skills: BTreeMap<MemberId, BTreeSet<Skill>>,
    opens: BTreeMap<SubjectKey, Vec<Open>>,
    requests: BTreeMap<RequestId, Remembered>,
    /// The same by age, to forget them.
    requests_by_age: BTreeSet<(u64, RequestId)>,
    slots: Slots,
    offers: Offers,
    seats: Seats,
}

/// An open or waiting allocation.
#[derive(Debug, Clone, PartialEq)]
struct Open {
    id: AllocationId,
    pool: PoolId,
    /// None: it waits.
    member: Option<MemberId>,
    /// The member who had the customer at WeCom when it was asked (or before it was moved): the giver, if he is
    /// not `member`.
    holder: Option<MemberId>,
    epoch: u64,
    settled: bool,
    /// It is a visitor's, who has not added the member yet.
    hold: Option<Hold>,
    /// What counts it in its member's limits of the pool.
    mark: Option<u64>,
    /// Its member has not accepted it yet, or a person must decide.
    offer: Option<Offer>,
    /// Its request had a plan.
    route: Option<Box<Route>>,
}

impl Open {
    /// The pool whose member it has: what he is given counts there.
    fn source(&self) -> &PoolId {
        let route = self.route.as_ref();
        route
            .and_then(|route| route.source.as_ref())
            .unwrap_or(&self.pool)
    }

    /// Since when it is held, or offered; None: it is neither.
    fn held_since_ms(&self) -> Option<u64> {
        let hold = self.hold.as_ref();
        let held = hold.map(|hold| hold.until_ms - hold.hold_ms);
        held.or(self.offer.as_ref().map(|offer| offer.since_ms))
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Remembered {
    at_ms: u64,
    decision: Decision,
}

impl Remembered {
    fn is_over(&self, now_ms: u64) -> bool {
        self.at_ms + REQUEST_MEMORY_MS <= now_ms
    }
}

/// One operation under way: the state, and what holds only during the call.
struct Call<'a> {
    corp: &'a mut Corp,
    now_ms: u64,
    /// Leases that this call may still end.
    ends_left: usize,
    /// Waiting subjects that this call may still hand out.
    wake_left: usize,
    /// Pools whose waiting list may have found a member.
    touched: Vec<PoolId>,
    /// Queues that nobody of the pool can serve, until somebody comes into it.
    barren: BTreeSet<Queue>,
    woken: Vec<Woken>,
    /// Members that may have nothing left to remember.
    seen: BTreeSet<MemberId>,
    watcher: Option<&'a mut dyn Watcher>,
    /// There is a seat for somebody who waits for one.
    seats_left: bool,
}

impl Corp {
    /// A corp of which nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of operations so far.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The time of the last operation.
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Does one operation. Always counts as one entry of the log.
    pub fn apply(&mut self, op: &Op, now_ms: u64) -> Outcome {
        self.apply_watched(op, now_ms, None)
    }

    fn apply_watched(
        &mut self,
        op: &Op,
        now_ms: u64,
        watcher: Option<&mut dyn Watcher>,
    ) -> Outcome {
        let mut call = Call::new(self, now_ms);
        call.watcher = watcher.map(|watcher| watcher as _);
        let answer = call.run(op);
        let outcome = call.outcome(answer);
        self.seq += 1;
        self.at_ms = now_ms;
        outcome
    }

    /// Does the operation of the next log entry and compares the outcome with the recorded one.
    pub fn fold(&mut self, entry: &LogEntry) -> Result<(), Error> {
        self.fold_seen(entry, None)
    }

    /// As [`Corp::fold`], while somebody looks on.
    pub(crate) fn fold_watched(
        &mut self,
        entry: &LogEntry,
        watcher: &mut dyn Watcher,
    ) -> Result<(), Error> {
        self.fold_seen(entry, Some(watcher))
    }

    fn fold_seen(
        &mut self,
        entry: &LogEntry,
        watcher: Option<&mut dyn Watcher>,
    ) -> Result<(), Error> {
        let fold = |problem: String| Error::Fold {
            seq: entry.seq,
            problem,
        };
        if entry.seq != self.seq + 1 {
            return Err(fold(format!("follows {}", self.seq)));
        }
        let outcome = self.apply_watched(&entry.op, entry.at_ms, watcher);
        if outcome != entry.outcome {
            return Err(fold(format!(
                "the rules give {:?}, the log has {:?}",
                outcome, entry.outcome
            )));
        }
        Ok(())
    }

    /// Remembers an answer, and forgets those that Redis forgets by itself: an hour after the last moment at which
    /// somebody could be told.
    fn remember(&mut self, id: RequestId, request: Remembered) {
        let now_ms = request.at_ms;
        self.requests_by_age.insert((now_ms, id.clone()));
        if let Some(old) = self.requests.insert(id.clone(), request)
            && old.at_ms != now_ms
        {
            self.requests_by_age.remove(&(old.at_ms, id));
        }
        while let Some((at_ms, id)) = self.requests_by_age.first()
            && at_ms + REQUEST_MEMORY_MS + HOUR_MS <= now_ms
        {
            self.requests.remove(id);
            self.requests_by_age.pop_first();
        }
    }

    fn turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }
}

impl<'a> Call<'a> {
    fn new(corp: &'a mut Corp, now_ms: u64) -> Self {
        Self {
            corp,
            now_ms,
            ends_left: MAX_LEASE_ENDS,
            wake_left: MAX_WAKE,
            touched: Vec::new(),
            barren: BTreeSet::new(),
            woken: Vec::new(),
            seen: BTreeSet::new(),
            watcher: None,
            seats_left: false,
        }
    }
}

impl Call<'_> {
    fn run(&mut self, op: &Op) -> Answer {
        if !matches!(op, Op::Rebuilt { .. } | Op::Seats(_)) {
            self.sweep();
            self.sweep_alarms();
            self.sweep_gates();
        }
        match op {
            Op::Decide(requests) => Answer::Decided(self.decide(requests)),
            Op::Close(closings) => Answer::Closed(self.close(closings)),
            Op::Settle(settlement) => Answer::Settled(self.settle(settlement)),
            Op::Reassign(reassignment) => Answer::Reassigned(self.reassign(reassignment)),
            Op::Presence(changes) => self.presence(changes),
            Op::SetMember(change) => Answer::Member(self.set_member(change)),
            Op::SetChannel(change) => Answer::Member(self.set_channel(change)),
            Op::SetPool(config) => Answer::Pool(self.set_pool(config)),
            Op::RemovePool { pool, version } => Answer::Pool(self.remove_pool(pool, *version)),
            Op::Wake { pool, limit } => self.wake_pool(pool, *limit),
            Op::Visit(visits) => Answer::Visited(self.visit(visits)),
            Op::Confirm(confirmations) => Answer::Confirmed(self.confirm(confirmations)),
            Op::Expire { limit } => self.expire(*limit),
            Op::SetSlots(change) => Answer::Slots(self.set_slots(change)),
            Op::Adjust(adjustment) => Answer::Adjusted(self.adjust(adjustment)),
            Op::Respond(response) => Answer::Responded(self.respond(response)),
            Op::Reclaim { limit } => self.reclaim(*limit),
            Op::SetSkills(change) => Answer::Member(self.set_skills(change)),
            Op::Advance { limit } => Answer::Advanced(self.advance(*limit)),
            Op::Seats(op) => {
                let (answer, seats_left) = self.corp.apply_seats(op, self.now_ms);
                self.seats_left = seats_left;
                Answer::Seats(answer)
            }
            Op::Note => Answer::Ok,
            Op::Rebuilt { .. } => self.all_off(),
        }
    }

    fn outcome(mut self, answer: Answer) -> Outcome {
        for id in std::mem::take(&mut self.seen) {
            if self.corp.members.get(&id).is_some_and(Member::is_blank) {
                self.corp.members.remove(&id);
            }
        }
        Outcome {
            answer,
            more: self.seats_left || self.touched.iter().any(|pool| self.can_wake(pool)),
            woken: self.woken,
        }
    }
}
