//! A scripted WeCom: counts calls by path and token, keeps bodies, answers what the script says.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::Response;
use serde_json::{Value, json};

/// What arrived.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) method: Method,
    /// Without `/cgi-bin/`.
    pub(crate) api: String,
    pub(crate) query: HashMap<String, String>,
    pub(crate) text: String,
    /// The how many-th call of this API, from 1.
    pub(crate) nth: usize,
}

impl Received {
    pub(crate) fn token(&self) -> &str {
        self.query.get("access_token").map_or("", String::as_str)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }
}

/// What goes back.
pub(crate) enum Answer {
    Json(Value),
    Raw(u16, &'static str, String),
    /// Never.
    Hang,
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

impl Answer {
    pub(crate) fn ok() -> Self {
        Self::Json(json!({"errcode": 0, "errmsg": "ok"}))
    }

    pub(crate) fn error(errcode: i64) -> Self {
        Self::Json(json!({
            "errcode": errcode,
            "errmsg": format!("some text, hint: [1792000000123_abc], from ip: 198.51.100.7, \
                more info at https://open.work.weixin.qq.com/devtool/query?e={errcode}"),
        }))
    }

    /// The token `V<nth>`.
    pub(crate) fn token(nth: usize) -> Self {
        Self::Json(
            json!({"errcode": 0, "errmsg": "ok", "access_token": format!("V{nth}"), "expires_in": 7200}),
        )
    }
}

type Script = dyn Fn(&Received) -> Answer + Send + Sync;

#[derive(Clone)]
struct Shared {
    script: Arc<Script>,
    received: Arc<Mutex<Vec<Received>>>,
}

pub(crate) struct Stub {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Stub {
    /// Answers `gettoken` with V1, V2, … and everything else by the script.
    pub(crate) async fn start(
        script: impl Fn(&Received) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::raw(move |call| {
            if call.api == "gettoken" {
                Answer::token(call.nth)
            } else {
                script(call)
            }
        })
        .await
    }

    /// Answers everything by the script.
    pub(crate) async fn raw(script: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let shared = Shared {
            script: Arc::new(script),
            received: Arc::clone(&received),
        };
        let app = Router::new().fallback(serve).with_state(shared);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, received }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Calls of one API.
    pub(crate) fn calls(&self, api: &str) -> Vec<Received> {
        self.received()
            .into_iter()
            .filter(|call| call.api == api)
            .collect()
    }

    pub(crate) fn count(&self, api: &str) -> usize {
        self.calls(api).len()
    }

    pub(crate) fn gettoken_count(&self) -> usize {
        self.count("gettoken")
    }
}

async fn serve(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    Query(query): Query<HashMap<String, String>>,
    body: Bytes,
) -> Response {
    let api = uri.path().trim_start_matches("/cgi-bin/").to_owned();
    let call = {
        let mut received = shared.received.lock().unwrap();
        let nth = received.iter().filter(|earlier| earlier.api == api).count() + 1;
        let text = String::from_utf8_lossy(&body).into_owned();
        let call = Received {
            method,
            api,
            query,
            text,
            nth,
        };
        received.push(call.clone());
        call
    };
    let mut answer = (shared.script)(&call);
    loop {
        answer = match answer {
            Answer::Json(value) => {
                return respond(200, "application/json; charset=UTF-8", value.to_string());
            }
            Answer::Raw(status, kind, text) => return respond(status, kind, text),
            Answer::Hang => std::future::pending().await,
            Answer::Later(later) => later.await,
        }
    }
}

fn respond(status: u16, kind: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

/// Waits until something is so; fails loudly when it never is.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"));
}
