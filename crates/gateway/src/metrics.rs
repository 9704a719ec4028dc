//! The figures behind `/metrics`. Each running gateway has a recorder of its own, so that two in one process (tests)
//! do not count into each other. What every callback touches is a handle kept in its endpoint or lane; only refusals
//! look their counter up.

use metrics::{Counter, Gauge, Label, counter, gauge, with_local_recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::{config::EndpointConfig, histogram::Histogram, refusal::Refusal};

/// Seconds. An acknowledgement is a round trip to Redis, an fsync when it is slow, 4 s when it fails.
const SECONDS: [f64; 15] = [
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 4.0,
];
const SIZES: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

pub(crate) struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    /// From the end of the request's header to the answer 200 of a POST.
    pub(crate) acknowledged: Histogram,
    /// One append: from its first try to its answer.
    pub(crate) append: Histogram,
    pub(crate) append_size: Histogram,
    pub(crate) append_failures: Counter,
    pub(crate) buffered_bytes: Gauge,
    pub(crate) connections: Gauge,
    pub(crate) connections_opened: Counter,
    pub(crate) reloads_applied: Counter,
    pub(crate) reloads_refused: Counter,
    pub(crate) endpoints_live: Gauge,
    pub(crate) endpoints_off: Gauge,
}

/// What the callbacks of one endpoint count.
pub(crate) struct EndpointMetrics {
    pub(crate) received: Counter,
    pub(crate) stored: Counter,
    pub(crate) duplicate: Counter,
    pub(crate) verified: Counter,
    pub(crate) older_key: Counter,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let count = |name: &'static str| with_local_recorder(&recorder, || counter!(name));
        let reloads = |result: &'static str| {
            with_local_recorder(
                &recorder,
                || counter!("gateway_reloads_total", "result" => result),
            )
        };
        let endpoints = |state: &'static str| {
            with_local_recorder(&recorder, || gauge!("gateway_endpoints", "state" => state))
        };
        Self {
            acknowledged: Histogram::new("gateway_acknowledgement_seconds", &SECONDS),
            append: Histogram::new("gateway_append_seconds", &SECONDS),
            append_size: Histogram::new("gateway_append_size", &SIZES),
            append_failures: count("gateway_append_failures_total"),
            buffered_bytes: with_local_recorder(&recorder, || gauge!("gateway_buffered_bytes")),
            connections: with_local_recorder(&recorder, || gauge!("gateway_connections")),
            connections_opened: count("gateway_connections_opened_total"),
            reloads_applied: reloads("applied"),
            reloads_refused: reloads("refused"),
            endpoints_live: endpoints("live"),
            endpoints_off: endpoints("off"),
            handle: recorder.handle(),
            recorder,
        }
    }

    pub(crate) fn endpoint(&self, id: &str, config: &EndpointConfig) -> EndpointMetrics {
        with_local_recorder(&self.recorder, || {
            let agent = config.agent_id.map(|id| id.to_string()).unwrap_or_default();
            let labels = vec![
                Label::new("endpoint", id.to_owned()),
                Label::new("corp", config.corp_id.clone()),
                Label::new("kind", config.kind.name()),
                Label::new("agent", agent),
            ];
            gauge!("gateway_endpoint_info", labels).set(1.0);
            let count = |name: &'static str| counter!(name, "endpoint" => id.to_owned());
            EndpointMetrics {
                received: count("gateway_received_total"),
                stored: count("gateway_stored_total"),
                duplicate: count("gateway_duplicate_total"),
                verified: count("gateway_verified_total"),
                older_key: count("gateway_older_key_total"),
            }
        })
    }

    /// How many callbacks of a corp wait for their append.
    pub(crate) fn queue_depth(&self, corp: &str) -> Gauge {
        with_local_recorder(
            &self.recorder,
            || gauge!("gateway_queue_depth", "corp" => corp.to_owned()),
        )
    }

    pub(crate) fn refused(&self, endpoint: &str, refusal: Refusal) {
        with_local_recorder(&self.recorder, || {
            counter!("gateway_refused_total", "endpoint" => endpoint.to_owned(), "check" => refusal.check()).increment(1);
        });
    }

    pub(crate) fn render(&self) -> String {
        let mut text = self.handle.render();
        for histogram in [&self.acknowledged, &self.append, &self.append_size] {
            histogram.render(&mut text);
        }
        text
    }
}
