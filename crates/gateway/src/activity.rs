//! Which connections do something, and the end of those that do not: a sender that never finishes its header
//! (slowloris), a client that keeps a connection without using it, one that never reads its answers.
//!
//! hyper's own timer knows one time for both, and sets a new timer for each request. Here a connection notes what it
//! is doing since which tick of a slow clock, and one task per worker looks at all of them at every tick.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    task::AbortHandle,
};

/// Waits for a header that has begun, or for the first one.
const HEADER: u64 = 0;
/// Nothing is expected, or the answer is being read.
const IDLE: u64 = 1;
/// A request is in the handler, which has time limits of its own.
const BUSY: u64 = 2;

/// What one connection is doing.
pub(crate) struct Activity {
    /// The phase in the upper half, the tick since when in the lower.
    state: AtomicU64,
    clock: Arc<AtomicU32>,
}

impl Activity {
    fn set(&self, phase: u64) {
        self.state
            .store(phase << 32 | u64::from(self.clock.load(Relaxed)), Relaxed);
    }

    fn phase(&self) -> u64 {
        self.state.load(Relaxed) >> 32
    }

    /// The header is complete.
    pub(crate) fn busy(&self) {
        self.set(BUSY);
    }

    /// The answer is ready.
    pub(crate) fn idle(&self) {
        self.set(IDLE);
    }
}

/// The connections of one worker.
pub(crate) struct Connections {
    open: Mutex<HashMap<u64, (Arc<Activity>, AbortHandle)>>,
    next: AtomicU64,
    clock: Arc<AtomicU32>,
    tick: Duration,
    header_ticks: u32,
    idle_ticks: u32,
}

impl Connections {
    pub(crate) fn new(header_timeout: Duration, keep_alive: Duration) -> Self {
        // Fine enough that a time-out is at most a quarter late.
        let shortest = header_timeout.min(keep_alive);
        let tick = (shortest / 4).clamp(Duration::from_millis(5), Duration::from_secs(1));
        // One more: the first tick may come at once.
        let ticks = |timeout: Duration| {
            (timeout.as_nanos().div_ceil(tick.as_nanos()) as u32).saturating_add(1)
        };
        Self {
            open: Mutex::default(),
            next: AtomicU64::default(),
            clock: Arc::default(),
            header_ticks: ticks(header_timeout),
            idle_ticks: ticks(keep_alive),
            tick,
        }
    }

    pub(crate) fn activity(&self) -> Arc<Activity> {
        let activity = Activity {
            state: AtomicU64::default(),
            clock: Arc::clone(&self.clock),
        };
        activity.set(HEADER);
        Arc::new(activity)
    }

    /// Watches the task that serves a connection. Give the number back to [`Connections::forget`].
    pub(crate) fn watch(&self, number: u64, activity: Arc<Activity>, task: AbortHandle) {
        self.lock().insert(number, (activity, task));
    }

    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    pub(crate) fn forget(&self, number: u64) {
        self.lock().remove(&number);
    }

    /// Ends what has been silent for too long, for ever.
    pub(crate) async fn sweep(&self) {
        let mut interval = tokio::time::interval(self.tick);
        loop {
            interval.tick().await;
            let now = self.clock.fetch_add(1, Relaxed).wrapping_add(1);
            for (activity, task) in self.lock().values() {
                let state = activity.state.load(Relaxed);
                let limit = match state >> 32 {
                    HEADER => self.header_ticks,
                    IDLE => self.idle_ticks,
                    _ => continue,
                };
                if now.wrapping_sub(state as u32) > limit {
                    task.abort();
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, (Arc<Activity>, AbortHandle)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that notes when bytes arrive on an idle connection.
pub(crate) struct Watched {
    stream: TcpStream,
    activity: Arc<Activity>,
}

impl Watched {
    pub(crate) fn new(stream: TcpStream, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before && self.activity.phase() == IDLE {
            self.activity.set(HEADER);
        }
        result
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
