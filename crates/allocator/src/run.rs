//! Start and stop, in order: stores, migrations checked, loops, then the listeners; on the way back listeners first.

use std::{
    collections::HashMap,
    net::{SocketAddr, TcpListener},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    api,
    app::{self, App},
    clock::{self, Clock},
    config::Config,
    fission::join_ways,
    people, pipeline,
    public::{self, Site, app_desk::AppDesk, identity::Keys},
    reception::slots,
    redis_setup,
};

/// Why the program ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    App(#[from] app::Error),
    #[error("{0}")]
    Metrics(String),
    #[error("listener")]
    Listen(#[from] std::io::Error),
    #[error("ledger")]
    Ledger(#[from] ledger::Error),
    #[error("channels and members")]
    People(#[from] people::Error),
    #[error("the database lacks {0} migrations: run `allocator migrate`")]
    Migrations(usize),
    /// Another process takes over what was not finished.
    #[error("not finished within {0:?}")]
    Unfinished(Duration),
}

/// Sockets that are open already, so that tests know their ports.
#[derive(Debug)]
pub struct Listeners {
    pub api: TcpListener,
    pub admin: TcpListener,
    /// Visitors' pages, if there are any.
    pub public: Option<TcpListener>,
}

impl Listeners {
    /// Opens the configured addresses.
    pub fn bind(config: &Config) -> std::io::Result<Self> {
        let open = |key: &str, address: SocketAddr| {
            let named = |error: std::io::Error| {
                std::io::Error::new(error.kind(), format!("{key} = {address}: {error}"))
            };
            TcpListener::bind(address).map_err(named)
        };
        Ok(Self {
            api: open("http.listen", config.http.listen)?,
            admin: open("http.admin_listen", config.http.admin_listen)?,
            public: config
                .public
                .listen
                .map(|address| open("public.listen", address))
                .transpose()?,
        })
    }
}

/// Serves until `stop` is cancelled, then finishes what it holds.
pub async fn run(
    config: Config,
    env: HashMap<String, String>,
    listeners: Listeners,
    stop: CancellationToken,
) -> Result<(), Error> {
    run_with(config, env, listeners, stop, clock::system()).await
}

/// The same with a clock of the caller's.
pub async fn run_with(
    config: Config,
    env: HashMap<String, String>,
    listeners: Listeners,
    stop: CancellationToken,
    clock: Clock,
) -> Result<(), Error> {
    let metrics = recorder()?;
    let keys = config.public.read_keys(&env).map_err(app::Error::from)?;
    let app = App::connect(config, &env, clock).await?;
    let status = app.ledger.migration_status().await?;
    if status.pending > 0 {
        return Err(Error::Migrations(status.pending));
    }
    let corps: Vec<_> = app.corps.keys().cloned().collect();
    app.ledger.prepare(&corps).await?;
    for corp in app.corps.values() {
        // Without channels every customer would go to the default pool.
        people::refresh(&app, corp).await?;
        // Without its contact ways a page would show no code to those who have a member.
        slots::refresh(&app, corp).await?;
        join_ways::refresh(&app, corp).await?;
    }
    // Not waited for: the program starts while Redis is away.
    tokio::spawn(redis_setup::warn(Arc::clone(&app), stop.clone()));
    let loops = pipeline::start(&app, &stop);
    let limit = Duration::from_millis(app.config.http.shutdown_ms);
    let site = keys.map(|keys| site(&app, keys));
    let mut serving = pin!(serve(&app, listeners, site, metrics, &stop));
    let early = tokio::select! {
        served = &mut serving => Some(served),
        () = stop.cancelled() => None,
    };
    stop.cancel();
    let finish = async {
        let serving = async {
            match early {
                Some(served) => served,
                None => serving.await,
            }
        };
        let (served, ()) = tokio::join!(serving, pipeline::drained(loops));
        app.ledger.close().await;
        served
    };
    // A caller who never ends his request, or a store that never answers, must not hold up the end.
    tokio::time::timeout(limit, finish)
        .await
        .unwrap_or_else(|_| {
            tracing::warn!(
                ?limit,
                "gave up on what is still open; another process takes it over"
            );
            Err(Error::Unfinished(limit))
        })
}

/// The pages of this program.
fn site(app: &Arc<App>, keys: Keys) -> Site {
    let desk = Arc::new(AppDesk::new(Arc::clone(app)));
    Site::new(&app.config.public, keys, desk, Arc::clone(&app.clock))
}

async fn serve(
    app: &Arc<App>,
    listeners: Listeners,
    site: Option<Site>,
    metrics: PrometheusHandle,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let listen = |listener: TcpListener| {
        listener.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(listener)
    };
    let api = axum::serve(listen(listeners.api)?, api::router(Arc::clone(app)))
        .with_graceful_shutdown(stop.clone().cancelled_owned());
    let admin = axum::serve(
        listen(listeners.admin)?,
        api::admin_router(Arc::clone(app), metrics),
    )
    .with_graceful_shutdown(stop.clone().cancelled_owned());
    let pages = async {
        let (Some(listener), Some(site)) = (listeners.public, site) else {
            return Ok(());
        };
        let service = public::router(site).into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listen(listener)?, service)
            .with_graceful_shutdown(stop.clone().cancelled_owned())
            .await
    };
    tracing::info!(instance = %app.instance, corps = app.corps.len(), "serving");
    tokio::try_join!(api.into_future(), admin.into_future(), pages)?;
    Ok(())
}

/// One recorder in a process; tests run several allocators in one.
fn recorder() -> Result<PrometheusHandle, Error> {
    static HANDLE: std::sync::OnceLock<Result<PrometheusHandle, String>> =
        std::sync::OnceLock::new();
    HANDLE
        .get_or_init(|| {
            metrics_exporter_prometheus::PrometheusBuilder::new()
                .set_buckets(&[
                    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0,
                ])
                .and_then(metrics_exporter_prometheus::PrometheusBuilder::install_recorder)
                .map_err(|error| error.to_string())
        })
        .clone()
        .map_err(Error::Metrics)
}
