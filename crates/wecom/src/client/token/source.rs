//! Gets, keeps and renews the token of one app.
//!
//! - In the process one *flight* at a time looks for a new token; whoever needs one waits for it. The flight is
//!   a task of its own: a caller that gives up does not leave the others waiting.
//! - Across processes the store's lease lets one process call `gettoken`; the others take what it stored.
//! - While a token is live and not refused, nobody waits: renewal before expiry goes on in the background.
//! - A refusal names the token it was given to. If another has taken its place by then, that one is used.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::fetch::{fetch, no_token};
use super::pause::{Pause, Renewals};
use super::{StoreFuture, Token, TokenStore};
use crate::Error;
use crate::client::http::Http;
use crate::client::{App, Clock, Options, TOKEN_LEASE, api};
use crate::error::TransportProblem;

/// How often a process looks whether the holder of the lease has stored a token.
const POLL: Duration = Duration::from_millis(100);
/// How often at most: a clock that is set back must not make it wait for ever.
const POLLS: u32 = 100;
const LEASE_MS: u64 = TOKEN_LEASE.as_millis() as u64;

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
    store_limit: Duration,
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
        options: &Options,
    ) -> Self {
        let shared = Shared {
            http,
            app_key: app.key(),
            app,
            owner: format!("{:032x}", rand::random::<u128>()),
            store,
            clock: Arc::clone(&options.clock),
            store_limit: options.store_limit,
            state: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
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

    /// Another token than the one WeCom refused with `errcode`.
    pub(crate) async fn renew(&self, refused: &Held, errcode: i64) -> Result<Held, Error> {
        let (flight, joined) = self.renewal(refused, errcode);
        let Some(flight) = flight else {
            return self.current().await;
        };
        let held = self.landed(flight).await?;
        if !joined || held.expose() != refused.expose() {
            return Ok(held);
        }
        // The flight we joined had been sent before the refusal was known and brought the same token.
        match self.renewal(&held, errcode).0 {
            Some(flight) => self.landed(flight).await,
            None => self.current().await,
        }
    }

    /// The flight to wait for and whether others had started it; none if a newer token is there already.
    fn renewal(&self, refused: &Held, errcode: i64) -> (Option<Flight>, bool) {
        let now_ms = self.shared.clock.now_ms();
        let mut state = self.shared.state();
        if let Some(held) = &state.current
            && held.generation != refused.generation
            && held.token.is_live(now_ms)
        {
            return (None, true);
        }
        state.refused = true;
        if let Some(flight) = &state.flight {
            return (Some(flight.clone()), true);
        }
        let resting = || {
            state
                .renewals
                .check(now_ms)
                .err()
                .map(|until_ms| (until_ms, Some(errcode)))
        };
        let closed = state.pause.check(now_ms).err().or_else(resting);
        let permit = Permit {
            closed,
            counts_as_renewal: true,
        };
        (
            Some(self.start(&mut state, Some(refused.expose().to_owned()), permit)),
            false,
        )
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
        let started_ms = self.clock.now_ms();
        let mut polls = 0;
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
            let leased = match stored {
                Some(_) => {
                    let lease = self.store.try_lease(&self.app_key, &self.owner, LEASE_MS);
                    self.store_call("try_lease", lease).await
                }
                None => None,
            };
            match leased {
                // Another process is at it. If it died, the lease ends; if it does not end, go without.
                Some(false) if polls < POLLS && self.clock.now_ms() < started_ms + LEASE_MS => {
                    self.clock.sleep(POLL).await;
                    polls += 1;
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
        let got = match fetch(&self.http, &self.app, &*self.clock).await {
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
        match tokio::time::timeout(self.store_limit, call).await {
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
