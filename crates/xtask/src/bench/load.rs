//! The sender of callbacks. `wrk` cannot do what the rows need: every callback once, a connection for each, many
//! thousands at the same instant, or a given rate; so one sender of our own serves them all. It runs in one thread and
//! does little more than write and read, because it shares the cores with what it measures.

mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;

use super::callbacks::Requests;
use wire::Wire;

/// No load takes longer than this, or this longer than it is meant to; what hangs is an error.
const LIMIT: Duration = Duration::from_secs(120);

/// When a callback was acknowledged, and how long that took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ack {
    pub(crate) at: Instant,
    pub(crate) took: Duration,
}

/// What came of a load.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// From the first byte to the last answer.
    pub(crate) took: Duration,
    /// In the order of the requests; None: not answered with 200.
    pub(crate) acks: Vec<Option<Ack>>,
}

impl Outcome {
    pub(crate) fn acknowledged(&self) -> usize {
        self.acks.iter().flatten().count()
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.acknowledged() as f64 / self.took.as_secs_f64()
    }

    pub(crate) fn p99_ms(&self) -> f64 {
        let mut took: Vec<Duration> = self.acks.iter().flatten().map(|ack| ack.took).collect();
        percentile(&mut took, 0.99).as_secs_f64() * 1000.0
    }

    /// An error unless every callback was acknowledged.
    pub(crate) fn all(self, what: &str) -> anyhow::Result<Self> {
        let refused = self.acks.len() - self.acknowledged();
        anyhow::ensure!(
            refused == 0,
            "{what}: {refused} of {} callbacks were not answered with 200",
            self.acks.len()
        );
        Ok(self)
    }
}

/// The smallest that is not below so large a share; zero of nothing.
pub(crate) fn percentile(values: &mut [Duration], share: f64) -> Duration {
    values.sort_unstable();
    let rank = (values.len() as f64 * share).ceil() as usize;
    values
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

/// As fast as the answers come, over connections that stay open.
pub(crate) async fn kept(
    to: SocketAddr,
    requests: &Arc<Requests>,
    connections: usize,
) -> anyhow::Result<Outcome> {
    let mut wires = Vec::new();
    for _ in 0..connections {
        wires.push(Wire::open(to).await?);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let mut senders = JoinSet::new();
    for mut wire in wires {
        let (requests, next) = (Arc::clone(requests), Arc::clone(&next));
        senders.spawn(async move {
            let mut sent = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(request) = requests.get(index) else {
                    return anyhow::Ok(sent);
                };
                let began = Instant::now();
                let status = wire.ask(request).await?;
                sent.push((index, ack(status, began)));
            }
        });
    }
    collect(senders, requests.len(), start, LIMIT).await
}

/// A new connection for each callback, so many at a time. The server closes them.
pub(crate) async fn fresh(
    to: SocketAddr,
    requests: &Arc<Requests>,
    at_a_time: usize,
) -> anyhow::Result<Outcome> {
    let next = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let mut senders = JoinSet::new();
    for _ in 0..at_a_time {
        let (requests, next) = (Arc::clone(requests), Arc::clone(&next));
        senders.spawn(async move {
            let mut sent = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(request) = requests.get(index) else {
                    return anyhow::Ok(sent);
                };
                let began = Instant::now();
                let status = Wire::open(to).await?.ask(request).await?;
                sent.push((index, ack(status, began)));
            }
        });
    }
    collect(senders, requests.len(), start, LIMIT).await
}

/// All at the same instant, each over a connection that is open already.
pub(crate) async fn at_once(to: SocketAddr, requests: &Arc<Requests>) -> anyhow::Result<Outcome> {
    let mut wires = Vec::new();
    for _ in 0..requests.len() {
        wires.push(Wire::open(to).await?);
    }
    let start = Instant::now();
    let mut senders = JoinSet::new();
    for (index, mut wire) in wires.into_iter().enumerate() {
        let requests = Arc::clone(requests);
        senders.spawn(async move {
            let request = requests.get(index).unwrap_or_default();
            // A connection that breaks is a callback refused, not the end of the others.
            let status = wire.ask(request).await.unwrap_or_default();
            Ok(vec![(index, ack(status, start))])
        });
    }
    collect(senders, requests.len(), start, LIMIT).await
}

/// At a given rate, evenly spread. A callback that could not leave in time because the one before it on its
/// connection had no answer yet is measured from when it should have left.
pub(crate) async fn paced(
    to: SocketAddr,
    requests: &Arc<Requests>,
    connections: usize,
    per_second: f64,
) -> anyhow::Result<Outcome> {
    let mut wires = Vec::new();
    for _ in 0..connections.min(requests.len()) {
        wires.push(Wire::open(to).await?);
    }
    let step = wires.len();
    let start = Instant::now();
    let mut senders = JoinSet::new();
    for (first, mut wire) in wires.into_iter().enumerate() {
        let requests = Arc::clone(requests);
        senders.spawn(async move {
            let mut sent = Vec::new();
            for index in (first..requests.len()).step_by(step) {
                let request = requests.get(index).unwrap_or_default();
                let due = start + Duration::from_secs_f64(index as f64 / per_second);
                let mut began = due;
                if Instant::now() < due {
                    tokio::time::sleep_until(due.into()).await;
                    // The timer's own lateness is not the server's.
                    began = Instant::now();
                }
                let status = wire.ask(request).await?;
                sent.push((index, ack(status, began)));
            }
            anyhow::Ok(sent)
        });
    }
    let meant = Duration::from_secs_f64(requests.len() as f64 / per_second);
    collect(senders, requests.len(), start, meant + LIMIT).await
}

fn ack(status: u16, began: Instant) -> Option<Ack> {
    let at = Instant::now();
    (status == 200).then(|| Ack {
        at,
        took: at - began,
    })
}

type Sent = anyhow::Result<Vec<(usize, Option<Ack>)>>;

async fn collect(
    mut senders: JoinSet<Sent>,
    count: usize,
    start: Instant,
    limit: Duration,
) -> anyhow::Result<Outcome> {
    let mut acks = vec![None; count];
    let all = async {
        while let Some(sent) = senders.join_next().await {
            for (index, ack) in sent?? {
                if let Some(place) = acks.get_mut(index) {
                    *place = ack;
                }
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(limit, all)
        .await
        .with_context(|| format!("no answer to all callbacks within {limit:?}"))??;
    let end = acks.iter().flatten().map(|ack: &Ack| ack.at).max();
    Ok(Outcome {
        took: end.map_or_else(|| start.elapsed(), |end| end - start),
        acks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_percentile_is_a_value_that_was_seen() {
        let ms = Duration::from_millis;
        let mut values: Vec<Duration> = (1..=200).map(ms).collect();
        assert_eq!(percentile(&mut values, 0.99), ms(198));
        assert_eq!(percentile(&mut [ms(7)], 0.99), ms(7));
        assert_eq!(percentile(&mut [], 0.99), Duration::ZERO);
    }
}
