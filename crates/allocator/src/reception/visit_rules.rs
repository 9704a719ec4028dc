//! What follows from the log entries of visits: rows, ends of holds, and what a new customer brings with him. Pure.

use allocation::{
    AllocationId, ChannelId, Confirmation, Confirmed, Expired, Match, PoolId, Reason, Visit,
    Visited, Woken, WokenHold,
};
use ledger::{
    Change, Customer, DeliveryOutcome, NewAllocation, NewVisit, SettledAs, VisitEnd, VisitEnded,
    VisitHeld,
};

use super::{routes::Routes, told};
use crate::payload::Context;

/// Why a hold's allocation ends.
const EXPIRED: &str = "expired";
const MISMATCHED: &str = "mismatched";
const KNOWN: &str = "known";

pub(super) fn visited(
    visit: &Visit,
    visited: &Visited,
    context: &Context,
    changes: &mut Vec<Change>,
) {
    let (member, slot, until_ms) = match visited {
        Visited::Held {
            member,
            slot,
            until_ms,
            ..
        } => (Some(member.clone()), slot.clone(), *until_ms),
        Visited::Waiting { until_ms, .. } => (None, None, *until_ms),
        Visited::Again {
            allocation,
            slot,
            until_ms,
            ..
        } if *until_ms > 0 => {
            changes.push(Change::VisitHeld(VisitHeld {
                allocation: *allocation,
                slot: slot.clone(),
                until_ms: *until_ms,
            }));
            return;
        }
        Visited::Again { .. } | Visited::Met { .. } | Visited::NoPool => return,
    };
    let held = member.is_some();
    changes.push(Change::Decided(NewAllocation {
        allocation: visit.allocation,
        pool: visit.pool.clone(),
        subject: visit.subject,
        customer: customer(context),
        member,
        giver: None,
        channel: Some(visit.channel.clone()),
        source: context.source.clone(),
        delivery: None,
        request: None,
        echo: false,
        plan: visit.plan.clone(),
        preferred: told::preferred(context),
    }));
    if held {
        // He sees the member: there is nothing to carry out.
        changes.push(Change::Settled {
            allocation: visit.allocation,
            how: SettledAs::Done,
        });
    }
    changes.push(Change::Visit(NewVisit {
        allocation: visit.allocation,
        channel: visit.channel.clone(),
        visitor: visit.subject,
        slot,
        hold_ms: visit.hold_ms,
        rest_ms: visit.rest_ms,
        until_ms,
    }));
}

/// A visitor who waited sees a member now.
pub(super) fn woken(woken: &Woken, hold: &WokenHold, changes: &mut Vec<Change>) {
    changes.push(Change::Assigned {
        allocation: woken.allocation,
        member: woken.member.clone(),
        giver: None,
        epoch: None,
    });
    changes.push(Change::Settled {
        allocation: woken.allocation,
        how: SettledAs::Done,
    });
    changes.push(Change::VisitHeld(VisitHeld {
        allocation: woken.allocation,
        slot: hold.slot.clone(),
        until_ms: hold.until_ms,
    }));
}

pub(super) fn expired(expired: &[Expired], changes: &mut Vec<Change>) {
    for hold in expired {
        end(
            hold.allocation,
            VisitEnd::Expired,
            None,
            None,
            Some(EXPIRED),
            changes,
        );
    }
}

pub(super) fn confirmed(
    at_ms: u64,
    asked: &Confirmation,
    confirmed: &Confirmed,
    context: &Context,
    routes: &Routes,
    changes: &mut Vec<Change>,
) {
    let ended =
        |held: AllocationId, how, by: Option<Match>, next, why, changes: &mut Vec<Change>| {
            end(held, how, by.map(|by| (by, asked)), next, why, changes);
        };
    let (word, allocation, is_new) = match confirmed {
        Confirmed::Confirmed { held, by } => {
            changes.push(Change::Confirmed {
                allocation: *held,
                subject: asked.subject,
                customer: customer(context),
            });
            ended(*held, VisitEnd::Confirmed, Some(*by), None, None, changes);
            ("confirmed", Some(*held), true)
        }
        Confirmed::Late {
            allocation,
            pool,
            held,
            by,
        } => {
            ended(
                *held,
                VisitEnd::Late,
                Some(*by),
                Some(*allocation),
                None,
                changes,
            );
            made(asked, *allocation, pool, context, changes);
            ("late", Some(*allocation), true)
        }
        Confirmed::Mismatched {
            allocation,
            pool,
            held,
            by,
        } => {
            ended(
                *held,
                VisitEnd::Mismatched,
                Some(*by),
                Some(*allocation),
                Some(MISMATCHED),
                changes,
            );
            made(asked, *allocation, pool, context, changes);
            ("mismatched", Some(*allocation), true)
        }
        Confirmed::Direct { allocation } => {
            made(asked, *allocation, &asked.pool, context, changes);
            ("direct", Some(*allocation), true)
        }
        Confirmed::Already {
            allocation,
            held,
            by,
        } => {
            if let Some(held) = held {
                ended(
                    *held,
                    VisitEnd::Known,
                    *by,
                    Some(*allocation),
                    Some(KNOWN),
                    changes,
                );
            }
            ("already", Some(*allocation), false)
        }
        Confirmed::Echo { allocation, .. } => ("advanced", Some(*allocation), false),
        Confirmed::NoPool => ("ignored", None, false),
    };
    if let Some(allocation) = allocation.filter(|_| is_new) {
        let card = told::Card {
            allocation,
            member: &asked.member,
            channel: context.channel.clone(),
            epoch: None,
            accept_until_ms: None,
        };
        told::card(at_ms, card, routes, changes);
    }
    if !matches!(confirmed, Confirmed::Echo { .. }) {
        told::welcome(at_ms, allocation, context, routes, changes);
    }
    if let Some(delivery) = &context.delivery {
        changes.push(Change::Delivery(DeliveryOutcome {
            delivery: delivery.clone(),
            received_ms: context.received_ms,
            outcome: word.to_owned(),
            reason: matches!(confirmed, Confirmed::NoPool).then(|| "no_pool".to_owned()),
            allocation,
        }));
    }
}

/// The customer's own allocation, to the member who has him.
fn made(
    asked: &Confirmation,
    allocation: AllocationId,
    pool: &PoolId,
    context: &Context,
    changes: &mut Vec<Change>,
) {
    let channel = context.channel.clone();
    changes.push(Change::Decided(NewAllocation {
        allocation,
        pool: pool.clone(),
        subject: asked.subject,
        customer: customer(context),
        member: Some(asked.member.clone()),
        giver: Some(asked.member.clone()),
        channel: channel.and_then(|channel| ChannelId::new(channel).ok()),
        source: context.source.clone(),
        delivery: context.delivery.clone(),
        request: None,
        echo: true,
        plan: None,
        preferred: Vec::new(),
    }));
    changes.push(Change::Settled {
        allocation,
        how: SettledAs::Done,
    });
}

fn end(
    allocation: AllocationId,
    how: VisitEnd,
    by: Option<(Match, &Confirmation)>,
    next: Option<AllocationId>,
    closed: Option<&str>,
    changes: &mut Vec<Change>,
) {
    let slot = by.and_then(|(by, asked)| asked.slot.clone().filter(|_| by == Match::Slot));
    changes.push(Change::VisitEnded(VisitEnded {
        allocation,
        how,
        matched: by.map(|(by, _)| by),
        slot,
        next,
    }));
    if let Some(reason) = closed.and_then(|code| Reason::new(code).ok()) {
        changes.push(Change::Closed { allocation, reason });
    }
}

fn customer(context: &Context) -> Customer {
    Customer {
        kind: context.subject_kind.clone(),
        external_id: Some(context.subject_id.clone()).filter(|id| !id.is_empty()),
    }
}
