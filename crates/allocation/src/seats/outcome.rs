//! What operations on seats answer, with its text form: the number of woken and they, the number of lapsed and they, then
//! the fields of the operation's own result.

use super::confirmed::SeatsConfirmed;
use super::id::{CampaignId, ChatId, SeatId};
use super::op::SeatOp;
use super::people::SeatState;
use crate::error::Error;
use crate::id::SubjectKey;
use crate::op::many;
use crate::text::{Fields, optional};

/// The answer to one who asked for a seat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// He has a seat from now on.
    Held {
        seat: SeatId,
        chat: ChatId,
        until_ms: u64,
    },
    /// He has had it; or, if he is among the woken, he has it from now on.
    Again {
        seat: SeatId,
        chat: ChatId,
        until_ms: u64,
    },
    /// He is in the group.
    Joined { seat: SeatId, chat: ChatId },
    /// No group has room, or others come first.
    Waiting {
        seat: SeatId,
        /// In his queue, counted from 1.
        position: u32,
        until_ms: u64,
        /// He has waited before, and kept his place. Otherwise the seat is new, or his held one: its group is full by now.
        again: bool,
    },
    /// No such group pool; nothing was remembered.
    NoPool,
}

impl Reserved {
    fn fields(&self) -> [String; 4] {
        let (word, seat, what, until) = match self {
            Reserved::Held {
                seat,
                chat,
                until_ms,
            } => ("HELD", seat, chat.to_string(), until_ms.to_string()),
            Reserved::Again {
                seat,
                chat,
                until_ms,
            } => ("AGAIN", seat, chat.to_string(), until_ms.to_string()),
            Reserved::Joined { seat, chat } => ("JOINED", seat, chat.to_string(), String::new()),
            Reserved::Waiting {
                seat,
                position,
                until_ms,
                again,
            } => {
                let word = if *again { "STILL" } else { "WAITING" };
                (word, seat, position.to_string(), until_ms.to_string())
            }
            Reserved::NoPool => {
                let mut fields = <[String; 4]>::default();
                fields[0].push_str("NO_POOL");
                return fields;
            }
        };
        [word.to_owned(), seat.to_string(), what, until]
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let word = fields.next()?;
        if word == "NO_POOL" {
            for _ in 0..3 {
                fields.next()?;
            }
            return Ok(Reserved::NoPool);
        }
        let seat = fields.parse()?;
        Ok(match word {
            "HELD" => Reserved::Held {
                seat,
                chat: fields.parse()?,
                until_ms: fields.parse()?,
            },
            "AGAIN" => Reserved::Again {
                seat,
                chat: fields.parse()?,
                until_ms: fields.parse()?,
            },
            "JOINED" => {
                let chat = fields.parse()?;
                fields.next()?;
                Reserved::Joined { seat, chat }
            }
            "WAITING" | "STILL" => Reserved::Waiting {
                seat,
                position: fields.parse()?,
                until_ms: fields.parse()?,
                again: word == "STILL",
            },
            other => return Err(Error::unreadable("reserved", other)),
        })
    }
}

/// What became of a seat that was to be given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// Its room is free.
    Released { chat: ChatId },
    /// He waits no longer.
    GaveUp,
    /// He asked again meanwhile, is in the group, or has another one.
    Stale,
    /// He has none.
    Unknown,
}

impl Released {
    fn fields(&self) -> [String; 2] {
        let (word, chat) = match self {
            Released::Released { chat } => ("RELEASED", Some(chat)),
            Released::GaveUp => ("GAVE_UP", None),
            Released::Stale => ("STALE", None),
            Released::Unknown => ("UNKNOWN", None),
        };
        [word.to_owned(), optional(chat)]
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(match (fields.next()?, fields.next()?) {
            ("RELEASED", chat) => Released::Released {
                chat: chat.parse()?,
            },
            ("GAVE_UP", _) => Released::GaveUp,
            ("STALE", _) => Released::Stale,
            ("UNKNOWN", _) => Released::Unknown,
            (other, _) => return Err(Error::unreadable("released", other)),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupPoolChange {
    Changed,
    Same,
    /// It has a newer version, or this one with other content.
    Stale {
        version: u64,
    },
    /// There is no such pool to remove.
    Unknown,
    /// There are groups in it.
    InUse,
}

impl GroupPoolChange {
    fn fields(&self) -> [String; 2] {
        let (word, version) = match self {
            GroupPoolChange::Changed => ("CHANGED", None),
            GroupPoolChange::Same => ("SAME", None),
            GroupPoolChange::Stale { version } => ("STALE", Some(version)),
            GroupPoolChange::Unknown => ("UNKNOWN", None),
            GroupPoolChange::InUse => ("IN_USE", None),
        };
        [word.to_owned(), optional(version)]
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(match fields.next()? {
            "STALE" => GroupPoolChange::Stale {
                version: fields.parse()?,
            },
            word => {
                fields.next()?;
                match word {
                    "CHANGED" => GroupPoolChange::Changed,
                    "SAME" => GroupPoolChange::Same,
                    "UNKNOWN" => GroupPoolChange::Unknown,
                    "IN_USE" => GroupPoolChange::InUse,
                    other => return Err(Error::unreadable("group pool change", other)),
                }
            }
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupChange {
    Changed,
    Same,
    /// It has a newer version, or this one with other content.
    Stale {
        version: u64,
    },
    /// There is no such group to remove.
    Unknown,
    /// There is no such pool to be in.
    NoPool,
    /// The pool has [`super::MAX_GROUPS`].
    Full,
}

impl GroupChange {
    fn fields(&self) -> [String; 2] {
        let (word, version) = match self {
            GroupChange::Changed => ("CHANGED", None),
            GroupChange::Same => ("SAME", None),
            GroupChange::Stale { version } => ("STALE", Some(version)),
            GroupChange::Unknown => ("UNKNOWN", None),
            GroupChange::NoPool => ("NO_POOL", None),
            GroupChange::Full => ("FULL", None),
        };
        [word.to_owned(), optional(version)]
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(match fields.next()? {
            "STALE" => GroupChange::Stale {
                version: fields.parse()?,
            },
            word => {
                fields.next()?;
                match word {
                    "CHANGED" => GroupChange::Changed,
                    "SAME" => GroupChange::Same,
                    "UNKNOWN" => GroupChange::Unknown,
                    "NO_POOL" => GroupChange::NoPool,
                    "FULL" => GroupChange::Full,
                    other => return Err(Error::unreadable("group change", other)),
                }
            }
        })
    }
}

/// One who waited has a seat from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WokenSeat {
    pub seat: SeatId,
    pub campaign: CampaignId,
    pub subject: SubjectKey,
    pub chat: ChatId,
    pub until_ms: u64,
}

impl WokenSeat {
    fn fields(&self) -> [String; 5] {
        [
            self.seat.to_string(),
            self.campaign.to_string(),
            self.subject.to_string(),
            self.chat.to_string(),
            self.until_ms.to_string(),
        ]
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            seat: fields.parse()?,
            campaign: fields.parse()?,
            subject: fields.parse()?,
            chat: fields.parse()?,
            until_ms: fields.parse()?,
        })
    }
}

/// A seat that is no more: its group is gone, or, of one who waited, his time was over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedSeat {
    pub seat: SeatId,
    pub campaign: CampaignId,
    pub subject: SubjectKey,
    pub was: SeatState,
}

impl EndedSeat {
    fn fields(&self) -> [String; 4] {
        [
            self.seat.to_string(),
            self.campaign.to_string(),
            self.subject.to_string(),
            self.was.as_str().to_owned(),
        ]
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            seat: fields.parse()?,
            campaign: fields.parse()?,
            subject: fields.parse()?,
            was: SeatState::parse(fields.next()?)?,
        })
    }
}

/// The part of a result that belongs to the kind of operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeatResult {
    Reserved(Vec<Reserved>),
    Released(Vec<Released>),
    Confirmed(SeatsConfirmed),
    Pool(GroupPoolChange),
    Group(GroupChange),
    Removed {
        change: GroupChange,
        /// Held, in the order in which they began, then confirmed.
        ended: Vec<EndedSeat>,
    },
    Forgotten {
        /// Waiting places and memories that were looked at; as many as the limit: there may be more.
        taken: u32,
    },
    /// Wake: nothing beyond the woken.
    Ok,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatAnswer {
    pub result: SeatResult,
    /// Those who waited and found a seat in the same call.
    pub woken: Vec<WokenSeat>,
    /// Those who waited and whose time was found to be over in the same call.
    pub lapsed: Vec<EndedSeat>,
}

impl SeatAnswer {
    pub(crate) fn fields(&self) -> Vec<String> {
        let mut fields = vec![self.woken.len().to_string()];
        fields.extend(self.woken.iter().flat_map(WokenSeat::fields));
        fields.push(self.lapsed.len().to_string());
        fields.extend(self.lapsed.iter().flat_map(EndedSeat::fields));
        match &self.result {
            SeatResult::Reserved(reserved) => {
                fields.extend(reserved.iter().flat_map(Reserved::fields));
            }
            SeatResult::Released(released) => {
                fields.extend(released.iter().flat_map(Released::fields));
            }
            SeatResult::Confirmed(confirmed) => fields.extend(confirmed.fields()),
            SeatResult::Pool(change) => fields.extend(change.fields()),
            SeatResult::Group(change) => fields.extend(change.fields()),
            SeatResult::Removed { change, ended } => {
                fields.extend(change.fields());
                fields.extend(ended.iter().flat_map(EndedSeat::fields));
            }
            SeatResult::Forgotten { taken } => fields.push(taken.to_string()),
            SeatResult::Ok => {}
        }
        fields
    }

    /// Reads the answer to `op`.
    pub(crate) fn parse(op: &SeatOp, fields: &mut Fields<'_>) -> Result<Self, Error> {
        let n_woken: usize = fields.parse()?;
        let woken = (0..n_woken).map(|_| WokenSeat::parse(fields));
        let woken = woken.collect::<Result<_, _>>()?;
        let n_lapsed: usize = fields.parse()?;
        let lapsed = (0..n_lapsed).map(|_| EndedSeat::parse(fields));
        let lapsed = lapsed.collect::<Result<_, _>>()?;
        let result = match op {
            SeatOp::Reserve(reserves) => {
                let reserved = reserves.iter().map(|_| Reserved::parse(fields));
                SeatResult::Reserved(reserved.collect::<Result<_, _>>()?)
            }
            SeatOp::Release(releases) => {
                let released = releases.iter().map(|_| Released::parse(fields));
                SeatResult::Released(released.collect::<Result<_, _>>()?)
            }
            SeatOp::Confirm(_) => SeatResult::Confirmed(SeatsConfirmed::parse(fields)?),
            SeatOp::SetPool(_) | SeatOp::RemovePool { .. } => {
                SeatResult::Pool(GroupPoolChange::parse(fields)?)
            }
            SeatOp::SetGroup(_) => SeatResult::Group(GroupChange::parse(fields)?),
            SeatOp::RemoveGroup { .. } => SeatResult::Removed {
                change: GroupChange::parse(fields)?,
                ended: many(fields, EndedSeat::parse)?,
            },
            SeatOp::Wake { .. } => SeatResult::Ok,
            SeatOp::Forget { .. } => SeatResult::Forgotten {
                taken: fields.parse()?,
            },
        };
        Ok(Self {
            result,
            woken,
            lapsed,
        })
    }
}
