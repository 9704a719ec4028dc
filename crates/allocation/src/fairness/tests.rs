//! Entitlements, counts and the measures of a pool.

use proptest::prelude::*;
use rstest::rstest;

use super::measures::{gini, jain};
use super::*;
use crate::Strategy as Choosing;
use crate::histories::*;
use crate::{Confirmation, OfferRule, Op, Response, Settlement, SettlementOutcome};

const FAIR: Choosing = Choosing::WeightedRoundRobin;
const HOUR_MS: u64 = 60 * 60 * 1000;

/// Counts entries after the first `skip`.
fn tally(history: &History, skip: usize, starts: Vec<u64>) -> Vec<PoolSpan> {
    let mut state = Corp::new();
    let (before, after) = history.entries.split_at(skip);
    for entry in before {
        state.fold(entry).unwrap();
    }
    let mut tally = Tally::new(&state, None, starts);
    for entry in after {
        tally.fold(&mut state, entry).unwrap();
    }
    tally.end()
}

fn near(one: f64, two: f64) -> bool {
    (one - two).abs() < 1e-6
}

#[test]
fn members_earn_while_they_can_be_chosen() {
    let mut history = History::of(FAIR, &[3000, 1000]);
    for _ in 0..8 {
        history.decide(0);
    }
    history.now_ms += HOUR_MS;
    history.apply(presence([0], 0));
    history.decide(0);
    let spans = tally(&history, 2, vec![BEGIN_MS, BEGIN_MS + HOUR_MS]);
    let [first, second] = &spans[..] else {
        panic!("{spans:?}")
    };
    assert_eq!(
        (first.from_ms, second.from_ms),
        (BEGIN_MS, BEGIN_MS + HOUR_MS)
    );
    assert_eq!((first.decisions, second.decisions), (8, 1));
    let (one, two) = (first.members[&member(0)], first.members[&member(1)]);
    assert_eq!((one.count, two.count), (6, 2));
    assert!(
        near(one.entitlement, 6.0) && near(two.entitlement, 2.0),
        "{first:?}"
    );
    let measures = first.measures();
    assert_eq!((measures.gini, measures.jain), (Some(0.0), Some(1.0)));
    let two = second.members[&member(1)];
    assert_eq!((two.count, two.entitlement), (1, 1.0));
    let idle = second.members.get(&member(0)).copied().unwrap_or_default();
    assert_eq!(idle, Got::default());
}

#[test]
fn what_was_given_otherwise_is_counted_apart() {
    let mut history = History::of(FAIR, &[1000, 1000]);
    history.apply(Op::Visit(vec![visit(1, &pool(0))]));
    history.apply(Op::Visit(vec![visit(2, &pool(0))]));
    history.now_ms += HOUR_MS;
    history.apply(Op::Expire { limit: 10 });
    // The first comes late, to whom he saw; the second to the other one.
    let mut came = Confirmation {
        allocation: allocation(3),
        pool: pool(0),
        subject: subject(3),
        member: member(0),
        visitor: Some(subject(1)),
        slot: None,
        channel: None,
    };
    history.apply(Op::Confirm(vec![came.clone()]));
    (came.allocation, came.subject) = (allocation(4), subject(4));
    came.visitor = Some(subject(2));
    history.apply(Op::Confirm(vec![came]));
    history.apply(Op::Decide(vec![request(5, &pool(0))]));
    let open = history
        .corp
        .allocations()
        .find(|open| open.allocation == allocation(5));
    let open = open.unwrap();
    assert_eq!(open.member, Some(member(1)), "he was paid back");
    history.apply(Op::Reassign(crate::Reassignment {
        allocation: open.allocation,
        pool: open.pool,
        subject: open.subject,
        to: Some(member(0)),
        exclude: vec![],
        expect_epoch: 0,
    }));
    history.apply(Op::Close(vec![closing(open.subject)]));
    let spans = tally(&history, 2, vec![BEGIN_MS]);
    let [span] = &spans[..] else {
        panic!("{spans:?}")
    };
    let expected = Got {
        count: 2,
        entitlement: 1.5,
        received: 2,
        reassigned: 0,
        expired: 1,
        closed_early: 1,
        ..Got::default()
    };
    assert_eq!(span.members[&member(0)], expected);
    let expected = Got {
        count: 1,
        entitlement: 1.5,
        received: 0,
        reassigned: 1,
        expired: 1,
        closed_early: 0,
        ..Got::default()
    };
    assert_eq!(span.members[&member(1)], expected);
    assert_eq!(span.decisions, 3);
    assert_eq!(span.measures().furthest, Some((member(0), 0.5)));
}

/// Of three who are asked the first declines, the second does not answer, the third takes him and cannot have him.
#[test]
fn offers_and_failures_are_counted() {
    let mut history = History::new();
    history.offers = Some(OfferRule {
        accept_ms: 1000,
        tries: 3,
    });
    history.set_pool(0, 1, FAIR, &[1000, 1000, 1000], &[]);
    let until_ms = history.now_ms + 100 * HOUR_MS;
    history.apply(presence(0..3, until_ms));
    history.apply(Op::Decide(vec![request(1, &pool(0))]));
    let mut asked = Vec::new();
    let mut respond = |history: &mut History, declined: Option<&str>| {
        let open = history.corp.allocations().next().unwrap();
        asked.push(open.member.clone().unwrap());
        history.apply(Op::Respond(Response {
            allocation: open.allocation,
            pool: open.pool,
            subject: open.subject,
            member: open.member.unwrap(),
            epoch: open.epoch,
            declined: declined.map(|reason| reason.parse().unwrap()),
        }));
    };
    respond(&mut history, Some("busy"));
    history.now_ms += 2000;
    respond(&mut history, None);
    respond(&mut history, None);
    let open = history.corp.allocations().next().unwrap();
    history.apply(Op::Settle(Settlement {
        allocation: open.allocation,
        pool: open.pool,
        subject: open.subject,
        outcome: SettlementOutcome::Void("refused".parse().unwrap()),
        expect: None,
    }));
    let spans = tally(&history, 2, vec![BEGIN_MS]);
    let counts = |member: &MemberId| {
        let got = spans[0].members[member];
        [got.offered, got.declined, got.reclaimed, got.failed]
    };
    assert_eq!(counts(&asked[0]), [1, 1, 0, 0]);
    assert_eq!(counts(&asked[1]), [1, 0, 1, 0]);
    assert_eq!(counts(&asked[2]), [1, 0, 0, 1]);
}

#[rstest]
#[case::all_alike(&[(1.0, 1.0), (3.0, 3.0)], 0.0, 1.0)]
#[case::one_has_all(&[(1.0, 4.0), (1.0, 0.0), (1.0, 0.0), (1.0, 0.0)], 0.75, 0.25)]
#[case::half_of_it(&[(1.0, 2.0), (1.0, 0.0)], 0.5, 0.5)]
#[case::of_unequal_weights(&[(3.0, 4.0), (1.0, 0.0)], 0.25, 0.75)]
#[case::split_members_change_nothing(&[(1.5, 2.0), (1.5, 2.0), (1.0, 0.0)], 0.25, 0.75)]
fn measures_are_these(#[case] shares: &[(f64, f64)], #[case] is_gini: f64, #[case] is_jain: f64) {
    assert!(near(gini(shares.to_vec()).unwrap(), is_gini));
    assert!(near(jain(shares).unwrap(), is_jain));
    assert_eq!(gini(vec![(1.0, 0.0)]), None);
    assert_eq!(jain(&[]), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Cut into spans or not, from the beginning or not: the sums are the same, all that is earned is paid, and in a pool
    /// that does not change credit goes down by what was got beyond the entitlement.
    #[test]
    fn what_is_earned_is_paid(seed in any::<u64>(), skip in 2..60_usize) {
        let history = History::random(seed, 160);
        let skip_ms = history.entries[skip].at_ms;
        let starts: Vec<u64> = (0..200).map(|hour| skip_ms + hour * HOUR_MS).collect();
        let whole = tally(&history, skip, vec![skip_ms]);
        let cut = tally(&history, skip, starts);
        for of in 0..2 {
            let sum = |spans: &[PoolSpan], id: &MemberId| {
                let spans = spans.iter().filter(|span| span.pool == pool(of));
                let gots = spans.filter_map(|span| span.members.get(id));
                gots.fold((0, 0.0, 0), |sum, got| {
                    let others = got.received + got.reassigned + got.expired + got.closed_early;
                    (sum.0 + got.count, sum.1 + got.entitlement, sum.2 + others)
                })
            };
            let (mut counts, mut entitlements) = (0, 0.0);
            for i in 0..7 {
                let (one, two) = (sum(&whole, &member(i)), sum(&cut, &member(i)));
                prop_assert_eq!((one.0, one.2), (two.0, two.2));
                prop_assert!(near(one.1, two.1));
                counts += one.0;
                entitlements += one.1;
            }
            prop_assert!(near(counts as f64, entitlements), "{} {}", counts, entitlements);
        }
        let credits = |entries: &[LogEntry]| {
            let mut state = Corp::new();
            for entry in entries {
                state.fold(entry).unwrap();
            }
            state.shares(&pool(0)).unwrap()
        };
        let is_put = |entry: &&LogEntry| matches!(&entry.op, Op::SetPool(config) if *config.pool() == pool(0));
        let last_put = history.entries.iter().rfind(is_put).unwrap();
        let skip = last_put.seq as usize;
        let before = credits(&history.entries[..skip]);
        let after = credits(&history.entries);
        let spans = tally(&history, skip, vec![last_put.at_ms]);
        for (before, after) in before.iter().zip(&after) {
            let got = spans.iter().find(|span| span.pool == pool(0));
            let got = got.and_then(|span| span.members.get(&before.member));
            let variance = got.copied().unwrap_or_default().variance();
            prop_assert!(near(before.credit - after.credit, variance), "{:?} {:?} {}", before, after, variance);
        }
    }
}
