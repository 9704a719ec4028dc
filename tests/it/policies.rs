//! A policy is tried on real traffic before it is live.

use allocator::commands::key;
use e2e::{Options, World, eventually};
use ledger::Role;
use serde_json::{Value, json};

/// The REST API of the first allocator.
struct Api {
    http: reqwest::Client,
    base: String,
    key: String,
}

impl Api {
    async fn of(world: &World) -> Self {
        let key = key::insert_key(&world.app, Some(world.corp.clone()), Role::Operator);
        let address = world.allocators[0].api;
        Self {
            http: reqwest::Client::new(),
            base: format!("http://{address}/api/v1/corps/{}", world.corp),
            key: key.await.expect("a key"),
        }
    }

    async fn read(&self, request: reqwest::RequestBuilder) -> Value {
        let answer = request.bearer_auth(&self.key).send().await;
        let answer = answer.expect("an answer");
        let status = answer.status();
        let text = answer.text().await.expect("a body");
        assert!(status.is_success(), "{status}: {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    async fn get(&self, path: &str) -> Value {
        self.read(self.http.get(format!("{}{path}", self.base)))
            .await
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let request = self.http.post(format!("{}{path}", self.base));
        let request = request.header("content-type", "application/json");
        self.read(request.body(body.to_string())).await
    }

    /// What a simulation found.
    async fn simulated(&self, path: &str) -> Value {
        let period = json!({"from": hours(-1), "until": hours(1)});
        let begun = self.post(path, period).await;
        let operation = format!("/operations/{}", begun["id"].as_str().expect("an id"));
        eventually("the simulation ends", || async {
            let now = self.get(&operation).await;
            match now["state"].as_str() {
                Some("running") => None,
                Some("done") => Some(now["result"].clone()),
                _ => panic!("{now}"),
            }
        })
        .await
    }
}

fn hours(after_now: i64) -> String {
    let at = time::OffsetDateTime::now_utc() + time::Duration::hours(after_now);
    at.format(&time::format_description::well_known::Rfc3339)
        .expect("a time")
}

/// Customers come, are transferred, leave and come again while members go: the log of it, run again, is the same at every entry; and
/// under a draft with one weight doubled its member gains what the others lose.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_traffic_is_run_again_without_a_difference() {
    let world = World::start(Options {
        cards: false,
        ..Options::default()
    })
    .await;
    let customers = world.scans("wmP", 30).await;
    world.each_has_one(&customers).await;
    // Some leave, and come again.
    for customer in &customers[..5] {
        world.send(world.plaintext("del_follow_user", "desk", customer, ""));
        let member = world.allocated(customer).await.member.expect("a member");
        world.send(world.plaintext("del_follow_user", member.as_str(), customer, ""));
    }
    let later = world.scans("wmQ", 15).await;
    world.each_has_one(&later).await;
    world.quiet().await;

    let api = Api::of(&world).await;
    let same = api.simulated("/pools/sales/simulations").await;
    assert_eq!(same["differences"], 0, "{same}");
    assert!(same["inputs"].as_u64() >= Some(45), "{same}");
    let pool = &same["pools"][0];
    assert_eq!(pool["recorded"], pool["simulated"]);
    assert!(pool["recorded"]["decided"].as_u64() >= Some(45), "{pool}");

    let members = json!([{"member": "ma", "weight": 2}, {"member": "mb", "weight": 1},
        {"member": "mc", "weight": 1}]);
    let draft = json!({"content": {"name": "sales", "members": members}});
    let draft = api.post("/pools/sales/drafts", draft).await;
    let draft = format!("/drafts/{}", draft["id"].as_str().expect("an id"));
    let doubled = api.simulated(&format!("{draft}/simulations")).await;
    let gains = doubled["pools"][0]["members"].as_array().expect("members");
    let gain = |name: &str| {
        let one = gains.iter().find(|one| one["member"] == name);
        one.and_then(|one| one["gain"].as_i64()).expect("a gain")
    };
    assert!(gain("ma") >= 5, "{doubled}");
    assert!(gain("mb") < 0 && gain("mc") < 0, "{doubled}");
    assert_eq!(gain("ma") + gain("mb") + gain("mc"), 0, "{doubled}");

    // Then it is published, and holds.
    api.post(&format!("{draft}/publish"), json!({})).await;
    let before = world.each_has_one(&later).await;
    let more = world.scans("wmR", 12).await;
    let after = world.each_has_one(&more).await;
    let came = |name: &str| after.get(name).unwrap_or(&0) - before.get(name).unwrap_or(&0);
    assert_eq!(came("ma"), 6, "{before:?} {after:?}");
    world.close().await;
}
