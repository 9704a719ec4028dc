//! What operations answer, with their text form: `more`, the number of woken, the woken, then the answer's own
//! fields. The scripts write it, the log and the ledger keep it.

use crate::error::Error;
use crate::id::{AllocationId, MemberId, PoolId, SlotId, SubjectKey};
use crate::offer::{Reclaimed, Responded};
use crate::op::Op;
use crate::plan::Advanced;
use crate::seats::SeatAnswer;
use crate::text::{Fields, join, optional};
use crate::visit::{Confirmed, Expired, SlotsChange, Visited};

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Assigned {
        allocation: AllocationId,
        member: MemberId,
    },
    /// A member is asked, until a time.
    Offered {
        allocation: AllocationId,
        member: MemberId,
        until_ms: u64,
    },
    /// Nobody is free: it stands in the pool's waiting list.
    Waiting { allocation: AllocationId },
    /// The subject has an allocation in the pool already; no member while it waits.
    Already {
        allocation: AllocationId,
        member: Option<MemberId>,
    },
    /// The event is the end of a transfer of ours.
    Echo {
        allocation: AllocationId,
        pool: PoolId,
    },
    /// The request id was answered before, like this. Never nested.
    Repeated(Box<Decision>),
    /// No such pool; nothing was remembered.
    NoPool,
}

/// A waiting subject that was handed to a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Woken {
    pub allocation: AllocationId,
    pub pool: PoolId,
    pub subject: SubjectKey,
    pub member: MemberId,
    /// The member who had the customer at WeCom when it was asked; may be the chosen one.
    pub holder: Option<MemberId>,
    /// It is a visitor, who is held now.
    pub hold: Option<WokenHold>,
    /// The member is asked, until this time.
    pub offer_until_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WokenHold {
    pub until_ms: u64,
    pub slot: Option<SlotId>,
}

/// In the last field of a woken subject: behind its holder the end of an offer; or nothing, the end of a visitor's hold and
/// his slot.
const INNER: char = '\u{1e}';

impl Woken {
    fn fields(&self) -> [String; 5] {
        let mut last = optional(self.holder.as_ref());
        if let Some(until_ms) = self.offer_until_ms {
            last.push_str(&format!("{INNER}{until_ms}"));
        }
        if let Some(hold) = &self.hold {
            let slot = optional(hold.slot.as_ref());
            last = format!("{INNER}{}{INNER}{slot}", hold.until_ms);
        }
        [
            self.allocation.to_string(),
            self.pool.to_string(),
            self.subject.to_string(),
            self.member.to_string(),
            last,
        ]
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let mut woken = Self {
            allocation: fields.parse()?,
            pool: fields.parse()?,
            subject: fields.parse()?,
            member: fields.parse()?,
            holder: None,
            hold: None,
            offer_until_ms: None,
        };
        let last = fields.next()?;
        let unreadable = || Error::unreadable("woken", last);
        let mut parts = last.split(INNER);
        let holder = parts.next().filter(|holder| !holder.is_empty());
        woken.holder = holder
            .map(|holder| holder.parse().map_err(|_| unreadable()))
            .transpose()?;
        let Some(until) = parts.next() else {
            return Ok(woken);
        };
        let until_ms = until.parse().map_err(|_| unreadable())?;
        match parts.next() {
            None => woken.offer_until_ms = Some(until_ms),
            Some(slot) => {
                let slot = (!slot.is_empty()).then(|| slot.parse());
                let slot = slot.transpose().map_err(|_| unreadable())?;
                woken.hold = Some(WokenHold { until_ms, slot });
            }
        }
        Ok(woken)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    pub allocation: AllocationId,
    pub pool: PoolId,
    pub subject: SubjectKey,
    /// None: it was waiting.
    pub member: Option<MemberId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    Done {
        member: MemberId,
    },
    /// The load moved; None: it was waiting.
    Kept {
        from: Option<MemberId>,
    },
    /// The allocation ended; None: it was waiting.
    Void {
        member: Option<MemberId>,
    },
    /// It is another member's by now, or was given away and back: nothing changed.
    Stale {
        member: Option<MemberId>,
    },
    /// It was settled like this before.
    Already,
    /// No such open allocation, or it waits and cannot be done.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reassigned {
    Moved {
        member: MemberId,
        epoch: u64,
    },
    /// The member is the one who has it.
    Same {
        epoch: u64,
    },
    /// Nobody else is free: nothing changed.
    Nobody,
    /// The member asked for is at his cap.
    Full,
    /// The member asked for is blocked.
    Blocked,
    /// Somebody was faster.
    Stale {
        member: Option<MemberId>,
        epoch: u64,
    },
    Unknown,
}

/// What became of a credit entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adjusted {
    Adjusted,
    NoPool,
    /// A least-load pool has no credits.
    NotFair,
    /// Not in the pool, or with weight 0.
    NotMember,
    /// Nobody can be picked, so nobody can pay.
    Nobody,
}

impl Adjusted {
    const WORDS: [(Self, &str); 5] = [
        (Self::Adjusted, "ADJUSTED"),
        (Self::NoPool, "NO_POOL"),
        (Self::NotFair, "NOT_FAIR"),
        (Self::NotMember, "NOT_MEMBER"),
        (Self::Nobody, "NOBODY"),
    ];

    fn word(self) -> &'static str {
        let mut words = Self::WORDS.iter();
        words
            .find(|(one, _)| *one == self)
            .map_or("", |(_, word)| word)
    }

    fn parse(word: &str) -> Result<Self, Error> {
        let mut words = Self::WORDS.iter();
        words
            .find(|(_, one)| *one == word)
            .map(|(adjusted, _)| *adjusted)
            .ok_or_else(|| Error::unreadable("adjusted", word))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberChange {
    Changed,
    Same,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolChange {
    Changed,
    /// The content was the same: nothing but the version number changed, if that.
    Same,
    /// The pool has a newer version, or this one with other content.
    Stale {
        version: u64,
    },
    /// There is no such pool to remove.
    Unknown,
}

/// The part of an outcome that belongs to the kind of operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Decided(Vec<Decision>),
    Closed(Vec<Closed>),
    Settled(Settled),
    Reassigned(Reassigned),
    Member(MemberChange),
    Pool(PoolChange),
    Visited(Vec<Visited>),
    Confirmed(Vec<Confirmed>),
    Expired {
        /// Holds and memories that were looked at; as many as the limit: there may be more.
        taken: u32,
        expired: Vec<Expired>,
    },
    Slots(SlotsChange),
    Adjusted(Adjusted),
    Responded(Responded),
    Reclaimed(Vec<Reclaimed>),
    Advanced(Vec<Advanced>),
    Seats(SeatAnswer),
    /// Presence, wake, note, rebuilt: nothing beyond the woken.
    Ok,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub answer: Answer,
    /// Waiting subjects that found a member in the same call.
    pub woken: Vec<Woken>,
    /// There are still waiting subjects and free members for them: call `wake`; after an operation on seats those who wait
    /// and free seats, and `wake_seats`.
    pub more: bool,
}

impl Outcome {
    /// The result as one text.
    pub fn text(&self) -> String {
        let mut fields = vec![
            if self.more { "1" } else { "0" }.to_owned(),
            self.woken.len().to_string(),
        ];
        fields.extend(self.woken.iter().flat_map(Woken::fields));
        match &self.answer {
            Answer::Decided(decisions) => {
                for decision in decisions {
                    fields.extend(decision_fields(decision));
                }
            }
            Answer::Closed(closed) => {
                for closed in closed {
                    fields.extend([
                        closed.allocation.to_string(),
                        closed.pool.to_string(),
                        closed.subject.to_string(),
                        optional(closed.member.as_ref()),
                    ]);
                }
            }
            Answer::Settled(settled) => {
                let (word, member) = match settled {
                    Settled::Done { member } => ("DONE", member.to_string()),
                    Settled::Kept { from } => ("KEPT", optional(from.as_ref())),
                    Settled::Void { member } => ("VOID", optional(member.as_ref())),
                    Settled::Stale { member } => ("STALE", optional(member.as_ref())),
                    Settled::Already => ("ALREADY", String::new()),
                    Settled::Unknown => ("UNKNOWN", String::new()),
                };
                fields.extend([word.to_owned(), member]);
            }
            Answer::Reassigned(reassigned) => {
                let (word, member, epoch) = match reassigned {
                    Reassigned::Moved { member, epoch } => {
                        ("MOVED", member.to_string(), epoch.to_string())
                    }
                    Reassigned::Same { epoch } => ("SAME", String::new(), epoch.to_string()),
                    Reassigned::Nobody => ("NOBODY", String::new(), String::new()),
                    Reassigned::Full => ("FULL", String::new(), String::new()),
                    Reassigned::Blocked => ("BLOCKED", String::new(), String::new()),
                    Reassigned::Stale { member, epoch } => {
                        ("STALE", optional(member.as_ref()), epoch.to_string())
                    }
                    Reassigned::Unknown => ("UNKNOWN", String::new(), String::new()),
                };
                fields.extend([word.to_owned(), member, epoch]);
            }
            Answer::Member(change) => fields.push(
                match change {
                    MemberChange::Changed => "CHANGED",
                    MemberChange::Same => "SAME",
                }
                .into(),
            ),
            Answer::Pool(change) => {
                let (word, version) = match change {
                    PoolChange::Changed => ("CHANGED", String::new()),
                    PoolChange::Same => ("SAME", String::new()),
                    PoolChange::Stale { version } => ("STALE", version.to_string()),
                    PoolChange::Unknown => ("UNKNOWN", String::new()),
                };
                fields.extend([word.to_owned(), version]);
            }
            Answer::Visited(visited) => fields.extend(visited.iter().flat_map(Visited::fields)),
            Answer::Confirmed(confirmed) => {
                fields.extend(confirmed.iter().flat_map(Confirmed::fields));
            }
            Answer::Expired { taken, expired } => {
                fields.push(taken.to_string());
                fields.extend(expired.iter().flat_map(Expired::fields));
            }
            Answer::Slots(change) => {
                fields.extend([change.added.to_string(), change.removed.to_string()]);
            }
            Answer::Responded(responded) => fields.extend(responded.fields()),
            Answer::Advanced(advanced) => {
                fields.extend(advanced.iter().flat_map(Advanced::fields));
            }
            Answer::Reclaimed(reclaimed) => {
                fields.extend(reclaimed.iter().flat_map(Reclaimed::fields));
            }
            Answer::Seats(answer) => fields.extend(answer.fields()),
            Answer::Adjusted(adjusted) => fields.push(adjusted.word().to_owned()),
            Answer::Ok => {}
        }
        join(&fields)
    }

    /// Reads the result of `op`.
    pub fn parse(op: &Op, text: &str) -> Result<Outcome, Error> {
        let mut fields = Fields::new("outcome", text);
        let more = fields.next()? == "1";
        let n_woken: usize = fields.parse()?;
        let mut woken = Vec::new();
        for _ in 0..n_woken {
            woken.push(Woken::parse(&mut fields)?);
        }
        let answer = parse_answer(op, &mut fields)?;
        fields.end()?;
        Ok(Outcome {
            answer,
            woken,
            more,
        })
    }
}

fn parse_answer(op: &Op, fields: &mut Fields<'_>) -> Result<Answer, Error> {
    Ok(match op {
        Op::Decide(requests) => {
            let decisions = requests.iter().map(|_| parse_decision(fields));
            Answer::Decided(decisions.collect::<Result<_, _>>()?)
        }
        Op::Close(_) => {
            let mut closed = Vec::new();
            while !fields.is_empty() {
                closed.push(Closed {
                    allocation: fields.parse()?,
                    pool: fields.parse()?,
                    subject: fields.parse()?,
                    member: fields.optional()?,
                });
            }
            Answer::Closed(closed)
        }
        Op::Settle(_) => Answer::Settled(match fields.next()? {
            "DONE" => Settled::Done {
                member: fields.parse()?,
            },
            "KEPT" => Settled::Kept {
                from: fields.optional()?,
            },
            "VOID" => Settled::Void {
                member: fields.optional()?,
            },
            "STALE" => Settled::Stale {
                member: fields.optional()?,
            },
            word => {
                let settled = match word {
                    "ALREADY" => Settled::Already,
                    "UNKNOWN" => Settled::Unknown,
                    other => return Err(Error::unreadable("settled", other)),
                };
                fields.next()?;
                settled
            }
        }),
        Op::Reassign(_) => Answer::Reassigned(parse_reassigned(fields)?),
        Op::SetMember(_) | Op::SetSkills(_) | Op::SetChannel(_) => {
            Answer::Member(match fields.next()? {
                "CHANGED" => MemberChange::Changed,
                "SAME" => MemberChange::Same,
                other => return Err(Error::unreadable("member change", other)),
            })
        }
        Op::SetPool(_) | Op::RemovePool { .. } => {
            Answer::Pool(match (fields.next()?, fields.next()?) {
                ("CHANGED", _) => PoolChange::Changed,
                ("SAME", _) => PoolChange::Same,
                ("UNKNOWN", _) => PoolChange::Unknown,
                ("STALE", version) => PoolChange::Stale {
                    version: version
                        .parse()
                        .map_err(|_| Error::unreadable("version", version))?,
                },
                (other, _) => return Err(Error::unreadable("pool change", other)),
            })
        }
        Op::Visit(visits) => {
            let visited = visits.iter().map(|_| Visited::parse(fields));
            Answer::Visited(visited.collect::<Result<_, _>>()?)
        }
        Op::Confirm(confirmations) => {
            let confirmed = confirmations.iter().map(|_| Confirmed::parse(fields));
            Answer::Confirmed(confirmed.collect::<Result<_, _>>()?)
        }
        Op::Expire { .. } => {
            let taken = fields.parse()?;
            let mut expired = Vec::new();
            while !fields.is_empty() {
                expired.push(Expired::parse(fields)?);
            }
            Answer::Expired { taken, expired }
        }
        Op::Respond(_) => Answer::Responded(Responded::parse(fields)?),
        Op::Reclaim { .. } => {
            let mut reclaimed = Vec::new();
            while !fields.is_empty() {
                reclaimed.push(Reclaimed::parse(fields)?);
            }
            Answer::Reclaimed(reclaimed)
        }
        Op::Advance { .. } => {
            let mut advanced = Vec::new();
            while !fields.is_empty() {
                advanced.push(Advanced::parse(fields)?);
            }
            Answer::Advanced(advanced)
        }
        Op::Adjust(_) => Answer::Adjusted(Adjusted::parse(fields.next()?)?),
        Op::SetSlots(_) => Answer::Slots(SlotsChange {
            added: fields.parse()?,
            removed: fields.parse()?,
        }),
        Op::Seats(op) => Answer::Seats(SeatAnswer::parse(op, fields)?),
        Op::Presence(_) | Op::Wake { .. } | Op::Note | Op::Rebuilt { .. } => Answer::Ok,
    })
}

fn parse_reassigned(fields: &mut Fields<'_>) -> Result<Reassigned, Error> {
    let (word, member, epoch) = (fields.next()?, fields.optional()?, fields.optional()?);
    Ok(match (word, member, epoch) {
        ("MOVED", Some(member), Some(epoch)) => Reassigned::Moved { member, epoch },
        ("SAME", _, Some(epoch)) => Reassigned::Same { epoch },
        ("STALE", member, Some(epoch)) => Reassigned::Stale { member, epoch },
        ("NOBODY", ..) => Reassigned::Nobody,
        ("FULL", ..) => Reassigned::Full,
        ("BLOCKED", ..) => Reassigned::Blocked,
        ("UNKNOWN", ..) => Reassigned::Unknown,
        (other, ..) => return Err(Error::unreadable("reassigned", other)),
    })
}

const REPEATED: &str = "REPEATED_";

/// A word and two fields.
pub(crate) fn decision_fields(decision: &Decision) -> [String; 3] {
    match decision {
        Decision::Assigned { allocation, member } => [
            "ASSIGNED".into(),
            allocation.to_string(),
            member.to_string(),
        ],
        Decision::Offered {
            allocation,
            member,
            until_ms,
        } => [
            "OFFERED".into(),
            allocation.to_string(),
            format!("{member}{INNER}{until_ms}"),
        ],
        Decision::Waiting { allocation } => {
            ["WAITING".into(), allocation.to_string(), String::new()]
        }
        Decision::Already { allocation, member } => [
            "ALREADY".into(),
            allocation.to_string(),
            optional(member.as_ref()),
        ],
        Decision::Echo { allocation, pool } => {
            ["ECHO".into(), allocation.to_string(), pool.to_string()]
        }
        Decision::Repeated(first) => {
            let [word, allocation, value] = decision_fields(first);
            [format!("{REPEATED}{word}"), allocation, value]
        }
        Decision::NoPool => ["NO_POOL".into(), String::new(), String::new()],
    }
}

pub(crate) fn parse_decision(fields: &mut Fields<'_>) -> Result<Decision, Error> {
    let word = fields.next()?;
    let (word, repeated) = match word.strip_prefix(REPEATED) {
        Some(first) => (first, true),
        None => (word, false),
    };
    let decision = match word {
        "ASSIGNED" => Decision::Assigned {
            allocation: fields.parse()?,
            member: fields.parse()?,
        },
        "OFFERED" => {
            let allocation = fields.parse()?;
            let text = fields.next()?;
            let unreadable = || Error::unreadable("offered", text);
            let (member, until) = text.split_once(INNER).ok_or_else(unreadable)?;
            Decision::Offered {
                allocation,
                member: member.parse().map_err(|_| unreadable())?,
                until_ms: until.parse().map_err(|_| unreadable())?,
            }
        }
        "WAITING" => {
            let allocation = fields.parse()?;
            fields.next()?;
            Decision::Waiting { allocation }
        }
        "ALREADY" => Decision::Already {
            allocation: fields.parse()?,
            member: fields.optional()?,
        },
        "ECHO" => Decision::Echo {
            allocation: fields.parse()?,
            pool: fields.parse()?,
        },
        "NO_POOL" => {
            fields.next()?;
            fields.next()?;
            Decision::NoPool
        }
        other => return Err(Error::unreadable("decision", other)),
    };
    Ok(if repeated {
        Decision::Repeated(Box::new(decision))
    } else {
        decision
    })
}
