//! Large batches and large pools.

use allocation::{
    Dump, Error as RuleError, MAX_BATCH, MAX_MEMBERS, Op, PoolConfig, PresenceChange, Strategy,
    Value, Weight,
};
use roster::Error;
use test_redis::{Options, Server};

use crate::support::*;

fn named(n: usize) -> Vec<(allocation::MemberId, Weight)> {
    (0..n)
        .map(|i| {
            (
                member(&format!("m{i}")),
                Weight::from_thousandths(1000 + 500 * (i % 16) as u32).unwrap(),
            )
        })
        .collect()
}

#[test]
fn more_weights_than_can_be_compared_are_refused_before_any_call() {
    let members = (1..=17).map(|i| {
        (
            member(&format!("m{i}")),
            Weight::from_thousandths(i).unwrap(),
        )
    });
    let refused = PoolConfig::new(pool("g"), 1, Strategy::WeightedRoundRobin, members);
    assert_eq!(refused, Err(RuleError::TooManyWeights));
    let refused = PoolConfig::new(pool("g"), 1, Strategy::LeastLoad, named(MAX_MEMBERS + 1));
    assert_eq!(refused, Err(RuleError::TooManyMembers));
}

#[tokio::test]
async fn ten_thousand_members_are_one_pool() {
    for strategy in [Strategy::WeightedRoundRobin, Strategy::LeastLoad] {
        let mut twin = Twin::new().await;
        let config = PoolConfig::new(pool("g"), 1, strategy, named(MAX_MEMBERS)).unwrap();
        twin.apply(Op::SetPool(config)).await;
        let until = twin.now + HOUR;
        let all: Vec<PresenceChange> = named(MAX_MEMBERS)
            .into_iter()
            .map(|(member, _)| PresenceChange {
                member,
                lease_until_ms: until,
            })
            .collect();
        let applied = twin
            .redis
            .presence(all.clone(), "", Some(twin.now))
            .await
            .unwrap();
        for part in all.chunks(MAX_BATCH) {
            twin.model.apply(&Op::Presence(part.to_vec()), twin.now);
        }
        assert_eq!(applied.seq, twin.model.seq());
        let asked = (0..MAX_BATCH)
            .map(|i| request("g", &format!("c{i}")))
            .collect();
        twin.apply(Op::Decide(asked)).await;
        twin.compare().await;
        // All change their weights while they are there, and then leave.
        let mut members = named(MAX_MEMBERS);
        members
            .iter_mut()
            .for_each(|(_, weight)| *weight = Weight::ONE);
        let config = PoolConfig::new(pool("g"), 2, strategy, members).unwrap();
        twin.apply(Op::SetPool(config)).await;
        twin.compare().await;
        twin.apply(Op::RemovePool {
            pool: pool("g"),
            version: 3,
        })
        .await;
        twin.compare().await;
    }
}

/// Keys are written in parts of 2,000: the last part may be empty then.
#[tokio::test]
async fn a_change_that_fills_its_parts_exactly_leaves_the_corp_open() {
    for n in 1_997..=2_000 {
        let mut twin = Twin::new().await;
        let until = twin.now + HOUR;
        let here = named(n).into_iter().map(|(member, _)| PresenceChange {
            member,
            lease_until_ms: until,
        });
        for part in here.collect::<Vec<_>>().chunks(MAX_BATCH) {
            twin.apply(Op::Presence(part.to_vec())).await;
        }
        let config = PoolConfig::new(pool("g"), 1, Strategy::WeightedRoundRobin, named(n)).unwrap();
        twin.apply(Op::SetPool(config)).await;
        twin.apply(Op::RemovePool {
            pool: pool("g"),
            version: 2,
        })
        .await;
        twin.compare().await;
    }
}

#[tokio::test]
async fn batches_are_split_or_refused() {
    let (_, redis) = open_corp().await;
    let asked = (0..=MAX_BATCH)
        .map(|i| request("g", &format!("c{i}")))
        .collect();
    assert!(matches!(
        redis.decide(asked, "", Some(T0)).await,
        Err(Error::TooMany)
    ));
    let closings = (0..2 * MAX_BATCH + 1)
        .map(|i| closing(&format!("c{i}")))
        .collect();
    redis
        .close(closings, r#"{"who":"me"}"#, Some(T0))
        .await
        .unwrap();
    let log = redis.log_read(1, 10).await.unwrap();
    let sizes: Vec<usize> = log
        .iter()
        .map(|entry| match &entry.op {
            Op::Close(closings) => closings.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes, [MAX_BATCH, MAX_BATCH, 1]);
    let payloads: Vec<_> = log.into_iter().map(|entry| entry.payload).collect();
    assert_eq!(payloads, [Some(r#"{"who":"me"}"#.to_owned()), None, None]);
}

/// Half a million who wait are not one call of a million arguments.
#[tokio::test]
async fn a_large_set_is_restored_in_parts() {
    const N: u32 = 20_000;
    let server = Server::start(Options::default());
    let (_, redis) = open_corp_on(&server).await;
    server.cli(&["CONFIG", "SET", "slowlog-max-len", "1000"]);
    server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let waiting = (0..N)
        .map(|i| (i.to_be_bytes().to_vec(), f64::from(i)))
        .collect();
    let mut dump = Dump::default();
    dump.keys
        .insert("waiting:g".to_owned(), Value::Sorted(waiting));
    redis.begin_rebuild(2).await.unwrap();
    redis.restore(&dump, 2).await.unwrap();
    let calls = server.cli(&["SLOWLOG", "GET", "-1"]);
    let sizes: Vec<u32> = calls
        .lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once("... (")?;
            rest.split_once(" more arguments")?.0.parse().ok()
        })
        .collect();
    let sum: u32 = sizes.iter().sum();
    assert!(sum > 2 * N - 1_000, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size < 8_000), "{sizes:?}");
    assert_same(&redis.dump().await.unwrap(), &dump);
}
