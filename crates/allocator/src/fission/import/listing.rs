//! Which customer groups there are at WeCom.

use std::collections::BTreeSet;

use allocation::{ChatId, MemberId};
use ledger::GroupProblem;
use quota::Urgency;
use serde_json::{Value, json};
use wecom::client::{GROUP_OWNERS_MAX, GroupChatFilter, GroupChatPage, api};
use wecom::error::Class;

use super::{super::get::problem_of, Error};
use crate::{
    app::{App, CorpApp},
    permit,
};

/// More than 1,000 members are in the app's range: owners must be named.
const TOO_MANY_VISIBLE: i64 = 81017;

#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) groups: BTreeSet<ChatId>,
    /// Owners whose groups WeCom does not list, and ids that cannot be ours.
    pub(super) refused: Vec<(Value, GroupProblem)>,
}

/// Of these owners; of nobody: of everybody in the app's range.
pub(super) async fn list(app: &App, corp: &CorpApp, owners: &[MemberId]) -> Result<Listed, Error> {
    let mut listed = Listed::default();
    let mut owners: Vec<String> = owners.iter().map(MemberId::to_string).collect();
    if owners.is_empty() {
        match pages(app, corp, &[]).await? {
            Ok(pages) => {
                listed.take(pages);
                return Ok(listed);
            }
            Err(error) if error.errcode() == Some(TOO_MANY_VISIBLE) => {
                owners = members(app, corp).await?;
            }
            Err(error) => return Err(Error::Wecom(error)),
        }
    }
    let chunks = owners.chunks(GROUP_OWNERS_MAX).rev();
    let mut to_ask: Vec<&[String]> = chunks.collect();
    while let Some(some) = to_ask.pop() {
        match (pages(app, corp, some).await?, some) {
            (Ok(pages), _) => listed.take(pages),
            (Err(error), [owner]) => {
                let problem = problem_of(&error);
                listed.refused.push((json!({"owner": owner}), problem));
            }
            // Whose fault it is shows when they are asked for apart.
            (Err(_), many) => {
                let (one, other) = many.split_at(many.len() / 2);
                to_ask.extend([other, one]);
            }
        }
    }
    Ok(listed)
}

impl Listed {
    fn take(&mut self, pages: Vec<GroupChatPage>) {
        for group in pages.into_iter().flat_map(|page| page.group_chat_list) {
            match ChatId::new(group.chat_id.clone()) {
                Ok(chat) => {
                    self.groups.insert(chat);
                }
                Err(error) => {
                    let problem = GroupProblem {
                        errcode: None,
                        error: error.to_string(),
                    };
                    let what = json!({"group": group.chat_id});
                    self.refused.push((what, problem));
                }
            }
        }
    }
}

/// The inner error is about these owners.
async fn pages(
    app: &App,
    corp: &CorpApp,
    owners: &[String],
) -> Result<Result<Vec<GroupChatPage>, wecom::Error>, Error> {
    let filter = GroupChatFilter::of_owners(owners);
    let read = |cursor: Option<String>| {
        let filter = &filter;
        async move { corp.client.list_group_chat(filter, cursor.as_deref()).await }
    };
    let next = |page: &mut GroupChatPage| std::mem::take(&mut page.next_cursor);
    let pages = permit::pages(app, corp, api::LIST_GROUP_CHAT, read, next);
    let pages = pages.await.map_err(|until_ms| Error::Budget { until_ms })?;
    match pages {
        Err(error) if error.class() == Class::RateLimited => Err(Error::Budget {
            until_ms: app.now_ms(),
        }),
        Err(error) if is_of_nobody(&error) => Err(Error::Wecom(error)),
        pages => Ok(pages),
    }
}

/// Whoever had been named, it would be the same.
fn is_of_nobody(error: &wecom::Error) -> bool {
    let class = error.class();
    error.stops_the_app() || matches!(class, Class::RetryWithBackoff | Class::RefreshToken)
}

/// Who may have customer groups.
async fn members(app: &App, corp: &CorpApp) -> Result<Vec<String>, Error> {
    let api = api::GET_FOLLOW_USER_LIST;
    let permit = permit::take(app, corp, api, Urgency::Ordinary).await;
    let permit = permit.map_err(|until_ms| Error::Budget { until_ms })?;
    let answer = corp.client.get_follow_user_list().await;
    permit::done(app, corp, api, &permit, &answer).await;
    match answer {
        Err(error) if error.class() == Class::RateLimited => Err(Error::Budget {
            until_ms: app.now_ms(),
        }),
        answer => answer.map_err(Error::Wecom),
    }
}
