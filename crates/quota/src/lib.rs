//! What WeCom still lets us call, and who may touch what: call budgets, locks, shared access tokens, in Redis.
//!
//! - [`Quota`]: a permit for one call of one API, taken from the corp's minute and hour windows, its calls in flight,
//!   its blocks, and from the windows of the address we call from. It renews itself while the call lasts.
//! - [`Locks`]: several names at once for one owner, with a fence number that the ledger can check.
//! - [`Tokens`]: one access token per app for all processes, renewed by one of them.
//!
//! It does not know what the calls are for, nor WeCom's answers: the caller says how a call ended. All rules are Lua
//! scripts in `lua/`; [`model`] says each of them once more as a plain function, and tests compare the two.

mod answer;
pub mod budget_block;
pub mod budget_give;
pub mod budget_read;
pub mod budget_renew;
pub mod budget_take;
mod error;
pub mod fence_seed;
mod held;
mod keys;
mod limits;
pub mod lock_acquire;
pub mod lock_release;
pub mod lock_renew;
mod locks;
pub mod model;
mod permit;
mod quota;
mod renewing;
pub mod token_lease;
pub mod token_load;
pub mod token_release;
pub mod token_store;
mod tokens;
pub mod window;

pub use budget_give::{Outcome, Rule};
pub use budget_take::Reason;
pub use error::Error;
pub use fence_seed::Seeded;
pub use held::{Held, Lost};
pub use keys::{BudgetKeys, LockKeys, TokenKeys};
pub use limits::{ApiLimits, BudgetLimits, Limits};
pub use lock_acquire::Fence;
pub use locks::{Acquired, Locks, Times};
pub use permit::Permit;
pub use quota::{Blocked, Quota, Scope, Take, Urgency, Usage};
pub use tokens::{Token, Tokens};

/// What every method here needs of a connection: cheap to clone, shared by many tasks.
pub trait Connection: redis::aio::ConnectionLike + Clone + Send + Sync + 'static {}
impl<C: redis::aio::ConnectionLike + Clone + Send + Sync + 'static> Connection for C {}
