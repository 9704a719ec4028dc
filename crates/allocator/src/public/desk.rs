//! What the pages ask the rest of the program, and nothing else: so they know neither stores nor rules, and tests answer
//! for them what they like.

use std::sync::Arc;

use allocation::{AllocationId, ChannelId, CorpId, MemberId};
use futures_util::future::BoxFuture;

pub use crate::reception::slots::Picture;

/// A channel as its page needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub corp: CorpId,
    pub channel: ChannelId,
    /// What stands above the page; may be empty.
    pub title: String,
    /// Takes visitors.
    pub open: bool,
    /// For the time until which a visitor's member is kept.
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
}

/// The stores cannot say now; later they can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Away;

pub trait Desk: Send + Sync {
    /// The channel with this public code, of whichever corp.
    fn place<'a>(&'a self, code: &'a str) -> BoxFuture<'a, Result<Option<Place>, Away>>;

    /// Somebody opened the page; asked again, he gets the same. `visitor` is the number of his cookie.
    fn visit<'a>(
        &'a self,
        place: &'a Place,
        visitor: &'a str,
    ) -> BoxFuture<'a, Result<Visited, Away>>;

    /// How the member is called.
    fn name(&self, place: &Place, member: &MemberId) -> String;

    /// A contact way's picture.
    fn picture<'a>(&'a self, way: &'a str) -> BoxFuture<'a, Result<Option<Arc<Picture>>, Away>>;
}
