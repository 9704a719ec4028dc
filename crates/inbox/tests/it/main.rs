//! The scripts and their wrappers, against a real Redis.

mod append;
mod headers;
mod support;
