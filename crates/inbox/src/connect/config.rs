//! Where Redis is, and how long to wait for it.

use std::time::Duration;

use redis::cluster::ClusterClient;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, TlsMode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::link::Source;
use crate::Error;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    #[default]
    Single,
    Sentinel,
    Cluster,
}

/// The settings of a connection. The URL is a secret, because it may hold a password.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub mode: Mode,
    /// `redis://` or `rediss://` with user, password and database. Several, separated by commas, for Sentinel
    /// (the sentinels; user, password, database and TLS of the first are those of the servers behind them) and
    /// for a cluster (any of its nodes).
    pub url: SecretString,
    /// The name Sentinel knows the primary by.
    pub sentinel_master: String,
    /// For the sentinels themselves, when they want it.
    pub sentinel_username: Option<String>,
    pub sentinel_password: Option<SecretString>,
    /// How long one call may take. Longer than an fsync stall, shorter than the 4 s after which a callback is
    /// refused.
    pub response_timeout_ms: u64,
    /// How long making a connection may take, with name resolution, TLS and log-in.
    pub connect_timeout_ms: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mode: Mode::Single,
            url: SecretString::from("redis://127.0.0.1:6379"),
            sentinel_master: "mymaster".into(),
            sentinel_username: None,
            sentinel_password: None,
            response_timeout_ms: 2_000,
            connect_timeout_ms: 1_000,
        }
    }
}

impl Config {
    /// One server at this address, everything else as by default.
    pub fn single(url: &str) -> Config {
        Config {
            url: SecretString::from(url),
            ..Config::default()
        }
    }

    pub(crate) fn response_timeout(&self) -> Duration {
        Duration::from_millis(self.response_timeout_ms)
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }

    /// What is wrong with these settings, without connecting. It never prints the URL.
    pub fn check(&self) -> Result<(), Error> {
        if self.response_timeout_ms == 0 || self.connect_timeout_ms == 0 {
            return Err(Error::Config(
                "a time-out of 0 would refuse everything".into(),
            ));
        }
        match self.mode {
            Mode::Single if self.addresses()?.len() > 1 => Err(Error::Config(
                "url: several addresses, but mode is single: name one, or set mode to sentinel or cluster".into(),
            )),
            Mode::Single | Mode::Sentinel => self.source().map(drop),
            Mode::Cluster => self.cluster_client(self.response_timeout()).map(drop),
        }
    }

    fn addresses(&self) -> Result<Vec<ConnectionInfo>, Error> {
        let infos: Result<Vec<_>, _> = self
            .url
            .expose_secret()
            .split(',')
            .map(|url| url.trim().into_connection_info())
            .collect();
        // The error of the library is not repeated: it could quote the URL.
        infos.map_err(|_| Error::Config("url: must be redis[s]://[user:password@]host:port[/db], several with commas for sentinel and cluster".into()))
    }

    pub(super) fn source(&self) -> Result<Source, Error> {
        let addresses = self.addresses()?;
        match (self.mode, addresses.into_iter().next()) {
            (Mode::Sentinel, _) => Ok(Source::sentinel(self.sentinel_client()?)),
            (_, Some(info)) => {
                let info = info.set_tcp_settings(tcp_settings());
                Ok(Source::server(Client::open(info).map_err(settings)?))
            }
            (_, None) => Err(Error::Config("url: empty".into())),
        }
    }

    fn sentinel_client(&self) -> Result<SentinelClient, Error> {
        let infos = self.addresses()?;
        let Some(first) = infos.first() else {
            return Err(Error::Config("url: empty".into()));
        };
        let servers = first.redis_settings().clone();
        let tls = match first.addr() {
            ConnectionAddr::TcpTls { insecure: true, .. } => Some(TlsMode::Insecure),
            ConnectionAddr::TcpTls { .. } => Some(TlsMode::Secure),
            _ => None,
        };
        let addresses: Vec<_> = infos.iter().map(|info| info.addr().clone()).collect();
        let mut builder = SentinelClientBuilder::new(
            addresses,
            &self.sentinel_master,
            SentinelServerType::Master,
        )
        .map_err(settings)?
        .set_client_to_redis_db(servers.db())
        .set_client_to_redis_protocol(servers.protocol())
        .set_client_to_redis_tcp_settings(tcp_settings())
        .set_client_to_sentinel_tcp_settings(tcp_settings());
        if let Some(tls) = tls {
            builder = builder.set_client_to_redis_tls_mode(tls);
        }
        if let Some(username) = servers.username() {
            builder = builder.set_client_to_redis_username(username);
        }
        if let Some(password) = servers.password() {
            builder = builder.set_client_to_redis_password(password);
        }
        if let Some(username) = &self.sentinel_username {
            builder = builder.set_client_to_sentinel_username(username);
        }
        if let Some(password) = &self.sentinel_password {
            builder = builder.set_client_to_sentinel_password(password.expose_secret());
        }
        builder.build().map_err(settings)
    }

    pub(super) fn cluster_client(&self, response: Duration) -> Result<ClusterClient, Error> {
        ClusterClient::builder(self.addresses()?)
            .response_timeout(response)
            // With redirections and a refresh of the slots a call may try more than once within this.
            .overall_response_timeout(Some(response))
            .connection_timeout(self.connect_timeout())
            .tcp_settings(tcp_settings())
            .build()
            .map_err(settings)
    }
}

fn settings(error: redis::RedisError) -> Error {
    Error::Config(error.to_string())
}

/// Without TCP_NODELAY a buffer written behind another in flight waits for the answer to the first.
fn tcp_settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

#[cfg(test)]
mod tests {
    use super::{Config, Mode};

    #[test]
    fn unknown_keys_are_refused_and_the_url_is_never_printed() {
        let error = toml::from_str::<Config>("urll = 'x'").unwrap_err();
        assert!(error.to_string().contains("urll"));
        let config: Config = toml::from_str("url = 'redis://u:hush@127.0.0.1:1/2'").unwrap();
        assert!(!format!("{config:?}").contains("hush"));
        config.check().unwrap();
        let config = Config::single("redis//u:hush@127.0.0.1:1");
        let message = config.check().unwrap_err().to_string();
        assert!(
            message.contains("url") && !message.contains("hush"),
            "{message}"
        );
    }

    #[test]
    fn several_addresses_need_a_mode_that_uses_them() {
        let mut config = Config::single("redis://a:1, redis://b:2");
        assert!(config.check().is_err());
        for mode in [Mode::Sentinel, Mode::Cluster] {
            config.mode = mode;
            config.check().unwrap();
        }
    }
}
