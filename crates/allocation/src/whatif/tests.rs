//! The log again, as it is and under drafts.

use proptest::prelude::*;

use super::*;
use crate::histories::*;
use crate::{
    Adjustment, Confirmation, Limits, OfferRule, Plan, PoolConfig, PresenceChange, Reason,
    Reassignment, SetMember, Settlement, SettlementOutcome, Step, Strategy as Choosing, Weight,
};

const FAIR: Choosing = Choosing::WeightedRoundRobin;
const SECOND_MS: u64 = 1000;
const MINUTE_MS: u64 = 60 * SECOND_MS;

/// The state after so many entries.
fn state(history: &History, n: usize) -> Corp {
    let mut state = Corp::new();
    for entry in &history.entries[..n] {
        state.fold(entry).unwrap();
    }
    state
}

fn config(of: usize, strategy: Choosing, weights: &[u32]) -> PoolConfig {
    let members = weights.iter().enumerate();
    let weight = |weight: &u32| Weight::from_thousandths(*weight).unwrap();
    let members = members.map(|(i, one)| (member(i), weight(one)));
    PoolConfig::new(pool(of), 1, strategy, members).unwrap()
}

fn only(config: PoolConfig) -> Vec<Change> {
    vec![Change {
        config,
        window: None,
        plan: None,
    }]
}

/// The entries after the first `skip` under these changes.
fn run(history: &History, skip: usize, changes: Vec<Change>) -> (Report, Corp) {
    let mut recorded = state(history, skip);
    let from_ms = history.entries[skip].at_ms;
    let mut whatif = WhatIf::new(&recorded, changes, from_ms);
    for entry in &history.entries[skip..] {
        whatif.fold(&mut recorded, entry).unwrap();
        assert_eq!(whatif.draft().problems(), Vec::<String>::new(), "{entry:?}");
        for pool in whatif.draft().can_wake() {
            if !whatif.draft().has_same_queues(&recorded, &pool) {
                let wake = Op::Wake { pool, limit: 1 };
                let outcome = whatif.draft().clone().apply(&wake, entry.at_ms);
                assert_eq!(outcome.woken, [], "somebody waits in vain: {entry:?}");
            }
        }
    }
    let draft = whatif.draft().clone();
    (whatif.end(&recorded), draft)
}

fn customers(report: &Report, of: usize, who: usize) -> (i64, i64) {
    let one = report.pools[&pool(of)].members.get(&member(who));
    one.map_or((0, 0), |one| (one.recorded, one.draft))
}

/// Who needed something needs it now, too, and the other pool serves after a while.
fn falls_back(of: usize, other: usize, after_ms: u64) -> Replan {
    Replan::new(move |was| {
        let needs = was.and_then(|plan| plan.steps().first());
        let needs = needs.map_or_else(Vec::new, |step| step.needs.clone());
        let step = |of, after_ms| Step {
            after_ms,
            pool: pool(of),
            needs: needs.clone(),
        };
        let prefer = was.map_or_else(Vec::new, |plan| plan.prefer().to_vec());
        Some(Plan::new(prefer, vec![step(of, 0), step(other, after_ms)], None).unwrap())
    })
}

fn window_passed() -> Reason {
    Reason::new("window_passed").unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn without_a_change_every_outcome_is_the_recorded_one(seed: u64, skip in 1_usize..100) {
        let history = History::random(seed, 200);
        let mut recorded = state(&history, skip);
        let from_ms = history.entries[skip].at_ms;
        let mut whatif = WhatIf::new(&recorded, [], from_ms);
        for entry in &history.entries[skip..] {
            whatif.fold(&mut recorded, entry).unwrap();
            prop_assert_eq!(whatif.draft(), &recorded);
            prop_assert_eq!(whatif.draft().dump(), recorded.dump());
        }
        let report = whatif.end(&recorded);
        prop_assert_eq!((report.differences, report.not_applicable, report.skipped), (0, 0, 0));
        prop_assert_eq!(report.entries, (history.entries.len() - skip) as u64);
        for both in report.pools.values() {
            prop_assert_eq!(&both.recorded, &both.draft);
            prop_assert!(both.members.values().all(|one| one.gain() == 0));
        }
    }

    #[test]
    fn a_draft_that_is_what_the_pool_is_changes_nothing(seed: u64, skip in 1_usize..150) {
        let history = History::random(seed, 200);
        let before = state(&history, skip);
        let is_put = |of: &PoolId| history.entries[skip..].iter().any(|entry| match &entry.op {
            Op::SetPool(config) => config.pool() == of,
            _ => false,
        });
        let unchanged = [pool(0), pool(1)].into_iter().filter(|of| !is_put(of));
        let same = unchanged.filter_map(|of| Some(Change {
            config: PoolConfig::of(of.clone(), 1, before.content(&of)?.clone()).unwrap(),
            window: None,
            plan: None,
        }));
        let (report, draft) = run(&history, skip, same.collect());
        prop_assert_eq!((report.differences, report.not_applicable, report.skipped), (0, 0, 0));
        prop_assert_eq!(draft.dump(), history.corp.dump());
    }

    /// `run` looks at every step for problems of the draft's state, and for somebody who waits while somebody is free.
    #[test]
    fn under_any_draft_the_state_holds_together(
        seed: u64,
        skip in 1_usize..60,
        least_load: bool,
        weights in prop::collection::vec(prop::sample::select(vec![0_u32, 500, 1000, 4000]), 0..7),
        cap in prop::option::of(1_u32..4),
        per_hour in prop::option::of(1_u32..4),
        offers in prop::option::of((1_u64..600, 1_u32..4)),
        window in prop::option::of(prop::option::of(1_u64..200)),
        falls_back_after in prop::option::of(0_u64..300),
    ) {
        let history = History::random(seed, 200);
        let strategy = if least_load { Choosing::LeastLoad } else { FAIR };
        let limits = Limits { at_a_time: cap, per_hour, per_day: None };
        let config = config((seed % 3) as usize, strategy, &weights)
            .with_limits([(member(0), limits), (member(1), limits)])
            .with_offers(offers.map(|(seconds, tries)| OfferRule {
                accept_ms: seconds * SECOND_MS,
                tries,
            }));
        let window = window.map(|after| Window {
            reason: window_passed(),
            after_ms: after.map(|minutes| minutes * MINUTE_MS),
        });
        let of = (seed % 3) as usize;
        let plan = falls_back_after.map(|seconds| falls_back(of, (of + 1) % 3, seconds * SECOND_MS));
        let (report, draft) = run(&history, skip, vec![Change { config, window, plan }]);
        let of_pool = &report.pools[&pool((seed % 3) as usize)];
        prop_assert_eq!(of_pool.draft.waiting, draft.waiting(&pool((seed % 3) as usize)).len() as u64);
    }
}

#[test]
fn who_weighs_more_gains_what_the_others_lose() {
    let mut history = History::of(FAIR, &[1000, 1000, 1000]);
    for _ in 0..60 {
        history.now_ms += SECOND_MS;
        history.decide(0);
    }
    let (report, _) = run(&history, 2, only(config(0, FAIR, &[2000, 1000, 1000])));
    assert_eq!(customers(&report, 0, 0), (20, 30));
    assert_eq!(customers(&report, 0, 1), (20, 15));
    assert_eq!(customers(&report, 0, 2), (20, 15));
    let both = &report.pools[&pool(0)];
    assert_eq!((both.recorded.decided, both.draft.decided), (60, 60));
    assert_eq!(both.draft.jain, Some(1.0));
    assert!(both.draft.furthest.clone().unwrap().1.abs() < 1.0);
    assert!(report.differences > 0 && !report.first_differences.is_empty());
    assert_eq!((report.inputs, report.not_applicable), (60, 0));
}

#[test]
fn a_limit_that_was_not_there_makes_customers_wait() {
    let mut history = History::of(FAIR, &[1000, 1000]);
    for _ in 0..5 {
        history.now_ms += SECOND_MS;
        history.decide(0);
    }
    // The first two leave whoever has them, after ten and twenty minutes.
    for i in [1, 2] {
        history.now_ms += 10 * MINUTE_MS;
        history.apply(Op::Close(vec![closing(subject(i))]));
    }
    let one = Limits {
        at_a_time: Some(1),
        ..Limits::NONE
    };
    let draft = config(0, FAIR, &[1000, 1000]).with_limits([(member(0), one), (member(1), one)]);
    let (report, state) = run(&history, 2, only(draft));
    let both = &report.pools[&pool(0)];
    assert_eq!((both.recorded.decided, both.draft.decided), (5, 4));
    assert_eq!((both.recorded.waiting, both.draft.waiting), (0, 1));
    assert_eq!(state.waiting(&pool(0)), [subject(5)]);
    assert_eq!(both.recorded.waits, Waits::default());
    let waits = both.draft.waits;
    assert_eq!((waits.served, waits.gave_up), (2, 0));
    assert_eq!(waits.p50_ms, Some(10 * MINUTE_MS + 2 * SECOND_MS));
    assert_eq!(waits.p95_ms, Some(20 * MINUTE_MS + SECOND_MS));
    // Both reached it at once, and again when they were given those who had waited.
    assert_eq!(
        both.draft.limits_reached[&crate::explain::Filter::PoolCap],
        4
    );
    // One was full when the second customer came, and when each who waited was given away the other one was.
    assert_eq!(both.draft.kept_out, 3);
    assert!(both.recorded.limits_reached.is_empty());
}

#[test]
fn who_leaves_while_he_waits_is_gone() {
    let mut history = History::of(FAIR, &[1000]);
    history.decide(0);
    history.apply(Op::Close(vec![Closing {
        member: Some(member(0)),
        ..closing(subject(1))
    }]));
    let nobody = config(0, FAIR, &[0]);
    let (report, state) = run(&history, 2, only(nobody));
    let both = &report.pools[&pool(0)];
    assert_eq!((both.draft.decided, both.draft.waiting), (0, 0));
    assert_eq!(both.draft.waits.gave_up, 1);
    assert_eq!(state.allocations().count(), 0);
}

#[test]
fn who_leaves_a_member_that_did_not_have_him_leaves_nobody() {
    let mut history = History::of(FAIR, &[1000, 1000]);
    let mut asked = request(1, &pool(0));
    asked.holder = Some(member(1));
    history.apply(Op::Decide(vec![asked]));
    // He is given to the first member; then the second one, who had him before, loses him.
    history.apply(Op::Close(vec![Closing {
        member: Some(member(1)),
        ..closing(subject(1))
    }]));
    let (report, state) = run(&history, 2, only(config(0, FAIR, &[0, 1000])));
    assert_eq!(report.not_applicable, 1);
    let open: Vec<_> = state.allocations().map(|one| one.member).collect();
    assert_eq!(open, [Some(member(1))]);
}

/// A customer of the third member is given to the first one, and that is carried out.
fn transferred() -> (History, Settlement) {
    let mut history = History::of(FAIR, &[1000, 0, 0]);
    let mut asked = request(1, &pool(0));
    asked.holder = Some(member(2));
    history.apply(Op::Decide(vec![asked]));
    let settlement = Settlement {
        allocation: allocation(1),
        pool: pool(0),
        subject: subject(1),
        outcome: SettlementOutcome::Done,
        expect: Some(crate::Assignment {
            member: Some(member(0)),
            epoch: 0,
        }),
    };
    (history, settlement)
}

#[test]
fn a_transfer_ends_at_whoever_takes_it() {
    let (mut history, settlement) = transferred();
    history.apply(Op::Settle(settlement));
    let mut echo = request(2, &pool(0));
    (echo.subject, echo.holder, echo.echo) = (subject(1), Some(member(0)), true);
    let entry = history.apply(Op::Decide(vec![echo]));
    assert!(matches!(
        &entry.outcome.answer,
        Answer::Decided(decisions) if matches!(decisions[..], [Decision::Echo { .. }])
    ));
    let to_another = only(config(0, FAIR, &[0, 1000, 0]));
    let (report, state) = run(&history, 2, to_another);
    assert_eq!(report.not_applicable, 0);
    let one = state.allocations().next().unwrap();
    assert_eq!((one.member, one.settled), (Some(member(1)), true));
    assert_eq!(customers(&report, 0, 0), (1, 0));
    assert_eq!(customers(&report, 0, 1), (0, 1));

    // Where he stays with whoever has him there is no transfer, and nothing comes of one.
    let to_holder = only(config(0, FAIR, &[0, 0, 1000]));
    let (report, state) = run(&history, 2, to_holder);
    assert_eq!(report.not_applicable, 1);
    assert_eq!(state.allocations().count(), 1);
}

#[test]
fn who_stays_with_the_giver_is_not_counted_for_the_taker() {
    let (mut history, mut settlement) = transferred();
    settlement.outcome = SettlementOutcome::Kept(member(2));
    history.apply(Op::Settle(settlement));
    let (report, state) = run(&history, 2, only(config(0, FAIR, &[0, 1000, 0])));
    assert_eq!(customers(&report, 0, 0), (0, 0));
    assert_eq!(customers(&report, 0, 1), (0, 0));
    assert_eq!(customers(&report, 0, 2), (1, 1));
    let one = state.allocations().next().unwrap();
    assert_eq!((one.member, one.settled), (Some(member(2)), true));

    let (report, _) = run(&history, 2, only(config(0, FAIR, &[0, 0, 1000])));
    assert_eq!(
        report.not_applicable, 1,
        "without a transfer nobody keeps him"
    );
}

#[test]
fn a_reassignment_takes_him_from_whoever_has_him() {
    let mut history = History::of(FAIR, &[1000, 1000, 1000]);
    history.decide(0);
    history.apply(Op::Reassign(Reassignment {
        allocation: allocation(1),
        pool: pool(0),
        subject: subject(1),
        to: None,
        exclude: Vec::new(),
        expect_epoch: 0,
    }));
    let (report, state) = run(&history, 2, only(config(0, FAIR, &[0, 1000, 1000])));
    let one = state.allocations().next().unwrap();
    assert_eq!((one.member, one.epoch), (Some(member(2)), 1));
    assert_eq!(customers(&report, 0, 1), (1, 0));
    assert_eq!(customers(&report, 0, 2), (0, 1));
}

#[test]
fn a_visitor_adds_the_member_he_sees() {
    let mut history = History::of(FAIR, &[1000, 1000]);
    let confirmation = |customer: usize, visitor: usize, who: usize| Confirmation {
        allocation: allocation(100 + customer),
        pool: pool(0),
        subject: subject(100 + customer),
        member: member(who),
        visitor: Some(subject(visitor)),
        slot: None,
        channel: None,
    };
    for i in 1..=4 {
        history.apply(Op::Visit(vec![visit(i, &pool(0))]));
    }
    // 1 and 3 see the first member, 2 and 4 the second.
    history.apply(Op::Confirm(vec![confirmation(1, 1, 0)]));
    history.apply(Op::Confirm(vec![confirmation(2, 2, 0)]));
    history.now_ms += 10 * MINUTE_MS;
    history.apply(Op::Expire { limit: 10 });
    history.apply(Op::Confirm(vec![confirmation(3, 3, 0)]));
    let all_to_second = only(config(0, FAIR, &[0, 1000]));
    let (report, state) = run(&history, 2, all_to_second);
    // As recorded: 1 as seen, 2 added the first one, 3 came late, 4 not at all.
    assert_eq!(customers(&report, 0, 0), (3, 1));
    assert_eq!(customers(&report, 0, 1), (0, 2));
    assert_eq!(report.not_applicable, 0);
    let whose = state
        .allocations()
        .map(|one| (one.subject, one.member.unwrap()));
    let mut whose: Vec<_> = whose.collect();
    whose.sort();
    let (first, second) = (member(0), member(1));
    let expected = [(101, second.clone()), (102, first), (103, second)];
    assert_eq!(whose, expected.map(|(of, who)| (subject(of), who)));

    // Where nobody is shown nobody is added.
    let (report, _) = run(&history, 2, only(config(0, FAIR, &[0, 0])));
    assert_eq!(report.not_applicable, 2);
    assert_eq!(customers(&report, 0, 0), (3, 1));
}

#[test]
fn offers_are_accepted_where_nobody_was_asked() {
    let mut history = History::of(FAIR, &[1000, 1000]);
    history.decide(0);
    history.decide(0);
    let rule = OfferRule {
        accept_ms: MINUTE_MS,
        tries: 2,
    };
    let draft = config(0, FAIR, &[1000, 1000]).with_offers(Some(rule));
    let (report, state) = run(&history, 2, only(draft));
    assert!(state.allocations().all(|one| one.offer_until_ms.is_none()));
    assert_eq!(customers(&report, 0, 0), (1, 1));
    assert_eq!(report.differences, 2, "they were offered");
}

#[test]
fn another_window_lets_customers_go_at_another_time() {
    let mut history = History::of(FAIR, &[1000]);
    history.apply(Op::SetMember(SetMember::capped(member(0), Some(1), None)));
    history.decide(0);
    history.now_ms += 10 * MINUTE_MS;
    history.decide(0);
    history.now_ms += 50 * MINUTE_MS;
    history.apply(Op::Close(vec![Closing {
        pool: Some(pool(0)),
        reason: window_passed(),
        ..closing(subject(1))
    }]));
    let change = |after_ms| {
        vec![Change {
            config: config(0, FAIR, &[1000]),
            window: Some(Window {
                reason: window_passed(),
                after_ms,
            }),
            plan: None,
        }]
    };
    let waits = |report: &Report| report.pools[&pool(0)].draft.waits;
    let (report, _) = run(&history, 2, change(Some(15 * MINUTE_MS)));
    assert_eq!(waits(&report).p50_ms, Some(5 * MINUTE_MS));
    let recorded = report.pools[&pool(0)].recorded.waits;
    assert_eq!(recorded.p50_ms, Some(50 * MINUTE_MS));
    let (report, _) = run(&history, 2, change(None));
    assert_eq!(waits(&report), Waits::default());
    assert_eq!(report.pools[&pool(0)].draft.waiting, 1);
}

#[test]
fn another_pool_that_only_the_draft_falls_back_to_serves_on_time() {
    let mut history = History::of(FAIR, &[1000]);
    history.set_pool(1, 1, FAIR, &[0, 1000], &[]);
    history.apply(Op::Presence(vec![PresenceChange {
        member: member(1),
        lease_until_ms: history.now_ms + 24 * 60 * MINUTE_MS,
    }]));
    let full = SetMember::capped(member(0), Some(1), None);
    history.apply(Op::SetMember(full));
    let skip = history.entries.len();
    for _ in 0..3 {
        history.decide(0);
    }
    history.now_ms += 10 * MINUTE_MS;
    history.apply(Op::Note);
    let change = |after_ms| {
        vec![Change {
            plan: Some(falls_back(0, 1, after_ms)),
            ..only(config(0, FAIR, &[1000])).remove(0)
        }]
    };
    let (report, _) = run(&history, skip, change(2 * MINUTE_MS));
    let both = &report.pools[&pool(0)];
    assert_eq!((both.recorded.decided, both.draft.decided), (1, 3));
    assert_eq!((both.recorded.waiting, both.draft.waiting), (2, 0));
    assert_eq!(both.draft.waits.p50_ms, Some(2 * MINUTE_MS));
    let (report, _) = run(&history, skip, change(20 * MINUTE_MS));
    assert_eq!(report.pools[&pool(0)].draft.waiting, 2);
}

#[test]
fn hours_of_limits_end_on_time_under_the_draft() {
    let mut history = History::of(FAIR, &[1000, 1000]);
    for _ in 0..2 {
        history.decide(0);
    }
    history.now_ms += 60 * MINUTE_MS;
    history.apply(Op::Presence(vec![PresenceChange {
        member: member(5),
        lease_until_ms: history.now_ms + 1,
    }]));
    let one = Limits {
        per_hour: Some(1),
        ..Limits::NONE
    };
    let draft = config(0, FAIR, &[1000, 0]).with_limits([(member(0), one)]);
    let (report, _) = run(&history, 2, only(draft));
    let both = &report.pools[&pool(0)];
    assert_eq!((both.draft.decided, both.draft.waiting), (2, 0));
    let hour_ms = 60 * MINUTE_MS;
    let until_ms = (BEGIN_MS / hour_ms + 1) * hour_ms - BEGIN_MS;
    assert_eq!(both.draft.waits.p50_ms, Some(until_ms));
}

#[test]
fn what_puts_the_pool_again_is_skipped() {
    let mut history = History::of(FAIR, &[1000, 1000]);
    history.decide(0);
    history.set_pool(0, 2, FAIR, &[0, 1000], &[]);
    history.decide(0);
    history.apply(Op::Adjust(Adjustment {
        pool: pool(0),
        member: member(1),
        thousandths: 500,
    }));
    let (report, _) = run(&history, 2, only(config(0, FAIR, &[1000])));
    assert_eq!(report.skipped, 1);
    assert_eq!(customers(&report, 0, 0), (1, 2));
    assert_eq!(
        report.not_applicable, 1,
        "the second member is not in the draft"
    );
}

#[test]
fn one_request_is_explained_and_nothing_is_changed() {
    let mut history = History::of(FAIR, &[1000, 1000]);
    history.decide(0);
    let before = history.corp.clone();
    let [change] = &only(config(0, FAIR, &[0, 1000]))[..] else {
        panic!("one change")
    };
    let found = explain_one(
        &history.corp,
        change.clone(),
        &request(9, &pool(0)),
        history.now_ms,
    );
    let [found] = &found.unwrap()[..] else {
        panic!("one decision")
    };
    assert_eq!(found.chosen, Some(member(1)));
    let filters: Vec<_> = found.candidates.iter().map(|one| one.filter).collect();
    assert_eq!(filters, [Some(crate::explain::Filter::WeightZero), None]);
    assert_eq!(history.corp, before);
}

#[test]
fn a_log_that_is_not_whole_is_told() {
    let mut history = History::of(FAIR, &[1000, 1000]);
    history.decide(0);
    history.decide(0);
    let mut recorded = state(&history, 2);
    let mut whatif = WhatIf::new(&recorded, only(config(0, FAIR, &[1000])), BEGIN_MS);
    assert!(whatif.fold(&mut recorded, &history.entries[3]).is_err());
}

#[test]
fn waits_are_told_by_rank() {
    let rank = |n: u64| {
        let waits: Vec<u64> = (1..=n).collect();
        let waits = Waits::of(&waits, 0);
        (waits.p50_ms, waits.p95_ms)
    };
    assert_eq!(rank(0), (None, None));
    assert_eq!(rank(1), (Some(1), Some(1)));
    assert_eq!(rank(2), (Some(1), Some(2)));
    assert_eq!(rank(100), (Some(50), Some(95)));
}
