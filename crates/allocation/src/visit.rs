//! Visits: somebody opens a page, is given a member at once and is held for him until he adds him; with their text
//! form. The visitor and the customer he becomes are two subjects: only the callback that confirms a hold says that
//! they are one.

use crate::error::Error;
use crate::id::{AllocationId, ChannelId, MemberId, PoolId, SlotId, SubjectKey};
use crate::plan::{Plan, pool_field, read_pool_field};
use crate::text::{Fields, optional};

/// Somebody opened a channel's page, or opened it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// Identity of the allocation, should one be made.
    pub allocation: AllocationId,
    pub pool: PoolId,
    /// The visitor.
    pub subject: SubjectKey,
    pub channel: ChannelId,
    /// How long the member is held for him.
    pub hold_ms: u64,
    /// How long a slot rests before another visit may have it.
    pub rest_ms: u64,
    /// None: the pool serves whoever comes. A visit is never left to a person.
    pub plan: Option<Plan>,
}

/// What a visitor is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visited {
    /// A member is held for him until a time; without a slot when none was free.
    Held {
        allocation: AllocationId,
        member: MemberId,
        slot: Option<SlotId>,
        until_ms: u64,
    },
    /// Nobody is free: he stands in the pool's waiting list, until he stops asking.
    Waiting {
        allocation: AllocationId,
        until_ms: u64,
    },
    /// As before: he came again.
    Again {
        allocation: AllocationId,
        /// None: he still waits.
        member: Option<MemberId>,
        slot: Option<SlotId>,
        /// 0: it is no hold but his allocation.
        until_ms: u64,
    },
    /// He has added this member.
    Met {
        allocation: AllocationId,
        member: MemberId,
    },
    NoPool,
}

/// A member has a customer who came by one of our ways: which visit was it?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmation {
    /// Identity of the allocation, should none be held, or should it be another one.
    pub allocation: AllocationId,
    /// Where he is counted when no visit explains him.
    pub pool: PoolId,
    /// The customer.
    pub subject: SubjectKey,
    /// Who has him.
    pub member: MemberId,
    /// The visitor, where somebody knows that he is this customer.
    pub visitor: Option<SubjectKey>,
    /// The slot whose way was used.
    pub slot: Option<SlotId>,
    /// Came by the plain way of this channel: the oldest hold of the member that has no slot is meant.
    pub channel: Option<ChannelId>,
}

/// How a customer was found to be a visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    Visitor,
    Slot,
    /// The oldest hold of that member: a guess.
    Time,
}

impl Match {
    pub fn as_str(self) -> &'static str {
        match self {
            Match::Visitor => "visitor",
            Match::Slot => "slot",
            Match::Time => "time",
        }
    }

    fn parse(text: &str) -> Result<Option<Self>, Error> {
        Ok(Some(match text {
            "" => return Ok(None),
            "visitor" => Match::Visitor,
            "slot" => Match::Slot,
            "time" => Match::Time,
            other => return Err(Error::unreadable("match", other)),
        }))
    }
}

/// What a confirmation found. `held` is the allocation of the visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confirmed {
    /// The hold is the customer's allocation now.
    Confirmed {
        held: AllocationId,
        by: Match,
    },
    /// The hold had expired: a new allocation to the same member.
    Late {
        allocation: AllocationId,
        /// Of the visit, whatever its channel leads to by now.
        pool: PoolId,
        held: AllocationId,
        by: Match,
    },
    /// Another member was added than the one he saw: a new allocation to that one, who pays for it.
    Mismatched {
        allocation: AllocationId,
        /// Of the visit, whatever its channel leads to by now.
        pool: PoolId,
        held: AllocationId,
        by: Match,
    },
    /// The customer had an allocation in this pool already; a hold that was found has ended.
    Already {
        allocation: AllocationId,
        held: Option<AllocationId>,
        by: Option<Match>,
    },
    /// No visit explains him: an allocation to the member who has him, who pays for it.
    Direct {
        allocation: AllocationId,
    },
    /// The event is the end of a transfer of ours.
    Echo {
        allocation: AllocationId,
        pool: PoolId,
    },
    NoPool,
}

/// A hold that ended because its time was over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired {
    pub allocation: AllocationId,
    pub pool: PoolId,
    pub subject: SubjectKey,
    /// None: he was waiting.
    pub member: Option<MemberId>,
}

/// Slots of one member for one channel that may be used from now on, or must not be lent any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetSlots {
    pub channel: ChannelId,
    pub member: MemberId,
    /// With the time since which each rests; 0: it was never used.
    pub add: Vec<(SlotId, u64)>,
    pub remove: Vec<SlotId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotsChange {
    pub added: u32,
    pub removed: u32,
}

impl Visit {
    pub(crate) fn args(&self) -> [String; 6] {
        [
            self.allocation.to_string(),
            pool_field(&self.pool, self.plan.as_ref()),
            self.subject.to_string(),
            self.channel.to_string(),
            self.hold_ms.to_string(),
            self.rest_ms.to_string(),
        ]
    }

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let allocation = fields.parse()?;
        let (pool, plan) = read_pool_field(fields.next()?)?;
        Ok(Self {
            allocation,
            pool,
            plan,
            subject: fields.parse()?,
            channel: fields.parse()?,
            hold_ms: fields.parse()?,
            rest_ms: fields.parse()?,
        })
    }
}

impl Visited {
    /// A word and four fields.
    pub(crate) fn fields(&self) -> [String; 5] {
        let none = String::new;
        match self {
            Visited::Held {
                allocation,
                member,
                slot,
                until_ms,
            } => [
                "HELD".into(),
                allocation.to_string(),
                member.to_string(),
                optional(slot.as_ref()),
                until_ms.to_string(),
            ],
            Visited::Waiting {
                allocation,
                until_ms,
            } => [
                "WAITING".into(),
                allocation.to_string(),
                none(),
                none(),
                until_ms.to_string(),
            ],
            Visited::Again {
                allocation,
                member,
                slot,
                until_ms,
            } => [
                "AGAIN".into(),
                allocation.to_string(),
                optional(member.as_ref()),
                optional(slot.as_ref()),
                until_ms.to_string(),
            ],
            Visited::Met { allocation, member } => [
                "MET".into(),
                allocation.to_string(),
                member.to_string(),
                none(),
                none(),
            ],
            Visited::NoPool => ["NO_POOL".into(), none(), none(), none(), none()],
        }
    }

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let word = fields.next()?;
        if word == "NO_POOL" {
            for _ in 0..4 {
                fields.next()?;
            }
            return Ok(Visited::NoPool);
        }
        let allocation = fields.parse()?;
        let member: Option<MemberId> = fields.optional()?;
        let slot = fields.optional()?;
        let until: Option<u64> = fields.optional()?;
        Ok(match (word, member, until) {
            ("HELD", Some(member), Some(until_ms)) => Visited::Held {
                allocation,
                member,
                slot,
                until_ms,
            },
            ("WAITING", None, Some(until_ms)) => Visited::Waiting {
                allocation,
                until_ms,
            },
            ("AGAIN", member, Some(until_ms)) => Visited::Again {
                allocation,
                member,
                slot,
                until_ms,
            },
            ("MET", Some(member), None) => Visited::Met { allocation, member },
            (other, ..) => return Err(Error::unreadable("visited", other)),
        })
    }
}

impl Confirmation {
    pub(crate) fn args(&self) -> [String; 7] {
        [
            self.allocation.to_string(),
            self.pool.to_string(),
            self.subject.to_string(),
            self.member.to_string(),
            optional(self.visitor.as_ref()),
            optional(self.slot.as_ref()),
            optional(self.channel.as_ref()),
        ]
    }

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            allocation: fields.parse()?,
            pool: fields.parse()?,
            subject: fields.parse()?,
            member: fields.parse()?,
            visitor: fields.optional()?,
            slot: fields.optional()?,
            channel: fields.optional()?,
        })
    }
}

impl Confirmed {
    /// A word and four fields.
    pub(crate) fn fields(&self) -> [String; 5] {
        let none = String::new;
        let found =
            |word: &str, allocation: &AllocationId, held: &AllocationId, by: &Match, pool| {
                [
                    word.to_owned(),
                    allocation.to_string(),
                    held.to_string(),
                    by.as_str().to_owned(),
                    optional(pool),
                ]
            };
        match self {
            Confirmed::Confirmed { held, by } => found("CONFIRMED", held, held, by, None),
            Confirmed::Late {
                allocation,
                pool,
                held,
                by,
            } => found("LATE", allocation, held, by, Some(pool)),
            Confirmed::Mismatched {
                allocation,
                pool,
                held,
                by,
            } => found("MISMATCHED", allocation, held, by, Some(pool)),
            Confirmed::Already {
                allocation,
                held,
                by,
            } => [
                "ALREADY".into(),
                allocation.to_string(),
                optional(held.as_ref()),
                by.map(Match::as_str).unwrap_or_default().to_owned(),
                none(),
            ],
            Confirmed::Direct { allocation } => [
                "DIRECT".into(),
                allocation.to_string(),
                none(),
                none(),
                none(),
            ],
            Confirmed::Echo { allocation, pool } => [
                "ECHO".into(),
                allocation.to_string(),
                pool.to_string(),
                none(),
                none(),
            ],
            Confirmed::NoPool => ["NO_POOL".into(), none(), none(), none(), none()],
        }
    }

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let word = fields.next()?;
        if word == "NO_POOL" {
            for _ in 0..4 {
                fields.next()?;
            }
            return Ok(Confirmed::NoPool);
        }
        let allocation = fields.parse()?;
        if word == "ECHO" {
            let pool = fields.parse()?;
            fields.next()?;
            fields.next()?;
            return Ok(Confirmed::Echo { allocation, pool });
        }
        let held: Option<AllocationId> = fields.optional()?;
        let by = Match::parse(fields.next()?)?;
        let pool: Option<PoolId> = fields.optional()?;
        Ok(match (word, held, by, pool) {
            ("CONFIRMED", Some(held), Some(by), None) => Confirmed::Confirmed { held, by },
            ("LATE", Some(held), Some(by), Some(pool)) => Confirmed::Late {
                allocation,
                pool,
                held,
                by,
            },
            ("MISMATCHED", Some(held), Some(by), Some(pool)) => Confirmed::Mismatched {
                allocation,
                pool,
                held,
                by,
            },
            ("ALREADY", held, by, None) => Confirmed::Already {
                allocation,
                held,
                by,
            },
            ("DIRECT", None, None, None) => Confirmed::Direct { allocation },
            (other, ..) => return Err(Error::unreadable("confirmed", other)),
        })
    }
}

impl Expired {
    pub(crate) fn fields(&self) -> [String; 4] {
        [
            self.allocation.to_string(),
            self.pool.to_string(),
            self.subject.to_string(),
            optional(self.member.as_ref()),
        ]
    }

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            allocation: fields.parse()?,
            pool: fields.parse()?,
            subject: fields.parse()?,
            member: fields.optional()?,
        })
    }
}

impl SetSlots {
    pub(crate) fn args(&self) -> Vec<String> {
        let mut args = vec![
            self.channel.to_string(),
            self.member.to_string(),
            self.add.len().to_string(),
        ];
        for (slot, rests_since_ms) in &self.add {
            args.extend([slot.to_string(), rests_since_ms.to_string()]);
        }
        args.extend(self.remove.iter().map(SlotId::to_string));
        args
    }

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let (channel, member) = (fields.parse()?, fields.parse()?);
        let n: usize = fields.parse()?;
        let mut add = Vec::new();
        for _ in 0..n {
            add.push((fields.parse()?, fields.parse()?));
        }
        let mut remove = Vec::new();
        while !fields.is_empty() {
            remove.push(fields.parse()?);
        }
        Ok(Self {
            channel,
            member,
            add,
            remove,
        })
    }
}
