//! The allocation service: takes what the inbox holds, decides through the roster, writes the ledger, acts on WeCom
//! within the quota, and answers the console. `pipeline` shows the whole path; only this crate speaks every vocabulary.

pub mod api;
pub mod app;
pub mod audit;
pub mod backoff;
mod caught_up;
pub mod clock;
pub mod commands;
pub mod config;
pub mod decide;
pub mod effect;
pub mod faults;
pub mod fission;
pub mod guard;
pub mod handover;
pub mod history;
pub mod housekeeping;
pub mod lost;
pub mod outbox;
pub mod payload;
pub mod people;
pub mod permit;
pub mod pipeline;
mod poison;
pub mod public;
pub mod reception;
pub mod record;
pub mod redis_setup;
pub mod reread;
pub mod run;
pub mod tokens;
pub mod writer;
