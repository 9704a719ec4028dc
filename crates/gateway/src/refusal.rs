//! Why a callback was refused: the status the sender sees, and the check the log names. The body is always empty, and
//! 403 never says which of its checks failed.

use std::{
    net::SocketAddr,
    sync::Mutex,
    time::{Duration, Instant},
};

use hyper::StatusCode;
use wecom::{
    crypto::OpenError,
    envelope::{EnvelopeError, QueryError},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    UnknownEndpoint,
    /// Configured, but switched off because its table is malformed. WeCom should come again.
    EndpointOff,
    Method,
    Parameters,
    Envelope,
    TooLarge,
    SlowBody,
    BrokenBody,
    Signature,
    Frame,
    ReceiveId,
    /// More callbacks or bytes at once than configured.
    Busy,
    /// The store did not take it in time.
    NotStored,
    /// The readers of the inbox are behind by as much as is allowed.
    InboxFull,
}

impl Refusal {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::UnknownEndpoint => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Parameters | Self::Envelope | Self::BrokenBody => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Self::Signature | Self::Frame | Self::ReceiveId => StatusCode::FORBIDDEN,
            Self::EndpointOff | Self::Busy | Self::NotStored | Self::InboxFull => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    /// Whether an authentic callback was refused because we could not keep it: its sender keeps his connection, or an
    /// outage of the store would be a flood of new ones as well. All others are anybody.
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Self::NotStored | Self::InboxFull)
    }

    /// The failing check, for the log and the counter.
    pub(crate) fn check(self) -> &'static str {
        match self {
            Self::UnknownEndpoint => "endpoint",
            Self::EndpointOff => "endpoint off",
            Self::Method => "method",
            Self::Parameters => "parameters",
            Self::Envelope => "envelope",
            Self::TooLarge => "size",
            Self::SlowBody => "slow body",
            Self::BrokenBody => "broken body",
            Self::Signature => "signature",
            Self::Frame => "frame",
            Self::ReceiveId => "receive id",
            Self::Busy => "busy",
            Self::NotStored => "store",
            Self::InboxFull => "inbox full",
        }
    }
}

impl From<QueryError> for Refusal {
    fn from(_: QueryError) -> Self {
        Self::Parameters
    }
}

impl From<EnvelopeError> for Refusal {
    fn from(_: EnvelopeError) -> Self {
        Self::Envelope
    }
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Signature => Self::Signature,
            OpenError::ReceiveId => Self::ReceiveId,
            OpenError::Base64 | OpenError::Length | OpenError::Frame | OpenError::Utf8 => {
                Self::Frame
            }
        }
    }
}

/// One line for each refusal, until they become a flood: then so many a second, each saying how many were left out.
#[derive(Debug)]
pub(crate) struct RefusalLog {
    burst: f64,
    per_second: f64,
    state: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
    left_out: u64,
}

impl RefusalLog {
    pub(crate) fn new(burst: u32, per_second: u32, now: Instant) -> Self {
        let burst = f64::from(burst);
        let state = Mutex::new(Bucket {
            tokens: burst,
            filled: now,
            left_out: 0,
        });
        Self {
            burst,
            per_second: f64::from(per_second),
            state,
        }
    }

    pub(crate) fn log(&self, refusal: Refusal, endpoint: &str, peer: SocketAddr) {
        let Some(left_out) = self.admit(Instant::now()) else {
            return;
        };
        let (check, status) = (refusal.check(), refusal.status().as_u16());
        match refusal {
            // Anybody can ask for any URL; these three say nothing about WeCom or us.
            Refusal::UnknownEndpoint => {
                tracing::info!(check, status, %peer, left_out, "callback refused")
            }
            Refusal::Method | Refusal::BrokenBody => {
                tracing::info!(endpoint, check, status, %peer, left_out, "callback refused");
            }
            _ => tracing::warn!(endpoint, check, status, %peer, left_out, "callback refused"),
        }
    }

    /// How many lines were left out since the last one, or `None` when this one is left out too.
    fn admit(&self, now: Instant) -> Option<u64> {
        let mut bucket = self
            .state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let passed: Duration = now.saturating_duration_since(bucket.filled);
        bucket.tokens = (bucket.tokens + passed.as_secs_f64() * self.per_second).min(self.burst);
        bucket.filled = now;
        if bucket.tokens < 1.0 {
            bucket.left_out += 1;
            return None;
        }
        bucket.tokens -= 1.0;
        Some(std::mem::take(&mut bucket.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Refusal; 14] = [
        Refusal::UnknownEndpoint,
        Refusal::EndpointOff,
        Refusal::Method,
        Refusal::Parameters,
        Refusal::Envelope,
        Refusal::TooLarge,
        Refusal::SlowBody,
        Refusal::BrokenBody,
        Refusal::Signature,
        Refusal::Frame,
        Refusal::ReceiveId,
        Refusal::Busy,
        Refusal::NotStored,
        Refusal::InboxFull,
    ];

    #[test]
    fn a_flood_is_logged_in_part_and_counted_in_full() {
        let start = Instant::now();
        let log = RefusalLog::new(3, 2, start);
        let admitted = (0..10).filter(|_| log.admit(start).is_some()).count();
        assert_eq!(admitted, 3);
        assert_eq!(log.admit(start + Duration::from_millis(500)), Some(7));
        assert_eq!(log.admit(start + Duration::from_millis(500)), None);
        assert_eq!(log.admit(start + Duration::from_secs(60)), Some(1));
    }

    #[test]
    fn every_refusal_has_its_own_check_and_no_success_status() {
        let mut checks: Vec<_> = ALL.iter().map(|refusal| refusal.check()).collect();
        checks.sort_unstable();
        checks.dedup();
        assert_eq!(checks.len(), ALL.len());
        assert!(
            ALL.iter()
                .all(|refusal| refusal.status().is_client_error() || refusal.status() == 503)
        );
    }
}
