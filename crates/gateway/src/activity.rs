//! What each connection is doing, and the end of those that take too long over it: a sender that never finishes its
//! header (slowloris) or its body, a client that keeps a connection without using it, one that never reads its answers.
//!
//! Timers of their own would cost every request a few. Instead a connection notes what it does since which tick of a
//! slow clock, and one task per worker looks at all of them at every tick.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::task::AtomicWaker;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Waits for a header that has begun, or for the first one.
const HEADER: u64 = 0;
/// The header is complete, the body is not.
const BODY: u64 = 1;
/// Nothing is expected, or the answer is being read.
const IDLE: u64 = 2;
/// A request is being stored, which has a time limit of its own.
const BUSY: u64 = 3;

/// What a connection is told. Larger is more urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    GoOn,
    /// Finish the request that has begun, then close.
    Finish,
    /// The body does not come: answer without it.
    GiveUpBody,
    Close,
}

/// What one connection is doing.
pub(crate) struct Activity {
    /// The phase in the upper half, the tick since when in the lower.
    state: AtomicU64,
    order: AtomicU8,
    task: AtomicWaker,
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
    pub(crate) fn body(&self) {
        self.set(BODY);
    }

    /// The body is complete.
    pub(crate) fn busy(&self) {
        self.set(BUSY);
    }

    /// The answer is ready.
    pub(crate) fn idle(&self) {
        self.set(IDLE);
    }

    /// What to do now. The task that asks is woken when that changes.
    pub(crate) fn order(&self, cx: &Context<'_>) -> Order {
        self.task.register(cx.waker());
        match self.order.load(Relaxed) {
            0 => Order::GoOn,
            1 => Order::Finish,
            2 => Order::GiveUpBody,
            _ => Order::Close,
        }
    }

    fn tell(&self, order: Order) {
        self.order.fetch_max(order as u8, Relaxed);
        self.task.wake();
    }
}

/// The connections of one worker.
pub(crate) struct Connections {
    open: Mutex<HashMap<u64, Arc<Activity>>>,
    next: AtomicU64,
    clock: Arc<AtomicU32>,
    tick: Duration,
    header_ticks: u32,
    body_ticks: u32,
    idle_ticks: u32,
}

/// A connection that is open, until it is dropped.
pub(crate) struct Watch {
    connections: Arc<Connections>,
    number: u64,
    pub(crate) activity: Arc<Activity>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.number);
    }
}

impl Connections {
    pub(crate) fn new(header: Duration, body: Duration, keep_alive: Duration) -> Self {
        // Fine enough that nothing ends more than a quarter late.
        let tick = (header.min(body).min(keep_alive) / 4)
            .clamp(Duration::from_millis(5), Duration::from_secs(1));
        // One more: the first tick may come at once.
        let ticks =
            |time: Duration| (time.as_nanos().div_ceil(tick.as_nanos()) as u32).saturating_add(1);
        Self {
            open: Mutex::default(),
            next: AtomicU64::default(),
            clock: Arc::default(),
            header_ticks: ticks(header),
            body_ticks: ticks(body),
            idle_ticks: ticks(keep_alive),
            tick,
        }
    }

    pub(crate) fn watch(self: &Arc<Self>) -> Watch {
        let activity = Arc::new(Activity {
            state: AtomicU64::default(),
            order: AtomicU8::default(),
            task: AtomicWaker::new(),
            clock: Arc::clone(&self.clock),
        });
        activity.set(HEADER);
        let number = self.next.fetch_add(1, Relaxed);
        self.lock().insert(number, Arc::clone(&activity));
        Watch {
            connections: Arc::clone(self),
            number,
            activity,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Tells every connection to finish.
    pub(crate) fn finish(&self) {
        self.lock()
            .values()
            .for_each(|activity| activity.tell(Order::Finish));
    }

    /// Ends what takes too long, for ever.
    pub(crate) async fn sweep(&self) {
        let mut interval = tokio::time::interval(self.tick);
        loop {
            interval.tick().await;
            let now = self.clock.fetch_add(1, Relaxed).wrapping_add(1);
            for activity in self.lock().values() {
                let state = activity.state.load(Relaxed);
                let (limit, order) = match state >> 32 {
                    HEADER => (self.header_ticks, Order::Close),
                    BODY => (self.body_ticks, Order::GiveUpBody),
                    IDLE => (self.idle_ticks, Order::Close),
                    _ => continue,
                };
                if now.wrapping_sub(state as u32) > limit {
                    activity.tell(order);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Activity>>> {
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
