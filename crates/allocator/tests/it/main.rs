//! The allocator's parts against real stores and real sockets.
#![expect(clippy::unwrap_used, reason = "all of this binary is tests")]

mod api_access;
mod api_allocations;
mod api_channels;
mod api_config;
mod api_deliveries;
mod api_described;
mod api_holder;
mod api_http;
mod api_idempotency;
mod api_letters;
mod api_moves;
mod api_people;
mod api_presence;
mod api_refusals;
mod api_support;
mod api_transfers;
mod console;
mod decide;
mod doctor;
mod guard;
mod housekeeping;
mod keys;
mod lane_stage;
mod log_lost;
mod log_unreadable;
mod lost;
mod outbox_lane;
mod outbox_transfer;
mod people;
mod permit;
mod poison;
mod redis_setup;
mod reread;
mod visits;
