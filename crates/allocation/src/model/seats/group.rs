//! Groups: how much room they have, and which is shown next.
//!
//! An available group stands in the order of its pool and in that of each of its tags, so the choice is the first one. Whatever
//! changes the numbers of a group takes it out of the orders before (`lift`) and puts it back afterwards (`put`).

use std::collections::BTreeMap;

use super::super::pool::Score;
use super::{Call, Held, Order, Seat, Seats, Way, take_out};
use crate::seats::{
    ChatId, ChatVersion, FillStrategy, GroupContent, GroupCount, GroupPoolId, GroupTags, PersonKey,
    SeatId, SeatName, Via,
};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct GroupPool {
    pub(super) version: u64,
    pub(super) strategy: FillStrategy,
    /// Free seats of all its available groups.
    pub(super) free: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) version: u64,
    pub(super) content: GroupContent,
    /// What its people were last; None: it was never read, so nobody is shown it.
    pub(super) seen: Option<ChatVersion>,
    pub(super) people: BTreeMap<PersonKey, Person>,
    pub(super) n_held: u32,
    /// The turn in which somebody was last shown it; 0: never.
    pub(super) picked: u64,
}

/// Somebody who is in a group.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Person {
    /// He just takes room.
    Plain,
    /// The same, until a read of the group says who he is.
    Pending,
    /// The same, but only a read that may be old says that he is in it.
    Doubted,
    /// It is his seat.
    Seated(SeatName),
}

/// In front of a group's id in an order: what decides between those of one score, with so many digits that texts are in the
/// order of numbers.
const TIE_DIGITS: usize = 16;

impl Group {
    pub(super) fn n_people(&self) -> u32 {
        u32::try_from(self.people.len()).unwrap_or(u32::MAX)
    }

    /// Whether or not anybody may be shown it.
    pub(super) fn room(&self) -> u32 {
        let taken = self.content.buffer + self.n_people() + self.n_held;
        self.content.scan_cap.saturating_sub(taken)
    }

    /// Seats that may be given away.
    pub(super) fn free(&self) -> u32 {
        if self.content.open && self.seen.is_some() {
            self.room()
        } else {
            0
        }
    }

    pub(super) fn count(&self) -> GroupCount {
        let is_unnamed = |person: &&Person| matches!(person, Person::Pending | Person::Doubted);
        let n_unnamed = self.people.values().filter(is_unnamed).count();
        let n_unnamed = u32::try_from(n_unnamed).unwrap_or(u32::MAX);
        let taken = self.n_people() + self.n_held - n_unnamed.min(self.n_held);
        GroupCount {
            people: self.n_people(),
            held: self.n_held,
            free: self.room(),
            oversold: taken.saturating_sub(self.content.scan_cap),
        }
    }

    /// Its place in the orders of its pool.
    pub(super) fn place(&self, chat: &ChatId, strategy: FillStrategy) -> (Score, String) {
        let (score, tie) = match strategy {
            FillStrategy::FillFirst => (f64::from(self.content.rank), 0),
            FillStrategy::Spread => (self.picked as f64, 0),
            FillStrategy::LeastFilled => {
                let room = self.content.scan_cap.saturating_sub(self.content.buffer);
                let taken = self.n_people() + self.n_held;
                (f64::from(taken) / f64::from(room), self.picked)
            }
        };
        (Score(score), format!("{tie:0TIE_DIGITS$}{chat}"))
    }

    /// The orders in which it stands while it is available: all of its pool, and those of its tags.
    pub(super) fn orders(&self) -> Vec<Order> {
        let tags = self.content.tags.iter().cloned().map(Some);
        let orders = std::iter::once(None).chain(tags);
        orders.map(|tag| (self.content.pool.clone(), tag)).collect()
    }
}

impl Seats {
    /// The group that is shown next to somebody with these wishes.
    pub(super) fn choose(&self, pool: &GroupPoolId, tags: &GroupTags) -> Option<ChatId> {
        tags.wishes().find_map(|tag| {
            let order = self.free.get(&(pool.clone(), tag.cloned()))?;
            let (_, name) = order.first()?;
            name[TIE_DIGITS..].parse().ok()
        })
    }
}

impl Call<'_> {
    /// Before its numbers change. Answers how many seats it had to give away.
    pub(super) fn lift(&mut self, chat: &ChatId) -> u32 {
        let group = &self.seats.groups[chat];
        let free = group.free();
        if free > 0 {
            let pool = &self.seats.pools[&group.content.pool];
            let place = group.place(chat, pool.strategy);
            for order in group.orders() {
                take_out(&mut self.seats.free, order, &place);
            }
        }
        free
    }

    /// After they changed; with what `lift` answered, or 0 where it was in no order.
    pub(super) fn put(&mut self, chat: &ChatId, before: u32) {
        let group = &self.seats.groups[chat];
        let free = group.free();
        let of = group.content.pool.clone();
        let pool = self.seats.pools.get_mut(&of).expect("its pool");
        pool.free = pool.free + u64::from(free) - u64::from(before);
        if free > 0 {
            let place = group.place(chat, pool.strategy);
            for order in group.orders() {
                let order = self.seats.free.entry(order).or_default();
                order.insert(place.clone());
            }
        }
        if free > before {
            self.touch(&of);
        }
    }

    /// Gives a seat of the group away. Answers when the hold ends.
    pub(super) fn hold(
        &mut self,
        name: SeatName,
        seat: SeatId,
        chat: ChatId,
        shown: (bool, Option<Via>),
        hold_ms: u64,
    ) -> u64 {
        let (anonymous, via) = shown;
        let turn = self.next_turn();
        let before = self.lift(&chat);
        let group = self.seats.groups.get_mut(&chat).expect("the chosen one");
        group.n_held += 1;
        group.picked = turn;
        self.put(&chat, before);
        let until_ms = self.now_ms + hold_ms;
        let held = Held {
            seat,
            chat,
            anonymous,
            via,
            until_ms,
            turn,
        };
        self.seats.ends.insert((until_ms, name.to_string()));
        self.know(&name, &held);
        self.seats.seats.insert(name, Seat::Held(held));
        until_ms
    }

    /// Takes a hold away; what becomes of the seat is the caller's. `lifted`: its group is out of the orders already.
    pub(super) fn unhold(&mut self, name: &SeatName, held: &Held, lifted: bool) {
        self.seats.ends.remove(&(held.until_ms, name.to_string()));
        self.unknow(name, held);
        let before = if lifted { 0 } else { self.lift(&held.chat) };
        let group = self.seats.groups.get_mut(&held.chat).expect("its group");
        group.n_held -= 1;
        if !lifted {
            self.put(&held.chat, before);
        }
    }

    /// The hold can be found by its group and, if nothing names it, by the way that was shown.
    pub(super) fn know(&mut self, name: &SeatName, held: &Held) {
        let entry = (held.turn, name.clone());
        let of_group = self.seats.held.entry(held.chat.clone()).or_default();
        of_group.insert(entry.clone());
        for key in held.guesses() {
            let of_way = self.seats.anonymous.entry(key).or_default();
            of_way.insert(entry.clone());
        }
    }

    pub(super) fn unknow(&mut self, name: &SeatName, held: &Held) {
        let entry = (held.turn, name.clone());
        take_out(&mut self.seats.held, held.chat.clone(), &entry);
        for key in held.guesses() {
            take_out(&mut self.seats.anonymous, key, &entry);
        }
    }
}

impl Held {
    /// Where it is looked for when somebody comes whom nothing names: in its group, and by its way.
    pub(super) fn guesses(&self) -> Vec<Way> {
        if !self.anonymous {
            return Vec::new();
        }
        let via = self.via.clone().map(Some);
        let ways = std::iter::once(None).chain(via);
        ways.map(|via| (self.chat.clone(), via)).collect()
    }
}
