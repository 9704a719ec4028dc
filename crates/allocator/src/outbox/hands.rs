//! What the tasks of one lane share: how many of them work, until when the budget lets nothing go, and word of the
//! places that our own calls gave back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ledger::OutboxRow;
use quota::Permit;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{
    lane::Lane,
    verdict::{self, Error},
};
use crate::{
    app::{App, CorpApp, Redis},
    backoff::{jittered, sleep},
    permit,
};

/// A wait no longer than this is for a call that ends any moment: who has rows keeps them and asks again.
const SHORT_MS: u64 = 500;
/// The longest a lane rests before it asks again: a block may have been lifted meanwhile.
const REST_MS: u64 = 5_000;

pub(super) struct Hands {
    pub(super) app: Arc<App>,
    pub(super) corp: Arc<CorpApp>,
    pub(super) lane: Lane,
    stop: CancellationToken,
    free: Arc<Semaphore>,
    /// Until when nothing is claimed. 0: the budget gave a permit since.
    rest_until_ms: AtomicU64,
    place_free: Notify,
}

impl Hands {
    pub(super) fn new(
        app: &Arc<App>,
        corp: &Arc<CorpApp>,
        stop: &CancellationToken,
        lane: Lane,
    ) -> Self {
        Self {
            app: Arc::clone(app),
            corp: Arc::clone(corp),
            lane,
            stop: stop.clone(),
            free: Arc::new(Semaphore::new(app.config.outbox.workers)),
            rest_until_ms: AtomicU64::new(0),
            place_free: Notify::new(),
        }
    }

    /// Waits until the lane has rested.
    pub(super) async fn rested(&self) {
        let poll_ms = self.app.config.outbox.poll_ms.max(1);
        loop {
            let until_ms = self.rest_until_ms.load(Ordering::Relaxed);
            let left_ms = until_ms.saturating_sub(self.app.now_ms());
            let pause = Duration::from_millis(left_ms.min(poll_ms));
            if left_ms == 0 || !sleep(pause, &self.stop).await {
                return;
            }
        }
    }

    /// How many rows to claim. After a rest only one, to ask the budget with. Welcomes are claimed when some can be sent
    /// at once (a quarter of the workers is free, so that several share a statement), and no more than those: a process
    /// that dies takes them with it.
    pub(super) async fn room(&self) -> u32 {
        let rules = &self.app.config.outbox;
        let room = if self.lane == Lane::Welcome {
            let some = u32::try_from(rules.workers.div_ceil(4)).unwrap_or(u32::MAX);
            drop(self.free.acquire_many(some).await);
            u32::try_from(self.free.available_permits()).unwrap_or(u32::MAX)
        } else {
            rules.batch
        };
        if self.rest_until_ms.load(Ordering::Relaxed) > 0 {
            1
        } else {
            room.max(1)
        }
    }

    /// One of the workers, as soon as one is free; none when what was claimed is to be given back instead.
    pub(super) async fn worker(&self, until_ms: u64) -> Option<OwnedSemaphorePermit> {
        let worker = tokio::select! {
            worker = Arc::clone(&self.free).acquire_owned() => worker.ok()?,
            () = self.stop.cancelled() => return None,
        };
        let now_ms = self.app.now_ms();
        let rests = self.rest_until_ms.load(Ordering::Relaxed) > now_ms;
        (!rests && now_ms < until_ms).then_some(worker)
    }

    /// One of the workers that `room` counted.
    pub(super) fn counted_worker(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    /// A permit as soon as there is one. None when none comes before `until_ms`, when the budget says to wait for long
    /// (then the lane rests), and when the program stops. Hold no lock meanwhile.
    pub(super) async fn permit(&self, until_ms: u64) -> Option<Permit<Redis>> {
        loop {
            let due_ms = match self.ask().await {
                Ok(permit) => return Some(permit),
                Err(due_ms) => due_ms,
            };
            let now_ms = self.app.now_ms();
            let pause_ms = due_ms.saturating_sub(now_ms);
            if pause_ms > SHORT_MS {
                let rest_ms = pause_ms.min(jittered(REST_MS));
                self.rest_until_ms
                    .fetch_max(now_ms + rest_ms, Ordering::Relaxed);
                return None;
            }
            if due_ms >= until_ms {
                return None;
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(pause_ms)) => {}
                () = self.place_free.notified() => {}
                () = self.stop.cancelled() => return None,
            }
        }
    }

    /// As many permits as there are, at most `wanted`; waits for the first only.
    pub(super) async fn permits(&self, wanted: usize, until_ms: u64) -> Vec<Permit<Redis>> {
        let mut permits: Vec<_> = self.permit(until_ms).await.into_iter().collect();
        while !permits.is_empty() && permits.len() < wanted {
            match self.ask().await {
                Ok(permit) => permits.push(permit),
                Err(_) => break,
            }
        }
        permits
    }

    async fn ask(&self) -> Result<Permit<Redis>, u64> {
        let (api, urgency) = (self.lane.api(), self.lane.urgency());
        let permit = permit::take(&self.app, &self.corp, api, urgency).await?;
        self.rest_until_ms.store(0, Ordering::Relaxed);
        Ok(permit)
    }

    /// Gives a permit back with what the answer says about limits.
    pub(super) async fn done<T>(&self, permit: &Permit<Redis>, answer: &Result<T, wecom::Error>) {
        permit::done(&self.app, &self.corp, self.lane.api(), permit, answer).await;
        self.place_free.notify_one();
    }

    pub(super) async fn unused(&self, permit: &Permit<Redis>) {
        permit::unused(&self.app, &self.corp, self.lane.api(), permit).await;
        self.place_free.notify_one();
    }

    pub(super) async fn put_back(&self, rows: &[OutboxRow]) -> Result<(), Error> {
        verdict::put_back(&self.app, &self.corp, self.lane.kind(), rows).await
    }
}
