//! The parts together: gateway, allocator and the fake WeCom against real stores.

mod faults;
mod main_job;
mod surge;
