//! Rules of a campaign, as an operator gives them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::row::Columns;

/// What an inviter is rewarded for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fission {
    /// How long somebody has to stay to count.
    pub stay_seconds: u64,
    pub new_to: NewTo,
    /// In the order of their distinct counts.
    pub goals: Vec<Goal>,
    /// A tag of WeCom's for everybody who comes into a group by a seat of the campaign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag_on_join: Option<String>,
    /// No more of whom one inviter brings count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_per_inviter: Option<u64>,
}

impl Default for Fission {
    fn default() -> Self {
        Self {
            stay_seconds: 0,
            new_to: NewTo::GroupPool,
            goals: Vec::new(),
            tag_on_join: None,
            max_per_inviter: None,
        }
    }
}

/// Who is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewTo {
    /// Never in a group of the campaign's pool before.
    GroupPool,
    /// In no group of ours before, and no customer who was given to a member.
    Corp,
}

/// So many who stayed are a goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    pub count: u64,
    pub name: String,
    /// What the inviter is told, or the member who has him.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// A tag of WeCom's for the inviter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Others are told.
    #[serde(default)]
    pub event: bool,
}

impl Fission {
    /// As it is kept; a campaign without it has nothing there.
    pub(crate) fn kept(rules: Option<&Self>) -> Value {
        rules.map_or_else(|| json!({}), |rules| json!(rules))
    }

    pub(crate) fn read(row: &PgRow) -> Result<Option<Self>, Error> {
        let rules: Value = row.value("rules")?;
        if rules == json!({}) {
            return Ok(None);
        }
        let rules = serde_json::from_value(rules);
        rules
            .map(Some)
            .map_err(|problem| Error::unreadable("rules", problem))
    }
}
