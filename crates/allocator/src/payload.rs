//! What travels beside an operation in the corp's log (field `p`): who asked, and what became of each delivery. The
//! scripts never read it and the ledger does not keep it: the customer's outside id and the welcome code end in the
//! tables that can be scrubbed.

use std::collections::BTreeMap;

use allocation::{PersonKey, SubjectKey};
use ledger::AuditRecord;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// The payload of one log entry.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Payload {
    /// One for each request of a `decide`, in its order; empty for other operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "c")]
    pub contexts: Vec<Context>,
    /// What became of deliveries that asked for nothing (ignored, unreadable), or of those behind a `close`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "o")]
    pub outcomes: Vec<Outcome>,
    /// Who did it, for operations that come from the API.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "a")]
    pub actor: Option<String>,
    /// For a reassignment: who has the customer at WeCom now, and so would hand him over.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "g")]
    pub giver: Option<String>,
    /// The audit's entry, should the operation have its effect.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "u")]
    pub audit: Option<Audited>,
    /// As whom those are known besides who come into a group, where somebody is rewarded for it or they are to have a tag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", rename = "m")]
    pub people: BTreeMap<PersonKey, Known>,
}

/// As whom somebody in a group is known.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Known {
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "u")]
    pub unionid: Option<SubjectKey>,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "x")]
    pub external_id: Option<String>,
}

/// Ids of customers stay out of logs.
impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").finish_non_exhaustive()
    }
}

/// A change that somebody asked for, as the audit will say it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Audited {
    pub id: Uuid,
    pub actor: String,
    pub action: String,
    pub entity: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Audited {
    /// The row, at the time of the log entry.
    pub fn record(&self, at_ms: u64) -> AuditRecord {
        let Self {
            id,
            actor,
            action,
            entity,
            before,
            after,
            reason,
            request_id,
        } = self.clone();
        AuditRecord {
            id,
            at_ms,
            actor,
            action,
            entity,
            before,
            after,
            reason,
            request_id,
        }
    }
}

impl Payload {
    /// Done by somebody, for the audit.
    #[must_use]
    pub fn by(mut self, record: AuditRecord) -> Self {
        let AuditRecord {
            id,
            at_ms: _,
            actor,
            action,
            entity,
            before,
            after,
            reason,
            request_id,
        } = record;
        self.actor = Some(actor.clone());
        self.audit = Some(Audited {
            id,
            actor,
            action,
            entity,
            before,
            after,
            reason,
            request_id,
        });
        self
    }

    /// The field's text.
    pub fn text(&self) -> String {
        // Strings, numbers and lists: it cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the field; an absent one is empty.
    pub fn read(text: Option<&str>) -> Result<Self, serde_json::Error> {
        text.map_or_else(|| Ok(Self::default()), serde_json::from_str)
    }
}

/// Where one request came from.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Context {
    /// `callback`, `api`, `audit` or `reread`.
    #[serde(rename = "s")]
    pub source: String,
    /// Kind and id of the subject: `wecom` and an external_userid, or a source channel and its id.
    #[serde(rename = "k")]
    pub subject_kind: String,
    #[serde(rename = "x")]
    pub subject_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "d")]
    pub delivery: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "n")]
    pub channel: Option<String>,
    /// The State as it came, when it names no channel.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "u")]
    pub unknown_state: Option<String>,
    /// The member who has the customer, in WeCom's spelling.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "h")]
    pub holder: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "w")]
    pub welcome_code: Option<String>,
    /// Why the request's plan prefers each of those whom it prefers, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "p")]
    pub preferred: Vec<String>,
    /// Of a seat: who brought him.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "i")]
    pub inviter: Option<String>,
    /// When the gateway had the event, milliseconds: a welcome's 20 s count from here.
    #[serde(default, rename = "r")]
    pub received_ms: u64,
}

/// The end of one delivery that is not a decision.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    #[serde(rename = "d")]
    pub delivery: String,
    /// When it was received: part of its identity in the ledger.
    #[serde(rename = "t")]
    pub received_ms: u64,
    /// `ignored`, `closed`, `advanced`, `reread`, …
    #[serde(rename = "o")]
    pub outcome: String,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "r")]
    pub reason: Option<String>,
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Payload")
            .field("contexts", &self.contexts.len())
            .field("outcomes", &self.outcomes.len())
            .finish_non_exhaustive()
    }
}

/// Ids of customers stay out of logs.
impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("source", &self.source)
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}
