//! A token store within one process: for tests, tools and single-process set-ups.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{StoreFuture, Token, TokenStore};
use crate::client::{Clock, SystemClock};

/// Tokens and leases in memory.
pub struct MemoryTokenStore {
    clock: Arc<dyn Clock>,
    entries: Mutex<HashMap<String, Entry>>,
}

#[derive(Default)]
struct Entry {
    token: Option<Token>,
    lease: Option<(String, u64)>,
}

impl MemoryTokenStore {
    /// An empty store whose leases end by this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            entries: Mutex::default(),
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        // Entries are replaced whole, so a panic elsewhere cannot have left one half-written.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryTokenStore {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

impl std::fmt::Debug for MemoryTokenStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryTokenStore")
            .field("apps", &self.entries().len())
            .finish()
    }
}

impl TokenStore for MemoryTokenStore {
    fn load<'a>(&'a self, app_key: &'a str) -> StoreFuture<'a, Option<Token>> {
        let token = self
            .entries()
            .get(app_key)
            .and_then(|entry| entry.token.clone());
        Box::pin(std::future::ready(Ok(token)))
    }

    fn store_if<'a>(
        &'a self,
        app_key: &'a str,
        failed: Option<&'a str>,
        token: &'a Token,
    ) -> StoreFuture<'a, bool> {
        let mut entries = self.entries();
        let entry = entries.entry(app_key.to_owned()).or_default();
        let stored = entry
            .token
            .as_ref()
            .filter(|stored| stored.is_live(self.clock.now_ms()));
        let replace = stored.is_none_or(|stored| Some(stored.expose()) == failed);
        if replace {
            entry.token = Some(token.clone());
        }
        Box::pin(std::future::ready(Ok(replace)))
    }

    fn try_lease<'a>(
        &'a self,
        app_key: &'a str,
        owner: &'a str,
        lease_ms: u64,
    ) -> StoreFuture<'a, bool> {
        let now_ms = self.clock.now_ms();
        let mut entries = self.entries();
        let entry = entries.entry(app_key.to_owned()).or_default();
        let free = entry
            .lease
            .as_ref()
            .is_none_or(|(holder, until_ms)| holder == owner || *until_ms <= now_ms);
        if free {
            entry.lease = Some((owner.to_owned(), now_ms.saturating_add(lease_ms)));
        }
        Box::pin(std::future::ready(Ok(free)))
    }

    fn release<'a>(&'a self, app_key: &'a str, owner: &'a str) -> StoreFuture<'a, ()> {
        if let Some(entry) = self.entries().get_mut(app_key) {
            entry.lease.take_if(|(holder, _)| holder == owner);
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
