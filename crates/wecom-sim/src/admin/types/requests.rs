//! What a test asks for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::ClockMode;

/// A customer scans a contact way (`config_id`, or the one whose `state` it is), or adds `member` directly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScanRequest {
    /// The corp; may be left out when there is only one.
    pub corp: Option<String>,
    /// The contact way.
    pub config_id: Option<String>,
    /// The member: instead of a contact way, or to overrule its random pick.
    pub member: Option<String>,
    /// The state, when no contact way gives it. Without `config_id` and `member`: the latest way that was made with it.
    pub state: Option<String>,
    /// An existing customer, or the id a new one is to have. Made up when absent. Not with `count` above 1.
    pub customer: Option<String>,
    /// Name of a new customer.
    pub name: Option<String>,
    /// unionid of a new customer.
    pub unionid: Option<String>,
    /// So many new customers.
    pub count: u32,
    /// Begin with a half-add (true), or not (false); by `people.half_add_rate` when absent.
    pub half: Option<bool>,
    /// Spread the scans evenly over this simulated time instead of now.
    pub over_ms: i64,
    /// Do not list the scans in the answer.
    pub quiet: bool,
}

impl Default for ScanRequest {
    fn default() -> Self {
        Self {
            corp: None,
            config_id: None,
            member: None,
            state: None,
            customer: None,
            name: None,
            unionid: None,
            count: 1,
            half: None,
            over_ms: 0,
            quiet: false,
        }
    }
}

impl ScanRequest {
    /// A new customer adds this member with this state.
    pub fn member(userid: impl Into<String>, state: impl Into<String>) -> Self {
        Self {
            member: Some(userid.into()),
            state: Some(state.into()),
            ..Self::default()
        }
    }

    /// A new customer scans this contact way.
    pub fn way(config_id: impl Into<String>) -> Self {
        Self {
            config_id: Some(config_id.into()),
            ..Self::default()
        }
    }

    /// A new customer scans the contact way that has this state.
    pub fn way_with(state: impl Into<String>) -> Self {
        Self {
            state: Some(state.into()),
            ..Self::default()
        }
    }

    /// Names the customer.
    pub fn customer(self, external_userid: impl Into<String>) -> Self {
        Self {
            customer: Some(external_userid.into()),
            ..self
        }
    }

    /// Names the corp.
    pub fn corp(self, corp: impl Into<String>) -> Self {
        Self {
            corp: Some(corp.into()),
            ..self
        }
    }

    /// So many new customers.
    pub fn count(self, count: u32) -> Self {
        Self { count, ..self }
    }
}

/// What came of the scans.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanReply {
    /// Done now.
    pub scanned: u64,
    /// To come, see `over_ms`.
    pub scheduled: u64,
    /// By outcome.
    pub outcomes: BTreeMap<ScanOutcome, u64>,
    /// One by one, unless `quiet`.
    pub scans: Vec<Scan>,
}

/// One scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// The customer.
    pub customer: String,
    /// Whom he got.
    pub member: Option<String>,
    /// What happened.
    pub outcome: ScanOutcome,
    /// WelcomeCode by agent id.
    pub welcome_codes: BTreeMap<u32, String>,
}

/// What happened at a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanOutcome {
    /// A relation; `add_external_contact` is on its way.
    Added,
    /// Not yet a relation; `add_half_external_contact` is on its way, the add follows.
    Half,
    /// They were friends already: no event.
    AlreadyFriend,
    /// The member has as many customers as he may have: nothing happened.
    MemberFull,
    /// The contact way has nobody who can take a customer, is expired or used up: nothing happened.
    NoMember,
}

/// Ends a relation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest {
    /// The corp; may be left out when there is only one.
    #[serde(default)]
    pub corp: Option<String>,
    /// The customer.
    pub customer: String,
    /// The member.
    pub member: String,
    /// Who does it.
    pub by: By,
}

/// Who deletes whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The customer deletes the member: `del_follow_user`; a one-way relation stays and the APIs still work.
    Customer,
    /// The member deletes the customer: `del_external_contact`, then 84061.
    Member,
}

/// A member edits a customer in the client: `edit_external_contact`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditRequest {
    /// The corp; may be left out when there is only one.
    #[serde(default)]
    pub corp: Option<String>,
    /// The customer.
    pub customer: String,
    /// The member.
    pub member: String,
    /// New remark.
    #[serde(default)]
    pub remark: Option<String>,
    /// Personal tags, replaced as a whole.
    #[serde(default)]
    pub personal_tags: Option<Vec<String>>,
    /// Ids of corp tags, replaced as a whole.
    #[serde(default)]
    pub corp_tags: Option<Vec<String>>,
}

/// What one customer does with his next transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomerScript {
    /// The outcome.
    pub transfer: TransferEnd,
    /// From the start; default: at the regular end, or at a random moment for `refuse` and `early`.
    #[serde(default)]
    pub after_ms: Option<i64>,
}

/// How a transfer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferEnd {
    /// The customer does nothing: complete after 24 h.
    Passive,
    /// The customer accepts early.
    Early,
    /// The customer refuses: status 3, `transfer_fail`.
    Refuse,
    /// The taker is full: status 4, `transfer_fail`.
    Cap,
}

/// Moves the clock; exactly one of the two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClockRequest {
    /// By this much.
    pub advance_ms: Option<i64>,
    /// To this instant (not back).
    pub now_ms: Option<i64>,
    /// Then wait until no callback is on its way.
    pub wait: bool,
}

/// The clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReply {
    /// Simulated time, milliseconds since the epoch.
    pub now_ms: i64,
    /// Virtual or real.
    pub mode: ClockMode,
    /// Things that will happen later: ends of transfers, confirmations, delayed events.
    pub scheduled: usize,
    /// Callbacks queued or being delivered.
    pub callbacks_pending: u64,
}

/// Sends any plaintext as a sealed callback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// The corp; may be left out when there is only one.
    #[serde(default)]
    pub corp: Option<String>,
    /// To this app; to every app with a callback when absent.
    #[serde(default)]
    pub agent_id: Option<u32>,
    /// The XML before sealing.
    pub plaintext: String,
}

/// A change of corp tags in the admin console: `change_external_tag`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagRequest {
    /// The corp; may be left out when there is only one.
    #[serde(default)]
    pub corp: Option<String>,
    /// What is done.
    pub change: TagChange,
}

/// What an administrator does to tags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TagChange {
    /// A new tag, and its group when it is new.
    Create {
        /// The group's name.
        group: String,
        /// The tag's name.
        name: String,
    },
    /// Renames a tag.
    Rename {
        /// The tag.
        id: String,
        /// Its new name.
        name: String,
    },
    /// Deletes a tag or a group.
    Delete {
        /// Either's id.
        id: String,
    },
}

/// Result of verifying one callback URL by GET.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// The app.
    pub agent_id: u32,
    /// The URL.
    pub url: String,
    /// Answered 200 with exactly the decrypted text, in time.
    pub ok: bool,
    /// HTTP status, if any came.
    pub status: Option<u16>,
    /// What was wrong.
    pub detail: String,
}
