//! The client against a real HTTP server that answers what the test says and counts every call.
#![expect(clippy::unwrap_used, reason = "test code: a panic is the message")]

mod gate;
mod groups;
mod limits;
mod lists;
mod requests;
mod secrets;
mod stub;
mod support;
mod token;
mod token_life;
mod token_store;
mod transfer;
mod transport;
