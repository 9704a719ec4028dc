//! What became of those who came and went, with its text form.

use super::id::{CampaignId, ChatId, ChatVersion, PersonKey, SeatId};
use super::name::flag;
use super::people::{SeatMatch, SeatState};
use crate::error::Error;
use crate::id::SubjectKey;
use crate::op::many;
use crate::text::{Fields, optional};

/// What became of a change in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeatsConfirmed {
    Counted {
        count: GroupCount,
        /// There are more people in it than before.
        grew: bool,
        left: Vec<Leaving>,
        /// Of those who are identified and were not before.
        joined: Vec<Joining>,
    },
    /// Something else is known of the group than the change follows: it is to be read.
    Stale { version: Option<ChatVersion> },
    /// It is none of our groups.
    Unknown,
}

/// How full a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupCount {
    pub people: u32,
    pub held: u32,
    pub free: u32,
    /// So many who are in it or were shown it are above the cap at least: others came past us. Whoever has no name yet may be
    /// one of those who were shown it, so he is not counted beside them.
    pub oversold: u32,
}

/// Somebody left whose seat it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    pub person: PersonKey,
    pub seat: SeatId,
    pub campaign: CampaignId,
    pub subject: SubjectKey,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joining {
    /// Of those who joined, counted from 0.
    pub index: u32,
    pub joined: JoinedAs,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinedAs {
    /// The seat is his, and he is in its group.
    Seat {
        how: SeatMatch,
        seat: SeatId,
        campaign: CampaignId,
        subject: SubjectKey,
        /// Held, expired (then it is late), or waiting.
        was: SeatState,
        /// The group that he was shown, if it is another one.
        from: Option<ChatId>,
    },
    /// He has his seat already, and that person is still in its group: he just takes room here.
    Already {
        how: SeatMatch,
        seat: SeatId,
        campaign: CampaignId,
        subject: SubjectKey,
        was: SeatState,
        /// Where his seat is.
        chat: ChatId,
    },
    /// No seat explains him: he was invited, or came by a code that was passed on. He just takes room.
    Direct,
}

impl SeatsConfirmed {
    pub(super) fn fields(&self) -> Vec<String> {
        match self {
            SeatsConfirmed::Counted {
                count,
                grew,
                left,
                joined,
            } => {
                let mut fields = vec![
                    "COUNTED".to_owned(),
                    count.people.to_string(),
                    count.held.to_string(),
                    count.free.to_string(),
                    count.oversold.to_string(),
                    flag(*grew),
                    left.len().to_string(),
                ];
                fields.extend(left.iter().flat_map(Leaving::fields));
                fields.extend(joined.iter().flat_map(Joining::fields));
                fields
            }
            SeatsConfirmed::Stale { version } => {
                vec!["STALE".to_owned(), optional(version.as_ref())]
            }
            SeatsConfirmed::Unknown => vec!["UNKNOWN".to_owned()],
        }
    }

    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(match fields.next()? {
            "COUNTED" => {
                let count = GroupCount {
                    people: fields.parse()?,
                    held: fields.parse()?,
                    free: fields.parse()?,
                    oversold: fields.parse()?,
                };
                let grew = fields.next()? == "1";
                let n_left: usize = fields.parse()?;
                let left = (0..n_left).map(|_| Leaving::parse(fields));
                SeatsConfirmed::Counted {
                    count,
                    grew,
                    left: left.collect::<Result<_, _>>()?,
                    joined: many(fields, Joining::parse)?,
                }
            }
            "STALE" => SeatsConfirmed::Stale {
                version: fields.optional()?,
            },
            "UNKNOWN" => SeatsConfirmed::Unknown,
            other => return Err(Error::unreadable("confirmed", other)),
        })
    }
}

impl Leaving {
    fn fields(&self) -> [String; 4] {
        [
            self.person.to_string(),
            self.seat.to_string(),
            self.campaign.to_string(),
            self.subject.to_string(),
        ]
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            person: fields.parse()?,
            seat: fields.parse()?,
            campaign: fields.parse()?,
            subject: fields.parse()?,
        })
    }
}

impl Joining {
    /// Index and word, how, seat, campaign, subject, what it was, another group.
    fn fields(&self) -> Vec<String> {
        let index = self.index.to_string();
        let fields = |word: &str, how: &SeatMatch, seat: &SeatId, name, was: &SeatState, chat| {
            let (campaign, subject): (&CampaignId, &SubjectKey) = name;
            vec![
                index.clone(),
                word.to_owned(),
                how.as_str().to_owned(),
                seat.to_string(),
                campaign.to_string(),
                subject.to_string(),
                was.as_str().to_owned(),
                optional(chat),
            ]
        };
        match &self.joined {
            JoinedAs::Seat {
                how,
                seat,
                campaign,
                subject,
                was,
                from,
            } => {
                let word = match (was, from) {
                    (SeatState::Expired, _) => "LATE",
                    (SeatState::Held, Some(_)) => "MOVED",
                    _ => "CONFIRMED",
                };
                fields(word, how, seat, (campaign, subject), was, from.as_ref())
            }
            JoinedAs::Already {
                how,
                seat,
                campaign,
                subject,
                was,
                chat,
            } => fields("ALREADY", how, seat, (campaign, subject), was, Some(chat)),
            JoinedAs::Direct => {
                let mut fields = vec![index, "DIRECT".to_owned()];
                fields.resize(8, String::new());
                fields
            }
        }
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let index = fields.parse()?;
        let word = fields.next()?;
        if word == "DIRECT" {
            for _ in 0..6 {
                fields.next()?;
            }
            let joined = JoinedAs::Direct;
            return Ok(Self { index, joined });
        }
        let how = SeatMatch::parse(fields.next()?)?;
        let (seat, campaign, subject) = (fields.parse()?, fields.parse()?, fields.parse()?);
        let was = SeatState::parse(fields.next()?)?;
        let joined = match word {
            "CONFIRMED" | "LATE" | "MOVED" => JoinedAs::Seat {
                how,
                seat,
                campaign,
                subject,
                was,
                from: fields.optional()?,
            },
            "ALREADY" => JoinedAs::Already {
                how,
                seat,
                campaign,
                subject,
                was,
                chat: fields.parse()?,
            },
            other => return Err(Error::unreadable("joined", other)),
        };
        Ok(Self { index, joined })
    }
}
