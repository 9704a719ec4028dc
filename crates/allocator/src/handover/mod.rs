//! Moving a customer from the member who has him to the one who was chosen: at WeCom a transfer that starts at once,
//! ends after 24 h or is refused, and may be started twice in 90 natural days.
//!
//! `rules` plans it, the outbox starts it, `result` reads how far it is, `end` settles the allocation, `blame` leaves members out, `tasks` drives
//! all of this until nothing is left.

mod blame;
pub mod end;
pub mod result;
pub mod rules;
pub mod tasks;

pub(crate) use blame::LEFT;
