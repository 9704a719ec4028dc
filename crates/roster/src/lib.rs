//! Who can take a customer now: typed methods over the Lua scripts that decide, in Redis.
//!
//! Every operation of [`allocation::Op`] is one script call: it changes the corp's state and appends itself to the
//! corp's log at once, or does neither. `allocation::model` gives the same bytes for the same operations; tests here
//! compare the two.
//!
//! It knows no WeCom and no Postgres, and does not look into payloads. All keys of a corp begin with `{<corp_id>}:v1:`
//! and share a slot; `keys` lists them.

pub mod bench;
mod call;
mod connection;
mod corp;
mod error;
mod group_counts;
mod group_standings;
mod keys;
mod log;
mod read;
mod rebuild;
mod scripts;
mod seats;

pub use call::Applied;
pub use connection::Connection;
pub use corp::{CorpRoster, Roster};
pub use error::Error;
pub use group_standings::GroupStanding;
pub use log::LogReader;
pub use read::{PoolVersion, Remembered};
pub use rebuild::Status;
pub use seats::SeatsApplied;
