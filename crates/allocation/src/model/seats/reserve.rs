//! Asking for a seat.

use super::{Call, Held, Seat, Waiter};
use crate::seats::{ReserveSeat, Reserved, SeatId, SeatName};

impl Call<'_> {
    pub(super) fn reserve(&mut self, asked: &ReserveSeat) -> Reserved {
        let name = asked.name();
        match self.seats.seats.get(&name).cloned() {
            Some(Seat::Held(held)) => self.hold_again(name, held, asked),
            Some(Seat::Taken(taken)) => Reserved::Joined {
                seat: taken.seat,
                chat: taken.chat,
            },
            // What he has outlives a pool; a new seat or place needs one.
            _ if !self.seats.pools.contains_key(&asked.pool) => Reserved::NoPool,
            Some(Seat::Waiting(waiter)) => self.wait_again(name, waiter, asked),
            Some(Seat::Expired(expired)) => {
                let end = (expired.until_ms, name.to_string());
                self.seats.pasts.remove(&end);
                self.seats.seats.remove(&name);
                self.begin(name, asked)
            }
            None => self.begin(name, asked),
        }
    }

    fn begin(&mut self, name: SeatName, asked: &ReserveSeat) -> Reserved {
        let pool = &asked.pool;
        // Nobody overtakes one who waits.
        if self.has_waiting(pool) {
            self.touch(pool);
            self.wake();
        }
        let chat = match self.can_wake(pool) {
            // More wait than one call serves.
            true => None,
            false => self.seats.choose(pool, &asked.tags),
        };
        if let Some(chat) = chat {
            let shown = (asked.anonymous, asked.via.clone());
            let until_ms = self.hold(name, asked.seat, chat.clone(), shown, asked.hold_ms);
            let seat = asked.seat;
            return Reserved::Held {
                seat,
                chat,
                until_ms,
            };
        }
        let turn = self.next_turn();
        let waiter = Waiter {
            seat: asked.seat,
            wanted: (pool.clone(), asked.tags.clone()),
            anonymous: asked.anonymous,
            via: asked.via.clone(),
            until_ms: self.now_ms + asked.wait_ms.max(1),
            turn,
            hold_ms: asked.hold_ms,
        };
        self.wait(name, waiter.clone());
        Reserved::Waiting {
            seat: waiter.seat,
            position: self.position(&waiter),
            until_ms: waiter.until_ms,
            again: false,
        }
    }

    /// A reload of the page shows the same group. A hold that is over and was not given back yet begins anew; what counts of the
    /// ways that he was shown is the last one.
    ///
    /// Only where others came past us until nobody can scan his way into the group any more, his hold is of no use to him: he
    /// is treated as if he had waited since he was shown it.
    fn hold_again(&mut self, name: SeatName, mut held: Held, asked: &ReserveSeat) -> Reserved {
        let group = &self.seats.groups[&held.chat];
        let is_full = group.n_people() >= group.content.scan_cap;
        if is_full && self.seats.pools.contains_key(&asked.pool) {
            self.unhold(&name, &held, false);
            return self.wait_since(name, held.seat, held.turn, asked, false);
        }
        if held.until_ms <= self.now_ms {
            self.seats.ends.remove(&(held.until_ms, name.to_string()));
            held.until_ms = self.now_ms + asked.hold_ms;
            self.seats.ends.insert((held.until_ms, name.to_string()));
        }
        if asked.via.is_some() && asked.via != held.via {
            self.unknow(&name, &held);
            held.via = asked.via.clone();
            self.know(&name, &held);
        }
        let again = Reserved::Again {
            seat: held.seat,
            chat: held.chat.clone(),
            until_ms: held.until_ms,
        };
        self.seats.seats.insert(name, Seat::Held(held));
        again
    }

    /// Who waits keeps his turn as long as he asks, also where he wants something else by now.
    fn wait_again(&mut self, name: SeatName, before: Waiter, asked: &ReserveSeat) -> Reserved {
        self.stop_waiting(&name, &before);
        self.wait_since(name, before.seat, before.turn, asked, true)
    }

    /// Stands where his turn says, and gets a seat at once if it is his turn.
    fn wait_since(
        &mut self,
        name: SeatName,
        seat: SeatId,
        turn: u64,
        asked: &ReserveSeat,
        again: bool,
    ) -> Reserved {
        let waiter = Waiter {
            seat,
            wanted: (asked.pool.clone(), asked.tags.clone()),
            anonymous: asked.anonymous,
            via: asked.via.clone(),
            until_ms: self.now_ms + asked.wait_ms.max(1),
            turn,
            hold_ms: asked.hold_ms,
        };
        self.wait(name.clone(), waiter.clone());
        self.touch(&asked.pool);
        self.wake();
        match self.seats.seats.get(&name) {
            // He is among the woken.
            Some(Seat::Held(held)) => Reserved::Again {
                seat: held.seat,
                chat: held.chat.clone(),
                until_ms: held.until_ms,
            },
            _ => Reserved::Waiting {
                seat,
                position: self.position(&waiter),
                until_ms: waiter.until_ms,
                again,
            },
        }
    }
}
