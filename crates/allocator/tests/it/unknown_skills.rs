//! Skills that nobody has: whoever needs one waits, which can be seen, and is warned of before and while it is so.

use std::sync::Arc;

use allocation::PoolId;
use allocator::{people, reception::alerts};
use serde_json::{Value, json};

use crate::{
    api_support::{Console, World},
    lane_stage::Forward,
    routing::{ask, channel, person, pool, to},
};

/// Codes of what is found in a draft of the pool that is like this.
async fn found(console: &Console, more: Value) -> Vec<String> {
    let mut content = json!({"name": "sales", "members": [{"member": "mA", "weight": 2}]});
    for (name, value) in more.as_object().unwrap() {
        content[name] = value.clone();
    }
    let draft = console.post("/pools/sales/drafts", json!({"content": content}));
    let draft = draft.await.ok();
    let path = format!("/drafts/{}/validate", draft["id"].as_str().unwrap());
    let found = console.post(&path, json!({})).await.ok();
    assert_eq!(found["valid"], true, "{found}");
    let codes = found["findings"].as_array().unwrap().iter();
    codes
        .map(|one| one["code"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn who_needs_what_nobody_can_do_waits_and_somebody_is_told() {
    let world = World::new().await;
    let console = world.operator().await;
    person(&console, "mA", json!({"skills": ["vip"]})).await;
    let alert = json!({"alert_after_seconds": 30});
    pool(&console, "sales", &["mA"], alert).await;
    channel(&console, "english", "sales", &["lang:en", "vip"]).await;
    let waits = ask(&console, "wmC1", json!({"channel": "english"})).await;
    assert_eq!(waits["decision"], "waiting");
    assert_eq!(
        to(&console, "wmC2", "sales").await,
        "mA",
        "nobody else is held up"
    );
    world.written().await;
    let id = waits["allocation_id"].as_str().unwrap();
    let why = console.get(&format!("/allocations/{id}/explanation")).await;
    let why = why.ok()["decisions"][0].clone();
    assert_eq!(why["waits"]["why"], "nobody_free");
    assert_eq!(why["needs"], json!(["lang:en", "vip"]));
    assert_eq!(
        (&why["members"], &why["kept_out"]),
        (&json!(1), &json!({"skills": 1}))
    );
    assert_eq!(console.get("/pools/sales/waiting").await.ok()["waiting"], 1);
    let later = world.process(Arc::new(Forward(30_000.into()))).await;
    let corp = Arc::clone(later.corps.values().next().unwrap());
    people::refresh(&later, &corp).await.unwrap();
    let mut seen = alerts::Seen::default();
    let warned = alerts::turn(&later, &corp, &mut seen).await.unwrap();
    assert_eq!(warned, [PoolId::new("sales").unwrap()]);
    // He learns it.
    person(&console, "mA", json!({"skills": ["lang:en", "vip"]})).await;
    assert_eq!(world.member_of(&waits).await.as_deref(), Some("ma"));
    assert_eq!(alerts::turn(&later, &corp, &mut seen).await.unwrap(), []);
    world.check().await;
}

/// Said of a draft before it is published, unless somebody would serve in the end.
#[tokio::test]
async fn a_draft_whose_channels_need_what_nobody_can_do() {
    let world = World::new().await;
    let console = world.operator().await;
    person(&console, "mA", json!({"skills": ["vip"]})).await;
    person(&console, "mB", json!({"skills": ["lang:en", "vip"]})).await;
    pool(&console, "sales", &["mA"], json!({})).await;
    pool(&console, "backup", &["mB"], json!({})).await;
    assert_eq!(found(&console, json!({})).await, [""; 0]);
    channel(&console, "vips", "sales", &["vip"]).await;
    channel(&console, "english", "sales", &["lang:en", "vip"]).await;
    assert_eq!(found(&console, json!({})).await, ["nobody_can"]);
    let relax = json!([{"skill": "lang:en", "after_seconds": 60}]);
    assert_eq!(found(&console, json!({"relax": relax})).await, [""; 0]);
    let relax = json!([{"skill": "vip", "after_seconds": 60}]);
    assert_eq!(
        found(&console, json!({"relax": relax})).await,
        ["nobody_can"]
    );
    let fallbacks = json!([{"pool": "backup", "after_seconds": 60}]);
    assert_eq!(
        found(&console, json!({"fallbacks": fallbacks})).await,
        [""; 0]
    );
    // Who has no weight serves nobody.
    let both = |weight: u32| json!({"members": [{"member": "mA", "weight": 1}, {"member": "mB", "weight": weight}]});
    assert_eq!(found(&console, both(0)).await, ["nobody_can"]);
    assert_eq!(found(&console, both(1)).await, [""; 0]);
}
