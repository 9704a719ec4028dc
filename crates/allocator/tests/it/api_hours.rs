//! Schedules, calendars, leaves and what is said of presence, through the API.

use ledger::Role;
use rstest::rstest;
use serde_json::{Value, json};

use crate::{
    api_support::{Console, Options, World},
    hours::{EVERY_DAY, always, ms, text, weekly, with_schedule},
};

const HOUR: u64 = 3_600_000;

fn never() -> Value {
    json!({"name": "never", "zone": "Asia/Shanghai", "weekly": []})
}

async fn standing(console: &Console, member: &str) -> Value {
    console
        .get(&format!("/members/{member}/presence"))
        .await
        .ok()
}

async fn say(console: &Console, what: &str, body: Value) -> Value {
    let path = format!("/members/mA/presence/{what}");
    console.post(&path, body).await.ok()
}

#[tokio::test]
async fn a_schedule_comes_back_as_it_was_put() {
    let world = World::new().await;
    let console = world.operator().await;
    let days = json!([{"date": "2027-10-01", "hours": [], "name": "国庆"}]);
    let calendar = json!({"name": "China", "days": days});
    console.put("/calendars/cn", calendar).await.ok();
    let body = json!({"name": " Days ", "zone": "asia/shanghai", "weekly": weekly(&["monday"], "22:00", "06:00"),
        "days": [{"date": "2027-01-04", "hours": [{"from": "10:00", "to": "12:00"}]}], "calendars": ["cn"]});
    let created = console.put("/schedules/days", body.clone()).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let view = console.get("/schedules/days").await;
    assert_eq!(view.etag(), created.etag());
    let view = view.ok();
    assert_eq!(
        (
            &view["name"],
            &view["zone"],
            &view["calendars"],
            &view["warnings"]
        ),
        (
            &json!("Days"),
            &json!("Asia/Shanghai"),
            &json!(["cn"]),
            &json!([])
        )
    );
    assert_eq!(view["weekly"][0]["next_day"], true);
    assert!(
        view["next_open"].is_string() && view["open"].is_boolean(),
        "{view}"
    );
    // The same again changes nothing; a stale ETag is refused.
    let again = console.put("/schedules/days", body.clone()).await;
    assert_eq!((again.status.as_u16(), again.etag()), (200, created.etag()));
    let mut other = body;
    other["name"] = json!("Other");
    let changed = console.put("/schedules/days", other.clone()).await;
    let etag = created.etag();
    let stale = console.put_if("/schedules/days", ("if-match", &etag), other);
    assert_eq!(
        stale.await.refused(),
        (412, "precondition_failed".to_owned())
    );
    assert_eq!(console.all("/audit?entity=schedules/days").await.len(), 2);
    assert_eq!(console.all("/schedules").await.len(), 1);
    assert_eq!(console.all("/calendars").await.len(), 1);
    // What is referred to stays.
    let refused = console.delete("/calendars/cn").await;
    assert_eq!(refused.json()["current"], json!({"schedules": ["days"]}));
    assert_eq!(refused.refused(), (409, "calendar_in_use".to_owned()));
    let member = json!({"schedule": "days", "presence_mode": "manual"});
    let member = console.put("/members/ZhangSan", member).await.ok();
    assert_eq!(
        (&member["schedule"], &member["presence_mode"]),
        (&json!("days"), &json!("manual"))
    );
    let refused = console.delete("/schedules/days").await;
    assert_eq!(refused.json()["current"], json!({"members": ["ZhangSan"]}));
    assert!(refused.text.contains("ZhangSan"), "{}", refused.text);
    assert_eq!(refused.refused(), (409, "schedule_in_use".to_owned()));
    console.put("/members/ZhangSan", json!({})).await.ok();
    let condition = [("if-match", &*changed.etag())];
    let gone = console.send(reqwest::Method::DELETE, "/schedules/days", &condition, None);
    assert_eq!(gone.await.status, 204);
    assert_eq!(console.delete("/calendars/cn").await.status, 204);
    assert_eq!(console.get("/schedules/days").await.status, 404);
    // It comes back with a later version.
    let back = console.put("/schedules/days", never()).await;
    assert_eq!(
        (back.status.as_u16(), back.etag()),
        (201, "\"4\"".to_owned())
    );
    let back = back.ok();
    assert_eq!(
        (&back["open"], &back["next_open"], &back["warnings"]),
        (&json!(false), &Value::Null, &json!(["never_opens"]))
    );
}

#[rstest]
#[case::zone(json!({"zone": "Asia/Peking"}), &["/zone"])]
#[case::no_zone(json!({"zone": "+08:00"}), &["/zone"])]
#[case::empty_name(json!({"name": " "}), &["/name"])]
#[case::backwards(json!({"weekly": [{"day": "monday", "from": "18:00", "to": "09:00"}]}), &["/weekly/0/to"])]
#[case::overlap(json!({"weekly": [{"day": "monday", "from": "09:00", "to": "12:00"},
    {"day": "monday", "from": "11:00", "to": "13:00"}]}), &["/weekly/1"])]
#[case::no_day(json!({"weekly": [{"day": "someday", "from": "09:00", "to": "12:00"}]}), &["/weekly/0/day"])]
#[case::no_time(json!({"weekly": [{"day": "monday", "from": "25:00", "to": "12"}]}),
    &["/weekly/0/from", "/weekly/0/to"])]
#[case::unknown_field(json!({"weekly": [{"day": "monday", "from": "09:00", "to": "12:00", "until": 1}]}),
    &["/weekly/0/until"])]
#[case::no_date(json!({"days": [{"date": "2027-02-29", "hours": []}]}), &["/days/0/date"])]
#[case::no_hours(json!({"days": [{"date": "2027-02-28"}]}), &["/days/0/hours"])]
#[case::unknown_calendar(json!({"calendars": ["cn"]}), &["/calendars/0"])]
#[case::twice(json!({"calendars": ["a b", "cn", "cn"]}), &["/calendars/0", "/calendars/2"])]
#[case::all_at_once(json!({"zone": "x", "weekly": [{"day": "monday", "from": "18:00", "to": "09:00"}],
    "days": [{"date": "x", "hours": []}]}), &["/zone", "/weekly/0/to", "/days/0/date"])]
#[tokio::test]
async fn each_wrong_field_of_a_schedule_is_named(#[case] change: Value, #[case] pointers: &[&str]) {
    let world = World::new().await;
    let console = world.operator().await;
    let mut body = never();
    for (field, value) in change.as_object().unwrap() {
        body[field] = value.clone();
    }
    assert_eq!(console.put("/schedules/s", body).await.pointers(), pointers);
    assert_eq!(console.all("/schedules").await, [] as [Value; 0]);
}

#[tokio::test]
async fn each_other_wrong_field_is_named() {
    let world = World::new().await;
    let console = world.operator().await;
    console.put("/members/mA", json!({})).await.ok();
    let first = time::macros::date!(2027 - 01 - 01);
    let days: Vec<Value> = (0..400)
        .map(|n| json!({"date": (first + time::Duration::days(n)).to_string(), "hours": []}))
        .collect();
    let holidays = json!({"name": "x", "days": days});
    let calendar = console.put("/calendars/cn", holidays).await;
    assert_eq!(calendar.pointers(), ["/days"]);
    for (body, pointer) in [
        (json!({"schedule": "nobody"}), "/schedule"),
        (json!({"schedule": "a b"}), "/schedule"),
        (json!({"presence_mode": "sometimes"}), "/presence_mode"),
    ] {
        assert_eq!(console.put("/members/mA", body).await.pointers(), [pointer]);
    }
    let now_ms = world.app().now_ms();
    let at = |hours: u64| text(now_ms - 5 * HOUR + hours * HOUR);
    for (body, pointer) in [
        (json!({"from": at(7), "to": at(6), "reason": "x"}), "/to"),
        (json!({"from": at(7), "to": at(7), "reason": "x"}), "/to"),
        (json!({"from": at(1), "to": at(2), "reason": "x"}), "/to"),
        (
            json!({"from": at(6), "to": at(7), "reason": "a b"}),
            "/reason",
        ),
        (
            json!({"from": "tomorrow", "to": at(7), "reason": "x"}),
            "/from",
        ),
    ] {
        let answer = console.post("/members/mA/leaves", body).await;
        assert_eq!(answer.pointers(), [pointer]);
    }
    for (what, body, pointer) in [
        ("off", json!({"until": at(1)}), "/until"),
        ("off", json!({"until": at(9_000)}), "/until"),
        ("off", json!({"reason": "a b"}), "/reason"),
        ("on", json!({"until": at(1)}), "/until"),
    ] {
        let path = format!("/members/mA/presence/{what}");
        assert_eq!(console.post(&path, body).await.pointers(), [pointer]);
    }
    let leave = json!({"from": at(6), "to": at(7), "reason": "x"});
    for answer in [
        console.get("/members/mX/presence").await,
        console.post("/members/mX/presence/off", json!({})).await,
        console.post("/members/mX/presence/on", json!({})).await,
        console.post("/members/mX/leaves", leave).await,
        console.delete("/members/mA/leaves/x").await,
        console.delete("/calendars/none").await,
    ] {
        assert_eq!(answer.refused(), (404, "not_found".to_owned()));
    }
}

/// Within his hours: on by himself, off while he pauses, whatever his heartbeat says.
#[tokio::test]
async fn a_pause_and_its_end() {
    let world = World::new().await;
    let console = world.operator().await;
    with_schedule(&console, "mA", "always", always()).await;
    // Told at once, no loop is running.
    let on = standing(&console, "ma").await;
    assert_eq!(
        (&on["online"], &on["why"]),
        (&json!(true), &json!("within_hours"))
    );
    assert_eq!(
        (&on["userid"], &on["schedule"]),
        (&json!("mA"), &json!("always"))
    );
    let heartbeat = json!({"online": true, "lease_seconds": 86_400});
    let lease = console.put("/presence/mA", heartbeat.clone()).await.ok();
    let ends = ms(lease["lease_until"].as_str().unwrap());
    assert!(
        ends <= world.app().now_ms() + 90_000,
        "no longer than any other"
    );
    let goodbye = console.delete("/presence/mA").await;
    assert_eq!(goodbye.refused(), (409, "kept_on".to_owned()));
    let off = say(&console, "off", json!({"reason": "lunch"})).await;
    assert_eq!(
        (
            &off["online"],
            &off["why"],
            &off["reason"],
            &off["until"],
            &off["next_change"]
        ),
        (
            &json!(false),
            &json!("paused"),
            &json!("lunch"),
            &Value::Null,
            &Value::Null
        )
    );
    let refused = console.put("/presence/mA", heartbeat).await;
    assert_eq!(refused.refused(), (409, "paused".to_owned()));
    let own = world.member_key("mA").await;
    let on = say(&own, "on", json!({})).await;
    assert_eq!(
        (&on["online"], &on["why"]),
        (&json!(true), &json!("within_hours"))
    );
    let until = text(world.app().now_ms() + HOUR);
    let off = say(&own, "off", json!({"until": until})).await;
    assert_eq!(off["until"], off["next_change"]);
    assert_eq!(ms(off["until"].as_str().unwrap()), ms(&until));
    let said = console.all("/audit?action=presence.say").await;
    assert_eq!(said.len(), 3, "{said:?}");
}

/// Outside his hours a heartbeat is answered with the reason; an operator's word stands until its time.
#[tokio::test]
async fn outside_his_hours() {
    let world = World::new().await;
    let console = world.operator().await;
    let own = world.member_key("mA").await;
    let now_ms = world.app().now_ms();
    // Open on a date that is some days away, in a zone without surprises.
    let date = text(now_ms + 72 * HOUR)[..10].to_owned();
    let days = json!([{"date": date, "hours": [{"from": "09:00", "to": "10:00"}]}]);
    let body = json!({"name": "later", "zone": "UTC", "weekly": [], "days": days});
    with_schedule(&console, "mA", "later", body).await;
    console.put("/members/mB", json!({})).await.ok();
    let opens = ms(&format!("{date}T09:00:00Z"));
    let off = standing(&own, "mA").await;
    assert_eq!(
        (&off["online"], &off["why"]),
        (&json!(false), &json!("outside_hours"))
    );
    assert_eq!(ms(off["next_change"].as_str().unwrap()), opens);
    let heartbeat = json!({"online": true});
    let refused = own.put("/presence/mA", heartbeat.clone()).await;
    let current = refused.json()["current"].clone();
    assert_eq!(ms(current["next_open"].as_str().unwrap()), opens);
    assert_eq!(refused.refused(), (409, "outside_hours".to_owned()));
    let both =
        json!({"members": [{"member": "mA", "online": true}, {"member": "mB", "online": true}]});
    let both = console.put("/presence", both).await.ok();
    assert_eq!(
        (
            &both["data"][0]["error"],
            &both["data"][0]["online"],
            &both["data"][1]["online"]
        ),
        (&json!("outside_hours"), &json!(false), &json!(true))
    );
    assert_eq!(ms(both["data"][0]["next_open"].as_str().unwrap()), opens);
    // He himself cannot; nor can an operator without a time.
    for (who, body) in [
        (&own, json!({})),
        (&own, json!({"until": text(now_ms + HOUR)})),
        (&console, json!({})),
    ] {
        let refused = who.post("/members/mA/presence/on", body).await;
        assert_eq!(refused.refused(), (409, "outside_hours".to_owned()));
    }
    let until = text(now_ms + 2 * HOUR);
    let on = say(&console, "on", json!({"until": until})).await;
    assert_eq!(
        (&on["online"], &on["why"]),
        (&json!(true), &json!("override"))
    );
    assert_eq!(ms(on["until"].as_str().unwrap()), ms(&until));
    own.put("/presence/mA", heartbeat).await.ok();
    // A pause ends it, and he is on by himself when his hours begin.
    say(&own, "off", json!({})).await;
    let on = say(&own, "on", json!({})).await;
    assert_eq!(
        (&on["online"], &on["why"]),
        (&json!(false), &json!("outside_hours"))
    );
}

/// Cases 81: what is said again and again is written as often, and the last word stands.
#[tokio::test]
async fn who_must_say_so_says_so() {
    let world = World::new().await;
    let console = world.operator().await;
    with_schedule(&console, "mA", "always", always()).await;
    let manual = json!({"schedule": "always", "presence_mode": "manual"});
    console.put("/members/mA", manual).await.ok();
    say(&console, "off", json!({})).await;
    say(&console, "on", json!({})).await;
    let own = world.member_key("mA").await;
    console
        .post("/members/mA/presence/off", json!({}))
        .await
        .ok();
    let on = say(&own, "on", json!({})).await;
    assert_eq!(
        (&on["online"], &on["why"]),
        (&json!(true), &json!("said_on"))
    );
    // Once more is no change.
    say(&own, "on", json!({})).await;
    assert_eq!(console.all("/audit?action=presence.say").await.len(), 4);
    say(&own, "off", json!({})).await;
    say(&console, "on", json!({})).await;
    // By heartbeats, as far as his hours go.
    console
        .put(
            "/members/mB",
            json!({"schedule": "always", "presence_mode": "manual"}),
        )
        .await
        .ok();
    assert_eq!(standing(&console, "mB").await["why"], "lease_over");
    console
        .put("/presence/mB", json!({"online": true}))
        .await
        .ok();
    let on = standing(&console, "mB").await;
    assert_eq!(
        (&on["online"], &on["why"]),
        (&json!(true), &json!("heartbeat"))
    );
    assert_eq!(on["until"], on["lease_until"]);
    assert_eq!(console.delete("/presence/mB").await.status, 204);
    // A schedule that closes puts both off at once.
    console.put("/schedules/always", never()).await.ok();
    for member in ["mA", "mB"] {
        assert_eq!(standing(&console, member).await["why"], "outside_hours");
    }
}

/// Without a schedule a heartbeat decides, but for a pause.
#[tokio::test]
async fn who_has_no_schedule() {
    let world = World::new().await;
    let console = world.operator().await;
    console.put("/members/mA", json!({})).await.ok();
    assert_eq!(standing(&console, "mA").await["why"], "lease_over");
    console.on(&["mA"]).await;
    assert_eq!(standing(&console, "mA").await["why"], "heartbeat");
    let off = say(&console, "off", json!({})).await;
    assert_eq!(
        (&off["online"], &off["why"]),
        (&json!(false), &json!("paused"))
    );
    let refused = console.put("/presence/mA", json!({"online": true})).await;
    assert_eq!(refused.refused(), (409, "paused".to_owned()));
    let on = say(&console, "on", json!({})).await;
    assert_eq!(
        (&on["online"], &on["why"]),
        (&json!(true), &json!("heartbeat"))
    );
    let until = text(world.app().now_ms() + HOUR);
    let own = world.member_key("mA").await;
    let on = say(&own, "on", json!({"until": until})).await;
    assert_eq!(
        (&on["online"], &on["why"]),
        (&json!(true), &json!("said_on"))
    );
}

/// A leave that has begun counts at once, beats everything that was said, and ends when it is taken back.
#[tokio::test]
async fn a_leave_beats_all() {
    let world = World::new().await;
    let console = world.operator().await;
    with_schedule(&console, "mA", "always", always()).await;
    let now_ms = world.app().now_ms();
    say(&console, "on", json!({"until": text(now_ms + HOUR)})).await;
    let (from, to) = (text(now_ms - HOUR), text(now_ms + 10 * HOUR));
    let leave = json!({"from": from, "to": to, "reason": "sick"});
    let first = console
        .post_once("/members/mA/leaves", "k1", leave.clone())
        .await;
    assert_eq!(first.status, 201);
    let again = console.post_once("/members/mA/leaves", "k1", leave).await;
    assert_eq!(again.json(), first.json());
    let leaves = console.get("/members/mA/leaves").await.ok();
    assert_eq!(leaves["data"].as_array().unwrap().len(), 1);
    let off = standing(&console, "mA").await;
    assert_eq!(
        (&off["online"], &off["why"], &off["reason"]),
        (&json!(false), &json!("leave"), &json!("sick"))
    );
    assert_eq!(ms(off["until"].as_str().unwrap()), ms(&to));
    for body in [json!({}), json!({"until": to})] {
        let on = console.post("/members/mA/presence/on", body).await;
        assert_eq!(on.refused(), (409, "on_leave".to_owned()));
    }
    let path = format!(
        "/members/mA/leaves/{}",
        first.json()["id"].as_str().unwrap()
    );
    assert_eq!(console.delete(&path).await.status, 204);
    assert_eq!(console.delete(&path).await.status, 404);
    let on = standing(&console, "mA").await;
    assert_eq!(
        (&on["online"], &on["why"]),
        (&json!(true), &json!("override"))
    );
    assert_eq!(console.all("/audit?entity=members/ma").await.len(), 4);
    // Not without end.
    for n in 1..=101u64 {
        let leave = json!({"from": text(now_ms + n * HOUR), "to": text(now_ms + n * HOUR + 1_000), "reason": "x"});
        let answer = console.post("/members/mA/leaves", leave).await;
        assert_eq!(answer.status, if n <= 100 { 201 } else { 409 }, "{n}");
    }
}

#[tokio::test]
async fn who_may_say_what() {
    let world = World::new().await;
    let console = world.operator().await;
    with_schedule(&console, "mA", "always", always()).await;
    console.put("/members/mB", json!({})).await.ok();
    let own = world.member_key("mA").await;
    let viewer = world.console(Role::Viewer).await;
    let leave =
        json!({"from": "2027-01-01T00:00:00Z", "to": "2027-01-02T00:00:00Z", "reason": "x"});
    for answer in [
        own.get("/members/mB/presence").await,
        own.post("/members/mB/presence/off", json!({})).await,
        own.post("/members/mA/leaves", leave.clone()).await,
        own.get("/schedules").await,
        viewer.post("/members/mA/presence/off", json!({})).await,
        viewer.post("/members/mA/presence/on", json!({})).await,
        viewer.post("/members/mA/leaves", leave).await,
        viewer.put("/schedules/s", never()).await,
        viewer
            .put("/calendars/c", json!({"name": "x", "days": []}))
            .await,
        viewer.delete("/schedules/always").await,
    ] {
        assert_eq!(answer.refused(), (403, "forbidden".to_owned()));
    }
    viewer.get("/members/mA/presence").await.ok();
    viewer.get("/schedules/always").await.ok();
    let many = weekly(EVERY_DAY, "00:00", "24:00");
    assert_eq!(viewer.get("/schedules/always").await.ok()["weekly"], many);
}

/// A schedule goes or a member gets it, never both.
#[tokio::test]
async fn a_schedule_that_is_given_away_does_not_go() {
    let world = World::with(2, Options::default()).await;
    let console = world.operator().await;
    let other = world.at(1, console.key.as_deref().unwrap());
    for n in 0..20 {
        let (member, schedule) = (format!("/members/m{n}"), format!("/schedules/s{n}"));
        console.put(&schedule, always()).await.ok();
        let wanted = json!({"schedule": format!("s{n}")});
        let (given, gone) = tokio::join!(console.put(&member, wanted), other.delete(&schedule));
        let ends = (given.status.as_u16(), gone.status.as_u16());
        assert!([(201, 409), (422, 204)].contains(&ends), "{ends:?}");
    }
}
