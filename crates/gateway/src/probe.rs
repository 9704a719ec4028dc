//! Asks Redis now and then whether it would take a callback, so that `/readyz` knows it when nothing arrives, and that
//! a store which mends is seen without a callback having to try it.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{
    config::Config,
    endpoints::Endpoints,
    health::Health,
    store::{CorpInbox, Store},
};

/// Corps asked in one round; with more of them, the rounds go through them in turn.
const AT_ONCE: usize = 16;

pub(crate) async fn run(
    config: Arc<Config>,
    endpoints: watch::Receiver<Arc<Endpoints>>,
    health: Arc<Health>,
) {
    let every = Duration::from_millis(config.store.probe_ms);
    let store = Arc::new(Store::new(&config));
    let mut turn = 0;
    loop {
        let corps: Vec<Arc<str>> = endpoints.borrow().corps().cloned().collect();
        let round = corps
            .iter()
            .cycle()
            .skip(turn % corps.len().max(1))
            .take(corps.len().min(AT_ONCE));
        turn = turn.wrapping_add(AT_ONCE);
        let asked = round.map(async |corp| {
            // Not longer than a callback would wait.
            let limit = Duration::from_millis(config.store.timeout_ms);
            match tokio::time::timeout(limit, CorpInbox::new(Arc::clone(&store), corp).probe())
                .await
            {
                Ok(Ok(())) => health.append_worked(corp),
                Ok(Err(problem)) => health.append_failed(corp, &problem),
                Err(_) => health.append_failed(corp, "no answer in time"),
            }
        });
        futures_util::future::join_all(asked).await;
        tokio::time::sleep(every).await;
    }
}
