//! One HTTP exchange with WeCom: send, read, tell success from refusal from no answer.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{StatusCode, redirect};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::{CALL_LIMIT, lenient};
use crate::Error;
use crate::error::{TransportProblem, classify};

/// Far above the largest answer WeCom documents.
const ANSWER_MAX_BYTES: usize = 16 * 1024 * 1024;

/// An HTTP client as this crate needs it: it follows no redirect and sends no `Referer`, because the token is
/// part of every address.
pub fn http_client() -> Result<reqwest::Client, Error> {
    reqwest::Client::builder()
        .redirect(redirect::Policy::none())
        .referer(false)
        .connect_timeout(Duration::from_secs(3))
        .timeout(CALL_LIMIT)
        // Shorter than what servers and firewalls in between keep: a call on a dead connection has an
        // unknown outcome.
        .pool_idle_timeout(Duration::from_secs(20))
        .build()
        .map_err(|_| Error::Config {
            field: "http",
            problem: "the HTTP client cannot be set up",
        })
}

/// The way to one WeCom.
pub(crate) struct Http {
    client: reqwest::Client,
    base: Url,
    call_limit: Duration,
    wrong_json: AtomicU64,
}

/// What to send.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) api: &'static str,
    pub(crate) query: &'a [(&'a str, &'a str)],
    /// A POST with this JSON, or a GET.
    pub(crate) body: Option<&'a [u8]>,
}

impl Http {
    pub(crate) fn new(
        client: reqwest::Client,
        base_url: &str,
        call_limit: Duration,
    ) -> Result<Self, Error> {
        let wrong = |problem| Error::Config {
            field: "base_url",
            problem,
        };
        let base = Url::parse(base_url).map_err(|_| wrong("is not a URL"))?;
        if !matches!(base.scheme(), "https" | "http") || base.cannot_be_a_base() {
            return Err(wrong("is not an http or https URL"));
        }
        if base.query().is_some() || base.fragment().is_some() || !base.username().is_empty() {
            return Err(wrong("must be scheme, host and port, perhaps a path"));
        }
        Ok(Self {
            client,
            base,
            call_limit,
            wrong_json: AtomicU64::new(0),
        })
    }

    pub(crate) fn wrong_json_count(&self) -> u64 {
        self.wrong_json.load(Ordering::Relaxed)
    }

    /// The body of a successful answer. `secret` is a query parameter of its own so that no caller mixes it
    /// with values that may be shown.
    pub(crate) async fn exchange(
        &self,
        call: Call<'_>,
        secret: (&str, &str),
    ) -> Result<Vec<u8>, Error> {
        let (status, body) = self.send(call, secret).await?;
        self.judge(call.api, status, body)
    }

    async fn send(
        &self,
        call: Call<'_>,
        secret: (&str, &str),
    ) -> Result<(StatusCode, Vec<u8>), Error> {
        let broken = |error| broken(call.api, error);
        let mut url = self.base.clone();
        url.set_path(&format!(
            "{}/cgi-bin/{}",
            self.base.path().trim_end_matches('/'),
            call.api
        ));
        url.query_pairs_mut()
            .append_pair(secret.0, secret.1)
            .extend_pairs(call.query);
        let request = match call.body {
            Some(json) => self
                .client
                .post(url)
                .header(reqwest::header::CONTENT_TYPE, "application/json")
                .body(json.to_vec()),
            None => self.client.get(url),
        };
        let mut response = request
            .timeout(self.call_limit)
            .send()
            .await
            .map_err(broken)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if body.len() + chunk.len() > ANSWER_MAX_BYTES {
                return Err(no_answer(call.api, TransportProblem::TooLarge));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((status, body))
    }

    fn judge(
        &self,
        api: &'static str,
        status: StatusCode,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, Error> {
        let head = Head::read(&body);
        if let Some(head) = &head
            && head.wrong_json
        {
            self.wrong_json.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                api,
                "WeCom could read only a part of our JSON: a bug of the client"
            );
        }
        if !status.is_success() && !status.is_client_error() {
            // A 5xx comes from something in between or from a failing front: whatever its body says, the
            // call behind it may have run.
            return Err(no_answer(api, TransportProblem::Status(status.as_u16())));
        }
        match head {
            Some(head) if head.errcode != 0 => Err(head.refusal(api)),
            _ if status.is_client_error() => {
                Err(no_answer(api, TransportProblem::Status(status.as_u16())))
            }
            Some(_) => Ok(body),
            None => Err(no_answer(api, TransportProblem::NotJson)),
        }
    }
}

/// Reads the typed part of a successful answer. The cause is not kept: it could quote personal data.
pub(crate) fn decode<R: DeserializeOwned>(api: &'static str, body: &[u8]) -> Result<R, Error> {
    serde_json::from_slice(body).map_err(|error| {
        tracing::warn!(
            api,
            line = error.line(),
            column = error.column(),
            "an answer has another shape"
        );
        no_answer(api, TransportProblem::Shape)
    })
}

fn no_answer(api: &'static str, problem: TransportProblem) -> Error {
    Error::Transport {
        api,
        sent: true,
        problem,
        source: None,
    }
}

/// reqwest's error, without its URL. Only a connection that never stood proves that nothing happened.
fn broken(api: &'static str, error: reqwest::Error) -> Error {
    let error = error.without_url();
    let (sent, problem) = if error.is_builder() {
        (false, TransportProblem::Request)
    } else if error.is_connect() {
        (false, TransportProblem::Connect)
    } else if error.is_timeout() {
        (true, TransportProblem::TimedOut)
    } else {
        (true, TransportProblem::Interrupted)
    };
    Error::Transport {
        api,
        sent,
        problem,
        source: Some(Arc::new(error)),
    }
}

/// What every answer may carry.
struct Head {
    errcode: i64,
    hint: Option<String>,
    from_ip: Option<IpAddr>,
    wrong_json: bool,
}

impl Head {
    /// `None` if the body is not one whole JSON object, or its `errcode` is not a number.
    fn read(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(default)]
            errcode: Value,
            #[serde(default)]
            errmsg: Value,
        }
        // A struct can also be read from an array, which is no answer of WeCom's.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return None;
        }
        let raw: Raw = serde_json::from_slice(body).ok()?;
        let errcode = match &raw.errcode {
            Value::Null => 0,
            value => lenient::whole_number(value)?,
        };
        let errmsg = raw.errmsg.as_str().unwrap_or_default();
        Some(Self {
            errcode,
            hint: between(errmsg, "hint: [", "]")
                .filter(|hint| is_hint(hint))
                .map(str::to_owned),
            from_ip: between(errmsg, "from ip: ", ",").and_then(|ip| ip.trim().parse().ok()),
            wrong_json: errmsg.contains("Warning: wrong json format"),
        })
    }

    fn refusal(self, api: &'static str) -> Error {
        let known = classify(self.errcode);
        Error::Api {
            api,
            errcode: self.errcode,
            class: known.class,
            scope: known.scope,
            errmsg_hint: self.hint,
            from_ip: self.from_ip,
            wrong_json: self.wrong_json,
        }
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after).map_or(rest, |(inside, _)| inside))
}

/// Hints are short ids; anything else between the brackets is not kept.
fn is_hint(hint: &str) -> bool {
    !hint.is_empty()
        && hint.len() <= 64
        && hint
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
