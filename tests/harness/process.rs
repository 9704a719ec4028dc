//! An allocator process: its own runtime with its own threads, as far from the test as threads can be, so that it can
//! be stopped in order, or killed with all that it holds.

use std::{
    collections::HashMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

use allocator::{
    config::Config,
    run::{Error, Listeners},
};
use reqwest::StatusCode;
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{eventually, options::free};

/// One that runs.
#[derive(Debug)]
pub struct Allocator {
    /// The REST API.
    pub api: SocketAddr,
    /// `/livez`, `/readyz`, `/metrics`.
    pub admin: SocketAddr,
    /// Visitors' pages.
    pub public: SocketAddr,
    stop: CancellationToken,
    /// Taken when it ends.
    running: Option<(Runtime, JoinHandle<Result<(), Error>>)>,
}

impl Allocator {
    /// Does not wait until it serves.
    pub(crate) fn spawn(config: Config, env: HashMap<String, String>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let listeners = [free(), free(), free()];
        let [api, admin, public] = listeners.each_ref().map(addr);
        let [api_listener, admin_listener, public_listener] = listeners;
        let listeners = Listeners {
            api: api_listener,
            admin: admin_listener,
            public: Some(public_listener),
        };
        let stop = CancellationToken::new();
        let task = runtime.spawn(allocator::run::run(config, env, listeners, stop.clone()));
        Self {
            api,
            admin,
            public,
            stop,
            running: Some((runtime, task)),
        }
    }

    /// Waits until its probes answer: by then its loops run.
    pub(crate) async fn serves(&self) {
        eventually("an allocator serves", || async {
            assert!(!self.ended(), "the allocator ended instead of starting");
            let (status, _) = self.probe("livez").await?;
            (status == 200).then_some(())
        })
        .await;
    }

    /// Whether it ended although nobody stopped it.
    pub fn ended(&self) -> bool {
        self.running
            .as_ref()
            .is_none_or(|(_, task)| task.is_finished())
    }

    /// What a probe answers; None when nothing listens. A probe that hangs fails the test.
    pub async fn probe(&self, name: &str) -> Option<(StatusCode, String)> {
        /// Above what a probe gives its stores.
        const LONGEST: Duration = Duration::from_secs(8);
        let url = format!("http://{}/{name}", self.admin);
        match reqwest::Client::new()
            .get(url)
            .timeout(LONGEST)
            .send()
            .await
        {
            Ok(answer) => Some((
                answer.status(),
                answer.text().await.expect("the answer's body"),
            )),
            Err(error) if error.is_timeout() => panic!("/{name} hangs"),
            Err(_) => None,
        }
    }

    /// SIGTERM: from now on it finishes what it holds.
    pub fn terminate(&self) {
        self.stop.cancel();
    }

    /// Ends it in order; how long that took.
    pub async fn stop(self) -> Duration {
        let begun = Instant::now();
        self.end().await.expect("an allocator ends in order");
        begun.elapsed()
    }

    /// Ends it; how it ended.
    pub async fn end(mut self) -> Result<(), Error> {
        self.terminate();
        let Some((runtime, task)) = self.running.take() else {
            return Ok(());
        };
        let ended = task.await.expect("an allocator does not break");
        runtime.shutdown_background();
        ended
    }

    /// SIGKILL: its tasks end wherever they are, its connections break.
    pub fn kill(mut self) {
        self.drop_all();
    }

    fn drop_all(&mut self) {
        if let Some((runtime, _)) = self.running.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        self.drop_all();
    }
}

fn addr(listener: &std::net::TcpListener) -> SocketAddr {
    listener.local_addr().expect("bound")
}
