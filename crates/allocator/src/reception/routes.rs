//! State → channel → pool. Printed posters outlive a change, so every State a channel ever had still leads to it.

use std::collections::{BTreeSet, HashMap};

use allocation::{ChannelId, MemberId, PoolId, Skill, Weight};
use ledger::Routing;

/// Where customers of a corp go.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    /// What Postgres had when this was read: any change makes another one.
    pub mark: String,
    pub channels: HashMap<ChannelId, Channel>,
    /// Deleted channels whose contact ways are still at WeCom, and the pools they had: a visitor may have seen one just before.
    pub deleted: HashMap<ChannelId, PoolId>,
    pub by_state: HashMap<String, ChannelId>,
    /// Public pages, those that are off too: a printed address outlives a pause.
    pub by_public_code: HashMap<String, ChannelId>,
    pub default_pool: Option<PoolId>,
    pub pools: HashMap<PoolId, Pool>,
}

/// What decisions and tasks need of a pool, beside what Redis knows of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pool {
    /// Open allocations end by themselves this long after the decision.
    pub load_window_ms: Option<u64>,
    pub routing: Routing,
    /// Its members, where a customer of whom nobody is known always comes to the same one.
    pub able: Vec<Able>,
}

/// A member of a pool, and what he can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Able {
    pub member: MemberId,
    pub weight: Weight,
    pub skills: BTreeSet<Skill>,
}

/// What a decision needs of a channel.
#[derive(Debug, Clone)]
pub struct Channel {
    pub pool: PoolId,
    pub welcome: Option<Welcome>,
    pub card: bool,
    /// What a member must be able to do.
    pub needs: Vec<Skill>,
    /// Only so many who come through it are given a member in an hour, or on a day.
    pub is_limited: bool,
    /// Its public page; None = there is none now.
    pub visits: Option<Visits>,
}

/// What the public page of a channel does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visits {
    pub public_code: String,
    pub slots_per_member: u32,
    /// How long a visitor's member is held for him.
    pub hold_ms: u64,
    /// May be empty.
    pub title: String,
}

/// Where a public page is on its listener.
pub fn public_path(public_code: &str) -> String {
    format!("/c/{public_code}")
}

/// The welcome message of a channel, as `send_welcome_msg` takes it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    pub text: Option<String>,
    #[serde(default)]
    pub attachments: Vec<serde_json::Value>,
}

/// The pool for one State.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    Channel(ChannelId, PoolId),
    /// The State names no channel, or there was none.
    Default(PoolId),
    Nowhere,
}

impl Routes {
    /// The channel of a public page, whether it is on or off.
    pub fn by_public_code(&self, code: &str) -> Option<(&ChannelId, &Channel)> {
        let id = self.by_public_code.get(code)?;
        self.channels.get_key_value(id)
    }

    /// The pool of visitors who saw a contact way of this channel, which may be deleted by now; then the default one, if that
    /// pool is gone, too.
    pub fn pool_of_ways(&self, channel: &ChannelId) -> Option<&PoolId> {
        if let Some(channel) = self.channels.get(channel) {
            return Some(&channel.pool);
        }
        let pool = self.deleted.get(channel)?;
        match self.pools.contains_key(pool) {
            true => Some(pool),
            false => self.default_pool.as_ref(),
        }
    }

    pub fn knows(&self, channel: &str) -> bool {
        ChannelId::new(channel).is_ok_and(|channel| self.channels.contains_key(&channel))
    }

    pub fn find(&self, state: Option<&str>) -> Route {
        let channel = state.and_then(|state| self.by_state.get(state));
        if let Some(id) = channel
            && let Some(channel) = self.channels.get(id)
        {
            return Route::Channel(id.clone(), channel.pool.clone());
        }
        match &self.default_pool {
            Some(pool) => Route::Default(pool.clone()),
            None => Route::Nowhere,
        }
    }
}
