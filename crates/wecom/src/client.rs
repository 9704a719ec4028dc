//! WeCom's server API, typed: a file per family, one [`Client`] per app.
//!
//! The client gets and renews the token by itself, checks documented limits before it sends, and says of every
//! failure what can be done ([`Error::class`]) and whether it may have had an effect
//! ([`Error::may_have_acted`]). It repeats a call in one case only: once, with a new token, after WeCom refused
//! the old one. Budgets, back-off and everything else that remembers belongs to the caller.

mod agent;
pub mod api;
mod call;
mod clock;
mod contact;
mod contact_way;
mod gate;
mod group_chat;
mod http;
mod join_way;
mod lenient;
mod limits;
mod message;
mod network;
mod pager;
mod tag;
mod token;
mod transfer;
mod user;
mod webhook;
mod welcome;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

pub use agent::Agent;
pub use clock::{Clock, SystemClock};
pub use contact::{
    BATCH_MEMBERS_MAX, BATCH_ROWS_MAX, BatchPage, BatchRow, Customer, ExternalContact, FailInfo,
    FollowInfo, FollowTag, FollowUser, Remark,
};
pub use contact_way::{
    AddContactWay, AddedContactWay, Conclusions, ContactWay, ContactWayId, ContactWayPage,
    ContactWayWindow, UpdateContactWay, WayScene, WayType,
};
pub use group_chat::{
    FailedChat, GROUP_CHATS_TRANSFER_MAX, GROUP_OWNERS_MAX, GroupAdmin, GroupChat, GroupChatFilter,
    GroupChatId, GroupChatPage, GroupChatStatus, GroupChatStatusFilter, GroupMember,
    GroupMemberKind, Invitor, JoinScene, MemberNames, TransferGroupChat, TransferredGroupChats,
};
pub use http::http_client;
pub use join_way::{AddedJoinWay, JOIN_WAY_CHATS_MAX, JoinWay, JoinWayDetail};
pub use message::{AppMessage, MessageContent, MessageSent, Recipients, TextCard};
pub use pager::Pager;
pub use tag::{
    AddCorpTag, DelCorpTag, EditCorpTag, GetCorpTagList, MarkTag, NewTag, Tag, TagGroup,
};
pub use token::{MemoryTokenStore, StoreError, StoreFuture, Token, TokenStore};
pub use transfer::{
    TRANSFER_CUSTOMERS_MAX, TransferCustomer, TransferItem, TransferPair, TransferResultPage,
    TransferRow, TransferStatus, Transferred, Unassigned, UnassignedPage,
};
pub use user::{User, UserStatus};
pub use webhook::{Webhook, WebhookMessage};
pub use welcome::{Attachment, Image, Link, Media, MiniProgram, Text, Welcome};

use crate::Error;
use gate::Gate;
use http::Http;
use token::TokenSource;

/// One HTTP exchange ends after this time. A call whose token is missing or refused makes up to four.
pub const CALL_LIMIT: Duration = Duration::from_secs(5);
/// A token store that does not answer in this time counts as failed.
pub const STORE_LIMIT: Duration = Duration::from_secs(1);
/// Only one process renews a token at a time; it may take this long before another takes over.
pub const TOKEN_LEASE: Duration = Duration::from_secs(10);
/// No call takes longer, whatever happens to the token. Usually it is one exchange: [`Client::ensure_token`]
/// before taking a lease on work keeps it so.
pub const LONGEST_CALL: Duration = Duration::from_secs(45);

/// An app of a corp.
#[derive(Clone, Debug)]
pub struct App {
    /// `ww…`.
    pub corp_id: String,
    /// The app's number.
    pub agent_id: i64,
    /// The app's own secret.
    pub secret: SecretString,
}

impl App {
    /// Names the app in a token store; a token serves its own app only.
    pub fn key(&self) -> String {
        format!("{}:{}", self.corp_id, self.agent_id)
    }
}

/// What a client can be told beside its app.
#[derive(Clone)]
pub struct Options {
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// See [`CALL_LIMIT`].
    pub call_limit: Duration,
    /// See [`STORE_LIMIT`].
    pub store_limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            call_limit: CALL_LIMIT,
            store_limit: STORE_LIMIT,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("call_limit", &self.call_limit)
            .finish_non_exhaustive()
    }
}

/// Calls the API for one app. Clones share everything.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    http: Arc<Http>,
    app: Arc<App>,
    tokens: TokenSource,
    gate: Gate,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// A client for one app. `base_url` is `https://qyapi.weixin.qq.com`; take `http` from [`http_client`].
    pub fn new(
        http: reqwest::Client,
        base_url: &str,
        app: App,
        store: Arc<dyn TokenStore>,
    ) -> Result<Self, Error> {
        Self::with(http, base_url, app, store, Options::default())
    }

    /// The same with options.
    pub fn with(
        http: reqwest::Client,
        base_url: &str,
        app: App,
        store: Arc<dyn TokenStore>,
        options: Options,
    ) -> Result<Self, Error> {
        if app.corp_id.is_empty() {
            return Err(Error::Config {
                field: "corp_id",
                problem: "is empty",
            });
        }
        if app.secret.expose_secret().trim().is_empty() {
            return Err(Error::Config {
                field: "secret",
                problem: "is empty",
            });
        }
        let http = Arc::new(Http::new(http, base_url, options.call_limit)?);
        let app = Arc::new(app);
        let tokens = TokenSource::new(Arc::clone(&http), Arc::clone(&app), store, &options);
        Ok(Self {
            inner: Arc::new(Inner {
                http,
                app,
                tokens,
                gate: Gate::default(),
                clock: options.clock,
            }),
        })
    }

    /// The app this client calls for.
    pub fn app(&self) -> &App {
        &self.inner.app
    }

    /// Makes sure that there is a token, without calling anything else. Answers until when it may be used.
    pub async fn ensure_token(&self) -> Result<u64, Error> {
        Ok(self.inner.tokens.current().await?.expires_at_ms())
    }

    /// How often WeCom could read only a part of our JSON. Anything but 0 is a bug of this crate.
    pub fn wrong_json_count(&self) -> u64 {
        self.inner.http.wrong_json_count()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("app", &self.inner.app)
            .finish_non_exhaustive()
    }
}
