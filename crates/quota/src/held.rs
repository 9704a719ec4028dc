//! A lock that is held: it renews itself, says when it is lost, and is released when it goes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::lock_renew::Answered;
use crate::locks::{Scripts, millis};
use crate::{Connection, Error, Fence, LockKeys};

/// Why a lock was lost while somebody worked under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Its lease ended, and perhaps another owner has it.
    Taken,
    /// Redis could not be reached for so long that the lease may have ended.
    Unreachable,
    /// The longest hold is over.
    Longest,
}

/// A held lock. Work under it must stop when [`lost`](Self::lost) fires, and whatever it commits must carry
/// [`fence`](Self::fence).
#[derive(Debug)]
#[must_use = "a lock that is dropped is free again"]
pub struct Held {
    fence: Fence,
    lost: CancellationToken,
    why: Arc<OnceLock<Lost>>,
    renewing: JoinHandle<()>,
    /// Ends the renewal and lets it release. Dropped by `release` and by `Drop`.
    end: CancellationToken,
}

/// What renewals need.
pub(crate) struct Renewal<C> {
    pub(crate) conn: C,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) keys: LockKeys,
    pub(crate) owner: String,
    pub(crate) lease: Duration,
}

impl Held {
    /// `sent` is when the request left us: on our clock the lease cannot end before `sent + left`.
    pub(crate) fn start<C: Connection>(
        renewal: Renewal<C>,
        fence: Fence,
        sent: Instant,
        left: Duration,
    ) -> Self {
        let lost = CancellationToken::new();
        let end = CancellationToken::new();
        let why = Arc::new(OnceLock::new());
        let renewing = tokio::spawn({
            let (lost, end, why) = (lost.clone(), end.clone(), why.clone());
            async move {
                let reason = tokio::select! {
                    biased;
                    () = end.cancelled() => None,
                    reason = renewal.run(sent, left) => Some(reason),
                };
                if let Some(reason) = reason {
                    why.get_or_init(|| reason);
                    lost.cancel();
                    renewal.tell(reason, fence);
                }
                // Names that are still ours would only wait for the lease to end.
                if let Err(error) = renewal.release().await {
                    tracing::debug!(%error, "lock not released: its lease frees it");
                }
            }
        });
        Self {
            fence,
            lost,
            why,
            renewing,
            end,
        }
    }

    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Fires when the lock is not, or may not be, ours any more; before its lease has ended.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    pub fn why_lost(&self) -> Option<Lost> {
        self.why.get().copied()
    }

    /// Frees the names and waits until that is done, or has failed and is left to the lease.
    pub async fn release(mut self) {
        self.end.cancel();
        if let Err(error) = (&mut self.renewing).await {
            tracing::debug!(%error, "the renewal of a lock ended badly");
        }
    }
}

impl Drop for Held {
    /// The renewal ends now; the release is tried in the background, else the lease ends it.
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl<C: Connection> Renewal<C> {
    /// Renews until the lock is lost.
    async fn run(&self, sent: Instant, left: Duration) -> Lost {
        let mut left = left;
        let mut safe_until = self.safe_until(sent, left);
        loop {
            if left < self.lease {
                sleep_until(safe_until).await;
                return Lost::Longest;
            }
            let pause = self.lease / 3;
            sleep_until(safe_until.min(Instant::now() + pause)).await;
            loop {
                let sent = Instant::now();
                if sent >= safe_until {
                    return Lost::Unreachable;
                }
                // A silent server must not eat the whole lease: give up early and ask again.
                match timeout_at(safe_until.min(sent + pause), self.renew()).await {
                    Ok(Ok(Answered::Renewed { left_ms })) => {
                        left = Duration::from_millis(left_ms);
                        safe_until = self.safe_until(sent, left);
                        break;
                    }
                    Ok(Ok(Answered::Lost { .. })) => return Lost::Taken,
                    Ok(Err(error)) => {
                        tracing::debug!(%error, "lock not renewed, trying again");
                        sleep_until(safe_until.min(Instant::now() + self.lease / 20)).await;
                    }
                    Err(_silence) => {}
                }
            }
        }
    }

    /// The owner stops a little before the lease ends, so that he has stopped when it has.
    fn safe_until(&self, sent: Instant, left: Duration) -> Instant {
        sent + left - left / 10
    }

    async fn renew(&self) -> Result<Answered, Error> {
        let renew = &self.scripts.renew;
        let (mut conn, lease) = (self.conn.clone(), millis(self.lease));
        renew
            .call(&mut conn, &self.keys, &self.owner, lease, None)
            .await
    }

    async fn release(&self) -> Result<usize, Error> {
        let release = &self.scripts.release;
        release
            .call(&mut self.conn.clone(), &self.keys, &self.owner)
            .await
    }

    fn tell(&self, reason: Lost, fence: Fence) {
        let locks = &self.keys.locks;
        match reason {
            Lost::Longest => {
                tracing::error!(?locks, ?fence, "lock held for too long: taken away")
            }
            Lost::Taken | Lost::Unreachable => {
                tracing::warn!(?locks, ?fence, ?reason, "lock lost")
            }
        }
    }
}
