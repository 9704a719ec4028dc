//! The report as gauges, in Prometheus' text format.

use std::fmt::Write as _;

use allocation::CorpId;
use axum::{
    http::header,
    response::{IntoResponse, Response},
};

use super::{FairnessView, MemberFairnessView, PoolSpanView};

/// Name, help, value.
type PoolGauge = (&'static str, &'static str, fn(&PoolSpanView) -> Option<f64>);
type MemberGauge = (
    &'static str,
    &'static str,
    fn(&MemberFairnessView) -> Option<f64>,
);

const OF_POOLS: [PoolGauge; 6] = [
    (
        "paidan_report_pool_decisions",
        "Customers that somebody was chosen for.",
        |pool| Some(pool.decisions as f64),
    ),
    (
        "paidan_report_pool_gini",
        "0: everybody got the same of what was his.",
        |pool| pool.gini,
    ),
    (
        "paidan_report_pool_jain",
        "1: everybody got the same of what was his.",
        |pool| pool.jain,
    ),
    (
        "paidan_report_pool_largest_deviation",
        "Customers above or below the entitlement of whoever is furthest from it.",
        |pool| Some(pool.largest_deviation.as_ref()?.customers),
    ),
    (
        "paidan_report_pool_first_response_p50_seconds",
        "Median time to the first answer.",
        |pool| Some(pool.first_response?.p50_seconds),
    ),
    (
        "paidan_report_pool_first_response_p95_seconds",
        "95th percentile of the time to the first answer.",
        |pool| Some(pool.first_response?.p95_seconds),
    ),
];

const OF_MEMBERS: [MemberGauge; 8] = [
    (
        "paidan_report_member_count",
        "Customers he was chosen for.",
        |one| Some(one.count as f64),
    ),
    (
        "paidan_report_member_entitlement",
        "Customers that were his by weight.",
        |one| Some(one.entitlement),
    ),
    (
        "paidan_report_member_failure_rate",
        "Failed, of what was given to him.",
        |one| one.failure_rate,
    ),
    (
        "paidan_report_member_decline_rate",
        "Declined, of what he was asked.",
        |one| one.decline_rate,
    ),
    (
        "paidan_report_member_reclaim_rate",
        "Not answered in time, of what he was asked.",
        |one| one.reclaim_rate,
    ),
    (
        "paidan_report_member_load_ratio",
        "Open customers of the most that he may have.",
        |one| one.load_ratio,
    ),
    (
        "paidan_report_member_first_response_p50_seconds",
        "Median time to the first answer.",
        |one| Some(one.first_response?.p50_seconds),
    ),
    (
        "paidan_report_member_first_response_p95_seconds",
        "95th percentile of the time to the first answer.",
        |one| Some(one.first_response?.p95_seconds),
    ),
];

pub(super) fn answer(corp: &CorpId, found: &FairnessView) -> Response {
    let kind = (
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    );
    ([kind], text(corp.as_str(), found)).into_response()
}

fn text(corp: &str, found: &FairnessView) -> String {
    let mut text = String::new();
    for (name, help, value) in OF_POOLS {
        head(&mut text, name, help);
        for pool in &found.data {
            let labels = format!("corp=\"{}\",pool=\"{}\"", label(corp), label(&pool.pool));
            line(&mut text, name, &labels, value(pool));
        }
    }
    for (name, help, value) in OF_MEMBERS {
        head(&mut text, name, help);
        for pool in &found.data {
            for member in &pool.members {
                let labels = format!(
                    "corp=\"{}\",pool=\"{}\",member=\"{}\"",
                    label(corp),
                    label(&pool.pool),
                    label(&member.member)
                );
                line(&mut text, name, &labels, value(member));
            }
        }
    }
    text
}

fn head(text: &mut String, name: &str, help: &str) {
    // Writing into a text cannot fail.
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge").unwrap_or_default();
}

fn line(text: &mut String, name: &str, labels: &str, value: Option<f64>) {
    if let Some(value) = value {
        writeln!(text, "{name}{{{labels}}} {value}").unwrap_or_default();
    }
}

fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::when::When;

    #[test]
    fn gauges_have_a_head_and_quoted_labels() {
        let member = MemberFairnessView {
            member: "a\"b".to_owned(),
            count: 6,
            entitlement: 5.25,
            decline_rate: Some(0.5),
            ..MemberFairnessView::default()
        };
        let pool = PoolSpanView {
            from: When(0),
            to: When(1),
            pool: "p\\1".to_owned(),
            decisions: 8,
            gini: None,
            jain: Some(0.9),
            largest_deviation: None,
            first_response: None,
            members: vec![member],
        };
        let found = FairnessView {
            from: When(0),
            to: When(1),
            data: vec![pool],
        };
        let text = text("ww1", &found);
        for line in [
            "# TYPE paidan_report_pool_decisions gauge",
            "paidan_report_pool_decisions{corp=\"ww1\",pool=\"p\\\\1\"} 8",
            "paidan_report_pool_jain{corp=\"ww1\",pool=\"p\\\\1\"} 0.9",
            "paidan_report_member_decline_rate{corp=\"ww1\",pool=\"p\\\\1\",member=\"a\\\"b\"} 0.5",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        assert!(!text.contains("gini{"), "what is not known is left out");
    }
}
