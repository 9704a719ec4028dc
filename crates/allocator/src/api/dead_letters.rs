//! Dead letters: deliveries that no reader could handle. A person looks, then replays or discards them. What both kinds
//! of dead letters ask of a request is here too.

use axum::{
    Json as Answer,
    response::{IntoResponse, Response},
};
use inbox::{DeadLetter, EntryId, Group, Selection};
use ledger::{DeliveryOutcome, Role};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Operator, Viewer},
    docs::Refusals,
    extract::{Json, Query},
    operations::{DryRun, OperationView, begin},
    page::{List, PageInfo, PageQuery, list_query},
    problem::Problem,
    tree::quoted,
    validate::Fields,
    when::When,
    work,
};

const MOST_IDS: usize = 1_000;
const LONGEST_REASON: usize = 500;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_inbox))
        .routes(routes!(replay_inbox))
        .routes(routes!(discard_inbox))
}

/// A delivery that was given up.
#[derive(Debug, Serialize, ToSchema)]
struct DeadDelivery {
    id: String,
    /// Who gave it up: `record` or `decide`.
    group: &'static str,
    tries: u32,
    reason: String,
    failed_at: When,
    delivery_id: String,
    endpoint: String,
    received_at: When,
    /// The decrypted text, for admins; it names a customer.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

/// Which ones: some by id, or all.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Chosen {
    /// At most 1,000.
    #[schema(max_items = 1000)]
    pub(super) ids: Option<Vec<String>>,
    /// Instead of ids: all that are there now.
    #[serde(default)]
    pub(super) all: bool,
    /// Why, for the audit; at most 500 characters.
    pub(super) note: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Discard {
    /// At most 1,000.
    #[schema(max_items = 1000)]
    pub(super) ids: Vec<String>,
    /// Why; 1 to 500 characters.
    pub(super) reason: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Counted {
    /// Those that were there.
    pub(super) matched: u64,
    /// Those that were replayed or discarded; none in a dry run.
    pub(super) changed: u64,
}

list_query! {
    /// Dead deliveries have no filters.
    DeadInboxQuery {}
}

/// Dead deliveries, the latest first.
#[utoipa::path(get, path = "/dead-letters/inbox", tag = "dead letters", operation_id = "list_dead_deliveries",
    params(DeadInboxQuery), responses((status = 200, body = List<DeadDelivery>), Refusals))]
async fn list_inbox(
    Viewer(ctx): Viewer,
    Query(query): Query<DeadInboxQuery>,
) -> Result<Answer<List<DeadDelivery>>, Problem> {
    let query = query.page();
    let (letters, page) = page(&ctx, &query).await?;
    let with_body = ctx.role >= Role::Admin;
    let data = letters.into_iter().map(|letter| DeadDelivery {
        id: letter.id.to_string(),
        group: letter.group.as_str(),
        tries: letter.tries,
        reason: letter.reason,
        failed_at: When(letter.failed_ms),
        delivery_id: letter.delivery.to_string(),
        endpoint: letter.endpoint,
        received_at: When(letter.received_ms),
        body: with_body.then_some(letter.plaintext),
    });
    Ok(Answer(List {
        data: data.collect(),
        page,
    }))
}

/// The ids of a stream are its order, so a cursor is an id with a direction.
async fn page(ctx: &Ctx, query: &PageQuery) -> Result<(Vec<DeadLetter>, PageInfo), Problem> {
    let limit = query.limit()?;
    let more = limit as usize + 1;
    let cursor = query.cursor().map(|cursor| {
        let (direction, id) = cursor.split_once('.').ok_or_else(Problem::cursor)?;
        Ok::<_, Problem>((
            direction == "b",
            id.parse::<EntryId>().map_err(|_| Problem::cursor())?,
        ))
    });
    let inbox = &ctx.corp.inbox;
    let (backward, at) = cursor.transpose()?.unzip();
    let backward = backward.unwrap_or_default();
    let mut letters = match (backward, at) {
        (true, Some(at)) => {
            let seq = at.seq.checked_add(1).ok_or_else(Problem::cursor)?;
            let after = EntryId { ms: at.ms, seq };
            inbox.dead_list(after, EntryId::MAX, more).await?
        }
        // Nothing is before it, and Redis refuses to look there.
        (false, Some(EntryId::MIN)) => return Err(Problem::cursor()),
        (_, before) => inbox.dead_latest(before, more).await?,
    };
    let has_more = letters.len() == more;
    letters.truncate(limit as usize);
    if backward {
        letters.reverse();
    }
    let older = (has_more || backward)
        .then(|| letters.last().map(|letter| format!("f.{}", letter.id)))
        .flatten();
    let newer = if backward { has_more } else { at.is_some() };
    let newer = newer
        .then(|| letters.first().map(|letter| format!("b.{}", letter.id)))
        .flatten();
    Ok((
        letters,
        PageInfo {
            next: older,
            prev: newer,
            limit,
        },
    ))
}

/// Gives dead deliveries another chance, with the reader that gave them up. Some at once (200), all as an operation
/// (202); with `dry_run` it counts.
#[utoipa::path(post, path = "/dead-letters/inbox/replay", tag = "dead letters", operation_id = "replay_dead_deliveries",
    params(DryRun), request_body = Chosen,
    responses((status = 200, body = Counted), (status = 202, body = OperationView), Refusals))]
async fn replay_inbox(
    Operator(ctx): Operator,
    Query(query): Query<DryRun>,
    Json(chosen): Json<Chosen>,
) -> Result<Response, Problem> {
    let ids = chosen.check::<EntryId>()?;
    let Some(ids) = ids else {
        // Counted, not read: there may be many, and the operation reads them.
        let matched = ctx.corp.inbox.stats(None).await?.dead;
        if query.dry_run {
            return Ok(Answer(Counted {
                matched,
                changed: 0,
            })
            .into_response());
        }
        // What dies while it runs is left to the next one.
        let last = ctx
            .corp
            .inbox
            .dead_latest(None, 1)
            .await?
            .pop()
            .map_or(EntryId::MIN, |letter| letter.id);
        return begin(
            &ctx,
            work::DEAD_DELIVERIES,
            matched,
            &json!({"to": last.to_string()}),
            chosen.note,
        )
        .await;
    };
    let found = ctx
        .corp
        .inbox
        .dead_replay(&Selection::Ids(ids.clone()), query.dry_run)
        .await?;
    if !query.dry_run {
        let after = json!({"ids": names(&ids), "replayed": found.replayed});
        let record = ctx.trail(chosen.note).record(
            "dead_letters.replay",
            "dead-letters/inbox".to_owned(),
            None,
            Some(after),
        );
        ctx.audit(record).await?;
    }
    Ok(Answer(Counted {
        matched: found.matched,
        changed: found.replayed,
    })
    .into_response())
}

/// Gives dead deliveries up for good. Their raw records stay in the ledger.
#[utoipa::path(post, path = "/dead-letters/inbox/discard", tag = "dead letters", operation_id = "discard_dead_deliveries",
    request_body = Discard, responses((status = 200, body = Counted), Refusals))]
async fn discard_inbox(
    Operator(ctx): Operator,
    Json(wanted): Json<Discard>,
) -> Result<Answer<Counted>, Problem> {
    let ids = wanted.check::<EntryId>()?;
    let mut letters = Vec::new();
    for id in &ids {
        letters.extend(ctx.corp.inbox.dead_list(*id, *id, 1).await?);
    }
    // Said before it is done: what is gone cannot be told any more.
    let before = json!({"ids": names(&ids)});
    let trail = ctx.trail(Some(wanted.reason));
    ctx.audit(trail.record(
        "dead_letters.discard",
        "dead-letters/inbox".to_owned(),
        Some(before),
        None,
    ))
    .await?;
    decided_by_hand(&ctx, &letters).await?;
    let changed = ctx.corp.inbox.dead_remove(&ids).await?;
    Ok(Answer(Counted {
        matched: letters.len() as u64,
        changed,
    }))
}

/// Nothing else will come of these: without an outcome their day would be kept for ever.
async fn decided_by_hand(ctx: &Ctx, letters: &[DeadLetter]) -> Result<(), Problem> {
    let deliveries = ctx.app.ledger.deliveries();
    let given_up: Vec<(String, u64)> = letters
        .iter()
        .filter(|letter| letter.group == Group::Decide && letter.received_ms > 0)
        .map(|letter| (letter.delivery.to_string(), letter.received_ms))
        .collect();
    let decided = deliveries.decided(ctx.id(), &given_up).await?;
    let outcomes: Vec<DeliveryOutcome> = given_up
        .into_iter()
        .filter(|(delivery, _)| !decided.contains_key(delivery))
        .map(|(delivery, received_ms)| DeliveryOutcome {
            delivery,
            received_ms,
            outcome: work::DISCARDED.to_owned(),
            reason: Some("dead_letter".to_owned()),
            allocation: None,
        })
        .collect();
    deliveries
        .set_outcomes(ctx.id(), &outcomes, ctx.app.now_ms())
        .await?;
    Ok(())
}

pub(super) fn names<T: ToString>(ids: &[T]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

impl Chosen {
    /// None: all.
    pub(super) fn check<T: std::str::FromStr>(&self) -> Result<Option<Vec<T>>, Problem> {
        let mut fields = Fields::default();
        if self.all == self.ids.is_some() {
            fields.wrong("/ids", "one_of", "give ids, or all: true, one of the two");
        }
        fields.characters(
            "/note",
            self.note.as_deref().unwrap_or_default(),
            LONGEST_REASON,
        );
        let ids = self.ids.as_ref().map(|ids| parse(&mut fields, ids));
        fields.check()?;
        Ok(ids)
    }
}

impl Discard {
    pub(super) fn check<T: std::str::FromStr>(&self) -> Result<Vec<T>, Problem> {
        let mut fields = Fields::default();
        if self.reason.trim().is_empty() {
            fields.wrong("/reason", "empty", "must not be empty");
        }
        fields.characters("/reason", &self.reason, LONGEST_REASON);
        let ids = parse(&mut fields, &self.ids);
        fields.check()?;
        Ok(ids)
    }
}

fn parse<T: std::str::FromStr>(fields: &mut Fields, ids: &[String]) -> Vec<T> {
    if ids.is_empty() {
        fields.wrong("/ids", "empty", "must not be empty");
    }
    if ids.len() > MOST_IDS {
        fields.wrong(
            "/ids",
            "too_many",
            format!("at most {MOST_IDS} ids are possible"),
        );
    }
    let mut parsed = Vec::new();
    for (index, id) in ids.iter().enumerate().take(MOST_IDS) {
        match id.parse() {
            Ok(id) => parsed.push(id),
            Err(_) => {
                let message = format!("must be an id as the list has it, not {}", quoted(id));
                fields.wrong(format!("/ids/{index}"), "invalid", message);
            }
        }
    }
    parsed
}
