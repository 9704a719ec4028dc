//! Many at the moment of the last seat, pages that are closed before they hear, a Redis that is killed or wiped, a cluster.

use std::collections::{BTreeMap, BTreeSet};

use allocation::model::{Corp, SeatPlace, SeatRows};
use allocation::{
    CorpId, FillStrategy, GroupTags, Op, Released, Reserved, SeatName, SeatOp, SeatState,
    SetGroupPool,
};
use futures_util::future::join_all;
use roster::{Error, Roster};
use test_redis::{AppendOnly, Options, Server};

use crate::crash::whole;
use crate::seat_steps::{chat, group_pool, person};
use crate::seats::{change, joins, release, reserve, seat_name, set_group, set_pool, stand};
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
    shows_only_free(&redis, "oversold by others only").await;
}

/// Reads the log in its order: at every moment a group that is shown has room.
async fn shows_only_free(redis: &Redis, what: &str) {
    let mut corp = Corp::new();
    let mut n_shown = 0;
    for entry in redis.log_read(0, 50_000).await.unwrap() {
        let free = |corp: &Corp| -> BTreeMap<_, _> {
            let groups = corp.groups();
            let free = groups.map(|view| (view.config.chat().clone(), view.count.free));
            free.collect()
        };
        let before = free(&corp);
        corp.fold(&entry).unwrap();
        let allocation::Answer::Seats(answer) = &entry.outcome.answer else {
            continue;
        };
        if let (allocation::SeatResult::Reserved(reserved), true) =
            (&answer.result, answer.woken.is_empty())
        {
            for one in reserved {
                if let Reserved::Held { chat, .. } = one {
                    n_shown += 1;
                    assert!(before[chat] > 0, "{what}: {chat} is full at {}", entry.seq);
                }
            }
        }
    }
    assert!(n_shown > 0);
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

fn busy() -> Vec<SeatOp> {
    let asked = |n: usize| (0..n).map(|n| reserve(&format!("v{n}"))).collect();
    let tagged = set_group("b", 1, 9)
        .with_tags(["north".parse().unwrap()])
        .unwrap();
    let mut unknown = reserve("unknown");
    unknown.anonymous = true;
    unknown.via = Some("inv1".parse().unwrap());
    unknown.tags = GroupTags::new(vec!["north".parse().unwrap()], false).unwrap();
    vec![
        SeatOp::SetPool(set_pool(FillStrategy::Spread)),
        SeatOp::SetGroup(set_group("a", 1, 4)),
        SeatOp::SetGroup(tagged),
        SeatOp::Confirm(change("b", None, "v1", vec![joins("x")])),
        SeatOp::Reserve(vec![unknown]),
        SeatOp::SetGroup(set_group("b", 2, 2)),
        SeatOp::Confirm(change("a", None, "v1", Vec::new())),
        SeatOp::Reserve(asked(9)),
        SeatOp::Confirm(change(
            "a",
            Some("v1"),
            "v2",
            vec![joins("v1"), joins("v8")],
        )),
        SeatOp::Release(vec![release("v0")]),
    ]
}

/// Wiped, folded, written, open: everybody has what he had, and it goes on.
#[tokio::test]
async fn wiped_seats_are_rebuilt_from_the_log() {
    let mut twin = Twin::new().await;
    for op in busy() {
        twin.seats(op).await;
    }
    let states: BTreeSet<_> = twin.model.seats().iter().map(kind).collect();
    assert_eq!(states.len(), 4, "{states:?}");
    let mut ledger = Corp::new();
    for entry in twin.redis.log_read(0, 10_000).await.unwrap() {
        ledger.fold(&entry).unwrap();
    }
    twin.redis.begin_rebuild(2).await.unwrap();
    let asked = vec![reserve("late")];
    let refused = twin.redis.reserve_seats(asked, "", Some(T0)).await;
    assert!(matches!(refused, Err(Error::NotReady)));
    let now = Some(twin.now);
    twin.redis.finish_rebuild(ledger, 2, now).await.unwrap();
    twin.model.apply(&Op::Rebuilt { generation: 2 }, twin.now);
    twin.compare().await;
    twin.seats(SeatOp::Release(vec![release("v2")])).await;
    twin.seats(SeatOp::Reserve(vec![reserve("v0"), reserve("late")]))
        .await;
    twin.compare().await;
    // Nothing is left behind when all of it is wiped.
    twin.redis.begin_rebuild(3).await.unwrap();
    let now = Some(twin.now);
    let empty = twin.redis.finish_rebuild(Corp::new(), 3, now).await;
    empty.unwrap();
    let names: Vec<String> = twin.redis.dump().await.unwrap().keys.into_keys().collect();
    assert_eq!(names, ["corp"]);
}

/// Seats that were made of rows are those that were there, and Lua and model go on from them alike.
#[tokio::test]
async fn seats_made_of_rows_go_on() {
    let mut twin = Twin::new().await;
    for op in busy() {
        twin.seats(op).await;
    }
    let corp = &twin.model;
    let pools = corp.group_pools().map(|view| SetGroupPool {
        pool: view.pool,
        version: view.version,
        strategy: view.strategy,
    });
    let rows = SeatRows {
        pools: pools.collect(),
        groups: corp.groups().collect(),
        seats: corp.seats(),
        ..SeatRows::default()
    };
    let (seq, at_ms) = (corp.seq(), corp.at_ms());
    let made = Corp::from_rows(seq, at_ms, Vec::new(), Vec::new(), Vec::new());
    let made = made.with_seats(rows);
    assert_eq!(made.seats(), corp.seats());
    assert!(made.groups().eq(corp.groups()));
    twin.redis.begin_rebuild(2).await.unwrap();
    let now = Some(twin.now);
    let finished = twin.redis.finish_rebuild(made.clone(), 2, now).await;
    finished.unwrap();
    twin.model = made;
    twin.model.apply(&Op::Rebuilt { generation: 2 }, twin.now);
    twin.compare().await;
    for visitor in ["v2", "v3", "unknown"] {
        twin.seats(SeatOp::Release(vec![release(visitor)])).await;
        let asked = vec![reserve(&format!("after {visitor}")), reserve("v5")];
        twin.seats(SeatOp::Reserve(asked)).await;
        twin.compare().await;
    }
}

fn kind(view: &allocation::model::SeatView) -> SeatState {
    match view.place {
        SeatPlace::Held { .. } => SeatState::Held,
        SeatPlace::Waiting { .. } => SeatState::Waiting,
        SeatPlace::Taken { late: false, .. } => SeatState::Confirmed,
        SeatPlace::Taken { late: true, .. } => SeatState::Late,
        SeatPlace::Expired { .. } => SeatState::Expired,
    }
}

/// A value that is missing is never read as zero: the corp closes.
#[tokio::test]
async fn seats_with_a_hole_close_the_corp() {
    let mut connection = test_redis::shared().connection().await;
    let name = |visitor| -> SeatName { seat_name(visitor) };
    let (held, waits) = (name("v2"), name("v4"));
    let seat = format!("seat:{held}");
    let waiter = format!("seat:{waits}");
    for hole in [
        "group:a",
        "gheld:a",
        "gpool:g",
        &seat,
        &waiter,
        "gwait:g\u{1f}",
        "people:a",
        "corp",
    ] {
        let (corp, redis) = open_corp().await;
        for op in busy() {
            redis.apply(&Op::Seats(op), "", Some(T0)).await.unwrap();
        }
        let deleted: u32 = redis::cmd("DEL")
            .arg(format!("{{{corp}}}:v1:{hole}"))
            .query_async(&mut connection)
            .await
            .unwrap();
        assert_eq!(deleted, 1, "{hole}");
        // Whatever is missing, one of these comes across it.
        let mut leaves = change("a", Some("v2"), "v3", Vec::new());
        leaves.left = vec![person("v1"), person("v8")];
        let ops = [
            SeatOp::Release(vec![release("v3")]),
            SeatOp::RemoveGroup {
                chat: chat("a"),
                version: 9,
            },
        ];
        let mut closed = false;
        let confirm = redis.confirm_seats(leaves, "", Some(T0)).await;
        closed |= matches!(confirm, Err(Error::NotReady));
        for op in ops {
            let done = redis.apply(&Op::Seats(op), "", Some(T0)).await;
            closed |= matches!(done, Err(Error::NotReady));
        }
        assert!(closed, "{hole}");
        let asked = vec![reserve("late")];
        let refused = redis.reserve_seats(asked, "", Some(T0)).await;
        assert!(matches!(refused, Err(Error::NotReady)), "{hole}");
    }
}

/// Every key of a corp is in one slot, and no script touches another.
#[tokio::test]
async fn seats_work_on_a_cluster() {
    let connection = test_redis::shared_cluster().cluster_connection().await;
    let roster = Roster::new(connection);
    roster.load().await.unwrap();
    let corp = CorpId::new(test_redis::corp()).unwrap();
    let redis = roster.corp(&corp);
    redis.begin_rebuild(1).await.unwrap();
    redis
        .finish_rebuild(Corp::new(), 1, Some(T0))
        .await
        .unwrap();
    let mut model = Corp::new();
    model.apply(&Op::Rebuilt { generation: 1 }, T0);
    let pool = group_pool("g");
    let (wake, forget) = (SeatOp::Wake { pool, limit: 3 }, SeatOp::Forget { limit: 3 });
    let remove = SeatOp::RemoveGroup {
        chat: chat("a"),
        version: 9,
    };
    for op in busy().into_iter().chain([wake, forget, remove]) {
        let op = Op::Seats(op);
        let applied = redis.apply(&op, "", Some(T0)).await.unwrap();
        assert_eq!(applied.answer, model.apply(&op, T0));
    }
    assert!(redis.group(&chat("b")).await.unwrap().is_some());
    assert_same(&redis.dump().await.unwrap(), &model.dump());
}
