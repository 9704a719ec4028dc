//! One API call: gate, token, exchange, and the one repetition with a new token.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Client;
use super::http::{Call, decode};
use crate::Error;
use crate::error::{Class, Scope, TransportProblem};

/// An answer of which only success matters.
#[derive(Deserialize)]
struct Plain {}

impl Client {
    pub(super) async fn get<R: DeserializeOwned>(
        &self,
        api: &'static str,
        query: &[(&str, &str)],
    ) -> Result<R, Error> {
        decode(
            api,
            &self
                .call(Call {
                    api,
                    query,
                    body: None,
                })
                .await?,
        )
    }

    pub(super) async fn post<R: DeserializeOwned>(
        &self,
        api: &'static str,
        request: &impl Serialize,
    ) -> Result<R, Error> {
        let body = encode(api, request)?;
        decode(
            api,
            &self
                .call(Call {
                    api,
                    query: &[],
                    body: Some(&body),
                })
                .await?,
        )
    }

    pub(super) async fn post_plain(
        &self,
        api: &'static str,
        request: &impl Serialize,
    ) -> Result<(), Error> {
        self.post::<Plain>(api, request).await.map(|Plain {}| ())
    }

    async fn call(&self, call: Call<'_>) -> Result<Vec<u8>, Error> {
        let inner = &*self.inner;
        let pass = inner.gate.enter(call.api, inner.clock.now_ms())?;
        let answer = self.call_with_token(call).await;
        inner
            .gate
            .leave(pass, &answer, inner.tokens.app_key(), inner.clock.now_ms());
        answer
    }

    async fn call_with_token(&self, call: Call<'_>) -> Result<Vec<u8>, Error> {
        let inner = &*self.inner;
        let token = inner.tokens.current().await?;
        let first = inner
            .http
            .exchange(call, ("access_token", token.expose()))
            .await;
        let Err(Error::Api {
            class: Class::RefreshToken,
            errcode,
            ..
        }) = first
        else {
            return first;
        };
        // Refused, so without effect: what happens to the token from here on is reported as "not sent".
        let token = inner.tokens.renew(&token, errcode).await?;
        let mut second = inner
            .http
            .exchange(call, ("access_token", token.expose()))
            .await;
        if let Err(Error::Api { class, scope, .. }) = &mut second
            && *class == Class::RefreshToken
        {
            // Refused with a fresh token too: no token of this app will do.
            *class = Class::PermanentConfig;
            *scope = Scope::App;
        }
        second
    }
}

pub(super) fn encode(api: &'static str, request: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(request).map_err(|_| Error::Transport {
        api,
        sent: false,
        problem: TransportProblem::Request,
        source: None,
    })
}
