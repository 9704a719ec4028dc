//! What the fake WeCom is made of: rules, faults, corps. Every field has a default, unknown keys are errors.
//!
//! One document serves three uses: the file of the binary (TOML), the body of `PUT` and `PATCH /sim/config`
//! (JSON), and [`Sim::start`](crate::Sim::start).

mod corp;
mod fault;
mod rules;

use std::collections::HashSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use corp::{
    AppConfig, CallbackConfig, CorpConfig, Generate, MemberConfig, Secret, TagGroupConfig,
};
pub use fault::{Act, Fault, When};
pub use rules::{
    ApiLimit, CallbackRules, CheckRules, ClockConfig, ClockMode, GiveUp, GroupRules, Latency,
    Limits, LogRules, Outcomes, Paging, PeopleRules, Rate, RepeatToken, TagsCopied, TokenRules,
    TransferRules, WindowKind, WrongSecret,
};

use crate::Error;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Same seed and same order of calls: same tokens, picks, faults and outcomes.
    pub seed: u64,
    /// Take the caller's address from `X-Forwarded-For` (first entry) when present, so that one test
    /// machine can play several egress addresses.
    pub forwarded_for: bool,
    /// Virtual or real time.
    pub clock: ClockConfig,
    /// Quotas and concurrency.
    pub limits: Limits,
    /// Access tokens.
    pub tokens: TokenRules,
    /// Hand-over of customers.
    pub transfers: TransferRules,
    /// Customers who scan, welcome codes.
    pub people: PeopleRules,
    /// Customer groups and join ways.
    pub groups: GroupRules,
    /// Cursors and page sizes.
    pub paging: Paging,
    /// How events reach the callback URLs.
    pub callbacks: CallbackRules,
    /// How long a call takes.
    pub latency: Latency,
    /// What is kept of the calls.
    pub log: LogRules,
    /// What `GET /sim/check` forgives.
    pub check: CheckRules,
    /// Faults in force from the start; more come by `POST /sim/faults`.
    pub faults: Vec<Fault>,
    /// The companies.
    pub corps: Vec<CorpConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 1,
            forwarded_for: true,
            clock: ClockConfig::default(),
            limits: Limits::default(),
            tokens: TokenRules::default(),
            transfers: TransferRules::default(),
            people: PeopleRules::default(),
            groups: GroupRules::default(),
            paging: Paging::default(),
            callbacks: CallbackRules::default(),
            latency: Latency::default(),
            log: LogRules::default(),
            check: CheckRules::default(),
            faults: Vec::new(),
            corps: Vec::new(),
        }
    }
}

impl Config {
    /// Reads and checks a TOML file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::config(path.display().to_string(), error.to_string()))?;
        Self::parse(&text)
    }

    /// Parses and checks a TOML text.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let config: Self =
            toml::from_str(text).map_err(|error| Error::config("file", error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// Says what is wrong, naming the field.
    pub fn check(&self) -> Result<(), Error> {
        if !self.clock.speed.is_finite() || self.clock.speed <= 0.0 {
            return Err(Error::config("clock.speed", "must be above 0"));
        }
        let rates = [
            ("transfers.outcomes.refuse", self.transfers.outcomes.refuse),
            ("transfers.outcomes.cap", self.transfers.outcomes.cap),
            ("transfers.outcomes.early", self.transfers.outcomes.early),
            ("people.half_add_rate", self.people.half_add_rate),
            ("groups.move_ignored_rate", self.groups.move_ignored_rate),
            ("callbacks.duplicate_rate", self.callbacks.duplicate_rate),
            ("callbacks.reorder_rate", self.callbacks.reorder_rate),
            ("callbacks.loss_rate", self.callbacks.loss_rate),
            ("latency.stall_rate", self.latency.stall_rate),
        ];
        for (field, rate) in rates {
            if !(0.0..=1.0).contains(&rate) {
                return Err(Error::config(field, "must be from 0 to 1"));
            }
        }
        if self.groups.hard_cap < self.groups.scan_cap || self.groups.scan_cap < 2 {
            return Err(Error::config(
                "groups.scan_cap",
                "must be at least 2 and not above groups.hard_cap",
            ));
        }
        if self.callbacks.connections == 0 {
            return Err(Error::config("callbacks.connections", "must be at least 1"));
        }
        for (index, fault) in self.faults.iter().enumerate() {
            fault.check(&format!("faults[{index}]"))?;
        }
        let mut ids = HashSet::new();
        for corp in &self.corps {
            corp.check()?;
            if !ids.insert(corp.id.as_str()) {
                return Err(Error::config(
                    "corps",
                    format!("corp {} is listed twice", corp.id),
                ));
            }
        }
        Ok(())
    }
}
