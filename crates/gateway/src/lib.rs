//! The gateway: the address that WeCom calls. It verifies and decrypts a callback, has it stored durably, and only
//! then answers 200. It knows endpoints, keys and one inbox per corp; it does not know what an event means, who gets
//! a customer, or that there is a Postgres.
//!
//! ```text
//! socket ─► worker ─► callback (verify, decrypt) ─► lane of the corp ─► inbox ─► 200
//!             one thread and runtime per core        one append for all that is queued
//! ```
//!
//! [`run`] is all of it; `main.rs` only reads arguments and signals.

mod activity;
mod admin;
mod body;
mod callback;
mod clock;
pub mod config;
mod endpoints;
mod health;
mod histogram;
mod lane;
mod listen;
pub mod logging;
mod metrics;
mod probe;
mod refusal;
mod routes;
mod run;
mod store;
mod worker;

pub use config::{Config, Sources};
pub use endpoints::check as check_endpoints;
pub use listen::Listeners;
pub use run::{Error, Signals, run, run_unstored};
