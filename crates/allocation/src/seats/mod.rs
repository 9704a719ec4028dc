//! Seats of customer groups: the operations on them and what they answer, with their text form. The rules are in
//! [`crate::model`], in its module `seats`.
//!
//! A group has room for free = max(0, scan cap − buffer − people − held) more: `people` counts everybody who is in it,
//! `held` those who were shown it and did not come yet. It is *available* if it is open, its people are known (it was
//! read at WeCom once) and there is room. A seat is
//!
//! | | |
//! |---|---|
//! | held | the visitor was shown the group; it has an end, after which it is looked for him at WeCom and then given back |
//! | confirmed | he is in the group |
//! | late | the same, and the seat had been given back before he came |
//! | expired | given back, and remembered for a time: he may still come |
//! | waiting | no seat: a place in the waiting room, until one is free |
//!
//! There is one for each campaign and visitor. A group belongs to one group pool; several campaigns may fill it.

mod confirmed;
mod id;
pub(crate) mod name;
mod op;
mod outcome;
mod people;
#[cfg(test)]
mod tests;

pub use confirmed::{GroupCount, JoinedAs, Joining, Leaving, SeatsConfirmed};
pub use id::{
    CampaignId, ChatId, ChatVersion, GroupPoolId, GroupTag, GroupTags, InviterId, PersonKey,
    SeatId, SeatName, Via,
};
pub(crate) use op::GroupContent;
pub use op::{FillStrategy, ReleaseSeat, ReserveSeat, SeatOp, SetGroup, SetGroupPool};
pub use outcome::{
    EndedSeat, GroupChange, GroupPoolChange, Released, Reserved, SeatAnswer, SeatResult, WokenSeat,
};
pub use people::{ConfirmSeats, JoinedPerson, SeatCandidate, SeatMatch, SeatState};

/// Seats asked for in one call.
pub const MAX_RESERVES: usize = 64;
/// Seats given back in one call.
pub const MAX_RELEASES: usize = 200;
/// People who joined or left in one call.
pub const MAX_PEOPLE: usize = 1_000;
/// Seats that may be one person's.
pub const MAX_CANDIDATES: usize = 8;
/// Those who wait that one call gives a seat.
pub const MAX_SEAT_WAKE: usize = 64;
/// Places in the waiting room whose time is over, which one call clears away to come to those who still wait.
pub const MAX_SEAT_LAPSES: usize = 256;
/// Ends of waiting places and memories in one call.
pub const MAX_FORGET: usize = 256;
/// Tags of a group, and tags that a visitor's groups are chosen by.
pub const MAX_SEAT_TAGS: usize = 8;
/// Groups of one pool.
pub const MAX_GROUPS: usize = 10_000;
/// WeCom takes 500 people into a group at most; a cap above this is a mistake.
pub const MAX_SCAN_CAP: u32 = 2_000;
