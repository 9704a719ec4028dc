//! Many at the moment of the last seat, people who come meanwhile, pages that are closed before they hear, a Redis that is killed.

use std::collections::{BTreeMap, BTreeSet};

use allocation::model::{Corp, SeatPlace};
use allocation::{Answer, Released, Reserved, SeatResult};
use futures_util::future::join_all;
use test_redis::{AppendOnly, Options, Server};

use crate::crash::whole;
use crate::seat_steps::chat;
use crate::seats::{change, joins, release, reserve, seat_name, stand};
use crate::support::*;

fn shown(reserved: &Reserved) -> Option<String> {
    match reserved {
        Reserved::Held { chat, .. } | Reserved::Again { chat, .. } => Some(chat.to_string()),
        Reserved::Waiting { .. } => None,
        other => panic!("{other:?}"),
    }
}

/// Each asks for himself, all at once. What they were shown, by visitor.
async fn all_ask(redis: &Redis, visitors: std::ops::Range<usize>) -> BTreeMap<usize, Reserved> {
    let asks = visitors.map(|n| {
        let redis = redis.clone();
        tokio::spawn(async move {
            let asked = vec![reserve(&format!("v{n}"))];
            let applied = redis.reserve_seats(asked, "", Some(T0)).await.unwrap();
            (n, applied.answer.into_iter().next().unwrap())
        })
    });
    let answers = join_all(asks).await;
    answers.into_iter().map(|answer| answer.unwrap()).collect()
}

/// A thousand at the moment of the last seats: nobody is shown a group without room, all others have a place in one line, and
/// what is given back goes to the first of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_at_the_moment_of_the_last_seat() {
    let (_, redis) = open_corp().await;
    stand(&redis, &[("a", 3), ("b", 4), ("c", 1)]).await;
    let answers = all_ask(&redis, 0..1_000).await;
    let mut groups: BTreeMap<String, u32> = BTreeMap::new();
    let mut positions = BTreeSet::new();
    for answer in answers.values() {
        match (shown(answer), answer) {
            (Some(chat), _) => *groups.entry(chat).or_default() += 1,
            (None, Reserved::Waiting { position, .. }) => {
                assert!(positions.insert(*position), "two stand at {position}");
            }
            _ => unreachable!(),
        }
    }
    let expected = [("a", 3), ("b", 4), ("c", 1)].map(|(chat, n)| (chat.to_owned(), n));
    assert_eq!(groups, BTreeMap::from(expected));
    assert!(positions.into_iter().eq(1..=992));
    let corp = whole(&redis).await;
    let pool = corp.group_pools().next().unwrap();
    assert_eq!((pool.free, pool.waiting, pool.available), (0, 992, 0));

    // All who hold give back at once, and half of those who wait go: the others move up in their order.
    let waits: Vec<usize> = {
        let waits = answers.iter().filter(|(_, answer)| shown(answer).is_none());
        waits.map(|(n, _)| *n).collect()
    };
    let goes = answers.keys().filter(|n| *n % 2 == 0 || !waits.contains(n));
    let tasks = goes.map(|n| {
        let (redis, visitor) = (redis.clone(), format!("v{n}"));
        tokio::spawn(async move {
            let asked = vec![release(&visitor)];
            redis.release_seats(asked, "", Some(T0)).await.unwrap()
        })
    });
    let mut n_woken = 0;
    for applied in join_all(tasks).await {
        let applied = applied.unwrap();
        assert_ne!(applied.answer[0], Released::Unknown);
        n_woken += applied.woken.len();
    }
    assert!(n_woken >= 8, "{n_woken}");
    let corp = whole(&redis).await;
    let counts: Vec<_> = corp.groups().map(|view| view.count.held).collect();
    assert_eq!(counts, [3, 4, 1]);
}

/// The last seats go, come back by those who never join, and go again while people join and others are invited past us: at no
/// time is more held than there is, and what everybody was told is true.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_come_while_others_ask() {
    let (_, redis) = open_corp().await;
    stand(&redis, &[("a", 60), ("b", 60)]).await;
    let answers = all_ask(&redis, 0..200).await;
    let joined: Vec<(String, String)> = answers
        .iter()
        .filter(|(n, _)| *n % 3 != 0)
        .filter_map(|(n, answer)| Some((format!("v{n}"), shown(answer)?)))
        .collect();
    let comes = {
        let (redis, joined) = (redis.clone(), joined.clone());
        tokio::spawn(async move {
            for (i, (visitor, group)) in joined.iter().enumerate() {
                let seen = redis.group(&chat(group)).await.unwrap().unwrap().seen;
                let mut people = vec![joins(visitor)];
                if i % 4 == 0 {
                    people.push(joins(&format!("invited {i}")));
                }
                let mut read = change(group, None, &format!("w{i}"), people);
                read.from = seen;
                redis.confirm_seats(read, "", Some(T0)).await.unwrap();
            }
        })
    };
    let goes = answers
        .iter()
        .filter(|(n, answer)| *n % 3 == 0 && shown(answer).is_some());
    let goes = goes.map(|(n, _)| {
        let (redis, visitor) = (redis.clone(), format!("v{n}"));
        tokio::spawn(async move {
            let asked = vec![release(&visitor)];
            redis.release_seats(asked, "", Some(T0)).await.unwrap();
        })
    });
    let more = all_ask(&redis, 200..300);
    let (gone, _) = tokio::join!(join_all(goes), more);
    gone.into_iter().for_each(|done| done.unwrap());
    comes.await.unwrap();
    let corp = whole(&redis).await;
    for (visitor, _) in &joined {
        let seat = corp.seat(&seat_name(visitor)).unwrap();
        assert!(matches!(seat.place, SeatPlace::Taken { late: false, .. }));
    }
    for view in corp.groups() {
        let taken = view.count.people + view.count.held;
        // Whoever was invited came when the last seats were held.
        assert_eq!(view.count.oversold, taken.saturating_sub(60));
    }
    let invited = joined.len().div_ceil(4) as u32;
    let over: u32 = corp.groups().map(|view| view.count.oversold).sum();
    assert!(over <= invited, "{over} of {invited}");
    gives_only_free(&redis).await;
}

/// Reads the log in its order: whenever somebody is given a seat the group has room for him, whoever came past us.
async fn gives_only_free(redis: &Redis) {
    let mut corp = Corp::new();
    let mut n_given = 0;
    for entry in redis.log_read(0, 50_000).await.unwrap() {
        corp.fold(&entry).unwrap();
        let Answer::Seats(answer) = &entry.outcome.answer else {
            continue;
        };
        let mut given: Vec<_> = answer.woken.iter().map(|woken| &woken.chat).collect();
        if let SeatResult::Reserved(reserved) = &answer.result {
            given.extend(reserved.iter().filter_map(|one| match one {
                Reserved::Held { chat, .. } => Some(chat),
                _ => None,
            }));
        }
        for chat in given {
            n_given += 1;
            let view = corp.groups().find(|view| view.config.chat() == chat);
            let view = view.unwrap();
            let taken = view.count.people + view.count.held;
            let room = view.config.scan_cap() - view.config.buffer();
            assert!(taken <= room, "{chat} is full at {}", entry.seq);
        }
    }
    assert!(n_given > 100, "{n_given}");
}

/// Pages are closed before they hear: each visitor has one seat or none, and asking again makes it one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn visitors_that_do_not_wait_for_an_answer_have_one_seat() {
    let (_, redis) = open_corp().await;
    stand(&redis, &[("a", 100), ("b", 100)]).await;
    let asks: Vec<_> = (0..300)
        .map(|n| {
            let redis = redis.clone();
            tokio::spawn(async move {
                let asked = vec![reserve(&format!("v{n}"))];
                redis.reserve_seats(asked, "", Some(T0)).await.unwrap();
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
    all_ask(&redis, 0..300).await;
    let corp = whole(&redis).await;
    assert_eq!(corp.seats().len(), 300);
    let held = corp.groups().map(|view| view.count.held);
    assert_eq!(held.sum::<u32>(), 200);
}

/// What a visitor was shown is still his when Redis comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_keeps_which_group_a_visitor_saw() {
    let server = Server::start(Options {
        appendonly: AppendOnly::Always,
        ..Options::default()
    });
    let (_, redis) = open_corp_on(&server).await;
    stand(&redis, &[("a", 50), ("b", 50)]).await;
    let mut seen: BTreeMap<String, Reserved> = BTreeMap::new();
    for round in 0..3 {
        let asks: Vec<_> = (0..30)
            .map(|n| {
                let redis = redis.clone();
                let visitor = format!("v{round}-{n}");
                tokio::spawn(async move {
                    let asked = vec![reserve(&visitor)];
                    let applied = redis.reserve_seats(asked, "", Some(T0)).await.ok()?;
                    Some((visitor, applied.answer.into_iter().next()?))
                })
            })
            .collect();
        let before = seen.len() as u64;
        while redis
            .status()
            .await
            .is_ok_and(|status| status.seq < 6 + before + 10)
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
        let asked = vec![reserve(&visitor)];
        let applied = redis.reserve_seats(asked, "", Some(T0)).await.unwrap();
        assert_eq!(shown(&applied.answer[0]), shown(&first));
    }
}
