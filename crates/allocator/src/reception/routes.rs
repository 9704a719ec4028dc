//! State → channel → pool. Printed posters outlive a change, so every State a channel ever had still leads to it.

use std::collections::HashMap;

use allocation::{ChannelId, PoolId};

/// Where customers of a corp go.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    /// What Postgres had when this was read: any change makes another one.
    pub mark: String,
    pub channels: HashMap<ChannelId, Channel>,
    pub by_state: HashMap<String, ChannelId>,
    pub default_pool: Option<PoolId>,
    pub pools: HashMap<PoolId, Pool>,
}

/// What the tasks need of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pool {
    /// Open allocations end by themselves this long after the decision.
    pub load_window_ms: Option<u64>,
}

/// What a decision needs of a channel.
#[derive(Debug, Clone)]
pub struct Channel {
    pub pool: PoolId,
    pub welcome: Option<Welcome>,
    pub card: bool,
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
