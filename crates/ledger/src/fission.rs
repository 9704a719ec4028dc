//! What a campaign rewards: who brings how many people into its groups, and that they stay.

mod board;
mod edges;
mod events;
mod inviters;
mod qualify;
mod rules;

use allocation::Via;

use crate::connection::Db;

pub use edges::{Edge, EdgeFilter, EdgeState};
pub use events::{EventsAfter, OutgoingEvent};
pub use inviters::{Inviter, InviterKind, InviterPage, InviterSaid, NewInviter, Reached};
pub use qualify::{DueEdge, Looked};
pub(crate) use qualify::{Peak, ask, reach};
pub use rules::{Fission, Goal, NewTo};

/// States of the ways of inviters begin like this; what follows is the code of the inviter's page.
pub const INVITER_STATE: &str = "pi.";
/// Kinds of the outbox that are asked for here.
pub const GOAL_MESSAGE: &str = "goal_message";
pub const TAG: &str = "tag";
pub const EVENT: &str = "event";

/// Somebody who left and is back within this time never left: one who is moved to another group of the pool leaves the first,
/// and a group is read seconds after its events. Nobody gains by it, as he counts once at most.
pub(crate) const BACK_WITHIN_MS: u64 = 10 * 60 * 1000;

/// State of the ways of an inviter whose page has this code.
pub fn inviter_via(public_code: &str) -> Option<Via> {
    Via::new(format!("{INVITER_STATE}{public_code}")).ok()
}

/// Inviters of campaigns, and whom they brought.
#[derive(Debug, Clone)]
pub struct Inviters {
    pub(crate) db: Db,
}
