//! What was decided and done: the corps' log, allocations, deliveries, outbox and transfers in Postgres.
//!
//! It knows no Redis and no WeCom: what an effect is for and what an errcode means is its caller's business. Times
//! come in and go out as milliseconds since the epoch; nothing here reads a clock. Every write may be repeated: it
//! is conditional on a sequence number, a state, or the number of the claim that may make it.
//!
//! Rules of the house, kept in `connection`: bounded waits, one connection for one piece of work, no state left in a
//! connection (poolers in transaction mode work), and a connection whose work did not end in order is closed.

mod allocations;
mod api_keys;
mod audit;
mod budget_blocks;
mod calendars;
mod campaigns;
mod change;
mod channels;
mod configured;
mod connection;
mod console;
mod contact_ways;
mod corps;
mod counters;
mod cursor;
mod customers;
mod deliveries;
mod error;
mod fission;
mod group_caps;
mod group_pools;
mod groups;
mod hours;
mod idempotency;
mod join_ways;
mod log_write;
mod members;
mod migrate;
mod offers;
mod operations;
mod outbox;
mod pool_drafts;
mod pool_versions;
mod pools;
mod put;
mod row;
mod schedules;
mod seats;
mod supply;
mod text;
mod times;
mod transfers;
mod visits;

pub use allocations::{
    Allocation, AllocationFilter, AllocationState, Allocations, Counted, Place, ResponseTimes,
    Standing, Unsettled, UnsettledPage,
};
pub use api_keys::{ApiKey, ApiKeys, Role};
pub use audit::{Audit, AuditFilter, AuditRecord, Trail};
pub use budget_blocks::{BudgetBlock, BudgetBlocks};
pub use calendars::{Calendar, Calendars, NewCalendar};
pub use campaigns::{Campaign, Campaigns, NewCampaign, NoGroupPool, WaysOf};
pub use change::{
    Change, Customer, DeliveryOutcome, Entry, GroupCounted, NewAllocation, NewEffect, NewOffer,
    NewSeat, NewTransfer, NewVisit, OfferEnded, PeopleChange, Preference, SeatChange, SettledAs,
    VisitEnded, VisitHeld, Wanted, Who, WriteBatch,
};
pub use channels::{
    Channel, ChannelLimits, ChannelRefused, Channels, CountedChannel, NewChannel, Visits,
};
pub use connection::Config;
pub use console::{EndpointCount, Replayable};
pub use contact_ways::{
    Asked, ChangedWays, ContactWays, Deletable, ListedWay, Lost, Made, MemberWays, PassedOver,
    PlanLimits, PlannedWays, Refusal, Refused, Unpictured, Untold, WayCount, WayKind, WayPicture,
    WayState, WaysDue,
};
pub use corps::{Confirmed, Corp, Corps, LogRow, RebuildLease, Snapshot};
pub use counters::Counter;
pub use cursor::{Page, PageRequest};
pub use customers::{Customers, Forgotten, KnownCustomer};
pub use deliveries::{Deliveries, Delivery, DeliveryFilter, NewDelivery, OldDay};
pub use error::Error;
pub use fission::{
    DueEdge, EVENT, Edge, EdgeFilter, EdgeState, EventsAfter, Fission, GOAL_MESSAGE, Goal,
    INVITER_STATE, Inviter, InviterKind, InviterPage, InviterSaid, Inviters, Looked, NewInviter,
    NewTo, OutgoingEvent, Reached, TAG, inviter_via,
};
pub use group_caps::{GroupCaps, OwnCaps};
pub use group_pools::{
    GroupPool, GroupPoolUsers, GroupPoolVersion, GroupPools, NewGroupPool, Supply, SupplySource,
};
pub use groups::{
    Doubt, Group, GroupCounts, GroupDoubt, GroupFilter, GroupKnown, GroupProblem, GroupRead,
    GroupRefused, GroupSaid, GroupSource, GroupState, GroupVersion, Groups, Imported, NewGroup,
    NewImport,
};
pub use hours::{AddLeave, Hours, Leave, MemberHours, NewLeave, PresenceMode, Said, SaidWhat};
pub use idempotency::{Begun, Idempotency, IdempotencyKey, KeptAnswer};
pub use join_ways::{
    AskedJoinWay, CAMPAIGN_STATE, CampaignWays, ChangedJoinWay, InviterWayLimits, InviterWish,
    JoinWays, JoinWaysDue, JoinWaysSince, ListedJoinWay, LostJoinWays, PlannedJoinWays, Rooms,
    UnpicturedJoinWay, campaign_via,
};
pub use log_write::{Conflict, EdgesWritten, LogWrite, Written};
pub use members::{Member, MemberFilter, Members, NewMember, NoSchedule};
pub use migrate::{MIGRATIONS, Migration, MigrationStatus};
pub use offers::{Offer, OfferEnd, OfferFilter, Offers};
pub use operations::{GROUP_IMPORTS, Operation, OperationState, Operations, Progress, SIMULATIONS};
pub use outbox::{
    Claim, EffectState, Fence, Finish, GivenUp, Held, Outbox, OutboxRow, Outcome, Reaped,
    Unfinished,
};
pub use pool_drafts::{Draft, DraftRefused, Drafts, MOST_DRAFTS, NewDraft, Publication};
pub use pool_versions::{Published, RolledBack};
pub use pools::{
    Fallback, NewPool, Otherwise, Pool, PoolMember, PoolRefused, PoolUsers, PoolVersion, PoolWait,
    Pools, Relax, Routing, Sticky,
};
pub use put::{Deleted, Precondition, Put};
pub use schedules::{NewSchedule, Schedule, Schedules};
pub use seats::{
    CameAs, GroupCount, GroupEvent, GroupEventKind, GroupPerson, OpenSeats, Seat, SeatEnd,
    SeatFilter, SeatStage, SeatTable, StandingSeats,
};
pub use supply::{
    ASKED_BY_SUPPLY, ASKED_PART_MS, ASKED_PARTS, Adopted, Armed, ArmedWay, Completed, FoundGroup,
    MOST_OPENERS, NewSupplyTask, Opened, SPARE_OPENERS, SuppliedPool, SupplyStep, SupplyTask,
    SupplyTaskFilter, SupplyTaskState, SupplyTasks, SupplyWhy,
};
pub use transfers::{
    Found, Planned, Resolved, Transfer, TransferFilter, TransferKind, TransferState, TransferStep,
    Transfers, window_start,
};

pub use visits::{Visit, VisitCounts, VisitEnd, VisitTable};

use connection::Db;

/// A cheap clone; all clones share one pool of connections.
#[derive(Debug, Clone)]
pub struct Ledger {
    db: Db,
}

impl Ledger {
    /// Connects once, so that a wrong address, password or an old server is known at once, and to learn whether a
    /// pooler stands in between.
    pub async fn connect(config: Config) -> Result<Ledger, Error> {
        Ok(Ledger {
            db: Db::connect(config).await?,
        })
    }

    pub fn allocations(&self) -> Allocations {
        Allocations {
            db: self.db.clone(),
        }
    }

    pub fn budget_blocks(&self) -> BudgetBlocks {
        BudgetBlocks {
            db: self.db.clone(),
        }
    }

    /// Contact ways of channels with visits.
    pub fn contact_ways(&self) -> ContactWays {
        ContactWays {
            db: self.db.clone(),
        }
    }

    /// Generations, log and snapshots.
    pub fn corps(&self) -> Corps {
        Corps {
            db: self.db.clone(),
        }
    }

    pub fn customers(&self) -> Customers {
        Customers {
            db: self.db.clone(),
        }
    }

    pub fn deliveries(&self) -> Deliveries {
        Deliveries {
            db: self.db.clone(),
        }
    }

    /// Inviters of campaigns, and whom they brought.
    pub fn inviters(&self) -> Inviters {
        Inviters {
            db: self.db.clone(),
        }
    }

    /// Join ways of campaigns.
    pub fn join_ways(&self) -> JoinWays {
        JoinWays {
            db: self.db.clone(),
        }
    }

    pub fn offers(&self) -> Offers {
        Offers {
            db: self.db.clone(),
        }
    }

    pub fn outbox(&self) -> Outbox {
        Outbox {
            db: self.db.clone(),
        }
    }

    /// Seats of customer groups, and who is in these.
    pub fn seats(&self) -> SeatTable {
        SeatTable {
            db: self.db.clone(),
        }
    }

    pub fn transfers(&self) -> Transfers {
        Transfers {
            db: self.db.clone(),
        }
    }

    pub fn visits(&self) -> VisitTable {
        VisitTable {
            db: self.db.clone(),
        }
    }

    /// For the tables of the program that owns them (pools, members, keys): the same pool, the same rules.
    pub fn pool(&self) -> &sqlx::PgPool {
        self.db.pool()
    }

    /// Postgres answers and takes writes.
    pub async fn ping(&self) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'");
        let read_only: bool = sqlx::Row::get(&work.fetch_one(query).await?, 0);
        work.end().await?;
        if read_only {
            Err(Error::ReadOnly)
        } else {
            Ok(())
        }
    }

    /// Ends all connections in order.
    pub async fn close(&self) {
        self.db.pool().close().await;
    }
}
