//! A company: its apps, members, tags and robots.

use std::collections::HashSet;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// A secret of the fake. Not shown by `Debug`; `GET /sim/config` does show it, since tests need it back.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[REDACTED]")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// One company.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CorpConfig {
    /// The corp id, `ww…`.
    pub id: String,
    /// Self-built apps.
    pub apps: Vec<AppConfig>,
    /// Members one by one.
    pub members: Vec<MemberConfig>,
    /// Members by the hundred, named prefix + number from 1.
    pub generate: Vec<Generate>,
    /// Keys of webhook robots.
    pub webhooks: Vec<Secret>,
    /// Tags made in the admin console (no app may edit them).
    pub tags: Vec<TagGroupConfig>,
    /// Accounts of the corp; an app may send 200 person-times of messages per account and day.
    pub account_cap: u64,
    /// Whether temporary contact ways are allowed (medical corps only).
    pub temp_ways: bool,
}

impl Default for CorpConfig {
    fn default() -> Self {
        Self {
            id: String::new(),
            apps: Vec::new(),
            members: Vec::new(),
            generate: Vec::new(),
            webhooks: Vec::new(),
            tags: Vec::new(),
            account_cap: 10_000,
            temp_ways: false,
        }
    }
}

impl CorpConfig {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.id.is_empty() {
            return Err(Error::config("corps.id", "must not be empty"));
        }
        let mut agents = HashSet::new();
        for app in &self.apps {
            let field = format!("corps[{}].apps[{}]", self.id, app.agent_id);
            if !agents.insert(app.agent_id) {
                return Err(Error::config(field, "agent_id is used twice"));
            }
            if app.secret.0.is_empty() {
                return Err(Error::config(
                    format!("{field}.secret"),
                    "must not be empty",
                ));
            }
            if let Some(callback) = &app.callback {
                callback.check(&format!("{field}.callback"))?;
            }
        }
        let mut members = HashSet::new();
        for member in self.all_members() {
            let field = format!("corps[{}].members[{}]", self.id, member.userid);
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
            if member.userid.is_empty()
                || member.userid.len() > 64
                || !member.userid.chars().all(plain)
            {
                return Err(Error::config(
                    field,
                    "a userid is 1 to 64 letters, digits, '-', '_', '.' or '@'",
                ));
            }
            if !members.insert(member.userid.to_ascii_lowercase()) {
                return Err(Error::config(
                    field,
                    "userids are compared without case, this one is used twice",
                ));
            }
        }
        Ok(())
    }

    /// Listed and generated members.
    pub fn all_members(&self) -> Vec<MemberConfig> {
        let generated = self.generate.iter().flat_map(|range| {
            (1..=range.count).map(|number| MemberConfig {
                customer_limit: range.customer_limit,
                ..MemberConfig::new(format!("{}{number}", range.prefix))
            })
        });
        self.members.iter().cloned().chain(generated).collect()
    }
}

/// A run of members alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generate {
    /// What their ids start with.
    pub prefix: String,
    /// How many.
    pub count: u32,
    /// See [`MemberConfig::customer_limit`].
    #[serde(default = "default_customer_limit")]
    pub customer_limit: usize,
}

impl Generate {
    /// So many members with everything else by default.
    pub fn new(prefix: impl Into<String>, count: u32) -> Self {
        Self {
            prefix: prefix.into(),
            count,
            customer_limit: default_customer_limit(),
        }
    }
}

fn default_customer_limit() -> usize {
    MemberConfig::default().customer_limit
}

/// A self-built app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AppConfig {
    /// Its agent id.
    pub agent_id: u32,
    /// Its secret.
    pub secret: Secret,
    /// A stopped app gets 40001 from gettoken.
    pub enabled: bool,
    /// Listed in 客户联系 → 可调用接口的应用; otherwise 48002 for every `externalcontact/…` call.
    pub callable: bool,
    /// Visible range: userids. Empty = everybody.
    pub visible: Vec<String>,
    /// Addresses that may call (企业可信IP); otherwise 60020. Empty = any.
    pub trusted_ips: Vec<IpAddr>,
    /// Where its events go.
    pub callback: Option<CallbackConfig>,
}

impl Default for AppConfig {
    fn default() -> Self {
        Self {
            agent_id: 1_000_002,
            secret: Secret::default(),
            enabled: true,
            callable: true,
            visible: Vec::new(),
            trusted_ips: Vec::new(),
            callback: None,
        }
    }
}

/// Callback settings of an app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallbackConfig {
    /// One URL, or several that take turns (as if a load balancer stood before two gateways).
    pub urls: Vec<String>,
    /// Token.
    pub token: Secret,
    /// EncodingAESKey.
    pub aes_key: Secret,
    /// Receive id inside the frame; the corp id when absent.
    pub receive_id: Option<String>,
    /// 外部联系人变更回调 ticked: without it no `change_external_*` event is sent.
    pub contact_events: bool,
}

impl Default for CallbackConfig {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            token: Secret::default(),
            aes_key: Secret::default(),
            receive_id: None,
            contact_events: true,
        }
    }
}

impl CallbackConfig {
    fn check(&self, field: &str) -> Result<(), Error> {
        for url in &self.urls {
            url::Url::parse(url).map_err(|error| {
                Error::config(format!("{field}.urls"), format!("{url}: {error}"))
            })?;
        }
        wecom::crypto::Keys::parse(&self.token.0, &self.aes_key.0)
            .map(|_| ())
            .map_err(|error| Error::config(field, error.to_string()))
    }
}

/// A member (employee).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemberConfig {
    /// Its id as WeCom spells it. Requests may spell it in any case.
    pub userid: String,
    /// Shown by `user/get`; the userid when absent.
    pub name: Option<String>,
    /// 1 active, 2 disabled, 4 not activated, 5 left.
    pub status: u8,
    /// Real-name verified; otherwise 40098 as a taker.
    pub verified: bool,
    /// Has the customer-contact function; otherwise 84083 as a taker.
    pub customer_contact: bool,
    /// 40143 as a taker.
    pub banned: bool,
    /// Has an interop licence; without it his customers are left out of batches, and if nobody has one the
    /// call answers 701008.
    pub licensed: bool,
    /// Days since the last login; above 365 means 40205.
    pub last_login_days: u32,
    /// Most customers; beyond it 40099 or a transfer that ends with status 4. 0 = no limit.
    pub customer_limit: usize,
    /// The admin console has a welcome text for this member: events carry no WelcomeCode.
    pub console_welcome: bool,
    /// Departments.
    pub departments: Vec<u32>,
    /// When the member left (status 5), simulated milliseconds since the epoch.
    pub resigned_ms: Option<i64>,
}

impl MemberConfig {
    /// An active member with every permission.
    pub fn new(userid: impl Into<String>) -> Self {
        Self {
            userid: userid.into(),
            ..Self::default()
        }
    }
}

impl Default for MemberConfig {
    fn default() -> Self {
        Self {
            userid: String::new(),
            name: None,
            status: 1,
            verified: true,
            customer_contact: true,
            banned: false,
            licensed: true,
            last_login_days: 0,
            customer_limit: 5_000,
            console_welcome: false,
            departments: vec![1],
            resigned_ms: None,
        }
    }
}

/// A tag group made in the admin console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagGroupConfig {
    /// Name of the group.
    pub group: String,
    /// Names of its tags; their ids are made up and shown by `get_corp_tag_list`.
    pub tags: Vec<String>,
}
