//! A gateway in this process, with its own configuration file, sockets and corp.

use std::{collections::HashMap, fs, net::SocketAddr, path::PathBuf};

use gateway::{Config, Error, Listeners, Signals, Sources};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use wecom::{
    crypto::{Keys, Sealer},
    envelope,
};

use super::{Reply, client::message, get, post, raw, wait_until};

pub(crate) const TOKEN: &str = "caseTok3n7Qx";
pub(crate) const AES_KEY: &str = "BbrSK29CZTux1KMoBFeJDPYhgFy5pbnAnknyD7PmcAk";
pub(crate) const OTHER_TOKEN: &str = "newerT0ken";
pub(crate) const OTHER_AES_KEY: &str = "VkqxFvZuRRRuAr46DRuVlINBjc6rqUfLbNdOMTqHa1l";

/// One `[endpoints.…]` table.
#[derive(Debug, Clone)]
pub(crate) struct App {
    pub(crate) corp: String,
    pub(crate) kind: &'static str,
    pub(crate) receive_ids: Vec<String>,
    /// Token and AES key, newest first.
    pub(crate) keys: Vec<(String, String)>,
}

impl App {
    /// An app of a corp that no other test has.
    pub(crate) fn new() -> Self {
        let corp = test_redis::corp();
        let keys = vec![(TOKEN.to_owned(), AES_KEY.to_owned())];
        Self {
            receive_ids: vec![corp.clone()],
            corp,
            kind: "app",
            keys,
        }
    }

    pub(crate) fn receives(self, ids: &[&str]) -> Self {
        Self {
            receive_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            ..self
        }
    }

    pub(crate) fn with_keys(self, keys: &[(&str, &str)]) -> Self {
        Self {
            keys: keys
                .iter()
                .map(|(token, key)| ((*token).to_owned(), (*key).to_owned()))
                .collect(),
            ..self
        }
    }

    /// Query and body of a callback to this app, sealed with its newest keys.
    pub(crate) fn seal(&self, plaintext: &str, nonce: &str) -> (String, String) {
        seal(&self.keys[0], &self.receive_ids[0], plaintext, nonce)
    }
}

/// Query and body of a callback.
pub(crate) fn seal(
    keys: &(String, String),
    receive_id: &str,
    plaintext: &str,
    nonce: &str,
) -> (String, String) {
    let sealer = Sealer::new(Keys::parse(&keys.0, &keys.1).unwrap(), receive_id);
    let sealed = sealer.seal(plaintext, "1792000000", nonce, *b"0123456789abcdef");
    (
        sealed.query(),
        envelope::callback_body(receive_id, Some("1000002"), &sealed.encrypt),
    )
}

/// An event that nothing else equals.
pub(crate) fn event(corp: &str, customer: &str) -> String {
    format!(
        "<xml><ToUserName><![CDATA[{corp}]]></ToUserName><FromUserName><![CDATA[sys]]></FromUserName>\
         <CreateTime>1792000000</CreateTime><MsgType><![CDATA[event]]></MsgType>\
         <Event><![CDATA[change_external_contact]]></Event><ChangeType><![CDATA[add_external_contact]]></ChangeType>\
         <UserID><![CDATA[mA]]></UserID><ExternalUserID><![CDATA[{customer}]]></ExternalUserID></xml>"
    )
}

/// A configuration to start from: files of its own, small times, one worker.
pub(crate) struct Setup {
    pub(crate) dir: TempDir,
    pub(crate) env: HashMap<String, String>,
    apps: Vec<(String, App)>,
    settings: String,
}

impl Setup {
    pub(crate) fn new(redis_url: &str) -> Self {
        let settings = format!(
            "[http]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\nworkers = 1\ndrain_ms = 0\n\
             [redis]\nurl = \"{redis_url}\"\n"
        );
        let dir = tempfile::tempdir().unwrap();
        Self {
            dir,
            env: HashMap::new(),
            apps: Vec::new(),
            settings,
        }
    }

    /// A setting as in the environment: `("STORE__TIMEOUT_MS", "300")`.
    pub(crate) fn set(mut self, key: &str, value: impl ToString) -> Self {
        self.env.insert(format!("PAIDAN__{key}"), value.to_string());
        self
    }

    pub(crate) fn endpoint(mut self, id: &str, app: &App) -> Self {
        self.apps.push((id.to_owned(), app.clone()));
        self
    }

    /// Adds or changes an endpoint of a gateway that runs; the next reload reads it.
    pub(crate) fn replace(&mut self, id: &str, app: &App) {
        self.apps.retain(|(known, _)| known != id);
        self.apps.push((id.to_owned(), app.clone()));
        self.write();
    }

    pub(crate) fn remove(&mut self, id: &str) {
        self.apps.retain(|(known, _)| known != id);
        self.write();
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("gateway.toml")
    }

    /// Writes the configuration file, its secrets beside it.
    pub(crate) fn write(&self) {
        let mut text = self.settings.clone();
        for (id, app) in &self.apps {
            let mut keys = Vec::new();
            for (index, (token, aes_key)) in app.keys.iter().enumerate() {
                let (token_file, key_file) = (
                    self.secret(id, index, "token"),
                    self.secret(id, index, "aes_key"),
                );
                fs::write(&token_file, token).unwrap();
                fs::write(&key_file, format!("{aes_key}\n")).unwrap();
                keys.push(format!(
                    "{{ token = \"file:{}\", aes_key = \"file:{}\" }}",
                    token_file.display(),
                    key_file.display()
                ));
            }
            text.push_str(&format!(
                "[endpoints.{id}]\ncorp_id = \"{}\"\nkind = \"{}\"\nreceive_ids = {:?}\nkeys = [{}]\n",
                app.corp,
                app.kind,
                app.receive_ids,
                keys.join(", ")
            ));
        }
        fs::write(self.file(), text).unwrap();
    }

    /// Where a secret of an endpoint is.
    pub(crate) fn secret(&self, id: &str, index: usize, what: &str) -> PathBuf {
        self.dir.path().join(format!("{id}.{index}.{what}"))
    }

    pub(crate) fn sources(&self) -> Sources {
        Sources {
            files: vec![self.file()],
            env: self.env.clone(),
        }
    }

    pub(crate) async fn start(self) -> Running {
        self.try_start().await.unwrap()
    }

    pub(crate) async fn try_start(self) -> Result<Running, Error> {
        self.write();
        let config = Config::load(&self.sources())?;
        let listeners = Listeners::bind(&config)?;
        let (addr, admin) = (listeners.callback_addr()?, listeners.admin_addr()?);
        let signals = Signals::default();
        let mut task = tokio::spawn(gateway::run(config, listeners, signals.clone()));
        // The sockets exist: what fails now fails at once, and everything else answers.
        let probe = message("GET", "/livez", &[], b"");
        tokio::select! {
            ended = &mut task => Err(ended.unwrap().expect_err("ended by itself")),
            Some(_) = raw(admin, &probe) => Ok(Running { addr, admin, signals, task, setup: self }),
        }
    }
}

/// A gateway that runs until it is finished or dropped.
pub(crate) struct Running {
    pub(crate) addr: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) signals: Signals,
    pub(crate) task: JoinHandle<Result<(), Error>>,
    pub(crate) setup: Setup,
}

impl Running {
    pub(crate) async fn send(&self, endpoint: &str, (query, body): &(String, String)) -> Reply {
        post(self.addr, &format!("/callback/{endpoint}?{query}"), body).await
    }

    /// The value of a metric; 0 when it is not there (yet).
    pub(crate) async fn metric(&self, line: &str) -> f64 {
        let reply = get(self.admin, "/metrics").await;
        let value = reply
            .text()
            .lines()
            .find_map(|known| known.strip_prefix(line)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    pub(crate) async fn wait_for_metric(&self, line: &str, value: f64) {
        wait_until(&format!("{line} {value}"), || async {
            self.metric(line).await == value
        })
        .await;
    }

    pub(crate) async fn finish(self) -> Result<(), Error> {
        self.signals.shutdown.cancel();
        self.task.await.unwrap()
    }
}
