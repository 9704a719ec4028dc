//! The access tokens of one corp's apps, shared by all processes.

use std::sync::Arc;

use secrecy::SecretString;

use crate::token_lease::{Answered, TokenLease};
use crate::token_load::TokenLoad;
use crate::token_release::TokenRelease;
use crate::token_store::{Stored, TokenStore};
use crate::{Connection, Error, TokenKeys};

/// An access token and its end. Its value is never printed.
#[derive(Debug, Clone)]
pub struct Token {
    pub value: SecretString,
    pub expires_at_ms: i64,
}

#[derive(Debug, Default)]
struct Scripts {
    load: TokenLoad,
    store: TokenStore,
    lease: TokenLease,
    release: TokenRelease,
}

/// One token per app (a token works only for its own app), one process at a time that renews it.
#[derive(Clone)]
pub struct Tokens<C> {
    conn: C,
    corp: Arc<str>,
    scripts: Arc<Scripts>,
}

impl<C> std::fmt::Debug for Tokens<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens")
            .field("corp", &self.corp)
            .finish_non_exhaustive()
    }
}

impl<C: Connection> Tokens<C> {
    pub fn new(conn: C, corp: &str) -> Self {
        Self {
            conn,
            corp: corp.into(),
            scripts: Arc::default(),
        }
    }

    pub async fn load(&self, app: &str, now_ms: Option<i64>) -> Result<Option<Token>, Error> {
        self.scripts
            .load
            .call(&mut self.conn.clone(), &self.keys(app), now_ms)
            .await
    }

    /// Stores `token` unless a live one other than `failed` is there; the answer says which to use.
    pub async fn store_if(
        &self,
        app: &str,
        failed: Option<&str>,
        token: &Token,
        now_ms: Option<i64>,
    ) -> Result<Stored, Error> {
        self.scripts
            .store
            .call(
                &mut self.conn.clone(),
                &self.keys(app),
                failed,
                token,
                now_ms,
            )
            .await
    }

    /// True for one `owner` at a time, until he releases it or `lease_ms` is over.
    pub async fn try_lease(
        &self,
        app: &str,
        owner: &str,
        lease_ms: u64,
        now_ms: Option<i64>,
    ) -> Result<bool, Error> {
        let answered = self
            .scripts
            .lease
            .call(
                &mut self.conn.clone(),
                &self.keys(app),
                owner,
                lease_ms,
                now_ms,
            )
            .await?;
        Ok(matches!(answered, Answered::Leased { .. }))
    }

    pub async fn release(&self, app: &str, owner: &str) -> Result<bool, Error> {
        self.scripts
            .release
            .call(&mut self.conn.clone(), &self.keys(app), owner)
            .await
    }

    fn keys(&self, app: &str) -> TokenKeys {
        TokenKeys::new(&self.corp, app)
    }
}
