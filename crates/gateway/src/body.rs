//! Reading a request's body: so many bytes, in so much time, and no more than so many bytes of all requests together.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::{
    HeaderMap,
    body::{Body, Incoming},
    header,
};

use crate::{
    activity::{Activity, Order},
    refusal::Refusal,
};

/// A body above this is a large one. WeCom's callbacks have 1 to 2 KiB, few have more than 8: with the defaults there is
/// room for one of them on every connection in the part of the budget that large bodies cannot have.
const SMALL: usize = 8 * 1024;

/// Bytes of bodies in memory, over all workers. Large ones may have one half of it, so that a few senders of large bodies
/// that never end cannot hold up everybody else.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    used: Arc<Used>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Used {
    all: AtomicUsize,
    large: AtomicUsize,
}

/// A part of the budget, given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            used: Arc::default(),
            limit,
        }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.all.load(Relaxed)
    }

    fn share(&self) -> Share {
        Share {
            budget: self.clone(),
            bytes: 0,
        }
    }
}

impl Share {
    fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let Budget { used, limit } = &self.budget;
        let was_small = self.bytes <= SMALL;
        self.bytes += bytes;
        let mut fits = used.all.fetch_add(bytes, Relaxed) + bytes <= *limit;
        if self.bytes > SMALL {
            let more = if was_small { self.bytes } else { bytes };
            fits &= used.large.fetch_add(more, Relaxed) + more <= limit / 2;
        }
        if fits { Ok(()) } else { Err(Refusal::Busy) }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let used = &self.budget.used;
        used.all.fetch_sub(self.bytes, Relaxed);
        if self.bytes > SMALL {
            used.large.fetch_sub(self.bytes, Relaxed);
        }
    }
}

/// Limits on one body.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) bytes: usize,
    /// For those that are refused and read to their end; the time of the others is watched by their connection.
    pub(crate) time: Duration,
    pub(crate) budget: Budget,
}

/// The whole body. Keep the share as long as anything made of the body is kept.
pub(crate) async fn read(
    headers: &HeaderMap,
    mut body: Incoming,
    limits: &Limits,
    activity: &Activity,
) -> Result<(Bytes, Share), Refusal> {
    // An announced length is judged before anything is read, and reading never begins: "Expect: 100-continue" is
    // then answered by the refusal.
    if body.size_hint().lower() > limits.bytes as u64 {
        discard(headers, body, limits.time);
        return Err(Refusal::TooLarge);
    }
    let mut share = limits.budget.share();
    activity.body();
    let result = collect(&mut body, limits.bytes, &mut share, activity).await;
    activity.busy();
    match result {
        Ok(bytes) => Ok((bytes, share)),
        Err(refusal) => {
            if refusal != Refusal::SlowBody {
                discard(headers, body, limits.time);
            }
            Err(refusal)
        }
    }
}

async fn collect(
    body: &mut Incoming,
    limit: usize,
    share: &mut Share,
    activity: &Activity,
) -> Result<Bytes, Refusal> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    loop {
        let next = poll_fn(|cx| match activity.order(cx) {
            Order::GiveUpBody => Poll::Ready(Err(Refusal::SlowBody)),
            _ => Pin::new(&mut *body).poll_frame(cx).map(Ok),
        });
        let Some(frame) = next.await? else { break };
        // Trailers mean nothing here.
        let Ok(data) = frame.map_err(|_| Refusal::BrokenBody)?.into_data() else {
            continue;
        };
        share.grow(data.len())?;
        if first.len() + rest.len() + data.len() > limit {
            return Err(Refusal::TooLarge);
        }
        match (first.is_empty(), rest.is_empty()) {
            // Nearly every callback arrives in one piece, which is used as it is.
            (true, true) => first = data,
            (false, true) => {
                rest.reserve(first.len() + data.len());
                rest.extend_from_slice(&std::mem::take(&mut first));
                rest.extend_from_slice(&data);
            }
            _ => rest.extend_from_slice(&data),
        }
    }
    Ok(if rest.is_empty() {
        first
    } else {
        rest.freeze()
    })
}

/// Reads what a refused sender still has to say, for a while: closing at once would reset the connection, and the
/// answer could be lost on the way.
pub(crate) fn discard(headers: &HeaderMap, mut body: Incoming, time: Duration) {
    if body.is_end_stream() || headers.contains_key(header::EXPECT) {
        return;
    }
    let drain = async move { while let Some(Ok(_)) = body.frame().await {} };
    drop(tokio::spawn(tokio::time::timeout(time, drain)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_have_one_half_and_all_together_the_whole() {
        let budget = Budget::new(100_000);
        let mut large = budget.share();
        large.grow(SMALL).unwrap();
        large.grow(50_000 - SMALL).unwrap();
        let mut other = budget.share();
        other.grow(SMALL).unwrap();
        assert_eq!(other.grow(1), Err(Refusal::Busy));
        drop(other);
        let mut small: Vec<Share> = (0..5).map(|_| budget.share()).collect();
        for share in &mut small {
            share.grow(SMALL).unwrap();
        }
        assert_eq!(budget.used(), 50_000 + 5 * SMALL);
        assert_eq!(budget.share().grow(10_000), Err(Refusal::Busy));
        let mut last = budget.share();
        assert_eq!(last.grow(50_001 - 5 * SMALL), Err(Refusal::Busy));
        drop((large, small, last));
        assert_eq!(budget.used(), 0);
        budget.share().grow(50_000).unwrap();
    }
}
