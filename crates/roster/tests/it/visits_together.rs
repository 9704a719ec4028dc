//! Many visitors at once, pages that are closed before they hear, a Redis that is killed.

use std::collections::{BTreeMap, BTreeSet};

use allocation::{Strategy, Visit, Visited};
use futures_util::future::join_all;
use test_redis::{AppendOnly, Options, Server};

use crate::crash::whole;
use crate::support::*;
use crate::visits::{slots_of, visit};

const FAIR: Strategy = Strategy::WeightedRoundRobin;

/// Of many visitors at once no two see the same slot, and every load is what is held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_see_different_slots() {
    let (_, redis) = open_corp().await;
    stand(&redis, 20).await;
    let asks = (0..64).map(|n| {
        let redis = redis.clone();
        tokio::spawn(async move {
            let asked = vec![visit(&format!("v{n}"))];
            let applied = redis.visit(asked, "", Some(T0)).await.unwrap();
            applied.answer.into_iter().next().unwrap()
        })
    });
    let mut lent = Vec::new();
    for answer in join_all(asks).await {
        let Visited::Held { slot, .. } = answer.unwrap() else {
            panic!("somebody waits")
        };
        lent.extend(slot);
    }
    assert_eq!(lent.len(), 40, "32 of each, 20 with a slot");
    assert_eq!(lent.iter().collect::<BTreeSet<_>>().len(), 40);
    let corp = whole(&redis).await;
    assert!(corp.members().all(|view| view.load == 32));
}

/// Two members with so many slots each, on.
async fn stand(redis: &Redis, n_slots: usize) {
    let members = [("ma", "1"), ("mb", "1")];
    let config = config("g", 1, FAIR, &members);
    redis.set_pool(config, "", Some(T0)).await.unwrap();
    let here = members.map(|(name, _)| allocation::PresenceChange {
        member: member(name),
        lease_until_ms: T0 * 2,
    });
    redis.presence(here.to_vec(), "", Some(T0)).await.unwrap();
    for (who, _) in members {
        let names: Vec<String> = (0..n_slots).map(|n| format!("{who}{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let change = slots_of(who, &names);
        redis.set_slots(change, "", Some(T0)).await.unwrap();
    }
}

/// Pages are closed before they hear: each visitor has one hold or none, and asking again makes it one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn visitors_that_do_not_wait_for_an_answer_have_one_hold() {
    let (_, redis) = open_corp().await;
    stand(&redis, 200).await;
    let asks: Vec<_> = (0..300)
        .map(|n| {
            let redis = redis.clone();
            tokio::spawn(async move {
                let asked = vec![visit(&format!("v{n}"))];
                redis.visit(asked, "", Some(T0)).await.unwrap();
            })
        })
        .collect();
    for (n, ask) in asks.into_iter().enumerate() {
        if n % 3 == 0 {
            tokio::task::yield_now().await;
            ask.abort();
        } else {
            ask.await.unwrap();
        }
    }
    whole(&redis).await;
    let again: Vec<Visit> = (0..300).map(|n| visit(&format!("v{n}"))).collect();
    for part in again.chunks(100) {
        redis.visit(part.to_vec(), "", Some(T0)).await.unwrap();
    }
    let corp = whole(&redis).await;
    assert_eq!(corp.allocations().count(), 300);
    assert_eq!(corp.slots().filter(|slot| slot.lent).count(), 300);
    assert!(corp.members().all(|view| view.load == 150));
}

/// What a visitor was shown is still his when Redis comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_keeps_whom_a_visitor_saw() {
    let server = Server::start(Options {
        appendonly: AppendOnly::Always,
        ..Options::default()
    });
    let (_, redis) = open_corp_on(&server).await;
    stand(&redis, 60).await;
    let mut seen = BTreeMap::new();
    for round in 0..3 {
        let asks: Vec<_> = (0..30)
            .map(|n| {
                let redis = redis.clone();
                let visitor = format!("v{round}-{n}");
                tokio::spawn(async move {
                    let asked = vec![visit(&visitor)];
                    let applied = redis.visit(asked, "", Some(T0)).await.ok()?;
                    Some((visitor, applied.answer.into_iter().next()?))
                })
            })
            .collect();
        let before = seen.len() as u64;
        while redis
            .status()
            .await
            .is_ok_and(|status| status.seq < 5 + before + 10)
        {
            tokio::task::yield_now().await;
        }
        server.restart();
        for ask in asks {
            seen.extend(ask.await.unwrap());
        }
        let mut tries = 0;
        while redis.status().await.is_err() {
            tries += 1;
            assert!(tries < 1000);
        }
        whole(&redis).await;
    }
    assert!(seen.len() > 20, "{}", seen.len());
    for (visitor, first) in seen {
        let applied = redis.visit(vec![visit(&visitor)], "", Some(T0)).await;
        let Visited::Held {
            allocation,
            member,
            slot,
            until_ms,
        } = first
        else {
            panic!("{first:?}")
        };
        let again = Visited::Again {
            allocation,
            member: Some(member),
            slot,
            until_ms,
        };
        assert_eq!(applied.unwrap().answer, [again]);
    }
}
