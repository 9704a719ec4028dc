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
    config::{Config, EndpointConfig, Error, Errors, KeyPair, Kind, Sources},
    metrics::{EndpointMetrics, Metrics},
};

/// WeCom documents no least length. One character is what a cut or forgotten value looks like.
const TOKEN_MIN: usize = 2;

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
    pub(crate) off: BTreeMap<String, Errors>,
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
    pub(crate) fn check_some_live(&self) -> Result<(), Errors> {
        if !self.live.is_empty() {
            return Ok(());
        }
        if self.off.is_empty() {
            return Err(none().into());
        }
        let problems = self.off.values().flat_map(Errors::iter).cloned();
        Errors::none_of(problems.collect())
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
    fn build(id: &str, config: &Config, metrics: &Metrics) -> Result<Self, Errors> {
        let endpoint = config.endpoint(id)?;
        let receiver = receiver(id, &endpoint, config.sources())?;
        Ok(Self {
            id: id.into(),
            corp_id: endpoint.corp_id.as_str().into(),
            kind: endpoint.kind,
            receiver,
            metrics: metrics.endpoint(id, &endpoint),
        })
    }
}

/// Finds what is wrong with endpoints, secrets included, as a start would: for `--check-config`.
pub fn check(config: &Config) -> Vec<Error> {
    if config.endpoint_ids().next().is_none() {
        return vec![none()];
    }
    let problem = |id: &str| receiver(id, &config.endpoint(id)?, config.sources());
    let wrong = config.endpoint_ids().filter_map(|id| problem(id).err());
    wrong
        .flat_map(|errors| errors.iter().cloned().collect::<Vec<_>>())
        .collect()
}

fn none() -> Error {
    let problem = "is empty: add a table [endpoints.<name>] for each callback URL";
    Error::new("endpoints", problem)
}

fn receiver(id: &str, endpoint: &EndpointConfig, sources: &Sources) -> Result<Receiver, Errors> {
    let (mut keys, mut errors) = (Vec::new(), Vec::new());
    for (index, pair) in endpoint.keys.iter().enumerate() {
        let parent = format!("{}.keys[{index}]", settings::join("endpoints", id));
        let token = token(pair, &format!("{parent}.token"), sources);
        let aes_key = aes_key(pair, &format!("{parent}.aes_key"), sources);
        match (token, aes_key) {
            (Ok(token), Ok(aes_key)) => keys.push(Keys { token, aes_key }),
            (token, aes_key) => errors.extend(token.err().into_iter().chain(aes_key.err())),
        }
    }
    Errors::none_of(errors)?;
    let receive_ids = endpoint
        .receive_ids
        .clone()
        .unwrap_or_else(|| vec![endpoint.corp_id.clone()]);
    let parent = settings::join("endpoints", id);
    Ok(Receiver::new(keys, receive_ids)
        .map_err(|error| Error::new(parent.as_str(), error.to_string()))?)
}

fn token(pair: &KeyPair, key: &str, sources: &Sources) -> Result<CallbackToken, Error> {
    let token = pair.token.read(key, &sources.env)?;
    let length = token.expose_secret().chars().count();
    if length < TOKEN_MIN {
        let problem = format!(
            "must have {TOKEN_MIN} to 32 letters and digits, has {length}: it is what signs a callback; take the random one of WeCom's console"
        );
        return Err(Error::new(key, problem));
    }
    CallbackToken::parse(token.expose_secret()).map_err(|error| Error::new(key, error.to_string()))
}

fn aes_key(pair: &KeyPair, key: &str, sources: &Sources) -> Result<EncodingAesKey, Error> {
    let aes_key = pair.aes_key.read(key, &sources.env)?;
    EncodingAesKey::parse(aes_key.expose_secret())
        .map_err(|error| Error::new(key, error.to_string()))
}
