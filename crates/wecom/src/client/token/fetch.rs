//! `gettoken`: the call itself, and how long its answer may be used.

use std::sync::Arc;

use secrecy::ExposeSecret;
use serde::Deserialize;

use super::Token;
use crate::Error;
use crate::client::http::{Call, Http, decode};
use crate::client::{App, Clock, api, lenient};
use crate::error::{Class, Scope, TransportProblem};

/// A token whose life WeCom does not tell, or tells as nothing, is used this long.
const UNTOLD_LIFE_MS: u64 = 60_000;
/// No token is used for less: a shorter one would have us call `gettoken` all the time.
const SHORTEST_LIFE_MS: u64 = 5_000;
/// Nor for more, whatever WeCom says.
const LONGEST_LIFE_MS: u64 = 86_400_000;

#[derive(Deserialize)]
struct Got {
    access_token: String,
    #[serde(default, deserialize_with = "lenient::int")]
    expires_in: Option<i64>,
}

/// Asks WeCom for a token.
pub(super) async fn fetch(http: &Http, app: &App, clock: &dyn Clock) -> Result<Token, Error> {
    let query = [("corpid", app.corp_id.as_str())];
    let call = Call {
        api: api::GETTOKEN,
        query: &query,
        body: None,
    };
    let secret = ("corpsecret", app.secret.expose_secret());
    let body = http.exchange(call, secret).await.map_err(as_no_token)?;
    let got: Got = decode(api::GETTOKEN, &body).map_err(as_no_token)?;
    if got.access_token.is_empty() {
        return Err(no_token(TransportProblem::Shape, None));
    }
    Ok(Token::new(
        got.access_token,
        clock.now_ms() + usable_ms(got.expires_in),
    ))
}

/// How long a token may be used: a tenth less than WeCom says, at most five minutes less.
fn usable_ms(expires_in_s: Option<i64>) -> u64 {
    match expires_in_s
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0)
    {
        Some(seconds) => {
            let told_ms = seconds.saturating_mul(1_000);
            (told_ms - (told_ms / 10).min(300_000)).clamp(SHORTEST_LIFE_MS, LONGEST_LIFE_MS)
        }
        None => UNTOLD_LIFE_MS,
    }
}

/// Whatever became of `gettoken`, the call that needed the token was not sent.
fn as_no_token(error: Error) -> Error {
    match error {
        Error::Transport {
            problem, source, ..
        } => no_token(problem, source),
        Error::Api {
            api,
            errcode,
            class,
            scope,
            errmsg_hint,
            from_ip,
            wrong_json,
        } => {
            let passing = matches!(class, Class::RetryWithBackoff | Class::RateLimited);
            Error::Api {
                api,
                errcode,
                class: if passing {
                    class
                } else {
                    Class::PermanentConfig
                },
                scope: if passing { scope } else { Scope::App },
                errmsg_hint,
                from_ip,
                wrong_json,
            }
        }
        other => other,
    }
}

pub(super) fn no_token(problem: TransportProblem, source: Option<Arc<reqwest::Error>>) -> Error {
    Error::Transport {
        api: api::GETTOKEN,
        sent: false,
        problem,
        source,
    }
}
