//! Who can do what, tiers and backup pools, earlier members, slow hand-out and long waits: through the API and the tasks.

use std::{collections::BTreeSet, sync::Arc};

use allocation::{AllocationId, MemberId, PoolId, PresenceChange, SubjectKey};
use allocator::{
    decide, guard, people,
    reception::{advance, alerts, drip, plans},
};
use futures_util::future::join_all;
use ledger::{AllocationState, NewMember, Precondition, Trail};
use serde_json::{Value, json};
use sqlx::Connection;
use uuid::Uuid;

use crate::{
    api_deliveries::added,
    api_support::{Console, Options, World},
    decide::read,
    lane_stage::Forward,
};

const SECOND: u64 = 1_000;

fn member(name: &str) -> MemberId {
    MemberId::new(name).unwrap()
}

/// A time that the tests pass in must come after the clocks of the stores.
fn after(world: &World, seconds: u64) -> u64 {
    world.app().now_ms() + seconds * SECOND
}

/// A member who can do this and is on for an hour.
async fn person(console: &Console, name: &str, more: Value) {
    console.put(&format!("/members/{name}"), more).await.ok();
    console.on(&[name]).await;
}

async fn off(world: &World, names: &[&str]) {
    let change = |name: &&str| PresenceChange {
        member: member(name),
        lease_until_ms: 0,
    };
    let changes = names.iter().map(change).collect();
    let roster = &world.corp_app().roster;
    roster.presence(changes, "", None).await.unwrap();
}

async fn pool(console: &Console, id: &str, members: &[&str], more: Value) {
    let members = members
        .iter()
        .map(|name| json!({"member": name, "weight": 1}));
    let mut body = json!({"name": id, "members": members.collect::<Value>()});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    console.put(&format!("/pools/{id}"), body).await.ok();
}

async fn channel(console: &Console, id: &str, pool: &str, needs: &[&str]) {
    let body = json!({"name": id, "pool": pool, "states": [id], "needs": needs});
    console.put(&format!("/channels/{id}"), body).await.ok();
}

async fn ask(console: &Console, customer: &str, more: Value) -> Value {
    let mut body = json!({"subject": {"kind": "wecom", "id": customer}});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    console.post("/allocations", body).await.ok()
}

async fn to(console: &Console, customer: &str, pool: &str) -> Value {
    ask(console, customer, json!({"pool": pool})).await["member"].clone()
}

impl World {
    /// Plans go on that are due so long after now.
    async fn advances(&self, seconds: u64) -> usize {
        let at_ms = Some(after(self, seconds));
        let turn = advance::turn_at(self.app(), self.corp_app(), at_ms).await;
        let advanced = turn.unwrap().advanced;
        self.written().await;
        advanced
    }

    async fn row(&self, asked: &Value) -> ledger::Allocation {
        self.written().await;
        let id: Uuid = asked["allocation_id"].as_str().unwrap().parse().unwrap();
        let rows = self.app().ledger.allocations();
        rows.get(&self.corp, AllocationId(id))
            .await
            .unwrap()
            .unwrap()
    }

    async fn member_of(&self, asked: &Value) -> Option<String> {
        let row = self.row(asked).await;
        row.member.map(String::from)
    }

    async fn close(&self, console: &Console, asked: &Value) {
        self.written().await;
        let id = asked["allocation_id"].as_str().unwrap();
        let body = json!({"reason": "done"});
        console
            .post(&format!("/allocations/{id}/close"), body)
            .await
            .ok();
        self.written().await;
    }
}

async fn english() -> (World, Console) {
    let world = World::new().await;
    let console = world.operator().await;
    person(&console, "mA", json!({"skills": ["lang:en"]})).await;
    person(&console, "mB", json!({})).await;
    pool(&console, "sales", &["mA", "mB"], json!({})).await;
    channel(&console, "english", "sales", &["lang:en"]).await;
    (world, console)
}

#[tokio::test]
async fn only_who_speaks_english_gets_who_needs_it() {
    let (world, console) = english().await;
    let mut last = Value::Null;
    for n in 0..4 {
        let by_channel = json!({"channel": "english"});
        last = ask(&console, &format!("wmC{n}"), by_channel).await;
        assert_eq!(last["member"], "mA");
    }
    // Nobody is owed those whom he could not have served: the others are shared as before.
    let mut others = Vec::new();
    for n in 0..2 {
        others.push(to(&console, &format!("wmD0{n}"), "sales").await);
    }
    others.sort_by_key(Value::to_string);
    assert_eq!(others, [json!("mA"), json!("mB")]);
    // Asked for by the request alone it is the same.
    let needs = json!({"pool": "sales", "needs": ["LANG:en"]});
    assert_eq!(ask(&console, "wmD1", needs).await["member"], "mA");
    let more = json!({"channel": "english", "needs": ["vip"]});
    assert_eq!(ask(&console, "wmD2", more).await["decision"], "waiting");
    let batch = read(&world, &[added("wmE1", "english")]).await;
    decide::decide(world.app(), world.corp_app(), &batch, false)
        .await
        .unwrap();
    world.written().await;
    let subject = SubjectKey::new(&world.corp, "wecom", "wmE1");
    let rows = world.app().ledger.allocations();
    let rows = rows.of_subject(&world.corp, &subject).await.unwrap();
    assert_eq!(rows[0].member, Some(member("ma")));

    let id = last["allocation_id"].as_str().unwrap();
    let why = console
        .get(&format!("/allocations/{id}/explanation"))
        .await
        .ok();
    let decision = &why["decisions"][0];
    assert_eq!(decision["operation"], "decide.2");
    assert_eq!(decision["needs"], json!(["lang:en"]));
    assert!(decision["source"].is_null());
    let filters = decision["candidates"].as_array().unwrap().iter();
    let filters: Vec<_> = filters.map(|one| one["filter"].clone()).collect();
    assert_eq!(filters, [Value::Null, json!("skills")]);
    let shortfall = console.get("/members/mB/shortfall").await.ok();
    assert_eq!(
        shortfall["pools"][0]["kept_out"]["skills"], 6,
        "{shortfall}"
    );
    world.check().await;
}

#[tokio::test]
async fn who_learns_it_gets_who_waits_for_it() {
    let (world, console) = english().await;
    off(&world, &["ma"]).await;
    let waits = ask(&console, "wmC1", json!({"channel": "english"})).await;
    assert_eq!(waits["decision"], "waiting");
    // It holds up nobody who does not need it.
    assert_eq!(to(&console, "wmC2", "sales").await, "mB");
    person(&console, "mB", json!({"skills": ["lang:en"]})).await;
    assert_eq!(world.member_of(&waits).await.as_deref(), Some("mb"));
    // Unlearned.
    person(&console, "mB", json!({})).await;
    let waits = ask(&console, "wmC3", json!({"channel": "english"})).await;
    assert_eq!(waits["decision"], "waiting");
    world.check().await;
}

/// Written by a process that died before it could tell Redis.
#[tokio::test]
async fn skills_that_were_not_told_are_told_by_the_comparison() {
    let (world, console) = english().await;
    let app = world.app();
    let new = NewMember {
        userid: "mB".to_owned(),
        skills: ["lang:en".parse().unwrap()].into(),
        ..NewMember::default()
    };
    let (mb, trail) = (member("mb"), Trail::system(app.now_ms(), "test"));
    let members = app.ledger.members();
    let put = members.put(&world.corp, &mb, &new, Precondition::None, &trail);
    put.await.unwrap();
    assert_eq!((world.sync().await, world.sync().await), (1, 0));
    off(&world, &["ma"]).await;
    let asked = ask(&console, "wmC1", json!({"channel": "english"})).await;
    assert_eq!(asked["member"], "mB");
    // Made anew of the log, and of the rows: both know it, or are told.
    for from_rows in [false, true] {
        let wanted = guard::Wanted {
            from_rows,
            ..guard::Wanted::default()
        };
        guard::rebuild(app, world.corp_app(), wanted).await.unwrap();
        world.sync().await;
        let roster = &world.corp_app().roster;
        let skills = roster.skills(&[member("ma"), member("mb")]).await.unwrap();
        assert!(skills.iter().all(|skills| skills.len() == 1), "{skills:?}");
        assert_eq!(world.sync().await, 0);
    }
}

#[tokio::test]
async fn a_skill_is_done_without_after_the_wait() {
    let (world, console) = english().await;
    let relax = json!([{"skill": "lang:en", "after_seconds": 60}]);
    pool(&console, "sales", &["mA", "mB"], json!({"relax": relax})).await;
    off(&world, &["ma"]).await;
    let waits = ask(&console, "wmC1", json!({"channel": "english"})).await;
    assert_eq!(waits["decision"], "waiting");
    assert_eq!(world.advances(50).await, 0);
    assert_eq!(world.row(&waits).await.state, AllocationState::Waiting);
    assert_eq!(world.advances(61).await, 1);
    assert_eq!(world.member_of(&waits).await.as_deref(), Some("mb"));
    assert_eq!(world.advances(3_000).await, 0);
    world.check().await;
}

#[tokio::test]
async fn the_second_tier_serves_when_the_first_is_full() {
    let world = World::new().await;
    let console = world.operator().await;
    person(&console, "mA", json!({"cap": 1})).await;
    person(&console, "mB", json!({})).await;
    pool(&console, "tier2", &["mB"], json!({})).await;
    let fallbacks = json!([{"pool": "tier2"}]);
    pool(&console, "tier1", &["mA"], json!({"fallbacks": fallbacks})).await;
    let first = ask(&console, "wmC1", json!({"pool": "tier1"})).await;
    let second = ask(&console, "wmC2", json!({"pool": "tier1"})).await;
    assert_eq!(
        (&first["member"], &second["member"]),
        (&json!("mA"), &json!("mB"))
    );
    assert_eq!(second["pool"], "tier1");
    let row = world.row(&second).await;
    assert_eq!(row.pool, PoolId::new("tier1").unwrap());
    let id = second["allocation_id"].as_str().unwrap();
    let why = console
        .get(&format!("/allocations/{id}/explanation"))
        .await
        .ok();
    assert_eq!(why["decisions"][0]["source"], "tier2");
    assert_eq!(why["decisions"][0]["pool"], "tier1");
    // A place in the first is used again.
    world.close(&console, &first).await;
    assert_eq!(to(&console, "wmC3", "tier1").await, "mA");
    world.check().await;
}

/// Case 60: nobody has hours now. Customers wait, somebody is warned, then the backup serves.
#[tokio::test]
async fn nobody_is_there_then_an_alert_then_the_backup() {
    let world = World::new().await;
    let console = world.operator().await;
    console.put("/members/mA", json!({})).await.ok();
    person(&console, "mB", json!({})).await;
    pool(&console, "backup", &["mB"], json!({})).await;
    let more =
        json!({"alert_after_seconds": 30, "fallbacks": [{"pool": "backup", "after_seconds": 60}]});
    pool(&console, "sales", &["mA"], more).await;
    let waits = ask(&console, "wmC1", json!({"pool": "sales"})).await;
    assert_eq!(waits["decision"], "waiting");
    world.written().await;
    let waiting = async || console.get("/pools/sales/waiting").await.ok();
    let seen = waiting().await;
    assert_eq!(
        (&seen["waiting"], &seen["too_long"]),
        (&json!(1), &json!(0))
    );
    assert!(seen["oldest_since"].is_string(), "{seen}");
    // The same process half a minute later.
    let later = world.process(Arc::new(Forward(30_000.into()))).await;
    let corp = Arc::clone(later.corps.values().next().unwrap());
    people::refresh(&later, &corp).await.unwrap();
    let mut seen = alerts::Seen::default();
    assert_eq!(
        alerts::turn(&later, &corp, &mut seen).await.unwrap(),
        [PoolId::new("sales").unwrap()]
    );
    assert_eq!(alerts::turn(&later, &corp, &mut seen).await.unwrap(), []);
    let mut others = alerts::Seen::default();
    let now = alerts::turn(world.app(), world.corp_app(), &mut others);
    assert_eq!(now.await.unwrap(), []);
    assert_eq!(world.advances(61).await, 1);
    assert_eq!(world.member_of(&waits).await.as_deref(), Some("mb"));
    assert_eq!(waiting().await["waiting"], 0);
    assert_eq!(alerts::turn(&later, &corp, &mut seen).await.unwrap(), []);
    world.check().await;
}

#[tokio::test]
async fn a_fallback_that_is_gone_by_then_is_passed_over() {
    let world = World::new().await;
    let console = world.operator().await;
    console.put("/members/mA", json!({})).await.ok();
    for (id, name) in [("backup", "mB"), ("last", "mC")] {
        person(&console, name, json!({})).await;
        pool(&console, id, &[name], json!({})).await;
    }
    let fallbacks =
        json!([{"pool": "backup", "after_seconds": 60}, {"pool": "last", "after_seconds": 120}]);
    pool(&console, "sales", &["mA"], json!({"fallbacks": fallbacks})).await;
    let waits = ask(&console, "wmC1", json!({"pool": "sales"})).await;
    pool(&console, "sales", &["mA"], json!({})).await;
    console.delete("/pools/backup").await.ok();
    assert_eq!(world.advances(61).await, 1);
    assert_eq!(world.row(&waits).await.state, AllocationState::Waiting);
    assert_eq!(world.advances(121).await, 1);
    assert_eq!(world.member_of(&waits).await.as_deref(), Some("mc"));
    // Who comes now is served by what the pool says now.
    let now = ask(&console, "wmC2", json!({"pool": "sales"})).await;
    assert_eq!(now["decision"], "waiting");
    assert_eq!(world.advances(9_000).await, 0);
    world.check().await;
}

/// Redis is wiped, or the log cannot be folded, in the middle of a wait.
#[tokio::test]
async fn a_plan_goes_on_after_the_state_was_made_anew() {
    for from_rows in [false, true] {
        let (world, console) = english().await;
        let more = json!({
            "relax": [{"skill": "lang:en", "after_seconds": 60}],
            "person_after_seconds": 600,
        });
        pool(&console, "sales", &["mA", "mB"], more).await;
        off(&world, &["ma", "mb"]).await;
        let waits = ask(&console, "wmC1", json!({"channel": "english"})).await;
        let stays = ask(&console, "wmC2", json!({"pool": "sales", "needs": ["vip"]})).await;
        world.written().await;
        let wanted = guard::Wanted {
            from_rows,
            ..guard::Wanted::default()
        };
        guard::rebuild(world.app(), world.corp_app(), wanted)
            .await
            .unwrap();
        world.sync().await;
        console.on(&["mB"]).await;
        assert_eq!(world.row(&waits).await.state, AllocationState::Waiting);
        assert_eq!(world.advances(50).await, 0);
        assert_eq!(world.advances(61).await, 1);
        assert_eq!(world.member_of(&waits).await.as_deref(), Some("mb"));
        assert_eq!(world.advances(601).await, 1);
        assert_eq!(world.row(&stays).await.state, AllocationState::Undecided);
        world.check().await;
    }
}

/// Whoever serves for another pool bears its load there, also in a state that was made of rows.
#[tokio::test]
async fn what_a_fallback_serves_is_counted_there_after_a_rebuild_of_rows() {
    let world = World::new().await;
    let console = world.operator().await;
    console.put("/members/mA", json!({})).await.ok();
    person(&console, "mB", json!({})).await;
    let limited = json!([{"member": "mB", "weight": 1, "cap": 1}]);
    let body = json!({"name": "backup", "members": limited});
    console.put("/pools/backup", body).await.ok();
    let fallbacks = json!([{"pool": "backup"}]);
    pool(&console, "sales", &["mA"], json!({"fallbacks": fallbacks})).await;
    assert_eq!(to(&console, "wmC1", "sales").await, "mB");
    world.written().await;
    let wanted = guard::Wanted {
        from_rows: true,
        ..guard::Wanted::default()
    };
    guard::rebuild(world.app(), world.corp_app(), wanted)
        .await
        .unwrap();
    world.sync().await;
    console.on(&["mB"]).await;
    let full = ask(&console, "wmC2", json!({"pool": "backup"})).await;
    assert_eq!(full["decision"], "waiting");
    world.check().await;
}

#[tokio::test]
async fn whoever_had_a_customer_gets_him_again() {
    let world = World::new().await;
    let console = world.operator().await;
    for name in ["mA", "mB", "mC"] {
        person(&console, name, json!({})).await;
    }
    let sticky = json!({"sticky": {"days": 30}});
    pool(&console, "sales", &["mA", "mB", "mC"], sticky).await;
    let first = ask(&console, "wmC1", json!({"pool": "sales"})).await;
    let owner = first["member"].as_str().unwrap().to_owned();
    for n in 0..3 {
        let asked = ask(&console, "wmC1", json!({"pool": "sales"})).await;
        assert_eq!(asked["member"], owner);
        if n == 1 {
            let id = asked["allocation_id"].as_str().unwrap();
            world.written().await;
            let why = console
                .get(&format!("/allocations/{id}/explanation"))
                .await
                .ok();
            assert_eq!(why["decisions"][0]["rules"], json!(["preferred"]));
        }
        world.close(&console, &asked).await;
    }
    // Whoever is asked for comes first.
    let other = if owner == "mC" { "mA" } else { "mC" };
    let prefer = json!({"pool": "sales", "prefer": other});
    let asked = ask(&console, "wmC1", prefer).await;
    assert_eq!(asked["member"], other);
    world.close(&console, &asked).await;
    // Now that one is the owner; he is off, so whoever is next.
    off(&world, &[&other.to_lowercase()]).await;
    let next = ask(&console, "wmC1", json!({"pool": "sales"})).await;
    assert_ne!(next["member"], other);
    assert_eq!(next["decision"], "assigned");
    world.check().await;
}

#[tokio::test]
async fn a_callback_brings_a_customer_back_to_his_member() {
    let world = World::new().await;
    let console = world.operator().await;
    for name in ["mA", "mB"] {
        person(&console, name, json!({})).await;
    }
    pool(
        &console,
        "sales",
        &["mA", "mB"],
        json!({"sticky": {"days": 30}}),
    )
    .await;
    channel(&console, "poster", "sales", &[]).await;
    let names: Vec<String> = (0..6).map(|n| format!("wmC{n}")).collect();
    let mut owners = Vec::new();
    for name in &names {
        let asked = ask(&console, name, json!({"pool": "sales"})).await;
        owners.push(asked["member"].as_str().unwrap().to_lowercase());
        world.close(&console, &asked).await;
    }
    assert_eq!(owners.iter().collect::<BTreeSet<_>>().len(), 2);
    // All in one batch, in another order: whoever is next makes no difference.
    let events: Vec<String> = names
        .iter()
        .rev()
        .map(|name| added(name, "poster"))
        .collect();
    let batch = read(&world, &events).await;
    decide::decide(world.app(), world.corp_app(), &batch, false)
        .await
        .unwrap();
    world.written().await;
    for (name, owner) in names.iter().zip(owners) {
        let subject = SubjectKey::new(&world.corp, "wecom", name);
        let rows = world.app().ledger.allocations();
        let open = rows.open_of(&world.corp, &subject).await.unwrap();
        assert_eq!(open[0].member, Some(member(&owner)));
    }
}

#[tokio::test]
async fn a_customer_of_nobody_always_comes_to_the_same() {
    let world = World::new().await;
    let console = world.operator().await;
    let names = ["mA", "mB", "mC", "mD"];
    for name in names {
        person(&console, name, json!({})).await;
    }
    let sticky = json!({"sticky": {"days": 1, "otherwise": "rendezvous"}});
    pool(&console, "sales", &names, sticky).await;
    let members: Vec<MemberId> = names.iter().map(|name| member(name)).collect();
    for n in 0..12 {
        let customer = format!("wmC{n}");
        let subject = SubjectKey::new(&world.corp, "wecom", &customer);
        let one = "1".parse().unwrap();
        let all = members.iter().map(|member| (member, one));
        let first = plans::rendezvous(subject, all, 2);
        let asked = ask(&console, &customer, json!({"pool": "sales"})).await;
        let got = asked["member"].as_str().unwrap().to_lowercase();
        assert_eq!(got, first[0].as_str());
    }
    // The first is off: the second.
    off(&world, &["ma"]).await;
    for n in 20..40 {
        let customer = format!("wmC{n}");
        let subject = SubjectKey::new(&world.corp, "wecom", &customer);
        let one = "1".parse().unwrap();
        let there = members[1..].iter().map(|member| (member, one));
        let first = plans::rendezvous(subject, there, 1);
        let got = to(&console, &customer, "sales").await;
        assert_eq!(got.as_str().unwrap().to_lowercase(), first[0].as_str());
    }
    world.check().await;
}

/// The ledger does not answer: nobody waits for it for longer than a moment, and whoever is next gets the customer.
#[tokio::test]
async fn who_had_a_customer_is_not_waited_for() {
    let world = World::new().await;
    let console = world.operator().await;
    for name in ["mA", "mB"] {
        person(&console, name, json!({})).await;
    }
    pool(
        &console,
        "sales",
        &["mA", "mB"],
        json!({"sticky": {"days": 30}}),
    )
    .await;
    let first = ask(&console, "wmC1", json!({"pool": "sales"})).await;
    world.close(&console, &first).await;
    let next = ask(&console, "wmC2", json!({"pool": "sales"})).await;
    assert_ne!(first["member"], next["member"]);
    let mut outside = world.database.connect().await;
    let mut held = outside.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE allocations IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *held)
        .await
        .unwrap();
    // Both: the second does not even look.
    for customer in ["wmC3", "wmC4"] {
        let asked = ask(&console, customer, json!({"pool": "sales"})).await;
        assert_eq!(asked["decision"], "assigned");
    }
    held.rollback().await.unwrap();
    world.check().await;
}

/// The first who comes in the morning does not get the whole night.
#[tokio::test]
async fn the_night_is_handed_out_slowly() {
    let world = World::new().await;
    let console = world.operator().await;
    for name in ["mA", "mB"] {
        console
            .put(&format!("/members/{name}"), json!({}))
            .await
            .ok();
    }
    pool(
        &console,
        "sales",
        &["mA", "mB"],
        json!({"drip_seconds": 60}),
    )
    .await;
    let mut night = Vec::new();
    for n in 0..8 {
        night.push(ask(&console, &format!("wmC{n}"), json!({"pool": "sales"})).await);
    }
    let mut quiet = drip::Quiet::default();
    let mut hands = async |seconds| {
        let at_ms = Some(after(&world, seconds));
        let (app, corp) = (world.app(), world.corp_app());
        drip::turn_at(app, corp, &mut quiet, at_ms).await.unwrap()
    };
    let given = async || {
        world.written().await;
        console
            .all("/allocations?state=open&pool=sales")
            .await
            .len()
    };
    // Nobody is there: it is not tried again and again.
    let entries = async || world.corp_app().roster.status().await.unwrap().seq;
    hands(0).await;
    let before = entries().await;
    assert_eq!(hands(1).await, None);
    assert_eq!(entries().await, before);
    console.on(&["mA"]).await;
    assert_eq!(given().await, 1);
    let next_ms = hands(10).await.unwrap();
    assert!(next_ms > after(&world, 50) && next_ms < after(&world, 61));
    assert_eq!(given().await, 1);
    // Nobody overtakes them.
    assert_eq!(to(&console, "wmLate", "sales").await, Value::Null);
    hands(61).await;
    assert_eq!(given().await, 2);
    // Two are there: twice as fast.
    console.on(&["mB"]).await;
    for (n, seconds) in [122, 153, 184, 215].into_iter().enumerate() {
        hands(seconds).await;
        assert_eq!(given().await, 3 + n);
    }
    let loads = console.all("/members").await;
    let loads: BTreeSet<u64> = loads
        .iter()
        .map(|member| member["state"]["load"].as_u64().unwrap())
        .collect();
    // Two of one alone, then they took turns.
    assert_eq!(loads, BTreeSet::from([2, 4]));
    // In the order in which they came.
    for (n, asked) in night.iter().enumerate() {
        assert_eq!(world.member_of(asked).await.is_some(), n < 6);
    }
    world.check().await;
}

#[tokio::test]
async fn who_waits_too_long_is_for_a_person_to_decide() {
    let world = World::new().await;
    let console = world.operator().await;
    console.put("/members/mA", json!({})).await.ok();
    pool(
        &console,
        "sales",
        &["mA"],
        json!({"person_after_seconds": 60}),
    )
    .await;
    let waits = ask(&console, "wmC1", json!({"pool": "sales"})).await;
    assert_eq!(world.advances(50).await, 0);
    assert_eq!(world.advances(61).await, 1);
    let row = world.row(&waits).await;
    assert_eq!((row.state, row.member), (AllocationState::Undecided, None));
    let listed = console.all("/allocations?state=undecided").await;
    assert_eq!(listed.len(), 1);
    // Whoever comes on does not get him any more.
    console.on(&["mA"]).await;
    assert_eq!(world.row(&waits).await.member, None);
    assert_eq!(console.get("/pools/sales/waiting").await.ok()["waiting"], 0);
    let id = waits["allocation_id"].as_str().unwrap();
    let body = json!({"to": "mA", "expect_epoch": 0});
    console
        .post(&format!("/allocations/{id}/reassign"), body)
        .await
        .ok();
    assert_eq!(world.member_of(&waits).await.as_deref(), Some("ma"));
    world.check().await;
}

/// Case 79: sixteen whose plans go on, three processes at once, again and again: each step opens once, and each of them is
/// given away once.
#[tokio::test]
async fn three_processes_let_plans_go_on_at_once() {
    let world = World::with(3, Options::default()).await;
    let console = world.operator().await;
    console.put("/members/mA", json!({})).await.ok();
    person(&console, "mB", json!({"cap": 10})).await;
    pool(&console, "backup", &["mB"], json!({})).await;
    let fallbacks = json!([{"pool": "backup", "after_seconds": 60}]);
    let more = json!({"fallbacks": fallbacks, "person_after_seconds": 120});
    pool(&console, "sales", &["mA"], more).await;
    for n in 0..16 {
        let asked = ask(&console, &format!("wmC{n}"), json!({"pool": "sales"})).await;
        assert_eq!(asked["decision"], "waiting");
    }
    let all_at_once = async |seconds| {
        let at_ms = Some(after(&world, seconds));
        let turns = (0..9).map(|n| {
            let node = &world.nodes[n % 3];
            advance::turn_at(&node.app, node.corp(), at_ms)
        });
        let turns = join_all(turns).await.into_iter();
        let advanced: usize = turns.map(|turn| turn.unwrap().advanced).sum();
        world.written().await;
        advanced
    };
    assert_eq!(all_at_once(61).await, 16);
    assert_eq!(console.all("/allocations?state=open").await.len(), 10);
    // Those who are left waited for a person to decide.
    assert_eq!(all_at_once(121).await, 6);
    assert_eq!(console.all("/allocations?state=undecided").await.len(), 6);
    assert_eq!(all_at_once(999).await, 0);
    world.check().await;
}

/// A pool that another process made a moment ago is looked up before its customers are decided without its rules.
#[tokio::test]
async fn a_pool_of_another_process_is_known_at_once() {
    let world = World::with(2, Options::default()).await;
    let console = world.operator().await;
    let there = world.at(1, console.key.as_deref().unwrap());
    console.put("/members/mA", json!({})).await.ok();
    person(&console, "mB", json!({})).await;
    pool(&console, "backup", &["mB"], json!({})).await;
    let fallbacks = json!([{"pool": "backup"}]);
    pool(&console, "sales", &["mA"], json!({"fallbacks": fallbacks})).await;
    assert_eq!(to(&there, "wmC1", "sales").await, "mB");
    channel(&console, "vips", "backup", &["vip"]).await;
    let needs = json!({"channel": "vips"});
    assert_eq!(ask(&there, "wmC2", needs).await["decision"], "waiting");
}

/// A page and a landing page give only members who can do what the channel needs, and those whom the visitor had.
#[tokio::test]
async fn visitors_get_who_can_do_it_and_whom_they_had() {
    let world = World::new().await;
    let console = world.operator().await;
    person(&console, "mA", json!({"skills": ["lang:en", "vip"]})).await;
    person(&console, "mB", json!({"skills": ["lang:en"]})).await;
    person(&console, "mC", json!({})).await;
    pool(
        &console,
        "sales",
        &["mA", "mB", "mC"],
        json!({"sticky": {"days": 30}}),
    )
    .await;
    let page = json!({"name": "x", "pool": "sales", "states": [], "needs": ["lang:en"],
        "visits": {"slots_per_member": 0, "hold_seconds": 3600}});
    console.put("/channels/page", page).await.ok();
    let visit = async |id: &str, more: Value| {
        let mut body = json!({"visitor": {"kind": "openid", "id": id}});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let visited = console.post("/channels/page/visits", body).await.ok();
        world.written().await;
        visited
    };
    let mut got = BTreeSet::new();
    for n in 0..6 {
        let seen = visit(&format!("o{n}"), json!({})).await;
        got.insert(seen["member"].as_str().unwrap().to_owned());
    }
    assert_eq!(got, BTreeSet::from(["mA".to_owned(), "mB".to_owned()]));
    for n in 10..13 {
        let seen = visit(&format!("o{n}"), json!({"needs": ["vip"]})).await;
        assert_eq!(seen["member"], "mA");
    }
    let preferred = visit("o20", json!({"prefer": "MB"})).await;
    assert_eq!(preferred["member"], "mB");
    let id = preferred["allocation_id"].as_str().unwrap();
    console.delete(&format!("/visits/{id}")).await.ok();
    world.written().await;
    // He was shown mB, and is again.
    for _ in 0..2 {
        let again = visit("o20", json!({})).await;
        assert_eq!(again["member"], "mB");
    }
    world.check().await;
}
