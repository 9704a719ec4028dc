//! Limits by the hour, by the day and by pool: never exceeded in any window of the clock, and what is counted agrees with
//! what was given.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use super::Corp;
use crate::Strategy as Rule;
use crate::{
    AllocationId, Answer, ChannelId, Closing, Decision, Limits, MemberId, Op, Outcome, PoolConfig,
    PoolId, PresenceChange, Reason, Request, SetMember, SubjectKey, Visit, Visited, Weight,
};

const T0: u64 = 1_792_000_000_000;
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const MEMBERS: usize = 3;
const POOLS: usize = 2;
const HOLD: u64 = 10 * MINUTE;

fn member(i: usize) -> MemberId {
    MemberId::new(format!("m{i}")).unwrap()
}

fn pool(i: usize) -> PoolId {
    PoolId::new(format!("g{i}")).unwrap()
}

/// The first end of a day after `at_ms`, of days that end at `offset` after midnight UTC.
fn day_end(at_ms: u64, offset: u64) -> u64 {
    let mut end = at_ms / DAY * DAY + offset;
    while end <= at_ms {
        end += DAY;
    }
    while end > at_ms + DAY {
        end -= DAY;
    }
    end
}

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Ask(usize),
    Visit(usize),
    Again(usize),
    Close(usize),
    Expire,
    Presence(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..40 * MINUTE).prop_map(Step::Wait),
        1 => (HOUR..30 * HOUR).prop_map(Step::Wait),
        6 => (0..POOLS).prop_map(Step::Ask),
        3 => (0..POOLS).prop_map(Step::Visit),
        2 => (0..40_usize).prop_map(Step::Again),
        5 => (0..40_usize).prop_map(Step::Close),
        2 => Just(Step::Expire),
        1 => (0..MEMBERS, any::<bool>()).prop_map(|(i, on)| Step::Presence(i, on)),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let some = || option::of(0..5_u32);
    (some(), some(), option::of(0..8_u32)).prop_map(|(at_a_time, per_hour, per_day)| Limits {
        at_a_time,
        per_hour,
        per_day,
    })
}

#[derive(Debug, Clone)]
struct Rules {
    /// Of each member: over all pools, in each, and when his days end.
    members: Vec<(Limits, Vec<Limits>, u64)>,
    fair: bool,
}

fn rules() -> impl Strategy<Value = Rules> {
    let offset = prop_oneof![
        Just(0),
        Just(16 * HOUR),
        Just(18 * HOUR + 15 * MINUTE),
        Just(DAY - 1)
    ];
    let one = (limits(), vec(limits(), POOLS), offset);
    (vec(one, MEMBERS), any::<bool>()).prop_map(|(members, fair)| Rules { members, fair })
}

/// Somebody who was given to a member.
#[derive(Debug, Clone)]
struct Gift {
    allocation: AllocationId,
    subject: SubjectKey,
    member: MemberId,
    pool: PoolId,
    at_ms: u64,
    /// Of a hold that began anew: when it did.
    counts_ms: u64,
    is_hold: bool,
    is_open: bool,
}

/// A corp, and what its limits are about, counted another way.
struct Desk {
    rules: Rules,
    corp: Corp,
    now: u64,
    n: u128,
    on: Vec<bool>,
    gifts: Vec<Gift>,
}

impl Desk {
    fn new(rules: Rules) -> Self {
        let mut desk = Self {
            corp: Corp::new(),
            now: T0,
            n: 0,
            on: vec![false; MEMBERS],
            gifts: Vec::new(),
            rules: rules.clone(),
        };
        for (i, (limits, _, offset)) in rules.members.iter().enumerate() {
            let change = SetMember {
                member: member(i),
                limits: *limits,
                day_end_ms: Some(day_end(T0, *offset)),
                blocked: None,
                given: None,
            };
            desk.corp.apply(&Op::SetMember(change), T0);
        }
        let strategy = match rules.fair {
            true => Rule::WeightedRoundRobin,
            false => Rule::LeastLoad,
        };
        for g in 0..POOLS {
            let members = (0..MEMBERS).map(|i| (member(i), Weight::ONE));
            let limits = rules.members.iter().enumerate();
            let limits = limits.map(|(i, (_, of_pools, _))| (member(i), of_pools[g]));
            let config = PoolConfig::new(pool(g), 1, strategy, members).unwrap();
            let op = Op::SetPool(config.with_limits(limits));
            desk.corp.apply(&op, T0);
        }
        for i in 0..MEMBERS {
            desk.presence(i, true);
        }
        desk
    }

    fn presence(&mut self, i: usize, on: bool) {
        self.on[i] = on;
        self.apply(Op::Presence(vec![PresenceChange {
            member: member(i),
            lease_until_ms: if on { T0 * 2 } else { 0 },
        }]));
    }

    fn next(&mut self) -> (AllocationId, SubjectKey) {
        self.n += 1;
        let subject = SubjectKey::from_bytes(self.n.to_be_bytes());
        (AllocationId(uuid::Uuid::from_u128(self.n)), subject)
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Wait(ms) => self.now += ms,
            Step::Ask(g) => {
                let (allocation, subject) = self.next();
                self.apply(Op::Decide(vec![Request {
                    allocation,
                    pool: pool(g),
                    subject,
                    holder: None,
                    request: None,
                    echo: false,
                    plan: None,
                }]));
            }
            Step::Visit(g) => {
                let (allocation, subject) = self.next();
                self.visit(allocation, subject, pool(g));
            }
            Step::Again(n) => {
                let holds: Vec<_> = self.gifts.iter().filter(|gift| gift.is_hold).collect();
                if let Some(gift) = holds.get(n % holds.len().max(1)) {
                    let (allocation, subject) = (gift.allocation, gift.subject);
                    let pool = gift.pool.clone();
                    self.visit(allocation, subject, pool);
                }
            }
            Step::Close(n) => {
                let open: Vec<_> = self.gifts.iter().filter(|gift| gift.is_open).collect();
                if let Some(gift) = open.get(n % open.len().max(1)) {
                    let closing = Closing {
                        subject: gift.subject,
                        pool: None,
                        member: None,
                        allocation: None,
                        reason: Reason::new("left").unwrap(),
                    };
                    self.apply(Op::Close(vec![closing]));
                }
            }
            Step::Expire => {
                self.apply(Op::Expire { limit: 256 });
            }
            Step::Presence(i, on) => self.presence(i, on),
        }
    }

    fn visit(&mut self, allocation: AllocationId, subject: SubjectKey, pool: PoolId) {
        self.apply(Op::Visit(vec![Visit {
            allocation,
            pool,
            subject,
            channel: ChannelId::new("page").unwrap(),
            hold_ms: HOLD,
            rest_ms: 0,
            plan: None,
        }]));
    }

    fn apply(&mut self, op: Op) -> Outcome {
        let outcome = self.corp.apply(&op, self.now);
        match (&op, &outcome.answer) {
            (Op::Decide(asked), Answer::Decided(decisions)) => {
                if let Decision::Assigned { member, .. } = &decisions[0] {
                    let (asked, member) = (&asked[0], member.clone());
                    self.gave(asked.allocation, asked.subject, member, &asked.pool, false);
                }
            }
            (Op::Visit(visits), Answer::Visited(visited)) => {
                let mut gifts = self.gifts.iter_mut();
                if let Some(gift) = gifts.find(|gift| gift.allocation == visits[0].allocation)
                    && gift.counts_ms + HOLD <= self.now
                {
                    gift.counts_ms = self.now;
                }
                if let Visited::Held { member, .. } = &visited[0] {
                    let (visit, member) = (&visits[0], member.clone());
                    self.gave(visit.allocation, visit.subject, member, &visit.pool, true);
                }
            }
            (_, Answer::Closed(closed)) => {
                closed
                    .iter()
                    .for_each(|closed| self.ended(closed.allocation));
            }
            (_, Answer::Expired { expired, .. }) => {
                expired
                    .iter()
                    .for_each(|expired| self.ended(expired.allocation));
            }
            _ => {}
        }
        for woken in &outcome.woken {
            let member = woken.member.clone();
            let is_hold = woken.hold.is_some();
            self.gave(
                woken.allocation,
                woken.subject,
                member,
                &woken.pool,
                is_hold,
            );
        }
        self.check();
        if matches!(op, Op::Wake { .. }) {
            return outcome;
        }
        if outcome.more {
            // As whoever looks at the waiting lists does.
            for g in 0..POOLS {
                let (pool, limit) = (pool(g), 64);
                self.apply(Op::Wake { pool, limit });
            }
        }
        self.nobody_waits_in_vain();
        outcome
    }

    fn gave(
        &mut self,
        allocation: AllocationId,
        subject: SubjectKey,
        member: MemberId,
        pool: &PoolId,
        is_hold: bool,
    ) {
        self.gifts.push(Gift {
            allocation,
            subject,
            member,
            pool: pool.clone(),
            at_ms: self.now,
            counts_ms: self.now,
            is_hold,
            is_open: true,
        });
    }

    /// A hold that came to nothing is as if it had not been given.
    fn ended(&mut self, allocation: AllocationId) {
        let gift = self
            .gifts
            .iter_mut()
            .find(|gift| gift.allocation == allocation);
        if let Some(gift) = gift {
            gift.is_open = false;
        }
        self.gifts.retain(|gift| gift.is_open || !gift.is_hold);
    }

    /// Open, in this hour, and on this day; what was given then, or what counts.
    fn counted(&self, i: usize, pool: Option<&PoolId>, when_ms: impl Fn(&Gift) -> u64) -> [u32; 3] {
        let day_end = day_end(self.now, self.rules.members[i].2);
        let hour_end = day_end - (day_end - self.now - 1) / HOUR * HOUR;
        let id = member(i);
        let mut counted = [0; 3];
        for gift in &self.gifts {
            if gift.member == id && pool.is_none_or(|pool| gift.pool == *pool) {
                counted[0] += u32::from(gift.is_open);
                counted[1] += u32::from(when_ms(gift) + HOUR >= hour_end);
                counted[2] += u32::from(when_ms(gift) + DAY >= day_end);
            }
        }
        counted
    }

    fn check(&self) {
        let views: Vec<_> = self.corp.members().collect();
        for (i, (of_all, of_pools, offset)) in self.rules.members.iter().enumerate() {
            within(self.counted(i, None, |gift| gift.at_ms), of_all);
            for (g, limits) in of_pools.iter().enumerate() {
                within(self.counted(i, Some(&pool(g)), |gift| gift.at_ms), limits);
            }
            let counted = self.counted(i, None, |gift| gift.counts_ms);
            let view = views.iter().find(|view| view.member == member(i)).unwrap();
            assert_eq!(view.load, counted[0]);
            let given = view
                .given
                .expect("he was told when his day ends")
                .at(self.now);
            assert_eq!(given.limits, *of_all);
            assert_eq!([given.in_hour, given.on_day], counted[1..]);
            assert_eq!(given.day_end_ms, day_end(self.now, *offset));
        }
        assert_eq!(self.corp.problems(), Vec::<String>::new());
    }

    /// Where somebody waits, everybody who is on has reached a limit.
    fn nobody_waits_in_vain(&self) {
        for g in (0..POOLS).filter(|g| !self.corp.waiting(&pool(*g)).is_empty()) {
            for (i, (of_all, of_pools, _)) in self.rules.members.iter().enumerate() {
                let is_free = self.on[i]
                    && !reached(self.counted(i, None, |gift| gift.counts_ms), of_all)
                    && !reached(
                        self.counted(i, Some(&pool(g)), |gift| gift.counts_ms),
                        &of_pools[g],
                    );
                assert!(!is_free, "m{i} is free, and somebody waits in g{g}");
            }
        }
    }
}

fn pairs(counted: [u32; 3], limits: &Limits) -> [(u32, u32); 3] {
    let most = [limits.at_a_time, limits.per_hour, limits.per_day];
    std::array::from_fn(|n| (counted[n], most[n].unwrap_or(u32::MAX)))
}

fn within(counted: [u32; 3], limits: &Limits) {
    for (n, most) in pairs(counted, limits) {
        assert!(n <= most, "{counted:?} of {limits:?}");
    }
}

fn reached(counted: [u32; 3], limits: &Limits) -> bool {
    pairs(counted, limits).iter().any(|(n, most)| n >= most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_limit_is_ever_exceeded_and_nobody_waits_in_vain(rules in rules(), steps in vec(step(), 1..150)) {
        let mut desk = Desk::new(rules);
        for step in &steps {
            desk.take(step);
        }
    }
}
