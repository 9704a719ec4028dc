//! The access token of an app: kept in the process and in a store that all processes share.

mod fetch;
mod memory;
mod pause;
mod source;
mod store;

pub use memory::MemoryTokenStore;
pub(super) use source::TokenSource;
pub use store::{StoreError, StoreFuture, Token, TokenStore};
