//! The simulator through a real HTTP client, on a virtual clock. One module per rule of WeCom.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod access;
mod binary;
mod callbacks;
mod check;
mod clock;
mod contact;
mod contact_way;
mod faults;
mod faults_scripted;
mod groups;
mod harness;
mod library;
mod message;
mod quota;
mod scan;
mod scenario;
mod tag;
mod tokens;
mod transfer;
mod transfer_answers;
mod transfer_resigned;
mod user;
mod welcome;
