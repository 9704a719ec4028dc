//! A simulator, a client that talks to it as a program would, and a gateway that opens its callbacks.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use wecom::crypto::{Keys, Receiver};
use wecom::envelope;
use wecom_sim::{AppConfig, CallbackConfig, Config, CorpConfig, MemberConfig, Sim, SimHandle};

pub(crate) const CORP: &str = "ww1f2e3d4c5b6a7988";
pub(crate) const AGENT: u32 = 1_000_002;
pub(crate) const SECRET: &str = "secret-of-1000002";
pub(crate) const TOKEN: &str = "caseTok3n7Qx";
pub(crate) const AES_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// One corp, one app, members mA to mE.
pub(crate) fn config() -> Config {
    Config {
        corps: vec![CorpConfig {
            id: CORP.to_owned(),
            apps: vec![AppConfig {
                agent_id: AGENT,
                secret: SECRET.into(),
                ..AppConfig::default()
            }],
            members: ["mA", "mB", "mC", "mD", "mE"].map(MemberConfig::new).into(),
            ..CorpConfig::default()
        }],
        ..Config::default()
    }
}

pub(crate) fn callback(urls: &[String]) -> CallbackConfig {
    CallbackConfig {
        urls: urls.to_vec(),
        token: TOKEN.into(),
        aes_key: AES_KEY.into(),
        ..CallbackConfig::default()
    }
}

pub(crate) struct Client {
    pub(crate) sim: SimHandle,
    pub(crate) http: reqwest::Client,
    tokens: Mutex<HashMap<String, String>>,
}

impl Client {
    pub(crate) async fn start(config: Config) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self {
            sim: Sim::start(config, listener).await.unwrap(),
            http: reqwest::Client::builder()
                .no_proxy()
                .tls_certs_only([])
                .build()
                .unwrap(),
            tokens: Mutex::default(),
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.sim.base_url())
    }

    pub(crate) async fn gettoken(&self, corp: &str, secret: &str) -> Value {
        self.gettoken_from(corp, secret, "127.0.0.1").await
    }

    pub(crate) async fn gettoken_from(&self, corp: &str, secret: &str, ip: &str) -> Value {
        let url = self.url("/cgi-bin/gettoken");
        let request = self
            .http
            .get(url)
            .query(&[("corpid", corp), ("corpsecret", secret)]);
        request
            .header("x-forwarded-for", ip)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    }

    /// The token of the usual app, fetched once.
    pub(crate) async fn token(&self) -> String {
        self.token_of(CORP, SECRET).await
    }

    pub(crate) async fn token_of(&self, corp: &str, secret: &str) -> String {
        let key = format!("{corp} {secret}");
        if let Some(token) = self.tokens.lock().unwrap().get(&key) {
            return token.clone();
        }
        let answer = self.gettoken(corp, secret).await;
        let token = answer["access_token"].as_str().unwrap().to_owned();
        self.tokens.lock().unwrap().insert(key, token.clone());
        token
    }

    pub(crate) fn forget_tokens(&self) {
        self.tokens.lock().unwrap().clear();
    }

    pub(crate) async fn get(&self, api: &str, query: &[(&str, &str)]) -> Value {
        let token = self.token().await;
        let request = self
            .http
            .get(self.url(&format!("/cgi-bin/{api}")))
            .query(&[("access_token", &token)]);
        request
            .query(query)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    }

    pub(crate) async fn post(&self, api: &str, body: Value) -> Value {
        let token = self.token().await;
        self.post_as(&token, "127.0.0.1", api, body).await.unwrap()
    }

    pub(crate) async fn post_as(
        &self,
        token: &str,
        ip: &str,
        api: &str,
        body: Value,
    ) -> reqwest::Result<Value> {
        let request = self
            .http
            .post(self.url(&format!("/cgi-bin/{api}")))
            .query(&[("access_token", token)]);
        request
            .header("x-forwarded-for", ip)
            .json(&body)
            .send()
            .await?
            .json()
            .await
    }

    /// As another app.
    pub(crate) async fn post_by(&self, secret: &str, api: &str, body: Value) -> Value {
        let token = self.token_of(CORP, secret).await;
        self.post_as(&token, "127.0.0.1", api, body).await.unwrap()
    }

    pub(crate) async fn admin(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let request = self
            .http
            .request(method.parse().unwrap(), self.url(path))
            .json(&body);
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap())
    }

    /// A customer who is that member's.
    pub(crate) fn befriend(&self, member: &str, customer: &str) {
        let request = wecom_sim::ScanRequest::member(member, "ch_001").customer(customer);
        let reply = self.sim.scan(&request).unwrap();
        assert_eq!(reply.scans[0].outcome, wecom_sim::ScanOutcome::Added);
    }

    pub(crate) async fn transfer(&self, from: &str, to: &str, customers: &[&str]) -> Value {
        let body =
            json!({"handover_userid": from, "takeover_userid": to, "external_userid": customers});
        self.post("externalcontact/transfer_customer", body).await
    }

    /// The code of one customer's row.
    pub(crate) async fn transfer_one(&self, from: &str, to: &str, customer: &str) -> i64 {
        let answer = self.transfer(from, to, &[customer]).await;
        assert_eq!(answer["errcode"], 0, "{answer}");
        answer["customer"][0]["errcode"].as_i64().unwrap()
    }

    pub(crate) async fn results(&self, from: &str, to: &str) -> Value {
        let body = json!({"handover_userid": from, "takeover_userid": to});
        let answer = self.post("externalcontact/transfer_result", body).await;
        assert_eq!(answer["errcode"], 0, "{answer}");
        answer["customer"].clone()
    }

    pub(crate) async fn followers(&self, customer: &str) -> Vec<String> {
        let answer = self
            .get("externalcontact/get", &[("external_userid", customer)])
            .await;
        let rows = answer["follow_user"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        rows.iter()
            .map(|row| row["userid"].as_str().unwrap().to_owned())
            .collect()
    }
}

pub(crate) fn code(answer: &Value) -> i64 {
    answer["errcode"].as_i64().unwrap()
}

/// What the gateway does with a delivery.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    Ok,
    Status(u16),
    /// Longer than any time limit of a test.
    Never,
}

/// A gateway: opens what it gets, keeps the plaintexts.
#[derive(Clone)]
pub(crate) struct Gateway {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    receiver: Receiver,
    received: Mutex<Vec<Received>>,
    script: Mutex<VecDeque<Answer>>,
    verify_with: Mutex<Option<String>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) plaintext: String,
    pub(crate) nonce: String,
    pub(crate) envelope_agent_id: Option<String>,
}

impl Received {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let (_, rest) = self.plaintext.split_once(&format!("<{name}>"))?;
        let (value, _) = rest.split_once(&format!("</{name}>"))?;
        Some(
            value
                .trim_start_matches("<![CDATA[")
                .trim_end_matches("]]>"),
        )
    }

    pub(crate) fn change(&self) -> &str {
        self.field("ChangeType").unwrap_or_default()
    }
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        let keys = Keys::parse(TOKEN, AES_KEY).unwrap();
        let shared = Arc::new(Shared {
            receiver: Receiver::new(vec![keys], vec![CORP.to_owned()]).unwrap(),
            received: Mutex::default(),
            script: Mutex::default(),
            verify_with: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/callback/app", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/callback/app", post(receive).get(verify))
            .with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, shared }
    }

    /// For the next deliveries; afterwards 200.
    pub(crate) fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.shared.script.lock().unwrap().extend(answers);
    }

    /// Answers a verification with this instead of the echo.
    pub(crate) fn verify_with(&self, text: &str) {
        *self.shared.verify_with.lock().unwrap() = Some(text.to_owned());
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }

    pub(crate) fn changes(&self) -> Vec<String> {
        self.received()
            .iter()
            .map(|received| received.change().to_owned())
            .collect()
    }
}

async fn receive(
    State(shared): State<Arc<Shared>>,
    RawQuery(query): RawQuery,
    body: String,
) -> StatusCode {
    let query = query.unwrap();
    let query = envelope::Query::parse(&query).unwrap();
    let envelope = envelope::parse(body.as_bytes()).unwrap();
    let opened = shared.receiver.open(&query, &envelope.encrypt).unwrap();
    shared.received.lock().unwrap().push(Received {
        plaintext: opened.plaintext,
        nonce: query.nonce.to_string(),
        envelope_agent_id: envelope.agent_id.map(|id| id.to_string()),
    });
    let answer = shared
        .script
        .lock()
        .unwrap()
        .pop_front()
        .unwrap_or(Answer::Ok);
    match answer {
        Answer::Ok => StatusCode::OK,
        Answer::Status(status) => StatusCode::from_u16(status).unwrap(),
        Answer::Never => std::future::pending().await,
    }
}

async fn verify(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Vec<u8> {
    if let Some(text) = &*shared.verify_with.lock().unwrap() {
        return text.clone().into_bytes();
    }
    let query = query.unwrap();
    shared
        .receiver
        .verify_url(&envelope::Query::parse_verification(&query).unwrap())
        .unwrap()
}

/// A simulator whose app has a callback to one gateway.
pub(crate) async fn with_gateway(mut config: Config) -> (Client, Gateway) {
    let gateway = Gateway::start().await;
    config.corps[0].apps[0].callback = Some(callback(std::slice::from_ref(&gateway.url)));
    (Client::start(config).await, gateway)
}
