//! Why somebody was chosen, through the API: from the ledger's log alone.

use allocation::model;
use ledger::{Role, Snapshot};
use serde_json::{Value, json};

use crate::api_support::World;

async fn sql(world: &World, sql: &'static str) {
    sqlx::raw_sql(sql)
        .execute(&mut world.database.connect().await)
        .await
        .unwrap();
}

/// The folded state after entry `seq`.
async fn folded(world: &World, seq: u64) -> Snapshot {
    let corps = world.app().ledger.corps();
    let mut state = model::Corp::new();
    for row in corps.read_log(&world.corp, 0, 10_000).await.unwrap() {
        if row.seq <= seq {
            state.fold(&row.parse().unwrap()).unwrap();
        }
    }
    let dump = state.dump().to_json();
    Snapshot { seq, dump }
}

async fn keep(world: &World, snapshot: &Snapshot) {
    let corps = world.app().ledger.corps();
    corps.save_snapshot(&world.corp, snapshot).await.unwrap();
}

fn path(asked: &Value) -> String {
    let id = asked["allocation_id"].as_str().unwrap();
    format!("/allocations/{id}/explanation")
}

#[tokio::test]
async fn a_decision_is_explained_the_same_each_time() {
    let world = World::new().await;
    let console = world.operator().await;
    world
        .pool(&console, "p1", &[("mA", 2.0), ("mB", 1.0), ("mC", 0.0)])
        .await;
    let mut asked = Vec::new();
    for n in 0..4 {
        asked.push(console.ask("p1", &format!("wmC{n}")).await);
    }
    world.written().await;
    let viewer = world.console(Role::Viewer).await;
    for asked in &asked {
        let answer = viewer.get(&path(asked)).await;
        let found = answer.ok();
        assert_eq!(found["allocation_id"], asked["allocation_id"]);
        assert_eq!(found["complete"], true);
        let [decision] = &found["decisions"].as_array().unwrap()[..] else {
            panic!("{found}")
        };
        assert_eq!(decision["chosen"], asked["member"]);
        assert_eq!(decision["what"], "decided");
        assert_eq!(decision["operation"], "decide.1");
        assert_eq!(decision["strategy"], "weighted_round_robin");
        assert_eq!(decision["policy"], 1);
        assert_eq!(decision["rules"], json!(["earliest_deadline"]));
        let filters = decision["candidates"].as_array().unwrap();
        let filters: Vec<_> = filters.iter().map(|one| &one["filter"]).collect();
        assert_eq!(filters, [&json!(null), &json!(null), &json!("weight_zero")]);
        assert_eq!(viewer.get(&path(asked)).await.text, answer.text);
    }
    // From a snapshot it is the same.
    let before: Value = viewer.get(&path(&asked[2])).await.ok();
    let seq = before["decisions"][0]["seq"].as_u64().unwrap();
    for at in [seq - 2, seq - 1, seq] {
        keep(&world, &folded(&world, at).await).await;
        assert_eq!(viewer.get(&path(&asked[2])).await.ok(), before);
    }
    let member = world.member_key("mA").await;
    assert_eq!(member.get(&path(&asked[0])).await.refused().0, 403);
    let nobody = "/allocations/01920000-0000-7000-8000-000000000001/explanation";
    assert_eq!(viewer.get(nobody).await.refused().0, 404);
}

#[tokio::test]
async fn who_waited_is_explained_twice() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    let off = json!({"members": [{"member": "mA", "online": false}]});
    console.put("/presence", off).await.ok();
    let first = console.ask("p1", "wm1").await;
    let second = console.ask("p1", "wm2").await;
    console.on(&["mA"]).await;
    world.written().await;
    let found = console.get(&path(&second)).await.ok();
    let decisions = found["decisions"].as_array().unwrap();
    assert_eq!(decisions.len(), 2, "{found}");
    let waits = json!({"why": "behind_others", "behind": 1, "until": null});
    assert_eq!(decisions[0]["waits"], waits);
    assert_eq!(decisions[0]["chosen"], Value::Null);
    assert_eq!(decisions[0]["candidates"][0]["filter"], "away");
    assert_eq!(decisions[1]["what"], "woken");
    assert_eq!(decisions[1]["operation"], "presence.1");
    let rules = json!(["longest_waiting_woken", "earliest_deadline"]);
    assert_eq!(decisions[1]["rules"], rules);
    assert_eq!(decisions[1]["chosen"], "mA");
    let found = console.get(&path(&first)).await.ok();
    assert_eq!(found["decisions"][0]["waits"]["why"], "nobody_free");
}

#[tokio::test]
async fn what_cannot_be_folded_is_not_explained() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    let early = console.ask("p1", "wm1").await;
    let asked = console.ask("p1", "wm2").await;
    world.written().await;
    let found = console.get(&path(&asked)).await.ok();
    let seq = found["decisions"][0]["seq"].as_u64().unwrap();

    // So far from the beginning that it would take too long.
    sql(
        &world,
        "UPDATE allocations SET decided_seq = decided_seq + 200000",
    )
    .await;
    let refused = console.get(&path(&asked)).await.refused();
    assert_eq!(refused, (422, "too_many_entries".to_owned()));
    sql(
        &world,
        "UPDATE allocations SET decided_seq = decided_seq - 200000",
    )
    .await;

    let snapshot = folded(&world, seq - 1).await;

    // An entry says something else, then it is missing.
    let before = console.get(&path(&early)).await.ok();
    let spoil = "UPDATE log SET result = replace(result, 'ASSIGNED', 'WAITING')
        WHERE seq = (SELECT min(seq) FROM log WHERE op = 'decide.1')";
    let lose = "DELETE FROM log WHERE seq = (SELECT min(seq) FROM log WHERE op = 'decide.1')";
    for damage in [spoil, lose] {
        sql(&world, damage).await;
        let answer = console.get(&path(&asked)).await;
        assert_eq!(answer.refused(), (409, "log_incomplete".to_owned()));
        assert_eq!(
            answer.json()["current"]["seq"],
            before["decisions"][0]["seq"]
        );
    }

    // A state that was kept since then is as good as ever.
    keep(&world, &snapshot).await;
    assert_eq!(console.get(&path(&asked)).await.ok(), found);
    assert_eq!(console.get(&path(&early)).await.refused().0, 409);
}
