//! What was called and sent, one by one.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

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
