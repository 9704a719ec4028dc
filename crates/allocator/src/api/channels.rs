//! Channels: a poster, a page, an ad. A State leads a customer to the channel's pool.

use std::{collections::BTreeSet, ops::RangeInclusive};

use allocation::{ChannelId, PoolId};
use axum::http::StatusCode;
use ledger::{
    CAMPAIGN_STATE, Channel, ChannelLimits, ChannelRefused, INVITER_STATE, NewChannel, Visits,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Operator, Viewer},
    docs::Refusals,
    etag::{self, Condition, Versioned},
    extract::{Json, Path, Query},
    page::{List, list_query},
    problem::{Details, Problem},
    routing::{self, needs},
    validate::{self, Fields},
    welcome::WelcomeMessage,
    when::When,
};
use crate::{
    people,
    reception::{
        intake::{PLAIN_STATE, SLOT_STATE},
        routes as places,
    },
};

/// What States of ours begin with: those of slots, plain ways, campaigns and inviters.
const OUR_STATES: [&str; 4] = [SLOT_STATE, PLAIN_STATE, CAMPAIGN_STATE, INVITER_STATE];
const MOST_STATES: usize = 100;
/// A contact way's State has at most 30 characters, an acquisition link's at most 64 bytes.
const STATE_BYTES: usize = 64;
const MOST_SLOTS: u64 = 1_000;
const HOLD_SECONDS: RangeInclusive<u64> = 30..=24 * 60 * 60;
const TITLE_CHARS: usize = 60;
const LIMITS: RangeInclusive<u64> = 1..=1_000_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, put, delete))
}

/// What a channel is to be: the whole of it, what is left out is not.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PutChannel {
    /// 1 to 100 characters.
    name: String,
    /// The pool its customers go to.
    pool: String,
    /// The States that lead here, each at most 64 bytes. One that is taken out of the list still leads here: printed
    /// posters outlive a change. `pv.`, `pw.`, `pg.` and `pi.` begin States of our own.
    #[serde(default)]
    #[schema(max_items = 100)]
    states: Vec<String>,
    /// Null: no welcome message.
    welcome: Option<WelcomeMessage>,
    /// Tell the chosen member with a text card.
    #[serde(default = "yes")]
    #[schema(default = true)]
    card: bool,
    /// Skills that a member must have to get its customers, all of them. What the pool says of `relax` and `fallbacks` holds for
    /// them.
    #[serde(default)]
    #[schema(max_items = 8)]
    needs: Vec<String>,
    /// Most of those who come through it, on whatever way, who are given a member in one hour of the clock; null: no limit.
    /// Whoever comes later waits, in all pools that he may come to, until the hour is over, and holds up nobody who came
    /// another way.
    #[schema(minimum = 1, maximum = 1_000_000)]
    per_hour: Option<u64>,
    /// The same of one day; null: no limit. A day is one of `hours.default_zone`.
    #[schema(minimum = 1, maximum = 1_000_000)]
    per_day: Option<u64>,
    /// Its public page; null: it has none. Not with a pool that asks its members first.
    visits: Option<ChannelVisits>,
}

/// A public page that gives each visitor a member at once and shows him a code of that member.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChannelVisits {
    /// Contact ways that are made at WeCom for each member of the pool and lent to one visitor at a time, 0 to 1000; one
    /// more of each member is for visitors without one.
    #[schema(minimum = 0, maximum = 1000)]
    slots_per_member: u32,
    /// How long a visitor's member is kept for him, 30 s to a day.
    #[schema(minimum = 30, maximum = 86400)]
    hold_seconds: u32,
    /// What the page is headed with, at most 60 characters.
    #[serde(default)]
    #[schema(max_length = 60)]
    title: String,
}

fn yes() -> bool {
    true
}

/// A channel as it is.
#[derive(Debug, Serialize, ToSchema)]
struct ChannelView {
    id: String,
    name: String,
    pool: String,
    states: Vec<String>,
    /// Taken out of the list, and leading here all the same.
    retired_states: Vec<String>,
    #[schema(required)]
    welcome: Option<WelcomeMessage>,
    card: bool,
    needs: Vec<String>,
    #[schema(required)]
    per_hour: Option<u32>,
    #[schema(required)]
    per_day: Option<u32>,
    /// Until when nobody who comes through it is given a member, because it gave what it may; null: he may be, or it is not
    /// known now. Lists do not say it.
    #[schema(required)]
    full_until: Option<When>,
    #[schema(required)]
    visits: Option<ChannelVisits>,
    /// Names the public page; made once, with the first `visits`, and kept.
    #[schema(required)]
    public_code: Option<String>,
    /// Where the public page is; only a path when the server is not told its own address. Null while there is no page.
    #[schema(required)]
    public_url: Option<String>,
    version: u64,
    created_at: When,
    updated_at: When,
}

impl From<Channel> for ChannelView {
    fn from(channel: Channel) -> Self {
        let visits = channel.visits.map(|visits| ChannelVisits {
            slots_per_member: visits.slots_per_member,
            hold_seconds: visits.hold_seconds,
            title: visits.title,
        });
        let code = channel.public_code.as_deref();
        let public_url = code.filter(|_| visits.is_some()).map(places::public_path);
        Self {
            visits,
            public_url,
            public_code: channel.public_code,
            id: channel.id.into(),
            name: channel.name,
            pool: channel.pool.into(),
            states: channel.states,
            retired_states: channel.retired_states,
            welcome: channel
                .welcome
                .and_then(|welcome| serde_json::from_value(welcome).ok()),
            card: channel.card,
            needs: routing::names(&channel.needs),
            per_hour: channel.limits.per_hour,
            per_day: channel.limits.per_day,
            full_until: None,
            version: channel.version,
            created_at: When(channel.created_ms),
            updated_at: When(channel.updated_ms),
        }
    }
}

impl ChannelView {
    /// With the whole address of its page, where pages are served.
    fn at(mut self, ctx: &Ctx) -> Self {
        let path = self.public_url.take();
        self.public_url = path.map(|path| ctx.app.config.public.url(&path));
        self
    }

    /// With the time until which it is full.
    async fn with_end(mut self, ctx: &Ctx, id: &ChannelId) -> Self {
        if self.per_hour.is_some() || self.per_day.is_some() {
            let until = people::channels::full_until(&ctx.app, &ctx.corp, id).await;
            self.full_until = until.ok().flatten().map(When);
        }
        self
    }
}

list_query! {
    /// Channels have no filters.
    ChannelQuery {}
}

/// All channels, the latest first.
#[utoipa::path(get, path = "/channels", tag = "channels", operation_id = "list_channels", params(ChannelQuery),
    responses((status = 200, body = List<ChannelView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<ChannelQuery>,
) -> Result<axum::Json<List<ChannelView>>, Problem> {
    let page = query.page();
    let channels = ctx
        .app
        .ledger
        .channels()
        .list(ctx.id(), &page.request()?)
        .await?;
    Ok(axum::Json(List::of(channels, page.limit()?, |channel| {
        ChannelView::from(channel).at(&ctx)
    })))
}

/// One channel. Its `ETag` goes into `If-Match` of a change.
#[utoipa::path(get, path = "/channels/{channel_id}", tag = "channels", operation_id = "get_channel",
    params(("channel_id" = String, Path)), responses((status = 200, body = ChannelView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<ChannelPath>,
) -> Result<Versioned<ChannelView>, Problem> {
    let channel = ctx.app.ledger.channels().get(ctx.id(), &path.id()?).await?;
    let channel = channel.ok_or_else(|| Problem::not_found("channel"))?;
    let version = channel.version;
    let id = channel.id.clone();
    let view = ChannelView::from(channel).at(&ctx);
    Ok(Versioned::ok(version, view.with_end(&ctx, &id).await))
}

/// Makes or changes a channel. `If-Match` with its ETag guards against overwriting somebody else's change,
/// `If-None-Match: *` makes it only if it is new; without either the last writer wins.
#[utoipa::path(put, path = "/channels/{channel_id}", tag = "channels", operation_id = "put_channel",
    params(("channel_id" = String, Path),
        ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)),
    request_body = PutChannel,
    responses((status = 200, body = ChannelView), (status = 201, body = ChannelView),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn put(
    Operator(ctx): Operator,
    Path(path): Path<ChannelPath>,
    Condition(condition): Condition,
    Json(wanted): Json<PutChannel>,
) -> Result<Versioned<ChannelView>, Problem> {
    let id = path.id()?;
    let new = check(&wanted)?;
    let put = ctx
        .app
        .ledger
        .channels()
        .put(ctx.id(), &id, &new, condition, &ctx.trail(None))
        .await?;
    let mut answer = etag::put(put, version, |refused| match refused {
        ChannelRefused::NoPool => Problem::field(
            "/pool",
            "unknown_pool",
            format!("there is no pool {}", wanted.pool),
        ),
        ChannelRefused::PoolOffers => Problem::field(
            "/visits",
            "pool_offers",
            format!(
                "the pool {} asks its members first (`offers`), and a public page shows a member at once; take one of the two away",
                wanted.pool
            ),
        ),
        ChannelRefused::StateTaken { state, channel } => {
            let detail = format!("The State {state} leads to the channel {channel}.");
            Problem::conflict("state_taken", detail)
                .with_current(json!({"state": state, "channel": channel}))
        }
    })?;
    refresh(&ctx, &id).await;
    let view: ChannelView = answer.body;
    answer.body = view.at(&ctx).with_end(&ctx, &id).await;
    Ok(answer)
}

/// Removes a channel. Its States lead to the corp's default pool from then on.
#[utoipa::path(delete, path = "/channels/{channel_id}", tag = "channels", operation_id = "delete_channel",
    params(("channel_id" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 204, description = "It is gone."),
        (status = 412, description = "It is at another version.", body = Details), Refusals))]
async fn delete(
    Operator(ctx): Operator,
    Path(path): Path<ChannelPath>,
    Condition(condition): Condition,
) -> Result<StatusCode, Problem> {
    let id = path.id()?;
    let deleted = ctx
        .app
        .ledger
        .channels()
        .delete(ctx.id(), &id, condition, &ctx.trail(None))
        .await?;
    let gone = etag::deleted(deleted, "channel", version, |never| match never {})?;
    refresh(&ctx, &id).await;
    Ok(gone)
}

fn version(channel: &Channel) -> u64 {
    channel.version
}

#[derive(Debug, Deserialize)]
struct ChannelPath {
    channel_id: String,
}

impl ChannelPath {
    fn id(&self) -> Result<ChannelId, Problem> {
        validate::in_path("channel_id", &self.channel_id)
    }
}

/// Redis knows its limits, and this process routes by it, at once; the other processes with their next comparison.
async fn refresh(ctx: &Ctx, channel: &ChannelId) {
    let told = people::channels::tell_channel(&ctx.app, &ctx.corp, channel).await;
    let read = people::refresh(&ctx.app, &ctx.corp).await;
    if let Err(error) = told.and(read) {
        tracing::warn!(corp = %ctx.id(), error = %error, "channels are told and read anew later");
    }
}

fn check(wanted: &PutChannel) -> Result<NewChannel, Problem> {
    let mut fields = Fields::default();
    let name = fields.name("/name", &wanted.name);
    let pool = fields.parse::<PoolId>("/pool", &wanted.pool);
    if wanted.states.len() > MOST_STATES {
        fields.wrong(
            "/states",
            "too_many",
            format!("at most {MOST_STATES} States are possible"),
        );
    }
    let mut seen = BTreeSet::new();
    for (index, state) in wanted.states.iter().enumerate().take(MOST_STATES) {
        let pointer = format!("/states/{index}");
        if state.is_empty() {
            fields.wrong(&pointer, "empty", "must not be empty");
        }
        if state.chars().any(char::is_control) {
            fields.wrong(
                &pointer,
                "control_character",
                "must not have control characters",
            );
        }
        fields.bytes(&pointer, state, STATE_BYTES);
        if OUR_STATES.iter().any(|ours| state.starts_with(ours)) {
            let ours = OUR_STATES.join(", ");
            fields.wrong(
                &pointer,
                "reserved_state",
                format!("{ours} begin the States of contact ways and join ways that are made for public pages; take another one"),
            );
        }
        if !seen.insert(state) {
            fields.wrong(
                &pointer,
                "duplicate_state",
                format!("{state} is in the list twice"),
            );
        }
    }
    if let Some(welcome) = &wanted.welcome {
        welcome.check("/welcome", &mut fields);
    }
    let needs = needs(&mut fields, &wanted.needs);
    let limits = ChannelLimits {
        per_hour: most(&mut fields, "/per_hour", wanted.per_hour),
        per_day: most(&mut fields, "/per_day", wanted.per_day),
    };
    let visits = wanted
        .visits
        .as_ref()
        .map(|visits| check_visits(visits, &mut fields));
    let welcome = wanted
        .welcome
        .as_ref()
        .map(serde_json::to_value)
        .transpose();
    let welcome = welcome.map_err(|error| Problem::internal(&error))?;
    match pool {
        Some(pool) if fields.is_empty() => Ok(NewChannel {
            name,
            pool,
            states: wanted.states.clone(),
            welcome,
            card: wanted.card,
            needs,
            limits,
            visits,
        }),
        _ => Err(fields
            .check()
            .err()
            .unwrap_or_else(|| Problem::not_found("pool"))),
    }
}

/// A channel that gives nobody is deleted, or its page taken away: 0 is a mistake.
fn most(fields: &mut Fields, pointer: &str, wanted: Option<u64>) -> Option<u32> {
    fields.range(pointer, wanted, LIMITS);
    wanted.and_then(|most| u32::try_from(most).ok())
}

fn check_visits(wanted: &ChannelVisits, fields: &mut Fields) -> Visits {
    let (slots, hold) = (wanted.slots_per_member, wanted.hold_seconds);
    fields.range(
        "/visits/slots_per_member",
        Some(slots.into()),
        0..=MOST_SLOTS,
    );
    fields.range("/visits/hold_seconds", Some(hold.into()), HOLD_SECONDS);
    let title = wanted.title.trim();
    if title.chars().any(char::is_control) {
        fields.wrong(
            "/visits/title",
            "control_character",
            "must not have control characters",
        );
    }
    fields.characters("/visits/title", title, TITLE_CHARS);
    Visits {
        slots_per_member: slots,
        hold_seconds: hold,
        title: title.to_owned(),
    }
}
