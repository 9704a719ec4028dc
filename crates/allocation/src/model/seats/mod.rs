//! Seats of customer groups. What a seat is stands in `crate::seats`; here is what happens to it.
//!
//! - **Room.** A group has room for scan cap − buffer − people − held more. Whoever may be shown a group is picked by the
//!   numbers that stand here, in the same call that takes the seat: no group is shown that has no room. Others come past us;
//!   they take room as everybody does, and may leave less than nothing.
//! - **Closed.** A group whose people were never read has no room, whatever its numbers say.
//! - **Nobody overtakes.** Who finds no room waits, in the queue of those who want the same tags; whoever comes later waits
//!   behind him if a group that is free now would be right for him. Of several queues the one is served first whose first has
//!   waited longest and can be served.
//! - **Ends.** A hold whose time is over keeps its seat until somebody releases it: WeCom is asked first whether he came. A
//!   place in the waiting room ends when it was not asked for in time, and a memory when its time is over.
//!
//! Nothing here looks at members and their pools, and no operation on those looks here. Both share the corp's clock, its turns
//! and its log.

mod configure;
mod confirm;
mod dump;
mod group;
mod load;
mod release;
mod reserve;
mod rows;
#[cfg(test)]
mod tests;
mod view;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use super::Corp;
use super::pool::Score;
use crate::seats::{
    ChatId, EndedSeat, GroupPoolId, GroupTag, MAX_SEAT_LAPSES, MAX_SEAT_WAKE, PersonKey,
    SeatAnswer, SeatId, SeatName, SeatOp, SeatResult, SeatState, Via, WokenSeat,
};

use group::{Group, GroupPool};
use waiting::{Queue, Wanted};

pub use rows::SeatRows;
pub use view::{GroupPoolView, GroupView, PersonView, SeatPlace, SeatView};

/// Groups of a pool, all or those with a tag.
type Order = (GroupPoolId, Option<GroupTag>);
/// Holds of a group, all or those that were shown one way into it.
type Way = (ChatId, Option<Via>);
type ByTurn = BTreeSet<(u64, SeatName)>;

/// All of a corp.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Seats {
    pools: BTreeMap<GroupPoolId, GroupPool>,
    groups: BTreeMap<ChatId, Group>,
    /// Versions of what was removed: an older configuration does not bring it back.
    removed_pools: BTreeMap<GroupPoolId, u64>,
    removed_groups: BTreeMap<ChatId, u64>,
    /// Groups of a pool, whatever room they have.
    of_pool: BTreeMap<GroupPoolId, BTreeSet<ChatId>>,
    /// Available groups of a pool, all and by tag, in the order in which they are shown.
    free: BTreeMap<Order, BTreeSet<(Score, String)>>,
    seats: BTreeMap<SeatName, Seat>,
    /// Held seats of a group, by the turn in which they began.
    held: BTreeMap<ChatId, ByTurn>,
    /// Those of them that nothing names, all and by the way that was shown.
    anonymous: BTreeMap<Way, ByTurn>,
    /// Those that are not empty; they outlive their pool.
    queues: BTreeMap<Wanted, Queue>,
    /// Ends of holds with their names, in the order of Redis.
    ends: BTreeSet<(u64, String)>,
    /// Ends of waiting places and memories.
    pasts: BTreeSet<(u64, String)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Seat {
    Held(Held),
    Waiting(Waiter),
    /// Confirmed: this person is in this group.
    Taken(Taken),
    Expired(Expired),
}

#[derive(Debug, Clone, PartialEq)]
struct Held {
    seat: SeatId,
    chat: ChatId,
    anonymous: bool,
    via: Option<Via>,
    until_ms: u64,
    turn: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct Waiter {
    seat: SeatId,
    wanted: Wanted,
    anonymous: bool,
    via: Option<Via>,
    until_ms: u64,
    turn: u64,
    hold_ms: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct Taken {
    seat: SeatId,
    chat: ChatId,
    person: PersonKey,
    /// It had expired before.
    late: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Expired {
    seat: SeatId,
    chat: ChatId,
    until_ms: u64,
}

impl Seat {
    fn id(&self) -> SeatId {
        match self {
            Seat::Held(held) => held.seat,
            Seat::Waiting(waiter) => waiter.seat,
            Seat::Taken(taken) => taken.seat,
            Seat::Expired(expired) => expired.seat,
        }
    }

    fn state(&self) -> SeatState {
        match self {
            Seat::Held(_) => SeatState::Held,
            Seat::Waiting(_) => SeatState::Waiting,
            Seat::Taken(taken) if taken.late => SeatState::Late,
            Seat::Taken(_) => SeatState::Confirmed,
            Seat::Expired(_) => SeatState::Expired,
        }
    }

    fn ended(&self, name: &SeatName) -> EndedSeat {
        EndedSeat {
            seat: self.id(),
            campaign: name.campaign.clone(),
            subject: name.subject,
            was: self.state(),
        }
    }
}

/// One operation under way: the seats, and what holds only during the call.
struct Call<'a> {
    seats: &'a mut Seats,
    turn: &'a mut u64,
    now_ms: u64,
    /// Those who wait that this call may still give a seat.
    wake_left: usize,
    /// Waiting places that are over and that this call may still clear away.
    lapses_left: usize,
    /// Pools in which there is more room than before, or which were asked about.
    touched: Vec<GroupPoolId>,
    woken: Vec<WokenSeat>,
    lapsed: Vec<EndedSeat>,
}

impl Corp {
    /// Does one operation; also whether there is still somebody who waits and a seat for him.
    pub(super) fn apply_seats(&mut self, op: &SeatOp, now_ms: u64) -> (SeatAnswer, bool) {
        let mut call = Call::new(self, now_ms);
        let result = call.run(op);
        let more = call.touched.iter().any(|pool| call.can_wake(pool));
        let answer = SeatAnswer {
            result,
            woken: call.woken,
            lapsed: call.lapsed,
        };
        (answer, more)
    }
}

impl<'a> Call<'a> {
    fn new(corp: &'a mut Corp, now_ms: u64) -> Self {
        Self {
            seats: &mut corp.seats,
            turn: &mut corp.turn,
            now_ms,
            wake_left: MAX_SEAT_WAKE,
            lapses_left: MAX_SEAT_LAPSES,
            touched: Vec::new(),
            woken: Vec::new(),
            lapsed: Vec::new(),
        }
    }
}

impl Call<'_> {
    fn run(&mut self, op: &SeatOp) -> SeatResult {
        match op {
            SeatOp::Reserve(asked) => {
                let reserved = asked.iter().map(|asked| self.reserve(asked));
                SeatResult::Reserved(reserved.collect())
            }
            SeatOp::Release(asked) => {
                let released = asked.iter().map(|asked| self.release(asked)).collect();
                self.wake();
                SeatResult::Released(released)
            }
            SeatOp::Confirm(change) => {
                let confirmed = self.confirm(change);
                self.wake();
                SeatResult::Confirmed(confirmed)
            }
            SeatOp::SetPool(set) => SeatResult::Pool(self.set_pool(set)),
            SeatOp::RemovePool { pool, version } => {
                SeatResult::Pool(self.remove_pool(pool, *version))
            }
            SeatOp::SetGroup(set) => {
                let change = self.set_group(set);
                self.wake();
                SeatResult::Group(change)
            }
            SeatOp::RemoveGroup { chat, version } => {
                let (change, ended) = self.remove_group(chat, *version);
                SeatResult::Removed { change, ended }
            }
            SeatOp::Wake { pool, limit } => {
                if self.seats.pools.contains_key(pool) {
                    self.wake_left = self.wake_left.min(*limit as usize);
                    self.touch(pool);
                    self.wake();
                }
                SeatResult::Ok
            }
            SeatOp::Forget { limit } => SeatResult::Forgotten {
                taken: self.forget(*limit),
            },
        }
    }

    fn next_turn(&mut self) -> u64 {
        *self.turn += 1;
        *self.turn
    }

    fn touch(&mut self, pool: &GroupPoolId) {
        if !self.touched.contains(pool) {
            self.touched.push(pool.clone());
        }
    }
}

/// Takes an entry out of a set that is not kept when it is empty: Redis knows no empty set.
fn take_out<K: Ord, T: Ord>(sets: &mut BTreeMap<K, BTreeSet<T>>, key: K, entry: &T) {
    if let Some(set) = sets.get_mut(&key) {
        set.remove(entry);
        if set.is_empty() {
            sets.remove(&key);
        }
    }
}
