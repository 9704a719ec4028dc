//! The way of one corp's callbacks into its inbox, one lane per corp and worker: a slow or flooded corp holds up no
//! other.
//!
//! What is queued is written at once as one append; many appends are under way at the same time and answers are
//! matched by their order. While one append is being written the next callbacks gather, so batches grow with the load
//! and nobody waits for one to fill.
//!
//! Every callback gets its answer by its deadline: stored, or not stored. A callback whose sender has gone is stored
//! like any other as long as there is time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use inbox::{Appended, NewDelivery};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::{Instant, timeout_at},
};

use wecom::event::Event;

use crate::{config, health::Health, metrics::Metrics, refusal::Refusal, store::CorpInbox};

/// What the allocator reads again. Other marks that a duplicate could leave (of tags, 微信客服, archived chats) would stay
/// for ever: nobody reads them yet.
const READ_AGAIN: [&str; 3] = ["pair", "member", "chat"];

/// Callbacks of one corp that wait for their append, in all workers of the process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting(Arc<AtomicUsize>);

/// One of them, until it is dropped.
#[derive(Debug)]
struct Place(Waiting);

impl Waiting {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Relaxed)
    }

    fn enter(&self, limit: usize) -> Result<Place, Refusal> {
        let place = Place(self.clone());
        match self.0.fetch_add(1, Relaxed) {
            before if before < limit => Ok(place),
            _ => Err(Refusal::Busy),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

/// Where a handler puts a verified callback.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    /// None: nothing is kept.
    queue: Option<mpsc::UnboundedSender<(NewDelivery, Waiter)>>,
    waiting: Waiting,
    limit: usize,
}

/// Who waits for an append.
struct Waiter {
    deadline: Instant,
    answer: oneshot::Sender<Appended>,
    _place: Place,
}

impl Lane {
    /// Begins a lane on the current runtime. It ends when every copy is dropped and its queue is empty.
    pub(crate) fn begin(
        writer: Writer,
        waiting: Waiting,
        limit: usize,
    ) -> (Self, impl Future<Output = ()>) {
        let (queue, queued) = mpsc::unbounded_channel();
        (
            Self {
                queue: Some(queue),
                waiting,
                limit,
            },
            run(Arc::new(writer), queued),
        )
    }

    /// A lane that forgets everything, for measurements.
    pub(crate) fn to_nowhere() -> Self {
        Self {
            queue: None,
            waiting: Waiting::default(),
            limit: 0,
        }
    }

    /// Waits until the delivery is stored, at most until `deadline`.
    pub(crate) async fn store(
        &self,
        delivery: NewDelivery,
        deadline: Instant,
    ) -> Result<Appended, Refusal> {
        let Some(queue) = &self.queue else {
            return Ok(Appended::New);
        };
        let place = self.waiting.enter(self.limit)?;
        let (answer, answered) = oneshot::channel();
        let waiter = Waiter {
            deadline,
            answer,
            _place: place,
        };
        queue
            .send((delivery, waiter))
            .map_err(|_| Refusal::NotStored)?;
        answered.await.map_err(|_| Refusal::NotStored)
    }
}

/// What a lane writes with.
pub(crate) struct Writer {
    pub(crate) corp: Arc<str>,
    pub(crate) inbox: CorpInbox,
    pub(crate) config: config::Store,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
}

async fn run(writer: Arc<Writer>, mut queued: mpsc::UnboundedReceiver<(NewDelivery, Waiter)>) {
    let batches = Arc::new(Semaphore::new(writer.config.max_batches));
    let mut taken = Vec::new();
    // A batch that hangs frees its place at the deadline of its members, which are older than anything in the queue:
    // so nothing in the queue is answered late.
    while let Ok(permit) = Arc::clone(&batches).acquire_owned().await {
        if queued.recv_many(&mut taken, writer.config.max_batch).await == 0 {
            break;
        }
        let (deliveries, waiters) = taken.drain(..).unzip();
        let writer = Arc::clone(&writer);
        drop(tokio::spawn(async move {
            writer.write(deliveries, waiters).await;
            drop(permit);
        }));
    }
    // All permits back: what is on its way has its answer.
    drop(
        batches
            .acquire_many(u32::try_from(writer.config.max_batches).unwrap_or(u32::MAX))
            .await,
    );
}

impl Writer {
    /// Tries until it is stored or nobody has time left. Trying again is safe: the inbox knows what it has.
    async fn write(&self, mut deliveries: Vec<NewDelivery>, mut waiters: Vec<Waiter>) {
        let started = Instant::now();
        let mut pause = Duration::from_millis(self.config.retry_min_ms);
        while let Some(deadline) = self.next_deadline(&mut deliveries, &mut waiters) {
            match timeout_at(deadline, self.inbox.append(&deliveries)).await {
                Ok(Ok(appended)) => {
                    self.metrics.append.record(started.elapsed().as_secs_f64());
                    self.metrics.append_size.record(waiters.len() as f64);
                    self.health.append_worked(&self.corp);
                    (deliveries, waiters) = answer(deliveries, waiters, appended);
                }
                Ok(Err(error)) => {
                    self.metrics.append_failures.increment(1);
                    self.health.append_failed(&self.corp, &error.to_string());
                    let jittered = pause.mul_f64(rand::random_range(0.5..1.0));
                    tokio::time::sleep_until(deadline.min(Instant::now() + jittered)).await;
                    pause = (pause * 2).min(Duration::from_millis(self.config.retry_max_ms));
                }
                Err(_) => {
                    self.metrics.append_failures.increment(1);
                    self.health.append_failed(&self.corp, "no answer in time");
                }
            }
        }
    }

    /// Lets those go whose time is over, and finds the next deadline of the rest.
    fn next_deadline(
        &self,
        deliveries: &mut Vec<NewDelivery>,
        waiters: &mut Vec<Waiter>,
    ) -> Option<Instant> {
        let now = Instant::now();
        if waiters.iter().any(|waiter| waiter.deadline <= now) {
            let kept = std::mem::take(deliveries)
                .into_iter()
                .zip(std::mem::take(waiters));
            (*deliveries, *waiters) = kept.filter(|(_, waiter)| waiter.deadline > now).unzip();
        }
        waiters.iter().map(|waiter| waiter.deadline).min()
    }
}

/// Answers everybody but the duplicates of events that may happen twice with one text: those are appended once more,
/// now with what a second occurrence may have changed, which the inbox marks in the same call. So an event is read
/// only if it is a duplicate, and acknowledged only after the mark.
fn answer(
    deliveries: Vec<NewDelivery>,
    waiters: Vec<Waiter>,
    appended: Vec<Appended>,
) -> (Vec<NewDelivery>, Vec<Waiter>) {
    let mut again = (Vec::new(), Vec::new());
    for ((delivery, waiter), appended) in deliveries.into_iter().zip(waiters).zip(appended) {
        if appended == Appended::Duplicate && delivery.dirty.is_none() {
            let event = Event::parse(&delivery.plaintext).ok();
            let read_again = event
                .and_then(|event| event.repeatable())
                .filter(|(kind, _)| READ_AGAIN.contains(kind));
            if let Some((kind, entity)) = read_again {
                again.0.push(delivery.with_dirty(kind, entity));
                again.1.push(waiter);
                continue;
            }
        }
        // The sender may have gone; the callback is stored all the same.
        waiter.answer.send(appended).ok();
    }
    again
}
