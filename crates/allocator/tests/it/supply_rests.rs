//! Sources of groups that rest: after a failure, as nobody answers, or as somebody called them off; and what ends that.

use serde_json::{Value, json};
use wecom_sim::{Act, Fault, GroupRequest};

use crate::{
    fission_stage::Stage,
    room_stage::{auto_rooms, full_but_for, opens},
    supply_stage::{SEND, turn},
};

const MINUTE_MS: u64 = 60_000;

fn by_person(keeper: &str) -> Value {
    json!({"min_free": 0, "ahead_seconds": 0, "sources": ["person"], "keeper": keeper, "deadline_seconds": 60})
}

async fn supply_of(stage: &Stage) -> Value {
    stage.console.get("/group-pools/p1/supply").await.ok()
}

/// The keeper has his minute, and makes none.
async fn is_not_answered(stage: &Stage) {
    turn(stage.app()).await;
    assert_eq!(stage.tasks().await.last().unwrap()["state"], "asked");
    stage.pass(MINUTE_MS + 1).await;
    turn(stage.app()).await;
    assert_eq!(stage.tasks().await.last().unwrap()["state"], "overdue");
}

/// As long as he had, then twice as long, and so on: he gets no card a minute for ever.
#[tokio::test]
async fn a_keeper_who_makes_no_group_is_left_alone_for_longer_each_time() {
    let stage = Stage::new().await;
    stage.same_clock().await;
    stage.supply(by_person("LiSi")).await;
    stage.wait_for("a").await;
    for times in 1..=4 {
        is_not_answered(&stage).await;
        assert_eq!(supply_of(&stage).await["unanswered"], times);
        let rest_ms = MINUTE_MS << (times - 1);
        stage.pass(rest_ms - 1_000).await;
        turn(stage.app()).await;
        assert_eq!(stage.tasks().await.len(), times, "he rests");
        stage.pass(1_001).await;
        // The first ends what is overdue, the second asks.
        turn(stage.app()).await;
        turn(stage.app()).await;
        assert_eq!(stage.tasks().await.len(), times + 1);
    }
    // He makes one: from now on he is as he was.
    let made = GroupRequest::new("LiSi").chat_id("c1");
    stage.sim.make_groups(&made).unwrap();
    stage.hear_of_groups().await;
    assert_eq!(stage.tasks().await[4]["state"], "done");
    assert_eq!(supply_of(&stage).await["unanswered"], 0);
}

#[tokio::test]
async fn another_keeper_is_asked_at_once() {
    let stage = Stage::new().await;
    stage.same_clock().await;
    stage.supply(by_person("LiSi")).await;
    stage.wait_for("a").await;
    is_not_answered(&stage).await;
    turn(stage.app()).await;
    let supply = supply_of(&stage).await;
    assert_eq!(supply["resting"][0]["source"], "person");
    assert_eq!(stage.tasks().await.len(), 1);
    stage.supply(by_person("ZhangSan")).await;
    assert_eq!(supply_of(&stage).await["resting"], json!([]));
    turn(stage.app()).await;
    turn(stage.app()).await;
    let tasks = stage.tasks().await;
    assert_eq!((tasks.len(), &tasks[0]["state"]), (2, &json!("cancelled")));
    assert_eq!(tasks[1]["state"], "asked");
    // While the first has his time the next is not kept waiting for him, either, and nothing counts against him.
    stage.supply(by_person("LiSi")).await;
    for _ in 0..2 {
        turn(stage.app()).await;
    }
    let tasks = stage.tasks().await;
    let states: Vec<_> = tasks.iter().map(|task| &task["state"]).collect();
    assert_eq!(states, ["cancelled", "cancelled", "asked"]);
    assert_eq!(supply_of(&stage).await["unanswered"], 0);
}

#[tokio::test]
async fn a_keeper_who_could_not_be_told_is_replaced_without_a_rest() {
    let stage = Stage::new().await;
    stage.supply(by_person("LiSi")).await;
    stage.wait_for("a").await;
    let left = Fault::new(SEND, Act::Errcode(81013)).times(1);
    stage.sim.add_fault(left).unwrap();
    turn(stage.app()).await;
    turn(stage.app()).await;
    assert_eq!(stage.tasks().await.len(), 1);
    assert_eq!(supply_of(&stage).await["resting"][0]["source"], "person");
    stage.supply(by_person("ZhangSan")).await;
    turn(stage.app()).await;
    let tasks = stage.tasks().await;
    assert_eq!((tasks.len(), &tasks[1]["state"]), (2, &json!("asked")));
    let keeper = tasks[1]["keeper"].as_str().unwrap();
    assert!(keeper.eq_ignore_ascii_case("ZhangSan"), "{keeper}");
}

#[tokio::test]
async fn a_task_that_was_called_off_is_not_made_anew_at_once() {
    let stage = Stage::new().await;
    stage.same_clock().await;
    let mut supply = by_person("LiSi");
    supply["sources"] = json!(["spare", "person"]);
    stage.supply(supply).await;
    stage.wait_for("a").await;
    turn(stage.app()).await;
    let tasks = stage.tasks().await;
    assert_eq!(tasks.len(), 2);
    for task in &tasks {
        let path = format!("/supply-tasks/{}/cancel", task["id"].as_str().unwrap());
        stage.console.post(&path, json!({})).await.ok();
    }
    for _ in 0..3 {
        turn(stage.app()).await;
    }
    assert_eq!(stage.tasks().await.len(), 2);
    let resting = supply_of(&stage).await["resting"].clone();
    assert_eq!(
        (&resting[0]["source"], &resting[1]["source"]),
        (&json!("spare"), &json!("person"))
    );
    // By hand it is asked for all the same, and rests no more.
    let by_hand = json!({"source": "person"});
    let path = "/group-pools/p1/supply-tasks";
    let task = stage.console.post(path, by_hand).await.ok();
    assert_eq!(task["state"], "wanted");
    let resting = supply_of(&stage).await["resting"].clone();
    assert_eq!(resting.as_array().map(Vec::len), Some(1));
    turn(stage.app()).await;
    assert_eq!(stage.tasks().await[2]["state"], "asked");
    // What comes into stock meanwhile is opened: that asks nobody.
    stage.stock("c1").await;
    turn(stage.app()).await;
    assert_eq!(stage.state("c1").await, "open");
}

/// No code led into a group; now one does.
#[tokio::test]
async fn a_code_that_came_since_ends_the_rest_of_rooms() {
    let stage = Stage::new().await;
    stage.supply(auto_rooms(&["auto_room"])).await;
    stage.wait_for("a").await;
    turn(stage.app()).await;
    turn(stage.app()).await;
    let tasks = stage.tasks().await;
    assert_eq!((tasks.len(), &tasks[0]["state"]), (1, &json!("failed")));
    assert_eq!(supply_of(&stage).await["resting"][0]["source"], "auto_room");
    // By hand it is said at once, and no task is made.
    let by_hand = json!({"source": "auto_room"});
    let path = "/group-pools/p1/supply-tasks";
    let refused = stage.console.post(path, by_hand.clone()).await;
    assert_eq!(refused.refused(), (409, "no_way".to_owned()));
    stage.group("c1").await;
    assert_eq!(supply_of(&stage).await["resting"], json!([]));
}

/// By hand: also while nothing is lacking; WeCom opens one at a time.
#[tokio::test]
async fn a_room_is_asked_for_by_hand() {
    let stage = full_but_for(1, &["spare", "auto_room"]).await;
    let path = "/group-pools/p1/supply-tasks";
    let two = json!({"source": "auto_room", "groups": 2});
    assert_eq!(stage.console.post(path, two).await.pointers(), ["/groups"]);
    let one = json!({"source": "auto_room"});
    let task = stage.console.post(path, one.clone()).await.ok();
    assert_eq!(
        (&task["state"], &task["deadline_at"]),
        (&json!("wanted"), &Value::Null)
    );
    let again = stage.console.post(path, one).await;
    assert_eq!(again.refused(), (409, "supply_task_open".to_owned()));
    turn(stage.app()).await;
    crate::room_stage::change(stage.app()).await;
    turn(stage.app()).await;
    assert_eq!(
        (&stage.task().await["state"], stage.opening()),
        (&json!("asked"), 1)
    );
    assert!(opens(stage.app(), "oa").await.is_some());
    assert_eq!(stage.scans("a"), "c1");
    let room = stage.scans("b");
    stage.hear_of_groups().await;
    stage.is_adopted(&room).await;
}

/// WeCom has no such group, and says so: it is no group of ours. While it says nothing, the reader will.
#[tokio::test]
async fn a_group_that_wecom_does_not_have_is_refused() {
    let stage = Stage::new().await;
    let put = async |chat: &str| {
        let path = format!("/groups/{chat}");
        stage.console.put(&path, json!({"group_pool": "p1"})).await
    };
    let refused = put("wrNobody").await;
    assert_eq!(refused.pointers(), ["path:chat_id"]);
    assert!(refused.text.contains("90501"), "{}", refused.text);
    stage.make("c1");
    assert_eq!(put("c1").await.status, 201);
    let get = "externalcontact/groupchat/get";
    for (chat, act) in [
        ("wrRefused", Act::Errcode(-1)),
        ("wrDropped", Act::Drop),
        ("wrSlow", Act::DelayMs(3_500)),
    ] {
        stage.sim.add_fault(Fault::new(get, act)).unwrap();
        let unread = put(chat).await.ok();
        assert_eq!(
            unread["not_shown"],
            json!(["never_read", "no_join_way"]),
            "{chat}"
        );
        stage.sim.clear_faults();
    }
}

#[tokio::test]
async fn a_buffer_that_no_room_can_be_opened_with_is_refused() {
    let stage = Stage::new().await;
    let pool = |buffer: u32| {
        json!({"name": "x", "scan_cap": 200, "hard_cap": 500, "buffer": buffer,
            "supply": {"sources": ["spare", "auto_room"]}})
    };
    let put = async |buffer| stage.console.put("/group-pools/p1", pool(buffer)).await;
    assert_eq!(put(19).await.pointers(), ["/buffer"]);
    assert_eq!(put(18).await.status, 200);
}
