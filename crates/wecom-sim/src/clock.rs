//! Simulated time and what is to happen later.
//!
//! Rules read the clock once per call. In virtual mode it moves only when told, and what falls due on
//! the way happens at its own instant, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::config::{ClockConfig, ClockMode};
use crate::sync::Lock;
use crate::world::World;

/// First instant of a virtual clock unless configured.
const START_MS: i64 = 1_792_000_000_000;

#[derive(Debug)]
pub(crate) struct Clock {
    mode: ClockMode,
    speed: f64,
    /// Virtual: now. Real: what to add to the time that ran since `started`.
    base_ms: AtomicI64,
    started: Instant,
}

impl Clock {
    pub(crate) fn new(config: &ClockConfig) -> Self {
        let start_ms = config.start_ms.unwrap_or_else(|| match config.mode {
            ClockMode::Virtual => START_MS,
            ClockMode::Real => wall_clock_ms(),
        });
        Self {
            mode: config.mode,
            speed: config.speed,
            base_ms: AtomicI64::new(start_ms),
            started: Instant::now(),
        }
    }

    pub(crate) fn mode(&self) -> ClockMode {
        self.mode
    }

    pub(crate) fn now_ms(&self) -> i64 {
        let base = self.base_ms.load(Ordering::Acquire);
        match self.mode {
            ClockMode::Virtual => base,
            ClockMode::Real => base
                .saturating_add((self.started.elapsed().as_secs_f64() * 1e3 * self.speed) as i64),
        }
    }

    /// Moves forward to `to_ms`; never back.
    fn forward_to(&self, to_ms: i64) {
        let missing = to_ms.saturating_sub(self.now_ms());
        if missing > 0 {
            self.base_ms.fetch_add(missing, Ordering::AcqRel);
        }
    }

    /// Real time until a simulated instant.
    fn real_until(&self, due_ms: i64) -> Duration {
        let ms = due_ms.saturating_sub(self.now_ms()).max(0) as f64 / self.speed;
        // Not before it is due: better a millisecond late.
        Duration::from_secs_f64((ms + 1.0) / 1e3)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the edge: a real-time simulator starts at the real time"
)]
fn wall_clock_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(START_MS, |since| {
        i64::try_from(since.as_millis()).unwrap_or(START_MS)
    })
}

/// Something that happens at its time.
pub(crate) type Action = Box<dyn FnOnce(&Arc<World>) + Send>;

struct Entry {
    due_ms: i64,
    /// Equal times happen in the order they were scheduled.
    number: u64,
    action: Action,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due_ms, self.number).cmp(&(other.due_ms, other.number))
    }
}

/// What is to happen later.
#[derive(Default)]
pub(crate) struct Schedule {
    entries: Lock<BinaryHeap<Reverse<Entry>>>,
    numbers: AtomicU64,
    earlier: Notify,
    /// Held while a virtual clock moves, so that two advances do not overlap.
    moving: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schedule")
            .field("entries", &self.len())
            .finish()
    }
}

impl Schedule {
    pub(crate) fn at(&self, due_ms: i64, action: Action) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut entries = self.entries.lock();
        let first = entries
            .peek()
            .is_none_or(|Reverse(entry)| due_ms < entry.due_ms);
        entries.push(Reverse(Entry {
            due_ms,
            number,
            action,
        }));
        drop(entries);
        if first {
            self.earlier.notify_one();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.lock().len()
    }

    fn next_due(&self) -> Option<i64> {
        self.entries
            .lock()
            .peek()
            .map(|Reverse(entry)| entry.due_ms)
    }

    fn pop(&self, until_ms: i64) -> Option<Entry> {
        let mut entries = self.entries.lock();
        if entries.peek()?.0.due_ms > until_ms {
            return None;
        }
        entries.pop().map(|Reverse(entry)| entry)
    }
}

/// Moves the clock to `to_ms`, doing what falls due on the way.
pub(crate) async fn advance_to(world: &Arc<World>, to_ms: i64) {
    let _moving = world.schedule.moving.lock().await;
    while let Some(entry) = world.schedule.pop(to_ms) {
        world.clock.forward_to(entry.due_ms);
        (entry.action)(world);
    }
    world.clock.forward_to(to_ms);
}

/// Does what falls due as real time passes; for real mode.
pub(crate) async fn run(world: Arc<World>) {
    loop {
        let wait = match world.schedule.next_due() {
            Some(due_ms) => world.clock.real_until(due_ms),
            None => Duration::from_secs(3_600),
        };
        tokio::select! {
            () = world.schedule.earlier.notified() => {}
            () = tokio::time::sleep(wait) => {}
            () = world.stop.cancelled() => return,
        }
        while let Some(entry) = world.schedule.pop(world.clock.now_ms()) {
            (entry.action)(&world);
        }
    }
}
