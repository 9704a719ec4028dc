//! What seats and people in groups can be, as the tables say it.

use std::str::FromStr;

use allocation::SeatId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SeatStage {
    Waiting,
    /// He was shown the group.
    Held,
    /// He is in the group.
    Confirmed,
    /// The same, and the seat had been given back before he came.
    Late,
    /// Nobody came in time.
    Expired,
    /// It was given back for another reason.
    Cancelled,
    /// He waited, and asked no more.
    Lapsed,
    /// He was in the group and is not any more.
    Left,
}

impl SeatStage {
    pub const ALL: [Self; 8] = [
        Self::Waiting,
        Self::Held,
        Self::Confirmed,
        Self::Late,
        Self::Expired,
        Self::Cancelled,
        Self::Lapsed,
        Self::Left,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Confirmed => "confirmed",
            Self::Late => "late",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Lapsed => "lapsed",
            Self::Left => "left",
        }
    }
}

impl FromStr for SeatStage {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|stage| stage.as_str() == text)
            .ok_or("no state of a seat")
    }
}

/// How a seat ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SeatEnd {
    Expired,
    Cancelled,
    Lapsed,
    Left,
}

impl From<SeatEnd> for SeatStage {
    fn from(end: SeatEnd) -> Self {
        match end {
            SeatEnd::Expired => Self::Expired,
            SeatEnd::Cancelled => Self::Cancelled,
            SeatEnd::Lapsed => Self::Lapsed,
            SeatEnd::Left => Self::Left,
        }
    }
}

/// What somebody is in a group of whom it is known who he is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CameAs {
    /// It is somebody's seat.
    Seat(SeatId),
    /// His seat is somewhere else.
    Already,
    /// No seat explains him.
    Direct,
}

impl CameAs {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seat(_) => "seat",
            Self::Already => "already",
            Self::Direct => "direct",
        }
    }

    pub fn seat(self) -> Option<SeatId> {
        match self {
            Self::Seat(seat) => Some(seat),
            Self::Already | Self::Direct => None,
        }
    }

    pub(super) fn read(word: &str, seat: Option<SeatId>) -> Option<Self> {
        match (word, seat) {
            ("seat", Some(seat)) => Some(Self::Seat(seat)),
            ("already", None) => Some(Self::Already),
            ("direct", None) => Some(Self::Direct),
            _ => None,
        }
    }
}
