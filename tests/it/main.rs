//! The parts together: gateway, allocator and the fake WeCom against real stores.

mod at_once;
mod events;
mod faults;
mod groups;
mod killed_visits;
mod large;
mod limits;
mod main_job;
mod nobody_knows;
mod offers;
mod pages;
mod passed_over;
mod policies;
mod probes;
mod refusals;
mod results;
mod routing;
mod shutdown;
mod slots;
mod superseded;
mod surge;
