//! Who is in a group, as WeCom tells it, and whose seats that confirms; with its text form.

use super::id::{CampaignId, ChatId, ChatVersion, PersonKey, SeatId, SeatName, Via};
use super::name::{ITEM, PART, flag};
use crate::error::Error;
use crate::id::SubjectKey;
use crate::op::many;
use crate::text::{Fields, optional};

/// What changed in one group, or how a read of it differs from what is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfirmSeats {
    pub chat: ChatId,
    /// What the change follows; None: the group was never read. If something else is known, nothing is changed and the group
    /// is to be read.
    pub from: Option<ChatVersion>,
    pub version: ChatVersion,
    /// Whatever is known: for the audit, which has read everything.
    pub force: bool,
    /// `left` and `joined` together at most [`super::MAX_PEOPLE`].
    pub left: Vec<PersonKey>,
    /// Of a read those who are new and those who were not identified before.
    pub joined: Vec<JoinedPerson>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedPerson {
    pub person: PersonKey,
    /// The group was read: what follows is all that can be known of him. Otherwise he only takes room until it is.
    pub identified: bool,
    /// He scanned a code of the group.
    pub scanned: bool,
    /// The State of the way by which he came.
    pub state: Option<Via>,
    /// Seats that may be his, the most likely first; at most [`super::MAX_CANDIDATES`].
    pub names: Vec<SeatCandidate>,
}

/// A seat that is somebody's if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatCandidate {
    pub how: SeatMatch,
    pub campaign: CampaignId,
    pub subject: SubjectKey,
}

impl SeatCandidate {
    pub fn name(&self) -> SeatName {
        SeatName {
            campaign: self.campaign.clone(),
            subject: self.subject,
        }
    }
}

/// How it was known whose seat it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SeatMatch {
    Unionid,
    ExternalId,
    /// The oldest who was shown this way, of those whom nothing names.
    State,
    /// The oldest who was shown this group, of those whom nothing names: a guess.
    Count,
}

impl SeatMatch {
    const WORDS: [(Self, &str); 4] = [
        (Self::Unionid, "unionid"),
        (Self::ExternalId, "external_id"),
        (Self::State, "state"),
        (Self::Count, "count"),
    ];

    pub fn as_str(self) -> &'static str {
        word(&Self::WORDS, self)
    }

    fn parse(text: &str) -> Result<Self, Error> {
        read_word("match", &Self::WORDS, text)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SeatState {
    Held,
    Confirmed,
    /// Confirmed after it had expired.
    Late,
    Expired,
    Waiting,
}

impl SeatState {
    const WORDS: [(Self, &str); 5] = [
        (Self::Held, "HELD"),
        (Self::Confirmed, "CONFIRMED"),
        (Self::Late, "LATE"),
        (Self::Expired, "EXPIRED"),
        (Self::Waiting, "WAITING"),
    ];

    pub fn as_str(self) -> &'static str {
        word(&Self::WORDS, self)
    }

    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        read_word("seat", &Self::WORDS, text)
    }
}

fn word<T: Copy + PartialEq>(words: &[(T, &'static str)], of: T) -> &'static str {
    let found = words.iter().find(|(one, _)| *one == of);
    found.map_or("", |(_, word)| word)
}

fn read_word<T: Copy>(what: &'static str, words: &[(T, &str)], text: &str) -> Result<T, Error> {
    let found = words.iter().find(|(_, word)| *word == text);
    found
        .map(|(of, _)| *of)
        .ok_or_else(|| Error::unreadable(what, text))
}

impl ConfirmSeats {
    pub(super) fn args(&self) -> Vec<String> {
        let mut args = vec![
            self.chat.to_string(),
            optional(self.from.as_ref()),
            self.version.to_string(),
            flag(self.force),
            self.left.len().to_string(),
        ];
        args.extend(self.left.iter().map(PersonKey::to_string));
        args.extend(self.joined.iter().flat_map(JoinedPerson::args));
        args
    }

    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let (chat, from, version) = (fields.parse()?, fields.optional()?, fields.parse()?);
        let force = fields.next()? == "1";
        let n_left: usize = fields.parse()?;
        let left = (0..n_left).map(|_| fields.parse());
        Ok(Self {
            chat,
            from,
            version,
            force,
            left: left.collect::<Result<_, _>>()?,
            joined: many(fields, JoinedPerson::parse)?,
        })
    }
}

impl JoinedPerson {
    fn args(&self) -> [String; 5] {
        let names = self.names.iter().map(|name| {
            let (how, campaign, subject) = (name.how.as_str(), &name.campaign, name.subject);
            format!("{how}{PART}{campaign}{PART}{subject}")
        });
        let names: Vec<String> = names.collect();
        [
            self.person.to_string(),
            flag(self.identified),
            flag(self.scanned),
            optional(self.state.as_ref()),
            names.join(&ITEM.to_string()),
        ]
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let mut joined = Self {
            person: fields.parse()?,
            identified: fields.next()? == "1",
            scanned: fields.next()? == "1",
            state: fields.optional()?,
            names: Vec::new(),
        };
        let names = fields.next()?.split(ITEM);
        for name in names.filter(|name| !name.is_empty()) {
            let mut parts = name.split(PART);
            let (Some(how), Some(campaign), Some(subject), None) =
                (parts.next(), parts.next(), parts.next(), parts.next())
            else {
                return Err(Error::unreadable("candidate", name));
            };
            joined.names.push(SeatCandidate {
                how: SeatMatch::parse(how)?,
                campaign: campaign.parse()?,
                subject: subject.parse()?,
            });
        }
        Ok(joined)
    }
}

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
    /// So many who are in it or were shown it may not be able to scan their way in: others came past us.
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
