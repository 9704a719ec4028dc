//! How much of WeCom's limits we use.

use std::collections::BTreeMap;

use serde::Deserialize;

/// WeCom's published numbers and the share of them that is ours. "May be tuned by WeCom at any time."
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Calls of one API by one corp in 60 s, as published.
    pub per_minute: u32,
    /// The same in 60 min.
    pub per_hour: u32,
    /// The share of a window that we use; other programs of the corp use the same limit.
    pub share_percent: u32,
    /// The share of our part that only urgent calls may use.
    pub urgent_percent: u32,
    /// Calls of one API by one corp at the same time.
    pub in_flight: u32,
    /// A dead process gives its places back after this. A living one renews them every quarter of it.
    pub lease_ms: u64,
    /// Renewals end after this: longer than a call can last, with a token renewal and a repetition in it.
    pub longest_ms: u64,
    /// After WeCom refused for concurrency, one more place is tried in this time.
    pub grow_back_ms: u64,
    /// Calls of one API from one address in 60 s, all corps together.
    pub egress_per_minute: u32,
    /// The same in 60 min.
    pub egress_per_hour: u32,
    /// Exceptions, by API name.
    pub apis: BTreeMap<String, ApiLimits>,
}

/// An API with published limits of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApiLimits {
    pub per_minute: Option<u32>,
    pub per_hour: Option<u32>,
    pub in_flight: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            per_minute: 10_000,
            per_hour: 150_000,
            share_percent: 90,
            urgent_percent: 10,
            in_flight: 5,
            lease_ms: 4_000,
            longest_ms: 60_000,
            grow_back_ms: 30_000,
            egress_per_minute: 20_000,
            egress_per_hour: 600_000,
            apis: BTreeMap::new(),
        }
    }
}

/// What one call is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLimits {
    pub per_minute: u32,
    pub per_hour: u32,
    /// 0 = not limited.
    pub in_flight: u32,
    pub lease_ms: u64,
    pub grow_back_ms: u64,
}

impl Limits {
    /// Of a corp's API; an ordinary call leaves the last part of a window to urgent ones.
    pub fn corp(&self, api: &str, urgent: bool) -> BudgetLimits {
        let own = self.apis.get(api).cloned().unwrap_or_default();
        BudgetLimits {
            per_minute: self.ours(own.per_minute.unwrap_or(self.per_minute), urgent),
            per_hour: self.ours(own.per_hour.unwrap_or(self.per_hour), urgent),
            in_flight: own.in_flight.unwrap_or(self.in_flight).max(1),
            lease_ms: self.lease_ms,
            grow_back_ms: self.grow_back_ms.max(1),
        }
    }

    /// Of an API as seen from the egress address.
    pub fn egress(&self, urgent: bool) -> BudgetLimits {
        BudgetLimits {
            per_minute: self.ours(self.egress_per_minute, urgent),
            per_hour: self.ours(self.egress_per_hour, urgent),
            in_flight: 0,
            lease_ms: self.lease_ms,
            grow_back_ms: self.grow_back_ms.max(1),
        }
    }

    fn ours(&self, published: u32, urgent: bool) -> u32 {
        let ours = percent(published, self.share_percent.min(100));
        let open = if urgent {
            ours
        } else {
            percent(ours, 100 - self.urgent_percent.min(100))
        };
        open.max(1)
    }
}

fn percent(of: u32, percent: u32) -> u32 {
    u32::try_from(u64::from(of) * u64::from(percent) / 100).unwrap_or(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_call_sees_less_of_the_window_than_an_urgent_one() {
        let limits = Limits::default();
        assert_eq!(limits.corp("x", true).per_minute, 9_000);
        assert_eq!(limits.corp("x", false).per_minute, 8_100);
        assert_eq!(limits.corp("x", false).per_hour, 121_500);
        assert_eq!(limits.egress(true).per_minute, 18_000);
        assert_eq!(limits.egress(true).in_flight, 0);
    }

    #[test]
    fn an_api_may_have_limits_of_its_own_and_none_is_zero() {
        let mut limits = Limits::default();
        limits.apis.insert(
            "x".into(),
            ApiLimits {
                per_minute: Some(1),
                in_flight: Some(0),
                ..ApiLimits::default()
            },
        );
        assert_eq!(limits.corp("x", false).per_minute, 1);
        assert_eq!(limits.corp("x", false).in_flight, 1);
        assert_eq!(limits.corp("y", true).in_flight, 5);
    }
}
