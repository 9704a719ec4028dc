//! Typed events from a decrypted message, in both envelopes: self-built apps (`Event`, `CreateTime`)
//! and suites (`InfoType`, `TimeStamp`). Pages 92130 and 92277 show them side by side.
//!
//! Every value is optional text to us. An absent and an empty node mean the same, order and unknown
//! nodes do not matter, a bad number never loses an event, and what is not known stays as
//! [`Body::Unknown`]. No string carries U+0000. Whether two events are the same one is not judged
//! here; [`Event::repeatable`] only says which entity a duplicate may have changed again.

mod chat;
mod contact;
mod customer_acquisition;
mod external_contact;
mod fields;
mod kf;
mod message;
mod suite;
mod tag;

pub use chat::{ChatChange, ChatUpdate, ExternalChat, MemberDiff, UpdateDetail};
pub use contact::{AppPresence, Contact, ContactUser, Department, TagMembers};
pub use customer_acquisition::{CustomerAcquisition, CustomerAcquisitionChange};
pub use external_contact::{ExternalContact, ExternalContactChange, WelcomeCode};
pub use kf::Kf;
pub use message::{Conversation, ConversationKind, Message};
pub use suite::{SuiteAuth, SuiteAuthKind};
pub use tag::{ExternalTag, ExternalTagChange, TagType};

use fields::Fields;

use crate::xml::XmlError;

/// Why a message is no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not one well-formed XML element. An empty message and a robot's JSON end here too.
    #[error("message: {0}")]
    Xml(#[from] XmlError),
    /// None of `Event`, `InfoType` and `MsgType` is there.
    #[error("message names no event, info or message type")]
    NoType,
}

/// One decrypted message. Debug shows whom and what it is about, never its content.
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    /// The corp concerned: `ToUserName`, or `AuthCorpId` in the suite envelope. Empty when absent
    /// (`suite_ticket` is about no corp).
    pub corp: String,
    /// `Some` exactly in the suite envelope, empty if the id itself is missing.
    pub suite_id: Option<String>,
    /// `sys` for system events, else a member. Absent on kf and suite events.
    pub from_user: Option<String>,
    /// Seconds since the epoch (`CreateTime` or `TimeStamp`); 1 s grain, it cannot order a burst.
    pub create_time: Option<i64>,
    /// `AgentID`, an opaque text that many events lack.
    pub agent_id: Option<String>,
    /// `Event`, `InfoType`, or for messages `MsgType`. Compare exactly, WeCom's spelling varies in case.
    pub name: String,
    /// `ChangeType`: only together with `name` does it say what happened.
    pub change_type: Option<String>,
    /// What happened.
    pub body: Body,
}

/// The families of events (sections of the pages are named at each).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// `change_external_contact`: a customer was added, changed or lost.
    ExternalContact(ExternalContact),
    /// `change_external_chat`: a customer group changed.
    ExternalChat(ExternalChat),
    /// `change_external_tag`: a corp tag itself changed, not who has it.
    ExternalTag(ExternalTag),
    /// `customer_acquisition`: acquisition links (获客助手).
    CustomerAcquisition(CustomerAcquisition),
    /// `change_contact`: the directory.
    Contact(Contact),
    /// `subscribe`, `unsubscribe`: the member [`Event::from_user`] entered or left the app's range.
    AppPresence(AppPresence),
    /// WeChat customer service (微信客服).
    Kf(Kf),
    /// `msgaudit_notify`: archived chats wait to be fetched (page 95039).
    MsgAudit,
    /// `conversation_new_message`, `hit_keyword` (pages 99682, 97244).
    Conversation(Conversation),
    /// Authorisation of a suite, and its ticket.
    SuiteAuth(SuiteAuth),
    /// A message of a member to the app.
    Message(Message),
    /// Everything else: all leaf nodes in order, named by their path below the root (`Future/A`),
    /// repeated siblings repeated, text untrimmed.
    Unknown(Vec<(String, String)>),
}

impl Event {
    /// Reads a decrypted message.
    pub fn parse(plaintext: &str) -> Result<Self, ParseError> {
        let fields = Fields::parse(plaintext)?;
        let suite = fields.get("InfoType");
        let msg_type = fields.get("MsgType");
        let event = fields
            .get("Event")
            .filter(|_| msg_type.is_none_or(|kind| kind == "event"));
        let name = suite.or(event).or(msg_type).ok_or(ParseError::NoType)?;
        let change_type = fields.get("ChangeType");
        let is_message = suite.is_none() && event.is_none() && name != "event";
        let body = if is_message {
            Body::Message(Message::read(&fields))
        } else {
            Body::read(name, change_type.unwrap_or_default(), &fields)
        };
        Ok(Self {
            corp: fields.owned(if suite.is_some() {
                "AuthCorpId"
            } else {
                "ToUserName"
            }),
            suite_id: suite.map(|_| fields.owned("SuiteId")),
            from_user: fields.optional("FromUserName"),
            create_time: fields.number(if suite.is_some() {
                "TimeStamp"
            } else {
                "CreateTime"
            }),
            agent_id: fields.optional("AgentID"),
            name: name.to_owned(),
            change_type: change_type.map(str::to_owned),
            body,
        })
    }

    /// Whether the acknowledgement must be the word `success` (suite envelope, page 97172) rather than
    /// an empty body (page 90238).
    pub fn is_suite(&self) -> bool {
        self.suite_id.is_some()
    }

    /// The kind and id of the entity to read again when a *duplicate* of this event arrives, or
    /// nothing if the event cannot repeat.
    ///
    /// Two real events may have one plaintext: an edit carries no payload and time has a grain of a
    /// second. Kinds: `pair` (`userid U+001F external_userid`), `chat`, `tag`, `kf`, `msgaudit` (the
    /// corp), `member`.
    pub fn repeatable(&self) -> Option<(&'static str, String)> {
        let (kind, entity) = match &self.body {
            Body::ExternalContact(contact) => ("pair", contact.pair()?),
            Body::ExternalChat(chat) => ("chat", chat.changed_chat()?.to_owned()),
            Body::ExternalTag(tag) => ("tag", tag.changed_tag()?.to_owned()),
            Body::Kf(Kf::Wake { open_kf_id, .. }) => ("kf", open_kf_id.clone()),
            Body::MsgAudit => ("msgaudit", self.corp.clone()),
            Body::Contact(contact) => ("member", contact.changed_member()?.to_owned()),
            Body::AppPresence(_) => ("member", self.from_user.clone()?),
            _ => return None,
        };
        Some((kind, entity)).filter(|(_, entity)| !entity.is_empty())
    }
}

impl Body {
    /// `change_type` alone is ambiguous: chats, tags and the directory reuse `create` and `update`.
    fn read(name: &str, change_type: &str, fields: &Fields<'_>) -> Self {
        match name {
            "change_external_contact" => {
                Self::ExternalContact(ExternalContact::read(change_type, fields))
            }
            "change_external_chat" => Self::ExternalChat(ExternalChat::read(change_type, fields)),
            "change_external_tag" => Self::ExternalTag(ExternalTag::read(change_type, fields)),
            "customer_acquisition" | "customer_acquisition_permit_change" => {
                Self::CustomerAcquisition(CustomerAcquisition::read(name, change_type, fields))
            }
            "change_contact" => Self::Contact(Contact::read(change_type, fields)),
            "subscribe" => Self::AppPresence(AppPresence::Subscribe),
            "unsubscribe" => Self::AppPresence(AppPresence::Unsubscribe),
            "kf_msg_or_event" | "kf_account_auth_change" => Self::Kf(Kf::read(name, fields)),
            "msgaudit_notify" => Self::MsgAudit,
            "conversation_new_message" => {
                Self::Conversation(Conversation::read(ConversationKind::NewMessage, fields))
            }
            "hit_keyword" => {
                Self::Conversation(Conversation::read(ConversationKind::HitKeyword, fields))
            }
            _ => match SuiteAuthKind::from_info_type(name) {
                Some(kind) => Self::SuiteAuth(SuiteAuth::read(kind, fields)),
                None => Self::Unknown(fields.leaves()),
            },
        }
    }
}

/// All leaf nodes of a decrypted message as in [`Body::Unknown`], for whoever needs a node that the
/// typed event leaves out.
pub fn leaves(plaintext: &str) -> Result<Vec<(String, String)>, ParseError> {
    Ok(Fields::parse(plaintext)?.leaves())
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Event")
            .field("corp", &self.corp)
            .field("suite_id", &self.suite_id)
            .field("from_user", &self.from_user)
            .field("create_time", &self.create_time)
            .field("agent_id", &self.agent_id)
            .field("name", &self.name)
            .field("change_type", &self.change_type)
            .field("body", &self.body)
            .finish()
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ExternalContact(body) => body.fmt(f),
            Self::ExternalChat(body) => body.fmt(f),
            Self::ExternalTag(body) => body.fmt(f),
            Self::CustomerAcquisition(body) => body.fmt(f),
            Self::Contact(body) => body.fmt(f),
            Self::AppPresence(body) => body.fmt(f),
            Self::Kf(body) => body.fmt(f),
            Self::MsgAudit => f.write_str("MsgAudit"),
            Self::Conversation(body) => body.fmt(f),
            Self::SuiteAuth(body) => body.fmt(f),
            Self::Message(body) => body.fmt(f),
            Self::Unknown(leaves) => write!(f, "Unknown({} leaves)", leaves.len()),
        }
    }
}

#[cfg(test)]
mod tests;
