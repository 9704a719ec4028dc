//! Asking WeCom for one group, within the quota, and what its answer means.

use allocation::ChatId;
use ledger::{GroupProblem, GroupRead};
use quota::Urgency;
use wecom::client::{GroupChat, GroupMember, MemberNames, api};
use wecom::error::Class;

use crate::{
    app::{App, CorpApp},
    permit,
};

/// There is no such group any more.
pub(super) const DISSOLVED: i64 = 49008;
/// The group is none of customers, its owner lacks the customer-contact function, or it is another corp's.
const NOT_A_CUSTOMER_GROUP: i64 = 90501;

/// What WeCom says of a chat_id that is none: missing, or of no group that it knows.
const NO_GROUP: [i64; 3] = [40050, 86001, 86003];

/// What became of asking for one group.
pub(super) enum Answer {
    Read(Box<Found>),
    /// Again would be the same.
    Refused(GroupProblem),
    /// Nobody knows.
    Unanswered(wecom::Error),
    /// No call before this.
    Wait(u64),
}

/// A group, and everybody who is in it.
pub(super) struct Found {
    pub(super) read: GroupRead,
    pub(super) members: Vec<GroupMember>,
    /// Since when there is such a group, as WeCom says it: to the second.
    pub(super) made_ms: Option<u64>,
}

pub(super) async fn ask(app: &App, corp: &CorpApp, chat: &ChatId) -> Answer {
    let permit = match permit::take(app, corp, api::GET_GROUP_CHAT, Urgency::Ordinary).await {
        Ok(permit) => permit,
        Err(until_ms) => return Answer::Wait(until_ms),
    };
    let read_ms = app.now_ms();
    let answer = corp
        .client
        .get_group_chat(chat.as_str(), MemberNames::Hidden)
        .await;
    permit::done(app, corp, api::GET_GROUP_CHAT, &permit, &answer).await;
    match answer {
        Ok(group) => found(chat, group, read_ms),
        Err(error) => match error.class() {
            _ if error.stops_the_app() => Answer::Unanswered(error),
            // The budget knows for how long.
            Class::RateLimited => Answer::Wait(read_ms),
            Class::RetryWithBackoff | Class::RefreshToken => Answer::Unanswered(error),
            _ => Answer::Refused(problem_of(&error)),
        },
    }
}

/// Why WeCom has no such group of customers; None: it has, or nobody knows.
pub(crate) async fn missing(app: &App, corp: &CorpApp, chat: &ChatId) -> Option<String> {
    match ask(app, corp, chat).await {
        Answer::Refused(GroupProblem {
            errcode: Some(code),
            error,
        }) if code == DISSOLVED || code == NOT_A_CUSTOMER_GROUP || NO_GROUP.contains(&code) => {
            Some(error)
        }
        _ => None,
    }
}

fn found(chat: &ChatId, group: GroupChat, read_ms: u64) -> Answer {
    // Its owner at least is in a group.
    let Some(members) = group.member_list.filter(|members| !members.is_empty()) else {
        return Answer::Refused(GroupProblem {
            errcode: None,
            error: "WeCom's answer does not say who is in it".to_owned(),
        });
    };
    let made_ms = group
        .create_time
        .and_then(|made_s| u64::try_from(made_s).ok());
    let made_ms = made_ms.map(|made_s| made_s.saturating_mul(1_000));
    let read = GroupRead {
        chat: chat.clone(),
        name: group.name,
        owner: group.owner,
        member_count: u32::try_from(members.len()).unwrap_or(u32::MAX),
        member_version: group.member_version,
        read_ms,
    };
    Answer::Read(Box::new(Found {
        read,
        members,
        made_ms,
    }))
}

/// As people are told.
pub(super) fn problem_of(error: &wecom::Error) -> GroupProblem {
    let why = match error.errcode() {
        Some(DISSOLVED) => "; it is dissolved",
        Some(NOT_A_CUSTOMER_GROUP) => {
            "; it is no customer group, or its owner lacks the customer-contact function"
        }
        _ => "",
    };
    GroupProblem {
        errcode: error.errcode(),
        error: format!("{error}{why}"),
    }
}
