//! What follows from a log entry: rows, outcomes of deliveries, effects. Pure; `writer` stores it in one transaction.

use super::{
    offer_rules::{self, Asked},
    routes::Routes,
    told::{self, Card, card, welcome},
    visit_rules,
};
use crate::{
    fission::seat_rules,
    handover, lost,
    payload::{Context, Payload},
};
use allocation::{
    Adjusted, Advanced, AdvancedTo, AllocationId, Answer, ChannelId, Closed, Closing, Decision,
    LogEntry, MemberId, Op, Reason, Reassigned, Reassignment, Released, Request, Responded,
    SeatResult, Settled, Settlement, SettlementOutcome, Woken,
};
use ledger::{Change, Customer, DeliveryOutcome, NewAllocation, SettledAs};

/// Everything that the tables must show after this entry.
pub fn changes(entry: &LogEntry, payload: &Payload, routes: &Routes) -> Vec<Change> {
    let mut changes = Vec::new();
    for outcome in &payload.outcomes {
        changes.push(Change::Delivery(DeliveryOutcome {
            delivery: outcome.delivery.clone(),
            received_ms: outcome.received_ms,
            outcome: outcome.outcome.clone(),
            reason: outcome.reason.clone(),
            allocation: None,
        }));
    }
    match (&entry.op, &entry.outcome.answer) {
        (Op::Decide(requests), Answer::Decided(decisions)) => {
            for (index, (request, decision)) in requests.iter().zip(decisions).enumerate() {
                let context = payload.contexts.get(index).cloned().unwrap_or_default();
                decided(
                    entry.at_ms,
                    request,
                    decision,
                    &context,
                    routes,
                    &mut changes,
                );
            }
        }
        (Op::Close(closings), Answer::Closed(closed)) => {
            changes.extend(closed.iter().map(|closed| ended(closed, closings)));
            changes.extend(closings.iter().filter_map(lost::ended));
        }
        (Op::Visit(visits), Answer::Visited(visited)) => {
            for (index, (visit, visited)) in visits.iter().zip(visited).enumerate() {
                let context = payload.contexts.get(index).cloned().unwrap_or_default();
                visit_rules::visited(visit, visited, &context, &mut changes);
            }
        }
        (Op::Confirm(asked), Answer::Confirmed(confirmed)) => {
            for (index, (asked, confirmed)) in asked.iter().zip(confirmed).enumerate() {
                let context = payload.contexts.get(index).cloned().unwrap_or_default();
                visit_rules::confirmed(
                    entry.at_ms,
                    asked,
                    confirmed,
                    &context,
                    routes,
                    &mut changes,
                );
            }
        }
        (Op::Expire { .. }, Answer::Expired { expired, .. }) => {
            visit_rules::expired(expired, &mut changes);
        }
        (Op::Respond(response), Answer::Responded(responded)) => {
            offer_rules::responded(entry.at_ms, response, responded, payload, &mut changes);
        }
        (Op::Reclaim { .. }, Answer::Reclaimed(reclaimed)) => {
            offer_rules::reclaimed(entry.at_ms, reclaimed, &mut changes);
        }
        (Op::Advance { .. }, Answer::Advanced(advanced)) => {
            changes.extend(advanced.iter().filter_map(left_to_a_person));
        }
        (Op::Settle(settlement), Answer::Settled(settled)) => {
            changes.extend(settlement_change(settlement, settled))
        }
        (Op::Reassign(reassignment), Answer::Reassigned(Reassigned::Moved { member, epoch })) => {
            moved(
                entry.at_ms,
                reassignment,
                member,
                *epoch,
                payload,
                &mut changes,
            );
        }
        (Op::Seats(op), Answer::Seats(answer)) => {
            seat_rules::changes(entry.at_ms, op, answer, payload, &mut changes);
        }
        _ => {}
    }
    if let Some(audited) = payload
        .audit
        .as_ref()
        .filter(|_| had_effect(&entry.outcome.answer))
    {
        changes.push(Change::Audit(audited.record(entry.at_ms)));
    }
    for woken in &entry.outcome.woken {
        match &woken.hold {
            Some(hold) => visit_rules::woken(woken, hold, &mut changes),
            None => assigned_late(entry.at_ms, woken, &mut changes),
        }
    }
    changes
}

/// Whether what somebody asked for happened; the audit says nothing of what did not.
fn had_effect(answer: &Answer) -> bool {
    match answer {
        Answer::Decided(decisions) => decisions.iter().any(|decision| {
            matches!(
                decision,
                Decision::Assigned { .. } | Decision::Offered { .. } | Decision::Waiting { .. }
            )
        }),
        Answer::Closed(closed) => !closed.is_empty(),
        Answer::Reassigned(reassigned) => matches!(reassigned, Reassigned::Moved { .. }),
        Answer::Adjusted(adjusted) => *adjusted == Adjusted::Adjusted,
        Answer::Responded(responded) => {
            matches!(responded, Responded::Accepted | Responded::Declined(_))
        }
        Answer::Seats(seats) => match &seats.result {
            SeatResult::Released(released) => released
                .iter()
                .any(|one| matches!(one, Released::Released { .. } | Released::GaveUp)),
            _ => true,
        },
        _ => true,
    }
}

fn decided(
    at_ms: u64,
    request: &Request,
    decision: &Decision,
    context: &Context,
    routes: &Routes,
    changes: &mut Vec<Change>,
) {
    let (word, allocation) = match decision {
        Decision::Assigned { allocation, member } => {
            changes.push(Change::Decided(row(request, Some(member), context)));
            let giver = request.holder.as_ref().filter(|holder| *holder != member);
            match giver {
                Some(giver) => handover::rules::plan(
                    at_ms,
                    *allocation,
                    request.subject,
                    giver,
                    member,
                    None,
                    changes,
                ),
                None => changes.push(Change::Settled {
                    allocation: *allocation,
                    how: SettledAs::Done,
                }),
            }
            let told = Card {
                allocation: *allocation,
                member,
                channel: context.channel.clone(),
                epoch: None,
                accept_until_ms: None,
            };
            card(at_ms, told, routes, changes);
            ("decided", Some(*allocation))
        }
        // Nothing is done for it before the member has accepted.
        Decision::Offered {
            allocation,
            member,
            until_ms,
        } => {
            changes.push(Change::Decided(row(request, None, context)));
            let asked = Asked {
                allocation: *allocation,
                member,
                giver: None,
                channel: context.channel.clone(),
                epoch: 0,
                until_ms: *until_ms,
            };
            offer_rules::asked(at_ms, asked, routes, changes);
            ("offered", Some(*allocation))
        }
        Decision::Waiting { allocation } => {
            changes.push(Change::Decided(row(request, None, context)));
            ("waiting", Some(*allocation))
        }
        Decision::Already { allocation, .. } => ("already", Some(*allocation)),
        Decision::Echo { allocation, .. } => ("advanced", Some(*allocation)),
        Decision::Repeated(first) => ("repeated", allocation_of(first)),
        Decision::NoPool => ("ignored", None),
    };
    // The end of a transfer of ours is no new relation; everything else that brought a code is.
    if !matches!(decision, Decision::Echo { .. } | Decision::Repeated(_)) {
        welcome(at_ms, allocation, context, routes, changes);
    }
    if let Some(delivery) = &context.delivery {
        changes.push(Change::Delivery(DeliveryOutcome {
            delivery: delivery.clone(),
            received_ms: context.received_ms,
            outcome: word.to_owned(),
            reason: reason(decision, context),
            allocation,
        }));
    }
}

fn reason(decision: &Decision, context: &Context) -> Option<String> {
    match decision {
        Decision::NoPool => Some("no_pool".to_owned()),
        _ => context
            .unknown_state
            .as_ref()
            .map(|state| format!("unknown_state:{state}")),
    }
}

fn allocation_of(decision: &Decision) -> Option<AllocationId> {
    match decision {
        Decision::Assigned { allocation, .. }
        | Decision::Offered { allocation, .. }
        | Decision::Waiting { allocation }
        | Decision::Already { allocation, .. }
        | Decision::Echo { allocation, .. } => Some(*allocation),
        Decision::Repeated(first) => allocation_of(first),
        Decision::NoPool => None,
    }
}

fn row(request: &Request, member: Option<&MemberId>, context: &Context) -> NewAllocation {
    NewAllocation {
        allocation: request.allocation,
        pool: request.pool.clone(),
        subject: request.subject,
        customer: Customer {
            kind: context.subject_kind.clone(),
            external_id: Some(context.subject_id.clone()).filter(|id| !id.is_empty()),
        },
        member: member.cloned(),
        giver: request.holder.clone(),
        channel: context
            .channel
            .clone()
            .and_then(|channel| ChannelId::new(channel).ok()),
        source: context.source.clone(),
        delivery: context.delivery.clone(),
        request: request.request.clone(),
        echo: request.echo,
        plan: request.plan.clone(),
        preferred: told::preferred(context),
    }
}

/// A waiting customer found a member, who gets him or is asked.
fn assigned_late(at_ms: u64, woken: &Woken, changes: &mut Vec<Change>) {
    if let Some(until_ms) = woken.offer_until_ms {
        let asked = Asked {
            allocation: woken.allocation,
            member: &woken.member,
            giver: woken.holder.clone(),
            channel: None,
            epoch: 0,
            until_ms,
        };
        return offer_rules::asked(at_ms, asked, &Routes::default(), changes);
    }
    changes.push(Change::Assigned {
        allocation: woken.allocation,
        member: woken.member.clone(),
        giver: woken.holder.clone(),
        epoch: None,
    });
    let giver = woken
        .holder
        .as_ref()
        .filter(|holder| **holder != woken.member);
    match giver {
        Some(giver) => {
            handover::rules::plan(
                at_ms,
                woken.allocation,
                woken.subject,
                giver,
                &woken.member,
                None,
                changes,
            );
        }
        None => changes.push(Change::Settled {
            allocation: woken.allocation,
            how: SettledAs::Done,
        }),
    }
    let told = Card {
        allocation: woken.allocation,
        member: &woken.member,
        channel: None,
        epoch: None,
        accept_until_ms: None,
    };
    card(at_ms, told, &Routes::default(), changes);
}

/// One that waited long enough. Nothing was to be carried out for it.
fn left_to_a_person(advanced: &Advanced) -> Option<Change> {
    let allocation = advanced.allocation;
    (advanced.to == AdvancedTo::Person).then_some(Change::Undecided {
        allocation,
        epoch: 0,
    })
}

fn ended(closed: &Closed, closings: &[Closing]) -> Change {
    let why = closings.iter().find(|closing| {
        closing.subject == closed.subject
            && closing
                .pool
                .as_ref()
                .is_none_or(|pool| *pool == closed.pool)
            && closing
                .allocation
                .is_none_or(|allocation| allocation == closed.allocation)
            && closing
                .member
                .as_ref()
                .is_none_or(|member| Some(member) == closed.member.as_ref())
    });
    let reason = why.map(|closing| closing.reason.clone());
    Change::Closed {
        allocation: closed.allocation,
        reason: reason.unwrap_or_else(unknown_reason),
    }
}

fn unknown_reason() -> Reason {
    Reason::new("closed").unwrap_or_else(|_| unreachable!("a constant of letters is a reason"))
}

fn settlement_change(settlement: &Settlement, settled: &Settled) -> Option<Change> {
    let how = match (settled, &settlement.outcome) {
        (Settled::Done { .. }, _) => SettledAs::Done,
        (Settled::Kept { from }, SettlementOutcome::Kept(member)) => SettledAs::Kept {
            member: member.clone(),
            moved: from.as_ref() != Some(member),
        },
        (Settled::Void { .. }, SettlementOutcome::Void(reason)) => SettledAs::Void(reason.clone()),
        // Settled like this before, or gone: the entry that did it has its own row changes.
        _ => return None,
    };
    Some(Change::Settled {
        allocation: settlement.allocation,
        how,
    })
}

fn moved(
    at_ms: u64,
    reassignment: &Reassignment,
    member: &MemberId,
    epoch: u64,
    payload: &Payload,
    changes: &mut Vec<Change>,
) {
    let holder = payload
        .giver
        .clone()
        .and_then(|holder| MemberId::new(holder).ok());
    changes.push(Change::Assigned {
        allocation: reassignment.allocation,
        member: member.clone(),
        giver: holder.clone(),
        epoch: Some(epoch),
    });
    match holder.as_ref().filter(|holder| *holder != member) {
        Some(giver) => handover::rules::plan(
            at_ms,
            reassignment.allocation,
            reassignment.subject,
            giver,
            member,
            Some(epoch),
            changes,
        ),
        None => changes.push(Change::Settled {
            allocation: reassignment.allocation,
            how: SettledAs::Done,
        }),
    }
    let told = Card {
        allocation: reassignment.allocation,
        member,
        channel: None,
        epoch: Some(epoch),
        accept_until_ms: None,
    };
    card(at_ms, told, &Routes::default(), changes);
}
