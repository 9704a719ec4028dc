//! Seats of a campaign over the API, as they are and were; and how full groups are.

use ledger::Role;
use serde_json::{Value, json};
use uuid::Uuid;
use wecom_sim::GroupPerson;

use crate::fission_stage::{LAG_MS, Stage};

fn union(id: &str) -> GroupPerson {
    GroupPerson {
        unionid: Some(id.to_owned()),
        ..GroupPerson::default()
    }
}

async fn stage() -> Stage {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    stage
}

/// The campaign's seats that match.
async fn listed(stage: &Stage, query: &str) -> Vec<Value> {
    stage.world.written().await;
    let path = format!("/campaigns/spring/seats{query}");
    stage.console.all(&path).await
}

async fn seat_of(stage: &Stage, unionid: &str) -> Value {
    let query = format!("?visitor_kind=unionid&visitor_id={unionid}");
    let mut seats = listed(stage, &query).await;
    assert_eq!(seats.len(), 1, "{seats:?}");
    seats.remove(0)
}

async fn refusal(stage: &Stage, query: &str) -> Vec<String> {
    let answer = stage
        .console
        .get(&format!("/campaigns/spring/seats{query}"))
        .await;
    answer.pointers().iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_seat_is_found_by_its_state_group_and_visitor() {
    let stage = stage().await;
    let way = stage.way("wr1", None).await;
    for visitor in ["o1", "o2", "o3"] {
        stage.reserve("unionid", visitor, None).await;
    }
    stage.scan(&way, &[union("o1")]);
    stage.hear().await;
    let held = listed(&stage, "?state=held").await;
    assert_eq!(held.len(), 2);
    let confirmed = seat_of(&stage, "o1").await;
    assert_eq!(
        (
            &confirmed["state"],
            &confirmed["matched_by"],
            &confirmed["chat_id"],
            &confirmed["ended_at"]
        ),
        (
            &json!("confirmed"),
            &json!("unionid"),
            &json!("wr1"),
            &Value::Null
        )
    );
    assert!(confirmed["confirmed_at"].is_string() && confirmed["held_at"].is_string());
    let all = listed(&stage, "?chat_id=wr1").await;
    assert_eq!(all.len(), 3);
    assert!(listed(&stage, "?chat_id=wr9").await.is_empty());
    let page = stage
        .console
        .get("/campaigns/spring/seats?limit=2")
        .await
        .ok();
    let next = page["page"]["next"].as_str().unwrap();
    let rest = stage
        .console
        .get(&format!("/campaigns/spring/seats?limit=2&cursor={next}"))
        .await
        .ok();
    assert_eq!(rest["data"].as_array().unwrap().len(), 1);
    let id = confirmed["id"].as_str().unwrap();
    let one = stage.console.get(&format!("/seats/{id}")).await.ok();
    assert_eq!(one, confirmed);
    for (query, pointer) in [
        ("?visitor_kind=unionid", "query:visitor_id"),
        ("?visitor_id=o1", "query:visitor_kind"),
        ("?visitor_kind=cookie&visitor_id=o1", "query:visitor_kind"),
        ("?chat_id=", "query:chat_id"),
        ("?state=taken", "query:state"),
    ] {
        let pointer = pointer.trim_start_matches("query:").to_owned();
        let named = refusal(&stage, query).await;
        assert!(
            named.iter().any(|one| one.contains(&pointer)),
            "{query}: {named:?}"
        );
    }
    let none = stage.console.get("/campaigns/autumn/seats").await;
    assert_eq!(none.status, 404);
    let none = stage
        .console
        .get(&format!("/seats/{}", Uuid::now_v7()))
        .await;
    assert_eq!(none.refused(), (404, "not_found".to_owned()));
}

#[tokio::test]
async fn a_seat_is_given_back_by_hand_once_and_a_late_join_counts() {
    let stage = stage().await;
    let way = stage.way("wr1", None).await;
    stage.reserve("unionid", "o1", None).await;
    let seat = seat_of(&stage, "o1").await;
    let path = format!("/seats/{}", seat["id"].as_str().unwrap());
    let before = stage.view("wr1").await.count;
    let viewer = stage.world.console(Role::Viewer).await;
    assert_eq!(viewer.delete(&path).await.status, 403);
    assert_eq!(viewer.get(&path).await.status, 200);
    assert_eq!(stage.console.delete(&path).await.status, 204);
    let after = stage.view("wr1").await.count;
    assert_eq!((after.held, after.free), (before.held - 1, before.free + 1));
    let ended = seat_of(&stage, "o1").await;
    assert_eq!(
        (&ended["state"], &ended["end_reason"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    // Once more is the same, and says nothing more in the audit.
    assert_eq!(stage.console.delete(&path).await.status, 204);
    let audit = stage.console.all("/audit?action=seat.cancel").await;
    assert_eq!(audit.len(), 1, "{audit:?}");
    stage.scan(&way, &[union("o1")]);
    stage.hear().await;
    let late = seat_of(&stage, "o1").await;
    assert_eq!((&late["id"], &late["state"]), (&seat["id"], &json!("late")));
    let refused = stage.console.delete(&path).await;
    assert_eq!(refused.refused(), (409, "seat_taken".to_owned()));
    assert_eq!(stage.view("wr1").await.count.people, after.people + 1);
}

#[tokio::test]
async fn a_place_in_the_waiting_room_is_given_back_and_the_next_comes_first() {
    let stage = stage().await;
    // Nine places below the cap, one of them the owner's and one kept.
    for n in 0..8 {
        stage.reserve("unionid", &format!("o{n}"), None).await;
    }
    stage.reserve("unionid", "w1", None).await;
    stage.reserve("unionid", "w2", None).await;
    let waits = seat_of(&stage, "w1").await;
    assert_eq!(
        (&waits["state"], &waits["chat_id"]),
        (&json!("waiting"), &Value::Null)
    );
    let gone = format!("/seats/{}", waits["id"].as_str().unwrap());
    assert_eq!(stage.console.delete(&gone).await.status, 204);
    let held = seat_of(&stage, "o3").await;
    let path = format!("/seats/{}", held["id"].as_str().unwrap());
    assert_eq!(stage.console.delete(&path).await.status, 204);
    assert_eq!(seat_of(&stage, "w2").await["state"], "held");
    assert_eq!(seat_of(&stage, "w1").await["state"], "cancelled");
}

#[tokio::test]
async fn a_group_says_how_full_it_is_and_what_buffer_would_have_been_enough() {
    let stage = stage().await;
    let view = async || stage.console.get("/groups/wr1").await.ok();
    stage.reserve("unionid", "o1", None).await;
    assert_eq!(
        view().await["seats"],
        json!({"people": 1, "held": 1, "free": 7, "oversold": 0})
    );
    stage.invite("wr1", 11);
    stage.hear().await;
    let full = view().await;
    assert_eq!(
        full["seats"],
        json!({"people": 12, "held": 1, "free": 0, "oversold": 3})
    );
    assert_eq!(
        full["not_shown"],
        json!([]),
        "it is full, which is no reason of its own"
    );
    stage.world.written().await;
    let events = stage.console.all("/group-events?kind=oversold").await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(
        (
            &events[0]["chat_id"],
            &events[0]["excess"],
            &events[0]["suggested_buffer"]
        ),
        (&json!("wr1"), &json!(3), &json!(4))
    );
    assert!(
        stage
            .console
            .all("/group-events?chat_id=wr2")
            .await
            .is_empty()
    );
    // A group that nobody has read yet.
    stage.make("wr2");
    stage.pass(LAG_MS).await;
    stage.put("wr2", json!({"group_pool": "p1"})).await;
    stage.tell().await;
    let unread = stage.console.get("/groups/wr2").await.ok();
    assert_eq!(
        (&unread["seats"], &unread["not_shown"]),
        (&Value::Null, &json!(["never_read"]))
    );
    let listed = stage.console.all("/groups?group_pool=p1").await;
    let free: Vec<&Value> = listed.iter().map(|group| &group["seats"]["free"]).collect();
    assert_eq!(free, [&Value::Null, &json!(0)], "the latest first");
}
