//! What an event of a group asks for (pure), and what becomes of it: whoever came takes room at once, whoever left frees it,
//! if the event follows the version that Redis has; else the group is read. Nothing here needs Postgres or WeCom, so neither can
//! stop the inbox: what needs them is a mark.

use std::collections::{BTreeMap, BTreeSet};

use allocation::{
    ChatId, ChatVersion, ConfirmSeats, JoinedPerson, MAX_PEOPLE, MemberId, PersonKey,
    SeatsConfirmed,
};
use metrics::counter;
use roster::GroupStanding;
use wecom::event::{ChatChange, ChatUpdate, ExternalChat, UpdateDetail};

use super::{reading::unnamed, waiting};
use crate::{app::CorpApp, payload::Payload};

/// Changes of one group in one moment that an event is held against.
const CATCH_UP: usize = 3;

/// What an event of a group asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatStep {
    pub chat: ChatId,
    pub what: ChatNews,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatNews {
    /// There is a new one.
    New,
    /// It is no more.
    Gone,
    /// People came or went.
    People(Box<ChatUpdate>),
    /// Something else, or what it says is old: WeCom knows.
    Doubt,
}

impl ChatStep {
    /// None: it names no group.
    pub(crate) fn of(event: ExternalChat) -> Option<Self> {
        let chat = ChatId::new(event.chat_id).ok()?;
        let what = match event.change {
            ChatChange::Create => ChatNews::New,
            ChatChange::Dismiss => ChatNews::Gone,
            ChatChange::Update(update) => match update.detail {
                Some(UpdateDetail::AddMember | UpdateDetail::DelMember) => {
                    ChatNews::People(Box::new(update))
                }
                _ => ChatNews::Doubt,
            },
            ChatChange::Other(_) => ChatNews::Doubt,
        };
        Some(Self { chat, what })
    }

    /// The same, long after the event: whoever came may have left since.
    #[must_use]
    pub(crate) fn late(self) -> Self {
        let what = match self.what {
            ChatNews::People(_) => ChatNews::Doubt,
            other => other,
        };
        Self { what, ..self }
    }
}

/// What became of an event: the outcome of its delivery, and what is to be marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Took {
    /// Redis counts those who came or left.
    Counted {
        reason: &'static str,
        read: bool,
    },
    /// Only a read says what is true.
    Reread,
    New,
    Gone,
    /// It is filled by nobody.
    NotOurs,
}

impl Took {
    pub(crate) fn outcome(self) -> (&'static str, &'static str) {
        match self {
            Self::Counted { reason, .. } => ("counted", reason),
            Self::Reread => ("reread", "group"),
            Self::New => ("reread", "new_group"),
            Self::Gone => ("closed", "group_dismissed"),
            Self::NotOurs => ("ignored", "no_group_pool"),
        }
    }
}

/// Carries the events of a batch out, in their order; answers what became of each. Doing it twice is doing it once.
pub(crate) async fn take(corp: &CorpApp, steps: &[ChatStep]) -> Result<Vec<Took>, roster::Error> {
    let chats: BTreeSet<&ChatId> = steps.iter().map(|step| &step.chat).collect();
    let chats: Vec<ChatId> = chats.into_iter().cloned().collect();
    let there = corp.roster.group_standings(&chats).await?;
    // A group that is not there is nobody's only while the corp is whole.
    if corp.roster.status().await?.generation.is_none() {
        return Err(roster::Error::NotReady);
    }
    let there = chats.into_iter().zip(there);
    let there = there.filter_map(|(chat, there)| Some((chat, there?)));
    let mut there: BTreeMap<ChatId, GroupStanding> =
        there.filter(|(_, there)| !there.removed).collect();
    let mut took = Vec::with_capacity(steps.len());
    for step in steps {
        let one = match (&step.what, there.get_mut(&step.chat)) {
            (ChatNews::New, _) => Took::New,
            (ChatNews::Gone, Some(known)) => {
                let (chat, version) = (step.chat.clone(), known.version);
                // At once: nobody is shown it any more. The row says so later.
                let removed = corp
                    .roster
                    .remove_group(chat, version, &payload(), None)
                    .await?;
                waiting::applied(corp, &removed);
                there.remove(&step.chat);
                Took::Gone
            }
            (ChatNews::Gone, None) => Took::Gone,
            (_, None) => Took::NotOurs,
            (ChatNews::Doubt, Some(_)) => Took::Reread,
            (ChatNews::People(update), Some(known)) => {
                people(corp, &step.chat, update, &mut known.seen).await?
            }
        };
        let (outcome, _) = one.outcome();
        counter!("paidan_group_events_total", "corp" => corp.id.to_string(), "outcome" => outcome)
            .increment(1);
        took.push(one);
    }
    Ok(took)
}

/// `seen` is the version that Redis has, as far as it is known here, and becomes the one that it has afterwards.
async fn people(
    corp: &CorpApp,
    chat: &ChatId,
    update: &ChatUpdate,
    seen: &mut Option<ChatVersion>,
) -> Result<Took, roster::Error> {
    let came = update.detail == Some(UpdateDetail::AddMember);
    let people: Vec<PersonKey> = update.members.iter().map(|id| person(corp, id)).collect();
    for _ in 0..CATCH_UP {
        let Some(from) = seen.clone() else {
            return Ok(Took::Reread);
        };
        if update.current_member_version.as_deref() == Some(from.as_str()) {
            // It was read meanwhile, or the event came before.
            let reason = "known";
            return Ok(Took::Counted { reason, read: came });
        }
        let follows = update.diff_after(from.as_str());
        let version = follows.and_then(|diff| ChatVersion::new(diff.version).ok());
        if people.len() > MAX_PEOPLE || people.is_empty() || version.is_none() && !came {
            return Ok(Took::Reread);
        }
        // Events got lost or overtook each other, and still these have come: they take room until the read.
        let follows = version.is_some();
        let version = version.unwrap_or_else(|| from.clone());
        let joined = people.iter().filter(|_| came);
        let joined: Vec<JoinedPerson> = joined.map(|person| unnamed(*person)).collect();
        let change = ConfirmSeats {
            chat: chat.clone(),
            from: Some(from),
            version: version.clone(),
            force: false,
            left: if came { Vec::new() } else { people.clone() },
            joined,
        };
        let told = corp.roster.confirm_seats(change, &payload(), None).await?;
        waiting::applied(corp, &told);
        match told.answer {
            SeatsConfirmed::Counted { left, .. } => {
                if !left.is_empty() {
                    counter!("paidan_seats_left_total", "corp" => corp.id.to_string())
                        .increment(left.len() as u64);
                }
                *seen = Some(version);
                let reason = if came { "joined" } else { "left" };
                return Ok(match follows {
                    true => Took::Counted { reason, read: came },
                    false => Took::Reread,
                });
            }
            SeatsConfirmed::Stale { version } => *seen = version,
            SeatsConfirmed::Unknown => return Ok(Took::NotOurs),
        }
    }
    Ok(Took::Reread)
}

/// Events do not say whether an id is one of the corp's people's. WeCom's ids of others begin with `wm` or `wo`; should one
/// of ours do so too who is not known here, the next read sets it right.
fn person(corp: &CorpApp, id: &str) -> PersonKey {
    let is_known = MemberId::new(id).is_ok_and(|member| corp.names.knows(&member));
    match !is_known && (id.starts_with("wm") || id.starts_with("wo")) {
        true => PersonKey::customer(&corp.id, id),
        false => PersonKey::member(&corp.id, id),
    }
}

fn payload() -> String {
    Payload {
        actor: Some("groups".to_owned()),
        ..Payload::default()
    }
    .text()
}
