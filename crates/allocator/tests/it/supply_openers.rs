//! Those few who are shown the code of a full group, so that WeCom opens a room: how many, where they see it, and what becomes of
//! them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use allocation::{CampaignId, model::SeatPlace};
use allocator::{
    app::App,
    fission::{
        asking::{self, Shown},
        join_ways, reader, supply, told,
    },
    reception::visits::{Visitor, VisitorKind},
};
use reqwest::header;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    public_desk::pages,
    public_stage::Html,
    room_stage::{LOOKED_MS, UPDATE, auto_rooms, change, code, full_but_for, opens, sees},
    supply_stage::{corp, turn},
};

#[tokio::test]
async fn a_room_is_opened_by_one_of_a_few_who_are_shown_a_full_group() {
    let stage = full_but_for(1, &["auto_room"]).await;
    stage.armed().await;
    let way = stage.way_of("c1");
    assert_eq!(
        (&way["room_base_name"], &way["room_base_id"]),
        (&json!("读书会"), &json!(1))
    );
    assert_eq!(
        (&way["state"], &way["remark"]),
        (&json!("pg.x"), &json!("paidan campaign")),
        "the whole configuration"
    );
    let app = stage.app();
    for who in ["oa", "ob", "oc", "oa"] {
        assert_eq!(opens(app, who).await, code(), "{who}");
    }
    for who in ["od", "oe"] {
        assert_eq!(opens(app, who).await, None, "one lacks, and two more");
    }
    assert_eq!(stage.task().await["openers"], 3);
    // A place is left: the old group. The next one opens the room.
    assert_eq!(stage.scans("a"), "c1");
    stage.hear().await;
    assert_eq!(stage.is("unionid", "oa").await, "confirmed");
    let room = stage.scans("b");
    stage.lead(&room).await;
    stage.hear_of_groups().await;
    stage.is_adopted(&room).await;
    assert_eq!(
        stage.calls(UPDATE),
        2,
        "to open a room, and to open no more"
    );
    // It is a group like all others: its people have their seats, and who waited is served.
    stage.tell().await;
    stage.read_all().await;
    stage.tell().await;
    assert_eq!(stage.is("unionid", "ob").await, "confirmed");
    for who in ["oc", "od", "oe"] {
        assert_eq!(stage.is("unionid", who).await, "held", "{who}");
    }
    assert_eq!(
        stage.count("c1").await,
        (10, 0, 0, 0),
        "nobody past its cap"
    );
}

/// Nobody can open a room while nobody waits: that is not the source's fault.
#[tokio::test]
async fn its_time_begins_when_somebody_waits() {
    let stage = full_but_for(1, &["auto_room"]).await;
    let mut ahead = auto_rooms(&["auto_room"]);
    ahead["min_free"] = json!(1);
    stage.supply(ahead).await;
    turn(stage.app()).await;
    change(stage.app()).await;
    turn(stage.app()).await;
    stage.pass(3_600_000).await;
    turn(stage.app()).await;
    let task = stage.task().await;
    assert_eq!(
        (&task["state"], &task["deadline_at"]),
        (&json!("asked"), &Value::Null)
    );
    // The code is ready when the first one waits.
    assert_eq!(opens(stage.app(), "oa").await, code());
    stage.pass(LOOKED_MS).await;
    turn(stage.app()).await;
    assert!(stage.task().await["deadline_at"].is_string());
    // Somebody goes, and nothing is lacking any more.
    let held = json!({"min_free": 0, "ahead_seconds": 0, "sources": []});
    stage.supply(held).await;
    stage.pass(15_001).await;
    turn(stage.app()).await;
    assert_eq!(stage.task().await["state"], "cancelled");
    change(stage.app()).await;
    stage.is_disarmed().await;
}

/// Who was shown the code and does not wait any more makes room for another; twenty are the end.
#[tokio::test]
async fn those_who_are_shown_it_are_few() {
    let stage = full_but_for(0, &["auto_room"]).await;
    stage.armed().await;
    let app: &Arc<App> = stage.app();
    assert_eq!(opens(app, "oa").await, code());
    assert_eq!(opens(app, "ob").await, code());
    assert_eq!(opens(app, "oc").await, None);
    let mut n_shown = 2;
    for n in 0..22 {
        // The first one goes.
        let seats = "SELECT s.seat_id::text FROM seats AS s, supply_tasks AS t WHERE s.seat_id = ANY(t.openers)
                        AND s.state = 'waiting' ORDER BY s.asked_at LIMIT 1";
        stage.world.written().await;
        let seat: Option<String> = sqlx::query_scalar(seats)
            .fetch_optional(app.ledger.pool())
            .await
            .unwrap();
        let Some(seat) = seat else { break };
        let gone = stage.console.delete(&format!("/seats/{seat}")).await;
        assert!(gone.status.is_success(), "{:?}", gone.status);
        stage.world.written().await;
        let next = opens(app, &format!("n{n}")).await;
        n_shown += usize::from(next.is_some());
        assert_eq!(next.is_some(), n_shown <= 20 && n < 18, "{n} {n_shown}");
    }
    assert_eq!(n_shown, 20);
    assert_eq!(stage.task().await["openers"], 20);
}

/// Whoever was shown the group as one with room must find room in it.
#[tokio::test]
async fn a_place_that_is_held_is_shown_to_nobody_else() {
    let stage = full_but_for(1, &["auto_room"]).await;
    let members = stage.sim.group(None, "c1").unwrap().members;
    stage.leaves("c1", &members.last().unwrap().id);
    stage.hear().await;
    stage.held("unionid", "oh", None).await;
    assert_eq!(stage.count("c1").await, (8, 1, 0, 0));
    stage.armed().await;
    let mut shown = 0;
    for n in 0..6 {
        shown += usize::from(opens(stage.app(), &format!("o{n}")).await.is_some());
    }
    assert_eq!(shown, 3, "two places are free, one of them is his");
}

/// Over the API and on the page, while he waits.
#[tokio::test]
async fn the_code_is_in_the_answer_and_on_the_page() {
    let stage = full_but_for(1, &["auto_room"]).await;
    stage.armed().await;
    sees(stage.world.app()).await;
    let ask = |id: &str| {
        let visitor = json!({"visitor": {"kind": "unionid", "id": id}});
        stage.console.post("/campaigns/spring/seats", visitor)
    };
    let seat = ask("oa").await.ok();
    assert_eq!(
        (&seat["state"], &seat["picture"], &seat["position"]),
        (&json!("waiting"), &json!("/w/pj.c1.png"), &json!(1))
    );
    let campaign = stage.console.get("/campaigns/spring").await.ok();
    let addr = pages(&stage.world, 0).await;
    let page = format!(
        "http://{addr}/g/{}",
        campaign["public_code"].as_str().unwrap()
    );
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let open = async || {
        let first = http.get(&page).send().await.unwrap();
        let cookie = first.headers()[header::SET_COOKIE].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let answer = http.get(&page).header(header::COOKIE, cookie);
        let answer = answer.send().await.unwrap();
        Html::read(&answer.text().await.unwrap())
    };
    let html = open().await;
    assert_eq!(html.of("img", "src"), Some("/w/pj.c1.png"));
    assert!(html.text.contains("第 2 位"), "{}", html.text);
    let picture = http.get(format!("http://{addr}/w/pj.c1.png"));
    assert!(picture.send().await.unwrap().status().is_success());
    assert!(ask("oc").await.ok()["picture"].is_string());
    let seat = ask("od").await.ok();
    assert_eq!(
        (&seat["state"], &seat["picture"]),
        (&json!("waiting"), &Value::Null)
    );
    assert_eq!(open().await.of("img", "src"), None);
}

/// Nothing at WeCom says that it was he who came: he is in the group, and in line.
#[tokio::test]
async fn whoever_is_known_by_a_cookie_keeps_his_place() {
    let stage = full_but_for(1, &["auto_room"]).await;
    stage.armed().await;
    let app = stage.app();
    sees(app).await;
    let visitor = Visitor {
        kind: VisitorKind::Cookie,
        id: "c00kie".to_owned(),
    };
    let campaign = CampaignId::new("spring").unwrap();
    let shown = asking::ask(app, corp(app), &campaign, &visitor, Vec::new(), None).await;
    let Shown::Waiting { opens, .. } = shown.unwrap() else {
        panic!("he waits");
    };
    assert_eq!(opens, code());
    assert_eq!(stage.scans("x"), "c1");
    stage.hear().await;
    assert_eq!(stage.count("c1").await, (10, 0, 0, 0));
    let name = asking::name(corp(app), &campaign, &visitor);
    let seat = stage.corp().roster.seat(&name).await.unwrap().unwrap();
    assert!(
        matches!(seat.place, SeatPlace::Waiting { .. }),
        "{:?}",
        seat.place
    );
}

/// All loops at once, as the program runs them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_room_gets_a_code_of_its_own_and_whoever_waits_is_shown_it() {
    let stage = full_but_for(1, &["auto_room"]).await;
    stage
        .sim
        .patch_config(&json!({"groups": {"read_lag_ms": 0}}))
        .unwrap();
    let app = stage.app();
    let stop = CancellationToken::new();
    let _stops = stop.clone().drop_guard();
    let both = || (Arc::clone(app), Arc::clone(corp(app)), stop.clone());
    let (app_, corp_, stop_) = both();
    tokio::spawn(join_ways::run(app_, corp_, stop_));
    let (app_, corp_, stop_) = both();
    tokio::spawn(supply::run(app_, corp_, stop_));
    let (app_, corp_, stop_) = both();
    tokio::spawn(reader::run(app_, corp_, stop_));
    let (app_, corp_, stop_) = both();
    tokio::spawn(told::run(app_, corp_, stop_));
    let ask = async |who: &str| {
        sees(app).await;
        let visitor = Visitor {
            kind: VisitorKind::Unionid,
            id: who.to_owned(),
        };
        let campaign = CampaignId::new("spring").unwrap();
        let shown = asking::ask(app, corp(app), &campaign, &visitor, Vec::new(), None).await;
        shown.unwrap()
    };
    let limit = Instant::now() + Duration::from_secs(40);
    while !matches!(ask("oa").await, Shown::Waiting { opens: Some(_), .. }) {
        assert!(Instant::now() < limit, "{:?}", stage.tasks().await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(matches!(ask("oc").await, Shown::Waiting { .. }));
    assert_eq!(stage.scans("a"), "c1");
    let room = stage.scans("b");
    let events = stage.events().await;
    stage.deliver(&events).await;
    let way = loop {
        match ask("oc").await {
            Shown::Held(hold) if hold.way.is_some() => {
                assert_eq!(hold.chat.as_str(), room);
                break hold.way.unwrap();
            }
            Shown::Waiting { .. } | Shown::Held(_) => {
                stage.pass(100).await;
                assert!(Instant::now() < limit, "{:?}", stage.tasks().await);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            other => panic!("{other:?}"),
        }
    };
    assert_ne!(way, "pj.c1");
    while stage.opening() > 0 {
        assert!(Instant::now() < limit);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(stage.way_of(&room)["auto_create_room"], 0);
    assert_eq!(stage.way_of("c1")["chat_id_list"], json!(["c1"]));
}
