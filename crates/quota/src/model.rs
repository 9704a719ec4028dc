//! Every script once more as a plain function on plain values: what the tests compare Redis with.

pub mod budget;
pub mod lock;
pub mod token;
