//! The rules of allocation as plain values: ids, requests, decisions, the operations on a corp's state and what
//! they answer, and [`model`], which is every script of `roster` once more as a pure function.
//!
//! It knows no I/O, no async, no clock (every time is passed in, in milliseconds since the epoch), no WeCom and no
//! key prefix. [`Op`] and [`Outcome`] have one text form, used as the arguments and the answer of the scripts, in
//! the corp's log and in the ledger: what was written once can be folded again at any time.

mod dump;
mod error;
pub mod explain;
pub mod fairness;
mod id;
mod limits;
mod log;
pub mod model;
mod offer;
mod op;
mod outcome;
mod plan;
mod pool;
mod seats;
pub mod shortfall;
mod text;
mod visit;
mod weight;
pub mod whatif;

pub use dump::{Dump, Value};
pub use error::Error;
pub use id::{
    AllocationId, CalendarId, ChannelId, CorpId, MemberId, PoolId, Reason, RequestId, ScheduleId,
    Skill, SlotId, SubjectKey,
};
pub use limits::Limits;
pub use log::LogEntry;
pub use offer::{MovedOn, OfferRule, Reclaimed, Responded, Response};
pub use op::{
    Adjustment, Assignment, Closing, GivenBefore, Op, PresenceChange, Reassignment, Request,
    SetChannel, SetMember, SetSkills, Settlement, SettlementOutcome,
};
pub use outcome::{
    Adjusted, Answer, Closed, Decision, MemberChange, Outcome, PoolChange, Reassigned, Settled,
    Woken, WokenHold,
};
pub use plan::{
    Advanced, AdvancedTo, MAX_AVOIDED, MAX_NEEDS, MAX_PREFERRED, MAX_STEPS, Plan, Step,
};
pub use pool::{PoolConfig, Strategy};
pub use seats::{
    CampaignId, ChatId, ChatVersion, ConfirmSeats, EndedSeat, FillStrategy, GroupChange,
    GroupCount, GroupPoolChange, GroupPoolId, GroupTag, GroupTags, InviterId, JoinedAs,
    JoinedPerson, Joining, Leaving, MAX_CANDIDATES, MAX_FORGET, MAX_GROUPS, MAX_PEOPLE,
    MAX_RELEASES, MAX_RESERVES, MAX_SCAN_CAP, MAX_SEAT_LAPSES, MAX_SEAT_TAGS, MAX_SEAT_WAKE,
    PersonKey, ReleaseSeat, Released, ReserveSeat, Reserved, SeatAnswer, SeatCandidate, SeatId,
    SeatMatch, SeatName, SeatOp, SeatResult, SeatState, SeatsConfirmed, SetGroup, SetGroupPool,
    Via, WokenSeat,
};
pub use visit::{Confirmation, Confirmed, Expired, Match, SetSlots, SlotsChange, Visit, Visited};
pub use weight::Weight;

/// Requests, closings or presence changes in one call of a script.
pub const MAX_BATCH: usize = 256;
/// Waiting subjects that one call hands out.
pub const MAX_WAKE: usize = 64;
/// Presence leases that one call ends.
pub const MAX_LEASE_ENDS: usize = 512;
/// Distinct weights above 0 in one pool: the fair rule compares one head per weight.
pub const MAX_WEIGHTS: usize = 16;
/// Members of one pool.
pub const MAX_MEMBERS: usize = 10_000;
/// Skills of one member.
pub const MAX_SKILLS: usize = 64;
/// Members that one reassignment may leave out.
pub const MAX_EXCLUDED: usize = 64;
/// How long it is remembered whom a visitor saw after his hold ended: he may still add the member, and if he did, he
/// is told so.
pub const VISIT_MEMORY_MS: u64 = 24 * 60 * 60 * 1000;
/// How long a request id is remembered.
pub const REQUEST_MEMORY_MS: u64 = 24 * 60 * 60 * 1000;

#[cfg(test)]
mod histories;
#[cfg(test)]
mod tests;
