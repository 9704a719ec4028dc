//! The gateway over real HTTP with a real Redis. Numbers in the comments are those of the project's list of cases.

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
