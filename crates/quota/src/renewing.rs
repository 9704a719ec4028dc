//! What keeps the place of a call in flight: a background task that renews its lease, and the order in which renewals
//! and the giving back reach Redis.
//!
//! A renewal takes a lost place again, so one that came after the giving back would bring a dead place to life. Awaiting
//! its answer is not enough: one whose answer was lost may still be on its way over an old connection. So each carries
//! the time, on Redis' clock, from which it does nothing; its sender waits no longer than that for an answer, and when
//! he got none he gives the place back only after that time.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::budget_renew::Answered;
use crate::quota::Scripts;
use crate::{BudgetKeys, Connection, Error};

/// The running task. Dropped, it renews no more, and the lease frees the place.
#[derive(Debug)]
pub(crate) struct Renewing {
    gate: Arc<Mutex<Gate>>,
    task: AbortHandle,
}

/// Locked while a renewal is under way.
#[derive(Debug)]
struct Gate {
    ended: bool,
    /// From then on no renewal without an answer can act.
    void_at: Instant,
}

/// What renewals need.
pub(crate) struct Renewal<C> {
    pub(crate) conn: C,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) keys: BudgetKeys,
    pub(crate) permit: Box<str>,
    pub(crate) lease_ms: u64,
    /// Renewals end after this. A call has a time limit, so one that lasts longer hangs by a mistake of ours, and must
    /// not hold a place for ever.
    pub(crate) longest: Duration,
    pub(crate) clock: Clock,
}

/// The time at Redis when an answer arrived here. Counted on from there it never runs ahead of the true one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) redis_ms: i64,
    pub(crate) arrived: Instant,
}

impl Clock {
    fn at(self, instant: Instant) -> i64 {
        let since = instant.saturating_duration_since(self.arrived).as_millis();
        self.redis_ms
            .saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
    }
}

impl Renewing {
    /// `sent` is when the place was asked for: on our clock its lease cannot end before `sent` and the lease.
    pub(crate) fn start<C: Connection>(renewal: Renewal<C>, sent: Instant) -> Self {
        let gate = Arc::new(Mutex::new(Gate {
            ended: false,
            void_at: sent,
        }));
        let task = tokio::spawn(renewal.run(gate.clone(), sent)).abort_handle();
        Self { gate, task }
    }

    /// When this returns, no renewal can act any more. At once, unless one is under way or was not answered.
    pub(crate) async fn end(&self) {
        let mut gate = self.gate.lock().await;
        gate.ended = true;
        self.task.abort();
        sleep_until(gate.void_at).await;
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<C: Connection> Renewal<C> {
    async fn run(mut self, gate: Arc<Mutex<Gate>>, sent: Instant) {
        // Three tries before the lease ends, when Redis does not answer.
        let pause = Duration::from_millis((self.lease_ms / 4).max(1));
        let end = sent + self.longest;
        let mut due = sent + pause;
        while due < end {
            sleep_until(due).await;
            let mut gate = gate.lock().await;
            if gate.ended {
                return;
            }
            let sent = Instant::now();
            let void_at = sent + pause;
            due = match timeout_at(void_at, self.renew(void_at)).await {
                Ok(Ok((answered, redis_ms))) => {
                    let arrived = Instant::now();
                    self.clock = Clock { redis_ms, arrived };
                    match answered {
                        Answered::Renewed => sent + pause,
                        Answered::Retaken => {
                            tracing::debug!(flight = %self.keys.flight, "a lost place is taken again");
                            sent + pause
                        }
                        // Redis' clock leapt, or ours stood still. The next one goes by the new time.
                        Answered::Late => soon(pause),
                    }
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, flight = %self.keys.flight, "a place was not renewed, trying again");
                    gate.void_at = void_at;
                    soon(pause)
                }
                // `void_at` is now: it can only come too late.
                Err(_silence) => soon(pause),
            };
        }
        tracing::warn!(flight = %self.keys.flight, longest = ?self.longest, "a call lasts too long: its place is not renewed");
    }

    async fn renew(&self, void_at: Instant) -> Result<(Answered, i64), Error> {
        let renew = &self.scripts.renew;
        renew
            .call(
                &mut self.conn.clone(),
                &self.keys,
                &self.permit,
                self.lease_ms,
                self.clock.at(void_at),
                None,
            )
            .await
    }
}

/// A short pause, jittered: all holders of a place lose Redis at the same moment.
fn soon(pause: Duration) -> Instant {
    Instant::now() + pause.mul_f64(rand::rng().random_range(0.1..=0.2))
}
