//! The admin side: what a test may see and do. Over HTTP under `/sim/` and in process through
//! [`SimHandle`](crate::SimHandle); both call the same methods.

mod check;
mod control;
mod groups;
mod http;
mod types;

pub(crate) use http::router;
pub use types::*;
