//! Giving a seat back that nobody came for.

use super::{Call, Expired, Seat};
use crate::seats::{ReleaseSeat, Released};

impl Call<'_> {
    /// Only what is meant: whoever asked again, came, or has another seat by now keeps it. So a seat is given back once, however
    /// often and by however many it is released.
    pub(super) fn release(&mut self, asked: &ReleaseSeat) -> Released {
        let name = asked.name();
        let is_meant = |until_ms| asked.expect_until_ms.is_none_or(|end| end == until_ms);
        match self.seats.seats.get(&name).cloned() {
            None | Some(Seat::Expired(_)) => Released::Unknown,
            Some(seat) if seat.id() != asked.seat => Released::Stale,
            Some(Seat::Held(held)) if is_meant(held.until_ms) => {
                self.unhold(&name, &held, false);
                let chat = held.chat;
                if asked.memory_ms > 0 {
                    let until_ms = self.now_ms + asked.memory_ms;
                    self.seats.pasts.insert((until_ms, name.to_string()));
                    let expired = Expired {
                        seat: held.seat,
                        chat: chat.clone(),
                        until_ms,
                    };
                    self.seats.seats.insert(name, Seat::Expired(expired));
                } else {
                    self.seats.seats.remove(&name);
                }
                Released::Released { chat }
            }
            Some(Seat::Waiting(waiter)) if is_meant(waiter.until_ms) => {
                self.stop_waiting(&name, &waiter);
                self.seats.seats.remove(&name);
                Released::GaveUp
            }
            Some(_) => Released::Stale,
        }
    }
}
