//! The admin routes. `GET /sim` lists them.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, patch, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Error;
use crate::api::Api;
use crate::config::{Config, CorpConfig, Fault};
use crate::world::World;

use super::groups;
use super::{
    CallFilter, CheckQuery, ClockRequest, CustomerScript, DeleteRequest, EditRequest, ScanRequest,
    SendRequest, TagRequest,
};

const ROUTES: &str = "\
GET    /sim                              this list
GET    /sim/apis                         the APIs that exist
GET    /sim/config                       the whole configuration, as it is now
PUT    /sim/config                       replaces it
PATCH  /sim/config                       changes parts of it (JSON merge patch)
PUT    /sim/corps/{corp}                 adds or replaces a corp
PATCH  /sim/corps/{corp}/members/{user}  changes or adds a member, e.g. {\"status\": 5}
GET    /sim/clock                        simulated time
POST   /sim/clock                        {\"advance_ms\": 86400000, \"wait\": true} or {\"now_ms\": …}
POST   /sim/scan                         a customer scans: {\"member\": …, \"state\": …} or {\"config_id\": …}, \"count\": n
POST   /sim/delete                       {\"customer\": …, \"member\": …, \"by\": \"customer\" | \"member\"}
POST   /sim/edit                         a member edits a customer's remark or tags
POST   /sim/tags                         an administrator changes corp tags
GET    /sim/groups?corp=                 customer groups, without their members
POST   /sim/groups                       a member makes groups: {\"owner\": …, \"people\": n, \"count\": n}
GET    /sim/groups/{chat}                one group with its members
PATCH  /sim/groups/{chat}                a member changes {\"name\"}, {\"owner\"}, {\"notice\"}
DELETE /sim/groups/{chat}                its owner dismisses it
POST   /sim/groups/scan                  people scan a join way: {\"config_id\": …, \"people\": [{\"customer\": …, \"unionid\": …}], \"count\": n}
POST   /sim/groups/invite                people are brought past it: {\"chat_id\": …, \"people\": […], \"count\": n}
POST   /sim/groups/leave                 {\"chat_id\": …, \"people\": [ids], \"removed\": true}
GET    /sim/customers/{id}               one customer
PUT    /sim/customers/{id}/script        {\"transfer\": \"refuse\" | \"cap\" | \"early\" | \"passive\", \"after_ms\": …}
DELETE /sim/customers/{id}/script        back to chance
POST   /sim/customers/{id}/transfer      {\"transfer\": \"refuse\"}: his running transfer ends now
POST   /sim/tokens/invalidate            kills tokens early: {\"corp\": …, \"agent_id\": …}, both optional
GET    /sim/faults                       faults in force, with their hits
POST   /sim/faults                       {\"api\": …, \"act\": {\"errcode\": 45009}, \"for_ms\": 60000, …}
DELETE /sim/faults                       removes all
DELETE /sim/faults/{id}                  removes one; calls it held go on
POST   /sim/send                         sends any plaintext as a sealed callback
POST   /sim/verify                       verifies the callback URLs by GET
GET    /sim/state?corp=                  members, customers, transfers, contact ways, groups, join ways, tags
GET    /sim/calls?corp=&api=&code=&after=&limit=   the last calls
GET    /sim/messages                     the last messages, webhooks and welcomes
GET    /sim/counters                     exact counters
GET    /sim/check?transfers_per_customer=&in_flight=   did the caller behave? 200 with \"holds\"
POST   /sim/idle                         answers when no callback is on its way
";

pub(super) type Sim = State<Arc<World>>;
pub(super) type Answer = Result<Response, Error>;

pub(crate) fn router(world: Arc<World>) -> Router {
    Router::new()
        .route("/sim", get(|| async { text(ROUTES) }))
        .route(
            "/sim/apis",
            get(|| async { Json(Api::all().map(Api::name).collect::<Vec<_>>()) }),
        )
        .route(
            "/sim/config",
            get(config).put(put_config).patch(patch_config),
        )
        .route("/sim/corps/{corp}", put(put_corp))
        .route("/sim/corps/{corp}/members/{user}", patch(patch_member))
        .route("/sim/clock", get(clock).post(move_clock))
        .route("/sim/scan", post(scan))
        .route("/sim/delete", post(delete_relation))
        .route("/sim/edit", post(edit))
        .route("/sim/tags", post(tags))
        .merge(groups::routes())
        .route("/sim/customers/{id}", get(customer))
        .route("/sim/customers/{id}/script", put(script).delete(unscript))
        .route("/sim/customers/{id}/transfer", post(end_transfer))
        .route("/sim/tokens/invalidate", post(invalidate))
        .route(
            "/sim/faults",
            get(faults).post(add_fault).delete(remove_faults),
        )
        .route("/sim/faults/{id}", delete(remove_fault))
        .route("/sim/send", post(send))
        .route("/sim/verify", post(verify))
        .route("/sim/state", get(state))
        .route("/sim/calls", get(calls))
        .route("/sim/messages", get(messages))
        .route("/sim/counters", get(counters))
        .route("/sim/check", get(check))
        .route("/sim/idle", post(idle))
        .fallback(|| async {
            problem(
                StatusCode::NOT_FOUND,
                "no such route; GET /sim lists them".to_owned(),
            )
        })
        .with_state(world)
}

fn text(body: &'static str) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response()
}

fn problem(status: StatusCode, error: String) -> Response {
    (status, Json(json!({"error": error}))).into_response()
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Unknown { .. } => StatusCode::NOT_FOUND,
            Self::Config { .. } | Self::Request(_) => StatusCode::BAD_REQUEST,
            Self::Listener(_) | Self::Client(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        problem(status, self.to_string())
    }
}

/// JSON whatever the content type says; an empty body is `{}`. Errors name the field.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    let body = if body.iter().all(u8::is_ascii_whitespace) {
        b"{}".as_slice()
    } else {
        body
    };
    serde_json::from_slice(body).map_err(|error| Error::Request(format!("body: {error}")))
}

pub(super) fn json(value: impl serde::Serialize) -> Answer {
    Ok(Json(value).into_response())
}

/// The corp and app a request is about.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct About {
    pub(super) corp: Option<String>,
    agent_id: Option<u32>,
}

async fn config(State(world): Sim) -> Answer {
    json(world.config())
}

async fn put_config(State(world): Sim, body: axum::body::Bytes) -> Answer {
    world.put_config(read::<Config>(&body)?)?;
    json(world.config())
}

async fn patch_config(State(world): Sim, body: axum::body::Bytes) -> Answer {
    world.patch_config(&read::<Value>(&body)?)?;
    json(world.config())
}

async fn put_corp(State(world): Sim, Path(corp): Path<String>, body: axum::body::Bytes) -> Answer {
    let mut config: CorpConfig = read(&body)?;
    config.id = corp;
    world.put_corp(config)?;
    json(json!({}))
}

async fn patch_member(
    State(world): Sim,
    Path((corp, user)): Path<(String, String)>,
    body: axum::body::Bytes,
) -> Answer {
    json(world.patch_member(Some(&corp), &user, &read(&body)?)?)
}

async fn clock(State(world): Sim) -> Answer {
    json(world.clock_reply())
}

async fn move_clock(State(world): Sim, body: axum::body::Bytes) -> Answer {
    json(world.move_clock(&read::<ClockRequest>(&body)?).await?)
}

async fn scan(State(world): Sim, body: axum::body::Bytes) -> Answer {
    json(world.scan(&read::<ScanRequest>(&body)?)?)
}

async fn delete_relation(State(world): Sim, body: axum::body::Bytes) -> Answer {
    world.delete(&read::<DeleteRequest>(&body)?)?;
    json(json!({}))
}

async fn edit(State(world): Sim, body: axum::body::Bytes) -> Answer {
    world.edit(&read::<EditRequest>(&body)?)?;
    json(json!({}))
}

async fn tags(State(world): Sim, body: axum::body::Bytes) -> Answer {
    json(json!({"ids": world.change_tags(&read::<TagRequest>(&body)?)?}))
}

async fn customer(State(world): Sim, Path(id): Path<String>, Query(about): Query<About>) -> Answer {
    json(world.customer(about.corp.as_deref(), &id)?)
}

async fn script(
    State(world): Sim,
    Path(id): Path<String>,
    Query(about): Query<About>,
    body: axum::body::Bytes,
) -> Answer {
    world.script(
        about.corp.as_deref(),
        &id,
        Some(read::<CustomerScript>(&body)?),
    )?;
    json(json!({}))
}

async fn unscript(State(world): Sim, Path(id): Path<String>, Query(about): Query<About>) -> Answer {
    world.script(about.corp.as_deref(), &id, None)?;
    json(json!({}))
}

async fn end_transfer(
    State(world): Sim,
    Path(id): Path<String>,
    Query(about): Query<About>,
    body: axum::body::Bytes,
) -> Answer {
    let script: CustomerScript = read(&body)?;
    if script.after_ms.is_some() {
        return Err(Error::Request(
            "after_ms has no place here: the transfer ends now".to_owned(),
        ));
    }
    world.end_transfer(about.corp.as_deref(), &id, script.transfer)?;
    json(json!({}))
}

async fn invalidate(State(world): Sim, body: axum::body::Bytes) -> Answer {
    let about: About = read(&body)?;
    json(json!({"killed": world.kill_tokens(about.corp.as_deref(), about.agent_id)}))
}

async fn faults(State(world): Sim) -> Answer {
    json(world.faults.list())
}

async fn add_fault(State(world): Sim, body: axum::body::Bytes) -> Answer {
    let id = world.faults.add(read::<Fault>(&body)?, world.now_ms())?;
    json(json!({"id": id}))
}

async fn remove_faults(State(world): Sim) -> Answer {
    json(json!({"removed": world.faults.remove(None)}))
}

async fn remove_fault(State(world): Sim, Path(id): Path<String>) -> Answer {
    match world.faults.remove(Some(&id)) {
        0 => Err(Error::unknown("fault", id)),
        removed => json(json!({"removed": removed})),
    }
}

async fn send(State(world): Sim, body: axum::body::Bytes) -> Answer {
    json(json!({"sent": world.send(&read::<SendRequest>(&body)?)?}))
}

async fn verify(State(world): Sim, body: axum::body::Bytes) -> Answer {
    let about: About = read(&body)?;
    json(
        world
            .verify_urls(about.corp.as_deref(), about.agent_id)
            .await?,
    )
}

async fn state(State(world): Sim, Query(about): Query<About>) -> Answer {
    json(world.state(about.corp.as_deref())?)
}

async fn calls(State(world): Sim, Query(filter): Query<CallFilter>) -> Answer {
    json(world.log.list(&filter))
}

async fn messages(State(world): Sim) -> Answer {
    json(world.messages.list())
}

async fn counters(State(world): Sim) -> Answer {
    json(world.counters())
}

async fn check(State(world): Sim, Query(query): Query<CheckQuery>) -> Answer {
    json(world.check(&query))
}

async fn idle(State(world): Sim) -> Answer {
    world.callbacks.idle().await;
    json(world.clock_reply())
}
