//! Seats that are wiped, made of rows, or have a hole; and on a cluster.

use std::collections::BTreeSet;

use allocation::model::{Corp, SeatPlace, SeatRows, SeatView};
use allocation::{CorpId, FillStrategy, GroupTags, Op, SeatName, SeatOp, SeatState, SetGroupPool};
use roster::{Error, Roster};

use crate::seat_steps::{chat, group_pool, person};
use crate::seats::{change, joins, release, reserve, seat_name, set_group, set_pool};
use crate::support::*;

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

fn kind(view: &SeatView) -> SeatState {
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
