//! Many tasks at once; what must hold is checked at the end, on the state that Redis has.

use std::collections::BTreeMap;

use allocation::model::Corp;
use allocation::{Decision, Op, PresenceChange, SettlementOutcome, Strategy};
use futures_util::future::join_all;

use crate::support::*;

const FAIR: Strategy = Strategy::WeightedRoundRobin;

async fn setup(
    redis: &Redis,
    name: &str,
    strategy: Strategy,
    members: &[(&str, &str)],
    cap: Option<u32>,
) {
    redis
        .set_pool(config(name, 1, strategy, members), "", Some(T0))
        .await
        .unwrap();
    for (name, _) in members {
        let change = allocation::SetMember::capped(member(name), cap, None);
        redis.set_member(change, "", Some(T0)).await.unwrap();
    }
    let here = members.iter().map(|(name, _)| PresenceChange {
        member: member(name),
        lease_until_ms: T0 + HOUR,
    });
    redis.presence(here.collect(), "", Some(T0)).await.unwrap();
}

/// The state of Redis, read back; it is whole, and it is the fold of its own log.
async fn state_of(redis: &Redis) -> Corp {
    let dump = redis.dump().await.unwrap();
    let corp = Corp::from_dump(&dump).unwrap();
    assert_eq!(corp.problems(), Vec::<String>::new());
    let mut folded = Corp::new();
    let mut after = 0;
    loop {
        let entries = redis.log_read(after, 5000).await.unwrap();
        let Some(last) = entries.last() else { break };
        after = last.seq;
        entries.iter().for_each(|entry| folded.fold(entry).unwrap());
    }
    assert_same(&dump, &folded.dump());
    corp
}

/// P18: 10,000 decisions by 64 tasks; after every single one all members are less than 1 from their exact shares.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_tasks_share_fairly() {
    const TASKS: usize = 64;
    const DECISIONS: usize = 10_000;
    let (_, redis) = open_corp().await;
    let names: Vec<String> = (0..40).map(|i| format!("m{i}")).collect();
    let weights = ["1", "2", "0.5", "3", "1.25", "7"];
    let members: Vec<(&str, &str)> = names
        .iter()
        .enumerate()
        .map(|(i, name)| (name.as_str(), weights[i % 6]))
        .collect();
    setup(&redis, "g", FAIR, &members, None).await;
    let tasks = (0..TASKS).map(|task| {
        let redis = redis.clone();
        tokio::spawn(async move {
            for i in (task..DECISIONS).step_by(TASKS) {
                let asked = vec![request("g", &format!("c{i}"))];
                let applied = redis.decide(asked, "", Some(T0)).await.unwrap();
                assert!(matches!(applied.answer[0], Decision::Assigned { .. }));
            }
        })
    });
    join_all(tasks)
        .await
        .into_iter()
        .for_each(|task| task.unwrap());

    let mut picks: BTreeMap<String, i64> = BTreeMap::new();
    let thousandths: Vec<i64> = members
        .iter()
        .map(|(_, text)| i64::from(weight(text).thousandths()))
        .collect();
    let sum: i64 = thousandths.iter().sum();
    let (mut decided, mut furthest) = (0, 0);
    for entry in redis.log_read(0, 20_000).await.unwrap() {
        let Op::Decide(_) = entry.op else { continue };
        let picked = member_of(&decisions(entry.outcome)[0]).unwrap();
        *picks.entry(picked).or_default() += 1;
        decided += 1;
        for ((name, _), weight) in members.iter().zip(&thousandths) {
            let got = picks.get(*name).copied().unwrap_or_default();
            let distance = (got * sum - decided * weight).abs();
            assert!(distance < sum, "{name} has {got} of {decided}");
            furthest = furthest.max(distance);
        }
    }
    assert_eq!(decided as usize, DECISIONS);
    eprintln!(
        "furthest from the exact share: {:.4}",
        furthest as f64 / sum as f64
    );
    state_of(&redis).await;
}

/// Case 63.
#[tokio::test]
async fn equal_weights_get_equal_numbers() {
    let (_, redis) = open_corp().await;
    let members = ["ma", "mb", "mc", "md", "me"].map(|name| (name, "1"));
    setup(&redis, "g", FAIR, &members, None).await;
    let asks = (0..100).map(|i| {
        let redis = redis.clone();
        async move {
            redis
                .decide(vec![request("g", &format!("c{i}"))], "", Some(T0))
                .await
                .unwrap()
        }
    });
    join_all(asks).await;
    let corp = state_of(&redis).await;
    assert!(corp.members().all(|view| view.load == 20));
}

/// Case 65.
#[tokio::test]
async fn twenty_askers_get_one_allocation() {
    let (_, redis) = open_corp().await;
    setup(
        &redis,
        "g",
        Strategy::LeastLoad,
        &[("ma", "1"), ("mb", "1")],
        None,
    )
    .await;
    let asks = (0..20).map(|i| {
        let redis = redis.clone();
        let mut asked = request("g", "wmC001");
        asked.allocation = allocation("g", &format!("job {i}"));
        async move {
            redis
                .decide(vec![asked], "", Some(T0))
                .await
                .unwrap()
                .answer
                .remove(0)
        }
    });
    let answers = join_all(asks).await;
    let assigned: Vec<_> = answers
        .iter()
        .filter(|answer| matches!(answer, Decision::Assigned { .. }))
        .collect();
    let already = answers
        .iter()
        .filter(|answer| matches!(answer, Decision::Already { .. }));
    assert_eq!((assigned.len(), already.count()), (1, 19));
    let corp = state_of(&redis).await;
    assert_eq!(corp.allocations().count(), 1);
    assert_eq!(corp.members().map(|view| view.load).sum::<u32>(), 1);
}

/// Case 73: check and take are one step, so the count is never above the limit, not even for a moment: the log has
/// every moment.
#[tokio::test]
async fn the_last_place_is_given_once() {
    for round in 0..100 {
        let (_, redis) = open_corp().await;
        setup(&redis, "g", FAIR, &[("ma", "1")], Some(3)).await;
        for i in 0..2 {
            redis
                .decide(vec![request("g", &format!("before{i}"))], "", Some(T0))
                .await
                .unwrap();
        }
        let asks = (0..50).map(|i| {
            let redis = redis.clone();
            async move {
                redis
                    .decide(vec![request("g", &format!("c{i}"))], "", Some(T0))
                    .await
                    .unwrap()
                    .answer
                    .remove(0)
            }
        });
        let answers = join_all(asks).await;
        let given = answers
            .iter()
            .filter(|answer| matches!(answer, Decision::Assigned { .. }))
            .count();
        assert_eq!(given, 1, "round {round}");
        let mut folded = Corp::new();
        for entry in redis.log_read(0, 100).await.unwrap() {
            folded.fold(&entry).unwrap();
            assert!(folded.members().all(|view| view.load <= 3));
        }
        assert_eq!(folded.waiting(&pool("g")).len(), 49);
    }
}

/// Case 75.
#[tokio::test]
async fn taking_and_giving_back_a_thousand_times() {
    let (_, redis) = open_corp().await;
    setup(&redis, "g", FAIR, &[("ma", "1")], Some(1)).await;
    let tasks = (0..3).map(|task| {
        let redis = redis.clone();
        tokio::spawn(async move {
            for i in 0..334 {
                let name = format!("c{task}-{i}");
                redis
                    .decide(vec![request("g", &name)], "", Some(T0))
                    .await
                    .unwrap();
                redis
                    .close(vec![closing(&name)], "", Some(T0))
                    .await
                    .unwrap();
                if i % 50 == 0 {
                    redis
                        .set_pool(config("g", 1, FAIR, &[("ma", "1")]), "", Some(T0))
                        .await
                        .unwrap();
                }
            }
        })
    });
    join_all(tasks)
        .await
        .into_iter()
        .for_each(|task| task.unwrap());
    let corp = state_of(&redis).await;
    assert_eq!(corp.members().map(|view| view.load).sum::<u32>(), 0);
    assert_eq!(corp.allocations().count(), 0);
}

/// Everything at once: two pools that share members, caps, comings and goings, closings, settlements, moves. The loads
/// are the open allocations, nobody is above his cap, whoever waits is served in the order of arrival.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_at_once() {
    const NAMES: [&str; 6] = ["ma", "mb", "mc", "md", "me", "mf"];
    let (_, redis) = open_corp().await;
    setup(
        &redis,
        "fair",
        FAIR,
        &NAMES.map(|name| (name, "1")),
        Some(4),
    )
    .await;
    setup(
        &redis,
        "least",
        Strategy::LeastLoad,
        &[("ma", "2"), ("mb", "1"), ("mz", "1")],
        Some(4),
    )
    .await;
    let tasks = (0..24_usize).map(|task| {
        let redis = redis.clone();
        tokio::spawn(async move {
            for i in 0..60_usize {
                let name = format!("c{}", (task * 7 + i) % 80);
                let in_pool = if (task + i) % 3 == 0 { "least" } else { "fair" };
                match (task + i) % 6 {
                    0..=2 => drop(
                        redis
                            .decide(vec![request(in_pool, &name)], "", None)
                            .await
                            .unwrap(),
                    ),
                    3 => drop(redis.close(vec![closing(&name)], "", None).await.unwrap()),
                    4 => {
                        let until = if i % 4 == 0 { 0 } else { T0 * 2 };
                        let change = PresenceChange {
                            member: member(NAMES[i % 6]),
                            lease_until_ms: until,
                        };
                        redis.presence(vec![change], "", None).await.unwrap();
                    }
                    _ if i % 2 == 0 => drop(
                        redis
                            .reassign(reassignment(in_pool, &name, None, 0), "", None)
                            .await
                            .unwrap(),
                    ),
                    _ => {
                        let outcome = SettlementOutcome::Void(reason("refused"));
                        redis
                            .settle(settlement(in_pool, &name, outcome), "", None)
                            .await
                            .unwrap();
                    }
                }
            }
        })
    });
    join_all(tasks)
        .await
        .into_iter()
        .for_each(|task| task.unwrap());
    let corp = state_of(&redis).await;
    assert!(corp.members().all(|view| view.load <= 4));

    let mut arrived: BTreeMap<String, Vec<allocation::SubjectKey>> = BTreeMap::new();
    for entry in redis.log_read(0, 10_000).await.unwrap() {
        for woken in &entry.outcome.woken {
            let list = arrived.entry(woken.pool.to_string()).or_default();
            assert_eq!(list.remove(0), woken.subject, "the oldest is first");
        }
        match (&entry.op, decided(&entry.outcome.answer)) {
            (Op::Decide(requests), Some(decisions)) => {
                for (request, decision) in requests.iter().zip(decisions) {
                    if matches!(decision, Decision::Waiting { .. }) {
                        arrived
                            .entry(request.pool.to_string())
                            .or_default()
                            .push(request.subject);
                    }
                }
            }
            (Op::Close(_) | Op::Settle(_) | Op::Reassign(_), _) => {
                let still = |subject: &allocation::SubjectKey, left: &Gone| !left.contains(subject);
                let left = gone(&entry);
                for (pool, list) in &mut arrived {
                    list.retain(|subject| still(subject, &left[pool.as_str()]));
                }
            }
            _ => {}
        }
    }
}

type Gone = Vec<allocation::SubjectKey>;

fn decided(answer: &allocation::Answer) -> Option<&[Decision]> {
    match answer {
        allocation::Answer::Decided(decisions) => Some(decisions),
        _ => None,
    }
}

/// Subjects that left a waiting list by other ways than being woken, for each pool.
fn gone(entry: &allocation::LogEntry) -> BTreeMap<&'static str, Gone> {
    let mut gone = BTreeMap::from([("fair", Vec::new()), ("least", Vec::new())]);
    let mut add = |name: &allocation::PoolId, subject| {
        if let Some(list) = gone.get_mut(name.as_str()) {
            list.push(subject);
        }
    };
    match (&entry.op, &entry.outcome.answer) {
        (_, allocation::Answer::Closed(closed)) => closed
            .iter()
            .for_each(|closed| add(&closed.pool, closed.subject)),
        (Op::Settle(settlement), allocation::Answer::Settled(allocation::Settled::Void { .. })) => {
            add(&settlement.pool, settlement.subject);
        }
        (
            Op::Reassign(reassignment),
            allocation::Answer::Reassigned(allocation::Reassigned::Moved { .. }),
        ) => {
            add(&reassignment.pool, reassignment.subject);
        }
        _ => {}
    }
    gone
}
