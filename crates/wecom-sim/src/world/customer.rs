//! A customer, his relations with members, and the welcome codes that come with them.

use std::collections::HashSet;
use std::sync::Arc;

use crate::admin::{CustomerScript, CustomerState, FollowState};
use crate::sync::Lock;

use super::member::Member;
use super::transfer::Attempt;

#[derive(Debug, Default)]
pub(crate) struct Customer {
    pub(crate) name: String,
    pub(crate) unionid: Option<String>,
    pub(crate) follows: Vec<Follow>,
    /// Removed followers that `externalcontact/get` still shows, with the time until when.
    pub(crate) ghosts: Vec<(Follow, i64)>,
    /// Accepted starts of in-service transfers, oldest first.
    pub(crate) moves_ms: Vec<i64>,
    /// The newest transfer; it runs as long as its status is 2.
    pub(crate) transfer: Option<Arc<Attempt>>,
    pub(crate) transfers_accepted: u32,
    /// Members who gave him away once: getting him back raises no add event.
    pub(crate) given_away_by: HashSet<Arc<str>>,
    pub(crate) script: Option<CustomerScript>,
    /// The groups he is in.
    pub(crate) groups: Vec<Arc<str>>,
}

/// A relation between a customer and a member.
#[derive(Debug, Clone)]
pub(crate) struct Follow {
    pub(crate) member: Arc<Member>,
    /// His place in the member's list.
    pub(crate) rank: u64,
    pub(crate) created_ms: i64,
    pub(crate) state: Option<Arc<str>>,
    pub(crate) add_way: u32,
    pub(crate) oper_userid: Arc<str>,
    /// The member has not confirmed: for APIs there is no relation yet.
    pub(crate) half: bool,
    /// The customer deleted the member; APIs still work.
    pub(crate) one_way: bool,
    pub(crate) remark: String,
    pub(crate) description: String,
    pub(crate) remark_company: String,
    pub(crate) remark_mobiles: Vec<String>,
    /// Ids of corp tags.
    pub(crate) tags: Vec<Arc<str>>,
    pub(crate) personal_tags: Vec<String>,
    pub(crate) welcome: Arc<Welcome>,
}

impl Follow {
    pub(crate) fn new(member: &Arc<Member>, rank: u64, now_ms: i64) -> Self {
        Self {
            member: Arc::clone(member),
            rank,
            created_ms: now_ms,
            state: None,
            add_way: 0,
            oper_userid: Arc::clone(&member.userid),
            half: false,
            one_way: false,
            remark: String::new(),
            description: String::new(),
            remark_company: String::new(),
            remark_mobiles: Vec::new(),
            tags: Vec::new(),
            personal_tags: Vec::new(),
            welcome: Arc::default(),
        }
    }

    fn state(&self) -> FollowState {
        FollowState {
            member: self.member.userid.to_string(),
            created_ms: self.created_ms,
            state: self.state.as_deref().map(str::to_owned),
            add_way: self.add_way,
            half: self.half,
            one_way: self.one_way,
            remark: self.remark.clone(),
            tags: self.tags.iter().map(|tag| tag.to_string()).collect(),
            personal_tags: self.personal_tags.clone(),
        }
    }
}

impl Customer {
    /// Somebody meets him: what is said of him, or was known, or a made-up name.
    pub(crate) fn introduce(&mut self, id: &str, name: Option<&str>, unionid: Option<&str>) {
        if let Some(name) = name {
            name.clone_into(&mut self.name);
        } else if self.name.is_empty() {
            self.name = format!("Customer {}", id.chars().rev().take(4).collect::<String>());
        }
        if let Some(unionid) = unionid {
            self.unionid = Some(unionid.to_owned());
        }
    }

    /// The relation with this member that APIs accept.
    pub(crate) fn follow(&self, member_key: &str) -> Option<&Follow> {
        self.follows
            .iter()
            .find(|follow| !follow.half && *follow.member.key == *member_key)
    }

    pub(crate) fn follow_mut(&mut self, member_key: &str) -> Option<&mut Follow> {
        self.follows
            .iter_mut()
            .find(|follow| !follow.half && *follow.member.key == *member_key)
    }

    /// Takes the relation away, half or whole.
    pub(crate) fn unfollow(&mut self, member_key: &str) -> Option<Follow> {
        let index = self
            .follows
            .iter()
            .position(|follow| *follow.member.key == *member_key)?;
        let follow = self.follows.remove(index);
        if !follow.half {
            follow.member.customers.lock().remove(&follow.rank);
        }
        Some(follow)
    }

    /// Somebody met him; a script alone makes no customer.
    pub(crate) fn known(&self) -> bool {
        !self.name.is_empty()
    }

    /// The transfer that is under way.
    pub(crate) fn running(&self) -> Option<&Arc<Attempt>> {
        self.transfer.as_ref().filter(|attempt| attempt.running())
    }

    pub(crate) fn state(&self, id: &str) -> CustomerState {
        CustomerState {
            id: id.to_owned(),
            unionid: self.unionid.clone(),
            follows: self.follows.iter().map(Follow::state).collect(),
            transfers_accepted: self.transfers_accepted,
            in_transfer: self.running().is_some(),
            groups: self.groups.iter().map(|id| id.to_string()).collect(),
        }
    }
}

/// One welcome for one new relation, however many apps got a code for it.
#[derive(Debug, Default)]
pub(crate) struct Welcome {
    /// The app that sent it, and when.
    pub(crate) sent: Lock<Option<(u32, i64)>>,
}

/// A WelcomeCode: one app's right to send the welcome.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) welcome: Arc<Welcome>,
    pub(crate) agent_id: u32,
    pub(crate) issued_ms: i64,
    pub(crate) customer: Arc<str>,
    /// send_welcome_msg calls that named it.
    pub(crate) calls: u32,
}
