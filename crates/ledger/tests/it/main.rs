//! The ledger against a real Postgres: a fresh database for each test, a server of its own where it must break.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first surprise, helpers too"
)]

mod batches;
mod log_write;
mod migrations;
mod setup;
