//! Random operations on seats, for comparing Lua with the model.

use allocation::model::{SeatPlace, SeatView};
use allocation::{
    CampaignId, ChatId, ConfirmSeats, FillStrategy, GroupPoolId, GroupTags, JoinedPerson, Op,
    PersonKey, ReleaseSeat, ReserveSeat, SeatCandidate, SeatId, SeatMatch, SeatOp, SetGroup,
    SetGroupPool, Via,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use uuid::Uuid;

use crate::support::*;

const CHATS: [&str; 5] = ["wr1", "wr:2", "1e5", "007", "群"];
/// Now and then a clock is set back.
const PAUSES: [i64; 8] = [0, 0, 1, 1000, 1000, 60_000, 3_600_000, -61_000];
const POOLS: [&str; 2] = ["g", "g:2"];
const TAGS: [&str; 3] = ["north", "vip:1", "北"];

/// An operation that still needs to know what the state is.
#[derive(Debug, Clone)]
pub(crate) enum SeatStep {
    Reserve(Vec<ReserveSeat>),
    /// Of which seat, whether its end is named, whether wrongly, whether the seat is another one; remembered so long.
    Release(Vec<(Index, bool, u8, u8, u64)>),
    /// Of a group, mostly from the version that it has; those who leave are in it, mostly.
    Confirm(usize, u8, Vec<(Index, bool)>, Vec<JoinedPerson>),
    SetPool(usize, i64, FillStrategy),
    RemovePool(usize, i64),
    SetGroup(usize, i64, SetGroup),
    RemoveGroup(usize, i64),
    Wake(usize, u32),
    Forget(u32),
}

pub(crate) fn group_pool(name: &str) -> GroupPoolId {
    GroupPoolId::new(name).unwrap()
}

pub(crate) fn chat(name: &str) -> ChatId {
    ChatId::new(name).unwrap()
}

pub(crate) fn campaign(name: &str) -> CampaignId {
    CampaignId::new(name).unwrap()
}

pub(crate) fn person(name: &str) -> PersonKey {
    PersonKey(subject(&format!("person {name}")))
}

/// A seat id for each moment and place, so that none is used twice.
fn seat_id(n: u128) -> SeatId {
    SeatId(Uuid::from_u128(n))
}

fn campaign_id() -> impl Strategy<Value = CampaignId> {
    select(vec!["spring", "k:2"]).prop_map(campaign)
}

fn via() -> impl Strategy<Value = Option<Via>> {
    let way = select(vec!["inv1", "inv:2", "7"]).prop_map(|way| way.parse().unwrap());
    proptest::option::weighted(0.7, way)
}

fn visitor() -> impl Strategy<Value = String> {
    (0..24u8).prop_map(|n| format!("v{n}"))
}

fn tags() -> impl Strategy<Value = GroupTags> {
    let tags = proptest::sample::subsequence(&TAGS[..], 0..=2);
    (tags, any::<bool>()).prop_map(|(tags, or_any)| {
        let tags = tags.into_iter().map(|tag| tag.parse().unwrap());
        GroupTags::new(tags.collect(), or_any).unwrap()
    })
}

fn reserve() -> impl Strategy<Value = ReserveSeat> {
    (
        (
            campaign_id(),
            select(vec!["g", "g", "g:2", "gone"]),
            visitor(),
        ),
        any::<bool>(),
        via(),
        tags(),
        select(vec![1000, 60_000, HOUR]),
        select(vec![0, 1000, 60_000]),
    )
        .prop_map(
            |((campaign, pool, name), anonymous, via, tags, hold_ms, wait_ms)| ReserveSeat {
                seat: seat_id(0),
                campaign,
                pool: group_pool(pool),
                subject: subject(&name),
                anonymous,
                via,
                tags,
                hold_ms,
                wait_ms,
            },
        )
}

fn joined() -> impl Strategy<Value = JoinedPerson> {
    let how = select(vec![SeatMatch::Unionid, SeatMatch::ExternalId]);
    let name = (how, campaign_id(), visitor()).prop_map(|(how, campaign, name)| SeatCandidate {
        how,
        campaign,
        subject: subject(&name),
    });
    (
        0..40u8,
        (proptest::bool::weighted(0.7), any::<bool>()),
        any::<bool>(),
        via(),
        vec(name, 0..4),
    )
        .prop_map(
            |(who, (identified, doubted), scanned, state, names)| JoinedPerson {
                person: person(&who.to_string()),
                identified,
                doubted: doubted && !identified,
                scanned,
                state,
                names,
            },
        )
}

fn group() -> impl Strategy<Value = SetGroup> {
    let tags = proptest::sample::subsequence(&TAGS[..], 0..=3);
    (0..POOLS.len() + 1, 0..9u32, 0..3u32, 0..3u32, tags, 0..6u8).prop_map(
        |(of, cap, buffer, rank, tags, closed)| {
            let of = POOLS.get(of).unwrap_or(&"gone");
            let group = SetGroup::new(chat("any"), 0, group_pool(of), cap, buffer).unwrap();
            let tags = tags.into_iter().map(|tag| tag.parse().unwrap());
            let group = group.with_rank(rank).with_open(closed > 0);
            group.with_tags(tags).unwrap()
        },
    )
}

pub(crate) fn seat_step() -> impl Strategy<Value = SeatStep> {
    let strategy = select(vec![
        FillStrategy::FillFirst,
        FillStrategy::Spread,
        FillStrategy::LeastFilled,
    ]);
    let memory = select(vec![0, 1000, HOUR]);
    let release = (any::<Index>(), any::<bool>(), 0..6u8, 0..8u8, memory);
    let left = vec((any::<Index>(), any::<bool>()), 0..4);
    let (chat, pool) = (0..CHATS.len(), 0..POOLS.len());
    prop_oneof![
        10 => vec(reserve(), 0..6).prop_map(SeatStep::Reserve),
        5 => vec(release, 0..4).prop_map(SeatStep::Release),
        10 => (chat.clone(), 0..8u8, left, vec(joined(), 0..6)).prop_map(
            |(chat, from, left, joined)| SeatStep::Confirm(chat, from, left, joined)
        ),
        1 => (pool.clone(), -1..3i64, strategy)
            .prop_map(|(pool, version, strategy)| SeatStep::SetPool(pool, version, strategy)),
        1 => (pool.clone(), -1..3i64).prop_map(|(pool, version)| SeatStep::RemovePool(pool, version)),
        4 => (chat.clone(), -1..3i64, group())
            .prop_map(|(chat, version, group)| SeatStep::SetGroup(chat, version, group)),
        1 => (chat, -1..3i64).prop_map(|(chat, version)| SeatStep::RemoveGroup(chat, version)),
        2 => (pool, 0..5u32).prop_map(|(pool, limit)| SeatStep::Wake(pool, limit)),
        3 => (0..20u32).prop_map(SeatStep::Forget),
    ]
}

/// Versions of what was configured so far.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    pools: [u64; POOLS.len()],
    groups: [u64; CHATS.len()],
}

fn next(version: &mut u64, change: i64) -> u64 {
    let asked = version.saturating_add_signed(change);
    *version = asked.max(*version);
    asked
}

/// Pools and groups to begin with, one of them not read yet.
pub(crate) async fn stand_groups(twin: &mut Twin) {
    for (i, name) in POOLS.into_iter().enumerate() {
        twin.seats(SeatOp::SetPool(SetGroupPool {
            pool: group_pool(name),
            version: 0,
            strategy: [FillStrategy::FillFirst, FillStrategy::LeastFilled][i],
        }))
        .await;
    }
    for (i, name) in CHATS.into_iter().enumerate() {
        let pool = group_pool(POOLS[i % 2]);
        let group = SetGroup::new(chat(name), 0, pool, 4 + i as u32, 1).unwrap();
        let tags = TAGS.iter().take(i % 3).map(|tag| tag.parse().unwrap());
        let group = group.with_tags(tags).unwrap();
        twin.seats(SeatOp::SetGroup(group)).await;
        if i > 0 {
            twin.seats(SeatOp::Confirm(ConfirmSeats {
                chat: chat(name),
                from: None,
                version: "v0".parse().unwrap(),
                force: false,
                left: Vec::new(),
                joined: Vec::new(),
            }))
            .await;
        }
    }
}

/// Turns a step into the operation it means in this state.
pub(crate) fn seat_op(step: SeatStep, twin: &Twin, versions: &mut Versions) -> SeatOp {
    let n = u128::from(twin.model.seq()) * 1000;
    match step {
        SeatStep::Reserve(mut asked) => {
            for (i, asked) in (1..).zip(&mut asked) {
                asked.seat = seat_id(n + i);
            }
            SeatOp::Reserve(asked)
        }
        SeatStep::Release(which) => {
            let seats = twin.model.seats();
            let asked = which
                .into_iter()
                .map(|(which, named, wrong, other, memory)| {
                    let seat = (!seats.is_empty()).then(|| &seats[which.index(seats.len())]);
                    release(seat, named, wrong == 0, other == 0, memory)
                });
            SeatOp::Release(asked.collect())
        }
        SeatStep::Confirm(which, from, left, joined) => {
            let chat = chat(CHATS[which]);
            let view = twin.model.groups().find(|view| *view.config.chat() == chat);
            let people = view.iter().flat_map(|view| &view.people);
            let people: Vec<_> = people.map(|view| view.person).collect();
            let left = left.into_iter().map(|(which, is_in)| match is_in {
                true if !people.is_empty() => people[which.index(people.len())],
                _ => person(&which.index(40).to_string()),
            });
            let seen = view.as_ref().and_then(|view| view.seen.clone());
            // Now and then the same version once more, or one that nobody has.
            let version = match (from, &seen) {
                (0, Some(seen)) => seen.clone(),
                _ => format!("v{n}").parse().unwrap(),
            };
            SeatOp::Confirm(ConfirmSeats {
                chat,
                from: match from {
                    1 => None,
                    2 => Some("nobody's".parse().unwrap()),
                    _ => seen,
                },
                version,
                force: from == 3,
                left: left.collect(),
                joined,
            })
        }
        SeatStep::SetPool(pool, change, strategy) => SeatOp::SetPool(SetGroupPool {
            pool: group_pool(POOLS[pool]),
            version: next(&mut versions.pools[pool], change),
            strategy,
        }),
        SeatStep::RemovePool(pool, change) => SeatOp::RemovePool {
            pool: group_pool(POOLS[pool]),
            version: next(&mut versions.pools[pool], change),
        },
        SeatStep::SetGroup(which, change, group) => {
            let version = next(&mut versions.groups[which], change);
            let (pool, cap, buffer) = (group.pool().clone(), group.scan_cap(), group.buffer());
            let named = SetGroup::new(chat(CHATS[which]), version, pool, cap, buffer).unwrap();
            let named = named.with_rank(group.rank()).with_open(group.open());
            SeatOp::SetGroup(named.with_tags(group.tags().iter().cloned()).unwrap())
        }
        SeatStep::RemoveGroup(which, change) => SeatOp::RemoveGroup {
            chat: chat(CHATS[which]),
            version: next(&mut versions.groups[which], change),
        },
        SeatStep::Wake(pool, limit) => SeatOp::Wake {
            pool: group_pool(POOLS[pool]),
            limit,
        },
        SeatStep::Forget(limit) => SeatOp::Forget { limit },
    }
}

fn release(
    seat: Option<&SeatView>,
    named: bool,
    wrong: bool,
    other: bool,
    memory_ms: u64,
) -> ReleaseSeat {
    let end = |view: &SeatView| match view.place {
        SeatPlace::Held { until_ms, .. } | SeatPlace::Waiting { until_ms, .. } => until_ms,
        SeatPlace::Taken { .. } | SeatPlace::Expired { .. } => 0,
    };
    let seat_of = |view: &SeatView| (view.campaign.clone(), view.subject, view.seat, end(view));
    let nobody = || (campaign("spring"), subject("nobody"), seat_id(1), 0);
    let (campaign, subject, seat, end) = seat.map_or_else(nobody, seat_of);
    ReleaseSeat {
        campaign,
        subject,
        seat: if other { seat_id(7) } else { seat },
        expect_until_ms: named.then(|| end + u64::from(wrong)),
        reason: reason("expired"),
        memory_ms,
    }
}

async fn run(steps: Vec<(SeatStep, i64)>) {
    let mut twin = Twin::new().await;
    stand_groups(&mut twin).await;
    let mut versions = Versions::default();
    let mut latest = twin.now;
    for (i, (step, pause)) in steps.into_iter().enumerate() {
        twin.now = twin.now.saturating_add_signed(pause).max(latest - HOUR);
        latest = latest.max(twin.now);
        let op = seat_op(step, &twin, &mut versions);
        twin.apply(Op::Seats(op)).await;
        if i % 8 == 0 {
            twin.compare().await;
        }
    }
    twin.compare().await;
    crate::equality::compare_logs(&twin).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn seats_in_lua_and_in_the_model_agree(steps in vec((seat_step(), select(&PAUSES[..])), 1..160)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}
