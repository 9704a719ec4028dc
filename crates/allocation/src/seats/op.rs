//! The operations on seats, with their text form.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::id::{CampaignId, ChatId, GroupPoolId, GroupTag, GroupTags, SeatId, SeatName, Via};
use super::name::{flag, list, read_list};
use super::people::ConfirmSeats;
use super::{MAX_SCAN_CAP, MAX_SEAT_TAGS};
use crate::error::Error;
use crate::id::{Reason, SubjectKey};
use crate::op::many;
use crate::text::{Fields, optional};

/// Asks for a seat. Whoever has one keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReserveSeat {
    /// Identity of the seat, should there be a new one.
    pub seat: SeatId,
    pub campaign: CampaignId,
    pub pool: GroupPoolId,
    pub subject: SubjectKey,
    /// Nothing at WeCom will tell who it was that joined: the seat is found by its State or by the order of time, never by
    /// a name. All others are found by a name alone.
    pub anonymous: bool,
    /// None: not known, or it says nothing.
    pub via: Option<Via>,
    pub tags: GroupTags,
    /// How long a seat is held.
    pub hold_ms: u64,
    /// How long a place in the waiting room lasts after it was last asked for; 0 is 1: it is his in this moment.
    pub wait_ms: u64,
}

impl ReserveSeat {
    pub fn name(&self) -> SeatName {
        SeatName {
            campaign: self.campaign.clone(),
            subject: self.subject,
        }
    }

    fn args(&self) -> [String; 9] {
        [
            self.seat.to_string(),
            self.campaign.to_string(),
            self.pool.to_string(),
            self.subject.to_string(),
            flag(self.anonymous),
            optional(self.via.as_ref()),
            self.tags.to_string(),
            self.hold_ms.to_string(),
            self.wait_ms.to_string(),
        ]
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            seat: fields.parse()?,
            campaign: fields.parse()?,
            pool: fields.parse()?,
            subject: fields.parse()?,
            anonymous: fields.next()? == "1",
            via: fields.optional()?,
            tags: fields.next()?.parse()?,
            hold_ms: fields.parse()?,
            wait_ms: fields.parse()?,
        })
    }
}

/// Gives a seat back that nobody came for, or a place in the waiting room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseSeat {
    pub campaign: CampaignId,
    pub subject: SubjectKey,
    pub seat: SeatId,
    /// Only if it still ends then: whoever asked again meanwhile keeps it. None: whatever its end is.
    pub expect_until_ms: Option<u64>,
    /// `expired`, `cancelled`, …
    pub reason: Reason,
    /// So long it is remembered that he had it: he may still come.
    pub memory_ms: u64,
}

impl ReleaseSeat {
    pub fn name(&self) -> SeatName {
        SeatName {
            campaign: self.campaign.clone(),
            subject: self.subject,
        }
    }

    fn args(&self) -> [String; 6] {
        [
            self.campaign.to_string(),
            self.subject.to_string(),
            self.seat.to_string(),
            optional(self.expect_until_ms.as_ref()),
            self.reason.to_string(),
            self.memory_ms.to_string(),
        ]
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            campaign: fields.parse()?,
            subject: fields.parse()?,
            seat: fields.parse()?,
            expect_until_ms: fields.optional()?,
            reason: fields.parse()?,
            memory_ms: fields.parse()?,
        })
    }
}

/// Which of the available groups is shown next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FillStrategy {
    /// The lowest rank, until it is full; of one rank the one whose id is first.
    FillFirst,
    /// The one that was shown longest ago.
    Spread,
    /// The one with the smallest share of its room taken; of several the one that was shown longest ago.
    LeastFilled,
}

impl FillStrategy {
    pub fn as_str(self) -> &'static str {
        match self {
            FillStrategy::FillFirst => "fill_first",
            FillStrategy::Spread => "spread",
            FillStrategy::LeastFilled => "least_filled",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "fill_first" => Ok(FillStrategy::FillFirst),
            "spread" => Ok(FillStrategy::Spread),
            "least_filled" => Ok(FillStrategy::LeastFilled),
            other => Err(Error::unreadable("strategy", other)),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetGroupPool {
    pub pool: GroupPoolId,
    pub version: u64,
    pub strategy: FillStrategy,
}

/// What a group is told to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetGroup {
    pub(crate) chat: ChatId,
    pub(crate) version: u64,
    pub(crate) content: GroupContent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupContent {
    pub(crate) pool: GroupPoolId,
    pub(crate) rank: u32,
    pub(crate) scan_cap: u32,
    pub(crate) buffer: u32,
    pub(crate) tags: BTreeSet<GroupTag>,
    pub(crate) open: bool,
}

impl GroupContent {
    /// As arguments, and as Redis keeps it.
    pub(crate) fn args(&self) -> [String; 6] {
        [
            self.pool.to_string(),
            self.rank.to_string(),
            self.scan_cap.to_string(),
            self.buffer.to_string(),
            list(&self.tags),
            flag(self.open),
        ]
    }

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            pool: fields.parse()?,
            rank: fields.parse()?,
            scan_cap: fields.parse()?,
            buffer: fields.parse()?,
            tags: read_list(fields.next()?)?,
            open: fields.next()? == "1",
        })
    }
}

impl SetGroup {
    /// A group that people come into by scanning until it has `scan_cap`, of which `buffer` are left for those who come
    /// another way. It is open, has rank 0 and no tags.
    pub fn new(
        chat: ChatId,
        version: u64,
        pool: GroupPoolId,
        scan_cap: u32,
        buffer: u32,
    ) -> Result<Self, Error> {
        let content = GroupContent {
            pool,
            rank: 0,
            scan_cap,
            buffer,
            tags: BTreeSet::new(),
            open: true,
        };
        Self::of(chat, version, content)
    }

    pub(crate) fn of(chat: ChatId, version: u64, content: GroupContent) -> Result<Self, Error> {
        let what = "group";
        if content.scan_cap > MAX_SCAN_CAP || content.buffer > MAX_SCAN_CAP {
            let problem = "has room for too many";
            return Err(Error::Text { what, problem });
        }
        if content.tags.len() > MAX_SEAT_TAGS {
            let problem = "has too many tags";
            return Err(Error::Text { what, problem });
        }
        Ok(Self {
            chat,
            version,
            content,
        })
    }

    /// Lower ranks are filled first, by the strategy that asks for it.
    #[must_use]
    pub fn with_rank(mut self, rank: u32) -> Self {
        self.content.rank = rank;
        self
    }

    /// At most [`MAX_SEAT_TAGS`].
    pub fn with_tags(mut self, tags: impl IntoIterator<Item = GroupTag>) -> Result<Self, Error> {
        self.content.tags = tags.into_iter().collect();
        Self::of(self.chat, self.version, self.content)
    }

    /// An operator closed it: nobody is shown it.
    #[must_use]
    pub fn with_open(mut self, open: bool) -> Self {
        self.content.open = open;
        self
    }

    pub fn chat(&self) -> &ChatId {
        &self.chat
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn pool(&self) -> &GroupPoolId {
        &self.content.pool
    }

    pub fn rank(&self) -> u32 {
        self.content.rank
    }

    pub fn scan_cap(&self) -> u32 {
        self.content.scan_cap
    }

    pub fn buffer(&self) -> u32 {
        self.content.buffer
    }

    pub fn tags(&self) -> &BTreeSet<GroupTag> {
        &self.content.tags
    }

    pub fn open(&self) -> bool {
        self.content.open
    }
}

/// One change of a corp's seats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeatOp {
    /// At most [`super::MAX_RESERVES`].
    Reserve(Vec<ReserveSeat>),
    /// At most [`super::MAX_RELEASES`].
    Release(Vec<ReleaseSeat>),
    Confirm(ConfirmSeats),
    SetPool(SetGroupPool),
    /// Refused while groups are in it.
    RemovePool {
        pool: GroupPoolId,
        version: u64,
    },
    SetGroup(SetGroup),
    /// It was dismissed, or is no longer ours to fill: its people and seats end.
    RemoveGroup {
        chat: ChatId,
        version: u64,
    },
    /// Gives a seat to at most `limit` of those who wait for one of the pool.
    Wake {
        pool: GroupPoolId,
        limit: u32,
    },
    /// Ends at most `limit` waiting places and memories whose time is over.
    Forget {
        limit: u32,
    },
}

impl SeatOp {
    pub(crate) fn size(&self) -> usize {
        match self {
            SeatOp::Reserve(reserves) => reserves.len(),
            SeatOp::Release(releases) => releases.len(),
            SeatOp::Confirm(confirm) => confirm.joined.len() + confirm.left.len(),
            SeatOp::Wake { limit, .. } | SeatOp::Forget { limit } => {
                usize::try_from(*limit).unwrap_or(usize::MAX)
            }
            SeatOp::SetPool(_)
            | SeatOp::RemovePool { .. }
            | SeatOp::SetGroup(_)
            | SeatOp::RemoveGroup { .. } => 1,
        }
    }

    /// Versioned name in the log.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            SeatOp::Reserve(_) => "reserve_seat.1",
            SeatOp::Release(_) => "release_seat.1",
            SeatOp::Confirm(_) => "confirm_seat.1",
            SeatOp::SetPool(_) => "set_group_pool.1",
            SeatOp::RemovePool { .. } => "remove_group_pool.1",
            SeatOp::SetGroup(_) => "set_group.1",
            SeatOp::RemoveGroup { .. } => "remove_group.1",
            SeatOp::Wake { .. } => "wake_seats.1",
            SeatOp::Forget { .. } => "forget_seats.1",
        }
    }

    pub(crate) fn args(&self) -> Vec<String> {
        match self {
            SeatOp::Reserve(reserves) => reserves.iter().flat_map(ReserveSeat::args).collect(),
            SeatOp::Release(releases) => releases.iter().flat_map(ReleaseSeat::args).collect(),
            SeatOp::Confirm(confirm) => confirm.args(),
            SeatOp::SetPool(set) => vec![
                set.pool.to_string(),
                set.version.to_string(),
                set.strategy.as_str().to_owned(),
            ],
            SeatOp::RemovePool { pool, version } => vec![pool.to_string(), version.to_string()],
            SeatOp::SetGroup(set) => {
                let mut args = vec![set.chat.to_string(), set.version.to_string()];
                args.extend(set.content.args());
                args
            }
            SeatOp::RemoveGroup { chat, version } => vec![chat.to_string(), version.to_string()],
            SeatOp::Wake { pool, limit } => vec![pool.to_string(), limit.to_string()],
            SeatOp::Forget { limit } => vec![limit.to_string()],
        }
    }

    /// None: the name is not one of ours.
    pub(crate) fn parse(name: &str, fields: &mut Fields<'_>) -> Result<Option<Self>, Error> {
        Ok(Some(match name {
            "reserve_seat.1" => SeatOp::Reserve(many(fields, ReserveSeat::parse)?),
            "release_seat.1" => SeatOp::Release(many(fields, ReleaseSeat::parse)?),
            "confirm_seat.1" => SeatOp::Confirm(ConfirmSeats::parse(fields)?),
            "set_group_pool.1" => SeatOp::SetPool(SetGroupPool {
                pool: fields.parse()?,
                version: fields.parse()?,
                strategy: FillStrategy::parse(fields.next()?)?,
            }),
            "remove_group_pool.1" => SeatOp::RemovePool {
                pool: fields.parse()?,
                version: fields.parse()?,
            },
            "set_group.1" => {
                let (chat, version) = (fields.parse()?, fields.parse()?);
                SeatOp::SetGroup(SetGroup::of(chat, version, GroupContent::parse(fields)?)?)
            }
            "remove_group.1" => SeatOp::RemoveGroup {
                chat: fields.parse()?,
                version: fields.parse()?,
            },
            "wake_seats.1" => SeatOp::Wake {
                pool: fields.parse()?,
                limit: fields.parse()?,
            },
            "forget_seats.1" => SeatOp::Forget {
                limit: fields.parse()?,
            },
            _ => return Ok(None),
        }))
    }
}
