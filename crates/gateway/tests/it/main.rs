//! The gateway over real HTTP with a real Redis. Numbers in the comments are those of the project's list of cases.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod harness;

mod cancellation;
mod crypto;
mod dedupe;
mod envelope;
mod events;
mod http;
mod probes;
mod program;
mod reload;
mod rotation;
mod shutdown;
mod store_faults;
mod vectors;
mod verification;
