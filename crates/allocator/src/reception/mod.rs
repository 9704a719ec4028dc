//! Customers to members: what an event asks for, which pool answers it, and what follows from a decision.

pub mod advance;
pub mod alerts;
pub mod drip;
pub mod intake;
mod offer_rules;
pub mod owners;
pub mod plans;
pub mod reclaim;
pub mod routes;
pub mod rules;
pub mod slots;
pub mod sweep;
pub mod tasks;
mod told;
mod visit_rules;
pub mod visits;

/// Why a customer whose load window has passed counts no more: the reason in the log.
pub(crate) const WINDOW_PASSED: &str = "window_passed";
