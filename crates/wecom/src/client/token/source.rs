//! Gets, keeps and renews the token of one app.
//!
//! - In the process one *flight* at a time looks for a new token; whoever needs one waits for it. The flight is
//!   a task of its own: a caller that gives up does not leave the others waiting.
//! - Across processes the store's lease lets one process call `gettoken`; the others take what it stored.
//! - While a token is live and not refused, nobody waits: renewal before expiry goes on in the background.
//! - A refusal names the token it was given to. If another has taken its place by then, that one is used.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use secrecy::ExposeSecret;
use serde::Deserialize;
use tokio::sync::watch;

use super::pause::{Pause, Renewals};
use super::{StoreFuture, Token, TokenStore};
use crate::Error;
use crate::client::http::{Call, Http, decode};
use crate::client::{App, Clock, TOKEN_LEASE, api, lenient};
use crate::error::{Class, Scope, TransportProblem};

/// A store that does not answer in this time counts as failed.
const STORE_LIMIT: Duration = Duration::from_secs(1);
/// How often a process looks whether the holder of the lease has stored a token.
const POLL: Duration = Duration::from_millis(100);
/// A token whose life WeCom does not tell, or tells as nothing, is used this long.
const UNTOLD_LIFE_MS: u64 = 60_000;
/// No token is used for less: a shorter one would have us call `gettoken` all the time.
const SHORTEST_LIFE_MS: u64 = 5_000;

/// A token, and which one it is in the order this process got them.
#[derive(Clone)]
pub(crate) struct Held {
    token: Token,
    generation: u64,
    /// From here on it is renewed in the background.
    renew_at_ms: u64,
}

impl Held {
    pub(crate) fn expose(&self) -> &str {
        self.token.expose()
    }

    pub(crate) fn expires_at_ms(&self) -> u64 {
        self.token.expires_at_ms
    }
}

pub(crate) struct TokenSource {
    shared: Arc<Shared>,
}

struct Shared {
    http: Arc<Http>,
    app: Arc<App>,
    app_key: String,
    owner: String,
    store: Arc<dyn TokenStore>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    current: Option<Held>,
    generation: u64,
    /// WeCom has refused `current`: callers wait for the flight.
    refused: bool,
    flight: Option<Flight>,
    pause: Pause,
    renewals: Renewals,
}

type Flight = watch::Receiver<Option<Result<Held, Error>>>;

/// May the flight call `gettoken`, or only look into the store?
#[derive(Clone, Copy)]
struct Permit {
    closed: Option<(u64, Option<i64>)>,
    counts_as_renewal: bool,
}

impl TokenSource {
    pub(crate) fn new(
        http: Arc<Http>,
        app: Arc<App>,
        store: Arc<dyn TokenStore>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let app_key = app.key();
        let owner = format!("{:032x}", rand::random::<u128>());
        let state = Mutex::default();
        Self {
            shared: Arc::new(Shared {
                http,
                app,
                app_key,
                owner,
                store,
                clock,
                state,
            }),
        }
    }

    pub(crate) fn app_key(&self) -> &str {
        &self.shared.app_key
    }

    /// The token to use now.
    pub(crate) async fn current(&self) -> Result<Held, Error> {
        let flight = {
            let now_ms = self.shared.clock.now_ms();
            let mut state = self.shared.state();
            let waits = state.refused && state.flight.is_some();
            match state.current.clone() {
                Some(held) if held.token.is_live(now_ms) && !waits => {
                    let early = now_ms >= held.renew_at_ms && state.flight.is_none();
                    if early && state.pause.check(now_ms).is_ok() {
                        self.start(
                            &mut state,
                            Some(held.expose().to_owned()),
                            Permit::first(Ok(())),
                        );
                    }
                    return Ok(held);
                }
                _ => match &state.flight {
                    Some(flight) => flight.clone(),
                    None => {
                        let permit = Permit::first(state.pause.check(now_ms));
                        self.start(&mut state, None, permit)
                    }
                },
            }
        };
        self.landed(flight).await
    }

    /// Another token than the one WeCom refused.
    pub(crate) async fn renew(&self, refused: &Held) -> Result<Held, Error> {
        let flight = {
            let now_ms = self.shared.clock.now_ms();
            let mut state = self.shared.state();
            if let Some(held) = &state.current
                && held.generation != refused.generation
                && held.token.is_live(now_ms)
            {
                return Ok(held.clone());
            }
            state.refused = true;
            match &state.flight {
                Some(flight) => flight.clone(),
                None => {
                    let closed = state.pause.check(now_ms).err();
                    let closed = closed.or_else(|| {
                        state
                            .renewals
                            .check(now_ms)
                            .err()
                            .map(|until| (until, None))
                    });
                    let permit = Permit {
                        closed,
                        counts_as_renewal: true,
                    };
                    self.start(&mut state, Some(refused.expose().to_owned()), permit)
                }
            }
        };
        self.landed(flight).await
    }

    fn start(&self, state: &mut State, failed: Option<String>, permit: Permit) -> Flight {
        let (landing, flight) = watch::channel(None);
        state.flight = Some(flight.clone());
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let outcome = shared.fly(failed.as_deref(), permit).await;
            let outcome = shared.land(outcome);
            // Nobody waits for a background renewal.
            landing.send_replace(Some(outcome));
        });
        flight
    }

    async fn landed(&self, mut flight: Flight) -> Result<Held, Error> {
        match flight
            .wait_for(Option::is_some)
            .await
            .map(|outcome| outcome.clone())
        {
            Ok(Some(outcome)) => outcome,
            // The task is gone: the runtime is shutting down, or it panicked.
            Ok(None) | Err(_) => {
                self.shared.state().flight = None;
                Err(no_token(TransportProblem::Interrupted, None))
            }
        }
    }
}

impl Permit {
    fn first(pause: Result<(), (u64, Option<i64>)>) -> Self {
        Self {
            closed: pause.err(),
            counts_as_renewal: false,
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment: a panic elsewhere cannot have left it half-made.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for a token other than `failed`: in the store, or at WeCom.
    async fn fly(&self, failed: Option<&str>, permit: Permit) -> Result<Token, Error> {
        let mut waited = Duration::ZERO;
        let (stored, leased) = loop {
            let stored = self
                .store_call("load", self.store.load(&self.app_key))
                .await;
            if let Some(Some(token)) = &stored
                && self.serves(token, failed)
            {
                return Ok(token.clone());
            }
            if let Some((until_ms, errcode)) = permit.closed {
                return Err(Error::Blocked {
                    api: api::GETTOKEN,
                    until_ms,
                    errcode,
                });
            }
            let lease_ms = u64::try_from(TOKEN_LEASE.as_millis()).unwrap_or(u64::MAX);
            let leased = match stored {
                Some(_) => {
                    let lease = self.store.try_lease(&self.app_key, &self.owner, lease_ms);
                    self.store_call("try_lease", lease).await
                }
                None => None,
            };
            match leased {
                // Another process is at it. If it died, the lease ends; if it does not end, go without.
                Some(false) if waited < TOKEN_LEASE => {
                    self.clock.sleep(POLL).await;
                    waited += POLL;
                }
                // Without a store every process gets its own token.
                Some(false) | None => break (stored.flatten(), false),
                Some(true) => {
                    // The holder before us may have stored one after we looked.
                    let stored = self
                        .store_call("load", self.store.load(&self.app_key))
                        .await
                        .flatten();
                    if let Some(token) = stored.clone().filter(|token| self.serves(token, failed)) {
                        self.release().await;
                        return Ok(token);
                    }
                    break (stored, true);
                }
            }
        };
        if permit.counts_as_renewal {
            self.state().renewals.count(self.clock.now_ms());
        }
        let got = self.get_token().await;
        let got = match got {
            Ok(token) => Ok(self.share(token, failed, stored).await),
            Err(error) => Err(error),
        };
        if leased {
            self.release().await;
        }
        got
    }

    fn serves(&self, token: &Token, failed: Option<&str>) -> bool {
        token.is_live(self.clock.now_ms()) && Some(token.expose()) != failed
    }

    /// Stores a new token in place of the one that was there. If another process was faster, its token is the
    /// one all use.
    async fn share(&self, token: Token, failed: Option<&str>, stored: Option<Token>) -> Token {
        let replaced = stored.as_ref().map(Token::expose).or(failed);
        let store = self.store.store_if(&self.app_key, replaced, &token);
        if self.store_call("store_if", store).await == Some(false) {
            let load = self.store.load(&self.app_key);
            if let Some(Some(other)) = self.store_call("load", load).await
                && self.serves(&other, failed)
            {
                return other;
            }
        }
        token
    }

    async fn release(&self) {
        let release = self.store.release(&self.app_key, &self.owner);
        self.store_call("release", release).await;
    }

    /// `None` when the store failed; the cause stays inside because a server may echo the arguments.
    async fn store_call<T>(&self, what: &'static str, call: StoreFuture<'_, T>) -> Option<T> {
        match tokio::time::timeout(STORE_LIMIT, call).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(_)) => {
                tracing::warn!(
                    app = self.app_key,
                    what,
                    "token store failed; going on without it"
                );
                None
            }
            Err(_) => {
                tracing::warn!(
                    app = self.app_key,
                    what,
                    "token store does not answer; going on without it"
                );
                None
            }
        }
    }

    async fn get_token(&self) -> Result<Token, Error> {
        #[derive(Deserialize)]
        struct Got {
            access_token: String,
            #[serde(default, deserialize_with = "lenient::int")]
            expires_in: Option<i64>,
        }
        let query = [("corpid", self.app.corp_id.as_str())];
        let call = Call {
            api: api::GETTOKEN,
            query: &query,
            body: None,
        };
        let secret = ("corpsecret", self.app.secret.expose_secret());
        let body = self
            .http
            .exchange(call, secret)
            .await
            .map_err(as_no_token)?;
        let got: Got = decode(api::GETTOKEN, &body).map_err(as_no_token)?;
        if got.access_token.is_empty() {
            return Err(no_token(TransportProblem::Shape, None));
        }
        Ok(Token::new(
            got.access_token,
            self.clock.now_ms() + usable_ms(got.expires_in),
        ))
    }

    /// Writes down how a flight ended.
    fn land(&self, outcome: Result<Token, Error>) -> Result<Held, Error> {
        let now_ms = self.clock.now_ms();
        let mut state = self.state();
        state.flight = None;
        state.refused = false;
        match outcome {
            Ok(token) => {
                state.pause.succeeded();
                state.generation += 1;
                let left_ms = token.expires_at_ms.saturating_sub(now_ms);
                let renew_at_ms = token.expires_at_ms - (left_ms / 10).min(300_000);
                let held = Held {
                    token,
                    generation: state.generation,
                    renew_at_ms,
                };
                state.current = Some(held.clone());
                Ok(held)
            }
            Err(error) => {
                if !matches!(error, Error::Blocked { .. }) {
                    state.pause.failed(&error, now_ms);
                    let errcode = error.errcode();
                    tracing::error!(app = self.app_key, errcode, %error, "no token");
                }
                Err(error)
            }
        }
    }
}

/// How long a token may be used: a tenth less than WeCom says, at most five minutes less.
fn usable_ms(expires_in_s: Option<i64>) -> u64 {
    match expires_in_s
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0)
    {
        Some(seconds) => {
            let told_ms = seconds.saturating_mul(1_000);
            (told_ms - (told_ms / 10).min(300_000)).max(SHORTEST_LIFE_MS)
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

fn no_token(problem: TransportProblem, source: Option<Arc<reqwest::Error>>) -> Error {
    Error::Transport {
        api: api::GETTOKEN,
        sent: false,
        problem,
        source,
    }
}
