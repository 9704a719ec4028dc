//! What an entry of the log asks for under a draft. An input from outside is the same there; one that is about a member whom
//! the recorded policy chose is about whoever has that subject there. Where both states have the same of a subject, nothing
//! is changed: so a draft that changes nothing gives the recorded inputs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Change, Replan};
use crate::id::PoolId;
use crate::log::LogEntry;
use crate::model::{Corp, Held};
use crate::offer::{Responded, Response};
use crate::op::{Assignment, Closing, Op, Reassignment, Request, Settlement, SettlementOutcome};
use crate::outcome::{Answer, Decision, Reassigned, Settled};
use crate::plan::Plan;
use crate::visit::{Confirmation, Confirmed};

/// An entry as it is under the draft.
pub(super) struct Mapped<'a> {
    pub(super) op: Cow<'a, Op>,
    /// Inputs that were left out.
    pub(super) not_applicable: u64,
}

impl<'a> Mapped<'a> {
    pub(super) fn same(entry: &'a LogEntry) -> Self {
        Self {
            op: Cow::Borrowed(&entry.op),
            not_applicable: 0,
        }
    }

    /// Time goes on, and nothing else.
    pub(super) fn skipped() -> Self {
        Self {
            op: Cow::Owned(Op::Note),
            not_applicable: 0,
        }
    }

    /// An entry of one input.
    fn one(op: Option<Op>) -> Self {
        Self {
            not_applicable: u64::from(op.is_none()),
            op: Cow::Owned(op.unwrap_or(Op::Note)),
        }
    }

    /// An entry of several inputs. When none is left, time goes on all the same.
    fn many<T>(inputs: Vec<Option<T>>, op: fn(Vec<T>) -> Op) -> Self {
        let all = inputs.len();
        let left: Vec<T> = inputs.into_iter().flatten().collect();
        Self {
            not_applicable: (all - left.len()) as u64,
            op: Cow::Owned(if left.is_empty() { Op::Note } else { op(left) }),
        }
    }
}

/// What came from outside in it.
pub(super) fn count(op: &Op) -> u64 {
    let many = match op {
        Op::Decide(requests) => requests.len(),
        Op::Close(closings) => closings.len(),
        Op::Visit(visits) => visits.len(),
        Op::Confirm(confirmations) => confirmations.len(),
        Op::Settle(_) | Op::Reassign(_) | Op::Respond(_) | Op::Adjust(_) => 1,
        _ => 0,
    };
    many as u64
}

/// Both states just before an entry.
pub(super) struct Both<'a> {
    pub(super) recorded: &'a mut Corp,
    pub(super) draft: &'a mut Corp,
    pub(super) changes: &'a BTreeMap<PoolId, Change>,
}

impl Both<'_> {
    pub(super) fn map<'a>(&mut self, entry: &'a LogEntry) -> Mapped<'a> {
        match (&entry.op, &entry.outcome.answer) {
            (Op::Decide(requests), Answer::Decided(decisions)) => {
                let stays = |one: &Request| self.replan(&one.pool).is_none();
                if requests
                    .iter()
                    .all(|one| (!one.echo || self.same(one)) && stays(one))
                {
                    return Mapped::same(entry);
                }
                let both = requests.iter().zip(decisions);
                let mapped = both.map(|(request, decision)| {
                    let mut request = self.request(request, decision)?;
                    request.plan = self.plan(&request.pool, request.plan);
                    Some(request)
                });
                Mapped::many(mapped.collect(), Op::Decide)
            }
            (Op::Visit(visits), _) => {
                if visits.iter().all(|one| self.replan(&one.pool).is_none()) {
                    return Mapped::same(entry);
                }
                let mapped = visits.iter().cloned().map(|mut visit| {
                    visit.plan = self.plan(&visit.pool, visit.plan);
                    Some(visit)
                });
                Mapped::many(mapped.collect(), Op::Visit)
            }
            (Op::Close(closings), _) => {
                let mut mapped = Vec::new();
                for closing in closings.iter().filter(|one| !self.is_let_go(one)) {
                    let here = self.closing(closing);
                    match here.is_empty() {
                        true => mapped.push(None),
                        false => mapped.extend(here.into_iter().map(Some)),
                    }
                }
                Mapped::many(mapped, Op::Close)
            }
            (Op::Confirm(confirmations), Answer::Confirmed(confirmed)) => {
                let both = confirmations.iter().zip(confirmed);
                let mapped =
                    both.map(|(asked, found)| self.confirmation(asked, found, entry.at_ms));
                Mapped::many(mapped.collect(), Op::Confirm)
            }
            (Op::Settle(settlement), Answer::Settled(settled)) => {
                match self.recorded.has_same_of(self.draft, &settlement.subject) {
                    true => Mapped::same(entry),
                    false => Mapped::one(self.settlement(settlement, settled).map(Op::Settle)),
                }
            }
            (Op::Reassign(asked), Answer::Reassigned(reassigned)) => {
                match self.recorded.has_same_of(self.draft, &asked.subject) {
                    true => Mapped::same(entry),
                    false => Mapped::one(self.reassignment(asked, reassigned).map(Op::Reassign)),
                }
            }
            (Op::Respond(response), Answer::Responded(responded)) => {
                match self.recorded.has_same_of(self.draft, &response.subject) {
                    true => Mapped::same(entry),
                    false => Mapped::one(self.response(response, responded).map(Op::Respond)),
                }
            }
            _ => Mapped::same(entry),
        }
    }

    fn replan(&self, pool: &PoolId) -> Option<&Replan> {
        self.changes.get(pool)?.plan.as_ref()
    }

    /// With which a request of this pool goes on under the draft.
    fn plan(&self, pool: &PoolId, was: Option<Plan>) -> Option<Plan> {
        match self.replan(pool) {
            Some(replan) => replan.of(was.as_ref()),
            None => was,
        }
    }

    fn same(&self, request: &Request) -> bool {
        self.recorded.has_same_of(self.draft, &request.subject)
    }

    /// The end of a transfer is that of another one there, or of none.
    fn request(&self, request: &Request, decision: &Decision) -> Option<Request> {
        let decision = match decision {
            Decision::Repeated(first) => first,
            decision => decision,
        };
        let Decision::Echo { pool, .. } = decision else {
            return Some(request.clone());
        };
        if self.same(request) {
            return Some(request.clone());
        }
        let taker = self.draft.held(&request.subject, pool)?.taker()?;
        Some(Request {
            holder: Some(taker),
            ..request.clone()
        })
    }

    /// A customer who left somebody, or whose time was over, leaves whoever has him, or the waiting list. Nobody had him:
    /// nothing.
    fn closing(&self, closing: &Closing) -> Vec<Closing> {
        if self.recorded.has_same_of(self.draft, &closing.subject) {
            return vec![closing.clone()];
        }
        let pools = self.recorded.closed_in(closing).into_iter();
        let here = pools.filter_map(|pool| {
            let held = self.draft.held(&closing.subject, &pool)?;
            Some(Closing {
                subject: closing.subject,
                pool: Some(pool),
                member: None,
                allocation: Some(held.allocation),
                reason: closing.reason.clone(),
            })
        });
        here.collect()
    }

    /// By the recorded window, and the draft has another one.
    fn is_let_go(&self, closing: &Closing) -> bool {
        let change = closing
            .pool
            .as_ref()
            .and_then(|pool| self.changes.get(pool));
        let window = change.and_then(|change| change.window.as_ref());
        window.is_some_and(|window| window.reason == closing.reason)
    }

    fn settlement(&self, settlement: &Settlement, settled: &Settled) -> Option<Settlement> {
        if !matches!(
            settled,
            Settled::Done { .. } | Settled::Kept { .. } | Settled::Void { .. }
        ) {
            return None;
        }
        let (subject, pool) = (&settlement.subject, &settlement.pool);
        let was = self.recorded.held(subject, pool)?;
        let here = self.draft.held(subject, pool)?;
        let outcome = match &settlement.outcome {
            // Nobody has him yet.
            SettlementOutcome::Done if here.member.is_none() || here.offered => return None,
            SettlementOutcome::Kept(by) if was.holder.as_ref() == Some(by) => {
                // Without a transfer nobody can keep him.
                here.taker()?;
                SettlementOutcome::Kept(here.holder.clone()?)
            }
            SettlementOutcome::Kept(by) if was.member.as_ref() == Some(by) => {
                SettlementOutcome::Kept(here.member.clone()?)
            }
            outcome => outcome.clone(),
        };
        let expect = settlement.expect.as_ref().map(|_| Assignment {
            member: here.member.clone(),
            epoch: here.epoch,
        });
        Some(Settlement {
            allocation: here.allocation,
            outcome,
            expect,
            ..settlement.clone()
        })
    }

    /// Taken from whoever has him.
    fn reassignment(&self, asked: &Reassignment, was: &Reassigned) -> Option<Reassignment> {
        if matches!(was, Reassigned::Stale { .. } | Reassigned::Unknown) {
            return None;
        }
        let here = self.draft.held(&asked.subject, &asked.pool)?;
        Some(Reassignment {
            allocation: here.allocation,
            expect_epoch: here.epoch,
            ..asked.clone()
        })
    }

    /// Whoever is asked says the same.
    fn response(&self, response: &Response, was: &Responded) -> Option<Response> {
        if !matches!(
            was,
            Responded::Accepted | Responded::Declined(_) | Responded::Late(_)
        ) {
            return None;
        }
        let here = self.draft.held(&response.subject, &response.pool)?;
        let member = here.member.filter(|_| here.offered)?;
        Some(Response {
            allocation: here.allocation,
            member,
            epoch: here.epoch,
            ..response.clone()
        })
    }

    /// A visitor who added the member he saw adds the one he sees there.
    fn confirmation(
        &mut self,
        asked: &Confirmation,
        found: &Confirmed,
        now_ms: u64,
    ) -> Option<Confirmation> {
        let was = self.recorded.traced(asked, now_ms);
        let is_same = |subject| self.recorded.has_same_of(self.draft, subject);
        let visitor = was.as_ref().map(|was| was.visitor);
        let alike = is_same(&asked.subject) && visitor.as_ref().is_none_or(is_same);
        if alike && self.draft.traced(asked, now_ms) == was {
            return Some(asked.clone());
        }
        let by_nothing = Confirmation {
            visitor: None,
            slot: None,
            channel: None,
            ..asked.clone()
        };
        if let Confirmed::Echo { pool, .. } = found {
            let taker = self.draft.held(&asked.subject, pool)?.taker()?;
            return Some(Confirmation {
                member: taker,
                ..asked.clone()
            });
        }
        let Some(was) = was else {
            // Whoever came without a visit does so there, too.
            return Some(by_nothing);
        };
        let here = Confirmation {
            pool: was.pool.clone(),
            visitor: Some(was.visitor),
            ..by_nothing.clone()
        };
        let seen = self.draft.traced(&here, now_ms);
        let seen = seen.filter(|seen| seen.pool == was.pool);
        if was.member.as_ref() != Some(&asked.member) {
            // He added another one whatever he saw.
            return Some(if seen.is_some() { here } else { by_nothing });
        }
        Some(Confirmation {
            member: seen?.member?,
            ..here
        })
    }
}

impl Held {
    /// Who is to have him, when another one has him.
    fn taker(&self) -> Option<crate::MemberId> {
        let is_given = self.holder.is_some() && self.holder != self.member;
        self.member.clone().filter(|_| is_given)
    }
}
