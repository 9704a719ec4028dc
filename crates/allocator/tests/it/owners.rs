//! Sticky pools: whoever had a customer gets him again, and of whom nobody had, always the same.

use std::collections::BTreeSet;

use allocation::{MemberId, SubjectKey};
use allocator::{decide, reception::plans};
use serde_json::{Value, json};
use sqlx::Connection;

use crate::{
    api_deliveries::added,
    api_support::{Console, World},
    decide::read,
    routing::{ask, channel, member, off, person, pool, to},
};

/// By which rules it was decided, as its explanation says.
async fn rules(console: &Console, id: impl std::fmt::Display) -> Value {
    let found = console.get(&format!("/allocations/{id}/explanation")).await;
    found.ok()["decisions"][0]["rules"].clone()
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
            assert_eq!(rules(&console, id).await, json!(["earlier_owner"]));
        }
        world.close(&console, &asked).await;
    }
    // Whoever is asked for comes first.
    let other = if owner == "mC" { "mA" } else { "mC" };
    let prefer = json!({"pool": "sales", "prefer": other});
    let asked = ask(&console, "wmC1", prefer).await;
    assert_eq!(asked["member"], other);
    world.written().await;
    let id = asked["allocation_id"].as_str().unwrap();
    assert_eq!(rules(&console, id).await, json!(["asked_for"]));
    // As an earlier version left it.
    sqlx::query("UPDATE allocations SET preferred = NULL")
        .execute(world.app().ledger.pool())
        .await
        .unwrap();
    assert_eq!(rules(&console, id).await, json!(["preferred"]));
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
        assert_eq!(rules(&console, open[0].id).await, json!(["earlier_owner"]));
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
        if n == 0 {
            world.written().await;
            let id = asked["allocation_id"].as_str().unwrap();
            assert_eq!(rules(&console, id).await, json!(["rendezvous"]));
        }
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
    let again = visit("o20", json!({})).await;
    assert_eq!(again["member"], "mB");
    assert_eq!(visit("o20", json!({})).await, again);
    for (seen, why) in [(&preferred, "asked_for"), (&again, "earlier_owner")] {
        let id = seen["allocation_id"].as_str().unwrap();
        assert_eq!(rules(&console, id).await, json!([why]));
    }
    world.check().await;
}
