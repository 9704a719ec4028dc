//! What those whom an inviter brought come to: exact counts, goals once, and what is done then.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use allocator::{audit::seat_rows::seat_rows, decide, fission::reader, outbox, writer};
use axum::{Router, extract::State, http::HeaderMap, routing::post};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::future::join_all;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio_util::sync::CancellationToken;
use wecom_sim::{ScanRequest, TagChange, TagRequest};

use crate::{
    fission_stage::{LAG_MS, person},
    inviters::Invited,
};

const CAMPAIGN: &str = "/campaigns/spring";
const EVERYBODY: usize = 1_000;
const HOOK_KEY: [u8; 32] = [7; 32];

/// 1,000 at once, asked for and heard of by two processes, every event twice, with a writer that is cut off again and again: exact,
/// and the goal is reached once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_join_at_once() {
    let goals = json!([{"count": 500, "name": "half"},
        {"count": EVERYBODY, "name": "all", "message": "你到了", "event": true}]);
    let it = Invited::with(json!({ "goals": goals }), 200).await;
    for group in 2..=6 {
        it.stage.group(&format!("g{group}")).await;
    }
    let anna = it.inviter("unionid", "owmanna").await;
    let other = it.stage.process().await;
    let apps = [Arc::clone(it.stage.app()), other];
    let ids: Vec<String> = (0..EVERYBODY).map(|n| format!("wm{n}")).collect();
    let asks = ids.iter().zip(apps.iter().cycle());
    join_all(asks.map(|(id, app)| it.asks_of(app, id, &anna))).await;
    let mut by_group: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for id in &ids {
        let place = it.stage.seat("unionid", &format!("o{id}")).await;
        let Some(allocation::model::SeatPlace::Held { chat, .. }) = place else {
            panic!("{id}: {place:?}");
        };
        by_group
            .entry(chat.to_string())
            .or_default()
            .push(person(id));
    }
    for (chat, people) in &by_group {
        let way = it.stage.way(chat, None).await;
        for one in people {
            it.stage.scan(&way, std::slice::from_ref(one));
        }
    }
    let events = it.stage.events().await;
    assert!(events.len() >= EVERYBODY);
    // A writer that dies in the middle of its work.
    let (dying, stop) = (Arc::clone(&apps[1]), CancellationToken::new());
    let stopped = stop.clone();
    let dies = tokio::spawn(async move {
        let corp = dying.corps.values().next().unwrap();
        let mut n = 0;
        while !stopped.is_cancelled() {
            n = n % 7 + 1;
            let turn = writer::turn(&dying, corp);
            drop(tokio::time::timeout(Duration::from_millis(n), turn).await);
        }
    });
    let hears = apps.iter().map(|app| {
        let batches: Vec<_> = events.chunks(40).map(|part| it.stage.batch(part)).collect();
        async move {
            let corp = app.corps.values().next().unwrap();
            for batch in batches {
                decide::decide(app, corp, &batch, false).await.unwrap();
            }
        }
    });
    join_all(hears).await;
    it.stage.pass(LAG_MS + 50).await;
    let reads = apps.iter().map(|app| async move {
        let corp = app.corps.values().next().unwrap();
        while reader::turn(app, corp).await.unwrap() > 0 {}
    });
    join_all(reads).await;
    it.stage.read_all().await;
    stop.cancel();
    dies.await.unwrap();
    it.write().await;
    let n = EVERYBODY as u64;
    assert_eq!(it.counts(&anna).await, [n, 0, n, 0, 0]);
    let qualified: i64 = sqlx::query_scalar("SELECT count(*) FROM edges WHERE state = 'qualified'")
        .fetch_one(it.stage.app().ledger.pool())
        .await
        .unwrap();
    assert_eq!(qualified, EVERYBODY as i64);
    let reached = it.of(&anna).await["goals"].clone();
    let counts: Vec<_> = reached
        .as_array()
        .unwrap()
        .iter()
        .map(|goal| &goal["count"])
        .collect();
    assert_eq!(counts, [&json!(500), &json!(EVERYBODY)]);
    let key = format!("goal:spring:{anna}:{EVERYBODY}");
    assert_eq!(it.effects("goal_message").await, [key.as_str()]);
    assert_eq!(it.effects("event").await, [key.as_str()]);
    let feed = feed(&it, "/events").await;
    assert_eq!(feed["data"].as_array().unwrap().len(), 1);
}

/// The feed from there on, once there is something: what is written while other transactions are open comes after these.
async fn feed(it: &Invited, path: &str) -> Value {
    let limit = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let feed = it.stage.console.get(path).await.ok();
        if feed["data"].as_array().is_some_and(|data| !data.is_empty()) {
            return feed;
        }
        assert!(tokio::time::Instant::now() < limit, "{path}: nothing");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The outbox of one process, until it is dropped.
pub(crate) struct Outbox(CancellationToken);

impl Outbox {
    pub(crate) fn start(it: &Invited) -> Self {
        let (app, corp) = (Arc::clone(it.stage.app()), Arc::clone(it.stage.corp()));
        let stop = CancellationToken::new();
        tokio::spawn(outbox::run(app, corp, stop.clone()));
        Self(stop)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// States and errors of the rows of a kind, once all have ended.
pub(crate) async fn ended(it: &Invited, kind: &str, n: usize) -> Vec<(String, String)> {
    let limit = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT state, coalesce(last_error, '') FROM outbox WHERE kind = $1 AND settled_at IS NOT NULL
             ORDER BY effect_key",
        )
        .bind(kind.to_owned())
        .fetch_all(it.stage.app().ledger.pool())
        .await
        .unwrap();
        if rows.len() == n {
            return rows;
        }
        assert!(tokio::time::Instant::now() < limit, "{kind}: {rows:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn tag(it: &Invited, name: &str) -> String {
    let change = TagChange::Create {
        group: "活动".to_owned(),
        name: name.to_owned(),
    };
    let request = TagRequest { corp: None, change };
    it.stage
        .sim
        .change_tags(&request)
        .unwrap()
        .last()
        .unwrap()
        .clone()
}

/// He is somebody's customer at WeCom.
pub(crate) fn customer(it: &Invited, id: &str, member: &str) {
    let scan = ScanRequest {
        customer: Some(id.to_owned()),
        unionid: Some(format!("o{id}")),
        ..ScanRequest::member(member, "s")
    };
    it.stage.sim.scan(&scan).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reaches_a_goal_is_tagged_and_told() {
    let it = Invited::new(json!({})).await;
    let (came, one) = (tag(&it, "来了"), tag(&it, "一人"));
    it.rules(json!({"tag_on_join": came,
        "goals": [{"count": 1, "name": "one", "message": "领奖", "tag": one}]}))
        .await;
    for id in ["wmanna", "wmc1"] {
        customer(&it, id, "ZhangSan");
    }
    it.stage.events().await;
    let anna = it.inviter("external_id", "wmanna").await;
    let (lisi, blogger) = (
        it.inviter("member", "LiSi").await,
        it.inviter("other", "blogger-7").await,
    );
    it.comes("wmc1", &anna).await;
    it.comes("wmc2", &lisi).await;
    it.comes("wmc3", &blogger).await;
    let _outbox = Outbox::start(&it);
    let tags = ended(&it, "tag", 6).await;
    let of = |key: usize| (tags[key].0.as_str(), tags[key].1.as_str());
    // goal:…, in the order of the inviters' ids, and then join_tag:….
    let mut goals: Vec<_> = (0..3).map(of).collect();
    goals.sort();
    assert_eq!(goals[0], ("done", ""));
    assert_eq!(goals[1].0, "failed");
    let joins: Vec<_> = (3..6).map(of).collect();
    assert_eq!(joins.iter().filter(|join| join.0 == "done").count(), 1);
    let nobodys = ("failed", "no member has this customer");
    assert_eq!(joins.iter().filter(|join| **join == nobodys).count(), 2);
    for (id, tag) in [("wmanna", one), ("wmc1", came)] {
        let there = it.stage.sim.customer(None, id).unwrap();
        assert_eq!(there.follows[0].tags, [tag], "{id}");
    }
    let told = ended(&it, "goal_message", 3).await;
    assert_eq!(told.iter().filter(|row| row.0 == "done").count(), 2);
    let messages = it.stage.sim.messages();
    let mut texts: Vec<_> = messages
        .iter()
        .map(|one| {
            (
                one.to.as_str(),
                one.body["text"]["content"].as_str().unwrap(),
            )
        })
        .collect();
    texts.sort();
    assert_eq!(texts.len(), 2);
    assert_eq!(texts[0], ("LiSi", "领奖"));
    assert!(
        texts[1].0 == "ZhangSan" && texts[1].1.ends_with("\n领奖"),
        "{texts:?}"
    );
    // What was refused for good is listed, with whose it is and what is missing, and is tried again when an operator says so.
    let failed = "/dead-letters/effects?state=failed";
    let list = it
        .stage
        .console
        .all(&format!("{failed}&kind=goal_message"))
        .await;
    assert_eq!(list.len(), 1);
    let of = ["campaign", "inviter_id", "goal", "error"].map(|name| &list[0][name]);
    let missing = "WeCom's id of the inviter is not known: he never came into a group himself";
    assert_eq!(
        of,
        ["spring", blogger.as_str(), "one", missing]
            .map(Value::from)
            .each_ref()
    );
    assert_eq!(it.stage.console.all(failed).await.len(), 5);
    assert!(
        it.stage
            .console
            .all("/dead-letters/effects")
            .await
            .is_empty()
    );
    let again = json!({"ids": [list[0]["id"]]});
    let path = "/dead-letters/effects/replay";
    let replayed = it.stage.console.post(path, again).await.ok();
    assert_eq!(replayed, json!({"matched": 1, "changed": 1}));
    ended(&it, "goal_message", 3).await;
    assert_eq!(it.stage.console.all(failed).await.len(), 5);
    // Nobody's id stays behind.
    let named: i64 =
        sqlx::query_scalar("SELECT count(*) FROM outbox WHERE payload::text LIKE '%wmc%'")
            .fetch_one(it.stage.app().ledger.pool())
            .await
            .unwrap();
    assert_eq!(named, 0);
}

/// To whom the ledger gave him is one thing: until his transfer is done another member has him.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_member_who_has_him_is_asked_to_tell_him() {
    let it = Invited::new(json!({"goals": [{"count": 1, "name": "one", "message": "领奖"}]})).await;
    customer(&it, "wmanna", "ZhangSan");
    it.stage.events().await;
    let console = &it.stage.console;
    it.stage
        .world
        .pool(console, "sales", &[("LiSi", 1.0)])
        .await;
    assert_eq!(console.ask("sales", "wmanna").await["member"], "LiSi");
    let anna = it.inviter("external_id", "wmanna").await;
    it.comes("wmc1", &anna).await;
    let _outbox = Outbox::start(&it);
    assert_eq!(ended(&it, "goal_message", 1).await[0].0, "done");
    let told = it.stage.sim.messages();
    let told = told
        .iter()
        .filter(|one| one.body["text"]["content"].to_string().contains("领奖"));
    assert_eq!(
        told.map(|one| one.to.as_str()).collect::<Vec<_>>(),
        ["ZhangSan"]
    );
}

type Posts = Arc<Mutex<Vec<(HeaderMap, String)>>>;

async fn hear(
    State(posts): State<Posts>,
    headers: HeaderMap,
    body: String,
) -> axum::http::StatusCode {
    let mut posts = posts.lock().unwrap();
    posts.push((headers, body));
    // The first time it does not take it.
    match posts.len() {
        1 => axum::http::StatusCode::BAD_GATEWAY,
        _ => axum::http::StatusCode::NO_CONTENT,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_hear_of_goals() {
    let posts = Posts::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/hook", post(hear))
        .with_state(Arc::clone(&posts));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, format!("whsec_{}\n", STANDARD.encode(HOOK_KEY))).unwrap();
    let goals = json!([{"count": 1, "name": "one", "event": true}, {"count": 2, "name": "two", "event": true}]);
    let it = Invited::new(json!({ "goals": goals })).await;
    let anna = it.inviter("unionid", "owmanna").await;
    it.comes("wmc1", &anna).await;
    let feed = feed(&it, "/events?limit=1").await;
    assert_eq!(feed["data"][0]["type"], "goal.reached");
    assert_eq!(feed["data"][0]["data"]["inviter_id"], anna.as_str());
    let next = feed["next"].as_str().unwrap().to_owned();
    let after = format!("/events?after={next}");
    let none = it.stage.console.get(&after).await.ok();
    assert_eq!((&none["data"], &none["next"]), (&json!([]), &json!(next)));
    let refused = it.stage.console.get("/events?after=x").await;
    assert_eq!(refused.pointers(), ["query:after"]);
    // Another process, which is told where to post.
    let events = format!(
        "[events]\nurl = '{url}'\nsecret = 'file:{}'\n",
        secret.display()
    );
    let app = it.stage.world.process_with(&events).await;
    let corp = Arc::clone(app.corps.values().next().unwrap());
    let stop = CancellationToken::new();
    tokio::spawn(outbox::run(app, corp, stop.clone()));
    assert_eq!(
        ended(&it, "event", 1).await,
        [("done".to_owned(), String::new())]
    );
    stop.cancel();
    let heard = posts.lock().unwrap().clone();
    assert_eq!(heard.len(), 2);
    assert_eq!(heard[0].1, heard[1].1);
    assert_eq!(heard[0].0["webhook-id"], heard[1].0["webhook-id"]);
    let (headers, body) = &heard[1];
    let text = |name: &str| headers[name].to_str().unwrap();
    assert_eq!(text("webhook-id"), feed["data"][0]["id"].as_str().unwrap());
    let mut mac = Hmac::<Sha256>::new_from_slice(&HOOK_KEY).unwrap();
    mac.update(
        format!(
            "{}.{}.{body}",
            text("webhook-id"),
            text("webhook-timestamp")
        )
        .as_bytes(),
    );
    let signed = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    assert_eq!(text("webhook-signature"), signed);
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (&body["type"], &body["data"]["goal"]),
        (&json!("goal.reached"), &json!("one"))
    );
    it.comes("wmc2", &anna).await;
    let more = self::feed(&it, &after).await;
    assert_eq!(more["data"][0]["data"]["goal"], "two");
}

#[tokio::test]
async fn who_is_ahead_and_all_of_it_as_a_table() {
    let it = Invited::new(json!({"stay_seconds": 0})).await;
    let mut ids = Vec::new();
    for (n, name) in ["=cmd()", "Bert", "Cleo", ""].into_iter().enumerate() {
        let body = json!({"inviter": {"kind": "other", "id": format!("i{n}")}, "name": name});
        let path = format!("{CAMPAIGN}/inviters");
        let made = it.stage.console.post(&path, body).await.ok();
        ids.push(made["id"].as_str().unwrap().to_owned());
    }
    // Cleo has two before Bert has.
    for (person, inviter) in [
        ("wmc1", 2),
        ("wmc2", 1),
        ("wmc3", 2),
        ("wmc4", 1),
        ("wmc5", 0),
    ] {
        it.comes(person, &ids[inviter]).await;
    }
    let mut order = Vec::new();
    let mut path = format!("{CAMPAIGN}/leaderboard?limit=1");
    loop {
        let page = it.stage.console.get(&path).await.ok();
        order.push(page["data"][0]["id"].as_str().unwrap().to_owned());
        match page["page"]["next"].as_str() {
            Some(next) => path = format!("{CAMPAIGN}/leaderboard?limit=1&cursor={next}"),
            None => {
                let prev = page["page"]["prev"].as_str().unwrap();
                let back = format!("{CAMPAIGN}/leaderboard?limit=3&cursor={prev}");
                let back = it.stage.console.get(&back).await.ok();
                let back = back["data"].as_array().unwrap().iter();
                let back: Vec<_> = back.map(|one| one["id"].as_str().unwrap()).collect();
                assert_eq!(back, order[..3]);
                break;
            }
        }
    }
    let [first, second, third, last] = [2, 1, 0, 3].map(|n: usize| ids[n].clone());
    assert_eq!(order, [first, second, third, last]);
    let table = it.stage.console.get(&format!("{CAMPAIGN}/export")).await;
    assert_eq!(table.header("content-type"), "text/csv; charset=utf-8");
    let lines: Vec<_> = table.text.trim_end().split("\r\n").collect();
    assert_eq!(lines.len(), 5);
    assert!(lines[0].ends_with("blocked,created_at"));
    assert!(
        table.text.contains(",other,,i0,'=cmd(),/g/"),
        "{}",
        table.text
    );
    assert!(!table.text.contains("wmc"));
    // What he was named by is shown to operators.
    let board = format!("{CAMPAIGN}/leaderboard");
    let shown = it.stage.console.get(&board).await.ok();
    let first = &shown["data"][0]["customer"];
    assert_eq!(
        (&first["kind"], &first["external_id"]),
        (&json!("inviter"), &json!("i2"))
    );
    let viewer = it.stage.world.console(ledger::Role::Viewer).await;
    let shown = viewer.get(&board).await.ok();
    assert!(shown["data"][0]["customer"]["external_id"].is_null());
    let table = viewer.get(&format!("{CAMPAIGN}/export")).await.text;
    assert!(table.contains(",other,,,'=cmd(),/g/"), "{table}");
    // Whoever is blocked is not on it, and is in the table with why.
    let block = json!({"name": "Cleo", "blocked": "bought"});
    let path = format!("{CAMPAIGN}/inviters/{}", ids[2]);
    it.stage.console.put(&path, block).await.ok();
    let shown = it.stage.console.all(&board).await;
    let shown: Vec<_> = shown
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert_eq!(shown, order[1..]);
    let table = it
        .stage
        .console
        .get(&format!("{CAMPAIGN}/export"))
        .await
        .text;
    assert!(table.contains(",bought,"), "{table}");
}

/// Rows that are mended make no edge, end none, and bring none back that is over.
#[tokio::test]
async fn an_audit_leaves_edges_as_they_are() {
    let it = Invited::new(json!({})).await;
    let anna = it.inviter("unionid", "owmanna").await;
    it.comes("wmc1", &anna).await;
    it.comes("wmc2", &anna).await;
    it.leaves("wmc2").await;
    let before = (it.counts(&anna).await, it.edges(&anna).await);
    assert_eq!(before.0, [2, 0, 1, 1, 0]);
    let pool = it.stage.app().ledger.pool();
    for damage in [
        "UPDATE group_people SET left_at = now() WHERE left_at IS NULL",
        "DELETE FROM seats",
        "DELETE FROM group_people",
        "UPDATE seats SET state = 'held', matched = NULL, confirmed_at = NULL WHERE state = 'confirmed'",
        "INSERT INTO group_people (corp_id, chat_id, person, joined_seq, joined_at, came_as, scanned)
         SELECT corp_id, 'g1', person, 1, now(), 'direct', false FROM edges WHERE state = 'revoked'",
    ] {
        sqlx::query(damage).execute(pool).await.unwrap();
        let mended = seat_rows(it.stage.app(), it.stage.corp()).await.unwrap();
        assert!(mended > 0, "{damage}");
        let after = (it.counts(&anna).await, it.edges(&anna).await);
        assert_eq!(after, before, "{damage}");
    }
}

/// Whoever is forgotten has no name any more, and no tag is put on him.
#[tokio::test]
async fn whoever_is_forgotten_has_no_name() {
    let it = Invited::new(json!({"tag_on_join": "etTag"})).await;
    let body = json!({"inviter": {"kind": "external_id", "id": "wmanna"}, "name": "Anna"});
    let path = format!("{CAMPAIGN}/inviters");
    let made = it.stage.console.post(&path, body).await.ok();
    let anna = made["id"].as_str().unwrap();
    it.comes("wmc1", anna).await;
    let admin = it.stage.world.console(ledger::Role::Admin).await;
    for id in ["wmanna", "wmc1"] {
        admin.delete(&format!("/customers/{id}")).await.ok();
    }
    assert_eq!(it.of(anna).await["name"], "");
    let (state, payload): (String, Value) =
        sqlx::query_as("SELECT state, payload FROM outbox WHERE kind = 'tag'")
            .fetch_one(it.stage.app().ledger.pool())
            .await
            .unwrap();
    assert_eq!((state.as_str(), payload), ("cancelled", json!({})));
}

#[tokio::test]
async fn rules_that_cannot_be_are_named() {
    let it = Invited::new(json!({})).await;
    let campaign = json!({"name": "x", "group_pool": "p1", "fission": {
        "stay_seconds": 7_776_001, "max_per_inviter": 0, "tag_on_join": "",
        "goals": [{"count": 0, "name": "a"}, {"count": 5, "name": " "}, {"count": 5, "name": "c", "message": " "}]}});
    let put = it.stage.console.put(CAMPAIGN, campaign).await;
    let mut pointers = put.pointers();
    pointers.sort();
    pointers.dedup();
    let wrong = [
        "goals/0/count",
        "goals/1/name",
        "goals/2/count",
        "goals/2/message",
        "max_per_inviter",
        "stay_seconds",
        "tag_on_join",
    ];
    assert_eq!(pointers, wrong.map(|field| format!("/fission/{field}")));
    let rules = json!({"stay_seconds": 60, "new_to": "corp", "goals": [{"count": 3, "name": "三", "message": "m", "event": true}],
        "max_per_inviter": 9});
    it.rules(rules.clone()).await;
    let mut shown = it.stage.console.get(CAMPAIGN).await.ok()["fission"].clone();
    assert_eq!(
        shown["goals"][0].as_object_mut().unwrap().remove("tag"),
        None
    );
    assert_eq!(shown, rules);
    let unknown = json!({"visitor": {"kind": "unionid", "id": "o1"}, "inviter": "nobody"});
    let seat = it
        .stage
        .console
        .post(&format!("{CAMPAIGN}/seats"), unknown)
        .await;
    assert_eq!(seat.pointers(), ["/inviter"]);
}
