//! What the ledger's outbox may be asked to do at WeCom: recorded in the transaction that records the decision, done
//! by `outbox`. A value here is the row's `payload`; its `kind` and `key` make the row unique, so that writing the
//! same log entry twice asks once.

use allocation::{CampaignId, InviterId};
use ledger::NewEffect;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One effect, as the row stores it. Customers are named by the row's allocation or transfer, never here.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    /// The welcome message of a new relation: at most once, inside 20 s of the event.
    Welcome {
        welcome_code: String,
        text: Option<String>,
        attachments: Vec<serde_json::Value>,
    },
    /// Start the row's transfer. Rows of one (giver, taker) go to WeCom in one call.
    Transfer { giver: String, taker: String },
    /// Tell the chosen member that a customer is his, or ask him.
    MemberCard {
        member: String,
        channel: Option<String>,
        /// He is asked, and has this long to accept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        accept_seconds: Option<u64>,
    },
    /// A tag for a customer who came into a group, or for an inviter who reached a goal.
    Tag {
        tag: String,
        /// Of who came.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        external_id: Option<String>,
        #[serde(flatten)]
        inviter: Option<OfInviter>,
    },
    /// Tell an inviter that he reached a goal, or ask the member who has him to.
    GoalMessage {
        text: String,
        #[serde(flatten)]
        inviter: OfInviter,
    },
    /// Tell others what is in the feed of events.
    Event { id: Uuid },
}

/// An inviter of a campaign, and the name of a goal of his.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OfInviter {
    pub campaign: CampaignId,
    pub inviter: InviterId,
    pub goal: String,
}

impl Effect {
    /// The row's `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Welcome { .. } => kind::WELCOME,
            Self::Transfer { .. } => kind::TRANSFER,
            Self::MemberCard { .. } => kind::MEMBER_CARD,
            Self::Tag { .. } => kind::TAG,
            Self::GoalMessage { .. } => kind::GOAL_MESSAGE,
            Self::Event { .. } => kind::EVENT,
        }
    }

    /// Smaller is sooner. A welcome has 20 s, everything else can wait for it.
    pub fn priority(&self) -> i16 {
        match self {
            Self::Welcome { .. } => 0,
            Self::Transfer { .. } => 50,
            Self::MemberCard { .. } => 90,
            // The ledger asks for them by itself.
            Self::Tag { .. } | Self::GoalMessage { .. } | Self::Event { .. } => 92,
        }
    }
}

impl Effect {
    /// A row for it, due at once; the caller adds what it belongs to.
    pub fn row(&self, key: String, due_ms: u64) -> NewEffect {
        NewEffect {
            kind: self.kind().to_owned(),
            key,
            // A value of our own types: it cannot fail.
            payload: serde_json::to_value(self).unwrap_or_default(),
            erase_payload: false,
            allocation: None,
            epoch: None,
            transfer: None,
            priority: self.priority(),
            due_ms,
            deadline_ms: None,
        }
    }
}

/// Debug names the kind only: welcome codes and customers' ids do not belong in logs.
impl std::fmt::Debug for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Effect")
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}

/// Names of the kinds, as the outbox column has them.
pub mod kind {
    pub const WELCOME: &str = "welcome";
    pub const TRANSFER: &str = "transfer";
    pub const MEMBER_CARD: &str = "member_card";
    pub use ledger::{EVENT, GOAL_MESSAGE, TAG};

    /// What campaigns promise: nobody else notices that one was not kept.
    pub const OF_CAMPAIGNS: [&str; 3] = [TAG, GOAL_MESSAGE, EVENT];
}
