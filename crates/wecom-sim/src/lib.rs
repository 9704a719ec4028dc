//! A faithful fake WeCom over HTTP, for tests, demos and continuous integration.
//!
//! It serves the server API under `/cgi-bin/` with WeCom's quotas, error codes and delayed effects, sends
//! sealed callbacks to your callback URLs, misbehaves on request, and afterwards says whether the caller
//! behaved: `GET /sim/check`. An admin API under `/sim/` plays the people (customers scan, groups fill, members leave)
//! and moves the clock; [`SimHandle`] has the same as methods.
//!
//! ```
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! use wecom_sim::{Config, ScanRequest, Sim};
//!
//! let config = Config::parse(r#"
//!     [[corps]]
//!     id = "ww1f2e3d4c5b6a7988"
//!     apps = [{ agent_id = 1000002, secret = "test-secret" }]
//!     members = [{ userid = "mA" }, { userid = "mB" }]
//! "#).unwrap();
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
//! let sim = Sim::start(config, listener).await.unwrap();
//! // Point your client at this instead of https://qyapi.weixin.qq.com.
//! let base_url = sim.base_url();
//! # let _unused = base_url;
//! sim.scan(&ScanRequest::member("mA", "ch_001").customer("wm1")).unwrap();
//! sim.advance(std::time::Duration::from_secs(3_600)).await;
//! assert!(sim.check().holds);
//! sim.shutdown().await;
//! # });
//! ```
//!
//! It knows nothing of who calls it: no store, no allocation.

mod admin;
mod api;
mod callback;
mod clock;
mod config;
mod error;
mod fault;
mod handle;
mod log;
mod merge;
mod quota;
mod random;
mod server;
mod sync;
mod world;

pub use admin::{
    ApiCounters, By, CallFilter, CallRecord, CallbackCounters, CheckQuery, CheckReport, ClockReply,
    ClockRequest, CorpCounters, CorpState, Counters, CustomerScript, CustomerState, DeleteRequest,
    EditRequest, FollowState, GettokenCounters, GroupChange, GroupCounters, GroupMemberState,
    GroupPerson, GroupRequest, GroupState, GroupsMade, Invariant, InviteRequest, Join, JoinOutcome,
    JoinReply, JoinRequest, LeaveReply, LeaveRequest, MemberState, MessageRecord, Scan,
    ScanOutcome, ScanReply, ScanRequest, SendRequest, StateDump, TagChange, TagRequest,
    TransferEnd, TransferState, Verified,
};
pub use config::{
    Act, ApiLimit, AppConfig, CallbackConfig, CallbackRules, CheckRules, ClockConfig, ClockMode,
    Config, CorpConfig, Fault, Generate, GiveUp, GroupRules, Latency, Limits, LogRules,
    MemberConfig, Outcomes, Paging, PeopleRules, Rate, RepeatToken, Secret, TagGroupConfig,
    TagsCopied, TokenRules, TransferRules, When, WindowKind, WrongSecret,
};
pub use error::Error;
pub use fault::ArmedFault;
pub use handle::{Sim, SimHandle};
