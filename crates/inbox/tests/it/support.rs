//! What the tests share: an inbox of a corp of its own on the server of this process.

use std::time::{Duration, Instant};

use inbox::connect::{self, Connection};
use inbox::{Config, Consumer, Delivery, Group, Inbox, NewDelivery};
use test_redis::Server;

pub(crate) const ENDPOINT: &str = "corp-a/contact";
pub(crate) const T0: u64 = 1_792_000_000_000;

pub(crate) struct Fixture<'a> {
    pub(crate) corp: String,
    pub(crate) inbox: Inbox<Connection>,
    pub(crate) server: &'a Server,
}

pub(crate) async fn fixture() -> Fixture<'static> {
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

/// As in production, but whoever looks sees at once what is due.
pub(crate) fn patient() -> Config {
    Config {
        claim_every_ms: 0,
        ..Config::default()
    }
}

pub(crate) async fn fixture_with(config: Config) -> Fixture<'static> {
    fixture_on(test_redis::shared(), config).await
}

pub(crate) async fn fixture_on(server: &Server, config: Config) -> Fixture<'_> {
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

impl Fixture<'_> {
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

/// A callback as WeCom sends it, of customer `n`.
pub(crate) fn add_event(n: usize) -> String {
    format!(
        "<xml><ToUserName><![CDATA[ww1f2e3d4c5b6a7988]]></ToUserName><FromUserName><![CDATA[sys]]></FromUserName>\
         <CreateTime>1792000000</CreateTime><MsgType><![CDATA[event]]></MsgType>\
         <Event><![CDATA[change_external_contact]]></Event><ChangeType><![CDATA[add_external_contact]]></ChangeType>\
         <UserID><![CDATA[mA]]></UserID><ExternalUserID><![CDATA[wmC{n:06}]]></ExternalUserID>\
         <State><![CDATA[ch_001]]></State><WelcomeCode><![CDATA[WC{n:06}]]></WelcomeCode></xml>"
    )
}

/// Waits for a condition.
pub(crate) async fn until(condition: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition().await {
        assert!(Instant::now() < deadline, "it did not come about");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
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
