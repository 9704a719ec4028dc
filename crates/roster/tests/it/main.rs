//! Against a real Redis: each operation, the cases, the same random operations through the model, many tasks at once,
//! crashes, rebuilds, a cluster.
#![expect(clippy::unwrap_used, reason = "all of this binary is tests")]

mod avoided;
mod bounds;
mod clock;
mod close;
mod cluster;
mod crash;
mod decide;
mod equality;
mod fair;
mod headers;
mod least_load;
mod limits;
mod offers;
mod presence;
mod read;
mod reassign;
mod rebuild;
mod routes;
mod seat_steps;
mod seats;
mod seats_rebuild;
mod seats_together;
mod set_pool;
mod settle;
mod support;
mod together;
mod visits;
mod visits_together;
mod waiting;
