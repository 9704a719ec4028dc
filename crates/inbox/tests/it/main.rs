//! The scripts and their wrappers, against a real Redis.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod ack;
mod append;
mod claim;
mod cluster;
mod crash;
mod dead_replay;
mod dirty_done;
mod dirty_forget;
mod dirty_take;
mod fail;
mod faults;
mod forget_consumers;
mod headers;
mod inbox_stats;
mod model;
mod random;
mod replicas;
mod support;
mod trim;
