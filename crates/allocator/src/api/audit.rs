//! The audit: who changed what, when and why. It is only added to.

use axum::Json as Answer;
use ledger::{AuditFilter, AuditRecord};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::Viewer,
    docs::Refusals,
    extract::Query,
    page::{List, list_query},
    problem::Problem,
    when::When,
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list))
}

#[derive(Debug, Serialize, ToSchema)]
struct AuditView {
    id: String,
    at: When,
    /// `key:<id>` of an API key, or `system`.
    actor: String,
    /// For example `pool.put`.
    action: String,
    /// For example `pools/spring`.
    entity: String,
    #[schema(required)]
    before: Option<Value>,
    #[schema(required)]
    after: Option<Value>,
    #[schema(required)]
    reason: Option<String>,
    /// `X-Request-Id` of the request.
    #[schema(required)]
    request_id: Option<String>,
}

impl From<AuditRecord> for AuditView {
    fn from(record: AuditRecord) -> Self {
        Self {
            id: record.id.to_string(),
            at: When(record.at_ms),
            actor: record.actor,
            action: record.action,
            entity: record.entity,
            before: record.before,
            after: record.after,
            reason: record.reason,
            request_id: record.request_id,
        }
    }
}

list_query! {
    /// Which entries; every filter that is given must match.
    AuditQuery {
        actor: Option<String>,
        action: Option<String>,
        entity: Option<String>,
        #[param(value_type = Option<String>)]
        created_after: Option<When>,
        #[param(value_type = Option<String>)]
        created_before: Option<When>,
    }
}

/// Entries, the latest first.
#[utoipa::path(get, path = "/audit", tag = "audit", operation_id = "list_audit", params(AuditQuery),
    responses((status = 200, body = List<AuditView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<AuditQuery>,
) -> Result<Answer<List<AuditView>>, Problem> {
    let page = query.page();
    let filter = AuditFilter {
        actor: query.actor,
        action: query.action,
        entity: query.entity,
        from_ms: query.created_after.map(|when| when.0),
        before_ms: query.created_before.map(|when| when.0),
    };
    let records = ctx
        .app
        .ledger
        .audit()
        .list(ctx.id(), &filter, &page.request()?)
        .await?;
    Ok(Answer(List::of(records, page.limit()?, AuditView::from)))
}
