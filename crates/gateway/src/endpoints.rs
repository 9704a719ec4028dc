//! The callback URLs in force: for each its keys, whom its callbacks may be meant for, and the corp whose inbox they
//! go to. Built whole at the start and at every reload, and never changed in between: a request that has begun is
//! answered with what it began with.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use secrecy::ExposeSecret;
use wecom::crypto::{CallbackToken, EncodingAesKey, Keys, Receiver};

use crate::{
    config::{Config, EndpointConfig, Error, KeyPair, Kind, Sources},
    metrics::{EndpointMetrics, Metrics},
};

pub(crate) struct Endpoint {
    pub(crate) id: Arc<str>,
    pub(crate) corp_id: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) receiver: Receiver,
    pub(crate) metrics: EndpointMetrics,
}

#[derive(Default)]
pub(crate) struct Endpoints {
    pub(crate) live: HashMap<String, Arc<Endpoint>>,
    /// Malformed ones, with what is wrong.
    pub(crate) off: BTreeMap<String, Error>,
}

impl Endpoints {
    /// Reads every endpoint and its secrets. The malformed ones are switched off, the others are not affected.
    pub(crate) fn build(config: &Config, metrics: &Metrics) -> Self {
        let mut endpoints = Self::default();
        for id in config.endpoint_ids() {
            match Endpoint::build(id, config, metrics) {
                Ok(endpoint) => drop(endpoints.live.insert(id.to_owned(), Arc::new(endpoint))),
                Err(error) => drop(endpoints.off.insert(id.to_owned(), error)),
            }
        }
        endpoints
    }

    /// Whether anything can be received with these.
    pub(crate) fn check_some_live(&self) -> Result<(), Error> {
        if !self.live.is_empty() {
            return Ok(());
        }
        if self.off.is_empty() {
            return Err(Error::new(
                "endpoints",
                "is empty: add a table [endpoints.<name>] for each callback URL",
            ));
        }
        let problems: Vec<String> = self.off.values().map(Error::to_string).collect();
        Err(Error::new(
            "endpoints",
            format!("none can be used: {}", problems.join("; ")),
        ))
    }

    pub(crate) fn corps(&self) -> impl Iterator<Item = &Arc<str>> {
        let mut corps: Vec<_> = self
            .live
            .values()
            .map(|endpoint| &endpoint.corp_id)
            .collect();
        corps.sort();
        corps.dedup();
        corps.into_iter()
    }
}

impl Endpoint {
    fn build(id: &str, config: &Config, metrics: &Metrics) -> Result<Self, Error> {
        let endpoint = config.endpoint(id)?;
        let receiver = receiver(&endpoint, config.sources())
            .map_err(|error| error.under(&format!("endpoints.{id}")))?;
        Ok(Self {
            id: id.into(),
            corp_id: endpoint.corp_id.as_str().into(),
            kind: endpoint.kind,
            receiver,
            metrics: metrics.endpoint(id, &endpoint),
        })
    }
}

/// Finds what is wrong with an endpoint, secrets included, as a start would: for `--check-config`.
pub fn check(config: &Config) -> Vec<Error> {
    let problem = |id: &str| {
        let endpoint = config.endpoint(id)?;
        receiver(&endpoint, config.sources())
            .map_err(|error| error.under(&format!("endpoints.{id}")))
    };
    config
        .endpoint_ids()
        .filter_map(|id| problem(id).err())
        .collect()
}

fn receiver(endpoint: &EndpointConfig, sources: &Sources) -> Result<Receiver, Error> {
    let keys = endpoint.keys.iter().enumerate().map(|(index, pair)| {
        keys(pair, sources).map_err(|error| error.under(&format!("keys[{index}]")))
    });
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    let receive_ids = endpoint
        .receive_ids
        .clone()
        .unwrap_or_else(|| vec![endpoint.corp_id.clone()]);
    Receiver::new(keys, receive_ids).map_err(|error| Error::new("", error.to_string()))
}

fn keys(pair: &KeyPair, sources: &Sources) -> Result<Keys, Error> {
    let at = |key: &'static str| move |problem: String| Error::new(key, problem);
    let token = pair.token.read(sources).map_err(at("token"))?;
    let aes_key = pair.aes_key.read(sources).map_err(at("aes_key"))?;
    Ok(Keys {
        token: CallbackToken::parse(token.expose_secret())
            .map_err(|error| at("token")(error.to_string()))?,
        aes_key: EncodingAesKey::parse(aes_key.expose_secret())
            .map_err(|error| at("aes_key")(error.to_string()))?,
    })
}
