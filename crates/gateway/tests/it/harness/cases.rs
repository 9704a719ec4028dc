//! The JSON case files of `tests/fixtures/cases`.

use std::{fs, net::SocketAddr};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::{App, Reply, client};

pub(crate) struct Suite {
    value: Value,
}

pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) value: Value,
    /// Its own configuration or its suite's.
    pub(crate) config: Value,
}

impl Suite {
    pub(crate) fn load(name: &str) -> Self {
        let path = format!(
            "{}/../../tests/fixtures/cases/{name}.json",
            env!("CARGO_MANIFEST_DIR")
        );
        Self {
            value: serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap(),
        }
    }

    pub(crate) fn cases(&self) -> Vec<Case> {
        let cases = self.value["cases"].as_array().unwrap().iter();
        let case = |value: &Value| Case {
            id: value["id"].as_str().unwrap().to_owned(),
            config: value.get("config").unwrap_or(&self.value["config"]).clone(),
            value: value.clone(),
        };
        cases.map(case).collect()
    }

    pub(crate) fn case(&self, id: &str) -> Case {
        self.cases().into_iter().find(|case| case.id == id).unwrap()
    }
}

impl Case {
    /// An app with this configuration whose callbacks go to a corp of this test alone.
    pub(crate) fn app(&self) -> App {
        let text = |key: &str| self.config[key].as_str().unwrap();
        App::new()
            .receives(&[text("receive_id")])
            .with_keys(&[(text("token"), text("encoding_aes_key"))])
    }

    pub(crate) fn expect(&self) -> &Value {
        &self.value["expect"]
    }

    pub(crate) fn outcome(&self) -> &str {
        self.expect()["outcome"].as_str().unwrap()
    }

    pub(crate) async fn send(&self, addr: SocketAddr, endpoint: &str) -> Reply {
        send(addr, endpoint, &self.value["request"]).await
    }
}

/// Sends a `request` of a case file exactly as it is written there.
pub(crate) async fn send(addr: SocketAddr, endpoint: &str, request: &Value) -> Reply {
    let method = request["method"].as_str().unwrap();
    let target = format!(
        "/callback/{endpoint}?{}",
        request["raw_query"].as_str().unwrap_or_default()
    );
    let headers: Vec<(&str, &str)> = request["headers"]
        .as_object()
        .map(|headers| {
            headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
                .collect()
        })
        .unwrap_or_default();
    let body = match (&request["body"], &request["body_base64"]) {
        (Value::String(text), _) => text.clone().into_bytes(),
        (_, Value::String(text)) => STANDARD.decode(text).unwrap(),
        _ => Vec::new(),
    };
    client::request(addr, method, &target, &headers, &body).await
}
