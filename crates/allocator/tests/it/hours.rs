//! Hours of work against real stores: who is on when, whoever dies.

use std::sync::Arc;

use allocation::{AllocationId, Decision, MemberId, PoolId, Request, SubjectKey};
use allocator::{
    app::{App, CorpApp},
    audit, clock,
    decide::dirty,
    guard,
    people::hours::{self, Last},
    reread,
};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};
use uuid::Uuid;
use wecom::client::api;
use wecom_sim::{Act, Fault, ScanRequest};

use crate::{
    api_support::{Console, Options, World},
    lane_stage::Stage,
    log_lost::eventually,
};

/// Monday, midnight in Shanghai: later than the stores' clocks, which tests pass in.
const MONDAY: &str = "2027-01-03T16:00:00Z";
const HOUR: u64 = 3_600_000;
const LEASE: u64 = 90_000;

pub(crate) fn ms(text: &str) -> u64 {
    let at = OffsetDateTime::parse(text, &Rfc3339).unwrap();
    u64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap()
}

pub(crate) fn text(ms: u64) -> String {
    let at = OffsetDateTime::UNIX_EPOCH + Duration::milliseconds(i64::try_from(ms).unwrap());
    at.format(&Rfc3339).unwrap()
}

pub(crate) fn weekly(days: &[&str], from: &str, to: &str) -> Value {
    let hours = days
        .iter()
        .map(|day| json!({"day": day, "from": from, "to": to, "next_day": to <= from}));
    hours.collect()
}

const WORKDAYS: &[&str] = &["monday", "tuesday", "wednesday", "thursday", "friday"];
pub(crate) const EVERY_DAY: &[&str] = &[
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

pub(crate) fn always() -> Value {
    json!({"name": "always", "zone": "Asia/Shanghai", "weekly": weekly(EVERY_DAY, "00:00", "24:00")})
}

pub(crate) async fn with_schedule(console: &Console, member: &str, schedule: &str, body: Value) {
    let path = format!("/schedules/{schedule}");
    console.put(&path, body).await.ok();
    let body = json!({"schedule": schedule});
    console.put(&format!("/members/{member}"), body).await.ok();
}

/// One member, from nine to six on workdays in Shanghai, and his pool.
async fn nine_to_six() -> (World, Console) {
    let world = World::new().await;
    let console = world.operator().await;
    let body = json!({"name": "days", "zone": "Asia/Shanghai", "weekly": weekly(WORKDAYS, "09:00", "18:00")});
    with_schedule(&console, "mA", "days", body).await;
    let members = json!([{"member": "mA", "weight": 1}]);
    let pool = json!({"name": "p1", "members": members});
    console.put("/pools/p1", pool).await.ok();
    (world, console)
}

/// The loop of one process, at times that the test passes in.
struct Turns {
    app: Arc<App>,
    corp: Arc<CorpApp>,
    last: Last,
}

impl Turns {
    fn of(world: &World, node: usize) -> Self {
        let app = Arc::clone(world.app_at(node));
        Self::new(app, world)
    }

    fn new(app: Arc<App>, world: &World) -> Self {
        Self {
            corp: Arc::clone(&app.corps[&world.corp]),
            app,
            last: Last::default(),
        }
    }

    async fn turn(&mut self, now_ms: u64) -> u64 {
        hours::turn(&self.app, &self.corp, &mut self.last, Some(now_ms))
            .await
            .unwrap()
    }

    /// A turn, and the lease of a member after it, 0: he is off.
    async fn lease(&mut self, member: &str, now_ms: u64) -> u64 {
        self.turn(now_ms).await;
        lease_at(&self.corp, member, now_ms).await
    }

    /// Entries of the log that a turn made.
    async fn sent(&mut self, now_ms: u64) -> u64 {
        let before = self.corp.roster.status().await.unwrap().seq;
        self.turn(now_ms).await;
        self.corp.roster.status().await.unwrap().seq - before
    }
}

async fn lease_at(corp: &CorpApp, member: &str, now_ms: u64) -> u64 {
    let member = MemberId::new(member).unwrap();
    let end = corp.roster.leases_of(&[member]).await.unwrap().remove(0);
    end.filter(|end| *end > now_ms).unwrap_or(0)
}

async fn decided(world: &World, customer: &str, now_ms: u64) -> Decision {
    let request = Request {
        allocation: AllocationId(Uuid::now_v7()),
        pool: PoolId::new("p1").unwrap(),
        subject: SubjectKey::new(&world.corp, "wecom", customer),
        holder: None,
        request: None,
        echo: false,
        plan: None,
    };
    let roster = &world.corp_app().roster;
    let applied = roster.decide(vec![request], "", Some(now_ms)).await;
    applied.unwrap().answer.remove(0)
}

#[tokio::test]
async fn he_comes_and_goes_at_the_minute() {
    let (world, _) = nine_to_six().await;
    let mut turns = Turns::of(&world, 0);
    let opens = ms(MONDAY) + 9 * HOUR;
    let closes = ms(MONDAY) + 18 * HOUR;
    assert_eq!(turns.turn(opens - 5_000).await, opens);
    assert_eq!(lease_at(&turns.corp, "ma", opens - 5_000).await, 0);
    assert_eq!(turns.lease("ma", opens).await, opens + LEASE);
    // Renewed in the second half of its life.
    assert_eq!(turns.sent(opens + 20_000).await, 0);
    assert_eq!(turns.lease("ma", opens + 40_000).await, opens + LEASE);
    assert_eq!(
        turns.lease("ma", opens + 60_000).await,
        opens + 60_000 + LEASE
    );
    // Never beyond the end.
    assert_eq!(turns.turn(closes - 10_000).await, closes);
    assert_eq!(turns.lease("ma", closes - 1).await, closes);
    let taken = decided(&world, "wmC1", closes - 1).await;
    assert!(matches!(taken, Decision::Assigned { .. }), "{taken:?}");
    // Though nobody takes a turn.
    let waits = decided(&world, "wmC2", closes).await;
    assert!(matches!(waits, Decision::Waiting { .. }), "{waits:?}");
    assert_eq!(turns.lease("ma", closes).await, 0);
    // Who waited is his when he comes again.
    let next_day = opens + 24 * HOUR;
    assert_eq!(turns.lease("ma", next_day).await, next_day + LEASE);
    let his = decided(&world, "wmC2", next_day).await;
    assert!(!matches!(his, Decision::Waiting { .. }), "{his:?}");
}

#[tokio::test]
async fn a_night_is_as_long_as_the_clocks_make_it() {
    let world = World::new().await;
    let console = world.operator().await;
    let body = json!({"name": "nights", "zone": "America/New_York", "weekly": weekly(&["saturday"], "22:00", "02:30")});
    with_schedule(&console, "mA", "nights", body).await;
    let mut turns = Turns::of(&world, 0);
    // 02:30 is skipped: it ends when the clocks are set forward.
    let forward = ms("2027-03-14T07:00:00Z");
    assert_eq!(turns.lease("ma", forward - 1).await, forward);
    assert_eq!(turns.lease("ma", forward).await, 0);
    // An hour comes twice.
    let end = ms("2027-11-07T07:30:00Z");
    assert_eq!(turns.lease("ma", end - HOUR).await, end - HOUR + LEASE);
    assert_eq!(turns.lease("ma", end - 1).await, end);
    assert_eq!(turns.lease("ma", end).await, 0);
}

/// A lease that was made before the leave was known is ended too.
#[tokio::test]
async fn a_leave_begins_while_he_is_on() {
    let (world, console) = nine_to_six().await;
    let mut turns = Turns::of(&world, 0);
    let at = ms(MONDAY) + 10 * HOUR;
    assert_eq!(turns.lease("ma", at).await, at + LEASE);
    let (from, to) = (at + 30_000, at + 2 * HOUR);
    let leave = json!({"from": text(from), "to": text(to), "reason": "doctor"});
    console.post("/members/mA/leaves", leave).await.ok();
    assert_eq!(turns.lease("ma", at + 1_000).await, from);
    assert_eq!(turns.lease("ma", from).await, 0);
    assert_eq!(turns.turn(to - 1_000).await, to);
    assert_eq!(turns.lease("ma", to).await, to + LEASE);
}

#[tokio::test]
async fn a_pause_stands_until_its_end_and_a_changed_schedule_counts_at_once() {
    let (world, console) = nine_to_six().await;
    let mut turns = Turns::of(&world, 0);
    let at = ms(MONDAY) + 10 * HOUR;
    assert_eq!(turns.lease("ma", at).await, at + LEASE);
    let until = json!({"until": text(at + HOUR), "reason": "lunch"});
    console.post("/members/mA/presence/off", until).await.ok();
    assert_eq!(turns.lease("ma", at + 1_000).await, 0);
    assert_eq!(turns.turn(at + HOUR - 1_000).await, at + HOUR);
    let back = at + HOUR;
    assert_eq!(turns.lease("ma", back).await, back + LEASE);
    console
        .post("/members/mA/presence/off", json!({}))
        .await
        .ok();
    assert_eq!(turns.lease("ma", back + 24 * HOUR).await, 0);
    console
        .post("/members/mA/presence/on", json!({}))
        .await
        .ok();
    assert_eq!(
        turns.lease("ma", back + 25 * HOUR).await,
        back + 25 * HOUR + LEASE
    );
    // The day is a holiday after all; the process finds out by itself.
    let days = json!([{"date": "2027-01-05", "hours": []}]);
    let calendar = json!({"name": "holidays", "days": days});
    console.put("/calendars/cn", calendar).await.ok();
    let body = json!({"name": "days", "zone": "Asia/Shanghai", "weekly": weekly(WORKDAYS, "09:00", "18:00"),
        "calendars": ["cn"]});
    console.put("/schedules/days", body).await.ok();
    assert_eq!(turns.lease("ma", back + 25 * HOUR + 1_000).await, 0);
    world.written().await;
    let mut turned = console.all("/audit?action=presence.put").await;
    // What operators say is heeded by the program's own clock, by which it may be one of his hours.
    turned.retain(|entry| {
        entry["after"][0]["why"] != "within_hours" || entry["at"].as_str().unwrap() >= MONDAY
    });
    // Times of the test and of the program are mixed in their order.
    let count = |online: bool, why: &str| {
        let is_it = |entry: &&Value| {
            entry["after"] == json!([{"member": "mA", "online": online, "why": why}])
        };
        turned.iter().filter(is_it).count()
    };
    assert_eq!(count(true, "within_hours"), 3, "{turned:?}");
    assert_eq!(count(false, "paused"), 2, "{turned:?}");
    assert_eq!(count(false, "outside_hours"), 1, "{turned:?}");
    assert_eq!(turned.len(), 6);
}

/// However many there are, one lease is sent.
#[tokio::test]
async fn two_allocators_send_one_lease() {
    let world = World::with(2, Options::default()).await;
    let console = world.operator().await;
    with_schedule(&console, "mA", "always", always()).await;
    let (mut one, mut other) = (Turns::of(&world, 0), Turns::of(&world, 1));
    let at = ms(MONDAY);
    assert_eq!(one.sent(at).await, 1);
    assert_eq!(other.sent(at).await, 0);
    for n in 1..30u64 {
        let at = at + n * 20_000;
        let sent = one.sent(at).await + other.sent(at + 100).await;
        assert!(sent <= 1, "{sent}");
        assert!(lease_at(&one.corp, "ma", at).await > at);
    }
    // At the same moment both may; the state is the same.
    let at = at + HOUR;
    let (left, right) = tokio::join!(one.turn(at), other.turn(at));
    assert_eq!(left, right);
    assert_eq!(lease_at(&one.corp, "ma", at).await, at + LEASE);
    // What was told to one counts for the other.
    console
        .post("/members/mA/presence/off", json!({}))
        .await
        .ok();
    assert_eq!(other.lease("ma", at + 1_000).await, 0);
    let heartbeat = json!({"online": true});
    let second = world.at(1, console.key.as_deref().unwrap());
    let refused = second.put("/presence/mA", heartbeat).await.refused();
    assert_eq!(refused, (409, "paused".to_owned()));
}

/// The loops themselves, with short leases: one allocator is killed and the other goes on; both are, and he is off.
#[tokio::test]
async fn an_allocator_is_killed() {
    let options = Options {
        config: "[hours]\nrenew_every_ms = 300\nlease_ms = 1500".to_owned(),
        ..Options::default()
    };
    let world = World::with(2, options).await;
    let console = world.operator().await;
    let loops = [0, 1].map(|node| {
        let app = Arc::clone(world.app_at(node));
        let corp = Arc::clone(&app.corps[&world.corp]);
        tokio::spawn(hours::run(app, corp, world.stop()))
    });
    with_schedule(&console, "mA", "always", always()).await;
    let (app, corp) = (world.app(), world.corp_app());
    let end = eventually("he is on", async || {
        Some(lease_at(corp, "ma", app.now_ms()).await).filter(|end| *end > 0)
    })
    .await;
    loops[0].abort();
    eventually("the other goes on", async || {
        let now = lease_at(corp, "ma", app.now_ms()).await;
        assert!(now > 0, "he was off in between");
        (now > end + 4_000).then_some(())
    })
    .await;
    loops[1].abort();
    eventually("nobody renews it", async || {
        (lease_at(corp, "ma", app.now_ms()).await == 0).then_some(())
    })
    .await;
}

/// After a rebuild everybody is off; the next turn does not wait for its time.
#[tokio::test]
async fn who_is_on_by_his_hours_comes_back_after_a_rebuild() {
    let world = World::new().await;
    let console = world.operator().await;
    with_schedule(&console, "mA", "always", always()).await;
    let mut turns = Turns::of(&world, 0);
    let at = ms(MONDAY);
    assert_eq!(turns.lease("ma", at).await, at + LEASE);
    world.written().await;
    let wanted = guard::Wanted::default();
    guard::rebuild(&turns.app, &turns.corp, wanted)
        .await
        .unwrap();
    assert_eq!(lease_at(&turns.corp, "ma", at).await, 0);
    assert_eq!(turns.lease("ma", at + 1_000).await, at + 1_000 + LEASE);
    // A closed corp is waited for.
    let row = turns.app.ledger.corps().get(&world.corp).await.unwrap();
    let generation = row.unwrap().generation + 1;
    turns.corp.roster.begin_rebuild(generation).await.unwrap();
    let closed = hours::turn(&turns.app, &turns.corp, &mut turns.last, Some(at + 2_000)).await;
    assert!(closed.is_err());
}

/// Deciding goes on without Postgres, and who is on stays on.
#[tokio::test]
async fn postgres_goes_away() {
    let (world, _) = nine_to_six().await;
    let app = world.process(clock::system()).await;
    let mut turns = Turns::new(app, &world);
    let opens = ms(MONDAY) + 9 * HOUR;
    assert_eq!(turns.lease("ma", opens - HOUR).await, 0);
    // Something that was said just before is no reason to wait for it.
    let hours = turns.app.ledger.hours();
    let ma = MemberId::new("ma").unwrap();
    let known = hours.get(&world.corp, &ma, opens).await.unwrap().unwrap();
    hours::tell(&turns.app, &turns.corp, &known).await;
    turns.app.ledger.close().await;
    assert_eq!(turns.lease("ma", opens).await, opens + LEASE);
    assert_eq!(
        turns.lease("ma", opens + 60_000).await,
        opens + 60_000 + LEASE
    );
    assert_eq!(turns.lease("ma", opens + 9 * HOUR).await, 0);
}

/// A schedule that cannot be read keeps its members off, and nobody else.
#[tokio::test]
async fn a_damaged_schedule_never_opens() {
    let world = World::new().await;
    let console = world.operator().await;
    with_schedule(&console, "mA", "broken", always()).await;
    with_schedule(&console, "mB", "whole", always()).await;
    world
        .sql("UPDATE schedules SET zone = 'Mars/Olympus', version = version + 1 WHERE schedule_id = 'broken'")
        .await;
    let mut turns = Turns::of(&world, 0);
    let at = ms(MONDAY);
    assert_eq!(turns.lease("ma", at).await, 0);
    assert_eq!(turns.lease("mb", at).await, at + LEASE);
    let shown = console.get("/schedules/broken").await.ok();
    assert!(shown["open"].is_null(), "{shown}");
}

/// WeCom says that he left: he is off at once and stays off, whatever his hours say.
#[tokio::test]
async fn who_left_the_company_is_off_for_good() {
    let stage = Stage::new(1).await;
    let world = &stage.world;
    let console = world.operator().await;
    with_schedule(&console, "m0", "always", always()).await;
    let mut turns = Turns::of(world, 0);
    let at = ms(MONDAY);
    assert_eq!(turns.lease("m0", at).await, at + LEASE);
    let left = json!({"status": 5});
    let corp = Some(world.corp.as_str());
    stage.sim.patch_member(corp, "m0", &left).unwrap();
    let inbox = &turns.corp.inbox;
    let now_ms = turns.app.now_ms();
    inbox.dirty_mark(dirty::MEMBER, "m0", now_ms).await.unwrap();
    reread::turn(&turns.app, &turns.corp).await.unwrap();
    let blocked = console.get("/members/m0").await.ok()["blocked"].clone();
    assert_eq!(blocked, "left_or_not_visible");
    for hours in 0..3 {
        let at = at + 1_000 + hours * HOUR;
        assert_eq!(turns.lease("m0", at).await, 0);
    }
    for body in [json!({}), json!({"until": text(now_ms + HOUR)})] {
        let on = console.post("/members/m0/presence/on", body).await;
        assert_eq!(on.refused(), (409, "blocked".to_owned()));
    }
    let standing = console.get("/members/m0/presence").await.ok();
    assert_eq!(
        (&standing["why"], &standing["reason"]),
        (&json!("blocked"), &blocked)
    );
}

/// No event told that he left, and the app cannot see him; but WeCom lists his customers as those of one who left.
#[tokio::test]
async fn who_is_listed_as_left_is_treated_so() {
    let stage = Stage::new(2).await;
    let world = &stage.world;
    let console = world.operator().await;
    for member in ["M0", "m1"] {
        with_schedule(&console, member, "always", always()).await;
    }
    let (app, corp) = (world.app(), world.corp_app());
    stage.sim.scan(&ScanRequest::member("m0", "s")).unwrap();
    assert_eq!(audit::unassigned(app, corp).await.unwrap(), 0);
    let left = json!({"status": 5});
    let patched = stage
        .sim
        .patch_member(Some(world.corp.as_str()), "m0", &left);
    patched.unwrap();
    let unseen = Fault::new(api::GET_USER, Act::Errcode(60_011));
    stage.sim.add_fault(unseen).unwrap();
    assert_eq!(audit::unassigned(app, corp).await.unwrap(), 1);
    let blocked = async || console.get("/members/m0").await.ok()["blocked"].clone();
    assert_eq!(blocked().await, "left_or_not_visible");
    assert!(console.get("/members/m1").await.ok()["blocked"].is_null());
    let mut turns = Turns::of(world, 0);
    let at = ms(MONDAY);
    assert_eq!(turns.lease("m0", at).await, 0);
    assert_eq!(turns.lease("m1", at).await, at + LEASE);
    // Once is enough, and a later look without the list does not say otherwise.
    assert_eq!(audit::unassigned(app, corp).await.unwrap(), 0);
    corp.inbox.dirty_mark(dirty::MEMBER, "m0", 0).await.unwrap();
    reread::turn(app, corp).await.unwrap();
    assert_eq!(blocked().await, "left_or_not_visible");
    // Whoever came back under his old userid is not taken for gone.
    stage.sim.clear_faults();
    let back = json!({"status": 1});
    let patched = stage
        .sim
        .patch_member(Some(world.corp.as_str()), "m0", &back);
    patched.unwrap();
    corp.inbox.dirty_mark(dirty::MEMBER, "m0", 0).await.unwrap();
    reread::turn(app, corp).await.unwrap();
    assert!(blocked().await.is_null());
    assert_eq!(turns.lease("m0", at + 1_000).await, at + 1_000 + LEASE);
}
