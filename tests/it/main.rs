//! The parts together: gateway, allocator and the fake WeCom against real stores.

mod at_once;
mod events;
mod faults;
mod main_job;
mod refusals;
mod surge;
