//! Limits that are told anew: longer and shorter days, limits that change, limits of what stands already.

use super::{Corp, Given};
use crate::{
    AllocationId, Answer, Closing, Decision, Limits, MemberId, Op, PoolConfig, PoolId,
    PresenceChange, Reason, Request, SetMember, Strategy, SubjectKey, Weight,
};

const T0: u64 = 1_792_000_000_000;
const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

/// One member, alone in one pool.
struct Alone {
    corp: Corp,
    n: u128,
}

fn member() -> MemberId {
    MemberId::new("ma").unwrap()
}

fn pool() -> PoolId {
    PoolId::new("g").unwrap()
}

fn subject(n: u128) -> SubjectKey {
    SubjectKey::from_bytes(n.to_be_bytes())
}

fn per_day(n: u32) -> Limits {
    Limits {
        per_day: Some(n),
        ..Limits::NONE
    }
}

impl Alone {
    fn new() -> Self {
        let mut alone = Self {
            corp: Corp::new(),
            n: 0,
        };
        alone.pool(1, Limits::NONE);
        let on = PresenceChange {
            member: member(),
            lease_until_ms: T0 * 2,
        };
        alone.corp.apply(&Op::Presence(vec![on]), T0);
        alone
    }

    fn pool(&mut self, version: u64, limits: Limits) {
        let members = [(member(), Weight::ONE)];
        let config = PoolConfig::new(pool(), version, Strategy::WeightedRoundRobin, members);
        let config = config.unwrap().with_limits([(member(), limits)]);
        self.corp.apply(&Op::SetPool(config), T0);
    }

    fn tell(&mut self, limits: Limits, day_end_ms: Option<u64>, now_ms: u64) {
        let change = SetMember {
            member: member(),
            limits,
            day_end_ms,
            blocked: None,
            given: None,
        };
        self.corp.apply(&Op::SetMember(change), now_ms);
    }

    fn ask(&mut self, now_ms: u64) -> bool {
        self.n += 1;
        let request = Request {
            allocation: AllocationId(uuid::Uuid::from_u128(self.n)),
            pool: pool(),
            subject: subject(self.n),
            holder: None,
            request: None,
            echo: false,
            plan: None,
        };
        let outcome = self.corp.apply(&Op::Decide(vec![request]), now_ms);
        let Answer::Decided(decisions) = outcome.answer else {
            panic!("it decides")
        };
        matches!(decisions[0], Decision::Assigned { .. })
    }

    fn given(&self) -> Option<Given> {
        self.corp.members().next().unwrap().given
    }

    fn is_free(&self) -> bool {
        self.corp.members().next().unwrap().eligible
    }
}

/// Clocks are set forward or back: the day is shorter or longer, and what was counted stays counted until its end.
#[test]
fn a_day_is_as_long_as_it_is_told() {
    for hours in [23, 25] {
        let mut alone = Alone::new();
        let begins = T0 + HOUR / 3;
        alone.tell(per_day(2), Some(begins), T0);
        assert!(alone.ask(begins) && alone.ask(begins + 1));
        let ends = begins + hours * HOUR;
        alone.tell(per_day(2), Some(ends), begins + 2);
        let given = alone.given().unwrap();
        assert_eq!((given.on_day, given.day_end_ms), (2, ends));
        alone.corp.apply(&Op::Note, ends - 1);
        assert!(!alone.is_free());
        alone.corp.apply(&Op::Note, ends);
        assert!(alone.is_free());
        let given = alone.given().unwrap();
        assert_eq!((given.on_day, given.day_end_ms), (0, ends + DAY));
    }
}

/// Lower than what was given: nothing more until the window ends. Higher again: at once.
#[test]
fn a_limit_may_be_changed_at_any_time() {
    let mut alone = Alone::new();
    let end = Some(T0 + HOUR);
    alone.tell(per_day(5), end, T0);
    assert!(alone.ask(T0) && alone.ask(T0) && alone.ask(T0));
    alone.tell(per_day(2), end, T0);
    assert!(!alone.is_free());
    alone.tell(per_day(4), end, T0);
    assert!(alone.is_free());
    assert_eq!(alone.given().unwrap().on_day, 3);
    alone.tell(Limits::NONE, None, T0);
    assert_eq!(alone.given(), None, "nothing is counted that nobody limits");
    alone.tell(per_day(1), end, T0);
    assert_eq!(alone.given().unwrap().on_day, 0, "it begins anew");
}

/// What stood before a pool's limits does not count against them.
#[test]
fn a_cap_of_a_pool_counts_what_is_given_from_then_on() {
    let mut alone = Alone::new();
    assert!(alone.ask(T0) && alone.ask(T0) && alone.ask(T0));
    let cap = Limits {
        at_a_time: Some(2),
        ..Limits::NONE
    };
    alone.pool(2, cap);
    assert_eq!(
        [alone.ask(T0), alone.ask(T0), alone.ask(T0)],
        [true, true, false]
    );
    // One of the three from before ends: the two that count are still there.
    let mut close = |n| {
        let closing = Closing {
            subject: subject(n),
            pool: None,
            member: None,
            allocation: None,
            reason: Reason::new("left").unwrap(),
        };
        alone.corp.apply(&Op::Close(vec![closing]), T0).woken.len()
    };
    assert_eq!([close(1), close(4)], [0, 1]);
    assert_eq!(alone.corp.problems(), Vec::<String>::new());
}

/// What was seen is what it would be later, with nothing given until then.
#[test]
fn what_was_given_is_over_with_its_window() {
    let mut alone = Alone::new();
    let end = T0 + 3 * HOUR;
    alone.tell(per_day(9), Some(end), T0);
    alone.ask(T0);
    let given = alone.given().unwrap();
    let seen = |now_ms| {
        let given = given.at(now_ms);
        (
            given.in_hour,
            given.on_day,
            given.hour_end_ms,
            given.day_end_ms,
        )
    };
    assert_eq!(seen(T0 + HOUR - 1), (1, 1, T0 + HOUR, end));
    assert_eq!(seen(T0 + HOUR), (0, 1, T0 + 2 * HOUR, end));
    assert_eq!(seen(end), (0, 0, end + HOUR, end + DAY));
    for now_ms in [T0 + HOUR, end, end + 5 * DAY + 1] {
        let mut later = alone.corp.clone();
        let change = SetMember {
            blocked: Some(Reason::new("leave").unwrap()),
            limits: per_day(9),
            day_end_ms: Some(given.at(now_ms).day_end_ms),
            ..SetMember::capped(member(), None, None)
        };
        later.apply(&Op::SetMember(change), now_ms);
        let there = later.members().next().unwrap().given;
        assert_eq!(there, Some(given.at(now_ms)));
    }
}
