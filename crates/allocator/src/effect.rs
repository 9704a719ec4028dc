//! What the ledger's outbox may be asked to do at WeCom: recorded in the transaction that records the decision, done
//! by `outbox`. A value here is the row's `payload`; its `kind` and `key` make the row unique, so that writing the
//! same log entry twice asks once.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One effect, as the row stores it. Member ids are in WeCom's spelling where we know it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    /// The welcome message of a new relation: at most once, inside 20 s of the event.
    Welcome { welcome_code: String, text: Option<String>, attachments: Vec<serde_json::Value> },
    /// Start moving the customer from `giver` to `taker`. Rows of one pair go to WeCom in one call.
    Transfer { transfer_id: Uuid, giver: String, taker: String, external_userid: String, message: Option<String> },
    /// Tell the chosen member that a customer is his.
    MemberCard { member: String, title: String, description: String, url: String },
}

impl Effect {
    /// The row's `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Welcome { .. } => kind::WELCOME,
            Self::Transfer { .. } => kind::TRANSFER,
            Self::MemberCard { .. } => kind::MEMBER_CARD,
        }
    }

    /// Smaller is sooner. A welcome has 20 s, everything else can wait for it.
    pub fn priority(&self) -> i16 {
        match self {
            Self::Welcome { .. } => 0,
            Self::Transfer { .. } => 50,
            Self::MemberCard { .. } => 90,
        }
    }
}

/// Debug names the kind only: welcome codes and customers' ids do not belong in logs.
impl std::fmt::Debug for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Effect").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

/// Names of the kinds, as the outbox column has them.
pub mod kind {
    pub const WELCOME: &str = "welcome";
    pub const TRANSFER: &str = "transfer";
    pub const MEMBER_CARD: &str = "member_card";
}
