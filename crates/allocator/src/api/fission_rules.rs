//! What a campaign rewards, as callers write it.

use std::ops::RangeInclusive;

use ledger::{Fission, Goal, NewTo};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::validate::Fields;

const STAY_SECONDS: RangeInclusive<u64> = 0..=90 * 24 * 60 * 60;
const MOST_GOALS: usize = 10;
const COUNTS: RangeInclusive<u64> = 1..=1_000_000;
/// WeCom takes 2,048 bytes of text.
const MESSAGE_BYTES: usize = 2_000;
const TAG_CHARS: usize = 64;

/// Who is new.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum NewToName {
    /// Never in a group of the campaign's pool before.
    #[default]
    GroupPool,
    /// In no group of ours before, and no customer who was given to a member.
    Corp,
}

/// So many who stayed are a goal: an inviter reaches it once, and keeps it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FissionGoal {
    /// Above that of the goal before it.
    #[schema(minimum = 1, maximum = 1000000)]
    count: u64,
    /// 1 to 100 characters.
    name: String,
    /// What the inviter is told (a member), or the member who has him is asked to tell him (a customer). At most 2,000 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The id of a tag of WeCom's for the inviter, if he is a customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    /// Reaching it is an event of `/events`.
    #[serde(default)]
    #[schema(default = false)]
    event: bool,
}

/// What inviters are rewarded for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FissionRules {
    /// How long somebody has to stay in a group to count, up to 90 days.
    #[serde(default)]
    #[schema(default = 0, minimum = 0, maximum = 7776000)]
    stay_seconds: u64,
    #[serde(default)]
    #[schema(default = "group_pool")]
    new_to: NewToName,
    #[serde(default)]
    #[schema(max_items = 10)]
    goals: Vec<FissionGoal>,
    /// The id of a tag of WeCom's for every customer who comes into a group by a seat of the campaign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag_on_join: Option<String>,
    /// No more of whom one inviter brings count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000000)]
    max_per_inviter: Option<u64>,
}

impl FissionRules {
    pub(super) fn check(&self, fields: &mut Fields, at: &str) -> Fission {
        let stay = Some(self.stay_seconds);
        fields.range(format!("{at}/stay_seconds"), stay, STAY_SECONDS);
        let most = format!("{at}/max_per_inviter");
        fields.range(most, self.max_per_inviter, COUNTS);
        if self.goals.len() > MOST_GOALS {
            let message = format!("at most {MOST_GOALS} goals are possible");
            fields.wrong(format!("{at}/goals"), "too_many", message);
        }
        let mut last = 0;
        let mut goals = Vec::new();
        for (index, goal) in self.goals.iter().enumerate() {
            let at = format!("{at}/goals/{index}");
            fields.range(format!("{at}/count"), Some(goal.count), COUNTS);
            if goal.count <= last {
                let message = format!("must be above {last}, the count of the goal before it");
                fields.wrong(format!("{at}/count"), "not_rising", message);
            }
            last = goal.count;
            let name = fields.name(&format!("{at}/name"), &goal.name);
            let message = goal.message.as_deref();
            if let Some(message) = message {
                let pointer = format!("{at}/message");
                if message.trim().is_empty() {
                    fields.wrong(&pointer, "empty", "must not be empty: leave it out");
                }
                fields.bytes(&pointer, message, MESSAGE_BYTES);
            }
            goals.push(Goal {
                count: goal.count,
                name,
                message: message.map(str::to_owned),
                tag: tag(fields, &format!("{at}/tag"), goal.tag.as_deref()),
                event: goal.event,
            });
        }
        Fission {
            stay_seconds: self.stay_seconds,
            new_to: match self.new_to {
                NewToName::GroupPool => NewTo::GroupPool,
                NewToName::Corp => NewTo::Corp,
            },
            goals,
            tag_on_join: tag(
                fields,
                &format!("{at}/tag_on_join"),
                self.tag_on_join.as_deref(),
            ),
            max_per_inviter: self.max_per_inviter,
        }
    }
}

fn tag(fields: &mut Fields, pointer: &str, tag: Option<&str>) -> Option<String> {
    let tag = tag?;
    if tag.is_empty() || !tag.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = "must be the id of a tag as WeCom's get_corp_tag_list has it";
        fields.wrong(pointer, "invalid", message);
    }
    fields.characters(pointer, tag, TAG_CHARS);
    Some(tag.to_owned())
}

impl From<Fission> for FissionRules {
    fn from(rules: Fission) -> Self {
        let goals = rules.goals.into_iter().map(|goal| FissionGoal {
            count: goal.count,
            name: goal.name,
            message: goal.message,
            tag: goal.tag,
            event: goal.event,
        });
        Self {
            stay_seconds: rules.stay_seconds,
            new_to: match rules.new_to {
                NewTo::GroupPool => NewToName::GroupPool,
                NewTo::Corp => NewToName::Corp,
            },
            goals: goals.collect(),
            tag_on_join: rules.tag_on_join,
            max_per_inviter: rules.max_per_inviter,
        }
    }
}
