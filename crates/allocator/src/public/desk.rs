//! What the pages ask the rest of the program, and nothing else: so they know neither stores nor rules, and tests answer
//! for them what they like.

use std::sync::Arc;

use allocation::{AllocationId, CampaignId, ChannelId, CorpId, InviterId, MemberId, SeatId};
use futures_util::future::BoxFuture;

pub use crate::reception::slots::Picture;

/// What the pages are of. Their addresses begin differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Channel,
    Campaign,
}

impl Door {
    pub const fn path(self) -> &'static str {
        match self {
            Self::Channel => "/c/",
            Self::Campaign => "/g/",
        }
    }

    pub fn of_path(path: &str) -> Self {
        match path.starts_with(Self::Campaign.path()) {
            true => Self::Campaign,
            false => Self::Channel,
        }
    }
}

/// Whose page it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    Channel(ChannelId),
    Campaign {
        id: CampaignId,
        /// It has not begun: it will then.
        opens_ms: Option<u64>,
        /// Who brought whoever comes by this page; None: it is the campaign's own.
        inviter: Option<InviterId>,
    },
}

/// A channel or campaign as its page needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub corp: CorpId,
    pub of: Of,
    /// What stands above the page; may be empty.
    pub title: String,
    /// Takes visitors.
    pub open: bool,
    /// For the time until which a visitor's member or seat is kept.
    pub utc_offset_minutes: i32,
}

/// What became of a visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visited {
    /// He has a member until then. The way is the picture that leads to that member; there may be none yet.
    Held {
        allocation: AllocationId,
        member: MemberId,
        way: Option<String>,
        until_ms: u64,
    },
    /// He stands in line until then.
    Waiting {
        allocation: AllocationId,
        until_ms: u64,
    },
    /// He has added the member.
    Met {
        allocation: AllocationId,
        member: MemberId,
    },
    NoPool,
    Off,
    /// Of a campaign.
    Seat(Seat),
}

/// What became of a visit that asks for a seat in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seat {
    /// It is his until then. The way is the picture that leads into the group; there may be none yet.
    Held {
        seat: SeatId,
        /// How the group is called; may be empty.
        group: String,
        way: Option<String>,
        until_ms: u64,
    },
    /// No group has room: he keeps his place until then.
    Waiting {
        seat: SeatId,
        /// Counted from 1.
        position: u32,
        until_ms: u64,
        /// The picture of a full group that he is to scan all the same: a new one is opened then.
        opens: Option<String>,
    },
    /// He is in the group.
    Joined { seat: SeatId, group: String },
    /// Nobody can be shown anything yet.
    Preparing,
}

/// The stores cannot say now; later they can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Away;

pub trait Desk: Send + Sync {
    /// The channel or campaign with this public code, of whichever corp.
    fn place<'a>(&'a self, door: Door, code: &'a str)
    -> BoxFuture<'a, Result<Option<Place>, Away>>;

    /// Somebody opened the page; asked again, he gets the same. `visitor` is the number of his cookie.
    fn visit<'a>(
        &'a self,
        place: &'a Place,
        visitor: &'a str,
    ) -> BoxFuture<'a, Result<Visited, Away>>;

    /// How the member is called.
    fn name(&self, place: &Place, member: &MemberId) -> String;

    /// The picture of a contact way or join way.
    fn picture<'a>(&'a self, way: &'a str) -> BoxFuture<'a, Result<Option<Arc<Picture>>, Away>>;
}
