//! The REST API that the marketing console calls, and the admin listener. Every route is described where it is written;
//! `/openapi.json` and `/docs` come from that. What a handler may do it says by its first argument: `Viewer`,
//! `Operator`, `Admin` or `Anyone`.

mod access;
mod admin;
mod allocations;
mod asking;
mod audit;
mod calendars;
mod campaigns;
mod channels;
mod contact_ways;
mod credits;
mod customers;
mod dead_effects;
mod dead_letters;
mod deliveries;
mod docs;
mod drafts;
mod edges;
mod endpoints;
mod etag;
mod events;
mod explanation;
mod extract;
mod findings;
mod first_response;
mod fission_rules;
mod group_events;
mod group_imports;
mod group_pools;
mod group_words;
mod groups;
mod groups_at_wecom;
mod heartbeat;
mod idempotent;
pub(crate) mod ids;
mod inviters;
mod layers;
mod leaves;
mod member_presence;
mod members;
mod moves;
mod offer_answers;
mod offers;
mod open_seats;
mod operations;
mod page;
mod parse;
mod policies;
mod pool_supply;
mod pools;
mod presence;
pub mod problem;
mod quotas;
mod read;
mod reports;
mod routing;
mod schedules;
mod seat_records;
mod seats;
mod sheet;
mod shortfall;
mod simulate;
mod simulations;
mod supply_tasks;
mod transfers;
mod tree;
mod validate;
mod visits;
mod waiting;
mod welcome;
pub(crate) mod when;
pub mod work;

use std::sync::Arc;

use axum::{Router, middleware};
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

pub use admin::admin_router;
pub use docs::openapi;

/// What the routes share.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) app: Arc<App>,
    keys: access::Keys,
}

/// All of it: the routes, their description and the page that shows it.
pub fn router(app: Arc<App>) -> Router {
    let api = Api {
        app,
        keys: access::Keys::default(),
    };
    let (routes, description) = described(&api).split_for_parts();
    let routes = routes
        .with_state(api.clone())
        .merge(docs::routes(description));
    layers::around(routes, &api)
}

fn described(api: &Api) -> OpenApiRouter<Api> {
    // Creating an allocation is safe to repeat without Postgres: the key is the request id that Redis remembers.
    let repeatable = OpenApiRouter::new()
        .merge(allocations::routes())
        .merge(audit::routes())
        .merge(calendars::routes())
        .merge(campaigns::routes())
        .merge(channels::routes())
        .merge(contact_ways::routes())
        .merge(credits::routes())
        .merge(customers::routes())
        .merge(dead_effects::routes())
        .merge(dead_letters::routes())
        .merge(deliveries::routes())
        .merge(edges::routes())
        .merge(endpoints::routes())
        .merge(events::routes())
        .merge(drafts::routes())
        .merge(explanation::routes())
        .merge(findings::routes())
        .merge(group_events::routes())
        .merge(group_imports::routes())
        .merge(group_pools::routes())
        .merge(groups::routes())
        .merge(inviters::routes())
        .merge(leaves::routes())
        .merge(member_presence::routes())
        .merge(members::routes())
        .merge(moves::routes())
        .merge(first_response::routes())
        .merge(offer_answers::routes())
        .merge(offers::routes())
        .merge(operations::routes())
        .merge(policies::routes())
        .merge(pools::routes())
        .merge(presence::routes())
        .merge(quotas::routes())
        .merge(reports::routes())
        .merge(schedules::routes())
        .merge(seat_records::routes())
        .merge(shortfall::routes())
        .merge(simulations::routes())
        .merge(supply_tasks::routes())
        .merge(pool_supply::routes())
        .merge(transfers::routes())
        .merge(visits::more_routes())
        .merge(waiting::routes())
        .route_layer(middleware::from_fn_with_state(
            api.clone(),
            idempotent::answer_again,
        ));
    let corp = repeatable
        .merge(asking::routes())
        .merge(seats::routes())
        .merge(visits::routes());
    OpenApiRouter::with_openapi(docs::head()).nest("/api/v1/corps/{corp_id}", corp)
}
