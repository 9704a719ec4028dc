//! Importing groups from a fake WeCom: each once, within the quota, whoever dies meanwhile.

use std::{sync::Arc, time::Duration};

use allocation::CorpId;
use allocator::{api::work, app::App, clock::Clock};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wecom_sim::{
    Act, AppConfig, Config, CorpConfig, Fault, GroupRequest, MemberConfig, Sim, SimHandle,
};

use crate::{
    api_deliveries::ended,
    api_support::{Console, Options, World},
    lane_stage::{AGENT, Forward},
};

const LIST: &str = "externalcontact/groupchat/list";
const GET: &str = "externalcontact/groupchat/get";

struct Stage {
    world: World,
    sim: SimHandle,
    console: Console,
}

impl Stage {
    async fn new() -> Self {
        Self::with("", "").await
    }

    /// `rules` of the fake WeCom, `config` of ours. There are three members; nothing of WeCom's lags.
    async fn with(rules: &str, config: &str) -> Self {
        let corp = CorpId::new(test_redis::corp()).unwrap();
        let base = format!("[clock]\nmode = \"real\"\n[groups]\nread_lag_ms = 0\n{rules}");
        let sim = Config {
            corps: vec![CorpConfig {
                id: corp.to_string(),
                apps: vec![AppConfig {
                    agent_id: AGENT,
                    secret: "caseSecret".into(),
                    ..AppConfig::default()
                }],
                members: ["ZhangSan", "LiSi", "WangWu"].map(MemberConfig::new).into(),
                ..CorpConfig::default()
            }],
            ..Config::parse(&base).unwrap()
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sim = Sim::start(sim, listener).await.unwrap();
        let options = Options {
            config: config.to_owned(),
            wecom: Some((corp, sim.base_url())),
            ..Options::default()
        };
        let world = World::with(1, options).await;
        let console = world.operator().await;
        console
            .put("/group-pools/p1", json!({"name": "x"}))
            .await
            .ok();
        Self {
            world,
            sim,
            console,
        }
    }

    fn groups(&self, owner: &str, count: u32) -> Vec<String> {
        let request = GroupRequest::new(owner).people(3).count(count);
        self.sim.make_groups(&request).unwrap().chat_ids
    }

    fn group(&self, owner: &str, chat: &str) {
        let request = GroupRequest::new(owner).chat_id(chat).people(3);
        self.sim.make_groups(&request).unwrap();
    }

    fn fails(&self, chat: &str, code: i32) {
        let fault = Fault::new(GET, Act::Errcode(code)).chat(chat);
        self.sim.add_fault(fault).unwrap();
    }

    fn calls(&self, api: &str) -> u64 {
        let counters = self.sim.counters();
        let corp = counters.corps.get(self.world.corp.as_str());
        corp.and_then(|corp| corp.apis.get(api))
            .map_or(0, |one| one.calls)
    }

    async fn begin(&self, body: Value) -> Value {
        let begun = self.console.post("/group-imports", body).await;
        assert_eq!(begun.status, 202, "{}", begun.text);
        begun.json()
    }

    async fn turn(&self) -> bool {
        turn(self.world.app()).await
    }

    /// An import, to its end.
    async fn import(&self, body: Value) -> Value {
        let begun = self.begin(body).await;
        assert!(self.turn().await);
        ended(&self.console, &begun).await
    }

    async fn read(&self, chat: &str) -> Value {
        self.console.get(&format!("/groups/{chat}")).await.ok()
    }

    async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let limit = tokio::time::Instant::now() + Duration::from_secs(30);
        while !holds() {
            assert!(
                tokio::time::Instant::now() < limit,
                "waited in vain: {what}"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

async fn turn(app: &Arc<App>) -> bool {
    let corp = app.corps.values().next().unwrap();
    let stop = CancellationToken::new();
    work::import_turn(app, corp, &stop).await.unwrap()
}

fn counts(operation: &Value) -> (&str, u64, u64, u64) {
    let count = |name: &str| operation[name].as_u64().unwrap();
    (
        operation["state"].as_str().unwrap(),
        count("total"),
        count("done"),
        count("failed"),
    )
}

#[tokio::test]
async fn all_groups_become_known_and_are_refreshed_afterwards() {
    let stage = Stage::new().await;
    stage.groups("ZhangSan", 13);
    let last = stage.groups("LiSi", 12);
    let body = json!({"group_pool": "p1", "state": "open", "tags": ["北京"]});
    let begun = stage.begin(body.clone()).await;
    assert_eq!(counts(&begun), ("running", 0, 0, 0));
    // It has a worker of its own: whoever does other work does not wait for it.
    let (app, corp) = (stage.world.app(), stage.world.corp_app());
    let stop = CancellationToken::new();
    assert!(!work::turn(app, corp, &stop).await.unwrap());
    assert!(!work::simulation_turn(app, corp, &stop).await.unwrap());
    assert!(stage.turn().await);
    let operation = ended(&stage.console, &begun).await;
    assert_eq!(counts(&operation), ("done", 25, 25, 0));
    assert_eq!((stage.calls(LIST), stage.calls(GET)), (1, 25));
    assert!(!stage.turn().await);
    let rows = stage.console.all("/groups?group_pool=p1").await;
    assert_eq!(rows.len(), 25);
    for row in &rows {
        // The three, and whoever made it.
        assert_eq!(
            (&row["people"], &row["source"], &row["tags"]),
            (&json!(4), &json!("import"), &json!(["北京"]))
        );
        // Redis has not been told of them.
        assert_eq!(
            row["not_shown"],
            json!(["not_counted", "no_join_way"]),
            "{row}"
        );
        assert!(row["read_at"].is_string() && row["name"].is_string());
    }
    let of_lisi = rows.iter().filter(|row| row["owner"] == "LiSi");
    assert_eq!(of_lisi.count(), 12);

    // An operator's word stands, what WeCom says is fresh, and there is one more.
    let chat = &last[0];
    let put = json!({"state": "closed", "rank": 5});
    stage
        .console
        .put(&format!("/groups/{chat}"), put)
        .await
        .ok();
    let invited = wecom_sim::InviteRequest {
        chat_id: chat.clone(),
        count: 2,
        ..Default::default()
    };
    stage.sim.invite(&invited).unwrap();
    stage.group("WangWu", "wrNew");
    let operation = stage.import(json!({"state": "spare"})).await;
    assert_eq!(counts(&operation), ("done", 26, 26, 0));
    let known = stage.read(chat).await;
    assert_eq!(
        (
            &known["state"],
            &known["rank"],
            &known["people"],
            &known["group_pool"]
        ),
        (&json!("closed"), &json!(5), &json!(6), &Value::Null)
    );
    let new = stage.read("wrNew").await;
    assert_eq!(
        (&new["state"], &new["group_pool"], &new["version"]),
        (&json!("spare"), &Value::Null, &json!(1))
    );
    let rows = stage.console.all("/groups?group_pool=p1").await;
    assert_eq!(rows.len(), 24);
    assert!(rows.iter().all(|row| row["version"] == 1));
    let audited = stage.console.all("/audit?action=group.import").await;
    assert_eq!(audited.len(), 26);
}

/// WeCom's events told of the groups before anybody imported them, and in no pool they are of no use.
#[tokio::test]
async fn groups_that_an_event_told_of_come_into_the_pool() {
    let stage = Stage::new().await;
    let chats = stage.groups("ZhangSan", 4);
    let (groups, corp) = (stage.world.app().ledger.groups(), &stage.world.corp);
    let trail = ledger::Trail {
        actor: "events".into(),
        reason: None,
        request_id: None,
        now_ms: stage.world.app().now_ms(),
    };
    for chat in &chats {
        let read = ledger::GroupRead {
            chat: chat.parse().unwrap(),
            name: String::new(),
            owner: "ZhangSan".into(),
            member_count: 4,
            member_version: None,
            read_ms: 1,
        };
        assert!(groups.found(corp, &read, &trail).await.unwrap());
    }
    // An operator has put this one elsewhere meanwhile.
    stage
        .console
        .put("/group-pools/p2", json!({"name": "y"}))
        .await
        .ok();
    let path = format!("/groups/{}", chats[3]);
    let put = json!({"group_pool": "p2", "state": "open"});
    stage.console.put(&path, put).await.ok();

    let wanted =
        json!({"owners": ["ZhangSan"], "group_pool": "p1", "state": "open", "tags": ["北京"]});
    let operation = stage.import(wanted.clone()).await;
    assert_eq!(counts(&operation), ("done", 4, 3, 0));
    assert_eq!(operation["skipped"], 1);
    for chat in &chats[..3] {
        let group = stage.read(chat).await;
        assert_eq!(
            (&group["group_pool"], &group["state"], &group["tags"]),
            (&json!("p1"), &json!("open"), &json!(["北京"])),
            "{group}"
        );
        assert_eq!(group["source"], "event");
    }
    assert_eq!(stage.read(&chats[3]).await["group_pool"], "p2");

    // Again there is nothing to do.
    let operation = stage.import(wanted).await;
    assert_eq!(counts(&operation), ("done", 4, 3, 0));
    assert_eq!(operation["skipped"], 1);
    let versions = stage.console.all("/groups?group_pool=p1").await;
    assert!(versions.iter().all(|group| group["version"] == 2));
}

/// Nobody who is in a group is written down.
#[tokio::test]
async fn who_is_in_a_group_is_counted_and_not_kept() {
    let stage = Stage::new().await;
    stage.group("ZhangSan", "wr1");
    let person = wecom_sim::GroupPerson::new("wmSecret").unionid("oSecret");
    let invited = wecom_sim::InviteRequest {
        chat_id: "wr1".into(),
        people: vec![person],
        ..Default::default()
    };
    stage.sim.invite(&invited).unwrap();
    stage.import(json!({})).await;
    assert_eq!(stage.read("wr1").await["people"], 5);
    let kept = "SELECT (SELECT count(*) FROM groups AS g WHERE g::text LIKE '%Secret%')
        + (SELECT count(*) FROM operations AS o WHERE o::text LIKE '%Secret%')
        + (SELECT count(*) FROM audit AS a WHERE a::text LIKE '%Secret%')";
    let kept: i64 = sqlx::query_scalar(kept)
        .fetch_one(&mut stage.world.database.connect().await)
        .await
        .unwrap();
    assert_eq!(kept, 0);
}

#[tokio::test]
async fn a_group_that_cannot_be_read_is_named_and_the_others_go_on() {
    let stage = Stage::new().await;
    for chat in ["wr1", "wr2", "wr3", "wr4"] {
        stage.group("ZhangSan", chat);
    }
    stage.import(json!({"group_pool": "p1"})).await;
    stage.fails("wr1", 90501);
    stage.fails("wr3", 49008);
    stage.group("LiSi", "wr5");
    stage.fails("wr5", 60011);
    let operation = stage.import(json!({"group_pool": "p1"})).await;
    assert_eq!(counts(&operation), ("done", 5, 2, 3));
    let errors = operation["first_errors"].as_array().unwrap();
    let errors: Vec<_> = errors
        .iter()
        .map(|error| (&error["group"], &error["errcode"]))
        .collect();
    assert_eq!(
        errors,
        [
            (&json!("wr1"), &json!(90501)),
            (&json!("wr3"), &json!(49008)),
            (&json!("wr5"), &json!(60011)),
        ]
    );
    let strange = stage.read("wr1").await;
    assert_eq!(
        (
            &strange["problem"]["errcode"],
            &strange["people"],
            &strange["state"]
        ),
        (&json!(90501), &json!(4), &json!("spare"))
    );
    // One that is dissolved is no more; what could never be read does not become known.
    let gone = stage.read("wr3").await;
    assert_eq!(
        (&gone["state"], &gone["version"], &gone["not_shown"]),
        (&json!("dismissed"), &json!(2), &json!(["dismissed"]))
    );
    assert_eq!(stage.console.get("/groups/wr5").await.status, 404);
    assert!(stage.read("wr2").await["problem"].is_null());
    // Mended, it is read again and the reason goes.
    stage.sim.clear_faults();
    let operation = stage.import(json!({})).await;
    assert_eq!(counts(&operation), ("done", 5, 5, 0));
    assert!(stage.read("wr1").await["problem"].is_null());
    assert_eq!(stage.read("wr3").await["state"], "dismissed");
}

#[tokio::test]
async fn owners_who_cannot_be_listed_are_named_and_the_others_go_on() {
    let stage = Stage::new().await;
    stage.groups("ZhangSan", 2);
    stage.groups("LiSi", 3);
    stage.groups("WangWu", 4);
    let body = json!({"owners": ["ZhangSan", "Nobody", "WangWu", "Neither"]});
    let operation = stage.import(body).await;
    assert_eq!(counts(&operation), ("done", 8, 6, 2));
    let errors = operation["first_errors"].as_array().unwrap();
    let owners: Vec<_> = errors.iter().map(|error| &error["owner"]).collect();
    assert_eq!(owners, ["neither", "nobody"]);
    assert!(errors.iter().all(|error| error["errcode"] == 40003));
    assert_eq!(stage.console.all("/groups").await.len(), 6);
}

/// More members are in the app's range than WeCom lists groups for at once: they are named, a hundred at a time.
#[tokio::test]
async fn a_large_corp_is_listed_owner_by_owner() {
    let stage = Stage::with("[limits]\nvisible_owners = 2\n", "").await;
    stage.groups("ZhangSan", 2);
    stage.groups("LiSi", 3);
    let operation = stage.import(json!({})).await;
    assert_eq!(counts(&operation), ("done", 5, 5, 0));
    assert_eq!(stage.calls(LIST), 2);
}

#[tokio::test]
async fn the_quota_is_waited_for_and_an_import_can_be_cancelled() {
    let stage = Stage::new().await;
    stage.groups("ZhangSan", 4);
    let (app, corp) = (stage.world.app(), &stage.world.corp);
    let until_ms = i64::try_from(app.now_ms() + 3_600_000).unwrap();
    let blocked = app.quota.block(corp.as_str(), GET, until_ms, None);
    blocked.await.unwrap();
    let begun = stage.begin(json!({})).await;
    let worker = tokio::spawn({
        let app = Arc::clone(app);
        async move { turn(&app).await }
    });
    let path = format!("/operations/{}", begun["id"].as_str().unwrap());
    loop {
        let operation = stage.console.get(&path).await.ok();
        if counts(&operation) == ("running", 4, 0, 0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let cancel = format!("{path}/cancel");
    let asked = stage.console.post(&cancel, json!({})).await.ok();
    assert_eq!(asked["state"], "cancelling");
    assert!(worker.await.unwrap());
    let operation = stage.console.get(&path).await.ok();
    assert_eq!(counts(&operation), ("cancelled", 4, 0, 0));
    assert_eq!((stage.calls(LIST), stage.calls(GET)), (1, 0));
}

#[tokio::test]
async fn whoever_takes_over_from_a_dead_process_goes_on() {
    let stage = Stage::new().await;
    let chats = stage.groups("ZhangSan", 60);
    let mut sorted = chats.clone();
    sorted.sort();
    stage.fails(&sorted[0], 90501);
    // Slow enough to die in the middle.
    let slow = Fault::new(GET, Act::DelayMs(5));
    stage.sim.add_fault(slow).unwrap();
    let body = json!({"owners": ["ZhangSan", "Nobody"], "group_pool": "p1"});
    let begun = stage.begin(body).await;
    let dies = tokio::spawn({
        let app = Arc::clone(stage.world.app());
        async move { turn(&app).await }
    });
    stage.until("25 calls", || stage.calls(GET) >= 25).await;
    dies.abort();
    assert!(dies.await.unwrap_err().is_cancelled());
    let called = stage.calls(GET);
    assert!(called < 60, "{called}");
    // While the dead one's lease lasts nobody takes it; afterwards somebody goes on.
    assert!(!stage.turn().await);
    let clock = Arc::new(Forward::default());
    clock.0.store(31_000, std::sync::atomic::Ordering::Relaxed);
    let other = stage.world.process(Arc::clone(&clock) as Clock).await;
    assert!(turn(&other).await);
    let operation = ended(&stage.console, &begun).await;
    // The owner and the group that failed are counted once.
    assert_eq!(counts(&operation), ("done", 61, 59, 2));
    assert_eq!(operation["first_errors"].as_array().unwrap().len(), 2);
    assert!(stage.calls(GET) < 60 + 15, "{}", stage.calls(GET));
    assert_eq!(stage.console.all("/groups?group_pool=p1").await.len(), 59);
}

/// A process that is told to stop gives it back at once.
#[tokio::test]
async fn a_stop_in_order_loses_nothing() {
    let stage = Stage::new().await;
    stage.groups("ZhangSan", 30);
    let begun = stage.begin(json!({})).await;
    let (app, corp) = (stage.world.app(), stage.world.corp_app());
    let stop = CancellationToken::new();
    let worker = work::import_turn(app, corp, &stop);
    let stopper = async {
        stage.until("a batch", || stage.calls(GET) >= 10).await;
        stop.cancel();
    };
    let (worked, ()) = tokio::join!(worker, stopper);
    assert!(worked.unwrap());
    assert!(stage.turn().await);
    let operation = ended(&stage.console, &begun).await;
    assert_eq!(counts(&operation), ("done", 30, 30, 0));
    assert_eq!(stage.calls(GET), 30);
}

const QUICK: &str = "[outbox]\nmax_attempts = 2\nbackoff_min_ms = 1\nbackoff_max_ms = 2\n";

#[tokio::test]
async fn one_group_without_an_answer_is_given_up_and_several_end_it() {
    let stage = Stage::with("", QUICK).await;
    for n in 0..9 {
        stage.group("ZhangSan", &format!("wr{n}"));
    }
    stage.fails("wr3", -1);
    stage.fails("wr4", -1);
    let operation = stage.import(json!({})).await;
    assert_eq!(counts(&operation), ("done", 9, 7, 2));
    assert_eq!(operation["first_errors"][0]["group"], "wr3");
    // WeCom answers for nobody: that is not the groups' fault, and nothing more is asked.
    stage.sim.clear_faults();
    let busy = Fault::new(GET, Act::Errcode(-1));
    stage.sim.add_fault(busy).unwrap();
    let operation = stage.import(json!({})).await;
    assert_eq!(counts(&operation), ("failed", 9, 0, 2));
    let errors = operation["first_errors"].as_array().unwrap();
    let last = errors.last().unwrap()["problem"].as_str().unwrap();
    assert!(last.contains("in a row"), "{last}");
}

#[tokio::test]
async fn an_import_that_makes_no_sense_any_more_fails_and_says_why() {
    let stage = Stage::with("", QUICK).await;
    stage.groups("ZhangSan", 2);
    let begun = stage.begin(json!({"group_pool": "p1"})).await;
    stage.console.delete("/group-pools/p1").await.ok();
    assert!(stage.turn().await);
    let operation = ended(&stage.console, &begun).await;
    assert_eq!(counts(&operation), ("failed", 2, 0, 0));
    let why = operation["first_errors"][0]["problem"].as_str().unwrap();
    assert_eq!(why, "the group pool p1 is gone");
    assert!(stage.console.all("/groups").await.is_empty());
    // An app that may not list groups.
    let refused = Fault::new(LIST, Act::Errcode(48002));
    stage.sim.add_fault(refused).unwrap();
    let operation = stage.import(json!({})).await;
    assert_eq!(operation["state"], "failed");
    let why = operation["first_errors"][0]["problem"].as_str().unwrap();
    assert!(why.contains("48002"), "{why}");
}
