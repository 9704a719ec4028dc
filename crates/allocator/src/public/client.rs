//! Who is at the other end of the line, and how often he may ask. An address is no person: an office, or a carrier,
//! is one. So the limits are wide, and keep only a single machine from taking everybody's places.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

use axum::http::HeaderMap;
use governor::{
    RateLimiter,
    clock::{self, Clock as _},
    middleware::NoOpMiddleware,
    nanos::Nanos,
    state::{InMemoryState, NotKeyed},
};
use moka::future::Cache;

use crate::{clock::Clock, config::Network};

/// Clients that are remembered, about 100 bytes each; beyond it those who came least are forgotten.
const CLIENTS: u64 = 100_000;
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The client's address: the peer's, or, when that is a proxy of ours, the last one in `X-Forwarded-For` that is none.
/// What stands before that could have been written by anybody.
pub(super) fn address(peer: SocketAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let is_ours = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut client = peer.ip().to_canonical();
    let lines: Vec<&str> = headers
        .get_all(FORWARDED_FOR)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .collect();
    let mut hops = lines.iter().rev().flat_map(|line| line.rsplit(','));
    while is_ours(client) {
        match hops.next().map(|hop| hop.trim().parse::<IpAddr>()) {
            Some(Ok(hop)) => client = hop.to_canonical(),
            _ => break,
        }
    }
    client
}

/// Whoever has one IPv6 address has all of its /64.
fn bucket(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => {
            let net = u128::from(six) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(net))
        }
    }
}

/// A token bucket for each client.
pub(super) struct Limits {
    clients: Cache<IpAddr, Arc<Bucket>>,
    quota: governor::Quota,
    ticks: Ticks,
}

type Bucket = RateLimiter<NotKeyed, InMemoryState, Ticks, NoOpMiddleware<Nanos>>;

impl std::fmt::Debug for Limits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limits")
            .field("quota", &self.quota)
            .finish_non_exhaustive()
    }
}

impl Limits {
    pub(super) fn new(per_minute: u32, burst: u32, clock: Clock) -> Self {
        let one = NonZeroU32::MIN;
        let quota = governor::Quota::per_minute(NonZeroU32::new(per_minute).unwrap_or(one))
            .allow_burst(NonZeroU32::new(burst).unwrap_or(one));
        // A bucket that nobody touched for so long is full again.
        let full = quota.burst_size_replenished_in();
        let clients = Cache::builder()
            .max_capacity(CLIENTS)
            .time_to_idle(full.max(Duration::from_secs(1)))
            .build();
        Self {
            clients,
            quota,
            ticks: Ticks(clock),
        }
    }

    /// Takes one; else how many seconds until there is one again.
    pub(super) async fn take(&self, address: IpAddr) -> Result<(), u64> {
        let new = async { Arc::new(Bucket::direct_with_clock(self.quota, self.ticks.clone())) };
        let bucket = self.clients.get_with(bucket(address), new).await;
        bucket.check().map_err(|until| {
            let wait = until.wait_time_from(self.ticks.now());
            wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
        })
    }
}

/// The program's clock, as `governor` reads it.
#[derive(Clone)]
struct Ticks(Clock);

impl clock::Clock for Ticks {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Duration::from_millis(self.0.now_ms()).into()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        sync::atomic::{AtomicU64, Ordering::Relaxed},
    };

    use super::*;

    struct Hand(AtomicU64);

    impl wecom::client::Clock for Hand {
        fn now_ms(&self) -> u64 {
            self.0.load(Relaxed)
        }

        fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            Box::pin(std::future::ready(()))
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn only_proxies_of_ours_are_believed() {
        let trusted = ["127.0.0.1", "10.0.0.0/8", "::1"].map(|text| text.parse().unwrap());
        for (peer, forwarded, expected) in [
            ("203.0.113.5:1", "198.51.100.7", "203.0.113.5"),
            ("127.0.0.1:1", "", "127.0.0.1"),
            ("127.0.0.1:1", "198.51.100.7", "198.51.100.7"),
            // The visitor wrote the first one himself.
            ("10.1.1.1:1", "1.2.3.4, 198.51.100.7", "198.51.100.7"),
            ("127.0.0.1:1", "198.51.100.7, 10.9.9.9", "198.51.100.7"),
            ("127.0.0.1:1", "10.9.9.9", "10.9.9.9"),
            ("127.0.0.1:1", "198.51.100.7, nonsense", "127.0.0.1"),
            ("[::1]:1", "2001:db8::1", "2001:db8::1"),
            (
                "[::ffff:127.0.0.1]:1",
                "::ffff:198.51.100.7",
                "198.51.100.7",
            ),
        ] {
            let mut headers = HeaderMap::new();
            if !forwarded.is_empty() {
                headers.insert(FORWARDED_FOR, forwarded.parse().unwrap());
            }
            let found = address(peer.parse().unwrap(), &headers, &trusted);
            assert_eq!(found, ip(expected), "{peer} {forwarded}");
        }
        let mut headers = HeaderMap::new();
        headers.append(FORWARDED_FOR, "1.2.3.4".parse().unwrap());
        headers.append(FORWARDED_FOR, "198.51.100.7".parse().unwrap());
        let found = address("127.0.0.1:1".parse().unwrap(), &headers, &trusted);
        assert_eq!(found, ip("198.51.100.7"));
    }

    #[tokio::test]
    async fn a_client_has_its_bucket_and_it_fills_again() {
        let hand = Arc::new(Hand(AtomicU64::new(1_800_000_000_000)));
        let limits = Limits::new(60, 3, Arc::clone(&hand) as Clock);
        let (one, other) = (ip("198.51.100.7"), ip("198.51.100.8"));
        for _ in 0..3 {
            assert_eq!(limits.take(one).await, Ok(()));
        }
        assert_eq!(limits.take(one).await, Err(1));
        assert_eq!(limits.take(other).await, Ok(()));
        hand.0.fetch_add(1_000, Relaxed);
        assert_eq!(limits.take(one).await, Ok(()));
        assert_eq!(limits.take(one).await, Err(1));
        hand.0.fetch_add(10_000, Relaxed);
        for _ in 0..3 {
            assert_eq!(limits.take(one).await, Ok(()));
        }
        assert_eq!(limits.take(one).await, Err(1));
    }

    #[tokio::test]
    async fn all_of_a_64_is_one_client() {
        let clock = crate::clock::system();
        let limits = Limits::new(1, 1, clock);
        assert_eq!(limits.take(ip("2001:db8::1")).await, Ok(()));
        assert!(limits.take(ip("2001:db8::2")).await.is_err());
        assert_eq!(limits.take(ip("2001:db8:0:1::1")).await, Ok(()));
    }

    #[tokio::test]
    async fn no_more_clients_are_remembered_than_fit() {
        let limits = Limits::new(1, 1, crate::clock::system());
        assert_eq!(limits.clients.policy().max_capacity(), Some(CLIENTS));
        assert_eq!(
            limits.clients.policy().time_to_idle(),
            Some(Duration::from_secs(60))
        );
    }
}
