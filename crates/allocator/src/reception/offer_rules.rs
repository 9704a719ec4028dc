//! What follows from the log entries of offers: who is asked, what he said, and that nobody is left to ask. Pure. Nothing is
//! done at WeCom for an allocation before somebody has accepted it, but for the card that asks him; and the greeting of whoever
//! has the customer already, whose code lives for 20 s.

use allocation::{AllocationId, MemberId, MovedOn, Reclaimed, Responded, Response};
use ledger::{Change, NewOffer, OfferEnd, OfferEnded, SettledAs};

use super::{
    routes::Routes,
    told::{Card, card},
};
use crate::{handover, payload::Payload};

/// A member is asked.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) allocation: AllocationId,
    pub(super) member: &'a MemberId,
    /// Who has the customer at WeCom; None leaves what was known.
    pub(super) giver: Option<MemberId>,
    pub(super) channel: Option<String>,
    pub(super) epoch: u64,
    pub(super) until_ms: u64,
}

pub(super) fn asked(at_ms: u64, asked: Asked<'_>, routes: &Routes, changes: &mut Vec<Change>) {
    changes.push(Change::Offered(NewOffer {
        allocation: asked.allocation,
        member: asked.member.clone(),
        giver: asked.giver,
        epoch: asked.epoch,
        until_ms: asked.until_ms,
    }));
    let told = Card {
        allocation: asked.allocation,
        member: asked.member,
        channel: asked.channel,
        epoch: Some(asked.epoch),
        accept_until_ms: Some(asked.until_ms),
    };
    card(at_ms, told, routes, changes);
}

pub(super) fn responded(
    at_ms: u64,
    response: &Response,
    responded: &Responded,
    payload: &Payload,
    changes: &mut Vec<Change>,
) {
    let (how, on) = match responded {
        Responded::Accepted => (OfferEnd::Accepted, None),
        Responded::Declined(on) => (OfferEnd::Declined, Some(on)),
        Responded::Late(on) => (OfferEnd::TimedOut, Some(on)),
        Responded::Already | Responded::Stale { .. } | Responded::Unknown => return,
    };
    let answered = how != OfferEnd::TimedOut;
    changes.push(Change::OfferEnded(OfferEnded {
        allocation: response.allocation,
        epoch: response.epoch,
        how,
        reason: response.declined.clone().filter(|_| answered),
        responded_by: payload.actor.clone().filter(|_| answered),
    }));
    match on {
        Some(on) => moved_on(at_ms, response.allocation, None, on, changes),
        None => accepted(at_ms, response, payload, changes),
    }
}

/// His from now on: what a decision without an offer leads to at once.
fn accepted(at_ms: u64, response: &Response, payload: &Payload, changes: &mut Vec<Change>) {
    let (allocation, member) = (response.allocation, &response.member);
    let holder = payload.giver.clone();
    let holder = holder.and_then(|holder| MemberId::new(holder).ok());
    changes.push(Change::Assigned {
        allocation,
        member: member.clone(),
        giver: holder.clone(),
        epoch: None,
    });
    match holder.as_ref().filter(|holder| *holder != member) {
        Some(giver) => handover::rules::plan(
            at_ms,
            allocation,
            response.subject,
            giver,
            member,
            Some(response.epoch),
            changes,
        ),
        None => changes.push(Change::Settled {
            allocation,
            how: SettledAs::Done,
        }),
    }
    let told = Card {
        allocation,
        member,
        channel: None,
        epoch: Some(response.epoch),
        accept_until_ms: None,
    };
    card(at_ms, told, &Routes::default(), changes);
}

pub(super) fn reclaimed(at_ms: u64, reclaimed: &[Reclaimed], changes: &mut Vec<Change>) {
    for offer in reclaimed {
        changes.push(Change::OfferEnded(OfferEnded {
            allocation: offer.allocation,
            epoch: offer.to.epoch.saturating_sub(1),
            how: OfferEnd::TimedOut,
            reason: None,
            responded_by: None,
        }));
        let holder = offer.holder.clone();
        moved_on(at_ms, offer.allocation, holder, &offer.to, changes);
    }
}

fn moved_on(
    at_ms: u64,
    allocation: AllocationId,
    giver: Option<MemberId>,
    on: &MovedOn,
    changes: &mut Vec<Change>,
) {
    match &on.member {
        Some(member) => {
            let next = Asked {
                allocation,
                member,
                giver,
                channel: None,
                epoch: on.epoch,
                until_ms: on.until_ms,
            };
            asked(at_ms, next, &Routes::default(), changes);
        }
        None => changes.push(Change::Undecided {
            allocation,
            epoch: on.epoch,
        }),
    }
}
