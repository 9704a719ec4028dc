//! Ids of groups, those who fill them and those who are in them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{MAX_SEAT_TAGS, name};
use crate::error::Error;
use crate::id::{CorpId, SubjectKey, check, text_id};

text_id!(
    /// Groups that one campaign or several fill.
    GroupPoolId, "group pool", 64, |text| Ok(text)
);
text_id!(
    /// A customer group: WeCom's chat_id.
    ChatId, "group", 64, |text| Ok(text)
);
text_id!(
    /// A campaign that brings people into groups.
    CampaignId, "campaign", 64, |text| Ok(text)
);
text_id!(
    /// Who brings others into the groups of a campaign; made by us.
    InviterId, "inviter", 64, |text| Ok(text)
);
text_id!(
    /// The State of the join way that a visitor was shown: his campaign's, or his inviter's. WeCom takes 30 characters.
    Via, "via", 30, |text| Ok(text)
);
text_id!(
    /// What groups have in common: a city, a topic.
    GroupTag, "tag", 64, |text| Ok(text)
);
text_id!(
    /// WeCom's name for what a group's people were at one time: it says whether two are the same, not which is newer.
    ChatVersion, "version", 64, |text| Ok(text)
);

/// Identity of one seat; a UUID of version 7 made by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SeatId(pub Uuid);

impl fmt::Display for SeatId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for SeatId {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        Uuid::try_parse(text).map(Self).map_err(|_| Error::Text {
            what: "seat",
            problem: "is no UUID",
        })
    }
}

/// Somebody who is in a group at WeCom, without saying who it is; made as a [`SubjectKey`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PersonKey(pub SubjectKey);

impl PersonKey {
    /// A customer by his external id: the same key that he has as a subject.
    pub fn customer(corp: &CorpId, external_id: &str) -> Self {
        Self(SubjectKey::new(corp, "wecom", external_id))
    }

    /// One of the corp's own people, by his userid. WeCom's ids ignore case.
    pub fn member(corp: &CorpId, user_id: &str) -> Self {
        Self(SubjectKey::new(
            corp,
            "member",
            &user_id.to_ascii_lowercase(),
        ))
    }
}

impl fmt::Display for PersonKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for PersonKey {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        text.parse().map(Self)
    }
}

/// Whose seat it is: there is one for each campaign and visitor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeatName {
    pub campaign: CampaignId,
    pub subject: SubjectKey,
}

impl fmt::Display for SeatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.campaign, name::WITHIN, self.subject)
    }
}

impl FromStr for SeatName {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let (campaign, subject) = text
            .split_once(name::WITHIN)
            .ok_or_else(|| Error::unreadable("seat", text))?;
        Ok(Self {
            campaign: campaign.parse()?,
            subject: subject.parse()?,
        })
    }
}

/// Which groups are right for a visitor: those of the first of these tags that have room, and perhaps any.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupTags {
    tags: Vec<GroupTag>,
    or_any: bool,
}

impl GroupTags {
    /// Whatever group has room.
    pub fn any() -> Self {
        Self {
            tags: Vec::new(),
            or_any: true,
        }
    }

    /// In front of all others in their order; nobody's wish.
    pub(crate) fn least() -> Self {
        Self {
            tags: Vec::new(),
            or_any: false,
        }
    }

    /// `or_any`: whatever group has room, when none of these tags has one. Without tags it is any group, too: no group
    /// would be right.
    pub fn new(tags: Vec<GroupTag>, or_any: bool) -> Result<Self, Error> {
        let problem = if tags.len() > MAX_SEAT_TAGS {
            "too many"
        } else if tags.iter().collect::<BTreeSet<_>>().len() < tags.len() {
            "one is named twice"
        } else {
            let or_any = or_any || tags.is_empty();
            return Ok(Self { tags, or_any });
        };
        let what = "tags";
        Err(Error::Text { what, problem })
    }

    /// In the order of preference; None: any group.
    pub fn wishes(&self) -> impl Iterator<Item = Option<&GroupTag>> {
        let any = self.or_any.then_some(None);
        self.tags.iter().map(Some).chain(any)
    }
}

/// Also the name of the queue of those who wait for such a group: the wishes joined by 0x1a, the last one empty where
/// any group is right.
impl fmt::Display for GroupTags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, wish) in self.wishes().enumerate() {
            if i > 0 {
                write!(f, "{}", name::ITEM)?;
            }
            f.write_str(wish.map_or("", GroupTag::as_str))?;
        }
        Ok(())
    }
}

impl FromStr for GroupTags {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut tags: Vec<&str> = text.split(name::ITEM).collect();
        let or_any = tags.pop_if(|last| last.is_empty()).is_some();
        let tags = tags.into_iter().map(str::parse);
        Self::new(tags.collect::<Result<_, _>>()?, or_any)
    }
}
