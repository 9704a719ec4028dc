//! Clients, clocks and stores for tests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use secrecy::SecretString;
use wecom::client::{
    App, Client, Clock, MemoryTokenStore, Options, StoreFuture, Token, TokenStore, http_client,
};

use crate::stub::Stub;

pub(crate) const T0_MS: u64 = 1_792_000_000_000;
pub(crate) const APP_KEY: &str = "ww1f2e3d4c5b6a7988:1000002";

/// A clock that stands still until a test, or somebody's wait, moves it.
pub(crate) struct ManualClock(AtomicU64);

impl ManualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(T0_MS)))
    }

    pub(crate) fn advance(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            self.advance(u64::try_from(duration.as_millis()).unwrap());
            tokio::task::yield_now().await;
        })
    }
}

pub(crate) fn app(agent_id: i64) -> App {
    App {
        corp_id: "ww1f2e3d4c5b6a7988".to_owned(),
        agent_id,
        secret: SecretString::from(format!("secret-of-{agent_id}")),
    }
}

/// A client with its own store and the system's clock.
pub(crate) fn client(stub: &Stub) -> Client {
    client_of(
        &stub.url,
        1_000_002,
        Arc::new(MemoryTokenStore::default()),
        options(),
    )
}

/// A client whose clock and store stand still.
pub(crate) fn client_at(stub: &Stub, clock: &Arc<ManualClock>) -> (Client, Arc<MemoryTokenStore>) {
    let store = Arc::new(MemoryTokenStore::new(clock.clone()));
    let options = Options {
        clock: clock.clone(),
        ..options()
    };
    (
        client_of(&stub.url, 1_000_002, store.clone(), options),
        store,
    )
}

pub(crate) fn client_of(
    url: &str,
    agent_id: i64,
    store: Arc<dyn TokenStore>,
    options: Options,
) -> Client {
    Client::with(http_client().unwrap(), url, app(agent_id), store, options).unwrap()
}

pub(crate) fn options() -> Options {
    Options::default()
}

/// Short limits, for tests in which something never answers.
pub(crate) fn impatient() -> Options {
    Options {
        call_limit: Duration::from_millis(150),
        store_limit: Duration::from_millis(50),
        ..Options::default()
    }
}

/// What is wrong with a [`FlakyStore`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Writes are refused, as by a read-only or full server.
    Writes,
    /// Everything is refused.
    All,
    /// Nothing answers.
    Hangs,
}

/// A store that fails.
pub(crate) struct FlakyStore {
    pub(crate) flaw: Flaw,
    pub(crate) inner: MemoryTokenStore,
}

impl FlakyStore {
    pub(crate) fn new(flaw: Flaw) -> Arc<Self> {
        Arc::new(Self {
            flaw,
            inner: MemoryTokenStore::default(),
        })
    }

    fn write<'a, T>(&self, call: StoreFuture<'a, T>) -> StoreFuture<'a, T>
    where
        T: Send + 'a,
    {
        match self.flaw {
            Flaw::Writes | Flaw::All => refused(),
            Flaw::Hangs => {
                drop(call);
                Box::pin(std::future::pending())
            }
        }
    }
}

fn refused<'a, T>() -> StoreFuture<'a, T>
where
    T: Send + 'a,
{
    Box::pin(std::future::ready(Err(
        "OOM command not allowed, args beginning with: 'V1'".into(),
    )))
}

impl TokenStore for FlakyStore {
    fn load<'a>(&'a self, app_key: &'a str) -> StoreFuture<'a, Option<Token>> {
        match self.flaw {
            Flaw::Writes => self.inner.load(app_key),
            Flaw::All | Flaw::Hangs => self.write(self.inner.load(app_key)),
        }
    }

    fn store_if<'a>(
        &'a self,
        app_key: &'a str,
        failed: Option<&'a str>,
        token: &'a Token,
    ) -> StoreFuture<'a, bool> {
        let _ = (app_key, failed, token);
        self.write(Box::pin(std::future::ready(Ok(true))))
    }

    fn try_lease<'a>(&'a self, _: &'a str, _: &'a str, _: u64) -> StoreFuture<'a, bool> {
        self.write(Box::pin(std::future::ready(Ok(true))))
    }

    fn release<'a>(&'a self, _: &'a str, _: &'a str) -> StoreFuture<'a, ()> {
        self.write(Box::pin(std::future::ready(Ok(()))))
    }
}
