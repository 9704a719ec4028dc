//! The corp's log, read entry by entry with nothing but what the entries say: how many are in each group and hold a seat
//! there, who waits, who was confirmed. The rules of `allocation::model` are not asked.

use std::collections::{BTreeMap, HashMap, HashSet};

use allocation::{
    Answer, ChatId, EndedSeat, GroupChange, GroupPoolId, JoinedAs, LogEntry, Op, Released,
    Reserved, SeatAnswer, SeatId, SeatOp, SeatResult, SeatState, SeatsConfirmed, SetGroup,
    WokenSeat,
};

/// Problems that are told; all are counted.
const TOLD: usize = 3;

#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) pool: GroupPoolId,
    scan_cap: u32,
    buffer: u32,
    pub(super) open: bool,
    is_read: bool,
    people: u32,
    held: u32,
    /// Those in it who came on a seat that was held for them here.
    expected: HashSet<SeatId>,
}

impl Group {
    fn room(&self) -> u32 {
        self.scan_cap - self.buffer
    }

    fn free(&self) -> u32 {
        match self.open && self.is_read {
            true => self.room().saturating_sub(self.people + self.held),
            false => 0,
        }
    }

    /// Seats that are asked for, as far as it counts.
    fn taken(&self) -> u64 {
        match self.open {
            true => u64::from(self.people + self.held),
            false => 0,
        }
    }
}

/// What went wrong.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) count: u64,
    pub(super) first: Vec<String>,
}

impl Problems {
    pub(super) fn add(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < TOLD {
            self.first.push(what());
        }
    }

    pub(super) fn text(&self) -> String {
        match self.first.is_empty() {
            true => "none".to_owned(),
            false => format!("{}: {}", self.count, self.first.join("; ")),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) groups: BTreeMap<ChatId, Group>,
    /// Where seats are held.
    held: HashMap<SeatId, ChatId>,
    waiting: HashMap<SeatId, GroupPoolId>,
    pub(super) entries: u64,
    /// Groups shown.
    pub(super) shown: u64,
    pub(super) full: Problems,
    /// Holds, as an entry says, that are not those which began and did not end.
    pub(super) miscounted: Problems,
    /// More people on their own seats, and holds, than a group may be filled with.
    pub(super) overfilled: Problems,
    pub(super) confirmed: HashMap<SeatId, u32>,
    pub(super) late: u64,
    pub(super) released: u64,
    pub(super) served: u64,
    /// How often a group was told to be open.
    pub(super) opened: BTreeMap<ChatId, u32>,
    /// Of each pool: seats taken and asked for now, and the most there ever were.
    taken: BTreeMap<GroupPoolId, u64>,
    pub(super) most: BTreeMap<GroupPoolId, u64>,
}

impl Log {
    pub(super) fn entry(&mut self, entry: &LogEntry) {
        self.entries += 1;
        let (Op::Seats(op), Answer::Seats(answer)) = (&entry.op, &entry.outcome.answer) else {
            return;
        };
        let seq = entry.seq;
        for lapsed in &answer.lapsed {
            self.lapsed(lapsed);
        }
        match (op, &answer.result) {
            (SeatOp::Reserve(_), SeatResult::Reserved(_)) => self.gives_up_full(answer),
            (SeatOp::Release(_), SeatResult::Released(released)) => self.released(op, released),
            (SeatOp::Confirm(change), SeatResult::Confirmed(confirmed)) => {
                self.confirmed(seq, &change.chat, confirmed);
            }
            (SeatOp::SetGroup(set), SeatResult::Group(GroupChange::Changed)) => self.set(set),
            (
                SeatOp::RemoveGroup { chat, .. },
                SeatResult::Removed {
                    change: GroupChange::Changed,
                    ended,
                },
            ) => {
                for seat in ended {
                    self.held.remove(&seat.seat);
                }
                self.change(chat, |group| group.open = false);
                self.groups.remove(chat);
            }
            _ => {}
        }
        // What is free is known now; whoever waits comes before those who ask.
        for woken in &answer.woken {
            self.woken(seq, woken);
        }
        if let (SeatOp::Reserve(asked), SeatResult::Reserved(reserved)) = (op, &answer.result) {
            for (asked, reserved) in asked.iter().zip(reserved) {
                match reserved {
                    Reserved::Held { seat, chat, .. } => self.hold(seq, *seat, chat),
                    Reserved::Waiting { seat, .. } => {
                        self.waits(*seat, &asked.pool);
                    }
                    Reserved::Again { .. } | Reserved::Joined { .. } | Reserved::NoPool => {}
                }
            }
        }
    }

    /// Changes a group, and what is known of its pool.
    fn change<T>(&mut self, chat: &ChatId, change: impl FnOnce(&mut Group) -> T) -> Option<T> {
        let group = self.groups.get_mut(chat)?;
        let before = group.taken();
        let changed = change(group);
        let (pool, now) = (group.pool.clone(), group.taken());
        let (own, room) = (
            group.expected.len() as u64 + u64::from(group.held),
            group.room(),
        );
        if own > u64::from(room) {
            let chat = chat.clone();
            self.overfilled
                .add(|| format!("{chat}: {own} of {room} by their own seats"));
        }
        self.demand(&pool, before, now);
        Some(changed)
    }

    fn demand(&mut self, pool: &GroupPoolId, before: u64, now: u64) {
        let taken = self.taken.entry(pool.clone()).or_default();
        *taken = *taken + now - before;
        let most = self.most.entry(pool.clone()).or_default();
        *most = (*most).max(*taken);
    }

    fn waits(&mut self, seat: SeatId, pool: &GroupPoolId) {
        if self.waiting.insert(seat, pool.clone()).is_none() {
            self.demand(pool, 0, 1);
        }
    }

    fn waits_no_more(&mut self, seat: SeatId) {
        if let Some(pool) = self.waiting.remove(&seat) {
            self.demand(&pool, 1, 0);
        }
    }

    /// The group had room before.
    fn hold(&mut self, seq: u64, seat: SeatId, chat: &ChatId) {
        self.shown += 1;
        let free = self.change(chat, |group| {
            let free = group.free();
            group.held += 1;
            free
        });
        if free.is_none_or(|free| free == 0) {
            self.full
                .add(|| format!("entry {seq} shows {chat}, which has no seat"));
        }
        self.held.insert(seat, chat.clone());
    }

    fn unhold(&mut self, seat: SeatId) -> Option<ChatId> {
        let chat = self.held.remove(&seat)?;
        self.change(&chat, |group| group.held = group.held.saturating_sub(1));
        Some(chat)
    }

    fn woken(&mut self, seq: u64, woken: &WokenSeat) {
        self.waits_no_more(woken.seat);
        self.served += 1;
        self.hold(seq, woken.seat, &woken.chat);
    }

    fn lapsed(&mut self, lapsed: &EndedSeat) {
        if lapsed.was == SeatState::Waiting {
            self.waits_no_more(lapsed.seat);
        }
    }

    /// Those whose group is full by now wait, or have another one.
    fn gives_up_full(&mut self, answer: &SeatAnswer) {
        let SeatResult::Reserved(reserved) = &answer.result else {
            return;
        };
        for reserved in reserved {
            let seat = match reserved {
                Reserved::Waiting { seat, .. } => *seat,
                Reserved::Again { seat, .. }
                    if answer.woken.iter().any(|woken| woken.seat == *seat) =>
                {
                    *seat
                }
                _ => continue,
            };
            self.unhold(seat);
        }
    }

    fn released(&mut self, op: &SeatOp, released: &[Released]) {
        let SeatOp::Release(asked) = op else { return };
        for (asked, released) in asked.iter().zip(released) {
            match released {
                Released::Released { .. } => {
                    self.released += 1;
                    if self.unhold(asked.seat).is_none() {
                        let seat = asked.seat;
                        self.miscounted
                            .add(|| format!("{seat} was given back and not held"));
                    }
                }
                Released::GaveUp => self.waits_no_more(asked.seat),
                Released::Stale | Released::Unknown => {}
            }
        }
    }

    fn confirmed(&mut self, seq: u64, chat: &ChatId, confirmed: &SeatsConfirmed) {
        let SeatsConfirmed::Counted {
            count,
            left,
            joined,
            ..
        } = confirmed
        else {
            return;
        };
        self.change(chat, |group| {
            for leaving in left {
                group.expected.remove(&leaving.seat);
            }
        });
        for joining in joined {
            let JoinedAs::Seat { seat, was, .. } = &joining.joined else {
                continue;
            };
            *self.confirmed.entry(*seat).or_default() += 1;
            match was {
                SeatState::Held => {
                    let from = self.unhold(*seat);
                    if from.as_ref() == Some(chat) {
                        self.change(chat, |group| group.expected.insert(*seat));
                    }
                }
                SeatState::Waiting => self.waits_no_more(*seat),
                SeatState::Expired => self.late += 1,
                SeatState::Confirmed | SeatState::Late => {}
            }
        }
        let (people, held) = (count.people, count.held);
        let ours = self.change(chat, |group| {
            group.is_read = true;
            group.people = people;
            group.held
        });
        if ours != Some(held) {
            self.miscounted.add(|| {
                format!("entry {seq} says that {held} seats of {chat} are held, not {ours:?}")
            });
        }
    }

    fn set(&mut self, set: &SetGroup) {
        let chat = set.chat();
        if !self.groups.contains_key(chat) {
            let group = Group {
                pool: set.pool().clone(),
                scan_cap: set.scan_cap(),
                buffer: set.buffer(),
                open: false,
                is_read: false,
                people: 0,
                held: 0,
                expected: HashSet::new(),
            };
            self.groups.insert(chat.clone(), group);
        }
        if set.open() {
            *self.opened.entry(chat.clone()).or_default() += 1;
        }
        self.change(chat, |group| {
            group.scan_cap = set.scan_cap();
            group.buffer = set.buffer();
            group.open = set.open();
        });
    }

    /// A group that can be shown to nobody now.
    pub(super) fn full_one(&self) -> Option<&ChatId> {
        let mut groups = self.groups.iter();
        groups
            .find(|(_, group)| group.open && group.is_read && group.free() == 0)
            .map(|(chat, _)| chat)
    }
}
