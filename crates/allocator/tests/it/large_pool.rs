//! As many members in one pool as there may be, with all that a pool can ask of its members at once: limits at a time, by the
//! hour and by the day, skills, offers.

use std::collections::{BTreeMap, BTreeSet};

use allocation::{MAX_MEMBERS, MemberId, PoolId};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use test_redis::Server;

use crate::{
    api_support::{Answer, Console, Options, World},
    routing::channel,
};

/// Members who can be on and off in one request.
const HEARTBEATS: usize = 1_000;
/// Asked at the same time.
const AT_ONCE: usize = 8;
/// Weights of the four who are `vip`.
const VIPS: [u32; 4] = [1, 1, 2, 4];
/// Each at most two at a time.
const RARE: usize = 5;

/// As long as an id can be.
fn userid(n: usize) -> String {
    format!("{n:05}{}", "M".repeat(59))
}

/// Half of them speak English; a few can do something that nobody else can.
async fn people_join(world: &World) {
    let join = format!(
        "INSERT INTO members (corp_id, member, userid, spelled_by, created_at, updated_at, skills)
         SELECT '{}', lpad(n::text, 5, '0') || repeat('m', 59), lpad(n::text, 5, '0') || repeat('M', 59), 'console', now(), now(),
            CASE WHEN n < {vips} THEN '{{vip}}'::text[] WHEN n < {vips} + {RARE} THEN '{{rare}}'
                WHEN n % 2 = 0 THEN '{{lang:en}}' ELSE '{{}}' END
         FROM generate_series(0, {MAX_MEMBERS} - 1) AS n",
        world.corp,
        vips = VIPS.len(),
    );
    world.sql(&join).await;
}

/// What each of them may be given.
fn place(n: usize) -> Value {
    let rare = n >= VIPS.len() && n < VIPS.len() + RARE;
    let weight = VIPS
        .get(n)
        .map_or(f64::from(1 + n as u32 % 8) / 2.0, |weight| {
            f64::from(*weight)
        });
    let (cap, per_hour, per_day) = match (n < VIPS.len(), rare) {
        (true, _) => (1_000, 1_000, 1_000),
        (_, true) => (2, 1_000, 1_000),
        _ => (3, 2, 1_000_000),
    };
    json!({"member": userid(n), "weight": weight, "cap": cap, "per_hour": per_hour, "per_day": per_day})
}

fn pool(members: usize) -> Value {
    let members: Vec<Value> = (0..members).map(place).collect();
    json!({"name": "large", "offers": {"accept_seconds": 3600, "tries": 5}, "members": members})
}

async fn everybody_is_on(console: &Console) {
    let all: Vec<usize> = (0..MAX_MEMBERS).collect();
    for part in all.chunks(HEARTBEATS) {
        let on = part
            .iter()
            .map(|n| json!({"member": userid(*n), "online": true, "lease_seconds": 3600}));
        let body = json!({"members": on.collect::<Vec<_>>()});
        let heard = console.put("/presence", body).await.ok();
        let refused = heard["data"].as_array().unwrap().iter();
        assert!(refused.clone().all(|one| one["error"].is_null()));
    }
}

/// Asks for so many customers of a channel, several at a time.
async fn ask(console: &Console, of: &str, customers: usize) -> Vec<Value> {
    let asked = stream::iter(0..customers).map(|n| {
        let subject = json!({"kind": "wecom", "id": format!("wm-{of}-{n}")});
        let body = json!({"subject": subject, "channel": of});
        async move { console.post("/allocations", body).await.ok() }
    });
    asked.buffer_unordered(AT_ONCE).collect().await
}

async fn answer(console: &Console, asked: &Value, word: &str) -> Answer {
    let id = asked["allocation_id"].as_str().unwrap();
    let mut body = json!({"member": asked["member"], "epoch": 0});
    if word == "decline" {
        body["reason"] = json!("busy");
    }
    console
        .post(&format!("/allocations/{id}/{word}"), body)
        .await
}

/// How many each of those has who have any.
async fn open(world: &World) -> BTreeMap<MemberId, u64> {
    world.written().await;
    let rows = world.app().ledger.allocations();
    let open = rows.open_by_member(&world.corp).await.unwrap();
    open.into_iter().collect()
}

fn number(member: &str) -> usize {
    member[..5].parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_members_with_limits_skills_and_offers() {
    let server = Server::start(test_redis::Options::default());
    let options = Options {
        // A program that is not optimised, on a machine that does other things too, takes many times as long.
        config: "[http]\ntimeout_ms = 60000\n".to_owned(),
        redis: Some(server.url()),
        ..Options::default()
    };
    let world = World::with(1, options).await;
    let console = world.operator().await;
    people_join(&world).await;

    // One more is refused and said so; as many as may be are put in one request, and answered in time.
    let refused = console.put("/pools/large", pool(MAX_MEMBERS + 1)).await;
    assert_eq!(refused.pointers(), ["/members"]);
    assert_eq!(refused.json()["errors"][0]["code"], "too_many");
    let body = pool(MAX_MEMBERS);
    assert!(body.to_string().len() > 1 << 20);
    let put = console.put("/pools/large", body).await;
    assert_eq!(put.status, 201, "{}", put.text);
    let members = put.json()["members"].as_array().unwrap().len();
    assert_eq!(members, MAX_MEMBERS);
    // What could not be told by then is told by the comparison.
    world.sync().await;
    assert_eq!(world.sync().await, 0, "nothing is left to tell");
    let large = PoolId::new("large").unwrap();
    let known = world.corp_app().roster.pool_versions(&[large]).await;
    assert_eq!(known.unwrap()[0].unwrap().version, 1);
    for (id, needs) in [("english", "lang:en"), ("vips", "vip"), ("rarely", "rare")] {
        channel(&console, id, "large", &[needs]).await;
    }
    everybody_is_on(&console).await;

    // Those who can do it share it as if they were alone.
    let sum: u32 = VIPS.iter().sum();
    let vips = ask(&console, "vips", 20 * sum as usize).await;
    let mut shares = [0; VIPS.len()];
    for one in &vips {
        assert_eq!(one["decision"], "offered");
        shares[number(one["member"].as_str().unwrap())] += 1;
    }
    for (share, weight) in shares.into_iter().zip(VIPS) {
        assert!((20 * weight).abs_diff(share) <= 1, "{shares:?}");
    }
    let english = ask(&console, "english", 30).await;
    let asked: BTreeSet<usize> = english
        .iter()
        .map(|one| number(one["member"].as_str().unwrap()))
        .collect();
    assert_eq!(asked.len(), 30, "nobody is second before all were first");
    assert!(asked.iter().all(|n| n % 2 == 0 && *n >= VIPS.len() + RARE));
    // Five times two, and the others wait though thousands are free.
    let rare = ask(&console, "rarely", 20).await;
    let offered = rare.iter().filter(|one| one["decision"] == "offered");
    assert_eq!(offered.count(), 2 * RARE);

    world.written().await;
    for (n, one) in english.iter().enumerate().take(20) {
        let word = if n % 2 == 0 { "accept" } else { "decline" };
        answer(&console, one, word).await.ok();
    }
    for (n, load) in open(&world).await {
        let n = number(n.as_str());
        let cap = place(n)["cap"].as_u64().unwrap();
        let per_hour = place(n)["per_hour"].as_u64().unwrap();
        assert!(load <= cap.min(per_hour), "{n} has {load}");
    }
    world.check().await;
    explained(&console, &english[1]).await;
}

/// Of an offer that was declined there are two decisions, each of which looked at everybody.
async fn explained(console: &Console, asked: &Value) {
    let id = asked["allocation_id"].as_str().unwrap();
    let path = format!("/allocations/{id}/explanation");
    let why = console.get(&path).await.ok();
    let decisions = why["decisions"].as_array().unwrap();
    assert_eq!(decisions.len(), 2, "{why}");
    let able = (MAX_MEMBERS - VIPS.len() - RARE) / 2;
    for decision in decisions {
        assert_eq!(decision["members"], MAX_MEMBERS);
        assert_eq!(decision["candidates"].as_array().unwrap().len(), 200);
        assert_eq!(decision["candidates"][0]["member"], decision["chosen"]);
        let kept_out = decision["kept_out"].as_object().unwrap().values();
        let kept_out: u64 = kept_out.map(|n| n.as_u64().unwrap()).sum();
        assert!(kept_out as usize >= MAX_MEMBERS - able, "{decision}");
    }
    assert_eq!(decisions[0]["chosen"], asked["member"]);
    assert_eq!(decisions[1]["kept_out"]["left_out"], 1);
    for most in ["0", "10001", "x"] {
        let refused = console.get(&format!("{path}?candidates={most}")).await;
        assert_eq!(refused.pointers(), ["query:candidates"], "{most}");
    }
}
