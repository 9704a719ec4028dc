//! Where processes share a token, as a trait: the Redis implementation lives elsewhere.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use secrecy::{ExposeSecret, SecretString};

/// A token and the moment up to which it may be used.
#[derive(Clone)]
pub struct Token {
    value: SecretString,
    /// Milliseconds since the epoch; a safety margin is already taken off.
    pub expires_at_ms: u64,
}

impl Token {
    /// A token that may be used until `expires_at_ms`.
    pub fn new(value: impl Into<String>, expires_at_ms: u64) -> Self {
        Self {
            value: SecretString::from(value.into()),
            expires_at_ms,
        }
    }

    /// The token itself, for the URL and the store. Keep it out of logs and errors.
    pub fn expose(&self) -> &str {
        self.value.expose_secret()
    }

    /// May it still be used at this moment?
    pub fn is_live(&self, now_ms: u64) -> bool {
        now_ms < self.expires_at_ms
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("value", &"[REDACTED]")
            .field("expires_at_ms", &self.expires_at_ms)
            .finish()
    }
}

/// What a store's methods return, boxed so that the trait can be an object: `Box::pin(async move { … })`.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Any failure of a store. It is never fatal and its text is never logged (a server may echo the arguments).
pub type StoreError = Box<dyn std::error::Error + Send + Sync>;

/// Shared by all processes that use one app. `app_key` is [`App::key`](crate::client::App::key).
///
/// A store that fails or hangs costs a token request per process, never a call.
pub trait TokenStore: Send + Sync {
    /// The stored token, live or not. The client checks `expires_at_ms` itself.
    fn load<'a>(&'a self, app_key: &'a str) -> StoreFuture<'a, Option<Token>>;

    /// Stores `token` if nothing is stored, or what is stored has the value `failed`; in one step. Answers
    /// whether it did. An entry may be forgotten from `token.expires_at_ms` on.
    fn store_if<'a>(
        &'a self,
        app_key: &'a str,
        failed: Option<&'a str>,
        token: &'a Token,
    ) -> StoreFuture<'a, bool>;

    /// Takes the right to renew for `lease_ms`, unless another owner has it. The lease must end by itself.
    fn try_lease<'a>(
        &'a self,
        app_key: &'a str,
        owner: &'a str,
        lease_ms: u64,
    ) -> StoreFuture<'a, bool>;

    /// Gives the lease back if this owner still has it.
    fn release<'a>(&'a self, app_key: &'a str, owner: &'a str) -> StoreFuture<'a, ()>;
}
