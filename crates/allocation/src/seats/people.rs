//! Who came into a group and who left, as WeCom tells it, with its text form.

use super::id::{CampaignId, ChatId, ChatVersion, PersonKey, SeatName, Via};
use super::name::{ITEM, PART, flag};
use crate::error::Error;
use crate::id::SubjectKey;
use crate::op::many;
use crate::text::{Fields, optional};

/// In place of the flag of one who is identified.
const DOUBTED: &str = "?";

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
    /// Only a read says that he is in it, and it may be older than what is known: he may have left since. He takes room too, and
    /// is no more than that until an event tells of him or a read is sure. Never of one who is identified.
    pub doubted: bool,
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

    pub(super) fn parse(text: &str) -> Result<Self, Error> {
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
            match self.doubted {
                true => DOUBTED.to_owned(),
                false => flag(self.identified),
            },
            flag(self.scanned),
            optional(self.state.as_ref()),
            names.join(&ITEM.to_string()),
        ]
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let person = fields.parse()?;
        let known = fields.next()?;
        let mut joined = Self {
            person,
            identified: known == "1",
            doubted: known == DOUBTED,
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
