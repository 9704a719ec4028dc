//! What a log entry leads to in the tables. The caller derives it from operation, outcome and payload; the writer
//! stores entry and changes in one transaction.

use allocation::{
    AllocationId, ChannelId, LogEntry, Match, MemberId, Plan, PoolId, Reason, RequestId, SlotId,
    SubjectKey,
};
use serde_json::Value;
use uuid::Uuid;

use crate::audit::AuditRecord;
use crate::offers::OfferEnd;
use crate::transfers::TransferKind;
use crate::visits::VisitEnd;

mod seats;

pub use seats::{GroupCounted, NewSeat, PeopleChange, SeatChange, Wanted, Who};

/// Log entries in order, without gaps. What the ledger has already is skipped, so a batch may be written again.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    /// Generation of the Redis state the entries were read from.
    pub generation: u64,
    pub entries: Vec<Entry>,
}

/// One log entry, as the log has it, and its changes in order.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    pub seq: u64,
    pub at_ms: u64,
    pub op: String,
    pub args: String,
    pub result: String,
    pub changes: Vec<Change>,
}

impl Entry {
    pub fn new(entry: &LogEntry, changes: Vec<Change>) -> Entry {
        let (op, args, result) = entry.parts();
        Entry {
            seq: entry.seq,
            at_ms: entry.at_ms,
            op: op.to_owned(),
            args,
            result,
            changes,
        }
    }
}

#[derive(Debug, Clone)]
pub enum Change {
    Decided(NewAllocation),
    /// A waiting allocation got a member, or an open one another.
    Assigned {
        allocation: AllocationId,
        member: MemberId,
        /// Who has the customer at WeCom, the member himself included; None leaves what was known.
        giver: Option<MemberId>,
        /// Some after a reassignment: what was to be done for earlier epochs and is not sent yet is cancelled.
        epoch: Option<u64>,
    },
    Settled {
        allocation: AllocationId,
        how: SettledAs,
    },
    /// Ends it, settled or not; what is not sent yet is cancelled.
    Closed {
        allocation: AllocationId,
        reason: Reason,
    },
    /// A visitor's allocation is this customer's from now on.
    Confirmed {
        allocation: AllocationId,
        subject: SubjectKey,
        customer: Customer,
    },
    /// A member is asked: it is not his before he accepts.
    Offered(NewOffer),
    OfferEnded(OfferEnded),
    /// Nobody is left to ask: a person must decide.
    Undecided {
        allocation: AllocationId,
        epoch: u64,
    },
    Visit(NewVisit),
    VisitHeld(VisitHeld),
    VisitEnded(VisitEnded),
    Seat(SeatChange),
    People(PeopleChange),
    Delivery(DeliveryOutcome),
    Effect(NewEffect),
    Transfer(NewTransfer),
    /// Somebody asked for the operation and it had its effect.
    Audit(AuditRecord),
}

#[derive(Debug, Clone)]
pub struct NewAllocation {
    pub allocation: AllocationId,
    pub pool: PoolId,
    pub subject: SubjectKey,
    pub customer: Customer,
    /// None: it waits.
    pub member: Option<MemberId>,
    /// Who has the customer at WeCom, the member himself included: he may be assigned another.
    pub giver: Option<MemberId>,
    pub channel: Option<ChannelId>,
    /// Who asked: `callback`, `api`, `audit`, …
    pub source: String,
    pub delivery: Option<String>,
    pub request: Option<RequestId>,
    /// An event names the giver: it may be the echo of a transfer of ours to him.
    pub echo: bool,
    /// What it is served by; None: its pool alone.
    pub plan: Option<Plan>,
    /// Why the plan prefers each of those whom it prefers, in its order; empty: nobody knows.
    pub preferred: Vec<Preference>,
}

/// Why a plan prefers a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preference {
    /// Whoever asked wanted him.
    AskedFor,
    /// He had the customer last.
    EarlierOwner,
    /// Nobody had the customer, who always comes to him.
    Rendezvous,
}

impl Preference {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AskedFor => "asked_for",
            Self::EarlierOwner => "earlier_owner",
            Self::Rendezvous => "rendezvous",
        }
    }
}

impl std::str::FromStr for Preference {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "asked_for" => Ok(Self::AskedFor),
            "earlier_owner" => Ok(Self::EarlierOwner),
            "rendezvous" => Ok(Self::Rendezvous),
            _ => Err("no reason to prefer a member"),
        }
    }
}

/// A visitor is held, or waits; his allocation is decided in the same entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVisit {
    pub allocation: AllocationId,
    pub channel: ChannelId,
    pub visitor: SubjectKey,
    pub slot: Option<SlotId>,
    pub hold_ms: u64,
    pub rest_ms: u64,
    pub until_ms: u64,
}

/// A visitor who waited is held now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitHeld {
    pub allocation: AllocationId,
    pub slot: Option<SlotId>,
    pub until_ms: u64,
}

/// A hold ended, or it is known now what became of one that expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitEnded {
    pub allocation: AllocationId,
    pub how: VisitEnd,
    pub matched: Option<Match>,
    /// The slot whose way was used.
    pub slot: Option<SlotId>,
    /// The allocation that the customer has, where it is another one.
    pub next: Option<AllocationId>,
}

/// A member is asked about an allocation that is there, or is decided in the same entry (as one that waits).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOffer {
    pub allocation: AllocationId,
    pub member: MemberId,
    /// Who has the customer at WeCom, the member himself included; None leaves what was known.
    pub giver: Option<MemberId>,
    pub epoch: u64,
    pub until_ms: u64,
}

/// The member answered, or was not there to answer. Offers of an allocation that is closed, or given to somebody, end by
/// themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferEnded {
    pub allocation: AllocationId,
    pub epoch: u64,
    /// One that timed out before its time was over is one whose member had gone.
    pub how: OfferEnd,
    pub reason: Option<Reason>,
    pub responded_by: Option<String>,
}

/// Whom a subject means. Without an outside id the row is made all the same.
#[derive(Clone)]
pub struct Customer {
    pub kind: String,
    pub external_id: Option<String>,
}

/// Says whether there is an id, never which.
impl std::fmt::Debug for Customer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Customer")
            .field("kind", &self.kind)
            .field("known", &self.external_id.is_some())
            .finish()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettledAs {
    /// The customer is with the chosen member.
    Done,
    /// The customer stayed with this member, who has him now.
    Kept {
        member: MemberId,
        /// Another one had the allocation until now: a new epoch begins.
        moved: bool,
    },
    /// It came to nothing; it is closed too.
    Void(Reason),
}

/// What became of one delivery. A later outcome of the same delivery (a replay) replaces the earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryOutcome {
    pub delivery: String,
    /// When it was received, exactly as the delivery has it: part of its identity here.
    pub received_ms: u64,
    pub outcome: String,
    pub reason: Option<String>,
    pub allocation: Option<AllocationId>,
}

/// An effect to be done outside. One (corp, kind, key) is done once, however often it is asked for.
#[derive(Clone)]
pub struct NewEffect {
    pub kind: String,
    pub key: String,
    pub payload: Value,
    /// Empty the payload when the row ends.
    pub erase_payload: bool,
    pub allocation: Option<AllocationId>,
    /// The assignment it belongs to; None: the allocation as a whole.
    pub epoch: Option<u64>,
    pub transfer: Option<Uuid>,
    /// Smaller is sooner. The same for all of a kind: what is claimed, one kind at a time, is not put in order by it.
    pub priority: i16,
    pub due_ms: u64,
    pub deadline_ms: Option<u64>,
}

/// The payload may hold ids of customers and codes: not for logs.
impl std::fmt::Debug for NewEffect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewEffect")
            .field("kind", &self.kind)
            .field("allocation", &self.allocation)
            .finish_non_exhaustive()
    }
}

/// A transfer to be started. The subject must have a customer row; one decided in the same batch has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTransfer {
    pub id: Uuid,
    pub allocation: Option<AllocationId>,
    pub subject: SubjectKey,
    pub giver: MemberId,
    pub taker: MemberId,
    pub kind: TransferKind,
}
