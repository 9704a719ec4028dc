//! Seats made of what is known of pools, groups and seats, for a log that cannot be folded.

use std::collections::BTreeMap;

use super::super::Corp;
use super::group::{Group, GroupPool, Person};
use super::view::GroupView;
use super::{Call, Expired, Held, Seat, SeatPlace, SeatView, Taken, Waiter};
use crate::seats::{ChatId, GroupPoolId, SetGroupPool};

/// What the ledger knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeatRows {
    pub pools: Vec<SetGroupPool>,
    /// With their people. Counts, and whose seat a person has, come from `seats`.
    pub groups: Vec<GroupView>,
    /// In the order in which they began: who waits keeps his place.
    pub seats: Vec<SeatView>,
    /// Versions at which they were removed.
    pub removed_pools: Vec<(GroupPoolId, u64)>,
    pub removed_groups: Vec<(ChatId, u64)>,
}

impl Corp {
    /// The same state with these seats. Nobody knows any more which group was shown last. What does not fit (a group without
    /// pool, a seat in no group) is left out.
    #[must_use]
    pub fn with_seats(mut self, rows: SeatRows) -> Self {
        let seats = &mut self.seats;
        seats.removed_pools.extend(rows.removed_pools);
        seats.removed_groups.extend(rows.removed_groups);
        for set in rows.pools {
            let pool = GroupPool {
                version: set.version,
                strategy: set.strategy,
                free: 0,
            };
            seats.removed_pools.remove(&set.pool);
            seats.pools.insert(set.pool, pool);
        }
        let now_ms = self.at_ms;
        let mut call = Call::new(&mut self, now_ms);
        for view in rows.groups {
            call.stand_group(view);
        }
        for view in rows.seats {
            call.stand_seat(view);
        }
        self
    }
}

impl Call<'_> {
    fn stand_group(&mut self, view: GroupView) {
        let set = view.config;
        if !self.seats.pools.contains_key(&set.content.pool) {
            return;
        }
        let people = view.people.iter().map(|view| {
            let what = match (view.pending, view.doubted) {
                (true, true) => Person::Doubted,
                (true, false) => Person::Pending,
                (false, _) => Person::Plain,
            };
            (view.person, what)
        });
        let group = Group {
            version: set.version,
            people: people.collect::<BTreeMap<_, _>>(),
            seen: view.seen,
            n_held: 0,
            picked: 0,
            content: set.content,
        };
        let pool = group.content.pool.clone();
        self.seats.removed_groups.remove(&set.chat);
        let of_pool = self.seats.of_pool.entry(pool).or_default();
        of_pool.insert(set.chat.clone());
        self.seats.groups.insert(set.chat.clone(), group);
        self.put(&set.chat, 0);
    }

    fn stand_seat(&mut self, view: SeatView) {
        let name = view.name();
        let seat = view.seat;
        match view.place {
            SeatPlace::Held {
                chat,
                until_ms,
                anonymous,
                via,
            } => {
                if !self.seats.groups.contains_key(&chat) {
                    return;
                }
                let held = Held {
                    seat,
                    chat,
                    anonymous,
                    via,
                    until_ms,
                    turn: self.next_turn(),
                };
                self.change_group(&held.chat, |group| group.n_held += 1);
                self.seats.ends.insert((until_ms, name.to_string()));
                self.know(&name, &held);
                self.seats.seats.insert(name, Seat::Held(held));
            }
            SeatPlace::Waiting {
                pool,
                tags,
                until_ms,
                anonymous,
                via,
                hold_ms,
            } => {
                let turn = self.next_turn();
                let waiter = Waiter {
                    seat,
                    wanted: (pool, tags),
                    anonymous,
                    via,
                    until_ms,
                    turn,
                    hold_ms,
                };
                self.wait(name, waiter);
            }
            SeatPlace::Taken { chat, person, late } => {
                if !self.seats.groups.contains_key(&chat) {
                    return;
                }
                self.change_group(&chat, |group| {
                    group.people.insert(person, Person::Seated(name.clone()));
                });
                let taken = Taken {
                    seat,
                    chat,
                    person,
                    late,
                };
                self.seats.seats.insert(name, Seat::Taken(taken));
            }
            SeatPlace::Expired { chat, until_ms } => {
                self.seats.pasts.insert((until_ms, name.to_string()));
                let expired = Expired {
                    seat,
                    chat,
                    until_ms,
                };
                self.seats.seats.insert(name, Seat::Expired(expired));
            }
        }
    }

    fn change_group(&mut self, chat: &ChatId, change: impl FnOnce(&mut Group)) {
        let before = self.lift(chat);
        if let Some(group) = self.seats.groups.get_mut(chat) {
            change(group);
        }
        self.put(chat, before);
    }
}
