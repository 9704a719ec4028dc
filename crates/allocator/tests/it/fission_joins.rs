//! People scan, come past us and leave; events come twice, in another order or not at all: whose seat it is, and how many are in
//! a group, is right in the end, and no seat is free in between that is not.

use allocator::decide;
use serde_json::json;

use crate::fission_stage::{LAG_MS, Stage, person};

/// The owner is in each group, ten come by scanning, one place is kept: eight seats.
const SEATS: u32 = 8;

#[tokio::test]
async fn whoever_comes_is_found_by_what_is_known_of_him() {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    assert_eq!(stage.count("wr1").await, (1, 0, SEATS, 0));
    let shown = stage.held("unionid", "owmA", None).await;
    assert_eq!(shown.as_str(), "wr1");
    stage.held("wecom", "wmB", None).await;
    stage.held("visitor", "cookieC", Some("inv_c")).await;
    stage.held("visitor", "cookieD", None).await;
    assert_eq!(stage.count("wr1").await, (1, 4, 4, 0));
    let plain = stage.way("wr1", None).await;
    let inviters = stage.way("wr1", Some("inv_c")).await;
    for (way, who, kind, id) in [
        (&plain, "wmA", "unionid", "owmA"),
        (&plain, "wmB", "wecom", "wmB"),
        (&inviters, "wmC", "visitor", "cookieC"),
        (&plain, "wmD", "visitor", "cookieD"),
    ] {
        assert_eq!(stage.is(kind, id).await, "held");
        stage.scan(way, &[person(who)]);
        stage.hear().await;
        assert_eq!(stage.is(kind, id).await, "confirmed", "{who}");
    }
    assert_eq!(stage.count("wr1").await, (5, 0, 4, 0));
    stage.exact("wr1").await;
}

/// The event alone takes room; it says neither unionid nor State, so nobody's seat is guessed before the read.
#[tokio::test]
async fn until_the_read_whoever_came_takes_room_beside_his_hold() {
    let stage = Stage::with(LAG_MS).await;
    stage.group("wr1").await;
    stage.held("unionid", "owmA", None).await;
    let way = stage.way("wr1", None).await;
    stage.scan(&way, &[person("wmA")]);
    let events = stage.events().await;
    stage.deliver(&events).await;
    assert_eq!(stage.count("wr1").await, (2, 1, SEATS - 2, 0));
    assert_eq!(stage.is("unionid", "owmA").await, "held");
    // WeCom's reads lag: nobody is taken for gone whom they do not show yet.
    let reads = stage.reads();
    stage.mark("wr1").await;
    stage.read().await;
    assert_eq!(stage.reads(), reads + 1);
    assert_eq!(stage.count("wr1").await, (2, 1, SEATS - 2, 0));
    stage.read_all().await;
    assert_eq!(stage.is("unionid", "owmA").await, "confirmed");
    assert_eq!(stage.count("wr1").await, (2, 0, SEATS - 1, 0));
    stage.exact("wr1").await;
}

/// Reads that are behind the event of his leaving show him in the group still, one after the other: he takes room, and nobody's
/// seat.
#[tokio::test]
async fn who_left_takes_no_second_seat_in_reads_that_are_behind() {
    let stage = Stage::with(LAG_MS).await;
    stage.group("wr1").await;
    stage.held("visitor", "cookieA", None).await;
    stage.held("visitor", "cookieB", None).await;
    let way = stage.way("wr1", None).await;
    stage.scan(&way, &[person("wmA")]);
    stage.hear().await;
    assert_eq!(stage.is("visitor", "cookieA").await, "confirmed");
    stage.leaves("wr1", "wmA");
    let events = stage.events().await;
    stage.deliver(&events).await;
    assert_eq!(stage.is("visitor", "cookieA").await, "none");
    assert_eq!(stage.count("wr1").await, (1, 1, SEATS - 1, 0));
    for _ in 0..3 {
        stage.mark("wr1").await;
        stage.read().await;
        assert_eq!(stage.count("wr1").await, (2, 1, SEATS - 2, 0));
        assert_eq!(stage.is("visitor", "cookieB").await, "held");
    }
    stage.read_all().await;
    assert_eq!(stage.count("wr1").await, (1, 1, SEATS - 1, 0));
    assert_eq!(stage.is("visitor", "cookieB").await, "held");
    stage.exact("wr1").await;
}

#[tokio::test]
async fn people_who_come_past_us_take_room_and_more_than_there_is_is_told() {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    stage.held("unionid", "owmA", None).await;
    stage.invite("wr1", 11);
    stage.hear().await;
    // Twelve are in and one may still come, ten can scan their way in.
    assert_eq!(stage.count("wr1").await, (12, 1, 0, 3));
    assert_eq!(stage.is("unionid", "owmA").await, "held");
    // His group is full, and there is no other.
    stage.reserve("unionid", "owmA", None).await;
    assert_eq!(stage.is("unionid", "owmA").await, "waiting");
    stage.exact("wr1").await;
}

#[tokio::test]
async fn whoever_leaves_frees_his_seat_and_whoever_waits_gets_it() {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    stage.held("unionid", "owmA", None).await;
    let way = stage.way("wr1", None).await;
    stage.scan(&way, &[person("wmA")]);
    stage.invite("wr1", SEATS - 1);
    stage.hear().await;
    assert_eq!(stage.count("wr1").await, (9, 0, 0, 0));
    stage.reserve("unionid", "owmB", None).await;
    assert_eq!(stage.is("unionid", "owmB").await, "waiting");
    let reads = stage.reads();
    stage.leaves("wr1", "wmA");
    stage.hear().await;
    assert_eq!(stage.is("unionid", "owmA").await, "none");
    assert_eq!(stage.is("unionid", "owmB").await, "held");
    stage.exact("wr1").await;
    // The event said it all.
    assert_eq!(stage.reads(), reads);
}

#[tokio::test]
async fn events_in_any_order_and_twice_come_to_the_same() {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    let way = stage.way("wr1", None).await;
    for who in ["wmA", "wmB", "wmC"] {
        stage.held("unionid", &format!("o{who}"), None).await;
        stage.scan(&way, &[person(who)]);
    }
    stage.leaves("wr1", "wmB");
    let mut events = stage.events().await;
    assert_eq!(events.len(), 4);
    events.swap(0, 2);
    events.push(events[0].clone());
    for event in &events {
        stage.deliver(std::slice::from_ref(event)).await;
        // Never fewer than there are.
        let (people, ..) = stage.count("wr1").await;
        assert!(people >= 2, "{people}");
    }
    stage.read_all().await;
    stage.exact("wr1").await;
    assert_eq!(stage.is("unionid", "owmA").await, "confirmed");
    assert_eq!(stage.is("unionid", "owmC").await, "confirmed");
    // He came and went before anybody could say who he is; his seat ends by its time.
    assert_eq!(stage.is("unionid", "owmB").await, "held");
    // A try that nobody learnt the end of is made again.
    let batch = stage.batch(&events);
    let (app, corp) = (stage.app(), stage.corp());
    stage.world.written().await;
    decide::decide(app, corp, &batch, true).await.unwrap();
    stage.read_all().await;
    stage.exact("wr1").await;
    assert_eq!(stage.count("wr1").await.0, 3);
}

/// The next event shows that one is missing: those whom it names take room at once, the read finds the others.
#[tokio::test]
async fn an_event_that_got_lost_is_missed_with_the_next_one() {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    let way = stage.way("wr1", None).await;
    stage.scan(&way, &[person("wmLost")]);
    stage.events().await;
    stage.scan(&way, &[person("wmA")]);
    let events = stage.events().await;
    stage.deliver(&events).await;
    assert_eq!(stage.count("wr1").await.0, 2);
    stage.read_all().await;
    stage.exact("wr1").await;
    assert_eq!(stage.count("wr1").await.0, 3);
}

/// No event at all: the slow round finds who came and who left, and whose seats those are.
#[tokio::test]
async fn the_slow_round_finds_what_no_event_told() {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    let way = stage.way("wr1", None).await;
    stage.held("unionid", "owmA", None).await;
    stage.held("unionid", "owmB", None).await;
    stage.scan(&way, &[person("wmA")]);
    stage.hear().await;
    stage.scan(&way, &[person("wmB")]);
    stage.leaves("wr1", "wmA");
    stage.events().await;
    // It was read a moment ago.
    let reads = stage.reads();
    stage.read().await;
    assert_eq!(stage.reads(), reads);
    stage.pass(stage.app().config.fission.period_ms).await;
    stage.read_all().await;
    stage.exact("wr1").await;
    assert_eq!(stage.is("unionid", "owmA").await, "none");
    assert_eq!(stage.is("unionid", "owmB").await, "confirmed");
}

/// Many events of a group are one read.
#[tokio::test]
async fn events_share_a_read() {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    let way = stage.way("wr1", None).await;
    for n in 0..7 {
        stage.scan(&way, &[person(&format!("wm{n}"))]);
    }
    let events = stage.events().await;
    assert_eq!(events.len(), 7);
    let reads = stage.reads();
    stage.deliver(&events).await;
    stage.read().await;
    assert_eq!(stage.reads(), reads);
    stage.pass(2_050).await;
    stage.read().await;
    assert_eq!(stage.reads(), reads + 1);
    stage.exact("wr1").await;
}

#[tokio::test]
async fn new_groups_become_known_and_dismissed_ones_are_shown_to_nobody() {
    let stage = Stage::new().await;
    stage.group("wr1").await;
    stage.held("unionid", "owmA", None).await;
    stage.make("wrNew");
    let events = stage.events().await;
    stage.deliver(&events).await;
    assert_eq!(stage.console.get("/groups/wrNew").await.status, 404);
    stage.pass(LAG_MS).await;
    stage.read_all().await;
    let new = stage.console.get("/groups/wrNew").await.ok();
    assert_eq!(
        (&new["state"], &new["source"], &new["people"]),
        (&json!("spare"), &json!("event"), &json!(1))
    );
    // Whoever comes into a group of nobody's is no concern.
    stage.invite("wrNew", 1);
    let reads = stage.reads();
    stage.hear().await;
    assert_eq!(stage.reads(), reads);

    stage.sim.dismiss_group(None, "wr1").unwrap();
    let events = stage.events().await;
    stage.deliver(&events).await;
    assert_eq!(stage.is("unionid", "owmA").await, "none");
    stage.reserve("unionid", "owmB", None).await;
    assert_eq!(stage.is("unionid", "owmB").await, "waiting");
    stage.read_all().await;
    let gone = stage.console.get("/groups/wr1").await.ok();
    assert_eq!(gone["state"], "dismissed");
    // Telling again changes nothing, and a copy of the event neither.
    stage.tell().await;
    stage.deliver(&events).await;
    stage.read_all().await;
    assert_eq!(stage.is("unionid", "owmB").await, "waiting");
    stage.world.written().await;
    let outcomes = "SELECT string_agg(DISTINCT outcome || ' ' || reason, ', ' ORDER BY outcome || ' ' || reason)
        FROM delivery_outcomes";
    let outcomes: String = sqlx::query_scalar(outcomes)
        .fetch_one(&mut stage.world.database.connect().await)
        .await
        .unwrap();
    assert_eq!(
        outcomes,
        "closed group_dismissed, ignored no_group_pool, reread new_group"
    );
}

/// Case 38: events only say that something happened, and how many are in a group follows what WeCom says of it.
#[tokio::test]
async fn the_group_outranks_what_events_say_of_it() {
    let stage = Stage::with(LAG_MS).await;
    stage.group("wr1").await;
    let people = async || stage.view("wr1").await.count.people;
    let before = people().await;
    // One came, an event says; the group has the same people as before.
    let says = |inner: &str| {
        format!(
            "<xml><ToUserName><![CDATA[{}]]></ToUserName><FromUserName><![CDATA[sys]]></FromUserName>\
             <CreateTime>1792000000</CreateTime><MsgType><![CDATA[event]]></MsgType>\
             <Event><![CDATA[change_external_chat]]></Event><ChatId><![CDATA[wr1]]></ChatId>\
             <ChangeType><![CDATA[update]]></ChangeType>{inner}</xml>",
            stage.world.corp
        )
    };
    let came = says(
        "<UpdateDetail><![CDATA[add_member]]></UpdateDetail><JoinScene>3</JoinScene><MemChangeCnt>1</MemChangeCnt>\
         <MemChangeList><Item><![CDATA[wmNOBODY]]></Item></MemChangeList><LastMemVer><![CDATA[x1]]></LastMemVer>\
         <CurMemVer><![CDATA[x2]]></CurMemVer>",
    );
    stage.deliver(&[came]).await;
    stage.read_all().await;
    assert_eq!(people().await, before);
    stage.exact("wr1").await;
    // Two came whom no event told of; another says nothing of what it is about.
    stage.invite("wr1", 2);
    stage.events().await;
    stage.pass(LAG_MS + 50).await;
    stage.deliver(&[says("")]).await;
    stage.read_all().await;
    assert_eq!(people().await, before + 2);
    stage.exact("wr1").await;
}
