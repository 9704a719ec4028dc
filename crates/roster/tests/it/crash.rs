//! Clients that die, scripts that are forgotten, a Redis that is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use allocation::model::Corp;
use allocation::{Decision, PresenceChange, Strategy};
use futures_util::future::join_all;
use test_redis::{AppendOnly, Options, Server};

use crate::support::*;

const FAIR: Strategy = Strategy::WeightedRoundRobin;

async fn pool_of_three(redis: &Redis) {
    let members = [("ma", "1"), ("mb", "1"), ("mc", "2")];
    redis
        .set_pool(config("g", 1, FAIR, &members), "", None)
        .await
        .unwrap();
    let here = members.map(|(name, _)| PresenceChange {
        member: member(name),
        lease_until_ms: T0 * 2,
    });
    redis.presence(here.to_vec(), "", None).await.unwrap();
}

pub(crate) async fn whole(redis: &Redis) -> Corp {
    let dump = redis.dump().await.unwrap();
    let mut folded = Corp::new();
    for entry in redis.log_read(0, 50_000).await.unwrap() {
        folded.fold(&entry).unwrap();
    }
    assert_same(&dump, &folded.dump());
    assert_eq!(folded.problems(), Vec::<String>::new());
    folded
}

/// Case 110: SCRIPT FLUSH all the time during 10,000 allocations: none fails, none runs twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_scripts_are_sent_again() {
    let server = Server::start(Options::default());
    let (_, redis) = open_corp_on(&server).await;
    pool_of_three(&redis).await;
    let done = Arc::new(AtomicBool::new(false));
    let flusher = {
        let (done, mut connection) = (done.clone(), server.connection().await);
        tokio::spawn(async move {
            let mut flushes = 0;
            while !done.load(Ordering::Relaxed) {
                redis::cmd("SCRIPT")
                    .arg("FLUSH")
                    .query_async::<()>(&mut connection)
                    .await
                    .unwrap();
                flushes += 1;
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            flushes
        })
    };
    let tasks = (0..20).map(|task| {
        let redis = redis.clone();
        tokio::spawn(async move {
            for i in 0..125 {
                let asked = (0..4).map(|j| request("g", &format!("c{task}-{i}-{j}")));
                let applied = redis.decide(asked.collect(), "", None).await.unwrap();
                assert!(
                    applied
                        .answer
                        .iter()
                        .all(|answer| matches!(answer, Decision::Assigned { .. }))
                );
            }
        })
    });
    join_all(tasks)
        .await
        .into_iter()
        .for_each(|task| task.unwrap());
    done.store(true, Ordering::Relaxed);
    assert!(flusher.await.unwrap() > 10);
    let corp = whole(&redis).await;
    assert_eq!(corp.allocations().count(), 10_000);
}

/// Cases 77 and 114: tasks die between sending and hearing. What was asked happened or did not; asking again with the
/// same allocation gives each subject one, and no answer belongs to another question.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_die_lose_nothing_and_double_nothing() {
    let (_, redis) = open_corp().await;
    pool_of_three(&redis).await;
    let tasks: Vec<_> = (0..400)
        .map(|i| {
            let redis = redis.clone();
            tokio::spawn(async move {
                let name = format!("c{i}");
                let applied = redis
                    .decide(vec![request("g", &name)], "", None)
                    .await
                    .unwrap();
                let Decision::Assigned { allocation: id, .. } = applied.answer[0] else {
                    panic!("{applied:?}")
                };
                assert_eq!(id, allocation("g", &name));
            })
        })
        .collect();
    for (i, task) in tasks.into_iter().enumerate() {
        match i % 3 {
            0 => task.abort(),
            1 => {
                tokio::task::yield_now().await;
                task.abort();
            }
            _ => task.await.unwrap(),
        }
    }
    let seen = whole(&redis).await.allocations().count();
    assert!(seen >= 133);
    for i in 0..400 {
        let applied = redis
            .decide(vec![request("g", &format!("c{i}"))], "", None)
            .await
            .unwrap();
        let (Decision::Assigned { allocation: id, .. } | Decision::Already { allocation: id, .. }) =
            applied.answer[0]
        else {
            panic!("{applied:?}")
        };
        assert_eq!(id, allocation("g", &format!("c{i}")));
    }
    let corp = whole(&redis).await;
    assert_eq!(corp.allocations().count(), 400);
    assert_eq!(corp.members().map(|view| view.load).sum::<u32>(), 400);
}

/// Redis is killed again and again in the middle of it, with an append-only file that is written always: whatever was
/// answered is there afterwards, and the state is the fold of its log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_keeps_what_it_answered() {
    let server = Server::start(Options {
        appendonly: AppendOnly::Always,
        ..Options::default()
    });
    let (_, redis) = open_corp_on(&server).await;
    pool_of_three(&redis).await;
    let mut answered = Vec::new();
    for round in 0..4 {
        let tasks: Vec<_> = (0..40)
            .map(|i| {
                let redis = redis.clone();
                tokio::spawn(async move {
                    let mut answered = Vec::new();
                    for j in 0..5 {
                        let name = format!("c{round}-{i}-{j}");
                        if redis
                            .decide(vec![request("g", &name)], "", None)
                            .await
                            .is_ok()
                        {
                            answered.push(name);
                        }
                    }
                    answered
                })
            })
            .collect();
        // Some were answered by then, some not.
        while redis
            .status()
            .await
            .is_ok_and(|status| status.seq < 3 + 30 * (round + 1))
        {
            tokio::task::yield_now().await;
        }
        server.restart();
        for task in tasks {
            answered.extend(task.await.unwrap());
        }
        // The connection comes back by itself.
        let mut tries = 0;
        while redis.status().await.is_err() {
            tries += 1;
            assert!(tries < 1000);
        }
        let corp = whole(&redis).await;
        let there: Vec<_> = corp.allocations().map(|open| open.subject).collect();
        for name in &answered {
            assert!(there.contains(&subject(name)), "{name} was answered");
        }
    }
    assert!(answered.len() > 100, "{}", answered.len());
}

/// Case 113, the first run: a full Redis refuses an operation whole, and goes on when there is room.
#[tokio::test]
async fn a_full_redis_does_nothing_half() {
    let server = Server::start(Options {
        maxmemory: Some("6mb".into()),
        ..Options::default()
    });
    let (_, redis) = open_corp_on(&server).await;
    pool_of_three(&redis).await;
    let mut given = 0;
    let refused = loop {
        let asked = (0..50).map(|i| request("g", &format!("c{given}-{i}")));
        match redis.decide(asked.collect(), "", None).await {
            Ok(_) => given += 50,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, roster::Error::Redis(_)), "{refused:?}");
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(whole(&redis).await.allocations().count(), given);
    redis
        .decide(vec![request("g", "after")], "", None)
        .await
        .unwrap();
    assert_eq!(whole(&redis).await.allocations().count(), given + 1);
}
