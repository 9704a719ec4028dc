//! The ledger against a real Postgres: a fresh database for each test, a server of its own where it must break.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first surprise, helpers too"
)]

mod allocations;
mod batches;
mod budget_blocks;
mod contact_ways;
mod contention;
mod corps;
mod customers;
mod deliveries;
mod faults;
mod group_due;
mod group_reads;
mod groups;
mod inviter_ways;
mod join_ways;
mod log_write;
mod migrations;
mod offers;
mod outbox;
mod outbox_flood;
mod outbox_lost;
mod policies;
mod pooler;
mod retention;
mod routing;
mod seat_batches;
mod seat_people;
mod seats;
mod setup;
mod taken_back;
mod transfers;
mod transfers_due;
mod transfers_written;
