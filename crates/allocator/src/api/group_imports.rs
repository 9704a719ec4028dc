//! Importing the customer groups that there are at WeCom.

use std::collections::BTreeSet;

use allocation::{GroupPoolId, MemberId};
use axum::response::Response;
use ledger::GROUP_IMPORTS;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::Operator,
    docs::Refusals,
    extract::MaybeJson,
    groups,
    operations::{OperationView, begin},
    problem::Problem,
    validate::Fields,
};
use crate::fission::import::{GroupImport, ImportState};

const MOST_OWNERS: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(import))
}

/// Which groups, and what becomes of those that are new: not known, or known by WeCom's event or by an import without a pool
/// alone, so that nobody has said anything of them yet.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct PostGroupImport {
    /// The groups of these userids, at most 1,000; left out: of everybody in the app's range. Groups of an owner who has left
    /// are found by naming him only.
    #[schema(max_items = 1000)]
    owners: Option<Vec<String>>,
    /// The pool that new groups come into; null: into none.
    group_pool: Option<String>,
    /// What new groups are.
    #[schema(default = "spare")]
    state: ImportState,
    /// Of new groups.
    #[schema(max_items = 8)]
    tags: Vec<String>,
}

/// Reads the customer groups that there are at WeCom, each once, within the quota. 202 and an operation that counts them. A group
/// that is new becomes what the request says; of one that an operator has put somewhere only what WeCom says of it is written,
/// and where that is not `group_pool` it counts as `skipped`. A group that cannot be read is named in `first_errors` and the
/// others go on. Done again it is done once.
#[utoipa::path(post, path = "/group-imports", tag = "groups", operation_id = "import_groups",
    request_body = Option<PostGroupImport>, responses((status = 202, body = OperationView), Refusals))]
async fn import(
    Operator(ctx): Operator,
    MaybeJson(wanted): MaybeJson<PostGroupImport>,
) -> Result<Response, Problem> {
    let import = check(&wanted)?;
    if let Some(pool) = &import.group_pool {
        let pools = ctx.app.ledger.group_pools();
        let found = pools.get(ctx.id(), pool).await?;
        found.ok_or_else(|| groups::no_pool(pool.as_str()))?;
    }
    let request = serde_json::to_value(&import).map_err(|error| Problem::internal(&error))?;
    begin(&ctx, GROUP_IMPORTS, 0, &request, None).await
}

fn check(wanted: &PostGroupImport) -> Result<GroupImport, Problem> {
    let mut fields = Fields::default();
    let owners = wanted.owners.as_ref();
    let owners = owners.map(|owners| check_owners(&mut fields, owners));
    let pool = wanted.group_pool.as_deref();
    let group_pool = pool.and_then(|pool| fields.parse::<GroupPoolId>("/group_pool", pool));
    let tags = groups::tags(&mut fields, &wanted.tags);
    fields.check()?;
    Ok(GroupImport {
        owners: owners.unwrap_or_default(),
        group_pool,
        state: wanted.state,
        tags,
    })
}

fn check_owners(fields: &mut Fields, wanted: &[String]) -> Vec<MemberId> {
    if wanted.is_empty() {
        let message = "must name somebody; leave it out for the groups of everybody";
        fields.wrong("/owners", "empty", message);
    }
    if wanted.len() > MOST_OWNERS {
        let message = format!("at most {MOST_OWNERS} owners are possible");
        fields.wrong("/owners", "too_many", message);
    }
    let mut owners = BTreeSet::new();
    for (index, userid) in wanted.iter().enumerate().take(MOST_OWNERS) {
        let pointer = format!("/owners/{index}");
        let Some(owner) = fields.parse::<MemberId>(pointer.clone(), userid) else {
            continue;
        };
        if !owners.insert(owner) {
            let message = format!("{userid} is in the list twice");
            fields.wrong(pointer, "duplicate_owner", message);
        }
    }
    owners.into_iter().collect()
}
