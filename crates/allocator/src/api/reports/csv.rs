//! The report for a spreadsheet: a row for each member, with the measures of his pool.

use axum::response::{IntoResponse, Response};

use super::FairnessView;
use crate::api::sheet;

const HEAD: &str = "from,to,pool,member,count,entitlement,variance,share,received,reassigned,expired_holds,closed_early,\
pool_decisions,pool_gini,pool_jain,pool_largest_deviation,offered,declined,reclaimed,failed,answered,\
first_response_p50_seconds,first_response_p95_seconds,load,load_ratio";

pub(super) fn answer(found: &FairnessView) -> Response {
    (sheet::headers("fairness.csv"), text(found)).into_response()
}

fn text(found: &FairnessView) -> String {
    let rows = found.data.iter().flat_map(|span| {
        let deviation = span.largest_deviation.as_ref();
        span.members.iter().map(move |member| {
            [
                span.from.text(),
                span.to.text(),
                sheet::text(&span.pool),
                sheet::text(&member.member),
                member.count.to_string(),
                member.entitlement.to_string(),
                member.variance.to_string(),
                maybe(member.share),
                member.received.to_string(),
                member.reassigned.to_string(),
                member.expired_holds.to_string(),
                member.closed_early.to_string(),
                span.decisions.to_string(),
                maybe(span.gini),
                maybe(span.jain),
                maybe(deviation.map(|deviation| deviation.customers)),
                member.offered.to_string(),
                member.declined.to_string(),
                member.reclaimed.to_string(),
                member.failed.to_string(),
                maybe(member.first_response.map(|times| times.answered as f64)),
                maybe(member.first_response.map(|times| times.p50_seconds)),
                maybe(member.first_response.map(|times| times.p95_seconds)),
                maybe(member.load.map(f64::from)),
                maybe(member.load_ratio),
            ]
        })
    });
    format!("{HEAD}\r\n{}", sheet::rows(rows))
}

fn maybe(number: Option<f64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::{DeviationView, FirstResponseTimes, MemberFairnessView, PoolSpanView};
    use super::*;
    use crate::api::when::When;

    fn member(name: &str) -> MemberFairnessView {
        MemberFairnessView {
            member: name.to_owned(),
            count: 6,
            entitlement: 5.25,
            variance: 0.75,
            share: Some(0.75),
            received: 1,
            reassigned: 2,
            expired_holds: 3,
            closed_early: 4,
            offered: 5,
            declined: 6,
            reclaimed: 7,
            failed: 8,
            first_response: Some(FirstResponseTimes {
                answered: 2,
                p50_seconds: 1.5,
                p95_seconds: 30.0,
            }),
            load: Some(3),
            load_ratio: Some(0.3),
            ..MemberFairnessView::default()
        }
    }

    /// The columns are a promise.
    #[test]
    fn the_text_is_this() {
        let span = PoolSpanView {
            from: When(1_792_000_000_000),
            to: When(1_792_086_400_000),
            pool: "p1".to_owned(),
            decisions: 8,
            gini: Some(0.1),
            jain: Some(0.9),
            largest_deviation: Some(DeviationView {
                member: "mA".to_owned(),
                customers: -1.5,
            }),
            first_response: None,
            members: vec![
                member("mA"),
                MemberFairnessView {
                    share: None,
                    ..member("=1+1")
                },
                member("a \"b\", c"),
            ],
        };
        let found = FairnessView {
            from: span.from,
            to: span.to,
            data: vec![span],
        };
        let times = "2026-10-14T17:46:40.000Z,2026-10-15T17:46:40.000Z,p1";
        let rest = "1,2,3,4,8,0.1,0.9,-1.5,5,6,7,8,2,1.5,30,3,0.3";
        let expected = [
            HEAD,
            &format!("{times},mA,6,5.25,0.75,0.75,{rest}"),
            &format!("{times},'=1+1,6,5.25,0.75,,{rest}"),
            &format!("{times},\"a \"\"b\"\", c\",6,5.25,0.75,0.75,{rest}"),
            "",
        ];
        assert_eq!(text(&found), expected.join("\r\n"));
    }
}
