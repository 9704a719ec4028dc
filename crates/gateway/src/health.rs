//! What is wrong at the moment: behind `/readyz`, and the one log line when something breaks or mends.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use serde::Serialize;

use crate::{config::Errors, endpoints::Endpoints};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// `endpoint`, `store`, `reload` or `shutdown`.
    pub(crate) part: &'static str,
    /// Which one: endpoint or corp.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) id: String,
    pub(crate) problem: String,
}

#[derive(Debug, Default)]
pub(crate) struct Health {
    state: Mutex<State>,
    /// Some corp's store failed. Read before the lock is taken on the hot path.
    store_failing: AtomicBool,
    draining: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Corps whose last append or probe failed.
    store: BTreeMap<Arc<str>, String>,
    endpoints: BTreeMap<String, String>,
    reload: Option<String>,
}

impl Health {
    pub(crate) fn append_worked(&self, corp: &Arc<str>) {
        if self.store_failing.load(Relaxed) {
            let mut state = self.lock();
            if state.store.remove(corp).is_some() {
                tracing::info!(%corp, "store takes callbacks again");
            }
            self.store_failing.store(!state.store.is_empty(), Relaxed);
        }
    }

    pub(crate) fn append_failed(&self, corp: &Arc<str>, problem: &str) {
        let mut state = self.lock();
        self.store_failing.store(true, Relaxed);
        if state
            .store
            .insert(Arc::clone(corp), problem.to_owned())
            .is_none()
        {
            tracing::error!(%corp, problem, "store does not take callbacks");
        }
    }

    /// Says which endpoints are switched off, in place of what was said before.
    pub(crate) fn endpoints(&self, endpoints: &Endpoints) {
        let mut state = self.lock();
        state.endpoints = endpoints
            .off
            .iter()
            .map(|(id, error)| (id.clone(), error.to_string()))
            .collect();
        let corps: Vec<_> = endpoints.corps().cloned().collect();
        state.store.retain(|corp, _| corps.contains(corp));
        self.store_failing.store(!state.store.is_empty(), Relaxed);
    }

    pub(crate) fn reload(&self, result: Result<(), &Errors>) {
        self.lock().reload = result.err().map(Errors::to_string);
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Relaxed);
    }

    pub(crate) fn draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Whether callbacks should be sent here, and everything that is wrong. A switched-off endpoint or a refused
    /// reload is shown, but taking the whole gateway out would hurt the endpoints that work.
    pub(crate) fn report(&self) -> (bool, Vec<Problem>) {
        let state = self.lock();
        let problem = |part, id: &str, problem: &str| Problem {
            part,
            id: id.to_owned(),
            problem: problem.to_owned(),
        };
        let mut problems = Vec::new();
        if self.draining() {
            problems.push(problem("shutdown", "", "stops soon"));
        }
        problems.extend(
            state
                .store
                .iter()
                .map(|(corp, text)| problem("store", corp, text)),
        );
        let ready = problems.is_empty();
        problems.extend(
            state
                .endpoints
                .iter()
                .map(|(id, text)| problem("endpoint", id, text)),
        );
        problems.extend(state.reload.iter().map(|text| problem("reload", "", text)));
        (ready, problems)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
