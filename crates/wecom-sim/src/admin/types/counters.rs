//! What was counted, and what follows from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
    /// What is counted of customer groups.
    pub groups: GroupCounters,
    /// Customers known, and people who are only in groups.
    pub customers: u64,
    /// Relations that exist.
    pub relations: u64,
}

/// Customer groups of one corp.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCounters {
    /// Groups that exist.
    pub groups: u64,
    /// Groups that were dismissed.
    pub dismissed: u64,
    /// Groups that join ways opened.
    pub rooms_opened: u64,
    /// Join ways that exist.
    pub join_ways: u64,
    /// Places that people from outside have now.
    pub people: u64,
    /// The largest group now, members of the corp included.
    pub largest: u64,
    /// Came by a join way.
    pub scanned_in: u64,
    /// Came past it, at the making of a group included.
    pub invited: u64,
    /// Scans of a join way that were refused: full.
    pub refused_full: u64,
    /// Left, or were removed.
    pub left: u64,
    /// Moves to another owner that were accepted.
    pub moves_accepted: u64,
    /// Of these, without an effect (`groups.move_ignored_rate`).
    pub moves_ignored: u64,
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
