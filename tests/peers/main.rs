//! Other people's libraries seal callbacks, we must understand them. `cargo xtask test peers` installs the libraries
//! and runs this; it is no part of other test runs because it needs node and python.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use e2e::{AES_KEY, Options, TOKEN, World, eventually};
use inbox::DeliveryId;
use serde::Deserialize;
use serde_json::{Value, json};

/// Where a suite's callbacks come from and what they are for: GET is sealed for the provider, POST for the suite.
const PROVIDER: &str = "wwprovider0000000001";
const SUITE: &str = "wwsuite00000000000001";

/// One line of `tests/fixtures/events.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    event: Option<String>,
    change: Option<String>,
    message: Option<String>,
    raw: Option<String>,
    #[serde(default)]
    fields: String,
    /// Whom it is from in the envelope of apps; empty: the element is missing.
    from: Option<String>,
    only: Option<Envelope>,
    outcome: String,
    reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Envelope {
    App,
    Suite,
}

impl Envelope {
    fn endpoint(self) -> &'static str {
        match self {
            Self::App => "sales",
            Self::Suite => "suite",
        }
    }

    fn acknowledgement(self) -> &'static str {
        match self {
            Self::App => "",
            Self::Suite => "success",
        }
    }
}

impl Described {
    fn plaintext(&self, envelope: Envelope, corp: &str, customer: &str) -> String {
        let text = match (&self.raw, &self.message, &self.event) {
            (Some(raw), ..) => raw.clone(),
            (None, Some(kind), _) => self.app(corp, kind, ""),
            (None, None, Some(event)) if envelope == Envelope::App => self.app(
                corp,
                "event",
                &format!("<Event><![CDATA[{event}]]></Event>"),
            ),
            (None, None, Some(event)) => format!(
                "<xml><SuiteId><![CDATA[{SUITE}]]></SuiteId><AuthCorpId><![CDATA[{corp}]]></AuthCorpId>\
                 <InfoType><![CDATA[{event}]]></InfoType><TimeStamp>1792000000</TimeStamp>{}{}</xml>",
                self.change_type(),
                self.fields
            ),
            (None, None, None) => unreachable!("an event without a name"),
        };
        text.replace("{customer}", customer)
    }

    fn app(&self, corp: &str, kind: &str, event: &str) -> String {
        let from = match self.from.as_deref().unwrap_or("sys") {
            "" => String::new(),
            from => format!("<FromUserName><![CDATA[{from}]]></FromUserName>"),
        };
        format!(
            "<xml><ToUserName><![CDATA[{corp}]]></ToUserName>{from}<CreateTime>1792000000</CreateTime>\
             <MsgType><![CDATA[{kind}]]></MsgType>{event}{}{}</xml>",
            self.change_type(),
            self.fields
        )
    }

    fn change_type(&self) -> String {
        let change = self.change.as_ref();
        change.map_or_else(String::new, |change| {
            format!("<ChangeType><![CDATA[{change}]]></ChangeType>")
        })
    }
}

/// A request as the peer sealed it.
#[derive(Debug, Deserialize)]
struct Sealed {
    query: String,
    body: Option<String>,
}

/// Runs a peer: one order a line, one answer a line.
fn seal(mut program: Command, orders: &[Value]) -> Vec<Sealed> {
    let mut child = program
        .env("PAIDAN_PEERS", peers())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the peer starts");
    let lines: String = orders.iter().map(|order| format!("{order}\n")).collect();
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("the peer ends");
    writer.join().expect("no panic").expect("the peer reads");
    assert!(output.status.success(), "{program:?}: {}", output.status);
    let text = String::from_utf8(output.stdout).expect("text");
    let sealed: Vec<Sealed> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a sealed request"))
        .collect();
    assert_eq!(sealed.len(), orders.len());
    sealed
}

/// Where `cargo xtask test peers` installed the libraries.
fn peers() -> PathBuf {
    std::env::var_os("PAIDAN_PEERS")
        .expect("PAIDAN_PEERS names the installed libraries; run cargo xtask test peers")
        .into()
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn order(kind: &str, envelope: Envelope, corp: &str, number: usize, plaintext: &str) -> Value {
    let (receive_id, to, agent) = match (envelope, kind) {
        (Envelope::App, _) => (corp, corp, "1000002"),
        (Envelope::Suite, "verify") => (PROVIDER, SUITE, ""),
        (Envelope::Suite, _) => (SUITE, SUITE, ""),
    };
    json!({
        "token": TOKEN, "aes_key": AES_KEY, "receive_id": receive_id, "kind": kind, "plaintext": plaintext,
        "timestamp": (1_792_000_000 + number).to_string(), "nonce": format!("{}", 7_000_000 + number),
        "to_user_name": to, "agent_id": agent,
    })
}

/// Verifies both URLs, then posts every event in both envelopes; each must be in the ledger with what became of it.
async fn every_event_family_arrives(peer: &str, program: impl Fn() -> Command) {
    let text = std::fs::read_to_string(source("fixtures/events.json")).expect("the events");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let events: Vec<Described> = serde_json::from_value(file["events"].clone()).expect("events");
    let world = World::start(Options {
        // The only member has every customer already: no transfer, so the fake WeCom need not know them.
        members: vec![("ma", 1)],
        gateway: format!(
            "[endpoints.suite]\ncorp_id = \"{{corp}}\"\nkind = \"suite\"\nreceive_ids = [\"{PROVIDER}\", \"{SUITE}\"]\n\
             keys = [{{ token = \"env:CALLBACK_TOKEN\", aes_key = \"env:CALLBACK_KEY\" }}]\n"
        ),
        ..Options::default()
    })
    .await;
    let corp = world.corp.to_string();
    let client = reqwest::Client::new();
    let mut posted = 0;
    for envelope in [Envelope::App, Envelope::Suite] {
        let url = world.callback_urls[0].replace("/sales", &format!("/{}", envelope.endpoint()));
        let echo = "8517930201833135609";
        let verify = seal(program(), &[order("verify", envelope, &corp, 0, echo)]);
        let answer = client
            .get(format!("{url}?{}", verify[0].query))
            .send()
            .await;
        let answer = answer.expect("an answer").error_for_status().expect("200");
        assert_eq!(
            answer.text().await.expect("a body"),
            echo,
            "{peer} {envelope:?}"
        );

        let customer = format!("wm{peer}{}", envelope.endpoint());
        let chosen: Vec<(&Described, String)> = events
            .iter()
            .filter(|event| event.only.is_none_or(|only| only == envelope))
            .map(|event| (event, event.plaintext(envelope, &corp, &customer)))
            .collect();
        let orders: Vec<Value> = chosen
            .iter()
            .enumerate()
            .map(|(number, (_, plaintext))| order("post", envelope, &corp, number + 1, plaintext))
            .collect();
        for ((event, _), sealed) in chosen.iter().zip(seal(program(), &orders)) {
            let body = sealed.body.expect("a body");
            let request = client.post(format!("{url}?{}", sealed.query)).body(body);
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), 200, "{peer} {envelope:?} {event:?}");
            let acknowledgement = answer.text().await.expect("a body");
            assert_eq!(acknowledgement, envelope.acknowledgement(), "{event:?}");
        }
        for (event, plaintext) in &chosen {
            let id = DeliveryId::of(envelope.endpoint(), plaintext).to_string();
            let delivery = eventually(&format!("{event:?} is in the ledger"), || async {
                let row = world.app.ledger.deliveries().get(&world.corp, &id).await;
                row.ok()?.filter(|row| row.outcome.is_some())
            })
            .await;
            assert_eq!(delivery.delivery.body, *plaintext);
            assert_eq!(
                (delivery.outcome.as_deref(), &delivery.reason),
                (Some(event.outcome.as_str()), &event.reason),
                "{peer} {envelope:?} {event:?}"
            );
        }
        posted += chosen.len();
    }
    let stats = world.corp_app().inbox.stats(None).await.expect("counts");
    assert_eq!(stats.dead, 0);
    assert!(posted > 100, "{posted} deliveries");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callbacks_sealed_by_wecom_crypto() {
    every_event_family_arrives("node", || {
        let mut program = Command::new("node");
        program.arg(source("peers/seal.mjs"));
        program
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callbacks_sealed_by_wechatpy() {
    every_event_family_arrives("python", || {
        let mut program = Command::new(peers().join("venv/bin/python"));
        program.arg(source("peers/seal.py"));
        program
    })
    .await;
}
