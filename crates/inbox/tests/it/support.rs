//! What the tests share: an inbox of a corp of its own on the server of this process.

use std::time::Duration;

use inbox::connect::{self, Connection};
use inbox::{Config, Consumer, Delivery, Group, Inbox, NewDelivery};
use test_redis::Server;

pub(crate) const ENDPOINT: &str = "corp-a/contact";
pub(crate) const T0: u64 = 1_792_000_000_000;

pub(crate) struct Fixture {
    pub(crate) corp: String,
    pub(crate) inbox: Inbox<Connection>,
    pub(crate) server: &'static Server,
}

pub(crate) async fn fixture() -> Fixture {
    fixture_with(config()).await
}

/// Entries count as those of dead consumers at once, and every call looks for them.
pub(crate) fn config() -> Config {
    Config {
        claim_idle_ms: 0,
        claim_every_ms: 0,
        ..Config::default()
    }
}

pub(crate) async fn fixture_with(config: Config) -> Fixture {
    let server = test_redis::shared();
    let corp = test_redis::corp();
    Fixture {
        inbox: Inbox::new(connection(server).await, &corp, config),
        corp,
        server,
    }
}

pub(crate) async fn connection(server: &Server) -> Connection {
    connect::connect(&connect::Config::single(&server.url()))
        .await
        .expect("a connection")
}

impl Fixture {
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{{{}}}:v1:{name}", self.corp)
    }

    /// The name of the `seen` key of a delivery with this text.
    pub(crate) fn inbox_seen(&self, text: &str) -> String {
        delivery(text).id().to_string()[..32].to_owned()
    }

    pub(crate) async fn consumer(&self, group: Group, name: &str) -> Consumer<Connection> {
        let config = connect::Config::single(&self.server.url());
        let blocking = connect::connect_blocking(&config)
            .await
            .expect("a connection");
        Consumer::new(self.inbox.clone(), blocking, group, name)
    }

    pub(crate) async fn append(&self, texts: &[&str]) {
        let deliveries: Vec<_> = texts.iter().map(|text| delivery(text)).collect();
        self.inbox.append(&deliveries).await.expect("append");
    }
}

pub(crate) fn delivery(text: &str) -> NewDelivery {
    NewDelivery::new(ENDPOINT, T0, text)
}

/// Reads without waiting.
pub(crate) async fn read(consumer: &mut Consumer<Connection>, max: usize) -> Vec<Delivery> {
    consumer
        .next(max, Duration::ZERO)
        .await
        .expect("a readable inbox")
}

pub(crate) fn texts(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries
        .iter()
        .map(|delivery| delivery.plaintext.as_str())
        .collect()
}
