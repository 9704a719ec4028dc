//! The operations: everything that changes a corp's state, with their text form. A name carries its version: when
//! the meaning of arguments changes, the name does, and the old one can still be read and folded.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::id::{AllocationId, ChannelId, MemberId, PoolId, Reason, RequestId, Skill, SubjectKey};
use crate::limits::Limits;
use crate::offer::Response;
use crate::plan::{Plan, pool_field, read_pool_field};
use crate::pool::{PoolConfig, PoolContent};
use crate::seats::SeatOp;
use crate::text::{FIELD, Fields, optional};
use crate::visit::{Confirmation, SetSlots, Visit};

/// Asks who gets a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Identity of the allocation, should one be made.
    pub allocation: AllocationId,
    pub pool: PoolId,
    pub subject: SubjectKey,
    /// The member who has the customer at WeCom already.
    pub holder: Option<MemberId>,
    pub request: Option<RequestId>,
    /// Asked by an event that names its holder: it may be the echo of a transfer of ours.
    pub echo: bool,
    /// None: the pool serves whoever comes.
    pub plan: Option<Plan>,
}

/// Ends open and waiting allocations of one subject; what is given must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    pub subject: SubjectKey,
    pub pool: Option<PoolId>,
    /// Only allocations to this member (so none that waits).
    pub member: Option<MemberId>,
    pub allocation: Option<AllocationId>,
    pub reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    pub allocation: AllocationId,
    pub pool: PoolId,
    pub subject: SubjectKey,
    pub outcome: SettlementOutcome,
    /// The assignment it is about; None: whatever the present one is, as entries of `settle.1` meant it.
    pub expect: Option<Assignment>,
}

/// One assignment of an allocation, as somebody knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// None: it waits.
    pub member: Option<MemberId>,
    pub epoch: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettlementOutcome {
    /// The customer is with the chosen member.
    Done,
    /// The customer stayed with this member, who has the load now, whatever his cap says.
    Kept(MemberId),
    /// It came to nothing: the allocation ends.
    Void(Reason),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassignment {
    pub allocation: AllocationId,
    pub pool: PoolId,
    pub subject: SubjectKey,
    /// Without it the pool picks anew, the present member left out.
    pub to: Option<MemberId>,
    /// At most [`crate::MAX_EXCLUDED`].
    pub exclude: Vec<MemberId>,
    pub expect_epoch: u64,
}

/// A member is there until a time, or off (0).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresenceChange {
    pub member: MemberId,
    pub lease_until_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetMember {
    pub member: MemberId,
    /// Over all pools.
    pub limits: Limits,
    /// When the day ends that limits by the day, and by the hour, are counted in; None: at midnight UTC.
    pub day_end_ms: Option<u64>,
    /// Gets nothing while it is set.
    pub blocked: Option<Reason>,
    /// Taken where nothing was counted so far, because nothing was limited by time.
    pub given: Option<GivenBefore>,
}

/// How many of those who come through a channel are given a member; whoever comes later waits until the hour, or the day, is
/// over. Without limits nothing of the channel is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetChannel {
    pub channel: ChannelId,
    pub per_hour: Option<u32>,
    pub per_day: Option<u32>,
    /// When the day ends, and with it an hour; None: at midnight UTC.
    pub day_end_ms: Option<u64>,
    /// Taken where nothing was counted so far.
    pub given: GivenBefore,
}

/// What a member was given before somebody counted it, in the hour and on the day that it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GivenBefore {
    pub in_hour: u32,
    pub on_day: u32,
}

impl SetMember {
    /// With no limit but this one.
    pub fn capped(member: MemberId, cap: Option<u32>, blocked: Option<Reason>) -> Self {
        Self {
            member,
            limits: Limits {
                at_a_time: cap,
                ..Limits::NONE
            },
            day_end_ms: None,
            blocked,
            given: None,
        }
    }

    pub(crate) fn is_by_time(&self) -> bool {
        self.limits.per_hour.is_some()
            || self.limits.per_day.is_some()
            || self.day_end_ms.is_some()
            || self.given.is_some()
    }
}

/// What a member can do, all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetSkills {
    pub member: MemberId,
    /// At most [`crate::MAX_SKILLS`].
    pub skills: BTreeSet<Skill>,
}

/// A credit entry: what a member is owed beside what the rule says, in thousandths of a customer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjustment {
    pub pool: PoolId,
    pub member: MemberId,
    pub thousandths: i64,
}

/// One change of a corp's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Decide(Vec<Request>),
    Close(Vec<Closing>),
    Settle(Settlement),
    Reassign(Reassignment),
    Presence(Vec<PresenceChange>),
    SetMember(SetMember),
    SetChannel(SetChannel),
    SetPool(PoolConfig),
    /// Members leave the pool. Its open allocations stay; its waiting list stays for a pool of that name to come,
    /// or until it is closed.
    RemovePool {
        pool: PoolId,
        version: u64,
    },
    /// Hands out at most `limit` waiting subjects of a pool.
    Wake {
        pool: PoolId,
        limit: u32,
    },
    Visit(Vec<Visit>),
    Confirm(Vec<Confirmation>),
    /// Ends at most `limit` holds and memories whose time is over.
    Expire {
        limit: u32,
    },
    SetSlots(SetSlots),
    Adjust(Adjustment),
    Respond(Response),
    /// Moves on at most `limit` offers whose time is over.
    Reclaim {
        limit: u32,
    },
    SetSkills(SetSkills),
    /// Opens the next steps of at most `limit` plans of those who wait, or leaves them to a person.
    Advance {
        limit: u32,
    },
    /// Seats of customer groups: nothing of members and their pools is looked at or changed.
    Seats(SeatOp),
    /// Changes nothing; carries a payload into the log.
    Note,
    /// The state was written anew: everybody is off until the next heartbeat.
    Rebuilt {
        generation: u64,
    },
}

impl Op {
    /// How many subjects or members it is about, at least 1: what an entry costs whoever writes it down.
    pub fn size(&self) -> usize {
        let many = match self {
            Op::Decide(requests) => requests.len(),
            Op::Close(closings) => closings.len(),
            Op::Presence(changes) => changes.len(),
            Op::SetPool(pool) => pool.members().len(),
            Op::Visit(visits) => visits.len(),
            Op::Confirm(confirmations) => confirmations.len(),
            Op::SetSlots(slots) => slots.add.len() + slots.remove.len(),
            Op::Seats(op) => op.size(),
            Op::Wake { limit, .. }
            | Op::Expire { limit }
            | Op::Reclaim { limit }
            | Op::Advance { limit } => usize::try_from(*limit).unwrap_or(usize::MAX),
            Op::Settle(_)
            | Op::Reassign(_)
            | Op::SetMember(_)
            | Op::SetChannel(_)
            | Op::RemovePool { .. }
            | Op::Adjust(_)
            | Op::Respond(_)
            | Op::SetSkills(_)
            | Op::Note
            | Op::Rebuilt { .. } => 1,
        };
        many.max(1)
    }

    /// Versioned name in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Decide(requests) if requests.iter().any(|one| one.plan.is_some()) => "decide.2",
            Op::Decide(_) => "decide.1",
            Op::Close(_) => "close.1",
            Op::Settle(_) => "settle.2",
            Op::Reassign(_) => "reassign.1",
            Op::Presence(_) => "presence.1",
            Op::SetMember(change) if change.given.is_some() => "set_member.3",
            Op::SetMember(change) if change.is_by_time() => "set_member.2",
            Op::SetMember(_) => "set_member.1",
            Op::SetChannel(_) => "set_channel.1",
            Op::SetPool(pool) if pool.is_more() => "set_pool.2",
            Op::SetPool(_) => "set_pool.1",
            Op::RemovePool { .. } => "remove_pool.1",
            Op::Wake { .. } => "wake.1",
            Op::Visit(visits) if visits.iter().any(|one| one.plan.is_some()) => "visit.2",
            Op::Visit(_) => "visit.1",
            Op::Confirm(_) => "confirm.1",
            Op::Expire { .. } => "expire.1",
            Op::SetSlots(_) => "set_slots.1",
            Op::Adjust(_) => "adjust.1",
            Op::Respond(_) => "respond.1",
            Op::Reclaim { .. } => "reclaim.1",
            Op::SetSkills(_) => "set_skills.1",
            Op::Advance { .. } => "advance.1",
            Op::Seats(op) => op.name(),
            Op::Note => "note.1",
            Op::Rebuilt { .. } => "rebuilt.1",
        }
    }

    /// The arguments as flat text: ARGV of the script (after the time and the payload) and, joined by 0x1f, the
    /// `a` field of the log.
    pub fn args(&self) -> Vec<String> {
        match self {
            Op::Decide(requests) => requests.iter().flat_map(request_args).collect(),
            Op::Close(closings) => closings.iter().flat_map(closing_args).collect(),
            Op::Settle(settlement) => {
                let (word, value) = match &settlement.outcome {
                    SettlementOutcome::Done => ("DONE", String::new()),
                    SettlementOutcome::Kept(member) => ("KEPT", member.to_string()),
                    SettlementOutcome::Void(reason) => ("VOID", reason.to_string()),
                };
                let expect = settlement.expect.as_ref();
                vec![
                    settlement.allocation.to_string(),
                    settlement.pool.to_string(),
                    settlement.subject.to_string(),
                    word.into(),
                    value,
                    optional(expect.and_then(|expect| expect.member.as_ref())),
                    optional(expect.map(|expect| &expect.epoch)),
                ]
            }
            Op::Reassign(reassignment) => {
                let mut args = vec![
                    reassignment.allocation.to_string(),
                    reassignment.pool.to_string(),
                    reassignment.subject.to_string(),
                    optional(reassignment.to.as_ref()),
                    reassignment.expect_epoch.to_string(),
                ];
                args.extend(reassignment.exclude.iter().map(MemberId::to_string));
                args
            }
            Op::Presence(changes) => changes
                .iter()
                .flat_map(|change| [change.member.to_string(), change.lease_until_ms.to_string()])
                .collect(),
            Op::SetMember(change) => {
                let mut args = vec![
                    change.member.to_string(),
                    optional(change.limits.at_a_time.as_ref()),
                    optional(change.blocked.as_ref()),
                ];
                if change.is_by_time() {
                    args.extend([
                        optional(change.limits.per_hour.as_ref()),
                        optional(change.limits.per_day.as_ref()),
                        optional(change.day_end_ms.as_ref()),
                    ]);
                }
                if let Some(given) = change.given {
                    args.extend([given.in_hour.to_string(), given.on_day.to_string()]);
                }
                args
            }
            Op::SetChannel(change) => vec![
                change.channel.to_string(),
                optional(change.per_hour.as_ref()),
                optional(change.per_day.as_ref()),
                optional(change.day_end_ms.as_ref()),
                change.given.in_hour.to_string(),
                change.given.on_day.to_string(),
            ],
            Op::SetPool(config) => {
                let mut args = vec![config.pool.to_string(), config.version.to_string()];
                args.extend(config.content.args());
                args
            }
            Op::RemovePool { pool, version } => vec![pool.to_string(), version.to_string()],
            Op::Wake { pool, limit } => vec![pool.to_string(), limit.to_string()],
            Op::Visit(visits) => visits.iter().flat_map(Visit::args).collect(),
            Op::Confirm(confirmations) => {
                confirmations.iter().flat_map(Confirmation::args).collect()
            }
            Op::Expire { limit } | Op::Reclaim { limit } | Op::Advance { limit } => {
                vec![limit.to_string()]
            }
            Op::SetSkills(change) => {
                let mut args = vec![change.member.to_string()];
                args.extend(change.skills.iter().map(Skill::to_string));
                args
            }
            Op::Respond(response) => response.args(),
            Op::SetSlots(slots) => slots.args(),
            Op::Adjust(adjustment) => vec![
                adjustment.pool.to_string(),
                adjustment.member.to_string(),
                adjustment.thousandths.to_string(),
            ],
            Op::Seats(op) => op.args(),
            Op::Note => Vec::new(),
            Op::Rebuilt { generation } => vec![generation.to_string()],
        }
    }

    /// Reads name and joined arguments.
    pub fn parse(name: &str, args: &str) -> Result<Op, Error> {
        let mut fields = Fields::new("operation", args);
        let op = match name {
            "decide.1" | "decide.2" => Op::Decide(many(&mut fields, parse_request)?),
            "close.1" => Op::Close(many(&mut fields, parse_closing)?),
            "settle.1" => Op::Settle(parse_settlement(&mut fields)?),
            "settle.2" => {
                let settlement = parse_settlement(&mut fields)?;
                let (member, epoch) = (fields.optional()?, fields.optional()?);
                Op::Settle(Settlement {
                    expect: epoch.map(|epoch| Assignment { member, epoch }),
                    ..settlement
                })
            }
            "reassign.1" => Op::Reassign(Reassignment {
                allocation: fields.parse()?,
                pool: fields.parse()?,
                subject: fields.parse()?,
                to: fields.optional()?,
                expect_epoch: fields.parse()?,
                exclude: many(&mut fields, Fields::parse)?,
            }),
            "presence.1" => Op::Presence(many(&mut fields, |fields| {
                Ok(PresenceChange {
                    member: fields.parse()?,
                    lease_until_ms: fields.parse()?,
                })
            })?),
            "set_member.1" | "set_member.2" | "set_member.3" => {
                let (member, cap) = (fields.parse()?, fields.optional()?);
                let mut change = SetMember::capped(member, cap, fields.optional()?);
                if name != "set_member.1" {
                    change.limits.per_hour = fields.optional()?;
                    change.limits.per_day = fields.optional()?;
                    change.day_end_ms = fields.optional()?;
                }
                if name == "set_member.3" {
                    change.given = Some(GivenBefore {
                        in_hour: fields.parse()?,
                        on_day: fields.parse()?,
                    });
                }
                Op::SetMember(change)
            }
            "set_channel.1" => Op::SetChannel(SetChannel {
                channel: fields.parse()?,
                per_hour: fields.optional()?,
                per_day: fields.optional()?,
                day_end_ms: fields.optional()?,
                given: GivenBefore {
                    in_hour: fields.parse()?,
                    on_day: fields.parse()?,
                },
            }),
            "set_pool.1" | "set_pool.2" => {
                let (pool, version) = (fields.parse()?, fields.parse()?);
                let content = PoolContent::parse(&mut fields)?;
                Op::SetPool(PoolConfig::of(pool, version, content)?)
            }
            "remove_pool.1" => Op::RemovePool {
                pool: fields.parse()?,
                version: fields.parse()?,
            },
            "wake.1" => Op::Wake {
                pool: fields.parse()?,
                limit: fields.parse()?,
            },
            "visit.1" | "visit.2" => Op::Visit(many(&mut fields, Visit::parse)?),
            "confirm.1" => Op::Confirm(many(&mut fields, Confirmation::parse)?),
            "expire.1" => Op::Expire {
                limit: fields.parse()?,
            },
            "set_slots.1" => Op::SetSlots(SetSlots::parse(&mut fields)?),
            "respond.1" => Op::Respond(Response::parse(&mut fields)?),
            "reclaim.1" => Op::Reclaim {
                limit: fields.parse()?,
            },
            "set_skills.1" => Op::SetSkills(SetSkills {
                member: fields.parse()?,
                skills: many(&mut fields, Fields::parse)?.into_iter().collect(),
            }),
            "advance.1" => Op::Advance {
                limit: fields.parse()?,
            },
            "adjust.1" => Op::Adjust(Adjustment {
                pool: fields.parse()?,
                member: fields.parse()?,
                thousandths: fields.parse()?,
            }),
            "note.1" => Op::Note,
            "rebuilt.1" => Op::Rebuilt {
                generation: fields.parse()?,
            },
            other => match SeatOp::parse(other, &mut fields)? {
                Some(op) => Op::Seats(op),
                None => return Err(Error::unreadable("operation", format!("no name {other:?}"))),
            },
        };
        fields.end()?;
        Ok(op)
    }

    /// The arguments as one text.
    pub fn args_text(&self) -> String {
        self.args().join(&FIELD.to_string())
    }
}

pub(crate) fn many<'a, T>(
    fields: &mut Fields<'a>,
    mut one: impl FnMut(&mut Fields<'a>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut all = Vec::new();
    while !fields.is_empty() {
        all.push(one(fields)?);
    }
    Ok(all)
}

fn request_args(request: &Request) -> [String; 6] {
    [
        request.allocation.to_string(),
        pool_field(&request.pool, request.plan.as_ref()),
        request.subject.to_string(),
        optional(request.holder.as_ref()),
        optional(request.request.as_ref()),
        if request.echo { "1" } else { "" }.into(),
    ]
}

fn parse_request(fields: &mut Fields<'_>) -> Result<Request, Error> {
    let allocation = fields.parse()?;
    let (pool, plan) = read_pool_field(fields.next()?)?;
    Ok(Request {
        allocation,
        pool,
        plan,
        subject: fields.parse()?,
        holder: fields.optional()?,
        request: fields.optional()?,
        echo: fields.next()? == "1",
    })
}

fn closing_args(closing: &Closing) -> [String; 5] {
    [
        closing.subject.to_string(),
        optional(closing.pool.as_ref()),
        optional(closing.member.as_ref()),
        optional(closing.allocation.as_ref()),
        closing.reason.to_string(),
    ]
}

fn parse_closing(fields: &mut Fields<'_>) -> Result<Closing, Error> {
    Ok(Closing {
        subject: fields.parse()?,
        pool: fields.optional()?,
        member: fields.optional()?,
        allocation: fields.optional()?,
        reason: fields.parse()?,
    })
}

fn parse_settlement(fields: &mut Fields<'_>) -> Result<Settlement, Error> {
    Ok(Settlement {
        allocation: fields.parse()?,
        pool: fields.parse()?,
        subject: fields.parse()?,
        outcome: match (fields.next()?, fields.next()?) {
            ("DONE", "") => SettlementOutcome::Done,
            ("KEPT", member) => SettlementOutcome::Kept(member.parse()?),
            ("VOID", reason) => SettlementOutcome::Void(reason.parse()?),
            (word, _) => return Err(Error::unreadable("settlement", word)),
        },
        expect: None,
    })
}
