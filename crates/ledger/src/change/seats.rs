//! What a log entry leads to in the tables of seats and of those who are in groups.

use allocation::{
    ChatId, ChatVersion, GroupPoolId, GroupTags, InviterId, PersonKey, Reason, SeatId, SeatMatch,
    SeatName, SubjectKey, Via,
};

use super::Customer;
use crate::seats::{CameAs, SeatEnd};

#[derive(Debug, Clone)]
pub enum SeatChange {
    /// A seat that was not there. Whatever else its visitor has open in this campaign ends.
    Begun(NewSeat),
    /// He waits now, or still, with what he wants by now.
    Waits {
        seat: SeatId,
        name: SeatName,
        wanted: Wanted,
        until_ms: u64,
    },
    /// He asked again and keeps his hold.
    Again {
        seat: SeatId,
        name: SeatName,
        until_ms: u64,
        /// None: what he was shown before.
        via: Option<Via>,
        /// He had waited, and found his seat in the same entry: what he wanted by then.
        wanted: Option<Wanted>,
    },
    /// One who waited has a seat from now on.
    Held {
        seat: SeatId,
        name: SeatName,
        chat: ChatId,
        until_ms: u64,
        /// Which one of this entry.
        place: u32,
    },
    Confirmed {
        seat: SeatId,
        name: SeatName,
        chat: ChatId,
        how: SeatMatch,
        /// It had been given back.
        late: bool,
        /// The group that he was shown, if it is another one.
        from: Option<ChatId>,
    },
    Ended {
        seat: SeatId,
        name: SeatName,
        how: SeatEnd,
        reason: Reason,
        /// So long it is remembered; None: not at all.
        memory_until_ms: Option<u64>,
    },
}

impl SeatChange {
    pub(crate) fn seat(&self) -> SeatId {
        match self {
            SeatChange::Begun(new) => new.seat,
            SeatChange::Waits { seat, .. }
            | SeatChange::Again { seat, .. }
            | SeatChange::Held { seat, .. }
            | SeatChange::Confirmed { seat, .. }
            | SeatChange::Ended { seat, .. } => *seat,
        }
    }

    pub(crate) fn name(&self) -> &SeatName {
        match self {
            SeatChange::Begun(NewSeat { name, .. })
            | SeatChange::Waits { name, .. }
            | SeatChange::Again { name, .. }
            | SeatChange::Held { name, .. }
            | SeatChange::Confirmed { name, .. }
            | SeatChange::Ended { name, .. } => name,
        }
    }
}

#[derive(Debug, Clone)]
pub struct NewSeat {
    pub seat: SeatId,
    pub name: SeatName,
    pub customer: Customer,
    pub wanted: Wanted,
    /// None: he waits.
    pub chat: Option<ChatId>,
    pub until_ms: u64,
    /// Which one of this entry.
    pub place: u32,
    /// Who brought him.
    pub inviter: Option<InviterId>,
}

/// What a visitor asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub pool: GroupPoolId,
    pub tags: GroupTags,
    pub anonymous: bool,
    pub via: Option<Via>,
    pub hold_ms: u64,
}

/// Of one group. Those who left come before those who joined.
#[derive(Debug, Clone)]
pub enum PeopleChange {
    Left {
        chat: ChatId,
        person: PersonKey,
    },
    /// Who is in it already stays as he is, unless it is known only now who he is.
    Joined {
        chat: ChatId,
        person: PersonKey,
        /// None: a read of the group is to say who he is.
        came: Option<CameAs>,
        /// Of one who is not named: only a read that may be old says that he is in it.
        doubted: bool,
        scanned: bool,
        via: Option<Via>,
        /// Where somebody is rewarded for those who come, or they are to have a tag.
        who: Option<Who>,
    },
    /// What was said of somebody who is in it is mended; no entry of the log does so.
    Corrected {
        chat: ChatId,
        person: PersonKey,
        came: Option<CameAs>,
    },
    /// After the others of its entry.
    Counted(GroupCounted),
    /// It is none of our groups any more: nobody is in it.
    Gone {
        chat: ChatId,
    },
}

/// As whom somebody who came is known besides.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Who {
    pub unionid: Option<SubjectKey>,
    /// WeCom's id of him, where it is needed to act on him.
    pub external_id: Option<String>,
}

/// Says whether there is an id, never which.
impl std::fmt::Debug for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Who")
            .field("unionid", &self.unionid)
            .field("known", &self.external_id.is_some())
            .finish()
    }
}

/// What a change left of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupCounted {
    pub chat: ChatId,
    pub version: ChatVersion,
    pub people: u32,
    pub oversold: u32,
    /// So many of those who are named by it came past us: no seat was held here for them.
    pub past_us: u32,
    /// What was known had to be mended, and why.
    pub mended: Option<String>,
}
