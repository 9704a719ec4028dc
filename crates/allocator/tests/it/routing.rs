//! Who can do what, tiers and backup pools, earlier members, slow hand-out and long waits: through the API and the tasks.

use allocation::{AllocationId, MemberId, PoolId, PresenceChange, SubjectKey};
use allocator::{decide, guard, reception::advance};
use ledger::{NewMember, Precondition, Trail};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    api_deliveries::added,
    api_support::{Console, Options, World},
    decide::read,
};

const SECOND: u64 = 1_000;

pub(crate) fn member(name: &str) -> MemberId {
    MemberId::new(name).unwrap()
}

/// A time that the tests pass in must come after the clocks of the stores.
pub(crate) fn after(world: &World, seconds: u64) -> u64 {
    world.app().now_ms() + seconds * SECOND
}

/// A member who can do this and is on for an hour.
pub(crate) async fn person(console: &Console, name: &str, more: Value) {
    console.put(&format!("/members/{name}"), more).await.ok();
    console.on(&[name]).await;
}

pub(crate) async fn off(world: &World, names: &[&str]) {
    let change = |name: &&str| PresenceChange {
        member: member(name),
        lease_until_ms: 0,
    };
    let changes = names.iter().map(change).collect();
    let roster = &world.corp_app().roster;
    roster.presence(changes, "", None).await.unwrap();
}

pub(crate) async fn pool(console: &Console, id: &str, members: &[&str], more: Value) {
    let members = members
        .iter()
        .map(|name| json!({"member": name, "weight": 1}));
    let mut body = json!({"name": id, "members": members.collect::<Value>()});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    console.put(&format!("/pools/{id}"), body).await.ok();
}

pub(crate) async fn channel(console: &Console, id: &str, pool: &str, needs: &[&str]) {
    let body = json!({"name": id, "pool": pool, "states": [id], "needs": needs});
    console.put(&format!("/channels/{id}"), body).await.ok();
}

pub(crate) async fn ask(console: &Console, customer: &str, more: Value) -> Value {
    let mut body = json!({"subject": {"kind": "wecom", "id": customer}});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    console.post("/allocations", body).await.ok()
}

pub(crate) async fn to(console: &Console, customer: &str, pool: &str) -> Value {
    ask(console, customer, json!({"pool": pool})).await["member"].clone()
}

impl World {
    /// Plans go on that are due so long after now.
    pub(crate) async fn advances(&self, seconds: u64) -> usize {
        let at_ms = Some(after(self, seconds));
        let turn = advance::turn_at(self.app(), self.corp_app(), at_ms).await;
        let advanced = turn.unwrap().advanced;
        self.written().await;
        advanced
    }

    pub(crate) async fn row(&self, asked: &Value) -> ledger::Allocation {
        self.written().await;
        let id: Uuid = asked["allocation_id"].as_str().unwrap().parse().unwrap();
        let rows = self.app().ledger.allocations();
        rows.get(&self.corp, AllocationId(id))
            .await
            .unwrap()
            .unwrap()
    }

    pub(crate) async fn member_of(&self, asked: &Value) -> Option<String> {
        let row = self.row(asked).await;
        row.member.map(String::from)
    }

    pub(crate) async fn close(&self, console: &Console, asked: &Value) {
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

pub(crate) async fn english() -> (World, Console) {
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
