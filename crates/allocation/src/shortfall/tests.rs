//! What kept a member out, counted and in spans of time.

use proptest::prelude::*;

use super::*;
use crate::Strategy as Choosing;
use crate::fairness::Tally;
use crate::histories::*;
use crate::{Op, Plan, Reason, SetMember, Step};

const FAIR: Choosing = Choosing::WeightedRoundRobin;
const MINUTE_MS: u64 = 60_000;

fn shortfall(history: &History, of: usize, skip: usize) -> BTreeMap<PoolId, PoolShortfall> {
    let mut state = Corp::new();
    let (before, after) = history.entries.split_at(skip);
    for entry in before {
        state.fold(entry).unwrap();
    }
    let from_ms = after[0].at_ms;
    let to_ms = history.now_ms + MINUTE_MS;
    let mut shortfall = Shortfall::new(&state, member(of), None, from_ms, to_ms);
    for entry in after {
        shortfall.fold(&mut state, entry).unwrap();
    }
    shortfall.end()
}

fn blocked(history: &mut History, blocked: bool) {
    history.apply(Op::SetMember(SetMember::capped(
        member(0),
        None,
        blocked.then(|| Reason::new("ill").unwrap()),
    )));
}

#[test]
fn every_decision_has_its_reason_and_spans_are_merged() {
    let mut history = History::of(FAIR, &[1000, 3000]);
    let minute = |history: &mut History| {
        history.now_ms += MINUTE_MS;
        history.decide(0);
    };
    for _ in 0..4 {
        minute(&mut history);
    }
    history.apply(presence([0], 0));
    minute(&mut history);
    blocked(&mut history, true);
    minute(&mut history);
    history.apply(presence([0], history.now_ms * 2));
    minute(&mut history);
    minute(&mut history);
    blocked(&mut history, false);
    minute(&mut history);
    blocked(&mut history, true);
    let found = shortfall(&history, 0, 2);
    assert_eq!(found.len(), 1);
    let found = &found[&pool(0)];
    assert_eq!((found.decisions, found.eligible), (9, 5));
    let filters = BTreeMap::from([(Filter::Away, 2), (Filter::Blocked, 2)]);
    assert_eq!(found.filters, filters);
    assert!((found.entitlement - 1.25).abs() < 1e-9, "{found:?}");
    let at = |minute| BEGIN_MS + minute * MINUTE_MS;
    let spans = [
        (4, 6, Filter::Away),
        (6, 8, Filter::Blocked),
        (9, 10, Filter::Blocked),
    ];
    let spans = spans.map(|(from, to, filter)| Span {
        from_ms: at(from),
        to_ms: at(to),
        filter,
    });
    assert_eq!(found.spans, spans);
    assert!(!found.more_spans);
}

/// Who comes to the others only is none of his, and is counted as such.
#[test]
fn who_is_avoided_is_told_so() {
    let mut history = History::of(FAIR, &[1000, 3000]);
    for i in 0..6 {
        history.now_ms += MINUTE_MS;
        let mut visit = visit(100 + i, &pool(0));
        let steps = vec![Step {
            after_ms: 0,
            pool: pool(0),
            needs: Vec::new(),
        }];
        let plan = Plan::new(Vec::new(), steps, None).unwrap();
        visit.plan = (i % 3 > 0).then(|| plan.avoiding(vec![member(0)]).unwrap());
        history.apply(Op::Visit(vec![visit]));
    }
    let found = shortfall(&history, 0, 2);
    let found = &found[&pool(0)];
    assert_eq!((found.decisions, found.eligible), (6, 2));
    assert_eq!(found.filters, BTreeMap::from([(Filter::Avoided, 4)]));
    assert!((found.entitlement - 0.5).abs() < 1e-9, "{found:?}");
    assert!(found.spans.is_empty(), "he could be picked all the time");
}

#[test]
fn only_the_newest_spans_are_kept() {
    let mut history = History::of(FAIR, &[1000, 1000]);
    for minute in 0..2 * MOST_SPANS + 4 {
        history.now_ms += MINUTE_MS;
        blocked(&mut history, minute % 2 == 0);
    }
    let found = shortfall(&history, 0, 2);
    let found = &found[&pool(0)];
    assert_eq!((found.spans.len(), found.more_spans), (MOST_SPANS, true));
    assert_eq!(found.spans.back().unwrap().to_ms, history.now_ms);
}

#[test]
fn a_stranger_lacks_nothing() {
    let history = History::of(FAIR, &[1000]);
    assert_eq!(shortfall(&history, 5, 1), BTreeMap::new());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same numbers as in the report of all members; every decision is explained; spans do not overlap.
    #[test]
    fn it_agrees_with_the_report(seed in any::<u64>(), of in 0..6_usize) {
        let history = History::random(seed, 160);
        let mut state = Corp::new();
        let mut tally = Tally::new(&state, None, vec![0]);
        for entry in &history.entries {
            tally.fold(&mut state, entry).unwrap();
        }
        let report = tally.end();
        for (pool, found) in shortfall(&history, of, 0) {
            let out: u64 = found.filters.values().sum();
            prop_assert_eq!(found.decisions, found.eligible + out);
            let got = report.iter().find(|span| span.pool == pool);
            let got = got.and_then(|span| span.members.get(&member(of)));
            let got = got.copied().unwrap_or_default();
            prop_assert_eq!(found.got, got.count);
            prop_assert!((found.entitlement - got.entitlement).abs() < 1e-6);
            let mut last_ms = 0;
            for span in &found.spans {
                prop_assert!(span.from_ms >= last_ms && span.to_ms > span.from_ms, "{:?}", found.spans);
                last_ms = span.to_ms;
            }
        }
    }
}
