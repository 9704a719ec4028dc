//! The same random operations through Lua and through the model: equal answers, equal bytes, equal folds.

use std::collections::BTreeSet;

use allocation::model::Corp;
use allocation::{
    Adjustment, Assignment, ChannelId, Closing, Confirmation, GivenBefore, Limits, OfferRule, Plan,
    PoolConfig, Reassignment, RequestId, Response, SetSkills, SetSlots, Settlement, Skill, SlotId,
    Step as PlanStep, Visit,
};
use allocation::{
    Dump, Op, PresenceChange, SetChannel, SetMember, SettlementOutcome, Strategy as Rule, Weight,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::seat_steps::{SeatStep, Versions, seat_op, seat_step, stand_groups};
use crate::support::*;

const MEMBERS: [&str; 7] = [
    "m1",
    "m2",
    "m3",
    "000123",
    "1e5",
    "0x10",
    "7459035031717794886",
];
const POOLS: [&str; 4] = ["p", "q:1", "7", "r s"];
const WEIGHTS: [&str; 6] = ["0", "0.5", "1", "1.5", "2.001", "7"];
/// Sometimes Redis' clock is set back, by an hour at most.
const STEPS: [i64; 9] = [
    0,
    0,
    1,
    1000,
    1000,
    60_000,
    HOUR as i64,
    30 * HOUR as i64,
    -(HOUR as i64),
];

/// An operation that still needs to know what the state is: which epoch, which version.
#[derive(Debug, Clone)]
enum Step {
    Op(Op),
    SetPool(
        usize,
        i64,
        Rule,
        Vec<(usize, usize, Limits)>,
        (Option<OfferRule>, Option<u64>),
    ),
    /// To one of the offers, mostly.
    Respond(Index, u8, bool),
    /// The day ends so long after now.
    SetMember(SetMember, Option<u64>),
    SetChannel(SetChannel, Option<u64>),
    RemovePool(usize, i64),
    Reassign(Index, Option<usize>, Vec<usize>, bool),
    Settle(Index, u8, usize, u8),
    /// By a slot, by a visitor or by the plain way; to the member who was seen, mostly.
    Confirm(Index, u8, u8, Confirmation),
    /// Seats have nothing to do with all this, and stand in the same log.
    Seats(SeatStep),
}

fn subject_name() -> impl Strategy<Value = String> {
    (0..60u8).prop_map(|n| format!("s{n}"))
}

fn member_id() -> impl Strategy<Value = usize> {
    0..MEMBERS.len()
}

const SKILLS: [&str; 3] = ["en", "vip", "英语"];

fn skills(most: usize) -> impl Strategy<Value = BTreeSet<Skill>> {
    let skill = select(&SKILLS[..]).prop_map(|skill| Skill::new(skill).unwrap());
    proptest::collection::btree_set(skill, 0..=most)
}

/// Some lead to a pool that never is.
fn plan(likely: f64) -> impl Strategy<Value = Option<Plan>> {
    let after = select(vec![0, 0, 1000, 60_000, HOUR]);
    let to = select(vec!["p", "q:1", "7", "r s", "gone"]);
    let step = (to, after, skills(2)).prop_map(|(to, after_ms, needs)| PlanStep {
        after_ms,
        pool: pool(to),
        needs: needs.into_iter().collect(),
    });
    let person = proptest::option::weighted(0.3, select(vec![1000, HOUR]));
    // Few sets of them, so that some wait in one queue.
    let avoid = select(vec![vec![], vec![0], vec![0, 3], vec![1, 2, 3, 4, 5]]);
    let through = proptest::option::weighted(0.5, channel_id());
    let plan = (
        vec(member_id(), 0..3),
        vec(step, 1..5),
        person,
        avoid,
        through,
    );
    proptest::option::weighted(likely, plan).prop_map(|plan| {
        let (prefer, mut steps, person, avoid, through) = plan?;
        steps[0].after_ms = 0;
        let prefer = prefer.into_iter().map(|who| member(MEMBERS[who]));
        let avoid = avoid.into_iter().map(|who: usize| member(MEMBERS[who]));
        let plan = Plan::new(prefer.collect(), steps, person).ok()?;
        let plan = plan.avoiding(avoid.collect()).ok()?;
        match through {
            Some(channel) => Some(plan.limited_by(channel)),
            None => Some(plan),
        }
    })
}

fn request_step() -> impl Strategy<Value = allocation::Request> {
    let holder = proptest::option::weighted(0.6, member_id());
    let repeat = proptest::option::weighted(0.3, 0..40u8);
    (
        select(&POOLS[..]),
        subject_name(),
        holder,
        repeat,
        any::<bool>(),
        plan(0.4),
    )
        .prop_map(|(pool, subject, holder, repeat, echo, plan)| {
            let mut request = request(pool, &subject);
            request.plan = plan;
            request.holder = holder.map(|holder| member(MEMBERS[holder]));
            request.request = repeat.map(|id| RequestId::new(format!("request:{id}")).unwrap());
            request.echo = echo;
            request
        })
}

fn closing_step() -> impl Strategy<Value = Closing> {
    let pool_name = proptest::option::weighted(0.3, select(&POOLS[..]));
    let who = proptest::option::weighted(0.3, member_id());
    (subject_name(), pool_name, who, any::<bool>()).prop_map(|(subject, pool_name, who, named)| {
        let mut closing = closing(&subject);
        closing.pool = pool_name.map(pool);
        closing.member = who.map(|who| member(MEMBERS[who]));
        closing.allocation = match pool_name {
            Some(pool) if named => Some(allocation(pool, &subject)),
            _ => None,
        };
        closing
    })
}

const CHANNELS: [&str; 2] = ["c", "d:1"];

fn channel_id() -> impl Strategy<Value = ChannelId> {
    select(&CHANNELS[..]).prop_map(|name| ChannelId::new(name).unwrap())
}

fn slot_id() -> impl Strategy<Value = SlotId> {
    (0..24u8).prop_map(|n| SlotId::new(format!("pv.{n}")).unwrap())
}

fn visit_step() -> impl Strategy<Value = Visit> {
    let hold = select(vec![1000, 60_000, HOUR]);
    let rest = select(vec![0, 1000, 24 * HOUR]);
    let name = (0..12u8).prop_map(|n| format!("s{n}"));
    (
        select(&POOLS[..]),
        name,
        channel_id(),
        hold,
        rest,
        plan(0.3),
    )
        .prop_map(|(pool_name, name, channel, hold_ms, rest_ms, plan)| Visit {
            allocation: allocation(pool_name, &format!("visit {name}")),
            pool: pool(pool_name),
            subject: subject(&name),
            channel,
            hold_ms,
            rest_ms,
            plan,
        })
}

/// Customers have names of their own, and now and then those of visitors.
fn confirmation_step() -> impl Strategy<Value = Confirmation> {
    (
        (select(&POOLS[..]), subject_name(), any::<bool>()),
        member_id(),
        proptest::option::weighted(0.3, subject_name()),
        proptest::option::weighted(0.5, slot_id()),
        proptest::option::weighted(0.5, channel_id()),
    )
        .prop_map(
            |((pool_name, name, visitor_too), who, visitor, slot, channel)| Confirmation {
                allocation: allocation(pool_name, &format!("customer {name}")),
                pool: pool(pool_name),
                subject: match visitor_too {
                    true => subject(&name),
                    false => subject(&format!("customer {name}")),
                },
                member: member(MEMBERS[who]),
                visitor: visitor.map(|name| subject(&name)),
                slot,
                channel,
            },
        )
}

fn slots_step() -> impl Strategy<Value = SetSlots> {
    let since = select(vec![0, T0]);
    (
        channel_id(),
        member_id(),
        vec((slot_id(), since), 0..6),
        vec(slot_id(), 0..3),
    )
        .prop_map(|(channel, who, add, remove)| SetSlots {
            channel,
            member: member(MEMBERS[who]),
            add,
            remove,
        })
}

fn limits(likely: f64) -> impl Strategy<Value = Limits> {
    let limit = move || proptest::option::weighted(likely, 0..5u32);
    (limit(), limit(), limit()).prop_map(|(at_a_time, per_hour, per_day)| Limits {
        at_a_time,
        per_hour,
        per_day,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let strategy = select(vec![Rule::WeightedRoundRobin, Rule::LeastLoad]);
    let members = vec((member_id(), 0..WEIGHTS.len(), limits(0.25)), 0..7);
    let offers = proptest::option::weighted(
        0.5,
        (select(vec![1000, 60_000, HOUR]), 1..4u32)
            .prop_map(|(accept_ms, tries)| OfferRule { accept_ms, tries }),
    );
    let drip = proptest::option::weighted(0.2, select(vec![1, 1000, 60_000]));
    let offers = (offers, drip);
    let presence = vec(
        (
            member_id(),
            select(vec![0, 1, 60_000, 2 * HOUR, 400 * HOUR, 4000 * HOUR]),
        ),
        1..8,
    );
    let set_member = (
        member_id(),
        limits(0.5),
        0..6u8,
        proptest::option::weighted(0.3, select(vec![1, HOUR / 2, 7 * HOUR, 24 * HOUR])),
        proptest::option::weighted(0.3, (0..3u32, 2..6u32)),
    );
    let set_channel = (
        channel_id(),
        limits(0.6),
        proptest::option::weighted(0.3, select(vec![1, HOUR / 2, 7 * HOUR, 24 * HOUR])),
        (0..2u32, 0..4u32),
    );
    prop_oneof![
        4 => set_channel.prop_map(|(channel, limits, day_end, (in_hour, on_day))| Step::SetChannel(
            SetChannel {
                channel,
                per_hour: limits.per_hour,
                per_day: limits.per_day,
                day_end_ms: None,
                given: GivenBefore { in_hour, on_day },
            },
            day_end,
        )),
        12 => vec(request_step(), 0..6).prop_map(|requests| Step::Op(Op::Decide(requests))),
        4 => vec(closing_step(), 0..4).prop_map(|closings| Step::Op(Op::Close(closings))),
        6 => presence.prop_map(|changes| {
            // The offset becomes a time when it is done.
            let changes = changes.into_iter().map(|(who, offset)| PresenceChange {
                member: member(MEMBERS[who]),
                lease_until_ms: offset,
            });
            Step::Op(Op::Presence(changes.collect()))
        }),
        4 => set_member.prop_map(|(who, limits, blocked, day_end, given)| Step::SetMember(
            SetMember {
                limits,
                given: given.map(|(in_hour, on_day)| GivenBefore { in_hour, on_day }),
                ..SetMember::capped(
                    member(MEMBERS[who]),
                    None,
                    (blocked == 0).then(|| reason("leave")),
                )
            },
            day_end,
        )),
        3 => (0..POOLS.len(), -1..3i64, strategy, members, offers).prop_map(
            |(pool, version, strategy, members, offers)| {
                Step::SetPool(pool, version, strategy, members, offers)
            }
        ),
        8 => (any::<Index>(), 0..8u8, any::<bool>())
            .prop_map(|(which, other, accepts)| Step::Respond(which, other, accepts)),
        3 => (0..20u32).prop_map(|limit| Step::Op(Op::Reclaim { limit })),
        4 => (0..20u32).prop_map(|limit| Step::Op(Op::Advance { limit })),
        3 => (member_id(), skills(3)).prop_map(|(who, skills)| Step::Op(Op::SetSkills(SetSkills {
            member: member(MEMBERS[who]),
            skills,
        }))),
        1 => (0..POOLS.len(), -1..2i64).prop_map(|(pool, version)| Step::RemovePool(pool, version)),
        4 => (any::<Index>(), proptest::option::of(member_id()), vec(member_id(), 0..4), any::<bool>())
            .prop_map(|(which, to, exclude, stale)| Step::Reassign(which, to, exclude, stale)),
        4 => (any::<Index>(), 0..3u8, member_id(), 0..5u8)
            .prop_map(|(which, outcome, who, known)| Step::Settle(which, outcome, who, known)),
        1 => (select(&POOLS[..]), 0..4u32)
            .prop_map(|(name, limit)| Step::Op(Op::Wake { pool: pool(name), limit })),
        8 => (any::<Index>(), 0..3u8, 0..4u8, confirmation_step())
            .prop_map(|(which, by, other, asked)| Step::Confirm(which, by, other, asked)),
        8 => vec(visit_step(), 0..5).prop_map(|visits| Step::Op(Op::Visit(visits))),
        5 => vec(confirmation_step(), 0..4).prop_map(|all| Step::Op(Op::Confirm(all))),
        4 => (0..20u32).prop_map(|limit| Step::Op(Op::Expire { limit })),
        3 => slots_step().prop_map(|slots| Step::Op(Op::SetSlots(slots))),
        2 => (select(&POOLS[..]), member_id(), -3000..3000i64)
            .prop_map(|(name, who, thousandths)| Step::Op(Op::Adjust(Adjustment {
                pool: pool(name),
                member: member(MEMBERS[who]),
                thousandths,
            }))),
        1 => Just(Step::Op(Op::Note)),
        12 => seat_step().prop_map(Step::Seats),
    ]
}

/// Turns a step into the operation it means in this state.
fn op(step: Step, twin: &Twin, versions: &mut [u64], of_seats: &mut Versions) -> Option<Op> {
    let mut next_version = |pool: usize, change: i64| {
        let version = versions[pool].saturating_add_signed(change);
        versions[pool] = versions[pool].max(version);
        version
    };
    let open = |which: Index| {
        let all: Vec<_> = twin.model.allocations().collect();
        (!all.is_empty()).then(|| all[which.index(all.len())].clone())
    };
    Some(match step {
        Step::Op(Op::Presence(mut changes)) => {
            for change in &mut changes {
                if change.lease_until_ms > 0 {
                    change.lease_until_ms += twin.now;
                }
            }
            Op::Presence(changes)
        }
        Step::Op(op) => op,
        Step::Seats(step) => Op::Seats(seat_op(step, twin, of_seats)),
        Step::SetPool(name, change, strategy, members, offers) => {
            let mut seen = BTreeSet::new();
            let members = members.into_iter().filter(|(who, ..)| seen.insert(*who));
            let (members, limits): (Vec<(_, Weight)>, Vec<_>) = members
                .map(|(who, w, limits)| {
                    let who = member(MEMBERS[who]);
                    ((who.clone(), weight(WEIGHTS[w])), (who, limits))
                })
                .unzip();
            let version = next_version(name, change);
            let config = PoolConfig::new(pool(POOLS[name]), version, strategy, members);
            let (offers, drip) = offers;
            let config = config.unwrap().with_limits(limits).with_offers(offers);
            Op::SetPool(config.with_drip(drip))
        }
        Step::SetMember(change, day_end) => Op::SetMember(SetMember {
            day_end_ms: day_end.map(|after| twin.now + after),
            ..change
        }),
        Step::SetChannel(change, day_end) => Op::SetChannel(SetChannel {
            day_end_ms: day_end.map(|after| twin.now + after),
            ..change
        }),
        Step::RemovePool(name, change) => Op::RemovePool {
            pool: pool(POOLS[name]),
            version: next_version(name, change),
        },
        Step::Reassign(which, to, exclude, stale) => {
            let open = open(which)?;
            Op::Reassign(Reassignment {
                allocation: open.allocation,
                pool: open.pool,
                subject: open.subject,
                to: to.map(|to| member(MEMBERS[to])),
                exclude: exclude
                    .into_iter()
                    .map(|who| member(MEMBERS[who]))
                    .collect(),
                expect_epoch: open.epoch + u64::from(stale && open.epoch % 3 == 1),
            })
        }
        Step::Confirm(which, by, other, asked) => {
            let slots: Vec<_> = twin.model.slots().collect();
            let holds = twin.model.allocations();
            let holds: Vec<_> = holds.filter(|open| open.hold.is_some()).collect();
            let mut asked = Confirmation {
                visitor: None,
                slot: None,
                channel: None,
                ..asked
            };
            let seen = if by == 0 && !slots.is_empty() {
                // Lent or not: whose it was last may come late.
                let slot = &slots[which.index(slots.len())];
                asked.slot = Some(slot.slot.clone());
                Some(slot.member.clone())
            } else if by == 1 {
                // Of these twelve, who came before: held, lapsed or met.
                asked.visitor = Some(subject(&format!("s{}", which.index(12))));
                let mut of = holds
                    .iter()
                    .filter(|open| Some(open.subject) == asked.visitor);
                of.find_map(|open| open.member.clone())
            } else {
                let open = (!holds.is_empty()).then(|| &holds[which.index(holds.len())])?;
                asked.channel = open.hold.as_ref().map(|hold| hold.channel.clone());
                open.member.clone()
            };
            asked.member = seen.filter(|_| other > 0).unwrap_or(asked.member);
            Op::Confirm(vec![asked])
        }
        Step::Respond(which, other, accepts) => {
            let all: Vec<_> = twin.model.allocations().collect();
            let offers: Vec<_> = all
                .iter()
                .filter(|open| open.offer_until_ms.is_some())
                .collect();
            let of = match other {
                0 => all.iter().collect(),
                _ => offers,
            };
            let open = (!of.is_empty()).then(|| of[which.index(of.len())])?;
            Op::Respond(Response {
                allocation: open.allocation,
                pool: open.pool.clone(),
                subject: open.subject,
                member: open.member.clone().unwrap_or_else(|| member("m1")),
                epoch: open.epoch + u64::from(other == 1),
                declined: (!accepts).then(|| reason("busy")),
            })
        }
        Step::Settle(which, outcome, who, known) => {
            let open = open(which)?;
            let expect = match known {
                0 => None,
                1 => Some((Some(member(MEMBERS[who])), open.epoch)),
                2 => Some((open.member, open.epoch + 1)),
                _ => Some((open.member, open.epoch)),
            };
            Op::Settle(Settlement {
                allocation: open.allocation,
                pool: open.pool,
                subject: open.subject,
                outcome: match outcome {
                    0 => SettlementOutcome::Done,
                    1 => SettlementOutcome::Kept(member(MEMBERS[who])),
                    _ => SettlementOutcome::Void(reason("refused")),
                },
                expect: expect.map(|(member, epoch)| Assignment { member, epoch }),
            })
        }
    })
}

async fn run(steps: Vec<(Step, i64)>) {
    let mut twin = Twin::new().await;
    let mut versions = [0; POOLS.len()];
    let rules = [
        Rule::WeightedRoundRobin,
        Rule::WeightedRoundRobin,
        Rule::LeastLoad,
        Rule::LeastLoad,
    ];
    for (i, (name, rule)) in POOLS.into_iter().zip(rules).enumerate() {
        let members = [i, i + 1, i + 2, i + 3].map(|i| (MEMBERS[i], WEIGHTS[1 + i % 5]));
        twin.pool(name, 0, rule, &members).await;
    }
    for n in 0..20 {
        let slots = SetSlots {
            channel: ChannelId::new(CHANNELS[n % 2]).unwrap(),
            member: member(MEMBERS[n / 2 % MEMBERS.len()]),
            add: vec![(SlotId::new(format!("pv.{n}")).unwrap(), 0)],
            remove: Vec::new(),
        };
        twin.apply(Op::SetSlots(slots)).await;
    }
    twin.on(&MEMBERS).await;
    stand_groups(&mut twin).await;
    let mut of_seats = Versions::default();
    let mut latest = twin.now;
    for (i, (step, pause)) in steps.into_iter().enumerate() {
        twin.now = twin.now.saturating_add_signed(pause).max(latest - HOUR);
        latest = latest.max(twin.now);
        if let Some(op) = op(step, &twin, &mut versions, &mut of_seats) {
            twin.apply(op).await;
        }
        if i % 16 == 0 {
            twin.compare().await;
        }
    }
    twin.compare().await;
    compare_logs(&twin).await;
}

/// The log says everything, and so does a dump.
pub(crate) async fn compare_logs(twin: &Twin) {
    let log = twin.redis.log_read(0, 10_000).await.unwrap();
    let mut folded = Corp::new();
    for entry in &log {
        folded.fold(entry).unwrap();
        let (op, args, result) = entry.parts();
        let again = allocation::LogEntry::from_parts(entry.seq, entry.at_ms, op, &args, &result);
        assert_eq!(&again.unwrap(), entry);
    }
    assert_same(&folded.dump(), &twin.model.dump());

    let dump = twin.model.dump();
    let read = Dump::from_json(&dump.to_json()).unwrap();
    assert_same(&read, &dump);
    let loaded = Corp::from_dump(&read).unwrap();
    assert_same(&loaded.dump(), &dump);
    assert_eq!(loaded.problems(), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Cases 115 and 117: fractions survive, ids that look like numbers stay text.
    #[test]
    fn lua_and_model_agree(steps in vec((step(), select(&STEPS[..])), 1..160)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}
