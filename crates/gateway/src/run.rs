//! From a configuration and its sockets to a running gateway, and back to nothing.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    admin::{self, Admin},
    body::Budget,
    config::{self, Config},
    endpoints::Endpoints,
    health::Health,
    listen::{self, Listeners},
    metrics::Metrics,
    probe,
    refusal::RefusalLog,
    worker::{self, Shared, WaitingByCorp},
};

/// Why a gateway did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Configuration(#[from] config::Errors),
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// A worker ended although nobody asked for it.
    #[error("worker {0} ended")]
    Worker(usize),
    /// Connections were still open when the time for the end was over.
    #[error("not finished within {0:?}")]
    Unfinished(Duration),
}

/// What the outside tells a running gateway. A cheap clone; the caller keeps one.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    /// Finish what was accepted, then return.
    pub shutdown: CancellationToken,
    /// Read endpoints and their secrets again.
    pub reload: Arc<Notify>,
}

/// Runs until [`Signals::shutdown`]. Needs a tokio runtime for the admin address; callbacks are served by threads of
/// their own, one for each socket in `listeners`.
pub async fn run(config: Config, listeners: Listeners, signals: Signals) -> Result<(), Error> {
    start(config, listeners, signals, true).await
}

/// As [`run`], but keeps nothing: callbacks are verified, read and answered. It shows what the gateway costs without
/// its store, and is good for nothing else, so no configuration leads here.
pub async fn run_unstored(
    config: Config,
    listeners: Listeners,
    signals: Signals,
) -> Result<(), Error> {
    start(config, listeners, signals, false).await
}

async fn start(
    config: Config,
    listeners: Listeners,
    signals: Signals,
    stored: bool,
) -> Result<(), Error> {
    let metrics = Arc::new(Metrics::new());
    let health = Arc::new(Health::default());
    let endpoints = Endpoints::build(&config, &metrics);
    endpoints.check_some_live()?;
    for error in endpoints.off.values() {
        tracing::error!(problem = %error, "endpoint is malformed and switched off");
    }
    let (publish, published) = watch::channel(Arc::new(Endpoints::default()));
    let config = Arc::new(config);
    let gateway = Gateway {
        config,
        metrics,
        health,
        publish,
    };
    gateway.put_in_force(endpoints);
    gateway.serve(published, listeners, signals, stored).await
}

struct Gateway {
    /// As it was at the start: all but the endpoints stays in force.
    config: Arc<Config>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    publish: watch::Sender<Arc<Endpoints>>,
}

impl Gateway {
    async fn serve(
        &self,
        endpoints: watch::Receiver<Arc<Endpoints>>,
        listeners: Listeners,
        signals: Signals,
        stored: bool,
    ) -> Result<(), Error> {
        let log = &self.config.log;
        let stop = CancellationToken::new();
        // However this ends, the workers are told.
        let _stop_all = stop.clone().drop_guard();
        let waiting = WaitingByCorp::default();
        let budget = Budget::new(self.config.http.buffered_limit);
        let shared = Shared {
            config: Arc::clone(&self.config),
            endpoints: endpoints.clone(),
            metrics: Arc::clone(&self.metrics),
            health: Arc::clone(&self.health),
            refusals: Arc::new(RefusalLog::new(
                log.refusals_burst,
                log.refusals_per_second,
                Instant::now(),
            )),
            waiting: waiting.clone(),
            budget: budget.clone(),
            stop: stop.clone(),
            workers: listeners.callback.len(),
            stored,
        };
        let callbacks = listeners.callback_addr()?;
        let admin_addr = listeners.admin_addr()?;
        let mut workers = Workers::start(shared, listeners.callback)?;

        let admin = Admin {
            health: Arc::clone(&self.health),
            metrics: Arc::clone(&self.metrics),
            waiting,
            budget,
        };
        let admin_stop = CancellationToken::new();
        let admin = tokio::spawn(admin::serve(
            admin,
            listen::into_tokio(listeners.admin)?,
            admin_stop.clone(),
        ));
        let (config, health) = (Arc::clone(&self.config), Arc::clone(&self.health));
        let probe = stored.then(|| tokio::spawn(probe::run(config, endpoints, health)));
        tracing::info!(%callbacks, admin = %admin_addr, workers = workers.ended.len(), "listening");

        let ended = loop {
            tokio::select! {
                () = signals.shutdown.cancelled() => break Ok(()),
                () = signals.reload.notified() => self.reload(),
                worker = workers.next_end() => break Err(Error::Worker(worker)),
            }
        };
        let ended = match ended {
            Ok(()) => self.finish(&stop, &mut workers).await,
            failed => failed,
        };
        if let Some(probe) = probe {
            probe.abort();
        }
        admin_stop.cancel();
        drop(admin.await);
        ended
    }

    /// First `/readyz` says no and answers ask to close, while everything is still served; then nothing new is
    /// accepted and the rest is finished.
    async fn finish(&self, stop: &CancellationToken, workers: &mut Workers) -> Result<(), Error> {
        let http = &self.config.http;
        tracing::info!("shutting down");
        self.health.drain();
        tokio::time::sleep(Duration::from_millis(http.drain_ms)).await;
        stop.cancel();
        let limit = Duration::from_millis(http.shutdown_ms);
        let finished = tokio::time::timeout(limit, workers.all_ended()).await;
        match finished {
            Ok(()) => tracing::info!("finished"),
            Err(_) => tracing::error!(?limit, "gave up on what is still open"),
        }
        finished.map_err(|_| Error::Unfinished(limit))
    }

    /// All or nothing: a reload with a mistake anywhere changes nothing.
    fn reload(&self) {
        let result = self.config.reload().and_then(|config| {
            let endpoints = Endpoints::build(&config, &self.metrics);
            match endpoints.off.values().next() {
                Some(error) => Err(error.clone()),
                None => endpoints.check_some_live().map(|()| (config, endpoints)),
            }
        });
        self.health.reload(result.as_ref().map(drop));
        match result {
            Ok((config, endpoints)) => {
                let restart = self.config.needs_restart(&config);
                if !restart.is_empty() {
                    tracing::warn!(parts = ?restart, "changed, but only a restart puts it in force");
                }
                self.put_in_force(endpoints);
                self.metrics.reloads_applied.increment(1);
            }
            Err(error) => {
                tracing::error!(problem = %error, "reload refused, the old configuration stays");
                self.metrics.reloads_refused.increment(1);
            }
        }
    }

    fn put_in_force(&self, endpoints: Endpoints) {
        let (live, off) = (endpoints.live.len(), endpoints.off.len());
        self.metrics.endpoints_live.set(live as f64);
        self.metrics.endpoints_off.set(off as f64);
        self.health.endpoints(&endpoints);
        self.publish.send_replace(Arc::new(endpoints));
        tracing::info!(live, off, "endpoints in force");
    }
}

/// The worker threads, each with its own runtime.
struct Workers {
    ended: Vec<oneshot::Receiver<()>>,
}

impl Workers {
    fn start(shared: Shared, listeners: Vec<std::net::TcpListener>) -> io::Result<Self> {
        let mut ended = Vec::new();
        for (index, listener) in listeners.into_iter().enumerate() {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let shared = shared.clone();
            // Dropped when the thread ends, also by a panic.
            let (alive, end) = oneshot::channel::<()>();
            thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || {
                    let _alive = alive;
                    if let Err(error) = runtime.block_on(worker::serve(shared, listener)) {
                        tracing::error!(%error, "worker failed");
                    }
                })?;
            ended.push(end);
        }
        Ok(Self { ended })
    }

    async fn next_end(&mut self) -> usize {
        let ends = self.ended.iter_mut();
        futures_util::future::select_all(ends).await.1
    }

    async fn all_ended(&mut self) {
        futures_util::future::join_all(self.ended.iter_mut()).await;
    }
}
