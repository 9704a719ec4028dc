//! Limits of channels: never exceeded in any window of the clock, and nobody is held up by them who came another way.

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof, proptest};

use crate::histories::{BEGIN_MS, History, allocation, channel, closing, pool, request, visit};
use crate::{
    AllocationId, Answer, Confirmation, Confirmed, Decision, GivenBefore, LogEntry, OfferRule, Op,
    Plan, Reason, Request, Response, SetChannel, Step, SubjectKey, Visited,
};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

fn limits(per_hour: Option<u32>, per_day: Option<u32>) -> SetChannel {
    SetChannel {
        channel: channel(),
        per_hour,
        per_day,
        day_end_ms: None,
        given: GivenBefore::default(),
    }
}

/// Leads to the first pool, and to the second at once.
fn plan() -> Plan {
    let step = |of| Step {
        after_ms: 0,
        pool: pool(of),
        needs: Vec::new(),
    };
    let plan = Plan::new(Vec::new(), vec![step(0), step(1)], None).unwrap();
    plan.limited_by(channel())
}

fn through(i: usize) -> Request {
    Request {
        plan: Some(plan()),
        ..request(i, &pool(0))
    }
}

/// Two pools of two members each, and a channel with limits.
fn desk(per_hour: Option<u32>, per_day: Option<u32>) -> History {
    let mut history = History::of(crate::Strategy::WeightedRoundRobin, &[1000, 1000]);
    let rule = crate::Strategy::LeastLoad;
    history.set_pool(1, 1, rule, &[1000, 1000], &[]);
    history.apply(Op::SetChannel(limits(per_hour, per_day)));
    history
}

fn ask(history: &mut History, request: Request) -> Decision {
    let entry = history.apply(Op::Decide(vec![request]));
    let Answer::Decided(mut decisions) = entry.outcome.answer else {
        panic!("{entry:?}")
    };
    decisions.remove(0)
}

fn is_given(decision: &Decision) -> bool {
    matches!(decision, Decision::Assigned { .. })
}

/// What the sweeper does when something is due.
fn sweep(history: &mut History) -> LogEntry {
    let entry = history.apply(Op::Expire { limit: 100 });
    assert_eq!(history.corp.problems(), Vec::<String>::new());
    entry
}

fn woken(entry: &LogEntry) -> Vec<AllocationId> {
    let woken = entry.outcome.woken.iter();
    woken.map(|woken| woken.allocation).collect()
}

#[test]
fn who_comes_through_a_full_channel_waits_until_the_hour_ends_and_holds_up_nobody() {
    let mut history = desk(Some(2), None);
    assert!(is_given(&ask(&mut history, through(1))));
    assert!(is_given(&ask(&mut history, through(2))));
    // Members are free in both pools his plan leads to.
    let third = ask(&mut history, through(3));
    assert_eq!(
        third,
        Decision::Waiting {
            allocation: allocation(3)
        }
    );
    let end_ms = history
        .corp
        .channel_is_full_until_ms(&channel(), history.now_ms);
    let end_ms = end_ms.unwrap();
    assert!(end_ms > BEGIN_MS && end_ms <= BEGIN_MS + HOUR);
    // Who comes later another way is served at once.
    assert!(is_given(&ask(&mut history, request(4, &pool(0)))));
    assert!(is_given(&ask(&mut history, request(5, &pool(1)))));
    history.now_ms = end_ms - 1;
    assert_eq!(woken(&sweep(&mut history)), []);
    history.now_ms = end_ms;
    assert_eq!(woken(&sweep(&mut history)), [allocation(3)]);
    assert!(is_given(&ask(&mut history, through(6))));
    assert!(!is_given(&ask(&mut history, through(7))));
}

#[test]
fn a_day_is_longer_than_its_hours() {
    let mut history = desk(Some(2), Some(3));
    history.apply(Op::SetChannel(SetChannel {
        day_end_ms: Some(BEGIN_MS + 2 * HOUR),
        ..limits(Some(2), Some(3))
    }));
    let asked = [1, 2, 3, 4].map(|i| is_given(&ask(&mut history, through(i))));
    assert_eq!(asked, [true, true, false, false]);
    history.now_ms = BEGIN_MS + HOUR;
    assert_eq!(woken(&sweep(&mut history)), [allocation(3)]);
    let until_ms = history
        .corp
        .channel_is_full_until_ms(&channel(), history.now_ms);
    assert_eq!(until_ms, Some(BEGIN_MS + 2 * HOUR));
    history.now_ms = BEGIN_MS + 2 * HOUR;
    assert_eq!(woken(&sweep(&mut history)), [allocation(4)]);
}

#[test]
fn what_was_given_before_counts_once() {
    let mut history = desk(None, None);
    let given = GivenBefore {
        in_hour: 1,
        on_day: 3,
    };
    let told = SetChannel {
        given,
        ..limits(Some(2), Some(9))
    };
    history.apply(Op::SetChannel(told.clone()));
    assert!(is_given(&ask(&mut history, through(1))));
    assert!(!is_given(&ask(&mut history, through(2))));
    let again = SetChannel {
        per_hour: Some(3),
        ..told
    };
    // What was counted stays, and who waited is served.
    let entry = history.apply(Op::SetChannel(again.clone()));
    assert_eq!(woken(&entry), [allocation(2)]);
    assert!(!is_given(&ask(&mut history, through(3))));
    let entry = history.apply(Op::SetChannel(again));
    assert_eq!(
        entry.outcome.answer,
        Answer::Member(crate::MemberChange::Same)
    );
    let entry = history.apply(Op::SetChannel(limits(None, None)));
    assert_eq!(woken(&entry), [allocation(3)]);
    assert!(is_given(&ask(&mut history, through(4))));
    assert_eq!(history.corp.problems(), Vec::<String>::new());
}

/// Who does not add the member gives his place in the channel back; if he comes late after all he counts, whoever has come
/// meanwhile.
#[test]
fn holds_that_come_to_nothing_do_not_count_and_late_ones_do() {
    let mut history = desk(Some(1), None);
    let visitor = |i| crate::Visit {
        plan: Some(plan()),
        ..visit(i, &pool(0))
    };
    let visited = |history: &mut History, i| {
        let entry = history.apply(Op::Visit(vec![visitor(i)]));
        let Answer::Visited(mut visited) = entry.outcome.answer else {
            panic!("no visits")
        };
        visited.remove(0)
    };
    let Visited::Held { member, .. } = visited(&mut history, 1) else {
        panic!("nobody is held")
    };
    let waits = visited(&mut history, 2);
    assert!(matches!(waits, Visited::Waiting { .. }));
    history.apply(Op::Close(vec![closing(visitor(2).subject)]));
    history.now_ms += 5 * MINUTE;
    sweep(&mut history);
    // His place is free, and taken by somebody else before he comes.
    assert!(is_given(&ask(&mut history, through(3))));
    let late = Confirmation {
        allocation: allocation(9),
        pool: pool(0),
        subject: SubjectKey::from_bytes([9; 16]),
        member,
        visitor: Some(visitor(1).subject),
        slot: None,
        channel: None,
    };
    let entry = history.apply(Op::Confirm(vec![late]));
    let Answer::Confirmed(confirmed) = entry.outcome.answer else {
        panic!("nothing is confirmed")
    };
    assert!(matches!(confirmed[0], Confirmed::Late { .. }));
    history.apply(Op::Close(vec![closing(through(3).subject)]));
    // Two are given where one may be: what is settled stays.
    history.apply(Op::SetChannel(limits(Some(2), None)));
    assert!(!is_given(&ask(&mut history, through(4))));
}

#[test]
fn an_offer_counts_once_however_often_it_moves() {
    let mut history = desk(Some(2), None);
    history.offers = Some(OfferRule {
        accept_ms: MINUTE,
        tries: 3,
    });
    let rule = crate::Strategy::WeightedRoundRobin;
    history.set_pool(0, 2, rule, &[1000, 1000], &[]);
    let Decision::Offered { member, .. } = ask(&mut history, through(1)) else {
        panic!("nobody is asked")
    };
    history.apply(Op::Respond(Response {
        allocation: allocation(1),
        pool: pool(0),
        subject: through(1).subject,
        member,
        epoch: 0,
        declined: Some(Reason::new("busy").unwrap()),
    }));
    let offered = |decision| matches!(decision, Decision::Offered { .. });
    assert!(offered(ask(&mut history, through(2))));
    assert!(!offered(ask(&mut history, through(3))));
    // Whom nobody accepted yet came to nothing when he leaves.
    let entry = history.apply(Op::Close(vec![closing(through(2).subject)]));
    assert_eq!(woken(&entry), [allocation(3)]);
}

#[derive(Debug, Clone)]
enum Deed {
    Wait(u64),
    Ask(bool),
    Visit,
    Close(usize),
    Expire,
    Limits(u32, u32),
}

fn steps() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => (0..20 * MINUTE).prop_map(Deed::Wait),
        1 => (HOUR..30 * HOUR).prop_map(Deed::Wait),
        6 => (0..4_u8).prop_map(|i| Deed::Ask(i > 0)),
        4 => Just(Deed::Visit),
        2 => (0..30_usize).prop_map(Deed::Close),
        2 => Just(Deed::Expire),
        1 => (1..4_u32, 2..9_u32).prop_map(|(hour, day)| Deed::Limits(hour, day)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Counted from outside: of those who came through the channel and have a member, or had him as more than a hold, no
    /// window has more than the largest limit that was set in it.
    #[test]
    fn no_window_has_more_than_the_limit(steps in vec(steps(), 1..120)) {
        let (most_hour, most_day) = (3, 8);
        let mut history = desk(Some(most_hour), Some(most_day));
        // When each was given: of holds that are over nothing is left.
        let mut given: Vec<(AllocationId, u64)> = Vec::new();
        let mut limit_of: Vec<(u64, u32, u32)> = vec![(0, most_hour, most_day)];
        for (i, step) in steps.into_iter().enumerate() {
            let op = match step {
                Deed::Wait(ms) => {
                    history.now_ms += ms;
                    continue;
                }
                Deed::Ask(true) => Op::Decide(vec![through(i)]),
                Deed::Ask(false) => Op::Decide(vec![request(i, &pool(0))]),
                Deed::Visit => Op::Visit(vec![crate::Visit {
                    plan: Some(plan()),
                    ..visit(i, &pool(0))
                }]),
                Deed::Close(of) => Op::Close(vec![closing(crate::histories::subject(of))]),
                Deed::Expire => Op::Expire { limit: 3 },
                Deed::Limits(hour, day) => {
                    limit_of.push((history.now_ms, hour, day));
                    Op::SetChannel(limits(Some(hour), Some(day)))
                }
            };
            let held = |history: &History| -> Vec<(AllocationId, bool)> {
                let all = history.corp.allocations();
                let all = all.filter(|one| one.route.is_some() && one.member.is_some());
                all.map(|one| (one.allocation, one.hold.is_some())).collect()
            };
            let before = held(&history);
            let now_ms = history.now_ms;
            history.apply(op);
            let after = held(&history);
            for (id, is_hold) in &before {
                let is_gone = !after.iter().any(|(other, _)| other == id);
                if is_gone && *is_hold {
                    given.retain(|(other, _)| other != id);
                }
            }
            for (id, _) in &after {
                if !before.iter().any(|(other, _)| other == id) {
                    given.push((*id, now_ms));
                }
            }
            for (window, most) in [(HOUR, 0), (DAY, 1)] {
                let begin_ms = now_ms / window * window;
                let n = given.iter().filter(|(_, at_ms)| *at_ms >= begin_ms).count();
                let in_force = limit_of.iter().rev();
                let until = in_force.clone().position(|(at_ms, ..)| *at_ms < begin_ms);
                let in_force = in_force.take(until.map_or(usize::MAX, |at| at + 1));
                let largest = in_force.map(|(_, hour, day)| [*hour, *day][most]).max();
                assert!(n <= largest.unwrap() as usize, "{n} of {largest:?}");
            }
            assert_eq!(history.corp.problems(), Vec::<String>::new());
        }
    }
}
