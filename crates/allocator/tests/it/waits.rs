//! What becomes of customers who wait: fewer skills, other pools, an alert, slow hand-out, a person.

use std::{collections::BTreeSet, sync::Arc};

use allocation::PoolId;
use allocator::{
    guard, people,
    reception::{advance, alerts, drip},
};
use futures_util::future::join_all;
use ledger::AllocationState;
use serde_json::{Value, json};

use crate::{
    api_support::{Options, World},
    lane_stage::Forward,
    routing::{after, ask, english, off, person, pool, to},
};

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
    let path = format!("/allocations/{id}/explanation");
    let answer = console.get(&path).await;
    let found = answer.ok();
    assert_eq!(found["complete"], true);
    let [asked, left] = &found["decisions"].as_array().unwrap()[..] else {
        panic!("{found}")
    };
    assert_eq!(
        (&asked["what"], &asked["waited"]),
        (&json!("decided"), &Value::Null)
    );
    assert_eq!(left["what"], "left_to_person");
    assert_eq!(left["operation"], "advance.1");
    assert_eq!(left["rules"], json!(["waited_too_long"]));
    assert_eq!(
        (&left["chosen"], &left["waits"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(left["waited"]["since"], asked["at"]);
    assert_eq!(left["waited"]["person_after_seconds"], 60);
    let seconds = left["waited"]["seconds"].as_f64().unwrap();
    assert!((60.0..62.0).contains(&seconds), "{left}");
    assert_eq!(left["kept_out"], json!({"away": 1}));
    // What is decided later is told after it, and changes nothing of it.
    assert_eq!(console.get(&path).await.text, answer.text);
    let body = json!({"to": "mA", "expect_epoch": 0});
    console
        .post(&format!("/allocations/{id}/reassign"), body)
        .await
        .ok();
    assert_eq!(world.member_of(&waits).await.as_deref(), Some("ma"));
    let after = console.get(&path).await.ok();
    let decisions = after["decisions"].as_array().unwrap();
    assert_eq!(&decisions[..2], &[asked.clone(), left.clone()]);
    assert_eq!(decisions[2]["rules"], json!(["reassigned", "named"]));
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
