//! Dev-only: a private Postgres for tests, and a fresh database per test.
//!
//! * [`Database`]: cloned in about 0.1 s from a migrated template and dropped when the value goes. All
//!   test processes share one server. Where `PAIDAN_TEST_POSTGRES` holds a URL that server is used;
//!   otherwise the first process starts one and a watcher stops it a minute after the last one left.
//! * [`Server`]: a server of one's own, which may be stopped, killed and restarted.
//! * [`Pooler`]: a PgBouncer in transaction mode in front of a database.
//!
//! It knows no table of ours: the caller passes what migrates a template. Whatever is missing on the
//! machine fails loudly, by a panic that says what to install.

mod database;
mod pooler;
mod programs;
mod server;
mod shared;

pub use database::Database;
pub use pooler::Pooler;
pub use server::{Options, Server};
