//! The parts together: gateway, allocator and the fake WeCom against real stores.

mod main_job;
