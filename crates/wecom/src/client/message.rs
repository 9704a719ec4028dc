//! Messages of the app to members (应用消息).
//!
//! WeCom drops what goes to one member beyond 30 a minute or 1000 an hour without saying so. With the duplicate
//! check on, identical JSON is delivered once: that is what makes a repeat after an unknown outcome safe.

use serde::{Deserialize, Serialize};

use super::limits::Check;
use super::{Client, api, lenient};
use crate::{Error, Redacted};

/// A message to members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppMessage {
    /// Who gets it.
    pub to: Recipients,
    /// What they get.
    pub content: MessageContent,
    /// Identical JSON within so many seconds is delivered once; at most four hours. `None`: no check.
    pub duplicate_check_s: Option<u32>,
}

impl AppMessage {
    /// A message with the duplicate check on for half an hour, WeCom's default.
    pub fn new(to: Recipients, content: MessageContent) -> Self {
        Self {
            to,
            content,
            duplicate_check_s: Some(1800),
        }
    }

    /// The documented limits.
    pub fn check(&self) -> Result<(), Error> {
        let check = Check::new(api::SEND_MESSAGE);
        self.to.check(check)?;
        if self
            .duplicate_check_s
            .is_some_and(|seconds| seconds > 4 * 3600)
        {
            return Err(check.not_allowed("duplicate_check_interval", "is longer than four hours"));
        }
        match &self.content {
            MessageContent::Text { content } => {
                check.required("text.content", content.expose())?;
                check.bytes("text.content", content.expose(), 2048)
            }
            MessageContent::Markdown { content } => {
                check.required("markdown.content", content.expose())?;
                check.bytes("markdown.content", content.expose(), 2048)
            }
            MessageContent::TextCard(card) => card.check(check),
        }
    }
}

/// Who gets a message: members, departments, tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipients {
    /// At most 1000.
    pub users: Vec<String>,
    /// At most 100 departments.
    pub parties: Vec<String>,
    /// At most 100 tags.
    pub tags: Vec<String>,
}

impl Recipients {
    /// One member.
    pub fn user(userid: impl Into<String>) -> Self {
        Self {
            users: vec![userid.into()],
            ..Self::default()
        }
    }

    fn check(&self, check: Check) -> Result<(), Error> {
        if self.users.is_empty() && self.parties.is_empty() && self.tags.is_empty() {
            return Err(check.not_allowed("touser", "touser, toparty and totag are all empty"));
        }
        for (field, values, limit) in [
            ("touser", &self.users, 1000),
            ("toparty", &self.parties, 100),
            ("totag", &self.tags, 100),
        ] {
            check.entries(field, values, limit)?;
            if values.iter().any(|value| value.contains('|')) {
                return Err(check.not_allowed(field, "has an entry with the separator |"));
            }
        }
        Ok(())
    }
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageContent {
    /// Plain text with links.
    Text {
        /// At most 2048 bytes.
        content: Redacted,
    },
    /// A card.
    TextCard(TextCard),
    /// A small subset of markdown.
    Markdown {
        /// At most 2048 bytes.
        content: Redacted,
    },
}

/// A card with a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextCard {
    /// At most 128 characters.
    pub title: Redacted,
    /// At most 512 characters.
    pub description: Redacted,
    /// At most 2048 bytes.
    pub url: Redacted,
    /// At most 4 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub btntxt: Option<String>,
}

impl TextCard {
    fn check(&self, check: Check) -> Result<(), Error> {
        check.required("textcard.title", self.title.expose())?;
        check.characters("textcard.title", self.title.expose(), 128)?;
        check.required("textcard.description", self.description.expose())?;
        check.characters("textcard.description", self.description.expose(), 512)?;
        check.required("textcard.url", self.url.expose())?;
        check.bytes("textcard.url", self.url.expose(), 2048)?;
        check.characters(
            "textcard.btntxt",
            self.btntxt.as_deref().unwrap_or_default(),
            4,
        )
    }
}

/// The answer: success, with those it did not reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageSent {
    /// Members it could not be sent to, in lower case.
    #[serde(default, deserialize_with = "separated", serialize_with = "joined")]
    pub invaliduser: Vec<String>,
    /// Departments it could not be sent to.
    #[serde(default, deserialize_with = "separated", serialize_with = "joined")]
    pub invalidparty: Vec<String>,
    /// Tags it could not be sent to.
    #[serde(default, deserialize_with = "separated", serialize_with = "joined")]
    pub invalidtag: Vec<String>,
    /// Members without an interop licence.
    #[serde(default, deserialize_with = "separated", serialize_with = "joined")]
    pub unlicenseduser: Vec<String>,
    /// WeCom's id of the message.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub msgid: String,
}

fn separated<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let text: String = lenient::null_is_default(deserializer)?;
    Ok(text
        .split('|')
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect())
}

fn joined<S: serde::Serializer>(parts: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&parts.join("|"))
}

/// The JSON form. Field order is fixed: the duplicate check compares the text.
#[derive(Serialize)]
struct Wire<'a> {
    #[serde(skip_serializing_if = "String::is_empty")]
    touser: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    toparty: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    totag: String,
    msgtype: &'static str,
    agentid: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    textcard: Option<&'a TextCard>,
    #[serde(skip_serializing_if = "Option::is_none")]
    markdown: Option<Content<'a>>,
    enable_duplicate_check: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate_check_interval: Option<u32>,
}

#[derive(Serialize)]
struct Content<'a> {
    content: &'a str,
}

impl Client {
    /// Sends a message. Those it did not reach are in the answer; if nobody is left WeCom answers 81013.
    pub async fn send_message(&self, message: &AppMessage) -> Result<MessageSent, Error> {
        message.check()?;
        let mut wire = Wire {
            touser: message.to.users.join("|"),
            toparty: message.to.parties.join("|"),
            totag: message.to.tags.join("|"),
            msgtype: "",
            agentid: self.app().agent_id,
            text: None,
            textcard: None,
            markdown: None,
            enable_duplicate_check: u8::from(message.duplicate_check_s.is_some()),
            duplicate_check_interval: message.duplicate_check_s,
        };
        match &message.content {
            MessageContent::Text { content } => {
                wire.msgtype = "text";
                wire.text = Some(Content {
                    content: content.expose(),
                });
            }
            MessageContent::TextCard(card) => {
                wire.msgtype = "textcard";
                wire.textcard = Some(card);
            }
            MessageContent::Markdown { content } => {
                wire.msgtype = "markdown";
                wire.markdown = Some(Content {
                    content: content.expose(),
                });
            }
        }
        self.post(api::SEND_MESSAGE, &wire).await
    }
}
