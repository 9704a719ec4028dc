//! What still names a pool that was deleted: fallbacks, plans, drafts, versions, channels, simulations.

use allocator::api::work;
use futures_util::future::join;
use ledger::AllocationState;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    api_deliveries::ended,
    api_policies::period,
    api_support::{Answer, Console, World},
    routing::{ask, person, pool, to},
};

async fn world() -> (World, Console) {
    let world = World::new().await;
    let console = world.operator().await;
    for (id, name) in [("backup", "mB"), ("sales", "mA")] {
        person(&console, name, json!({})).await;
        pool(&console, id, &[name], json!({})).await;
    }
    (world, console)
}

async fn gone(console: &Console, id: &str) {
    let deleted = console.delete(&format!("/pools/{id}")).await;
    assert_eq!(deleted.status, 204, "{}", deleted.text);
}

fn content(members: &[&str], more: Value) -> Value {
    let members = members.iter();
    let members = members.map(|member| json!({"member": member, "weight": 1}));
    let mut content = json!({"name": "sales", "members": members.collect::<Value>()});
    for (name, value) in more.as_object().unwrap() {
        content[name] = value.clone();
    }
    content
}

async fn draft(console: &Console, content: Value) -> String {
    let made = console.post("/pools/sales/drafts", json!({"content": content}));
    let made = made.await.ok();
    format!("/drafts/{}", made["id"].as_str().unwrap())
}

async fn findings(console: &Console, draft: &str) -> Vec<(String, String)> {
    let found = console.post(&format!("{draft}/validate"), json!({})).await;
    let found = found.ok();
    let errors = found["findings"].as_array().unwrap().iter();
    let errors = errors.filter(|one| one["level"] == "error");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    errors
        .map(|one| (text(&one["pointer"]), text(&one["code"])))
        .collect()
}

async fn simulated(world: &World, console: &Console, begun: &Answer) -> Value {
    assert_eq!(begun.status, 202, "{}", begun.text);
    let stop = CancellationToken::new();
    let turn = work::simulation_turn(world.app(), world.corp_app(), &stop);
    assert!(turn.await.unwrap());
    ended(console, &begun.json()).await
}

/// Nothing can be made to lead to it, and what leads to it must be changed first.
#[tokio::test]
async fn nothing_is_made_to_lead_to_it() {
    let (_world, console) = world().await;
    let fallbacks = json!({"fallbacks": [{"pool": "backup", "after_seconds": 60}]});
    pool(&console, "sales", &["mA"], fallbacks.clone()).await;
    let waits_for_it = draft(&console, content(&["mA"], fallbacks.clone())).await;
    assert_eq!(
        console.delete("/pools/backup").await.refused().1,
        "pool_in_use"
    );
    // The version that had it as a fallback stays, and so do drafts.
    pool(&console, "sales", &["mA"], json!({})).await;
    gone(&console, "backup").await;

    let put = console
        .put("/pools/sales", content(&["mA"], fallbacks))
        .await;
    assert_eq!(put.pointers(), ["/fallbacks/0/pool"]);
    assert_eq!(put.json()["errors"][0]["code"], "unknown_pool");
    let back = console
        .post("/pools/sales/rollback", json!({"version": 2}))
        .await;
    assert_eq!(back.refused(), (409, "unknown_pools".to_owned()));
    assert_eq!(back.json()["current"], json!({"pools": ["backup"]}));
    let expected = [
        ("/base_version", "base_moved"),
        ("/content/fallbacks/0/pool", "unknown_pool"),
    ];
    let found = findings(&console, &waits_for_it).await;
    assert_eq!(
        found,
        expected.map(|(at, code)| (at.to_owned(), code.to_owned()))
    );
    let publish = format!("{waits_for_it}/publish");
    let refused = console.post(&publish, json!({"overwrite": true})).await;
    assert_eq!(refused.refused(), (409, "unknown_pools".to_owned()));
    // Who would have come to it comes to nobody.
    let decide = format!("{waits_for_it}/decide");
    let off = json!({"members": [{"member": "mA", "online": false}]});
    console.put("/presence", off).await.ok();
    _world.written().await;
    assert_eq!(
        console.post(&decide, json!({})).await.ok()["member"],
        Value::Null
    );

    let channel = json!({"name": "x", "pool": "backup", "states": []});
    let refused = console.put("/channels/c1", channel).await;
    assert_eq!(refused.pointers(), ["/pool"]);
    assert_eq!(refused.json()["errors"][0]["code"], "unknown_pool");
    let subject = json!({"kind": "wecom", "id": "wmC1"});
    let refused = console.post(
        "/allocations",
        json!({"subject": subject, "pool": "backup"}),
    );
    assert_eq!(refused.await.pointers(), ["/pool"]);
    for path in ["/pools/backup", "/pools/backup/waiting"] {
        assert_eq!(console.get(path).await.refused().0, 404, "{path}");
    }
    for (path, body) in [
        ("/pools/backup/simulations", period(&_world)),
        (
            "/pools/backup/drafts",
            json!({"content": content(&[], json!({}))}),
        ),
        (
            "/pools/backup/credits",
            json!({"member": "mB", "amount": 1, "kind": "make_up", "reason": "x"}),
        ),
    ] {
        assert_eq!(console.post(path, body).await.refused().0, 404, "{path}");
    }
}

/// A channel is put while its pool is deleted: one of the two is refused, and no channel leads nowhere.
#[tokio::test]
async fn of_a_channel_and_a_deletion_at_once_one_is_refused() {
    let (world, console) = world().await;
    let (mut kept, mut deleted) = (0, 0);
    for n in 0..20 {
        let id = format!("p{n}");
        pool(&console, &id, &["mA"], json!({})).await;
        let (path, channel) = (format!("/pools/{id}"), format!("/channels/c{n}"));
        let body = json!({"name": "x", "pool": id, "states": []});
        let (put, delete) = join(console.put(&channel, body), console.delete(&path)).await;
        match (put.status.as_u16(), delete.status.as_u16()) {
            (201, 409) => kept += 1,
            (422, 204) => deleted += 1,
            both => panic!("{both:?}: {} {}", put.text, delete.text),
        }
        assert_eq!(console.get(&path).await.status == 200, put.status == 201);
    }
    assert_eq!(kept + deleted, 20);
    world.sync().await;
    let pools = world
        .app()
        .ledger
        .pools()
        .versions(&world.corp)
        .await
        .unwrap();
    let gone: Vec<_> = pools.iter().filter(|pool| pool.deleted).collect();
    assert_eq!(gone.len(), deleted);
    for channel in world
        .app()
        .ledger
        .channels()
        .all(&world.corp)
        .await
        .unwrap()
    {
        assert!(gone.iter().all(|pool| pool.id != channel.pool));
    }
}

/// A draft outlives its pool: it says so, can be tried, and is published when the pool is back.
#[tokio::test]
async fn a_draft_of_it_can_be_tried_and_waits() {
    let (world, console) = world().await;
    for n in 0..10 {
        to(&console, &format!("wmC{n}"), "sales").await;
    }
    let made = draft(&console, content(&["mA", "mB"], json!({}))).await;
    gone(&console, "sales").await;
    world.written().await;
    let deleted = vec![(String::new(), "pool_deleted".to_owned())];
    assert_eq!(findings(&console, &made).await, deleted);
    let body = json!({"content": content(&["mB"], json!({}))});
    assert_eq!(console.put(&made, body).await.refused().0, 404);
    let publish = format!("{made}/publish");
    for body in [json!({}), json!({"overwrite": true})] {
        let refused = console.post(&publish, body).await;
        assert_eq!(refused.refused(), (409, "pool_deleted".to_owned()));
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("/pools/sales/rollback"), "{detail}");
    }
    let tried = console
        .post(&format!("{made}/decide"), json!({}))
        .await
        .ok();
    assert!(tried["member"].is_string(), "{tried}");
    let begun = console
        .post(&format!("{made}/simulations"), period(&world))
        .await;
    let done = simulated(&world, &console, &begun).await;
    assert_eq!(done["state"], "done", "{done}");
    let side = &done["result"]["pools"][0];
    assert_eq!(
        (&side["pool"], &side["simulated"]["decided"]),
        (&json!("sales"), &json!(10))
    );

    let back = console
        .post("/pools/sales/rollback", json!({"version": 1}))
        .await;
    assert_eq!(back.status, 201, "{}", back.text);
    let moved = console.post(&publish, json!({})).await;
    assert_eq!(moved.refused(), (409, "base_moved".to_owned()));
    let done = console
        .post(&publish, json!({"overwrite": true}))
        .await
        .ok();
    assert_eq!(done["members"].as_array().unwrap().len(), 2);
    let now = to(&console, "wmNow", "sales").await;
    assert!(now.is_string());
    world.check().await;
}

/// A simulation reads the log, which stays: what becomes of the pool meanwhile does not matter.
#[tokio::test]
async fn a_simulation_goes_on_when_its_pool_is_deleted() {
    let (world, console) = world().await;
    for n in 0..6 {
        to(&console, &format!("wmC{n}"), "sales").await;
    }
    world.written().await;
    let made = draft(&console, content(&["mB"], json!({}))).await;
    let of_pool = console
        .post("/pools/sales/simulations", period(&world))
        .await;
    gone(&console, "sales").await;
    world.written().await;
    let done = simulated(&world, &console, &of_pool).await;
    assert_eq!(
        (&done["state"], &done["result"]["differences"]),
        (&json!("done"), &json!(0))
    );
    let begun = console
        .post(&format!("{made}/simulations"), period(&world))
        .await;
    let done = simulated(&world, &console, &begun).await;
    let pools = done["result"]["pools"].as_array().unwrap();
    assert_eq!(pools[0]["simulated"]["decided"], 6, "{done}");
    assert_eq!(
        done["result"]["skipped"],
        1 + 1,
        "it was put and deleted: {done}"
    );
}

/// Who waits in it waits on, can be given to somebody by hand or closed, and is served when it comes back.
#[tokio::test]
async fn who_waits_in_it_is_not_lost() {
    let (world, console) = world().await;
    let off = json!({"members": [{"member": "mA", "online": false}]});
    console.put("/presence", off).await.ok();
    let mut waits = Vec::new();
    for n in 0..3 {
        waits.push(ask(&console, &format!("wmC{n}"), json!({"pool": "sales"})).await);
    }
    assert!(waits.iter().all(|one| one["decision"] == "waiting"));
    gone(&console, "sales").await;
    console.on(&["mA"]).await;
    for one in &waits {
        assert_eq!(world.row(one).await.state, AllocationState::Waiting);
    }
    let path = |n: usize, word: &str| {
        format!(
            "/allocations/{}/{word}",
            waits[n]["allocation_id"].as_str().unwrap()
        )
    };
    let by_hand = json!({"to": "mB", "expect_epoch": 0});
    console.post(&path(0, "reassign"), by_hand).await.ok();
    assert_eq!(world.member_of(&waits[0]).await.as_deref(), Some("mb"));
    console
        .post(&path(1, "close"), json!({"reason": "done"}))
        .await
        .ok();
    assert_eq!(world.row(&waits[1]).await.state, AllocationState::Closed);
    // The pool is to pick somebody, and is not there.
    let nobody = console
        .post(&path(2, "reassign"), json!({"expect_epoch": 0}))
        .await;
    assert_eq!(nobody.status, 409, "{}", nobody.text);
    assert_eq!(world.row(&waits[2]).await.state, AllocationState::Waiting);
    console
        .post("/pools/sales/rollback", json!({"version": 1}))
        .await
        .ok();
    assert_eq!(world.member_of(&waits[2]).await.as_deref(), Some("ma"));
    world.check().await;
}
