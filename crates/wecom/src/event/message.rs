//! Messages of members to an app (page 96467), and wake-ups about archived conversations (pages 99682, 97244).

use super::fields::Fields;
use crate::redacted::Redacted;

/// A message of a member to the app. [`Event::name`](super::Event::name) is its type (`text`, `image` …).
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// `MsgId`, a 64-bit number that many JSON readers cannot hold: kept as text.
    pub msg_id: Option<String>,
    /// `Content` of a text, untrimmed.
    pub content: Option<Redacted>,
    /// All leaf nodes, as in [`Body::Unknown`](super::Body::Unknown).
    pub leaves: Vec<(String, String)>,
}

impl Message {
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        Self {
            msg_id: fields.optional("MsgId"),
            content: fields.text("Content").map(Redacted::new),
            leaves: fields.leaves(),
        }
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message")
            .field("msg_id", &self.msg_id)
            .finish_non_exhaustive()
    }
}

/// A provider is told that there is something in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// What happened.
    pub kind: ConversationKind,
    /// `Token`: opens the archive for 10 minutes. A credential.
    pub token: Option<Redacted>,
}

/// `InfoType` of a [`Conversation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConversationKind {
    /// `conversation_new_message`.
    NewMessage,
    /// `hit_keyword`.
    HitKeyword,
}

impl Conversation {
    pub(super) fn read(kind: ConversationKind, fields: &Fields<'_>) -> Self {
        Self {
            kind,
            token: fields.redacted("Token"),
        }
    }
}
