//! What people do in customer groups, and how groups look to a test.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Somebody from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupPerson {
    /// external_userid, of a customer or of somebody new. Made up when absent.
    pub customer: Option<String>,
    /// unionid; what is known of him already stays when absent.
    pub unionid: Option<String>,
    /// Name of somebody new.
    pub name: Option<String>,
}

impl GroupPerson {
    /// One with this external_userid.
    pub fn new(external_userid: impl Into<String>) -> Self {
        Self {
            customer: Some(external_userid.into()),
            ..Self::default()
        }
    }

    /// And this unionid.
    pub fn unionid(self, unionid: impl Into<String>) -> Self {
        Self {
            unionid: Some(unionid.into()),
            ..self
        }
    }
}

/// A member makes groups by hand: a `create` event each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupRequest {
    /// The corp; may be left out when there is only one.
    #[serde(default)]
    pub corp: Option<String>,
    /// Who makes them.
    pub owner: String,
    /// Their name; several are numbered from 1.
    #[serde(default)]
    pub name: Option<String>,
    /// The id that the only one is to have.
    #[serde(default)]
    pub chat_id: Option<String>,
    /// Members of the corp who are in them besides the owner.
    #[serde(default)]
    pub members: Vec<String>,
    /// So many new people are in each of them.
    #[serde(default)]
    pub people: u32,
    /// So many groups.
    #[serde(default = "one")]
    pub count: u32,
}

fn one() -> u32 {
    1
}

impl GroupRequest {
    /// One group.
    pub fn new(owner: impl Into<String>) -> Self {
        Self {
            corp: None,
            owner: owner.into(),
            name: None,
            chat_id: None,
            members: Vec::new(),
            people: 0,
            count: 1,
        }
    }

    /// With this id.
    pub fn chat_id(self, chat_id: impl Into<String>) -> Self {
        Self {
            chat_id: Some(chat_id.into()),
            ..self
        }
    }

    /// With so many new people in it.
    pub fn people(self, people: u32) -> Self {
        Self { people, ..self }
    }

    /// So many groups.
    pub fn count(self, count: u32) -> Self {
        Self { count, ..self }
    }
}

/// The groups that were made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupsMade {
    /// Their ids.
    pub chat_ids: Vec<String>,
}

/// People scan a join way: those of `people`, and `count` new ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JoinRequest {
    /// The corp; may be left out when there is only one.
    pub corp: Option<String>,
    /// The join way.
    pub config_id: Option<String>,
    /// Instead: the latest join way that was made with this state.
    pub state: Option<String>,
    /// Who scan, in this order.
    pub people: Vec<GroupPerson>,
    /// So many new people after them. With neither it is one.
    pub count: u32,
    /// Spread the scans evenly over this simulated time instead of now.
    pub over_ms: i64,
    /// Do not list the scans in the answer.
    pub quiet: bool,
}

impl JoinRequest {
    /// Somebody new scans this join way.
    pub fn way(config_id: impl Into<String>) -> Self {
        Self {
            config_id: Some(config_id.into()),
            ..Self::default()
        }
    }

    /// Somebody new scans the join way that has this state.
    pub fn way_with(state: impl Into<String>) -> Self {
        Self {
            state: Some(state.into()),
            ..Self::default()
        }
    }

    /// One more who scans.
    pub fn person(mut self, person: GroupPerson) -> Self {
        self.people.push(person);
        self
    }

    /// So many new people.
    pub fn count(self, count: u32) -> Self {
        Self { count, ..self }
    }
}

/// What came of the scans of a join way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinReply {
    /// Done now.
    pub scanned: u64,
    /// To come, see `over_ms`.
    pub scheduled: u64,
    /// By outcome.
    pub outcomes: BTreeMap<JoinOutcome, u64>,
    /// One by one, unless `quiet`.
    pub joins: Vec<Join>,
}

/// One scan of a join way, or one invitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// external_userid, or the userid of a member.
    pub customer: String,
    /// The group he is in now.
    pub chat_id: Option<String>,
    /// What happened.
    pub outcome: JoinOutcome,
}

/// What happened to somebody who wanted into a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinOutcome {
    /// He is in; `add_member` is on its way.
    Joined,
    /// He was in it, or in another group of this way: nothing happened.
    AlreadyMember,
    /// All groups are full, an automatic room is on its way; he joins when it is there.
    Waiting,
    /// Refused: no group has room for him, and none will be made.
    Full,
}

/// Members bring people into a group past every join way, up to the hard cap: one `add_member` event for all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InviteRequest {
    /// The corp; may be left out when there is only one.
    pub corp: Option<String>,
    /// The group.
    pub chat_id: String,
    /// Who come.
    pub people: Vec<GroupPerson>,
    /// So many new people after them.
    pub count: u32,
    /// Members of the corp who come.
    pub members: Vec<String>,
    /// Who brings them, a member of the corp or somebody in the group; its owner when absent.
    pub by: Option<String>,
    /// By a link (join_scene 2): each comes by himself, with an event of his own.
    pub link: bool,
}

impl InviteRequest {
    /// One new person.
    pub fn new(chat_id: impl Into<String>) -> Self {
        Self {
            chat_id: chat_id.into(),
            count: 1,
            ..Self::default()
        }
    }

    /// So many new people.
    pub fn count(self, count: u32) -> Self {
        Self { count, ..self }
    }

    /// One who comes.
    pub fn person(mut self, person: GroupPerson) -> Self {
        self.people.push(person);
        self
    }
}

/// People leave a group, each by himself, or are removed, all at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LeaveRequest {
    /// The corp; may be left out when there is only one.
    pub corp: Option<String>,
    /// The group; when absent `people` leave every group that they are in.
    pub chat_id: Option<String>,
    /// Who: external_userids, and userids with `chat_id`.
    pub people: Vec<String>,
    /// So many more from outside, picked at random; needs `chat_id`.
    pub count: u32,
    /// The owner or an administrator removes them (QuitScene 1).
    pub removed: bool,
}

impl LeaveRequest {
    /// Somebody leaves a group.
    pub fn new(chat_id: impl Into<String>, who: impl Into<String>) -> Self {
        Self {
            chat_id: Some(chat_id.into()),
            people: vec![who.into()],
            ..Self::default()
        }
    }
}

/// Who left which group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaveReply {
    /// One by one: external_userid or userid, and chat_id.
    pub left: Vec<(String, String)>,
}

/// What a member changes about a group: an event for each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupChange {
    /// The corp; may be left out when there is only one.
    pub corp: Option<String>,
    /// New name.
    pub name: Option<String>,
    /// New owner; comes into the group first if he is not in it.
    pub owner: Option<String>,
    /// New announcement.
    pub notice: Option<String>,
}

/// A group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupState {
    /// Its id.
    pub chat_id: String,
    /// Its name.
    pub name: String,
    /// The owner's userid.
    pub owner: String,
    /// When it was made.
    pub created_ms: i64,
    /// The join way that opened it.
    pub opened_by: Option<String>,
    /// As `groupchat/list` shows it.
    pub status: u8,
    /// It is no more.
    pub dismissed: bool,
    /// How many are in it, members of the corp included.
    pub size: usize,
    /// How many of them are from outside.
    pub outside: usize,
    /// The version of the list of members.
    pub member_version: String,
    /// Who is in it. Left out where many groups are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<GroupMemberState>,
}

/// Somebody in a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupMemberState {
    /// userid or external_userid.
    pub id: String,
    /// A member of the corp.
    pub employee: bool,
    /// unionid, of people from outside.
    pub unionid: Option<String>,
    /// When he came.
    pub joined_ms: i64,
    /// 1 invited, 2 by a link, 3 scanned.
    pub join_scene: i64,
    /// The member of the corp who brought him.
    pub invitor: Option<String>,
    /// State of the join way.
    pub state: Option<String>,
}
