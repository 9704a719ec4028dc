//! What a benchmark needs to call the scripts without this crate's client, with `redis-benchmark`.
//!
//! `redis-benchmark … EVALSHA <hash> 1 <log key> <now_ms | ""> <payload> (<allocation> <pool> <subject> <holder> <request>
//! <echo>)…` is one `decide`: six flat arguments for each request, empty when there is none. `redis-benchmark`
//! replaces `__rand_int__` (12 characters) with 12 digits, so ids made by [`decide_request`] stay well formed and
//! `-r` chooses how many subjects there are.

use std::sync::LazyLock;

use allocation::{CorpId, Plan};

use crate::keys::Keys;
use crate::scripts::{SCRIPTS, assemble};

/// Code of `decide`, for SCRIPT LOAD.
pub fn decide_code() -> &'static str {
    SCRIPTS.decide.code()
}

/// The hash of `decide`, for EVALSHA.
pub fn decide_hash() -> &'static str {
    SCRIPTS.decide.hash()
}

/// `KEYS[1]` of every script of a corp.
pub fn log_key(corp: &CorpId) -> String {
    Keys::new(corp).log().to_owned()
}

/// The arguments of one request for `pool`, with `__rand_int__` in allocation and subject; `salt` (0..=99) tells
/// requests of one call apart.
pub fn decide_request(pool: &str, salt: u8) -> [String; 6] {
    [
        format!("0192a4f0-0000-7000-80{salt:02}-__rand_int__"),
        pool.to_owned(),
        format!("{salt:020}__rand_int__"),
        String::new(),
        String::new(),
        String::new(),
    ]
}

/// As [`decide_request`], served by a plan.
pub fn decide_request_with(pool: &str, plan: Option<&Plan>, salt: u8) -> [String; 6] {
    let mut request = decide_request(pool, salt);
    if let Some(plan) = plan {
        request[1] = format!("{pool}\u{1c}{}", plan.text());
    }
    request
}

/// The hash of `reserve_seat`, for EVALSHA after [`crate::Roster::load`].
pub fn reserve_hash() -> &'static str {
    SCRIPTS.reserve_seat.hash()
}

/// The arguments of one visitor who wants any group of `pool`, with `__rand_int__` in seat and subject; `salt` (0..=99) tells
/// visitors of one call apart.
pub fn reserve_request(campaign: &str, pool: &str, salt: u8) -> [String; 9] {
    [
        format!("0192a4f0-0000-7000-80{salt:02}-__rand_int__"),
        campaign.to_owned(),
        pool.to_owned(),
        format!("{salt:020}__rand_int__"),
        String::new(),
        String::new(),
        String::new(),
        "600000".to_owned(),
        "60000".to_owned(),
    ]
}

/// Code of a script that only picks: `EVALSHA <hash> 1 <log key> <pool>`. It moves the pool's fairness state and
/// nothing else of the corp, so the corp is good for nothing but benchmarks afterwards.
pub fn pick_code() -> &'static str {
    static CODE: LazyLock<String> = LazyLock::new(|| assemble(include_str!("pick.lua")));
    &CODE
}
