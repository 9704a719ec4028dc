//! What the admin API takes and gives, the same over HTTP (as JSON) and in process.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::config::ClockMode;

/// A customer scans a contact way (`config_id`), or adds `member` directly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScanRequest {
    /// The corp; may be left out when there is only one.
    pub corp: Option<String>,
    /// The contact way.
    pub config_id: Option<String>,
    /// The member: instead of a contact way, or to overrule its random pick.
    pub member: Option<String>,
    /// The state, when no contact way gives it.
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

/// One call of an API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// Order of arrival, from 1.
    pub seq: u64,
    /// Simulated time of arrival.
    pub at_ms: i64,
    /// API name.
    pub api: String,
    /// Corp, when the token or the query told it.
    pub corp: Option<String>,
    /// App, likewise.
    pub agent_id: Option<u32>,
    /// Caller.
    pub ip: IpAddr,
    /// errcode of the answer, even if it was lost on the way.
    pub code: i32,
    /// HTTP status; absent when no answer was sent.
    pub status: Option<u16>,
    /// Something changed at WeCom.
    pub effect: bool,
    /// The caller did not get the answer (dropped, hung, an HTML page, cut JSON).
    pub reply_lost: bool,
    /// Calls of this API and corp in flight at arrival, this one included.
    pub in_flight: u32,
    /// The (corp, API) or (address, API) was blocked by 45009 already.
    pub while_blocked: bool,
}

/// Which calls to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallFilter {
    /// Of this corp.
    pub corp: Option<String>,
    /// Of this API.
    pub api: Option<String>,
    /// With this errcode.
    pub code: Option<i32>,
    /// Later than this `seq`.
    pub after: u64,
    /// At most so many, oldest first; 0 = 1000.
    pub limit: usize,
}

/// Something sent to a person or a robot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageRecord {
    /// Simulated time.
    pub at_ms: i64,
    /// Corp.
    pub corp: String,
    /// App; absent for webhooks.
    pub agent_id: Option<u32>,
    /// `app`, `webhook` or `welcome`.
    pub kind: String,
    /// Member, webhook number (`webhook-1`), or customer.
    pub to: String,
    /// False when it was dropped over the member's 30 a minute.
    pub delivered: bool,
    /// The request body.
    pub body: serde_json::Value,
}

/// Exact counters since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// By corp.
    pub corps: BTreeMap<String, CorpCounters>,
    /// Callbacks of all corps.
    pub callbacks: CallbackCounters,
    /// gettoken calls that named no known corp.
    pub unknown_corp_gettoken: u64,
    /// Calls whose token led to no corp.
    pub unknown_token: u64,
    /// Calls that came while blocked, and those of them beyond the excused ones.
    pub calls_while_blocked: u64,
    /// See above.
    pub calls_while_blocked_unexcused: u64,
}

/// Counters of one corp.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpCounters {
    /// By API name; only those that were called.
    pub apis: BTreeMap<String, ApiCounters>,
    /// gettoken by agent id; 0 = the secret fits no app.
    pub gettoken: BTreeMap<u32, GettokenCounters>,
    /// Customers by number of accepted starts of a transfer (0 left out).
    pub customers_by_transfers: BTreeMap<u32, u64>,
    /// Most accepted starts of one customer for the same giver and taker.
    pub same_pair_transfers_max: u32,
    /// Starts accepted.
    pub transfers_accepted: u64,
    /// Starts asked again for a pair that was running (40129 answered).
    pub transfers_asked_again: u64,
    /// Accepted while an earlier one of the customer ran.
    pub transfers_doubled: u64,
    /// Accepted beyond the moves allowed in 90 days.
    pub transfers_over_limit: u64,
    /// Transfers by end: running, done, refused, capped.
    pub transfers: BTreeMap<String, u64>,
    /// Welcome codes by number of send_welcome_msg calls that named them.
    pub welcome_codes_by_calls: BTreeMap<u32, u64>,
    /// Welcomes delivered.
    pub welcomes_delivered: u64,
    /// Calls for a code whose welcome the same app had delivered already.
    pub welcomes_repeated: u64,
    /// App messages delivered, by member.
    pub messages: BTreeMap<String, u64>,
    /// App messages dropped without a word, by member.
    pub messages_dropped: BTreeMap<String, u64>,
    /// App messages kept back by the duplicate check.
    pub messages_duplicate: u64,
    /// Webhook messages delivered.
    pub webhook_messages: u64,
    /// Customers known.
    pub customers: u64,
    /// Relations that exist.
    pub relations: u64,
}

/// Counters of one API of one corp.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiCounters {
    /// Calls.
    pub calls: u64,
    /// By errcode.
    pub codes: BTreeMap<i32, u64>,
    /// Most in flight at once.
    pub in_flight_max: u32,
    /// Took effect.
    pub effects: u64,
    /// Took effect, answer lost.
    pub effects_reply_lost: u64,
    /// Came while blocked.
    pub while_blocked: u64,
}

/// gettoken of one app.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GettokenCounters {
    /// Calls.
    pub calls: u64,
    /// Failures.
    pub failures: u64,
    /// Most failures in a row.
    pub failures_in_a_row_max: u64,
    /// Most calls within one minute.
    pub per_minute_max: u64,
}

/// Events on their way to the callback URLs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackCounters {
    /// Events made, one per app that may see them.
    pub events: u64,
    /// Duplicates made on purpose.
    pub duplicated: u64,
    /// Deliveries (POSTs).
    pub sent: u64,
    /// Events answered 200.
    pub acked: u64,
    /// Deliveries that were repetitions.
    pub retried: u64,
    /// Events lost on purpose.
    pub lost: u64,
    /// Events given up after all retries.
    pub failed: u64,
    /// Events dropped because too many had failed.
    pub dropped: u64,
    /// Events not sent because callbacks are off or the app has no URL.
    pub unsent: u64,
    /// Slowest answer, milliseconds.
    pub slowest_ms: u64,
}

/// Whether the caller behaved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// All hold.
    pub holds: bool,
    /// One by one.
    pub invariants: Vec<Invariant>,
}

/// One invariant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invariant {
    /// Stable name.
    pub name: String,
    /// What it says.
    pub says: String,
    /// How many things were looked at.
    pub checked: u64,
    /// How many broke it.
    pub violations: u64,
    /// None did.
    pub holds: bool,
    /// The worst of it.
    pub detail: String,
}

/// Expectations that only the test knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckQuery {
    /// No customer has more accepted starts than this.
    pub transfers_per_customer: Option<u32>,
    /// Never more in flight per (corp, API) than this; default: the configured limit.
    pub in_flight: Option<u32>,
}

/// What the simulator holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateDump {
    /// Simulated time.
    pub now_ms: i64,
    /// By corp.
    pub corps: BTreeMap<String, CorpState>,
}

/// What one corp holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CorpState {
    /// Members with the number of their customers.
    pub members: Vec<MemberState>,
    /// Customers by id.
    pub customers: Vec<CustomerState>,
    /// Every transfer ever started.
    pub transfers: Vec<TransferState>,
    /// Contact ways.
    pub contact_ways: Vec<serde_json::Value>,
    /// Tag groups.
    pub tag_groups: Vec<serde_json::Value>,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberState {
    /// As WeCom spells it.
    pub userid: String,
    /// See `MemberConfig::status`.
    pub status: u8,
    /// Customers who are his.
    pub customers: usize,
}

/// A customer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomerState {
    /// external_userid.
    pub id: String,
    /// unionid.
    pub unionid: Option<String>,
    /// Who has him.
    pub follows: Vec<FollowState>,
    /// Accepted starts of transfers.
    pub transfers_accepted: u32,
    /// One is running.
    pub in_transfer: bool,
}

/// A relation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowState {
    /// The member.
    pub member: String,
    /// Since.
    pub created_ms: i64,
    /// State of the contact way.
    pub state: Option<String>,
    /// See api.md `add_way`.
    pub add_way: u32,
    /// Not confirmed yet.
    pub half: bool,
    /// The customer deleted the member.
    pub one_way: bool,
    /// Remark.
    pub remark: String,
    /// Corp tags.
    pub tags: Vec<String>,
    /// Personal tags.
    pub personal_tags: Vec<String>,
}

/// A transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferState {
    /// The customer.
    pub customer: String,
    /// The giver.
    pub handover: String,
    /// The taker.
    pub takeover: String,
    /// Of a member who left.
    pub resigned: bool,
    /// Start.
    pub started_ms: i64,
    /// 1 done, 2 waiting, 3 refused, 4 taker full.
    pub status: u8,
    /// Status 1: when it was done; 2: when it will be.
    pub takeover_ms: i64,
}
