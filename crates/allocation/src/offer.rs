//! Offers: where a pool asks for it, a member is given a subject only when he accepts; with their text form.

use crate::error::Error;
use crate::id::{AllocationId, MemberId, PoolId, Reason, SubjectKey};
use crate::text::{Fields, optional};

/// How a pool offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferRule {
    /// How long a member may think.
    pub accept_ms: u64,
    /// Members who are asked before a person must decide.
    pub tries: u32,
}

/// What a member says to an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub allocation: AllocationId,
    pub pool: PoolId,
    pub subject: SubjectKey,
    pub member: MemberId,
    /// Of the offer he means: every offer of an allocation has one of its own.
    pub epoch: u64,
    /// None: he accepts.
    pub declined: Option<Reason>,
}

/// Whose it is after an offer came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedOn {
    /// None: nobody is left to ask, a person must decide.
    pub member: Option<MemberId>,
    pub epoch: u64,
    /// When the new offer ends; 0: there is none.
    pub until_ms: u64,
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Responded {
    Accepted,
    Declined(MovedOn),
    /// The time was over: it has moved on.
    Late(MovedOn),
    /// He had accepted it before.
    Already,
    /// It is another member's, or was offered anew since.
    Stale {
        member: Option<MemberId>,
        epoch: u64,
    },
    /// No such open allocation, or it is no offer.
    Unknown,
}

/// An offer whose time was over, or whose member has gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclaimed {
    pub allocation: AllocationId,
    pub pool: PoolId,
    pub subject: SubjectKey,
    pub from: MemberId,
    pub to: MovedOn,
    /// Who had the customer at WeCom when it was asked.
    pub holder: Option<MemberId>,
}

impl Response {
    pub(crate) fn args(&self) -> Vec<String> {
        vec![
            self.allocation.to_string(),
            self.pool.to_string(),
            self.subject.to_string(),
            self.member.to_string(),
            self.epoch.to_string(),
            optional(self.declined.as_ref()),
        ]
    }

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            allocation: fields.parse()?,
            pool: fields.parse()?,
            subject: fields.parse()?,
            member: fields.parse()?,
            epoch: fields.parse()?,
            declined: fields.optional()?,
        })
    }
}

impl MovedOn {
    fn fields(&self) -> [String; 3] {
        [
            optional(self.member.as_ref()),
            self.epoch.to_string(),
            self.until_ms.to_string(),
        ]
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            member: fields.optional()?,
            epoch: fields.parse()?,
            until_ms: fields.parse()?,
        })
    }
}

impl Responded {
    /// A word and three fields.
    pub(crate) fn fields(&self) -> [String; 4] {
        let none = String::new;
        let moved = |word: &str, on: &MovedOn| {
            let [member, epoch, until] = on.fields();
            [word.to_owned(), member, epoch, until]
        };
        match self {
            Responded::Accepted => ["ACCEPTED".into(), none(), none(), none()],
            Responded::Declined(on) => moved("DECLINED", on),
            Responded::Late(on) => moved("LATE", on),
            Responded::Already => ["ALREADY".into(), none(), none(), none()],
            Responded::Stale { member, epoch } => [
                "STALE".into(),
                optional(member.as_ref()),
                epoch.to_string(),
                none(),
            ],
            Responded::Unknown => ["UNKNOWN".into(), none(), none(), none()],
        }
    }

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let word = fields.next()?;
        let responded = match word {
            "DECLINED" => return Ok(Responded::Declined(MovedOn::parse(fields)?)),
            "LATE" => return Ok(Responded::Late(MovedOn::parse(fields)?)),
            "STALE" => {
                let (member, epoch) = (fields.optional()?, fields.parse()?);
                fields.next()?;
                return Ok(Responded::Stale { member, epoch });
            }
            "ACCEPTED" => Responded::Accepted,
            "ALREADY" => Responded::Already,
            "UNKNOWN" => Responded::Unknown,
            other => return Err(Error::unreadable("responded", other)),
        };
        for _ in 0..3 {
            fields.next()?;
        }
        Ok(responded)
    }
}

impl Reclaimed {
    pub(crate) fn fields(&self) -> [String; 8] {
        let [member, epoch, until] = self.to.fields();
        [
            self.allocation.to_string(),
            self.pool.to_string(),
            self.subject.to_string(),
            self.from.to_string(),
            member,
            epoch,
            until,
            optional(self.holder.as_ref()),
        ]
    }

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            allocation: fields.parse()?,
            pool: fields.parse()?,
            subject: fields.parse()?,
            from: fields.parse()?,
            to: MovedOn::parse(fields)?,
            holder: fields.optional()?,
        })
    }
}
