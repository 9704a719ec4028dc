//! Every filter and rule once, and random histories: what is explained is what was decided.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::Strategy as Choosing;
use crate::histories::*;
use crate::{
    Answer, Confirmed, Decision, GivenBefore, Limits, Op, Plan, Reason, Reassigned, Reassignment,
    Request, Responded, SetChannel, SetMember, Settled, Settlement, SettlementOutcome, Step,
    Visited,
};

const FAIR: Choosing = Choosing::WeightedRoundRobin;
const LEAST: Choosing = Choosing::LeastLoad;

/// What the last entry of a history says about an allocation.
fn last(history: &History, of: AllocationId) -> Vec<Explanation> {
    let (entry, before) = history.entries.split_last().unwrap();
    let mut corp = Corp::new();
    for entry in before {
        corp.fold(entry).unwrap();
    }
    explain(&corp, entry, of).unwrap()
}

fn only(history: &History, of: AllocationId) -> Explanation {
    let mut found = last(history, of);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn filters(explanation: &Explanation) -> Vec<Option<Filter>> {
    let candidates = explanation.candidates.iter();
    candidates.map(|one| one.filter).collect()
}

fn limits(at_a_time: Option<u32>, per_hour: Option<u32>, per_day: Option<u32>) -> Limits {
    Limits {
        at_a_time,
        per_hour,
        per_day,
    }
}

fn member_is(limits: Limits, blocked: Option<&str>) -> Op {
    Op::SetMember(SetMember {
        member: member(0),
        limits,
        day_end_ms: None,
        blocked: blocked.map(|reason| Reason::new(reason).unwrap()),
        given: None,
    })
}

#[rstest]
#[case::away(Filter::Away)]
#[case::blocked(Filter::Blocked)]
#[case::cap(Filter::Cap)]
#[case::hour(Filter::HourLimit)]
#[case::day(Filter::DayLimit)]
#[case::pool_cap(Filter::PoolCap)]
#[case::pool_hour(Filter::PoolHourLimit)]
#[case::pool_day(Filter::PoolDayLimit)]
#[case::weight(Filter::WeightZero)]
fn each_filter_is_named(
    #[case] filter: Filter,
    #[values(Choosing::WeightedRoundRobin, Choosing::LeastLoad)] strategy: Choosing,
) {
    let mut history = History::of(strategy, &[1000, 1000]);
    let one = Some(1);
    let here = |history: &mut History, limits| {
        history.set_pool(0, 2, strategy, &[1000, 1000], &[(0, limits)]);
    };
    match filter {
        Filter::HourLimit => drop(history.apply(member_is(limits(None, one, None), None))),
        Filter::DayLimit => drop(history.apply(member_is(limits(None, None, one), None))),
        Filter::Cap => drop(history.apply(member_is(limits(one, None, None), None))),
        Filter::PoolCap => here(&mut history, limits(one, None, None)),
        Filter::PoolHourLimit => here(&mut history, limits(None, one, None)),
        Filter::PoolDayLimit => here(&mut history, limits(None, None, one)),
        _ => {}
    }
    // One for each of them; then who has a limit is full.
    history.decide(0);
    history.decide(0);
    match filter {
        Filter::Away => drop(history.apply(presence([0], 0))),
        Filter::Blocked => drop(history.apply(member_is(Limits::NONE, Some("ill")))),
        Filter::WeightZero => drop(history.set_pool(0, 2, strategy, &[0, 1000], &[])),
        _ => {}
    }
    for _ in 0..3 {
        history.decide(0);
        let found = only(&history, history.last_made());
        assert_eq!(filters(&found), [Some(filter), None], "{found:?}");
        assert_eq!(found.chosen, Some(member(1)));
        assert_eq!(filter.as_str(), serde_json::to_value(filter).unwrap());
    }
}

/// Of several the first is named, in the order of the enum.
#[test]
fn the_first_filter_is_named() {
    let mut history = History::of(FAIR, &[1000]);
    history.decide(0);
    let seen = |history: &mut History| {
        history.decide(0);
        let found = only(history, history.last_made());
        assert_eq!(found.chosen, None);
        filters(&found)[0].unwrap()
    };
    let none = limits(Some(1), Some(1), Some(1));
    history.apply(member_is(none, Some("ill")));
    history.apply(presence([0], 0));
    assert_eq!(seen(&mut history), Filter::Away);
    history.apply(presence([0], history.now_ms * 2));
    assert_eq!(seen(&mut history), Filter::Blocked);
    history.apply(member_is(none, None));
    assert_eq!(seen(&mut history), Filter::Cap);
}

#[test]
fn fair_pools_choose_by_deadline_and_say_what_everybody_was_owed() {
    let mut history = History::of(FAIR, &[3000, 1000]);
    history.decide(0);
    let found = only(&history, history.last_made());
    assert_eq!(found.rules, [Rule::EarliestDeadline]);
    assert_eq!(found.what, What::Decided);
    assert_eq!((found.pool_version, found.strategy), (Some(1), Some(FAIR)));
    assert_eq!(found.chosen, Some(member(0)));
    assert_eq!((found.tie, found.waits), (None, None));
    let [first, second] = &found.candidates[..] else {
        panic!("{found:?}")
    };
    assert_eq!(first.due_in, Some(1.333333));
    assert_eq!(second.due_in, Some(4.0));
    assert_eq!(
        (first.credit_before, first.credit_after),
        (Some(0.0), Some(-0.25))
    );
    assert_eq!(
        (second.credit_before, second.credit_after),
        (Some(0.0), Some(0.25))
    );
    assert_eq!(first.load_per_weight, None);
}

#[test]
fn ties_are_told() {
    let mut history = History::of(FAIR, &[1000, 1000, 1000]);
    history.decide(0);
    let found = only(&history, history.last_made());
    let tie = |rule, others| Some(Tie { rule, others });
    assert_eq!(found.tie, tie(TieRule::FirstId, 2));
    let mut history = History::of(LEAST, &[1000, 1000]);
    history.decide(0);
    let found = only(&history, history.last_made());
    assert_eq!(found.rules, [Rule::LeastLoad]);
    assert_eq!(found.tie, tie(TieRule::PickedLongestAgo, 1));
    assert_eq!(found.candidates[0].load_per_weight, Some(0.0));
    assert_eq!(found.candidates[0].credit_before, None);
    // Who came last is the one who was picked longest ago: he got it, and has a load now.
    history.decide(0);
    let found = only(&history, history.last_made());
    assert_eq!((found.rules, found.tie), (vec![Rule::LeastLoad], None));
}

/// Customers came to two members by themselves, and the third, who is owed all of it, is away.
#[test]
fn without_credit_the_one_with_most_of_it_is_chosen() {
    let mut history = History::of(FAIR, &[1000, 1000, 1000]);
    for (i, to) in [0, 1, 0, 1, 0, 1, 0].into_iter().enumerate() {
        history.apply(Op::Confirm(vec![crate::Confirmation {
            allocation: allocation(100 + i),
            pool: pool(0),
            subject: subject(100 + i),
            member: member(to),
            visitor: None,
            slot: None,
            channel: None,
        }]));
    }
    history.apply(presence([2], 0));
    history.decide(0);
    let found = only(&history, history.last_made());
    assert_eq!(found.rules, [Rule::MostCredit]);
    assert_eq!(found.chosen, Some(member(1)));
    let credits = found
        .candidates
        .iter()
        .map(|one| one.credit_before.unwrap());
    let credits: Vec<f64> = credits.collect();
    assert_eq!(credits, [-1.666667, -0.666667, 2.333333]);
}

/// Members are free, and somebody came another way before.
#[test]
fn who_comes_through_a_full_channel_waits_for_it() {
    let mut history = History::of(FAIR, &[1000, 1000]);
    history.apply(Op::SetChannel(SetChannel {
        channel: channel(),
        per_hour: Some(1),
        per_day: None,
        day_end_ms: None,
        given: GivenBefore::default(),
    }));
    let step = Step {
        after_ms: 0,
        pool: pool(0),
        needs: Vec::new(),
    };
    let plan = Plan::new(Vec::new(), vec![step], None).unwrap();
    let plan = plan.limited_by(channel());
    for (i, is_given) in [(1, true), (2, false), (3, false)] {
        let plan = Some(plan.clone());
        let request = Request {
            plan,
            ..request(i, &pool(0))
        };
        history.apply(Op::Decide(vec![request]));
        let found = only(&history, allocation(i));
        let until_ms = history
            .corp
            .channel_is_full_until_ms(&channel(), history.now_ms);
        let waits = (!is_given).then_some(Waits {
            why: WaitsFor::ChannelLimit,
            behind: i.saturating_sub(2),
            until_ms,
        });
        assert_eq!(found.waits, waits);
        assert_eq!(filters(&found), [None, None]);
    }
}

#[test]
fn who_waits_is_behind_others_and_is_woken() {
    let mut history = History::of(FAIR, &[1000, 1000]);
    history.apply(presence([0, 1], 0));
    for behind in 0..2 {
        history.decide(0);
        let found = only(&history, history.last_made());
        let why = match behind {
            0 => WaitsFor::NobodyFree,
            _ => WaitsFor::BehindOthers,
        };
        assert_eq!(
            found.waits,
            Some(Waits {
                why,
                behind,
                until_ms: None
            })
        );
        assert_eq!((found.chosen, found.rules), (None, vec![]));
    }
    history.apply(presence([1], history.now_ms * 2));
    let found = only(&history, allocation(1));
    assert_eq!(found.what, What::Woken);
    assert_eq!(found.op, "presence.1");
    assert_eq!(
        found.rules,
        [Rule::LongestWaitingWoken, Rule::EarliestDeadline]
    );
    assert_eq!(filters(&found), [Some(Filter::Away), None]);
    assert_eq!(only(&history, allocation(2)).chosen, Some(member(1)));
}

#[test]
fn given_to_another_it_is_told_whom_nobody_wanted() {
    let mut history = History::of(FAIR, &[1000, 1000, 1000]);
    history.decide(0);
    let open = history.corp.allocations().next().unwrap();
    let mut wanted = Reassignment {
        allocation: open.allocation,
        pool: open.pool,
        subject: open.subject,
        to: None,
        exclude: vec![member(2)],
        expect_epoch: 0,
    };
    history.apply(Op::Reassign(wanted.clone()));
    let found = only(&history, wanted.allocation);
    assert_eq!(found.rules, [Rule::Reassigned, Rule::EarliestDeadline]);
    let out = Some(Filter::LeftOut);
    assert_eq!(filters(&found), [out, None, out]);
    (wanted.to, wanted.expect_epoch) = (Some(member(2)), 1);
    history.apply(Op::Reassign(wanted.clone()));
    let found = only(&history, wanted.allocation);
    assert_eq!(found.rules, [Rule::Reassigned, Rule::Named]);
    assert_eq!(found.chosen, Some(member(2)));
    wanted.expect_epoch = 2;
    wanted.to = None;
    wanted.exclude = vec![member(0), member(1)];
    history.apply(Op::Reassign(wanted.clone()));
    let found = only(&history, wanted.allocation);
    assert_eq!((found.chosen, found.rules), (None, vec![]));
    history.apply(Op::Settle(Settlement {
        allocation: wanted.allocation,
        pool: wanted.pool,
        subject: wanted.subject,
        outcome: SettlementOutcome::Kept(member(0)),
        expect: None,
    }));
    let found = only(&history, wanted.allocation);
    assert_eq!((found.what, found.rules), (What::Kept, vec![Rule::Kept]));
    assert_eq!(found.chosen, Some(member(0)));
}

/// Whom a plan avoids is told before whatever else keeps him out; a reassignment avoids him, too.
#[test]
fn a_plan_says_whom_it_avoids() {
    let mut history = History::of(FAIR, &[1000, 1000, 1000]);
    let steps = vec![Step {
        after_ms: 0,
        pool: pool(0),
        needs: Vec::new(),
    }];
    let plan = Plan::new(vec![member(0)], steps, None).unwrap();
    let mut asked = request(50, &pool(0));
    asked.plan = Some(plan.avoiding(vec![member(0)]).unwrap());
    history.apply(presence([1], 0));
    history.apply(Op::Decide(vec![asked.clone()]));
    let found = only(&history, asked.allocation);
    assert_eq!(found.chosen, Some(member(2)));
    assert_eq!(found.rules, [Rule::EarliestDeadline]);
    let (avoided, away) = (Some(Filter::Avoided), Some(Filter::Away));
    assert_eq!(filters(&found), [avoided, away, None]);
    history.apply(Op::Reassign(Reassignment {
        allocation: asked.allocation,
        pool: asked.pool.clone(),
        subject: asked.subject,
        to: None,
        exclude: Vec::new(),
        expect_epoch: 0,
    }));
    let found = only(&history, asked.allocation);
    assert_eq!(found.chosen, None);
    assert_eq!(filters(&found), [avoided, away, Some(Filter::LeftOut)]);
    // Nobody else is there: he waits, and it is told why.
    history.apply(presence([0, 2], 0));
    history.apply(presence([0], history.now_ms * 2));
    let waits = Request {
        allocation: allocation(51),
        subject: subject(51),
        ..asked
    };
    history.apply(Op::Decide(vec![waits.clone()]));
    let found = only(&history, waits.allocation);
    assert_eq!(found.waits.unwrap().why, WaitsFor::NobodyFree);
    assert_eq!(filters(&found), [avoided, away, away]);
}

/// Who was asked before is not asked again; when nobody is left a person must decide.
#[test]
fn offers_that_come_to_nothing_move_on() {
    let mut history = History::new();
    let config = crate::PoolConfig::new(pool(0), 1, FAIR, [0, 1].map(|i| (member(i), Weight::ONE)));
    let rule = crate::OfferRule {
        accept_ms: 60_000,
        tries: 2,
    };
    history.apply(Op::SetPool(config.unwrap().with_offers(Some(rule))));
    history.apply(presence([0, 1], history.now_ms * 2));
    history.decide(0);
    let id = history.last_made();
    assert_eq!(only(&history, id).chosen, Some(member(0)));
    let open = history.corp.allocations().next().unwrap();
    history.apply(Op::Respond(crate::Response {
        allocation: id,
        pool: open.pool,
        subject: open.subject,
        member: member(0),
        epoch: open.epoch,
        declined: Some(Reason::new("busy").unwrap()),
    }));
    let found = only(&history, id);
    assert_eq!(
        (found.what, found.chosen.clone()),
        (What::MovedOn, Some(member(1)))
    );
    assert_eq!(found.rules, [Rule::OfferOver, Rule::EarliestDeadline]);
    assert_eq!(filters(&found), [Some(Filter::LeftOut), None]);
    history.now_ms += 60_000;
    history.apply(Op::Reclaim { limit: 5 });
    let found = only(&history, id);
    assert_eq!((found.what, found.chosen.clone()), (What::MovedOn, None));
    assert_eq!((found.op, found.waits), ("reclaim.1", None));
    assert_eq!(found.rules, [Rule::OfferOver, Rule::TriesUsedUp]);
}

/// The pool lets nobody wait longer; by then one of two skills was done without.
#[test]
fn who_waited_too_long_is_left_to_a_person() {
    let mut history = History::of(FAIR, &[1000, 1000]);
    let skill = |name: &str| crate::Skill::new(name).unwrap();
    history.apply(Op::SetSkills(crate::SetSkills {
        member: member(1),
        skills: [skill("en")].into(),
    }));
    history.apply(presence([0], 0));
    let step = |after_ms, needs: &[&str]| Step {
        after_ms,
        pool: pool(0),
        needs: needs.iter().map(|name| skill(name)).collect(),
    };
    let steps = vec![step(0, &["en", "vip"]), step(10_000, &["vip"])];
    let mut asked = request(50, &pool(0));
    asked.plan = Some(Plan::new(Vec::new(), steps, Some(60_000)).unwrap());
    history.apply(Op::Decide(vec![asked.clone()]));
    let began_ms = history.now_ms;
    history.now_ms += 10_000;
    history.apply(Op::Advance { limit: 5 });
    assert_eq!(last(&history, asked.allocation), []);
    history.now_ms = began_ms + 60_500;
    history.apply(Op::Advance { limit: 5 });
    let found = only(&history, asked.allocation);
    assert_eq!((found.what, found.op), (What::LeftToPerson, "advance.1"));
    assert_eq!(found.at_ms, began_ms + 60_500);
    assert_eq!(found.rules, [Rule::WaitedTooLong]);
    assert_eq!((found.chosen.clone(), found.waits), (None, None));
    let waited = Waited {
        since_ms: began_ms,
        waited_ms: 60_500,
        person_after_ms: 60_000,
    };
    assert_eq!(found.waited, Some(waited));
    assert_eq!(found.needs, [skill("vip")]);
    let kept_out = [Some(Filter::Away), Some(Filter::Skills)];
    assert_eq!(filters(&found), kept_out);
    check_numbers(&found);
    check_words(&found);
    let bytes = |found: &Explanation| serde_json::to_string(found).unwrap();
    assert_eq!(bytes(&found), bytes(&only(&history, asked.allocation)));
}

/// Before as many were asked as the pool has asked, nobody else was there.
#[test]
fn an_offer_that_nobody_else_can_have_is_left_to_a_person() {
    let mut history = History::new();
    let config = crate::PoolConfig::new(pool(0), 1, FAIR, [(member(0), Weight::ONE)]);
    let rule = crate::OfferRule {
        accept_ms: 60_000,
        tries: 3,
    };
    history.apply(Op::SetPool(config.unwrap().with_offers(Some(rule))));
    history.apply(presence([0], history.now_ms * 2));
    history.decide(0);
    history.now_ms += 60_000;
    history.apply(Op::Reclaim { limit: 5 });
    let found = only(&history, history.last_made());
    assert_eq!(found.rules, [Rule::OfferOver, Rule::NobodyLeft]);
    assert_eq!(filters(&found), [Some(Filter::LeftOut)]);
}

/// A visitor is held; then he comes in time, late, to somebody else, or nobody knows him.
#[rstest]
#[case::held(Rule::Held)]
#[case::late(Rule::Late)]
#[case::mismatched(Rule::Mismatched)]
#[case::direct(Rule::Direct)]
fn customers_who_come_are_explained(#[case] rule: Rule) {
    let mut history = History::of(FAIR, &[1000, 1000]);
    history.apply(Op::Visit(vec![visit(1, &pool(0))]));
    let found = only(&history, allocation(1));
    assert_eq!(found.what, What::Visited);
    assert_eq!(found.chosen, Some(member(0)));
    if rule == Rule::Late {
        history.now_ms += 10 * 60_000;
        history.apply(Op::Expire { limit: 5 });
    }
    let seen = match rule {
        Rule::Mismatched => 1,
        _ => 0,
    };
    history.apply(Op::Confirm(vec![crate::Confirmation {
        allocation: allocation(2),
        pool: pool(0),
        subject: subject(2),
        member: member(seen),
        visitor: (rule != Rule::Direct).then(|| subject(1)),
        slot: None,
        channel: None,
    }]));
    let id = match rule {
        Rule::Held => allocation(1),
        _ => allocation(2),
    };
    let found = only(&history, id);
    assert_eq!(
        (found.what, &found.rules[..]),
        (What::Confirmed, &[rule][..])
    );
    assert_eq!(found.chosen, Some(member(seen)));
    let credits = found.candidates.iter();
    let credits: Vec<_> = credits
        .map(|one| (one.credit_before.unwrap(), one.credit_after.unwrap()))
        .collect();
    let expected = match rule {
        // The one who has him pays for it, and the one whom the visitor saw is paid back.
        Rule::Mismatched => [(-0.5, 0.5), (0.5, -0.5)],
        Rule::Direct => [(-0.5, -1.0), (0.5, 1.0)],
        _ => [(-0.5, -0.5), (0.5, 0.5)],
    };
    assert_eq!(credits, expected);
}

/// Whom the log says that each allocation came to in this entry, in order.
fn recorded(entry: &LogEntry) -> BTreeMap<AllocationId, Vec<Option<MemberId>>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let mut put = |id: AllocationId, member: Option<&MemberId>| {
        found.entry(id).or_default().push(member.cloned());
    };
    match (&entry.op, &entry.outcome.answer) {
        (_, Answer::Decided(decisions)) => {
            for decision in decisions {
                match decision {
                    Decision::Assigned { allocation, member } => put(*allocation, Some(member)),
                    Decision::Offered {
                        allocation, member, ..
                    } => put(*allocation, Some(member)),
                    Decision::Waiting { allocation } => put(*allocation, None),
                    _ => {}
                }
            }
        }
        (
            Op::Respond(response),
            Answer::Responded(Responded::Declined(on) | Responded::Late(on)),
        ) => put(response.allocation, on.member.as_ref()),
        (_, Answer::Reclaimed(reclaimed)) => {
            for one in reclaimed {
                put(one.allocation, one.to.member.as_ref());
            }
        }
        (_, Answer::Visited(visited)) => {
            for visited in visited {
                match visited {
                    Visited::Held {
                        allocation, member, ..
                    } => put(*allocation, Some(member)),
                    Visited::Waiting { allocation, .. } => put(*allocation, None),
                    _ => {}
                }
            }
        }
        (Op::Confirm(asked), Answer::Confirmed(confirmed)) => {
            for (asked, confirmed) in asked.iter().zip(confirmed) {
                match confirmed {
                    Confirmed::Confirmed { held, .. } => put(*held, Some(&asked.member)),
                    Confirmed::Late { allocation, .. }
                    | Confirmed::Mismatched { allocation, .. }
                    | Confirmed::Direct { allocation } => put(*allocation, Some(&asked.member)),
                    _ => {}
                }
            }
        }
        (_, Answer::Advanced(advanced)) => {
            let to_person = |one: &&crate::Advanced| one.to == crate::AdvancedTo::Person;
            for one in advanced.iter().filter(to_person) {
                put(one.allocation, None);
            }
        }
        (Op::Reassign(asked), Answer::Reassigned(reassigned)) => match reassigned {
            Reassigned::Moved { member, .. } => put(asked.allocation, Some(member)),
            Reassigned::Nobody => put(asked.allocation, None),
            _ => {}
        },
        (Op::Settle(settlement), Answer::Settled(Settled::Kept { .. })) => {
            if let SettlementOutcome::Kept(member) = &settlement.outcome {
                put(settlement.allocation, Some(member));
            }
        }
        _ => {}
    }
    for woken in &entry.outcome.woken {
        put(woken.allocation, Some(&woken.member));
    }
    found
}

/// The one who was chosen is the one whom the numbers that are shown call for.
fn check_numbers(found: &Explanation) {
    let free = || found.candidates.iter().filter(|one| one.filter.is_none());
    let chosen = |chosen: &MemberId| {
        let one = found.candidates.iter().find(|one| one.member == *chosen);
        one.cloned()
    };
    let (Some(rule), Some(member)) = (found.rules.last(), &found.chosen) else {
        return;
    };
    let sum: f64 = free().map(|one| one.weight.as_f64()).sum();
    let earned = |one: &Considered| one.credit_before.unwrap() + one.weight.as_f64() / sum;
    match rule {
        Rule::EarliestDeadline => {
            let owed = free().filter(|one| earned(one) > 2e-6);
            let soonest = owed.map(|one| one.due_in.unwrap());
            let soonest = soonest.fold(f64::INFINITY, f64::min);
            let his = chosen(member).unwrap().due_in.unwrap();
            assert!(his <= soonest + 1e-4, "{found:?}");
        }
        Rule::MostCredit => {
            let most = free().map(earned).fold(f64::NEG_INFINITY, f64::max);
            assert!(most < 1e-5, "{found:?}");
            let his = earned(&chosen(member).unwrap());
            assert!(his >= most - 1e-5, "{found:?}");
        }
        Rule::LeastLoad => {
            let least = free().map(|one| one.load_per_weight.unwrap());
            let least = least.fold(f64::INFINITY, f64::min);
            let his = chosen(member).unwrap().load_per_weight.unwrap();
            assert_eq!(his, least, "{found:?}");
        }
        _ => return,
    }
    assert_eq!(chosen(member).unwrap().filter, None);
    for one in free().filter(|one| one.credit_before.is_some()) {
        let paid = f64::from(u8::from(one.member == *member));
        let after = earned(one) - paid;
        assert!(
            (after - one.credit_after.unwrap()).abs() < 1e-5,
            "{found:?}"
        );
    }
}

/// The words of the text and of `as_str` are the same.
fn check_words(found: &Explanation) {
    let json = serde_json::to_value(found).unwrap();
    assert_eq!(json["what"], found.what.as_str());
    for (word, rule) in json["rules"].as_array().unwrap().iter().zip(&found.rules) {
        assert_eq!(word, rule.as_str());
    }
    if let Some(tie) = found.tie {
        assert_eq!(json["tie"]["rule"], tie.rule.as_str());
    }
    if let Some(waits) = found.waits {
        assert_eq!(json["waits"]["why"], waits.why.as_str());
    }
    for (word, one) in json["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .zip(&found.candidates)
    {
        assert_eq!(word["filter"].as_str(), one.filter.map(Filter::as_str));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_explained_is_what_was_decided(seed in any::<u64>()) {
        let history = History::random(seed, 160);
        let mut corp = Corp::new();
        for entry in &history.entries {
            for (allocation, chosen) in recorded(entry) {
                let found = explain(&corp, entry, allocation).unwrap();
                let explained: Vec<_> = found.iter().map(|one| one.chosen.clone()).collect();
                prop_assert_eq!(explained, chosen, "{:?}", entry);
                for one in &found {
                    check_numbers(one);
                    check_words(one);
                }
                let bytes = |found: &[Explanation]| serde_json::to_string(found).unwrap();
                let again = explain(&corp, entry, allocation).unwrap();
                prop_assert_eq!(bytes(&again), bytes(&found));
            }
            corp.fold(entry).unwrap();
        }
        prop_assert_eq!(corp.dump(), history.corp.dump());
    }
}

/// A damaged log is not explained.
#[test]
fn another_outcome_than_the_recorded_one_is_an_error() {
    let mut history = History::of(FAIR, &[1000, 1000]);
    let before = history.corp.clone();
    let mut entry = history.decide(0);
    entry.outcome.answer = Answer::Decided(vec![Decision::Assigned {
        allocation: allocation(1),
        member: member(1),
    }]);
    assert!(explain(&before, &entry, allocation(1)).is_err());
}

/// The text is a promise to those who keep it.
#[test]
fn the_text_is_this() {
    let mut history = History::of(FAIR, &[1000, 0]);
    history.decide(0);
    let found = only(&history, history.last_made());
    assert_eq!(
        serde_json::to_string(&found).unwrap(),
        concat!(
            r#"{"seq":3,"at_ms":1792000000000,"op":"decide.1","what":"decided","pool":"p0","pool_version":1,"#,
            r#""strategy":"weighted_round_robin","chosen":"m0","rules":["earliest_deadline"],"tie":null,"#,
            r#""waits":null,"candidates":[{"member":"m0","weight":"1","load":0,"load_per_weight":null,"#,
            r#""credit_before":0.0,"credit_after":0.0,"due_in":1.0,"filter":null},{"member":"m1","weight":"0","#,
            r#""load":0,"load_per_weight":null,"credit_before":0.0,"credit_after":0.0,"due_in":null,"#,
            r#""filter":"weight_zero"}]}"#
        )
    );
}
