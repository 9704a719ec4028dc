//! One worker: a thread with its own runtime, socket, Redis connection and lanes. Workers share nothing that a request
//! would have to wait for.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    future::poll_fn,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::Duration,
};

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    activity::{Connections, Order, Watch, Watched},
    body::{Budget, Limits},
    callback,
    config::Config,
    endpoints::Endpoints,
    health::Health,
    lane::{Lane, Waiting, Writer},
    listen,
    metrics::Metrics,
    refusal::RefusalLog,
    routes::Routes,
    store::{CorpInbox, Store},
};

/// Largest request header, and read buffer of a connection, bytes. A callback's header has a few hundred.
const MAX_HEADER: usize = 16 * 1024;
/// After the stop: how long a request that is on its way through the network may take to be served. hyper would close
/// an idle connection at once.
const LAST_REQUEST: Duration = Duration::from_millis(100);
/// Between two tries when connections cannot be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What all workers of a gateway have in common.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) config: Arc<Config>,
    pub(crate) endpoints: watch::Receiver<Arc<Endpoints>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
    pub(crate) refusals: Arc<RefusalLog>,
    pub(crate) waiting: WaitingByCorp,
    pub(crate) budget: Budget,
    /// No new connections; what is open is finished.
    pub(crate) stop: CancellationToken,
    pub(crate) workers: usize,
    /// False: verify, read and answer, but keep nothing. For measurements only.
    pub(crate) stored: bool,
}

impl Shared {
    /// How many connections one worker may have open.
    fn places(&self) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(
            self.config.http.max_connections.div_ceil(self.workers),
        ))
    }
}

/// How many callbacks of each corp wait, over all workers.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaitingByCorp(Arc<Mutex<BTreeMap<Arc<str>, Waiting>>>);

impl WaitingByCorp {
    fn of(&self, corp: &Arc<str>) -> Waiting {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(Arc::clone(corp))
            .or_default()
            .clone()
    }

    pub(crate) fn all(&self) -> Vec<(Arc<str>, usize)> {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting
            .iter()
            .map(|(corp, waiting)| (Arc::clone(corp), waiting.count()))
            .collect()
    }
}

/// What a handler sees.
pub(crate) struct Worker {
    pub(crate) routes: ArcSwap<Routes>,
    pub(crate) body_limits: Limits,
    pub(crate) store_timeout: Duration,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
    pub(crate) refusals: Arc<RefusalLog>,
    connections: Arc<Connections>,
    stop: CancellationToken,
}

/// Serves `listener` until [`Shared::stop`], then finishes what was accepted.
pub(crate) async fn serve(shared: Shared, listener: std::net::TcpListener) -> std::io::Result<()> {
    let listener = listen::into_tokio(listener)?;
    let mut lanes = Lanes::new(&shared);
    let mut endpoints = shared.endpoints.clone();
    let worker = Arc::new(Worker::new(
        &shared,
        lanes.routes(&endpoints.borrow_and_update()),
    ));
    let lane_tasks = lanes.tasks.clone();

    let watcher = tokio::spawn({
        let worker = Arc::clone(&worker);
        async move { worker.connections.sweep().await }
    });
    let follower = tokio::spawn({
        let worker = Arc::clone(&worker);
        async move {
            while endpoints.changed().await.is_ok() {
                let routes = lanes.routes(&endpoints.borrow_and_update());
                worker.routes.store(Arc::new(routes));
            }
        }
    });

    let served = TaskTracker::new();
    accept(&worker, listener, &served, shared.places()).await;
    if !worker.connections.is_empty() {
        tokio::time::sleep(LAST_REQUEST).await;
    }
    worker.connections.finish();
    served.close();
    served.wait().await;
    // Nobody asks any more. With the last lane's end, what was handed over is stored or given up.
    for task in [watcher, follower] {
        task.abort();
        drop(task.await);
    }
    drop(worker);
    lane_tasks.close();
    lane_tasks.wait().await;
    Ok(())
}

impl Worker {
    fn new(shared: &Shared, routes: Routes) -> Self {
        let http = &shared.config.http;
        Self {
            routes: ArcSwap::from_pointee(routes),
            body_limits: Limits {
                bytes: http.body_limit,
                time: Duration::from_millis(http.body_timeout_ms),
                budget: shared.budget.clone(),
            },
            store_timeout: Duration::from_millis(shared.config.store.timeout_ms),
            metrics: Arc::clone(&shared.metrics),
            health: Arc::clone(&shared.health),
            refusals: Arc::clone(&shared.refusals),
            connections: Arc::new(Connections::new(
                Duration::from_millis(http.header_timeout_ms),
                Duration::from_millis(http.body_timeout_ms),
                Duration::from_millis(http.keep_alive_ms),
            )),
            stop: shared.stop.clone(),
        }
    }
}

/// Takes connections until the stop, and then those that the kernel had already taken for us.
async fn accept(
    worker: &Arc<Worker>,
    listener: TcpListener,
    served: &TaskTracker,
    places: Arc<Semaphore>,
) {
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            next = next => next,
            () = worker.stop.cancelled() => break,
        };
        match (accepted, place) {
            (Ok((stream, peer)), Ok(place)) => open(worker, served, stream, peer, place),
            (Err(error), _) => {
                // Out of file descriptors, mostly: some that are open must end first.
                tracing::error!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            (_, Err(_)) => break,
        }
    }
    while let Ok(place) = Arc::clone(&places).try_acquire_owned() {
        let Some(Ok((stream, peer))) = listener.accept().now_or_never() else {
            break;
        };
        open(worker, served, stream, peer, place);
    }
}

fn open(
    worker: &Arc<Worker>,
    served: &TaskTracker,
    stream: TcpStream,
    peer: SocketAddr,
    place: OwnedSemaphorePermit,
) {
    worker.metrics.connections.increment(1.0);
    worker.metrics.connections_opened.increment(1);
    let watch = worker.connections.watch();
    let open = Open {
        worker: Arc::clone(worker),
        watch,
        _place: place,
    };
    drop(served.spawn(connection(open, stream, peer)));
}

/// A connection that is open, until it is dropped, however it ends.
struct Open {
    worker: Arc<Worker>,
    watch: Watch,
    _place: OwnedSemaphorePermit,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.worker.metrics.connections.decrement(1.0);
    }
}

async fn connection(open: Open, stream: TcpStream, peer: SocketAddr) {
    let (worker, activity) = (&open.worker, &open.watch.activity);
    let io = TokioIo::new(Watched::new(stream, Arc::clone(activity)));
    let service = service_fn(async |request: Request<Incoming>| {
        let answer = callback::answer(worker, activity, peer, request).await;
        activity.idle();
        Ok::<_, Infallible>(answer)
    });
    let mut connection = pin!(
        http1::Builder::new()
            .max_buf_size(MAX_HEADER)
            .serve_connection(io, service)
    );
    let mut finishing = false;
    let ended = poll_fn(|cx| {
        match activity.order(cx) {
            Order::Close => return Poll::Ready(Ok(())),
            Order::Finish if !finishing => {
                finishing = true;
                connection.as_mut().graceful_shutdown();
            }
            _ => {}
        }
        connection.as_mut().poll(cx)
    });
    if let Err(error) = ended.await {
        tracing::debug!(%peer, %error, "connection ended badly");
    }
}

/// The lanes of one worker, by corp.
struct Lanes {
    open: HashMap<Arc<str>, Lane>,
    tasks: TaskTracker,
    store: Option<Arc<Store>>,
    shared: Shared,
}

impl Lanes {
    fn new(shared: &Shared) -> Self {
        let store = shared.stored.then(|| Arc::new(Store::new(&shared.config)));
        Self {
            open: HashMap::new(),
            tasks: TaskTracker::new(),
            store,
            shared: shared.clone(),
        }
    }

    /// Routes for these endpoints. Corps that were here keep their lane; the lane of one that is gone ends when its
    /// last request has its answer.
    fn routes(&mut self, endpoints: &Arc<Endpoints>) -> Routes {
        let before = std::mem::take(&mut self.open);
        let mut open = HashMap::new();
        let routes = Routes::new(Arc::clone(endpoints), |corp| {
            let lane = open.entry(Arc::clone(corp));
            lane.or_insert_with(|| {
                before
                    .get(corp)
                    .cloned()
                    .unwrap_or_else(|| self.begin(corp))
            })
            .clone()
        });
        self.open = open;
        routes
    }

    fn begin(&self, corp: &Arc<str>) -> Lane {
        let Some(store) = &self.store else {
            return Lane::to_nowhere();
        };
        let Shared {
            config,
            metrics,
            health,
            waiting,
            ..
        } = &self.shared;
        let writer = Writer {
            corp: Arc::clone(corp),
            inbox: CorpInbox::new(Arc::clone(store), corp),
            config: config.store.clone(),
            metrics: Arc::clone(metrics),
            health: Arc::clone(health),
        };
        let (lane, task) = Lane::begin(writer, waiting.of(corp), config.store.max_in_flight);
        drop(self.tasks.spawn(task));
        lane
    }
}
