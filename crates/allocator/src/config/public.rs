//! `[public]`: the listener with the pages that visitors see.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use ipnet::IpNet;
use secrecy::ExposeSecret;
use serde::Deserialize;
use settings::{Error, SecretRef};

use super::Http;
use crate::public::identity::Keys;

const COOKIE_KEY: &str = "public.cookie_key";

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Public {
    /// Where the pages are served; without it nowhere.
    pub listen: Option<SocketAddr>,
    /// What the outside calls that.
    pub base_url: Option<String>,
    /// Signs visitors' cookies; the same in every allocator.
    pub cookie_key: Option<SecretRef>,
    /// Requests of one client in a minute, in the long run.
    pub per_minute: u32,
    /// As many more at once.
    pub burst: u32,
    /// Whose `X-Forwarded-For` is believed.
    #[serde(deserialize_with = "settings::list")]
    pub trusted_proxies: Vec<Network>,
}

impl Public {
    /// The keys that sign cookies, if there is a secret for them.
    pub fn read_keys(&self, env: &HashMap<String, String>) -> Result<Option<Keys>, Error> {
        let Some(secret) = &self.cookie_key else {
            return Ok(None);
        };
        let text = secret.read(COOKIE_KEY, env)?;
        Keys::parse(text.expose_secret())
            .map(Some)
            .map_err(|problem| Error::new(COOKIE_KEY, problem))
    }

    /// Cookies are sent over TLS only.
    pub fn is_secure(&self) -> bool {
        self.base_url
            .as_ref()
            .is_some_and(|url| url.starts_with("https:"))
    }

    /// The address of a page; only its path where the pages are not served.
    pub fn url(&self, path: &str) -> String {
        let base = self.base_url.as_deref().filter(|_| self.listen.is_some());
        format!("{}{path}", base.unwrap_or_default().trim_end_matches('/'))
    }

    /// What is missing for pages, and who has their address already.
    pub(super) fn conflicts(&self, http: &Http) -> Vec<Error> {
        let mut errors = Vec::new();
        let Some(listen) = self.listen else {
            return errors;
        };
        if self.base_url.is_none() {
            let problem = "is missing: with public.listen it must be said what the outside calls that, such as https://go.example.com";
            errors.push(Error::new("public.base_url", problem));
        }
        if self.cookie_key.is_none() {
            let problem = "is missing: public.listen needs it, the same for every allocator, or a visitor would be somebody else at each of \
                           them: make one with `openssl rand -base64 32`, and write env:NAME or file:/path here";
            errors.push(Error::new(COOKIE_KEY, problem));
        }
        for (key, other) in [
            ("http.listen", http.listen),
            ("http.admin_listen", http.admin_listen),
        ] {
            if listen == other && listen.port() != 0 {
                let problem = format!("must be another address than {key}, {other}");
                errors.push(Error::new("public.listen", problem));
            }
        }
        errors
    }
}

/// One address or many: `10.0.0.1`, `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(IpNet);

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl FromStr for Network {
    type Err = ipnet::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let one = text.parse::<IpAddr>().map(IpNet::from);
        one.or_else(|_| text.parse()).map(Self)
    }
}

impl TryFrom<String> for Network {
    type Error = ipnet::AddrParseError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}
