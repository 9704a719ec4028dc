//! Rooms that WeCom opens by itself: which way is to open one, how the room is found, and that it opens none afterwards, whatever
//! gets lost in between.

use ledger::{PlanLimits, SupplyTaskState};
use serde_json::{Value, json};
use wecom_sim::{Act, Fault, GroupRequest, When};

use crate::{
    fission_stage::Stage,
    room_stage::{LOOKED_MS, UPDATE, auto_rooms, change, code, full_but_for, opens},
    supply_stage::turn,
};

/// WeCom may put the room into the way's list.
#[tokio::test]
async fn a_room_of_which_no_event_told_is_found_in_the_ways_list() {
    let stage = full_but_for(1, &["auto_room"]).await;
    stage.armed().await;
    let room = stage.room().await;
    stage.events().await;
    turn(stage.app()).await;
    assert_eq!(stage.task().await["state"], "asked", "not looked for yet");
    stage.pass(LOOKED_MS).await;
    turn(stage.app()).await;
    stage.is_adopted(&room).await;
}

/// And it may not.
#[tokio::test]
async fn a_room_that_is_in_no_list_is_found_among_its_owners_groups() {
    let stage = full_but_for(1, &["auto_room"]).await;
    let rules = json!({"groups": {"room_listed": false}});
    stage.sim.patch_config(&rules).unwrap();
    stage.armed().await;
    let room = stage.room().await;
    stage.events().await;
    stage.pass(LOOKED_MS).await;
    turn(stage.app()).await;
    assert_eq!(stage.task().await["state"], "asked", "it is read first");
    stage.read_all().await;
    stage.is_adopted(&room).await;
}

/// Two at the same moment, at a WeCom that opens a room for each.
#[tokio::test]
async fn more_rooms_than_were_asked_for_are_taken() {
    let stage = full_but_for(1, &["auto_room"]).await;
    stage.armed().await;
    let room = stage.room().await;
    stage.hear_of_groups().await;
    let more = GroupRequest {
        name: Some("读书会2".to_owned()),
        ..GroupRequest::new("ZhangSan").chat_id("more")
    };
    stage.sim.make_groups(&more).unwrap();
    let by_hand = GroupRequest {
        name: Some("读书会 of mine".to_owned()),
        ..GroupRequest::new("ZhangSan").chat_id("hers")
    };
    stage.sim.make_groups(&by_hand).unwrap();
    stage.hear_of_groups().await;
    let task = stage.task().await;
    assert_eq!(
        (&task["state"], &task["chat_ids"]),
        (&json!("done"), &json!([room, "more"]))
    );
    let group = stage.console.get("/groups/hers").await.ok();
    assert_eq!(group["group_pool"], Value::Null);
    // The next room has the next number.
    turn(stage.app()).await;
    change(stage.app()).await;
    sqlx::query("DELETE FROM groups WHERE chat_id <> 'c1'")
        .execute(stage.app().ledger.pool())
        .await
        .unwrap();
    assert_eq!(opens(stage.app(), "ox").await, None);
    turn(stage.app()).await;
    change(stage.app()).await;
    assert_eq!(stage.way_of("c1")["room_base_id"], 3);
}

#[tokio::test]
async fn a_lost_answer_leaves_it_open_whether_rooms_are_opened() {
    let stage = full_but_for(1, &["auto_room"]).await;
    assert_eq!(opens(stage.app(), "oa").await, None);
    let mut lost = Fault::new(UPDATE, Act::Drop);
    lost.when = When::After;
    lost.times = Some(1);
    stage.sim.add_fault(lost).unwrap();
    turn(stage.app()).await;
    change(stage.app()).await;
    turn(stage.app()).await;
    let task = stage.task().await;
    assert_eq!(
        (&task["state"], stage.opening()),
        (&json!("wanted"), 1),
        "WeCom knows, we do not"
    );
    assert!(task["problem"].is_string(), "{task}");
    assert_eq!(opens(stage.app(), "oa").await, None);
    // Another process says it again.
    let other = stage.process().await;
    stage.pass(120_000).await;
    change(&other).await;
    turn(&other).await;
    assert_eq!(stage.task().await["state"], "asked");
    assert_eq!((stage.calls(UPDATE), stage.opening()), (2, 1));
    assert_eq!(opens(&other, "oa").await, code());
    // What is not known is taken back, too.
    let path = format!(
        "/supply-tasks/{}",
        stage.task().await["id"].as_str().unwrap()
    );
    stage
        .console
        .post(&format!("{path}/cancel"), json!({}))
        .await
        .ok();
    turn(&other).await;
    let way: (Option<uuid::Uuid>, Option<bool>) =
        sqlx::query_as("SELECT rooms_for, told_rooms FROM join_ways WHERE way = 'pj.c1'")
            .fetch_one(stage.app().ledger.pool())
            .await
            .unwrap();
    assert_eq!(way, (None, Some(true)));
}

#[tokio::test]
async fn wecoms_limits_pause_it_for_as_long_as_the_quota_says() {
    let stage = full_but_for(1, &["auto_room"]).await;
    assert_eq!(opens(stage.app(), "oa").await, None);
    let mut limit = Fault::new(UPDATE, Act::Errcode(45009));
    limit.times = Some(1);
    stage.sim.add_fault(limit).unwrap();
    turn(stage.app()).await;
    change(stage.app()).await;
    stage.pass(2_000).await;
    change(stage.app()).await;
    let corp_id = stage.world.corp.as_str();
    let take = stage
        .app()
        .quota
        .take(corp_id, UPDATE, quota::Urgency::Ordinary, None);
    let quota::Take::Wait { until_ms, .. } = take.await.unwrap() else {
        panic!("45009 lasts a minute");
    };
    assert_eq!(stage.calls(UPDATE), 1);
    let tasks = stage.app().ledger.supply_tasks();
    let task = tasks.open(&stage.world.corp).await.unwrap().remove(0);
    assert_eq!(task.state, SupplyTaskState::Wanted);
    let way = tasks.armed(&stage.world.corp, task.id).await.unwrap();
    let next_ms = way.unwrap().next_try_ms.unwrap();
    let until_ms = u64::try_from(until_ms).unwrap();
    assert!(
        next_ms + 2_000 >= until_ms && next_ms <= until_ms + 3_000,
        "{next_ms} {until_ms}"
    );
    assert_eq!(opens(stage.app(), "oa").await, None);
}

/// Too many calls at once: it is over soon, and nothing is given up.
#[tokio::test]
async fn too_many_calls_at_once_pause_it_for_a_moment() {
    let stage = full_but_for(1, &["auto_room"]).await;
    assert_eq!(opens(stage.app(), "oa").await, None);
    let limit = Fault::new(UPDATE, Act::Errcode(45033)).times(1);
    stage.sim.add_fault(limit).unwrap();
    turn(stage.app()).await;
    change(stage.app()).await;
    turn(stage.app()).await;
    assert_eq!((stage.calls(UPDATE), stage.opening()), (1, 0));
    let tasks = stage.app().ledger.supply_tasks();
    let task = tasks.open(&stage.world.corp).await.unwrap().remove(0);
    assert_eq!(task.state, SupplyTaskState::Wanted);
    let way = tasks.armed(&stage.world.corp, task.id).await.unwrap();
    let pause_ms = way.unwrap().next_try_ms.unwrap() - stage.app().now_ms();
    assert!((1..=10_000).contains(&pause_ms), "{pause_ms}");
    stage.pass(pause_ms).await;
    change(stage.app()).await;
    turn(stage.app()).await;
    assert_eq!((stage.calls(UPDATE), stage.opening()), (2, 1));
    assert_eq!(stage.task().await["state"], "asked");
}

#[tokio::test]
async fn a_refusal_that_lasts_ends_it_and_the_next_source_is_tried() {
    let stage = full_but_for(1, &["auto_room", "spare"]).await;
    stage.stock("c2").await;
    assert_eq!(opens(stage.app(), "oa").await, None);
    let mut refused = Fault::new(UPDATE, Act::Errcode(90501));
    refused.times = Some(1);
    stage.sim.add_fault(refused).unwrap();
    turn(stage.app()).await;
    change(stage.app()).await;
    turn(stage.app()).await;
    let task = stage.task().await;
    assert_eq!(
        (&task["state"], &task["errcode"]),
        (&json!("failed"), &json!(90501))
    );
    turn(stage.app()).await;
    assert_eq!(stage.state("c2").await, "open");
    change(stage.app()).await;
    assert_eq!(stage.opening(), 0);
}

#[tokio::test]
async fn where_no_way_can_open_a_room_the_next_source_is_tried() {
    let stage = Stage::new().await;
    stage.supply(auto_rooms(&["auto_room", "spare"])).await;
    stage.stock("c1").await;
    stage.wait_for("a").await;
    turn(stage.app()).await;
    turn(stage.app()).await;
    assert_eq!(stage.state("c1").await, "open");
    let tasks = stage.tasks().await;
    assert_eq!(
        (tasks.len(), &tasks[0]["source"], &tasks[0]["state"]),
        (2, &json!("auto_room"), &json!("failed"))
    );
    assert_eq!(stage.calls(UPDATE), 0);
}

#[tokio::test]
async fn after_the_deadline_it_opens_no_more_and_the_next_source_is_tried() {
    let stage = full_but_for(1, &["auto_room", "spare"]).await;
    stage.stock("c2").await;
    stage.armed().await;
    let room = stage.room().await;
    stage.events().await;
    // WeCom's list says nothing of it, and it cannot be read.
    let broken = Fault::new("*", Act::Errcode(-1));
    stage.sim.add_fault(broken).unwrap();
    stage.pass(900_001).await;
    turn(stage.app()).await;
    assert_eq!(stage.task().await["state"], "overdue");
    stage.sim.clear_faults();
    change(stage.app()).await;
    stage.is_disarmed().await;
    turn(stage.app()).await;
    assert_eq!(stage.state("c2").await, "open");
    // It is found late, and taken all the same.
    let now_ms = stage.app().now_ms();
    let inbox = &stage.corp().inbox;
    inbox.dirty_mark("chat_new", &room, now_ms).await.unwrap();
    stage.read_all().await;
    let task = stage.task().await;
    assert_eq!(
        (&task["state"], &task["chat_ids"]),
        (&json!("done"), &json!([room]))
    );
}

#[tokio::test]
async fn of_two_processes_one_arms_one_way() {
    let stage = full_but_for(1, &["auto_room"]).await;
    assert_eq!(opens(stage.app(), "oa").await, None);
    let other = stage.process().await;
    for _ in 0..5 {
        tokio::join!(turn(stage.app()), turn(&other));
        tokio::join!(change(stage.app()), change(&other));
    }
    assert_eq!((stage.calls(UPDATE), stage.opening()), (1, 1));
    assert_eq!(stage.tasks().await.len(), 1);
    // Both show the code, and together no more than one of them would.
    let mut shown = 0;
    for n in 0..8 {
        let app = if n % 2 == 0 { stage.app() } else { &other };
        shown += usize::from(opens(app, &format!("o{n}")).await.is_some());
    }
    assert_eq!(shown, 3);
}

/// Each process dies where the test says; another goes on.
#[tokio::test]
async fn whoever_takes_over_goes_on() {
    let stage = full_but_for(1, &["auto_room"]).await;
    assert_eq!(opens(stage.app(), "oa").await, None);
    // Written, and WeCom not told.
    turn(stage.app()).await;
    assert_eq!((stage.calls(UPDATE), stage.opening()), (0, 0));
    let second = stage.process().await;
    change(&second).await;
    // Told, and the task not written.
    let third = stage.process().await;
    turn(&third).await;
    assert_eq!(stage.task().await["state"], "asked");
    assert_eq!(opens(&third, "oa").await, code());
    assert_eq!(stage.scans("a"), "c1");
    let room = stage.scans("b");
    // The room is known, and not the pool's.
    stage.put(&room, json!({})).await;
    stage.hear_of_groups().await;
    // The pool's, and WeCom opens more.
    assert_eq!(
        (stage.task().await["state"].clone(), stage.opening()),
        (json!("done"), 1)
    );
    let fourth = stage.process().await;
    turn(&fourth).await;
    change(&fourth).await;
    stage.is_disarmed().await;
    assert_eq!(stage.calls(UPDATE), 2);
}

/// Two words on their way at once might come in the wrong order.
#[tokio::test]
async fn a_call_that_is_under_way_is_not_overtaken() {
    let stage = full_but_for(1, &["auto_room"]).await;
    assert_eq!(opens(stage.app(), "oa").await, None);
    turn(stage.app()).await;
    let (app, id) = (stage.app(), &stage.world.corp);
    let ways = app.ledger.join_ways();
    let take = async || {
        let taken = ways.changeable(id, 9, 60_000, app.now_ms()).await;
        taken.unwrap().pop()
    };
    let first = take().await.unwrap();
    let rooms = first.rooms.as_ref().unwrap();
    let path = format!("/supply-tasks/{}/cancel", rooms.task);
    stage.console.post(&path, json!({})).await.ok();
    turn(app).await;
    assert!(take().await.is_none(), "its answer is waited for");
    let told = ways.changed(id, &first.way, &first.chats, Some(rooms.task), app.now_ms());
    told.await.unwrap();
    let second = take().await.unwrap();
    assert_eq!(second.rooms, None);
    // Whoever had it died: after its lease it is taken again.
    stage.pass(60_001).await;
    change(app).await;
    stage.is_disarmed().await;
}

/// A way that is shown no more and may open rooms does not rest: whoever has its code opens none.
#[tokio::test]
async fn where_a_campaign_ends_no_room_is_opened() {
    let stage = full_but_for(1, &["auto_room"]).await;
    stage.armed().await;
    let closed = json!({"name": "x", "group_pool": "p1", "state": "closed"});
    stage.console.put("/campaigns/spring", closed).await.ok();
    let limits = PlanLimits {
        ways: 1_000,
        batch: 1_000,
        rest_ms: 86_400_000,
    };
    let app = stage.app();
    let ways = app.ledger.join_ways();
    let planned = ways.plan(&stage.world.corp, limits, app.now_ms()).await;
    assert_eq!(planned.unwrap().retired, 1);
    stage.pass(60_001).await;
    turn(app).await;
    assert_eq!(stage.task().await["state"], "cancelled");
    let due = ways.deletable(&stage.world.corp, 9, 60_000, app.now_ms());
    assert_eq!(due.await.unwrap().len(), 1);
}
