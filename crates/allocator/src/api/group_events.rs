//! What groups' people should not have done, or our numbers of them: groups that got too many people past us, and what a read mended.

use std::collections::HashMap;

use allocation::{ChatId, MAX_SCAN_CAP};
use ledger::{Group, GroupEvent, GroupEventKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::Viewer,
    docs::Refusals,
    extract::Query,
    page::{List, list_query},
    problem::Problem,
    validate::Fields,
    when::When,
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list))
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum GroupEventWord {
    /// More people came in past us than the group has room for.
    Oversold,
    /// What was known of it was not what is.
    Mended,
}

impl From<GroupEventWord> for GroupEventKind {
    fn from(word: GroupEventWord) -> Self {
        match word {
            GroupEventWord::Oversold => Self::Oversold,
            GroupEventWord::Mended => Self::Mended,
        }
    }
}

impl From<GroupEventKind> for GroupEventWord {
    fn from(kind: GroupEventKind) -> Self {
        match kind {
            GroupEventKind::Oversold => Self::Oversold,
            GroupEventKind::Mended => Self::Mended,
        }
    }
}

/// Something that happened to a group.
#[derive(Debug, Serialize, ToSchema)]
struct GroupEventView {
    id: String,
    chat_id: String,
    at: When,
    kind: GroupEventWord,
    /// How many people were known to be in it before, and then.
    people_before: u32,
    people: u32,
    /// By how many those who are in it, or were shown it, were then above its `scan_cap`; null: it was mended.
    #[schema(required)]
    excess: Option<u32>,
    /// A `buffer` with which they would have had room, by what the group has now: put it into the group or its pool.
    /// Null: it was mended, or the group is in no pool any more.
    #[schema(required)]
    suggested_buffer: Option<u32>,
    /// What was mended.
    #[schema(required)]
    reason: Option<String>,
}

list_query! {
    /// Which events; every filter that is given must match.
    GroupEventQuery {
        chat_id: Option<String>,
        #[param(inline)]
        kind: Option<GroupEventWord>,
    }
}

/// Groups that got too many people, and what was mended, the latest first.
#[utoipa::path(get, path = "/group-events", tag = "groups", operation_id = "list_group_events", params(GroupEventQuery),
    responses((status = 200, body = List<GroupEventView>), Refusals))]
async fn list(
    Viewer(ctx): Viewer,
    Query(query): Query<GroupEventQuery>,
) -> Result<axum::Json<List<GroupEventView>>, Problem> {
    let page = query.page();
    let mut fields = Fields::default();
    let chat = query.chat_id.as_deref();
    let chat = chat.and_then(|chat| fields.parse::<ChatId>("query:chat_id", chat));
    fields.check()?;
    let kind = query.kind.map(GroupEventKind::from);
    let table = ctx.app.ledger.seats();
    let events = table
        .group_events(ctx.id(), chat.as_ref(), kind, &page.request()?)
        .await?;
    let mut chats: Vec<ChatId> = events
        .items
        .iter()
        .map(|event| event.chat.clone())
        .collect();
    chats.sort();
    chats.dedup();
    let groups = ctx.app.ledger.groups().get_many(ctx.id(), &chats).await?;
    let groups: HashMap<ChatId, Group> = groups
        .into_iter()
        .map(|group| (group.id.clone(), group))
        .collect();
    Ok(axum::Json(List::of(events, page.limit()?, |event| {
        view(groups.get(&event.chat), event)
    })))
}

fn view(group: Option<&Group>, event: GroupEvent) -> GroupEventView {
    let caps = group.and_then(|group| group.caps);
    let suggested = event.excess.zip(caps);
    GroupEventView {
        id: event.id.to_string(),
        chat_id: event.chat.into(),
        at: When(event.at_ms),
        kind: event.kind.into(),
        people_before: event.people_before,
        people: event.people,
        excess: event.excess,
        // It stays below scan_cap, or it would close the group.
        suggested_buffer: suggested.map(|(excess, caps)| {
            let most = caps.scan_cap.min(MAX_SCAN_CAP).saturating_sub(1);
            caps.buffer.saturating_add(excess).min(most)
        }),
        reason: event.reason,
    }
}
