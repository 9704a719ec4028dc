//! What the simulator holds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::GroupState;

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
    /// Customer groups with their members.
    pub groups: Vec<GroupState>,
    /// Join ways.
    pub join_ways: Vec<serde_json::Value>,
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
    /// The groups he is in.
    pub groups: Vec<String>,
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
