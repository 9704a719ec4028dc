//! Random histories of a corp, for tests: every operation, with ids that mean something. The same seed gives the same one.

mod seats;

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::model::Corp;
use crate::{
    Adjustment, AllocationId, ChannelId, Closing, Confirmation, GivenBefore, Limits, LogEntry,
    MemberId, OfferRule, Op, Plan, PoolConfig, PoolId, PresenceChange, Reason, Reassignment,
    Request, RequestId, Response, SetChannel, SetMember, SetSkills, SetSlots, Settlement,
    SettlementOutcome, Skill, SlotId, Step, Strategy, SubjectKey, Visit, Weight,
};

pub(crate) const BEGIN_MS: u64 = 1_792_000_000_000;
const MINUTE_MS: u64 = 60_000;
const WEIGHTS: [u32; 5] = [0, 500, 1000, 1000, 3000];

/// A small generator that gives the same numbers everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

pub(crate) fn member(i: usize) -> MemberId {
    MemberId::new(format!("m{i}")).unwrap()
}

pub(crate) fn pool(i: usize) -> PoolId {
    PoolId::new(format!("p{i}")).unwrap()
}

pub(crate) fn subject(i: usize) -> SubjectKey {
    SubjectKey::from_bytes((i as u128 + 1).to_be_bytes())
}

pub(crate) fn allocation(i: usize) -> AllocationId {
    AllocationId(Uuid::from_u128(i as u128 + 1))
}

pub(crate) fn request(i: usize, of: &PoolId) -> Request {
    Request {
        allocation: allocation(i),
        pool: of.clone(),
        subject: subject(i),
        holder: None,
        request: None,
        echo: false,
        plan: None,
    }
}

pub(crate) fn visit(i: usize, of: &PoolId) -> Visit {
    Visit {
        allocation: allocation(i),
        pool: of.clone(),
        subject: subject(i),
        channel: channel(),
        hold_ms: 5 * MINUTE_MS,
        rest_ms: MINUTE_MS,
        plan: None,
    }
}

pub(crate) fn channel() -> ChannelId {
    ChannelId::new("c").unwrap()
}

pub(crate) fn presence(members: impl IntoIterator<Item = usize>, lease_until_ms: u64) -> Op {
    let change = |i| PresenceChange {
        member: member(i),
        lease_until_ms,
    };
    Op::Presence(members.into_iter().map(change).collect())
}

pub(crate) fn closing(of: SubjectKey) -> Closing {
    Closing {
        subject: of,
        pool: None,
        member: None,
        allocation: None,
        reason: Reason::new("left").unwrap(),
    }
}

/// A corp and the log it has written.
pub(crate) struct History {
    pub(crate) corp: Corp,
    pub(crate) now_ms: u64,
    pub(crate) entries: Vec<LogEntry>,
    made: usize,
    /// How pools that are put from now on offer.
    pub(crate) offers: Option<OfferRule>,
    /// How fast they hand out those who waited.
    drip_ms: Option<u64>,
}

impl History {
    pub(crate) fn new() -> Self {
        Self {
            corp: Corp::new(),
            now_ms: BEGIN_MS,
            entries: Vec::new(),
            made: 0,
            offers: None,
            drip_ms: None,
        }
    }

    pub(crate) fn apply(&mut self, op: Op) -> LogEntry {
        let outcome = self.corp.apply(&op, self.now_ms);
        let entry = LogEntry {
            seq: self.corp.seq(),
            at_ms: self.now_ms,
            op,
            outcome,
            payload: None,
        };
        self.entries.push(entry.clone());
        entry
    }

    /// A pool of members 0, 1, … with these weights in thousandths, all of them there for a year.
    pub(crate) fn of(strategy: Strategy, weights: &[u32]) -> Self {
        let mut history = Self::new();
        history.set_pool(0, 1, strategy, weights, &[]);
        let until_ms = history.now_ms + 365 * 24 * 60 * MINUTE_MS;
        history.apply(presence(0..weights.len(), until_ms));
        history
    }

    pub(crate) fn set_pool(
        &mut self,
        of: usize,
        version: u64,
        strategy: Strategy,
        weights: &[u32],
        limits: &[(usize, Limits)],
    ) -> LogEntry {
        let members = weights.iter().enumerate();
        let members = members.map(|(i, weight)| {
            let weight = Weight::from_thousandths(*weight).unwrap();
            (member(i), weight)
        });
        let config = PoolConfig::new(pool(of), version, strategy, members).unwrap();
        let limits = limits.iter().map(|(i, limits)| (member(*i), *limits));
        let config = config.with_limits(limits).with_offers(self.offers);
        let config = config.with_drip(self.drip_ms);
        self.apply(Op::SetPool(config))
    }

    /// Somebody asks for a customer who was not there before.
    pub(crate) fn decide(&mut self, of: usize) -> LogEntry {
        self.made += 1;
        let request = request(self.made, &pool(of));
        self.apply(Op::Decide(vec![request]))
    }

    pub(crate) fn last_made(&self) -> AllocationId {
        allocation(self.made)
    }

    /// `n` entries with everything that happens.
    pub(crate) fn random(seed: u64, n: usize) -> Self {
        let mut random = Random(seed);
        let mut seats = Random(seed ^ 0x5ea7);
        let mut history = Self::new();
        for of in 0..2 {
            history.random_pool(&mut random, of, 1);
        }
        let until_ms = history.now_ms + 60 * MINUTE_MS;
        history.apply(presence(0..6, until_ms));
        while history.entries.len() < n {
            history.now_ms += [0, 1, 1000, 1000, MINUTE_MS, 10 * MINUTE_MS][random.below(6)];
            history.random_step(&mut random);
            history.random_seats(&mut seats);
            assert_eq!(history.corp.problems(), Vec::<String>::new());
        }
        history
    }

    fn random_limits(random: &mut Random) -> Limits {
        let mut one = |n| random.one_in(3).then(|| 1 + random.below(n) as u32);
        Limits {
            at_a_time: one(4),
            per_hour: one(5),
            per_day: one(20),
        }
    }

    fn random_pool(&mut self, random: &mut Random, of: usize, version: u64) {
        let strategy = match of {
            0 => Strategy::WeightedRoundRobin,
            _ => Strategy::LeastLoad,
        };
        let weights: Vec<u32> = (0..3 + random.below(4))
            .map(|_| WEIGHTS[random.below(5)])
            .collect();
        let limits = match random.one_in(2) {
            true => vec![(random.below(3), Self::random_limits(random))],
            false => Vec::new(),
        };
        self.offers = random.one_in(3).then(|| OfferRule {
            accept_ms: [1000, 5 * MINUTE_MS][random.below(2)],
            tries: 1 + random.below(3) as u32,
        });
        self.drip_ms = random.one_in(6).then_some(MINUTE_MS);
        self.set_pool(of, version, strategy, &weights, &limits);
    }

    fn random_step(&mut self, random: &mut Random) {
        let (of, who) = (random.below(2), random.below(6));
        let open: Vec<_> = self.corp.allocations().collect();
        let some = (!open.is_empty()).then(|| open[random.below(open.len())].clone());
        let later_ms = self.now_ms + [1000, 10 * MINUTE_MS, 60 * MINUTE_MS][random.below(3)];
        let op = match (random.below(22), some) {
            (21, _) => Op::SetChannel(Self::random_channel(random)),
            (19, _) => Op::Advance { limit: 5 },
            (20, _) => Op::SetSkills(SetSkills {
                member: member(who),
                skills: Self::random_skills(random),
            }),
            (0..=4, _) => Op::Decide(self.requests(random)),
            (5..=6, _) => {
                self.made += 1;
                let mut visit = visit(self.made, &pool(of));
                visit.plan = Self::random_plan(random);
                Op::Visit(vec![visit])
            }
            (7, Some(some)) => Op::Confirm(vec![self.confirmation(random, some.subject, of)]),
            (8..=9, Some(some)) => Op::Close(vec![closing(some.subject)]),
            (10, Some(some)) => Op::Reassign(Reassignment {
                allocation: some.allocation,
                pool: some.pool,
                subject: some.subject,
                to: random.one_in(2).then(|| member(who)),
                exclude: vec![member(random.below(6))],
                expect_epoch: some.epoch,
            }),
            (11, Some(some)) => Op::Settle(Settlement {
                allocation: some.allocation,
                pool: some.pool,
                subject: some.subject,
                outcome: match random.one_in(2) {
                    true => SettlementOutcome::Done,
                    false => SettlementOutcome::Kept(member(who)),
                },
                expect: None,
            }),
            (16..=17, Some(some)) => Op::Respond(Response {
                allocation: some.allocation,
                pool: some.pool,
                subject: some.subject,
                member: some.member.unwrap_or_else(|| member(who)),
                epoch: some.epoch,
                declined: (!random.one_in(3)).then(|| Reason::new("busy").unwrap()),
            }),
            (18, _) => Op::Reclaim { limit: 5 },
            (12, _) => Op::Expire { limit: 10 },
            (13, _) => {
                let blocked = random.one_in(4).then(|| Reason::new("holiday").unwrap());
                Op::SetMember(SetMember {
                    member: member(who),
                    limits: Self::random_limits(random),
                    day_end_ms: None,
                    blocked,
                    given: random.one_in(3).then(|| GivenBefore {
                        in_hour: random.below(3) as u32,
                        on_day: 2 + random.below(3) as u32,
                    }),
                })
            }
            (14, _) if random.one_in(6) => {
                return self.random_pool(random, of, self.entries.len() as u64);
            }
            (14, _) if random.one_in(4) => Op::SetSlots(SetSlots {
                channel: channel(),
                member: member(who),
                add: vec![(SlotId::new(format!("s{who}")).unwrap(), self.now_ms)],
                remove: Vec::new(),
            }),
            (14, _) if random.one_in(3) => Op::Adjust(Adjustment {
                pool: pool(of),
                member: member(who),
                thousandths: random.below(3000) as i64 - 1000,
            }),
            (14, _) if random.one_in(8) => Op::Rebuilt { generation: 2 },
            (14, _) => Op::Wake {
                pool: pool(of),
                limit: 5,
            },
            _ => match random.one_in(5) {
                true => presence([who], 0),
                false => presence([who, random.below(6)], later_ms),
            },
        };
        self.apply(op);
    }

    fn random_channel(random: &mut Random) -> SetChannel {
        let mut one = |n| (!random.one_in(3)).then(|| 1 + random.below(n) as u32);
        SetChannel {
            channel: channel(),
            per_hour: one(3),
            per_day: one(8),
            day_end_ms: None,
            given: GivenBefore::default(),
        }
    }

    fn random_skills(random: &mut Random) -> BTreeSet<Skill> {
        let mut skills = BTreeSet::new();
        for name in ["en", "vip"] {
            if random.one_in(2) {
                skills.insert(Skill::new(name).unwrap());
            }
        }
        skills
    }

    fn random_plan(random: &mut Random) -> Option<Plan> {
        if !random.one_in(3) {
            return None;
        }
        let mut steps = Vec::new();
        for i in 0..1 + random.below(3) {
            steps.push(Step {
                after_ms: [0, 1000, MINUTE_MS][if i == 0 { 0 } else { random.below(3) }],
                pool: pool(random.below(3)),
                needs: Self::random_skills(random).into_iter().collect(),
            });
        }
        let prefer = random.one_in(2).then(|| member(random.below(6)));
        let person = random.one_in(4).then_some(10 * MINUTE_MS);
        let plan = Plan::new(prefer.into_iter().collect(), steps, person).ok()?;
        let avoid = (0..random.below(3)).map(|_| member(random.below(6)));
        let plan = plan.avoiding(avoid.collect()).ok()?;
        match random.one_in(2) {
            true => Some(plan.limited_by(channel())),
            false => Some(plan),
        }
    }

    fn requests(&mut self, random: &mut Random) -> Vec<Request> {
        let mut requests = Vec::new();
        for _ in 0..1 + random.below(3) {
            self.made += 1;
            let mut request = request(self.made, &pool(random.below(3)));
            request.request = random
                .one_in(4)
                .then(|| RequestId::new(format!("r{}", random.below(20))).unwrap());
            request.plan = Self::random_plan(random);
            requests.push(request);
        }
        requests
    }

    /// The visitor is known, or nobody knows who came.
    fn confirmation(
        &mut self,
        random: &mut Random,
        visitor: SubjectKey,
        of: usize,
    ) -> Confirmation {
        self.made += 1;
        Confirmation {
            allocation: allocation(self.made),
            pool: pool(of),
            subject: subject(self.made),
            member: member(random.below(6)),
            visitor: (!random.one_in(3)).then_some(visitor),
            slot: None,
            channel: random.one_in(2).then(channel),
        }
    }
}
