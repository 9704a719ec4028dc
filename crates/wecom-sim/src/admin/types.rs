//! What the admin API takes and gives, the same over HTTP (as JSON) and in process.

mod counters;
mod groups;
mod records;
mod requests;
mod state;

pub use counters::*;
pub use groups::*;
pub use records::*;
pub use requests::*;
pub use state::*;
