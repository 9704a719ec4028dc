//! The admin routes of customer groups.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::routing::{get, post};
use serde_json::json;

use crate::world::World;

use super::http::{About, Answer, Sim, json, read};
use super::{GroupChange, GroupRequest, InviteRequest, JoinRequest, LeaveRequest};

pub(super) fn routes() -> Router<Arc<World>> {
    Router::new()
        .route("/sim/groups", get(list).post(make))
        .route("/sim/groups/scan", post(scan))
        .route("/sim/groups/invite", post(invite))
        .route("/sim/groups/leave", post(leave))
        .route(
            "/sim/groups/{chat_id}",
            get(group).patch(change).delete(dismiss),
        )
}

async fn list(State(world): Sim, Query(about): Query<About>) -> Answer {
    json(world.groups(about.corp.as_deref())?)
}

async fn make(State(world): Sim, body: axum::body::Bytes) -> Answer {
    json(world.make_groups(&read::<GroupRequest>(&body)?)?)
}

async fn scan(State(world): Sim, body: axum::body::Bytes) -> Answer {
    json(world.join(&read::<JoinRequest>(&body)?)?)
}

async fn invite(State(world): Sim, body: axum::body::Bytes) -> Answer {
    json(world.invite(&read::<InviteRequest>(&body)?)?)
}

async fn leave(State(world): Sim, body: axum::body::Bytes) -> Answer {
    json(world.leave(&read::<LeaveRequest>(&body)?)?)
}

async fn group(State(world): Sim, Path(id): Path<String>, Query(about): Query<About>) -> Answer {
    json(world.group(about.corp.as_deref(), &id)?)
}

async fn change(State(world): Sim, Path(id): Path<String>, body: axum::body::Bytes) -> Answer {
    json(world.change_group(&id, &read::<GroupChange>(&body)?)?)
}

async fn dismiss(State(world): Sim, Path(id): Path<String>, Query(about): Query<About>) -> Answer {
    world.dismiss_group(about.corp.as_deref(), &id)?;
    json(json!({}))
}
