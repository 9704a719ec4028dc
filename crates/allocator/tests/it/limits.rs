//! Limits by the hour and day against real stores: when windows end, wherever the member is and whoever dies.

use allocation::{
    AllocationId, Decision, Limits, MemberId, PoolId, PresenceChange, Request, SetMember,
    SubjectKey, model::Given,
};
use allocator::{decide::dirty, guard, people, reception::sweep, reread};
use ledger::{NewMember, Precondition, Trail};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    api_support::{Console, Options, World},
    hours::{EVERY_DAY, always, ms, text, weekly, with_schedule},
    lane_stage::Stage,
    log_lost::eventually,
};

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;
/// In Shanghai; later than the stores' clocks, which tests pass in.
const MIDNIGHT: &str = "2027-01-03T16:00:00Z";

fn member(name: &str) -> MemberId {
    MemberId::new(name).unwrap()
}

impl World {
    /// On until long after all tests.
    async fn on_at(&self, name: &str, now_ms: u64) {
        let on = PresenceChange {
            member: member(name),
            lease_until_ms: now_ms + 400 * DAY,
        };
        let roster = &self.corp_app().roster;
        roster.presence(vec![on], "", Some(now_ms)).await.unwrap();
    }

    async fn asks_at(&self, customer: &str, now_ms: u64) -> bool {
        let request = Request {
            allocation: AllocationId(Uuid::now_v7()),
            pool: PoolId::new("p1").unwrap(),
            subject: SubjectKey::new(&self.corp, "wecom", customer),
            holder: None,
            request: None,
            echo: false,
            plan: None,
        };
        let roster = &self.corp_app().roster;
        let applied = roster.decide(vec![request], "", Some(now_ms)).await;
        matches!(applied.unwrap().answer[0], Decision::Assigned { .. })
    }

    /// Compares, as the loop does; answers how much was told.
    async fn told_at(&self, now_ms: u64) -> usize {
        let synced = people::sync_at(self.app(), self.corp_app(), Some(now_ms));
        synced.await.unwrap().told
    }

    async fn given(&self, name: &str) -> Option<Given> {
        let roster = &self.corp_app().roster;
        let views = roster.members(&[member(name)]).await.unwrap();
        views.first().and_then(|view| view.given)
    }

    async fn entries(&self) -> u64 {
        self.corp_app().roster.status().await.unwrap().seq
    }

    async fn sweep(&self) {
        let stop = CancellationToken::new();
        sweep::turn(self.app(), self.corp_app(), &stop)
            .await
            .unwrap();
    }
}

async fn put_pool(console: &Console, place: serde_json::Value) {
    let body = json!({"name": "p1", "members": [place]});
    console.put("/pools/p1", body).await.ok();
}

/// One member with this limit, alone in his pool.
async fn world(limits: serde_json::Value) -> (World, Console) {
    let world = World::new().await;
    let console = world.operator().await;
    console.put("/members/mA", limits).await.ok();
    put_pool(&console, json!({"member": "mA", "weight": 1})).await;
    (world, console)
}

/// Who gets a limit in the middle of the day has had some already, and taking it off for a moment gives him nothing.
#[tokio::test]
async fn what_was_given_before_there_was_a_limit_counts() {
    let (world, console) = world(json!({})).await;
    console.on(&["mA"]).await;
    for n in 0..3 {
        assert_eq!(
            console.ask("p1", &format!("wmC{n}")).await["decision"],
            "assigned"
        );
    }
    world.written().await;
    let counts = async |limits| {
        let put = console.put("/members/mA", limits).await.ok();
        let given = &put["state"]["given"];
        (given["in_hour"].clone(), given["on_day"].clone())
    };
    let three = (json!(3), json!(3));
    assert_eq!(counts(json!({"per_day": 4})).await, three);
    assert_eq!(console.ask("p1", "wmC3").await["decision"], "assigned");
    assert_eq!(console.ask("p1", "wmC4").await["decision"], "waiting");
    world.written().await;
    counts(json!({})).await;
    world.written().await;
    let five = (json!(5), json!(5));
    assert_eq!(
        counts(json!({"per_hour": 5})).await,
        five,
        "who waited came to him"
    );
    assert_eq!(console.ask("p1", "wmC5").await["decision"], "waiting");
    world.check().await;
}

/// Case 82: ten on a day in Shanghai, where members without a schedule are; this process' clock is UTC's.
#[tokio::test]
async fn a_day_ends_at_midnight_in_shanghai_and_not_at_eight() {
    let (world, console) = world(json!({"per_day": 10})).await;
    let midnight = ms(MIDNIGHT);
    let at = midnight - 10 * SECOND;
    world.told_at(at).await;
    world.on_at("ma", at).await;
    for n in 0..10 {
        assert!(world.asks_at(&format!("wmC{n}"), at).await, "{n}");
    }
    assert!(!world.asks_at("wmWaits", at + SECOND).await);
    let roster = &world.corp_app().roster;
    assert_eq!(roster.first_alarm().await.unwrap(), Some(midnight));
    let after = midnight + 5 * SECOND;
    // Who waited is his at once, and so is the next.
    assert!(world.asks_at("wmNext", after).await);
    world.written().await;
    assert_eq!(console.all("/allocations?state=open").await.len(), 12);
    assert_eq!(world.given("ma").await.unwrap().on_day, 2);
    assert_eq!(world.told_at(after).await, 0, "the script knows by itself");
    // Eight in the morning is midnight of UTC.
    let eight = midnight + 8 * HOUR;
    for n in 0..8 {
        let at = eight - SECOND;
        assert!(world.asks_at(&format!("wmD{n}"), at).await, "{n}");
    }
    assert!(!world.asks_at("wmEarly", eight - SECOND).await);
    assert!(!world.asks_at("wmLate", eight + SECOND).await);
    let given = world.given("ma").await.unwrap();
    assert_eq!((given.on_day, given.day_end_ms), (10, midnight + DAY));
    assert_eq!(world.told_at(eight + SECOND).await, 0);
    world.check().await;
}

/// A day is as long as the clocks there make it. What ended by itself is not told.
#[tokio::test]
async fn days_of_23_and_25_hours_are_told() {
    let (world, console) = world(json!({})).await;
    let body = json!({"name": "days", "zone": "America/New_York", "weekly": weekly(EVERY_DAY, "00:00", "24:00")});
    with_schedule(&console, "mA", "days", body).await;
    let limits = json!({"per_day": 1, "schedule": "days"});
    console.put("/members/mA", limits).await.ok();
    for (before, midnight, hours) in [
        ("2027-03-13T12:00:00Z", "2027-03-14T05:00:00Z", 23),
        ("2027-11-06T12:00:00Z", "2027-11-07T04:00:00Z", 25),
    ] {
        let (before, midnight) = (ms(before), ms(midnight));
        let end = midnight + hours * HOUR;
        world.told_at(before).await;
        assert_eq!(world.told_at(before + HOUR).await, 0);
        let due = people::sync_at(world.app(), world.corp_app(), Some(before)).await;
        assert_eq!(due.unwrap().day_end_ms, Some(midnight));
        world.on_at("ma", midnight - SECOND).await;
        // The loop compares when the day ends: this one is another length.
        assert_eq!(world.told_at(midnight).await, 1);
        assert_eq!(world.told_at(midnight + SECOND).await, 0);
        assert!(
            world
                .asks_at(&format!("wm1{before}"), midnight + 2 * HOUR)
                .await
        );
        assert!(!world.asks_at(&format!("wm2{before}"), end - 1).await);
        // Both: who waited is his first.
        assert!(!world.asks_at(&format!("wm3{before}"), end).await);
        assert_eq!(
            world.told_at(end).await,
            0,
            "from here on a day has 24 hours"
        );
        let given = world.given("ma").await.unwrap();
        assert_eq!((given.on_day, given.day_end_ms), (1, end + DAY));
        console
            .put("/pools/p1", json!({"name": "p1", "members": []}))
            .await
            .ok();
        put_pool(&console, json!({"member": "mA", "weight": 1})).await;
        world.told_at(end + DAY).await;
    }
}

/// Another zone, by the schedule of a member or by another schedule: another end of the day.
#[tokio::test]
async fn the_day_goes_with_the_schedule() {
    let (world, console) = world(json!({"per_hour": 5})).await;
    let at = ms(MIDNIGHT) + HOUR / 2;
    world.told_at(at).await;
    let end = || async { world.given("ma").await.unwrap().at(at).day_end_ms };
    assert_eq!(end().await, ms(MIDNIGHT) + DAY);
    let mut body = always();
    body["zone"] = json!("Asia/Kathmandu");
    console.put("/schedules/s1", body.clone()).await.ok();
    let limits = json!({"per_hour": 5, "schedule": "s1"});
    console.put("/members/mA", limits).await.ok();
    world.told_at(at).await;
    assert_eq!(end().await, ms("2027-01-03T18:15:00Z"));
    // Hours are counted back from it.
    let given = world.given("ma").await.unwrap().at(at);
    assert_eq!(given.hour_end_ms, ms("2027-01-03T17:15:00Z"));
    body["zone"] = json!("UTC");
    console.put("/schedules/s1", body).await.ok();
    assert_eq!(world.told_at(at).await, 1);
    assert_eq!(end().await, ms("2027-01-04T00:00:00Z"));
}

/// The default zone is configured.
#[tokio::test]
async fn who_has_no_schedule_is_in_the_default_zone() {
    let options = Options {
        config: "[hours]\ndefault_zone = \"Pacific/Auckland\"".to_owned(),
        ..Options::default()
    };
    let world = World::with(1, options).await;
    let console = world.operator().await;
    console.put("/members/mA", json!({"per_day": 1})).await.ok();
    let at = ms("2027-07-01T11:59:00Z");
    world.told_at(at).await;
    let given = world.given("ma").await.unwrap();
    assert_eq!(given.day_end_ms, ms("2027-07-01T12:00:00Z"));
}

/// Written by a process that died before it could tell Redis, of members and of pools; and taken away again.
#[tokio::test]
async fn a_telling_that_was_lost_is_made_up_for() {
    let (world, console) = world(json!({})).await;
    let (app, corp) = (world.app(), world.corp_app());
    let trail = Trail::system(app.now_ms(), "test");
    let put = async |per_hour| {
        let new = NewMember {
            userid: "mA".to_owned(),
            per_hour,
            ..NewMember::default()
        };
        let (members, ma) = (app.ledger.members(), member("mA"));
        let put = members.put(&corp.id, &ma, &new, Precondition::None, &trail);
        put.await.unwrap();
    };
    put(Some(3)).await;
    assert_eq!((world.sync().await, world.sync().await), (1, 0));
    let given = world.given("ma").await.unwrap();
    assert_eq!((given.limits.per_hour, given.told), (Some(3), true));
    put(None).await;
    assert_eq!((world.sync().await, world.sync().await), (1, 0));
    assert_eq!(world.given("ma").await, None);

    // By the day in a pool: the member is told when it ends, too.
    let limit = async |per_day: &str| {
        let sql = format!(
            "UPDATE pool_members SET per_day = {per_day}; UPDATE pools SET version = version + 1"
        );
        world.sql(&sql).await;
    };
    limit("2").await;
    assert_eq!((world.sync().await, world.sync().await), (2, 0));
    let given = world.given("ma").await.unwrap();
    assert!(given.told && given.limits == Limits::NONE, "{given:?}");
    console.on(&["mA"]).await;
    for (customer, decision) in [
        ("wmC1", "assigned"),
        ("wmC2", "assigned"),
        ("wmC3", "waiting"),
    ] {
        assert_eq!(console.ask("p1", customer).await["decision"], decision);
    }
    limit("NULL").await;
    assert_eq!((world.sync().await, world.sync().await), (2, 0));
    assert_eq!(world.given("ma").await, None);
    world.check().await;
    assert_eq!(console.all("/allocations?state=waiting").await.len(), 0);
    // A cap of the pool is no matter of time: nobody needs to know when the day ends.
    put_pool(&console, json!({"member": "mA", "weight": 1, "cap": 9})).await;
    assert!(!world.given("ma").await.unwrap().told);
    assert_eq!(world.sync().await, 0);
}

/// Whoever tells something else of him tells his limits too.
#[tokio::test]
async fn who_is_blocked_keeps_his_limits() {
    let stage = Stage::new(1).await;
    let world = &stage.world;
    let console = world.operator().await;
    let limits = json!({"cap": 9, "per_hour": 5, "per_day": 7});
    console.put("/members/m0", limits).await.ok();
    let before = world.given("m0").await.unwrap();
    assert_eq!(before.limits.per_day, Some(7));
    let corp_id = Some(world.corp.as_str());
    let (app, corp) = (world.app(), world.corp_app());
    for status in [5, 1] {
        let user = json!({"status": status});
        stage.sim.patch_member(corp_id, "m0", &user).unwrap();
        let now_ms = app.now_ms();
        corp.inbox
            .dirty_mark(dirty::MEMBER, "m0", now_ms)
            .await
            .unwrap();
        reread::turn(app, corp).await.unwrap();
        let views = corp.roster.members(&[member("m0")]).await.unwrap();
        assert_eq!(views[0].blocked.is_some(), status == 5);
        assert_eq!(world.given("m0").await, Some(before));
        assert_eq!(world.sync().await, 0);
    }
    world.written().await;
}

/// What he was given is shown, of this hour and of this day; and who is full is on, but not eligible.
#[tokio::test]
async fn what_was_given_is_shown() {
    let (world, console) = world(json!({"per_hour": 2, "per_day": 9})).await;
    console.on(&["mA"]).await;
    console.ask("p1", "wmC1").await;
    console.ask("p1", "wmC2").await;
    let state = console.get("/members/mA").await.ok()["state"].clone();
    assert_eq!(
        (&state["online"], &state["eligible"]),
        (&json!(true), &json!(false))
    );
    let given = world.given("ma").await.unwrap();
    let shown = json!({"in_hour": 2, "hour_ends_at": text(given.hour_end_ms), "on_day": 2, "day_ends_at": text(given.day_end_ms)});
    let as_ms = |value: &serde_json::Value| {
        let times = ["hour_ends_at", "day_ends_at"];
        times.map(|name| ms(value[name].as_str().unwrap()))
    };
    for seen in [
        &state["given"],
        &console.get("/members/mA/presence").await.ok()["given"],
        &console.get("/members").await.ok()["data"][0]["state"]["given"],
    ] {
        assert_eq!(
            (&seen["in_hour"], &seen["on_day"]),
            (&shown["in_hour"], &shown["on_day"])
        );
        assert_eq!(as_ms(seen), as_ms(&shown));
    }
}

/// Nobody comes and nobody goes: the sweep lets who waits have the member when his hour is over.
#[tokio::test]
async fn who_waits_for_the_end_of_an_hour_is_woken() {
    let (world, console) = world(json!({})).await;
    console.on(&["mA"]).await;
    let (app, corp) = (world.app(), world.corp_app());
    let end = app.now_ms() + 700;
    let change = SetMember {
        limits: Limits {
            per_hour: Some(1),
            ..Limits::NONE
        },
        day_end_ms: Some(end),
        ..SetMember::capped(member("ma"), None, None)
    };
    corp.roster.set_member(change, "", None).await.unwrap();
    console.ask("p1", "wmC1").await;
    let second = console.ask("p1", "wmC2").await;
    let before = world.entries().await;
    world.sweep().await;
    if app.now_ms() < end {
        assert_eq!(second["decision"], "waiting");
        assert_eq!(
            world.entries().await,
            before,
            "not due: nothing is asked for"
        );
    }
    eventually("he is woken", async || {
        world.sweep().await;
        let loads = corp.roster.members(&[member("ma")]).await.unwrap();
        (loads[0].load == 2).then_some(())
    })
    .await;
    assert!(app.now_ms() >= end);
    // One entry, however often it was looked.
    let seq = world.entries().await;
    world.sweep().await;
    assert_eq!(world.entries().await, seq);
    world.check().await;
}

/// From the log everything is as it was. From rows limits and ends are; what was given begins anew.
#[tokio::test]
async fn a_rebuilt_corp_keeps_its_limits() {
    for from_rows in [false, true] {
        let (world, console) = world(json!({"per_day": 3})).await;
        let place = json!({"member": "mA", "weight": 1, "cap": 5, "per_hour": 1000});
        put_pool(&console, place).await;
        console.on(&["mA"]).await;
        console.ask("p1", "wmC1").await;
        console.ask("p1", "wmC2").await;
        let before = world.given("ma").await.unwrap();
        assert_eq!(before.on_day, 2);
        world.written().await;
        let wanted = guard::Wanted {
            from_rows,
            ..guard::Wanted::default()
        };
        guard::rebuild(world.app(), world.corp_app(), wanted)
            .await
            .unwrap();
        let after = world.given("ma").await.unwrap().at(world.app().now_ms());
        assert_eq!(after.on_day, 2);
        assert_eq!(after.limits, before.limits);
        assert_eq!(after.day_end_ms, before.at(world.app().now_ms()).day_end_ms);
        assert_eq!(world.sync().await, 0, "nothing is left to tell");
        console.on(&["mA"]).await;
        let mut given = 0;
        for n in 0..5 {
            let asked = console.ask("p1", &format!("wmD{n}")).await;
            given += u32::from(asked["decision"] == "assigned");
        }
        assert_eq!(given, 1);
        world.check().await;
    }
}
