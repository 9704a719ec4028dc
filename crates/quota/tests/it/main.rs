//! Against a real Redis: each operation, the same random operations through the model, many tasks at once, crashes.
#![expect(clippy::unwrap_used, reason = "all of this binary is tests")]

mod agree_budget;
mod agree_lock;
mod agree_token;
mod budget_block;
mod budget_give;
mod budget_read;
mod budget_renew;
mod budget_take;
mod cluster;
mod crash;
mod egress;
mod fence_seed;
mod headers;
mod held;
mod lock_acquire;
mod lock_release;
mod lock_renew;
mod memory;
mod renewing;
mod support;
mod together;
mod token_lease;
mod token_load;
mod token_release;
mod token_store;
