//! Asking for an allocation: decided in Redis alone, at once and for good.

use allocation::{
    AllocationId, ChannelId, Decision, MemberId, PoolId, REQUEST_MEMORY_MS, Request, RequestId,
    Skill, SubjectKey,
};
use axum::{
    extract::FromRequestParts,
    http::{HeaderValue, StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{Ctx, LOOK_UP, Operator},
    allocations::entity,
    docs::Refusals,
    extract::Json,
    idempotent,
    ids::SubjectKind,
    problem::Problem,
    routing,
    validate::Fields,
    when::When,
};
use crate::{
    payload::{Context, Payload},
    people,
    reception::{
        intake::WECOM,
        owners::{self, Wish},
        plans::Planned,
    },
};

/// Its own: the Idempotency-Key is the request id that Redis remembers.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(create))
}

/// Whom it is about.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Subject {
    /// `wecom` for an external_userid, else the source that gave the id: 1 to 64 of a-z 0-9 _ - ., beginning with a
    /// letter or digit.
    kind: String,
    /// The outside id, 1 to 128 characters.
    id: String,
}

/// Asks who gets a customer: by a channel, or by a pool.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewAllocation {
    subject: Subject,
    /// The customer goes to the channel's pool.
    channel: Option<String>,
    /// Without a channel: the pool.
    pool: Option<String>,
    /// The member who has the customer at WeCom already; only of a customer of kind `wecom`. If another one is chosen, the
    /// customer is transferred.
    holder: Option<String>,
    /// Skills that a member must have, beside those that the channel needs: together at most 8.
    #[serde(default)]
    #[schema(max_items = 8)]
    needs: Vec<String>,
    /// This member, if he is in one of the pools that serve, is free and has the skills; else whoever is next.
    prefer: Option<String>,
}

impl NewAllocation {
    /// The whole request as text. Of what is not said nothing is in it, so that a repeated request of a version that did
    /// not know it is the same.
    fn printed(&self) -> String {
        let Self {
            subject,
            channel,
            pool,
            holder,
            needs,
            prefer,
        } = self;
        let mut printed = format!(
            "NewAllocation {{ subject: {subject:?}, channel: {channel:?}, pool: {pool:?}, holder: {holder:?} }}"
        );
        if !needs.is_empty() || prefer.is_some() {
            printed.push_str(&format!(" needs: {needs:?}, prefer: {prefer:?}"));
        }
        printed
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Word {
    /// A member was chosen.
    Assigned,
    /// A member is asked, and has not accepted yet.
    Offered,
    /// Nobody is free: the customer stands in the pool's waiting list.
    Waiting,
    /// The customer has an allocation in this pool already.
    Already,
}

/// What was decided.
#[derive(Debug, Serialize, ToSchema)]
struct Decided {
    decision: Word,
    allocation_id: String,
    pool: String,
    #[schema(required)]
    channel: Option<String>,
    /// Who gets the customer, or is asked; null while it waits.
    #[schema(required)]
    member: Option<String>,
    /// Until when the member who is asked may accept.
    #[schema(required)]
    offered_until: Option<When>,
}

/// The request id: the Idempotency-Key, if there is one.
struct Key(Option<RequestId>);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let key = idempotent::key(&parts.headers)?
            .map(RequestId::new)
            .transpose();
        key.map(Self)
            .map_err(|error| Problem::bad_request("invalid_idempotency_key", error.to_string()))
    }
}

/// Decides who gets a customer, at once and for good. A customer with an open allocation in the pool keeps it (200).
/// The Idempotency-Key is the request's id: within 24 h it is answered from Redis, later from the ledger.
#[utoipa::path(post, path = "/allocations", tag = "allocations", operation_id = "create_allocation",
    request_body = NewAllocation,
    responses((status = 201, description = "Assigned, or waiting.", body = Decided),
        (status = 200, description = "There was one already.", body = Decided), Refusals))]
async fn create(
    Operator(ctx): Operator,
    Key(key): Key,
    Json(new): Json<NewAllocation>,
) -> Result<Response, Problem> {
    let mut asked = Asked::check(&ctx, new, key).await?;
    if let Some(decision) = asked.known(&ctx).await? {
        return asked.answer(&ctx, &decision, true).await;
    }
    asked.plan(&ctx).await;
    let context = Context {
        source: "api".to_owned(),
        subject_kind: asked.kind.clone(),
        subject_id: asked.id.clone(),
        channel: asked.channel.as_ref().map(ChannelId::to_string),
        holder: asked.holder.clone(),
        preferred: asked.preferred.clone(),
        received_ms: ctx.app.now_ms(),
        ..Context::default()
    };
    let after = json!({"pool": asked.request.pool, "channel": asked.channel});
    let record = ctx.trail(None).record(
        "allocation.create",
        entity(asked.request.allocation),
        None,
        Some(after),
    );
    let payload = Payload {
        contexts: vec![context],
        ..Payload::default()
    }
    .by(record);
    let applied = ctx
        .corp
        .roster
        .decide(vec![asked.request.clone()], &payload.text(), None)
        .await;
    let applied = applied.map_err(|error| ctx.roster(error))?;
    ctx.corp.log_grew.notify_one();
    match applied.answer.into_iter().next() {
        Some(Decision::Repeated(first)) => {
            asked.fits(&ctx, &first).await?;
            asked.answer(&ctx, &first, true).await
        }
        Some(decision) => asked.answer(&ctx, &decision, false).await,
        None => Err(Problem::internal(&std::io::Error::other(
            "a request without a decision",
        ))),
    }
}

/// A request that makes sense.
struct Asked {
    kind: String,
    id: String,
    channel: Option<ChannelId>,
    holder: Option<String>,
    request: Request,
    /// With those of the channel.
    needs: Vec<Skill>,
    prefer: Option<MemberId>,
    /// Why the plan prefers whom.
    preferred: Vec<String>,
    /// Of the whole request; half of the id of the allocation it makes.
    print: [u8; 8],
}

impl Asked {
    async fn check(ctx: &Ctx, new: NewAllocation, key: Option<RequestId>) -> Result<Self, Problem> {
        let mut fields = Fields::default();
        let printed = new.printed();
        let NewAllocation {
            subject: Subject { kind, id },
            channel,
            pool,
            holder,
            needs,
            prefer,
        } = new;
        fields.parse::<SubjectKind>("/subject/kind", &kind);
        fields.subject_id("/subject/id", &id);
        let holder_id = holder
            .as_deref()
            .and_then(|holder| fields.parse::<MemberId>("/holder", holder));
        if holder.is_some() && kind != WECOM {
            // A transfer would be asked for with an id that means nobody there, or somebody else.
            let problem = "is of WeCom's customers only (kind wecom); leave it out for others";
            fields.wrong("/holder", "not_of_wecom", problem);
        }
        let channel_id = channel
            .as_deref()
            .and_then(|channel| fields.parse::<ChannelId>("/channel", channel));
        let pool_id = pool
            .as_deref()
            .and_then(|pool| fields.parse::<PoolId>("/pool", pool));
        if channel.is_some() == pool.is_some() {
            fields.wrong(
                "/pool",
                "one_of",
                "give the channel or the pool, one of the two",
            );
        }
        let prefer = prefer
            .as_deref()
            .and_then(|member| fields.parse::<MemberId>("/prefer", member));
        let mut needs_of_channel = Vec::new();
        let pool = match (channel_id.as_ref(), pool_id) {
            (Some(channel), _) => match pool_of(ctx, channel).await? {
                Some((pool, needs)) => {
                    needs_of_channel = needs;
                    Some(pool)
                }
                None => {
                    fields.wrong(
                        "/channel",
                        "unknown_channel",
                        format!("there is no channel {channel}"),
                    );
                    None
                }
            },
            (None, pool) => pool,
        };
        let needs = routing::needs_with(&mut fields, &needs, &needs_of_channel);
        fields.check()?;
        let pool = pool.ok_or_else(|| Problem::not_found("pool"))?;
        let mut print = [0; 8];
        let digest = Sha256::digest(format!("{}\u{1f}{printed}", ctx.id()).as_bytes());
        print.copy_from_slice(&digest[..8]);
        let subject = SubjectKey::new(ctx.id(), &kind, &id);
        let allocation = match key {
            Some(_) => printed_id(&print),
            None => Uuid::now_v7(),
        };
        let request = Request {
            allocation: AllocationId(allocation),
            pool,
            subject,
            holder: holder_id,
            request: key,
            echo: false,
            plan: None,
        };
        Ok(Self {
            kind,
            id,
            channel: channel_id,
            holder,
            request,
            needs,
            prefer,
            preferred: Vec::new(),
            print,
        })
    }

    /// A pool that this process has not heard of was perhaps made a moment ago, elsewhere.
    async fn plan(&mut self, ctx: &Ctx) {
        let (app, corp) = (&ctx.app, &ctx.corp);
        if !corp.routes().pools.contains_key(&self.request.pool) {
            people::look_again(app, corp).await;
        }
        let wish = Wish {
            pool: self.request.pool.clone(),
            subject: self.request.subject,
            channel: self.channel.clone(),
            needs: self.needs.clone(),
            prefer: self.prefer.clone(),
            avoid: Default::default(),
        };
        let planned = owners::plans(app, corp, &[wish]).await.pop().flatten();
        self.preferred = planned.as_ref().map_or_else(Vec::new, Planned::words);
        self.request.plan = planned.map(|planned| planned.plan);
    }

    /// What this request id was answered before: in the last 24 h by Redis, earlier by the ledger.
    async fn known(&self, ctx: &Ctx) -> Result<Option<Decision>, Problem> {
        let Some(key) = &self.request.request else {
            return Ok(None);
        };
        let remembered = ctx
            .corp
            .roster
            .remembered(key)
            .await
            .map_err(|error| ctx.roster(error))?;
        let fresh = remembered.filter(|known| ctx.app.now_ms() < known.at_ms + REQUEST_MEMORY_MS);
        if let Some(known) = fresh {
            self.fits(ctx, &known.decision).await?;
            return Ok(Some(known.decision));
        }
        let table = ctx.app.ledger.allocations();
        let row = match tokio::time::timeout(LOOK_UP, table.by_request(ctx.id(), key)).await {
            Ok(Ok(row)) => row,
            Ok(Err(error)) if !error.is_passing() => return Err(error.into()),
            // Deciding does not wait for Postgres. A key older than 24 h may then decide once more, which the one open
            // allocation of each pool and customer keeps from giving him to a second member.
            _ => {
                tracing::warn!(corp = %ctx.id(), "an older request id could not be looked up");
                None
            }
        };
        let Some(row) = row else { return Ok(None) };
        if row.subject != self.request.subject || row.pool != self.request.pool {
            return Err(idempotent::other_request());
        }
        Ok(Some(match (row.member, row.offer_until_ms) {
            (Some(member), Some(until_ms)) => Decision::Offered {
                allocation: row.id,
                member,
                until_ms,
            },
            (Some(member), None) => Decision::Assigned {
                allocation: row.id,
                member,
            },
            (None, _) => Decision::Waiting { allocation: row.id },
        }))
    }

    /// Refuses a key that was used for another request. The allocation a request made has its print in its id; one
    /// that was there already must be this customer's, in this pool.
    async fn fits(&self, ctx: &Ctx, first: &Decision) -> Result<(), Problem> {
        let (allocation, made) = match first {
            Decision::Assigned { allocation, .. }
            | Decision::Offered { allocation, .. }
            | Decision::Waiting { allocation } => (*allocation, true),
            Decision::Already { allocation, .. } | Decision::Echo { allocation, .. } => {
                (*allocation, false)
            }
            Decision::Repeated(_) | Decision::NoPool => return Ok(()),
        };
        if made {
            let same = printed_id(&self.print).as_bytes()[8..] == allocation.0.as_bytes()[8..];
            return if same {
                Ok(())
            } else {
                Err(idempotent::other_request())
            };
        }
        let open = ctx
            .corp
            .roster
            .allocations_of(&self.request.subject)
            .await
            .map_err(|error| ctx.roster(error))?;
        if open
            .iter()
            .any(|open| open.allocation == allocation && open.pool == self.request.pool)
        {
            return Ok(());
        }
        let row = ctx
            .app
            .ledger
            .allocations()
            .get(ctx.id(), allocation)
            .await?;
        match row {
            Some(row) if row.subject == self.request.subject && row.pool == self.request.pool => {
                Ok(())
            }
            _ => Err(idempotent::other_request()),
        }
    }

    async fn answer(
        &self,
        ctx: &Ctx,
        decision: &Decision,
        again: bool,
    ) -> Result<Response, Problem> {
        let (word, allocation, member) = match decision {
            Decision::Assigned { allocation, member } => (Word::Assigned, allocation, Some(member)),
            Decision::Offered {
                allocation, member, ..
            } => (Word::Offered, allocation, Some(member)),
            Decision::Waiting { allocation } => (Word::Waiting, allocation, None),
            Decision::Already { allocation, member } => {
                (Word::Already, allocation, member.as_ref())
            }
            Decision::Echo { allocation, .. } => (Word::Already, allocation, None),
            Decision::NoPool | Decision::Repeated(_) => return Err(self.no_pool()),
        };
        let member = match member {
            Some(member) => Some(ctx.userid(member).await),
            None => None,
        };
        let body = Decided {
            decision: word,
            allocation_id: allocation.to_string(),
            pool: self.request.pool.to_string(),
            channel: self.channel.as_ref().map(ChannelId::to_string),
            member,
            offered_until: match decision {
                Decision::Offered { until_ms, .. } => Some(When(*until_ms)),
                _ => None,
            },
        };
        let status = if word == Word::Already {
            StatusCode::OK
        } else {
            StatusCode::CREATED
        };
        let mut response = (status, axum::Json(body)).into_response();
        if again {
            response
                .headers_mut()
                .insert(idempotent::REPLAYED, HeaderValue::from_static("true"));
        }
        Ok(response)
    }

    fn no_pool(&self) -> Problem {
        if self.channel.is_some() {
            // A channel's pool exists; Redis has not heard of it yet.
            return Problem::unavailable("not_ready", "The pool is not in use yet. Try again.", 2);
        }
        Problem::field(
            "/pool",
            "unknown_pool",
            format!("there is no pool {}", self.request.pool),
        )
    }
}

/// A UUID of version 7 whose random half is the print.
fn printed_id(print: &[u8; 8]) -> Uuid {
    let mut bytes = *Uuid::now_v7().as_bytes();
    bytes[8..].copy_from_slice(print);
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Uuid::from_bytes(bytes)
}

/// Its pool and what it needs. From memory; a channel that is not there may have been made a moment ago, elsewhere.
async fn pool_of(ctx: &Ctx, channel: &ChannelId) -> Result<Option<(PoolId, Vec<Skill>)>, Problem> {
    if let Some(known) = ctx.corp.routes().channels.get(channel) {
        return Ok(Some((known.pool.clone(), known.needs.clone())));
    }
    let channel = ctx.app.ledger.channels().get(ctx.id(), channel).await?;
    Ok(channel.map(|channel| (channel.pool, channel.needs)))
}
