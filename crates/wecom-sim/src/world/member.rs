//! A member and the list of his customers.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::admin::MemberState;
use crate::config::MemberConfig;
use crate::sync::{Lock, Slot};

use super::stats::Messages;

const DAY_MS: i64 = 86_400_000;

#[derive(Debug)]
pub(crate) struct Member {
    /// Lower case: userids are compared without case.
    pub(crate) key: Arc<str>,
    /// As WeCom spells it, in events and answers.
    pub(crate) userid: Arc<str>,
    pub(crate) def: Slot<MemberConfig>,
    /// external_userid by rank: the order in which he got them, which is the order of pages.
    pub(crate) customers: Lock<BTreeMap<u64, Arc<str>>>,
    pub(crate) messages: Lock<Messages>,
}

impl Member {
    pub(crate) fn new(def: MemberConfig) -> Self {
        Self {
            key: def.userid.to_ascii_lowercase().into(),
            userid: def.userid.as_str().into(),
            def: Slot::new(def),
            customers: Lock::default(),
            messages: Lock::default(),
        }
    }

    /// In the corp; a disabled or not activated member still is.
    pub(crate) fn in_service(&self) -> bool {
        self.def.get().status != 5
    }

    /// May be given a customer by a scan.
    pub(crate) fn serves(&self) -> bool {
        let def = self.def.get();
        def.status == 1 && def.customer_contact
    }

    pub(crate) fn full(&self) -> bool {
        let limit = self.def.get().customer_limit;
        limit > 0 && self.customers.lock().len() >= limit
    }

    /// Why he cannot take customers over, in the order of api.md 14.5; 0 when he can.
    pub(crate) fn taker_code(&self) -> i32 {
        let def = self.def.get();
        if def.status == 5 {
            60111
        } else if !def.customer_contact {
            84083
        } else if !def.verified || def.status != 1 {
            40098
        } else if def.last_login_days > 365 {
            40205
        } else if def.banned {
            40143
        } else {
            0
        }
    }

    /// Why his customers cannot be given away as those of a member who left; 0 when they can.
    pub(crate) fn resigned_giver_code(&self, now_ms: i64) -> i32 {
        let def = self.def.get();
        if def.status != 5 {
            return 40097;
        }
        let left_days = def
            .resigned_ms
            .map_or(0, |left| (now_ms - left).div_euclid(DAY_MS));
        // WeCom names no code for the year after leaving or the login before it.
        if left_days > 365 || def.last_login_days > 365 {
            40205
        } else {
            0
        }
    }

    pub(crate) fn state(&self) -> MemberState {
        MemberState {
            userid: self.userid.to_string(),
            status: self.def.get().status,
            customers: self.customers.lock().len(),
        }
    }
}
