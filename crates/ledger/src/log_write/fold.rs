//! Brings the changes of a batch down to one row each: what was made and changed in the batch is inserted as it
//! ended, what was there before is updated once. So each table is written in one statement, whatever the batch.

use std::collections::{BTreeMap, HashMap};

use allocation::{AllocationId, MemberId, SubjectKey};

use super::edges::FoldedEdges;
use super::offers::{FoldedOffers, Stage};
use super::people::FoldedPeople;
use super::seats::FoldedSeats;
use super::visits::FoldedVisits;
use crate::OfferEnd;
use crate::change::{
    Change, DeliveryOutcome, Entry, NewAllocation, NewEffect, NewTransfer, SettledAs,
};

#[derive(Debug, Default)]
pub(super) struct Folded<'b> {
    /// Made in this batch, in the order they were decided.
    pub(super) new: Vec<NewRow<'b>>,
    /// Changes of allocations that were there before.
    pub(super) patches: BTreeMap<AllocationId, Patch<'b>>,
    /// With the time it was known.
    pub(super) outcomes: Vec<(&'b DeliveryOutcome, u64)>,
    pub(super) effects: Vec<Effect<'b>>,
    pub(super) transfers: Vec<Transfer<'b>>,
    pub(super) audit: Vec<&'b crate::AuditRecord>,
    pub(super) visits: FoldedVisits<'b>,
    pub(super) offers: FoldedOffers<'b>,
    pub(super) seats: FoldedSeats<'b>,
    pub(super) people: FoldedPeople<'b>,
    pub(super) edges: FoldedEdges<'b>,
    /// Customers that visitors turned out to be.
    known: Vec<(SubjectKey, &'b crate::Customer)>,
    /// Time of the last entry.
    pub(super) last_ms: u64,
    places: Places,
}

/// Where in the batch something of an allocation is.
#[derive(Debug, Default)]
struct Places {
    new: HashMap<AllocationId, usize>,
    effects: HashMap<AllocationId, Vec<usize>>,
    transfers: HashMap<AllocationId, Vec<usize>>,
}

#[derive(Debug)]
pub(super) struct NewRow<'b> {
    pub(super) decided: &'b NewAllocation,
    /// Whose it is: the one it was decided for, or the customer he turned out to be.
    pub(super) subject: SubjectKey,
    pub(super) customer: &'b crate::Customer,
    pub(super) seq: u64,
    pub(super) at_ms: u64,
    pub(super) patch: Patch<'b>,
}

/// What the batch does to one allocation. Absent fields stay as they are.
#[derive(Debug, Default, Clone)]
pub(super) struct Patch<'b> {
    pub(super) seq: u64,
    pub(super) member: Option<&'b MemberId>,
    pub(super) holder: Option<&'b MemberId>,
    pub(super) epoch: Option<u64>,
    /// Epochs that began since, without a number of their own.
    pub(super) raised: u64,
    /// What belongs to earlier epochs is taken back.
    pub(super) superseded: Option<u64>,
    pub(super) assigned_ms: Option<u64>,
    /// What it is of an offer; Some(None): nothing any more.
    pub(super) stage: Option<Option<Stage>>,
    /// When somebody kept the customer: an assignment, if there was none.
    pub(super) kept_ms: Option<u64>,
    /// What was settled before the batch is so no longer.
    pub(super) unsettled: bool,
    pub(super) settled: Option<(&'static str, u64)>,
    pub(super) closed: Option<(&'b str, u64)>,
}

#[derive(Debug)]
pub(super) struct Effect<'b> {
    pub(super) new: &'b NewEffect,
    pub(super) at_ms: u64,
    /// Asked for and taken back in the same batch.
    pub(super) cancelled: bool,
}

#[derive(Debug)]
pub(super) struct Transfer<'b> {
    pub(super) new: &'b NewTransfer,
    pub(super) at_ms: u64,
    pub(super) cancelled: bool,
}

impl<'b> Folded<'b> {
    pub(super) fn of(entries: &'b [Entry]) -> Folded<'b> {
        let mut folded = Folded::default();
        for entry in entries {
            folded.last_ms = entry.at_ms;
            for change in &entry.changes {
                folded.add(entry, change);
            }
        }
        folded
    }

    fn add(&mut self, entry: &'b Entry, change: &'b Change) {
        let at_ms = entry.at_ms;
        match change {
            Change::Decided(decided) => {
                let patch = Patch {
                    seq: entry.seq,
                    member: decided.member.as_ref(),
                    holder: decided.giver.as_ref(),
                    assigned_ms: decided.member.is_some().then_some(at_ms),
                    ..Patch::default()
                };
                // The same id twice is one decision.
                self.places
                    .new
                    .entry(decided.allocation)
                    .or_insert_with(|| {
                        self.new.push(NewRow {
                            decided,
                            subject: decided.subject,
                            customer: &decided.customer,
                            seq: entry.seq,
                            at_ms,
                            patch,
                        });
                        self.new.len() - 1
                    });
            }
            Change::Assigned {
                allocation,
                member,
                giver,
                epoch,
            } => {
                let patch = self.patch(*allocation, entry.seq);
                if patch.closed.is_none() {
                    patch.member = Some(member);
                    patch.holder = giver.as_ref().or(patch.holder);
                    patch.assigned_ms = Some(at_ms);
                    patch.stage = Some(None);
                    if epoch.is_some() {
                        patch.epoch = patch.epoch.max(*epoch);
                        patch.raised = 0;
                        // There is something new to carry out.
                        patch.settled = None;
                        patch.unsettled = true;
                    }
                }
                if let Some(epoch) = epoch {
                    patch.superseded = patch.superseded.max(Some(*epoch));
                    self.cancel(*allocation, Some(*epoch));
                    self.offers.over(*allocation, OfferEnd::Reassigned, at_ms);
                }
            }
            Change::Offered(offer) => {
                let patch = self.patch(offer.allocation, entry.seq);
                if patch.closed.is_none() {
                    patch.member = Some(&offer.member);
                    patch.holder = offer.giver.as_ref().or(patch.holder);
                    patch.epoch = patch.epoch.max(Some(offer.epoch));
                    patch.stage = Some(Some(Stage::Offered {
                        since_ms: at_ms,
                        until_ms: offer.until_ms,
                    }));
                }
                self.offers.made.push((offer, at_ms));
                self.supersede(offer.allocation, offer.epoch);
            }
            Change::Undecided { allocation, epoch } => {
                let patch = self.patch(*allocation, entry.seq);
                if patch.closed.is_none() {
                    patch.member = None;
                    patch.epoch = patch.epoch.max(Some(*epoch));
                    patch.stage = Some(Some(Stage::Undecided { since_ms: at_ms }));
                }
                self.supersede(*allocation, *epoch);
            }
            Change::OfferEnded(ended) => self.offers.ended.push((ended, at_ms)),
            Change::Settled { allocation, how } => {
                let patch = self.patch(*allocation, entry.seq);
                if patch.closed.is_none() {
                    let word = match how {
                        SettledAs::Done => "done",
                        SettledAs::Kept { member, moved } => {
                            patch.raised += u64::from(*moved);
                            patch.member = Some(member);
                            patch.holder = Some(member);
                            patch.kept_ms = patch.kept_ms.or(Some(at_ms));
                            patch.stage = Some(None);
                            "kept"
                        }
                        SettledAs::Void(reason) => {
                            patch.closed = Some((reason.as_str(), at_ms));
                            "void"
                        }
                    };
                    patch.settled = patch.settled.or(Some((word, at_ms)));
                }
                if let SettledAs::Void(_) = how {
                    self.cancel(*allocation, None);
                    self.offers.over(*allocation, OfferEnd::Closed, at_ms);
                }
            }
            Change::Closed { allocation, reason } => {
                let patch = self.patch(*allocation, entry.seq);
                patch.closed = patch.closed.or(Some((reason.as_str(), at_ms)));
                self.cancel(*allocation, None);
                self.visits.closed.push((*allocation, at_ms));
                self.offers.over(*allocation, OfferEnd::Closed, at_ms);
            }
            Change::Confirmed {
                allocation,
                subject,
                customer,
            } => {
                self.known.push((*subject, customer));
                match self.places.new.get(allocation) {
                    Some(&place) => {
                        self.new[place].subject = *subject;
                        self.new[place].customer = customer;
                    }
                    None => {
                        let confirmed = (*allocation, *subject, at_ms);
                        self.visits.confirmed.push(confirmed);
                    }
                }
            }
            Change::Visit(new) => self.visits.begun.push((new, at_ms)),
            Change::VisitHeld(held) => self.visits.held.push(held),
            Change::VisitEnded(ended) => self.visits.ended.push((ended, at_ms)),
            Change::Seat(change) => self.seats.add(entry.seq, at_ms, change),
            Change::People(change) => {
                self.people.add(entry.seq, at_ms, change);
                self.edges.add(entry.seq, at_ms, change);
            }
            Change::Delivery(outcome) => self.outcomes.push((outcome, at_ms)),
            Change::Audit(record) => self.audit.push(record),
            Change::Effect(new) => {
                if let Some(allocation) = new.allocation {
                    self.places
                        .effects
                        .entry(allocation)
                        .or_default()
                        .push(self.effects.len());
                }
                self.effects.push(Effect {
                    new,
                    at_ms,
                    cancelled: false,
                });
            }
            Change::Transfer(new) => {
                if let Some(allocation) = new.allocation {
                    self.places
                        .transfers
                        .entry(allocation)
                        .or_default()
                        .push(self.transfers.len());
                }
                self.transfers.push(Transfer {
                    new,
                    at_ms,
                    cancelled: false,
                });
            }
        }
    }

    fn patch(&mut self, id: AllocationId, seq: u64) -> &mut Patch<'b> {
        let patch = match self.places.new.get(&id) {
            Some(&place) => &mut self.new[place].patch,
            None => self.patches.entry(id).or_default(),
        };
        // A closed one does not change any more.
        if patch.closed.is_none() {
            patch.seq = seq;
        }
        patch
    }

    /// What was to be done for earlier epochs is taken back.
    fn supersede(&mut self, id: AllocationId, epoch: u64) {
        if epoch > 0 {
            let patch = match self.places.new.get(&id) {
                Some(&place) => &mut self.new[place].patch,
                None => self.patches.entry(id).or_default(),
            };
            patch.superseded = patch.superseded.max(Some(epoch));
            self.cancel(id, Some(epoch));
        }
    }

    /// Takes back what earlier entries of this batch asked for. With an epoch: only what belongs to earlier ones.
    fn cancel(&mut self, id: AllocationId, before: Option<u64>) {
        for &place in self.places.effects.get(&id).into_iter().flatten() {
            let effect = &mut self.effects[place];
            let superseded = match before {
                Some(epoch) => effect.new.epoch.is_some_and(|of| of < epoch),
                None => true,
            };
            effect.cancelled |= superseded;
        }
        for &place in self.places.transfers.get(&id).into_iter().flatten() {
            self.transfers[place].cancelled = true;
        }
    }

    /// Every customer that was named, once, in the order of their keys; the last one with an outside id counts.
    pub(super) fn customers(&self) -> BTreeMap<SubjectKey, &'b crate::Customer> {
        let mut customers = BTreeMap::new();
        let decided = self.new.iter().map(|row| (row.subject, row.customer));
        let known = self.known.iter().copied();
        for (subject, named) in decided.chain(known).chain(self.seats.customers()) {
            let customer = customers.entry(subject).or_insert(named);
            if named.external_id.is_some() {
                *customer = named;
            }
        }
        customers
    }
}
