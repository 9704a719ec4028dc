//! Seats end by time, processes die, Redis is wiped, WeCom refuses: nothing is given back twice, and nothing before it was looked
//! for whoever it was held for.

use std::{sync::Arc, time::Duration};

use allocator::{
    fission::{reader, timers},
    guard,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wecom_sim::{Act, Fault};

use crate::fission_stage::{GET, LAG_MS, Stage, person};

const HOLD_MS: u64 = 600_000;

#[tokio::test]
async fn a_seat_is_given_back_after_its_group_was_read_and_a_late_one_counts() {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    stage.held("unionid", "owmA", None).await;
    stage.held("unionid", "owmB", None).await;
    assert_eq!(stage.release().await, 0);
    // He came and no event told it.
    let way = stage.way("wr1", None).await;
    stage.scan(&way, &[person("wmB")]);
    stage.events().await;
    stage.pass(HOLD_MS + 1).await;
    assert_eq!(stage.release().await, 0);
    assert_eq!(stage.is("unionid", "owmA").await, "held");
    stage.read_all().await;
    assert_eq!(stage.is("unionid", "owmB").await, "confirmed");
    assert_eq!(stage.release().await, 1);
    assert_eq!(stage.is("unionid", "owmA").await, "expired");
    assert_eq!(stage.count("wr1").await, (2, 0, 7, 0));
    // It was the only one; there is nothing to do twice.
    assert_eq!(stage.release().await, 0);
    stage.scan(&way, &[person("wmA")]);
    stage.hear().await;
    assert_eq!(stage.is("unionid", "owmA").await, "late");
    stage.exact("wr1").await;
}

/// An event brought him and no read named him yet: his seat waits for it.
#[tokio::test]
async fn no_seat_is_given_back_while_somebody_in_the_group_has_no_name() {
    let stage = Stage::with(LAG_MS).await;
    stage.group("wr1").await;
    stage.held("unionid", "owmA", None).await;
    stage.pass(HOLD_MS - 100).await;
    let known = "UPDATE groups SET people_read_at = now() + interval '1 day'";
    stage.world.sql(known).await;
    let way = stage.way("wr1", None).await;
    stage.scan(&way, &[person("wmA")]);
    let events = stage.events().await;
    stage.deliver(&events).await;
    stage.pass(101).await;
    assert_eq!(stage.release().await, 0);
    stage.read_all().await;
    assert_eq!(stage.is("unionid", "owmA").await, "confirmed");
}

#[tokio::test]
async fn many_processes_give_a_seat_back_once_and_renewed_ones_never() {
    let stage = Stage::new().await;
    for chat in ["wr1", "wr2", "wr3"] {
        stage.group(chat).await;
    }
    for n in 0..24 {
        stage.held("unionid", &format!("o{n}"), None).await;
    }
    stage.pass(HOLD_MS + 1).await;
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(stage.process().await);
    }
    stage.read_all().await;
    stage.release().await;
    stage.read_all().await;
    let releasing = others.iter().map(|app| {
        let (app, corp) = (Arc::clone(app), Arc::clone(&app.corps[&stage.world.corp]));
        tokio::spawn(async move {
            let stop = CancellationToken::new();
            timers::release(&app, &corp, &stop).await.unwrap()
        })
    });
    let mut released = stage.release().await;
    for one in releasing.collect::<Vec<_>>() {
        released += one.await.unwrap();
    }
    assert!(released <= 24, "{released}");
    for n in 0..24 {
        assert_eq!(stage.is("unionid", &format!("o{n}")).await, "expired");
    }
    for chat in ["wr1", "wr2", "wr3"] {
        assert_eq!(stage.count(chat).await, (1, 0, 8, 0));
    }
}

/// What cannot be read does not keep seats for ever.
#[tokio::test]
async fn where_wecom_does_not_let_a_group_be_read_its_seats_come_back_later() {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    stage.held("unionid", "owmA", None).await;
    stage
        .sim
        .add_fault(Fault::new(GET, Act::Errcode(90501)).chat("wr1"))
        .unwrap();
    stage.pass(HOLD_MS + 1).await;
    assert_eq!(stage.release().await, 0);
    stage.read_all().await;
    assert_eq!(stage.release().await, 0);
    let row = stage.console.get("/groups/wr1").await.ok();
    assert_eq!(row["problem"]["errcode"], 90501);
    stage
        .pass(stage.app().config.fission.unread_release_ms)
        .await;
    assert_eq!(stage.release().await, 1);
    assert_eq!(stage.is("unionid", "owmA").await, "expired");
    // It rests, and is read again when that is over.
    let reads = stage.reads();
    stage.sim.clear_faults();
    stage.pass(stage.app().config.fission.period_ms).await;
    stage.read_all().await;
    assert!(stage.reads() > reads);
    stage.exact("wr1").await;
    let row = stage.console.get("/groups/wr1").await.ok();
    assert!(row["problem"].is_null());
}

/// A process dies with a mark in its hands: when its lease is over another one reads the group.
#[tokio::test]
async fn whoever_dies_in_the_middle_of_a_read_loses_nothing() {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    stage.held("unionid", "owmA", None).await;
    let way = stage.way("wr1", None).await;
    stage.scan(&way, &[person("wmA")]);
    let events = stage.events().await;
    stage.deliver(&events).await;
    stage.pass(2_050).await;
    let hangs = Fault::new(GET, Act::Hang);
    stage.sim.add_fault(hangs).unwrap();
    let (dead, reads) = (stage.process().await, stage.reads());
    let corp = Arc::clone(&dead.corps[&stage.world.corp]);
    let reading = tokio::spawn(async move { reader::turn(&dead, &corp).await });
    while stage.reads() == reads {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    reading.abort();
    assert!(reading.await.unwrap_err().is_cancelled());
    stage.sim.clear_faults();
    stage.read().await;
    assert_eq!(stage.is("unionid", "owmA").await, "held");
    stage.pass(60_000).await;
    stage.read_all().await;
    assert_eq!(stage.is("unionid", "owmA").await, "confirmed");
    stage.exact("wr1").await;
}

/// WeCom's limits are waited for, and the mark is kept.
#[tokio::test]
async fn the_quota_is_waited_for() {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    stage.invite("wr1", 1);
    let events = stage.events().await;
    stage.deliver(&events).await;
    stage.pass(2_050).await;
    let limit = Fault::new(GET, Act::Errcode(45009));
    stage.sim.add_fault(limit).unwrap();
    let reads = stage.reads();
    stage.read().await;
    assert_eq!(stage.reads(), reads + 1);
    let corp = stage.world.corp.as_str();
    let taken = stage
        .app()
        .quota
        .take(corp, GET, quota::Urgency::Ordinary, None);
    let blocked = taken.await.unwrap();
    assert!(matches!(blocked, quota::Take::Wait { .. }), "{blocked:?}");
    assert_eq!(
        stage
            .corp()
            .inbox
            .dirty_count("chat")
            .await
            .unwrap()
            .waiting,
        1
    );
    let pending = stage.view("wr1").await;
    assert!(pending.people.iter().any(|person| person.pending));
}

#[tokio::test]
async fn a_wiped_redis_is_closed_rebuilt_told_and_exact() {
    let stage = Stage::new().await;
    for chat in ["wr1", "wr2"] {
        stage.group(chat).await;
    }
    let way = stage.way("wr1", None).await;
    stage.held("unionid", "owmA", None).await;
    stage.held("unionid", "owmB", None).await;
    stage.scan(&way, &[person("wmA")]);
    stage.hear().await;
    stage.world.written().await;
    let before = (stage.count("wr1").await, stage.count("wr2").await);
    stage.scan(&way, &[person("wmB")]);
    let missed = stage.events().await;
    let keys = test_redis::shared().cli(&["KEYS", &format!("{{{}}}:v1:*", stage.world.corp)]);
    for key in keys.lines() {
        test_redis::shared().cli(&["DEL", key]);
    }
    // Closed: nothing is decided, and no event is taken for one of nobody's group.
    let batch = stage.batch(&missed);
    let (app, corp) = (stage.app(), stage.corp());
    let closed = allocator::decide::decide(app, corp, &batch, false).await;
    assert!(
        matches!(
            closed,
            Err(allocator::decide::Error::Roster(roster::Error::NotReady))
        ),
        "{closed:?}"
    );
    guard::rebuild(app, corp, guard::Wanted::default())
        .await
        .unwrap();
    stage.tell().await;
    assert_eq!((stage.count("wr1").await, stage.count("wr2").await), before);
    assert_eq!(stage.is("unionid", "owmA").await, "confirmed");
    assert_eq!(stage.is("unionid", "owmB").await, "held");
    // What came meanwhile is found without its event: every group is read by a new generation.
    let reads = stage.reads();
    stage.read_all().await;
    assert!(stage.reads() >= reads + 2);
    stage.exact("wr1").await;
    stage.exact("wr2").await;
    assert_eq!(stage.is("unionid", "owmB").await, "confirmed");
    stage.deliver(&missed).await;
    stage.read_all().await;
    stage.exact("wr1").await;
}

#[tokio::test]
async fn redis_is_told_what_operators_say() {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    stage.held("unionid", "owmA", None).await;
    for (body, free) in [
        (json!({"group_pool": "p1", "state": "closed"}), 0),
        (json!({"group_pool": "p1", "state": "spare"}), 0),
        (
            json!({"group_pool": "p1", "scan_cap": 6, "tags": ["北京"]}),
            3,
        ),
    ] {
        stage.put("wr1", body).await;
        stage.tell().await;
        let pool = "p1".parse().unwrap();
        let pool = stage.corp().roster.group_pool(&pool).await.unwrap();
        assert_eq!(pool.unwrap().free, free);
        // People and holds stay whatever it is told to be.
        assert_eq!(
            (
                stage.count("wr1").await.0,
                stage.is("unionid", "owmA").await
            ),
            (1, "held")
        );
    }
    let another = json!({"name": "y", "scan_cap": 10, "hard_cap": 20, "buffer": 2});
    stage.console.put("/group-pools/p2", another).await.ok();
    stage.put("wr1", json!({"group_pool": "p2"})).await;
    stage.tell().await;
    assert_eq!(stage.count("wr1").await, (1, 1, 6, 0));
    // The seat that somebody holds is lost with them only when that is said.
    stage.world.written().await;
    let refused = stage.console.delete("/campaigns/spring").await;
    let code = "campaign_has_seats".to_owned();
    assert_eq!(refused.refused(), (409, code));
    let current = json!({"held": 1, "waiting": 0});
    assert_eq!(refused.json()["current"], current);
    let forced = stage.console.delete("/campaigns/spring?force=true").await;
    assert_eq!(forced.status, 204);
    stage.console.delete("/group-pools/p1").await.ok();
    stage.tell().await;
    let versions = ["p1", "p2"].map(|pool| pool.parse().unwrap());
    let versions = stage.corp().roster.group_pool_versions(&versions).await;
    let removed = versions
        .unwrap()
        .into_iter()
        .map(|one| one.unwrap().removed);
    assert_eq!(removed.collect::<Vec<_>>(), [true, false]);
    // Out of its pool, its seats end; back in it, nobody is known until it is read.
    for refused in [
        stage.console.put("/groups/wr1", json!({})).await,
        stage.console.delete("/groups/wr1").await,
    ] {
        assert_eq!(refused.refused(), (409, "group_has_seats".to_owned()));
        assert_eq!(refused.json()["current"], json!({"held": 1}));
    }
    let out = stage.console.put("/groups/wr1?force=true", json!({})).await;
    assert_eq!(out.status, 200);
    stage.tell().await;
    assert_eq!(stage.is("unionid", "owmA").await, "none");
    stage.put("wr1", json!({"group_pool": "p2"})).await;
    stage.tell().await;
    assert_eq!(stage.view("wr1").await.seen, None);
    stage.read_all().await;
    stage.exact("wr1").await;
}

/// A group that was made a moment ago, read by two processes, each of which finds it as it was then.
#[tokio::test]
async fn a_read_that_says_the_same_again_is_no_newer() {
    let stage = Stage::with(LAG_MS).await;
    stage.make("wr1");
    stage.pass(LAG_MS + 1).await;
    stage.invite("wr1", 3);
    // Nobody hears of it.
    stage.events().await;
    stage.put("wr1", json!({"group_pool": "p1"})).await;
    stage.tell().await;
    stage.read().await;
    assert_eq!(stage.count("wr1").await.0, 1, "as it was");
    stage.mark("wr1").await;
    stage.read().await;
    assert_eq!(stage.count("wr1").await.0, 1);
    stage.read_all().await;
    assert_eq!(stage.count("wr1").await.0, 4);
    stage.exact("wr1").await;
}

/// Two processes at a group: it is read once, and what they do to it is done once.
#[tokio::test]
async fn processes_share_the_reads() {
    let stage = Stage::new().await;
    let chats: Vec<String> = (0..8).map(|n| format!("wr{n}")).collect();
    for chat in &chats {
        stage.make(chat);
        stage.put(chat, json!({"group_pool": "p1"})).await;
    }
    stage.events().await;
    stage.tell().await;
    let others = [stage.process().await, stage.process().await];
    // Each was looked up when it was put: more of them than these would be more calls than the budget gives at once.
    let before = stage.reads();
    reader::look(stage.app(), stage.corp()).await.unwrap();
    let turns = others.map(|app| {
        let corp = Arc::clone(&app.corps[&stage.world.corp]);
        tokio::spawn(async move { while reader::turn(&app, &corp).await.unwrap() > 0 {} })
    });
    for turn in turns {
        turn.await.unwrap();
    }
    // One for which no place was free in flight was put off for a moment.
    while stage.reads() < before + 8 {
        stage.pass(10).await;
        while reader::turn(stage.app(), stage.corp()).await.unwrap() > 0 {}
    }
    assert_eq!(stage.reads(), before + 8);
    stage.read_all().await;
    for chat in &chats {
        stage.exact(chat).await;
    }
    // Each once more, as the first read may have been behind.
    assert_eq!(stage.reads(), 24);
}

/// One call serves so many who wait; the others are served by whoever looks.
#[tokio::test]
async fn those_who_wait_are_served_and_forgotten_in_time() {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    stage
        .put("wr1", json!({"group_pool": "p1", "state": "closed"}))
        .await;
    stage.tell().await;
    for n in 0..70 {
        let waits = stage.reserve("unionid", &format!("o{n}"), None).await;
        assert!(matches!(waits, allocation::Reserved::Waiting { .. }));
    }
    let (app, corp) = (stage.app(), stage.corp());
    assert_eq!(timers::wake(app, corp).await.unwrap(), 0);
    let large = json!({"group_pool": "p1", "scan_cap": 70, "hard_cap": 70});
    stage.put("wr1", large).await;
    stage.tell().await;
    assert_eq!(stage.count("wr1").await.1, 64);
    // One is the owner and one is kept.
    assert_eq!(timers::wake(app, corp).await.unwrap(), 4);
    assert_eq!(stage.count("wr1").await.1, 68);
    assert_eq!(stage.is("unionid", "o69").await, "waiting");
    let stop = CancellationToken::new();
    assert_eq!(timers::forget(app, corp, &stop).await.unwrap(), 0);
    stage.asks("unionid", "oLast", None, 1).await;
    let mut forgotten = 0;
    while forgotten == 0 {
        forgotten = timers::forget(app, corp, &stop).await.unwrap();
    }
    assert_eq!(forgotten, 1);
    assert_eq!(stage.is("unionid", "oLast").await, "none");
    assert_eq!(stage.is("unionid", "o69").await, "waiting");
}
