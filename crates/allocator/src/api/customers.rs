//! Forgetting a person: his outside id goes, and everything that names him.

use allocation::{Closing, Reason, SubjectKey};
use axum::Json as Answer;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};
use wecom::event::{Body, Event};

use super::{
    Api,
    access::{Admin, Ctx},
    docs::Refusals,
    extract::{Path, Query},
    ids::SubjectKind,
    problem::Problem,
    validate::Fields,
};
use crate::{decide::dirty, reception::intake::WECOM};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(forget))
}

#[derive(Debug, Deserialize)]
struct CustomerPath {
    customer_id: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct CustomerQuery {
    /// The kind of the outside id; `wecom` (an external_userid) without it.
    kind: Option<String>,
}

/// What was emptied.
#[derive(Debug, Serialize, ToSchema)]
struct Forgotten {
    /// Whether the customer was known.
    known: bool,
    /// Raw deliveries in the ledger.
    deliveries: u64,
    /// Effects: payloads and answers; those not sent yet are cancelled.
    effects: u64,
    /// Deliveries in Redis, handled or not.
    stream_entries: u64,
    /// Marks in Redis that WeCom was to be asked about him.
    marks: u64,
}

/// Forgets a customer: closes his allocations, deletes the mapping to his outside id and empties raw deliveries, effects,
/// streams and marks. Rows that refer to him stay under a hash of his id and name nobody: only who has the id still can look
/// for them. Repeating it is harmless; should he come again, he is new.
#[utoipa::path(delete, path = "/customers/{customer_id}", tag = "customers", operation_id = "forget_customer",
    params(("customer_id" = String, Path, description = "The outside id."), CustomerQuery),
    responses((status = 200, body = Forgotten), Refusals))]
async fn forget(
    Admin(ctx): Admin,
    Path(path): Path<CustomerPath>,
    Query(query): Query<CustomerQuery>,
) -> Result<Answer<Forgotten>, Problem> {
    let kind = query.kind.as_deref().unwrap_or(WECOM);
    let mut fields = Fields::default();
    fields.parse::<SubjectKind>("query:kind", kind);
    fields.subject_id("path:customer_id", &path.customer_id);
    fields.check()?;
    let subject = SubjectKey::new(ctx.id(), kind, &path.customer_id);
    let id = path.customer_id;
    // First what would bring him back: deliveries that are not handled yet, and log entries that are not written yet.
    let is_his = |_: &str, plaintext: &str| {
        kind == WECOM && plaintext.contains(id.as_str()) && names(plaintext, &id)
    };
    let stream_entries = ctx.corp.inbox.scrub(is_his).await?;
    close_all(&ctx, subject).await?;
    ctx.caught_up().await?;
    let marks = forget_marks(&ctx, kind, &id).await?;
    let trail = ctx.trail(None);
    let forgotten = ctx
        .app
        .ledger
        .customers()
        .forget(ctx.id(), &subject, trail.now_ms)
        .await?;
    let after = json!({
        "known": forgotten.customer,
        "deliveries": forgotten.deliveries,
        "effects": forgotten.effects,
        "stream_entries": stream_entries,
        "marks": marks,
    });
    // By the hash: the audit must not keep what was to be forgotten.
    ctx.audit(trail.record(
        "customer.forget",
        format!("customers/{subject}"),
        None,
        Some(after),
    ))
    .await?;
    Ok(Answer(Forgotten {
        known: forgotten.customer,
        deliveries: forgotten.deliveries,
        effects: forgotten.effects,
        stream_entries,
        marks,
    }))
}

/// Nobody is anybody's customer for being forgotten: his members are free for others.
async fn close_all(ctx: &Ctx, subject: SubjectKey) -> Result<(), Problem> {
    let reason = Reason::new("forgotten").map_err(|_| Problem::not_found("reason"))?;
    let closing = Closing {
        subject,
        pool: None,
        member: None,
        allocation: None,
        reason,
    };
    let roster = &ctx.corp.roster;
    roster
        .close(vec![closing], "", None)
        .await
        .map_err(|error| ctx.roster(error))?;
    ctx.corp.log_grew.notify_one();
    Ok(())
}

async fn forget_marks(ctx: &Ctx, kind: &str, id: &str) -> Result<u64, Problem> {
    let mut marks = 0;
    if kind == WECOM {
        for kind in dirty::OF_CUSTOMERS {
            let is_his = |entity: &str| dirty::names(entity, id);
            marks += ctx.corp.inbox.dirty_forget(kind, is_his).await?;
        }
    }
    Ok(marks)
}

/// Whether a delivery is about this customer. One that cannot be read and has his id in it is taken for his.
fn names(plaintext: &str, id: &str) -> bool {
    match Event::parse(plaintext).map(|event| event.body) {
        Ok(Body::ExternalContact(contact)) => contact.external_user_id == id,
        Ok(_) | Err(_) => true,
    }
}
