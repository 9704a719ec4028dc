//! A fault: which calls it meets, and what it does to them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;

/// One fault. All conditions that are given must hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fault {
    /// Name for `DELETE /sim/faults/{id}`; made up when absent.
    pub id: Option<String>,
    /// API name without `/cgi-bin/`, such as `externalcontact/transfer_customer`; `*` is every API.
    pub api: String,
    /// Only this corp.
    pub corp: Option<String>,
    /// Only this app.
    pub agent_id: Option<u32>,
    /// Only this caller address.
    pub ip: Option<IpAddr>,
    /// Only calls that name this member (`userid`, `handover_userid`, `takeover_userid`, `new_owner`, `touser`, `user`,
    /// `userid_list`).
    pub member: Option<String>,
    /// Only calls that name this member as the taker of a transfer, of customers or of groups.
    pub taker: Option<String>,
    /// Only calls that name this customer (`external_userid`). With `errcode` on a transfer only this
    /// customer's row gets the code, the call itself answers 0.
    pub customer: Option<String>,
    /// Only calls that name this group (`chat_id`, `chat_id_list`). With `errcode` on a transfer of groups only
    /// this group gets the code, the call itself answers 0.
    pub chat: Option<String>,
    /// Before or after the call took effect.
    pub when: When,
    /// What happens.
    pub act: Act,
    /// How often, 0 to 1.
    pub probability: f64,
    /// Only the next n calls that match.
    pub times: Option<u64>,
    /// From this simulated time on (milliseconds since the epoch).
    pub from_ms: Option<i64>,
    /// Until this simulated time.
    pub until_ms: Option<i64>,
    /// Instead of `until_ms`: this long from `from_ms`, or from now.
    pub for_ms: Option<i64>,
}

impl Default for Fault {
    fn default() -> Self {
        Self {
            id: None,
            api: "*".to_owned(),
            corp: None,
            agent_id: None,
            ip: None,
            member: None,
            taker: None,
            customer: None,
            chat: None,
            when: When::Before,
            act: Act::Errcode(-1),
            probability: 1.0,
            times: None,
            from_ms: None,
            until_ms: None,
            for_ms: None,
        }
    }
}

impl Fault {
    /// Every call of `api` gets `act`; narrow it with the other fields.
    pub fn new(api: impl Into<String>, act: Act) -> Self {
        Self {
            api: api.into(),
            act,
            ..Self::default()
        }
    }

    /// The same after the effect instead of before it: what tests idempotency.
    pub fn after(self) -> Self {
        Self {
            when: When::After,
            ..self
        }
    }

    /// Only the next `n` calls.
    pub fn times(self, n: u64) -> Self {
        Self {
            times: Some(n),
            ..self
        }
    }

    /// For `ms` of simulated time from now.
    pub fn for_ms(self, ms: i64) -> Self {
        Self {
            for_ms: Some(ms),
            ..self
        }
    }

    /// With this probability.
    pub fn probability(self, probability: f64) -> Self {
        Self {
            probability,
            ..self
        }
    }

    /// Only for this member.
    pub fn member(self, userid: impl Into<String>) -> Self {
        Self {
            member: Some(userid.into()),
            ..self
        }
    }

    /// Only for this taker of a transfer.
    pub fn taker(self, userid: impl Into<String>) -> Self {
        Self {
            taker: Some(userid.into()),
            ..self
        }
    }

    /// Only for this customer.
    pub fn customer(self, external_userid: impl Into<String>) -> Self {
        Self {
            customer: Some(external_userid.into()),
            ..self
        }
    }

    /// Only for this group.
    pub fn chat(self, chat_id: impl Into<String>) -> Self {
        Self {
            chat: Some(chat_id.into()),
            ..self
        }
    }

    pub(crate) fn check(&self, field: &str) -> Result<(), Error> {
        if self.api != "*" && crate::api::Api::by_name(&self.api).is_none() {
            return Err(Error::config(
                format!("{field}.api"),
                format!(
                    "{} is not an API of the simulator; names look like externalcontact/get",
                    self.api
                ),
            ));
        }
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(Error::config(
                format!("{field}.probability"),
                "must be from 0 to 1",
            ));
        }
        if let Act::Status(status) = self.act
            && !(400..=599).contains(&status)
        {
            return Err(Error::config(
                format!("{field}.act.status"),
                "must be from 400 to 599",
            ));
        }
        if matches!(self.act, Act::Patch(_)) && self.when == When::Before {
            return Err(Error::config(
                format!("{field}.act.patch"),
                "patches a reply, so it needs when = \"after\"",
            ));
        }
        Ok(())
    }
}

/// On which side of the effect a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// The call does nothing.
    Before,
    /// The call did its work, the caller does not learn it.
    After,
}

/// What a fault does. In JSON and TOML: `"drop"`, `{"errcode": 45009}`, `{"status": 503}`, ….
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Closes the connection without an answer.
    Drop,
    /// Never answers; ends when the caller hangs up. Before the effect it counts as in flight until then.
    Hang,
    /// Waits until the fault is removed, then goes on as if nothing had been. For tests of concurrency.
    Hold,
    /// Waits this many real milliseconds, then goes on.
    DelayMs(u64),
    /// An HTML page with this status, as a proxy would send.
    Status(u16),
    /// This errcode.
    Errcode(i32),
    /// The JSON answer, cut in half.
    Truncate,
    /// This JSON instead of the answer.
    Body(Value),
    /// The answer, merged with this JSON (RFC 7386: `null` removes a field). Only after the effect.
    Patch(Value),
}
