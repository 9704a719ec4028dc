//! Seats over the API and on the hosted page, with a fake WeCom: who is shown a group comes into that group.

use std::time::Duration;

use allocation::{
    ChatId, ChatVersion, ConfirmSeats, CorpId, FillStrategy, GroupPoolId, SetGroup, SetGroupPool,
};
use allocator::{fission::join_ways, people};
use ledger::{Role, WayState};
use reqwest::{StatusCode, header};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wecom_sim::{
    Act, AppConfig, Config, CorpConfig, Fault, GroupRequest, JoinOutcome, JoinRequest,
    MemberConfig, Sim, SimHandle,
};

use crate::{
    api_support::{Console, Options, World},
    lane_stage::AGENT,
    public_desk::pages,
    public_stage::Html,
};

const ADD: &str = "externalcontact/groupchat/add_join_way";
const GET: &str = "externalcontact/groupchat/get_join_way";
const UPDATE: &str = "externalcontact/groupchat/update_join_way";
const SEATS: &str = "/campaigns/spring/seats";
/// What lasts minutes or hours, in the time of a test.
const FAST: &str = "[visits]\npoll_ms = 20\nask_lease_ms = 6000\nunknown_for_ms = 300\nbackoff_min_ms = 20\n\
                    full_pause_ms = 1000\nslot_rest_ms = 300\n";

struct Stage {
    world: World,
    sim: SimHandle,
    console: Console,
    stop: CancellationToken,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Stage {
    async fn new() -> Self {
        Self::with("").await
    }

    /// `rules` of the fake WeCom. No join way is made before [`Stage::provision`].
    async fn with(rules: &str) -> Self {
        let corp = CorpId::new(test_redis::corp()).unwrap();
        let base = format!("[clock]\nmode = \"real\"\n{rules}");
        let sim = Config {
            corps: vec![CorpConfig {
                id: corp.to_string(),
                apps: vec![AppConfig {
                    agent_id: AGENT,
                    secret: "caseSecret".into(),
                    ..AppConfig::default()
                }],
                members: vec![MemberConfig::new("desk")],
                ..CorpConfig::default()
            }],
            ..Config::parse(&base).unwrap()
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sim = Sim::start(sim, listener).await.unwrap();
        let options = Options {
            config: FAST.to_owned(),
            wecom: Some((corp, sim.base_url())),
            ..Options::default()
        };
        let world = World::with(1, options).await;
        let console = world.operator().await;
        let stage = Self {
            world,
            sim,
            console,
            stop: CancellationToken::new(),
        };
        let pool = json!({"name": "x", "scan_cap": 4, "buffer": 1});
        stage.console.put("/group-pools/g", pool).await.ok();
        stage.campaign(json!({})).await;
        stage
    }

    async fn campaign(&self, more: Value) -> Value {
        let mut body = json!({"name": "x", "group_pool": "g", "title": "春季"});
        let fields = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        self.console.put("/campaigns/spring", body).await.ok()
    }

    /// Open groups of the pool, at WeCom and in Redis, in which nobody is but their owner: with room for two each.
    async fn groups(&self, names: &[&str]) {
        let roster = &self.world.corp_app().roster;
        let pool = GroupPoolId::new("g").unwrap();
        let set = SetGroupPool {
            pool: pool.clone(),
            version: 1,
            strategy: FillStrategy::FillFirst,
        };
        roster.set_group_pool(set, "", None).await.unwrap();
        for (rank, name) in names.iter().enumerate() {
            let mut made = GroupRequest::new("desk").chat_id(*name);
            made.name = Some(format!("群 {name}"));
            self.sim.make_groups(&made).unwrap();
            self.put_group(name, "open", rank).await;
            let chat = ChatId::new(*name).unwrap();
            let set = SetGroup::new(chat.clone(), 1, pool.clone(), 3, 1).unwrap();
            let set = set.with_rank(rank as u32);
            roster.set_group(set, "", None).await.unwrap();
            let read = ConfirmSeats {
                chat,
                from: None,
                version: ChatVersion::new("v1").unwrap(),
                force: false,
                joined: Vec::new(),
                left: Vec::new(),
            };
            roster.confirm_seats(read, "", None).await.unwrap();
        }
        sqlx::query("UPDATE groups SET name = '群 ' || chat_id, owner = 'desk', member_count = 1, read_at = now()")
            .execute(self.world.app().ledger.pool())
            .await
            .unwrap();
        self.refresh().await;
    }

    async fn put_group(&self, name: &str, state: &str, rank: usize) {
        let body = json!({"group_pool": "g", "rank": rank, "state": state});
        self.console
            .put(&format!("/groups/{name}"), body)
            .await
            .ok();
    }

    /// What the loop of `people` does.
    async fn refresh(&self) {
        let (app, corp) = (self.world.app(), self.world.corp_app());
        people::refresh(app, corp).await.unwrap();
    }

    /// From now on ways are made.
    async fn provision(&self) {
        self.refresh().await;
        let (app, corp) = (self.world.app().clone(), self.world.corp_app().clone());
        tokio::spawn(join_ways::run(app, corp, self.stop.clone()));
    }

    async fn ready(&self, count: u64) {
        self.until("the ways are ready", async |ways| {
            ways["ready"] == count && ways["coming"] == 0
        })
        .await;
    }

    async fn until(&self, what: &str, holds: impl AsyncFn(Value) -> bool) {
        let limit = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let ways = self.console.get("/campaigns/spring/join-ways").await.ok();
            if holds(ways.clone()).await {
                return;
            }
            assert!(tokio::time::Instant::now() < limit, "{what}: {ways}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn ask(&self, unionid: &str) -> Value {
        self.console.post(SEATS, visitor(unionid)).await.ok()
    }

    /// Asks until the answer is this state, and has a picture if it is a seat.
    async fn shown(&self, unionid: &str, state: &str) -> Value {
        let limit = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let seat = self.ask(unionid).await;
            if seat["state"] == state && (state != "held" || seat["picture"].is_string()) {
                return seat;
            }
            assert!(tokio::time::Instant::now() < limit, "{state}: {seat}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn join_ways(&self) -> Vec<Value> {
        let corp = self.world.corp.as_str();
        let state = self.sim.state(Some(corp)).unwrap();
        state.corps[corp].join_ways.clone()
    }

    fn calls(&self, api: &str) -> u64 {
        let counters = self.sim.counters();
        let corp = counters.corps.get(self.world.corp.as_str());
        corp.and_then(|corp| corp.apis.get(api))
            .map_or(0, |one| one.calls)
    }
}

fn visitor(unionid: &str) -> Value {
    json!({"visitor": {"kind": "unionid", "id": unionid}})
}

/// The way behind a picture's address.
fn config_id(qr_code: &Value) -> &str {
    let file = qr_code.as_str().unwrap().rsplit('/').next().unwrap();
    file.strip_suffix(".png").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_code_that_is_shown_leads_into_the_group_that_is_shown() {
    let stage = Stage::new().await;
    stage.groups(&["wr1", "wr2"]).await;
    let none = stage.ask("o1").await;
    assert_eq!(
        (&none["state"], &none["seat_id"]),
        (&json!("preparing"), &Value::Null)
    );
    stage.provision().await;
    stage.ready(2).await;
    let mut seen = Vec::new();
    for n in 0..4 {
        let unionid = format!("o{n}");
        let seat = stage.shown(&unionid, "held").await;
        let chat = seat["chat_id"].as_str().unwrap().to_owned();
        assert_eq!(seat["group_name"], format!("群 {chat}"));
        assert_eq!(stage.ask(&unionid).await, seat, "he keeps it");
        let joined = stage
            .sim
            .join(&JoinRequest::way(config_id(&seat["qr_code"])))
            .unwrap();
        assert_eq!(joined.joins[0].outcome, JoinOutcome::Joined);
        assert_eq!(joined.joins[0].chat_id.as_deref(), Some(chat.as_str()));
        seen.push(chat);
    }
    assert_eq!(
        seen,
        ["wr1", "wr1", "wr2", "wr2"],
        "by rank, and none that is full"
    );
    let first = stage.ask("o8").await;
    let second = stage.ask("o9").await;
    assert_eq!(
        (&first["state"], &first["position"]),
        (&json!("waiting"), &json!(1))
    );
    assert_eq!(
        (&second["position"], &second["chat_id"]),
        (&json!(2), &Value::Null)
    );
    assert_eq!(stage.ask("o8").await, first, "he keeps his place");
    // All ways of the campaign have its State, and open no rooms.
    let ways = stage.join_ways();
    assert_eq!(ways.len(), 2);
    let code = stage.console.get("/campaigns/spring").await.ok();
    let state = format!("pg.{}", code["public_code"].as_str().unwrap());
    for way in &ways {
        assert_eq!(
            (&way["state"], &way["auto_create_room"]),
            (&json!(state), &json!(0))
        );
        assert_eq!(way["chat_id_list"].as_array().unwrap().len(), 1);
    }
    assert_eq!(
        (stage.calls(ADD), stage.calls(GET)),
        (2, 2),
        "each is made and read once"
    );
    stage.world.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_shows_the_group_and_serves_its_code() {
    let stage = Stage::new().await;
    let campaign = stage.campaign(json!({})).await;
    stage.groups(&["wr1"]).await;
    stage.provision().await;
    stage.ready(1).await;
    stage.shown("o1", "held").await;
    let addr = pages(&stage.world, 0).await;
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let code = campaign["public_code"].as_str().unwrap();
    assert_eq!(campaign["public_url"], format!("/g/{code}"));
    let page = format!("http://{addr}/g/{code}");
    let first = http.get(&page).send().await.unwrap();
    assert_eq!(first.status(), StatusCode::SEE_OTHER);
    let cookie = first.headers()[header::SET_COOKIE].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let open = async |cookie: &str| {
        let answer = http.get(&page).header(header::COOKIE, cookie);
        let answer = answer.send().await.unwrap();
        let status = answer.status();
        (status, Html::read(&answer.text().await.unwrap()))
    };
    let (status, html) = open(&cookie).await;
    assert_eq!(status, StatusCode::OK);
    assert!(html.text.contains("请加入「群 wr1」"), "{}", html.text);
    assert!(html.text.contains("春季"), "{}", html.text);
    let source = html.of("img", "src").unwrap();
    let picture = http.get(format!("http://{addr}{source}"));
    let picture = picture.send().await.unwrap();
    assert_eq!(picture.headers()[header::CONTENT_TYPE], "image/png");
    assert!(picture.bytes().await.unwrap().starts_with(b"\x89PNG"));
    // The group is full now: the next one waits.
    let other = http.get(&page).send().await.unwrap();
    let other = other.headers()[header::SET_COOKIE].to_str().unwrap();
    let other = other.split(';').next().unwrap().to_owned();
    let (status, html) = open(&other).await;
    assert_eq!(status, StatusCode::OK);
    assert!(html.text.contains("第 1 位"), "{}", html.text);
    stage.campaign(json!({"state": "closed"})).await;
    let (status, html) = open(&cookie).await;
    assert_eq!(status, StatusCode::GONE);
    assert!(html.text.contains("活动已结束"), "{}", html.text);
}

/// An inviter's page is the campaign's, in both languages, and says who brought whoever comes by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_an_inviter() {
    let stage = Stage::new().await;
    stage.campaign(json!({"fission": {}})).await;
    stage.groups(&["wr1"]).await;
    stage.provision().await;
    stage.ready(1).await;
    let body = json!({"inviter": {"kind": "unionid", "id": "oanna"}});
    let anna = stage
        .console
        .post("/campaigns/spring/inviters", body)
        .await
        .ok();
    let addr = pages(&stage.world, 0).await;
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let page = format!("http://{addr}/g/{}", anna["public_code"].as_str().unwrap());
    for (language, text) in [
        ("zh-CN", "请加入「群 wr1」"),
        ("en", "Please join “群 wr1”"),
    ] {
        let first = http.get(&page).send().await.unwrap();
        assert_eq!(first.status(), StatusCode::SEE_OTHER);
        let cookie = first.headers()[header::SET_COOKIE].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let open = http.get(&page).header(header::COOKIE, cookie);
        let open = open.header(header::ACCEPT_LANGUAGE, language);
        let html = Html::read(&open.send().await.unwrap().text().await.unwrap());
        assert!(html.text.contains(text), "{}", html.text);
    }
    let code = anna["public_code"].as_str().unwrap();
    let mut rest = visitor("o1");
    rest["inviter"] = json!(code);
    assert_eq!(
        stage.console.post(SEATS, rest).await.ok()["state"],
        "waiting"
    );
    stage.world.written().await;
    let brought: i64 = sqlx::query_scalar("SELECT count(*) FROM seats WHERE inviter = $1")
        .bind(anna["id"].as_str().unwrap())
        .fetch_one(stage.world.app().ledger.pool())
        .await
        .unwrap();
    assert_eq!(brought, 3);
    let guessed = http.get(format!("http://{addr}/g/{}", "a".repeat(22)));
    assert_eq!(
        guessed.send().await.unwrap().status(),
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn who_is_given_no_seat_is_told_why() {
    let stage = Stage::new().await;
    let refused = async || {
        let answer = stage.console.post(SEATS, visitor("o1")).await;
        answer.refused()
    };
    for (more, code) in [
        (json!({"state": "closed"}), "campaign_closed"),
        (
            json!({"starts_at": "2999-01-01T00:00:00Z"}),
            "campaign_not_begun",
        ),
        (json!({"ends_at": "2020-01-01T00:00:00Z"}), "campaign_over"),
    ] {
        stage.campaign(more).await;
        assert_eq!(refused().await, (409, code.to_owned()));
    }
    let unknown = stage
        .console
        .post("/campaigns/autumn/seats", visitor("o1"))
        .await;
    assert_eq!(unknown.refused().0, 404);
    for (body, pointer) in [
        (
            json!({"visitor": {"kind": "unionid", "id": ""}}),
            "/visitor/id",
        ),
        (
            json!({"visitor": {"kind": "cookie", "id": "o1"}}),
            "/visitor/kind",
        ),
        (
            json!({"visitor": {"kind": "openid", "id": "o1"}, "tags": ["a", "a"]}),
            "/tags/1",
        ),
        (
            json!({"visitor": {"kind": "external_id", "id": "o1"}, "tags": vec!["a"; 9]}),
            "/tags",
        ),
    ] {
        let refused = stage.console.post(SEATS, body.clone()).await;
        assert_eq!(refused.pointers()[0], pointer, "{body}");
    }
    // Nobody else's ways may have a campaign's State.
    let channel = json!({"name": "x", "pool": "p1", "states": ["pg.mine"]});
    let refused = stage.console.put("/channels/c1", channel).await;
    assert_eq!(refused.pointers(), ["/states/0"]);
    let viewer = stage.world.console(Role::Viewer).await;
    assert_eq!(viewer.post(SEATS, visitor("o1")).await.status, 403);
    assert_eq!(viewer.get("/campaigns/spring/join-ways").await.status, 200);
    assert_eq!(viewer.get("/campaigns/autumn/join-ways").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_get_lost_are_counted_and_made_once_more() {
    let stage = Stage::new().await;
    stage.groups(&["wr1"]).await;
    for fault in [
        Fault::new(ADD, Act::Drop).after().times(1),
        Fault::new(GET, Act::Errcode(-1)).times(1),
    ] {
        stage.sim.add_fault(fault).unwrap();
    }
    stage.provision().await;
    stage.ready(1).await;
    // One is at WeCom that nobody sees: WeCom has no list of them.
    assert_eq!(stage.join_ways().len(), 2);
    let seat = stage.shown("o1", "held").await;
    let joined = stage
        .sim
        .join(&JoinRequest::way(config_id(&seat["qr_code"])))
        .unwrap();
    assert_eq!(joined.joins[0].chat_id.as_deref(), Some("wr1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corp_that_is_full_is_not_asked_for_a_time() {
    let stage = Stage::new().await;
    stage.groups(&["wr1", "wr2", "wr3"]).await;
    let fault = Fault::new(ADD, Act::Errcode(41045)).times(1);
    stage.sim.add_fault(fault).unwrap();
    stage.provision().await;
    stage
        .until("it is refused", async |ways| ways["errcode"] == 41045)
        .await;
    stage.ready(3).await;
    assert_eq!(stage.join_ways().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ways_follow_their_groups() {
    let stage = Stage::new().await;
    stage.campaign(json!({"groups_per_way": 2})).await;
    stage.groups(&["wr1", "wr2", "wr3"]).await;
    stage.provision().await;
    stage.ready(2).await;
    let lists = || {
        let mut lists: Vec<Value> = stage
            .join_ways()
            .iter()
            .map(|way| way["chat_id_list"].clone())
            .collect();
        lists.sort_by_key(Value::to_string);
        lists
    };
    assert_eq!(lists(), [json!(["wr1", "wr2"]), json!(["wr3"])]);
    // One that is closed is not led into by WeCom either; the whole configuration is sent.
    stage.put_group("wr1", "closed", 0).await;
    stage.refresh().await;
    let changed = async |_| lists() == [json!(["wr2"]), json!(["wr3"])];
    stage.until("WeCom knows", changed).await;
    assert_eq!(stage.calls(UPDATE), 1);
    let state = stage.join_ways()[0]["state"].clone();
    assert!(state.as_str().unwrap().starts_with("pg."), "{state}");
    // One that has left the pool is led into by nobody, after a rest.
    let left = json!({"state": "open"});
    stage.console.put("/groups/wr3", left).await.ok();
    stage.refresh().await;
    let gone = async |_| lists() == [json!(["wr2"])];
    stage.until("WeCom has deleted it", gone).await;
    let counts = stage.world.app().ledger.join_ways();
    stage
        .until("it is gone", async |_| {
            let counts = counts.counts(&stage.world.corp).await.unwrap();
            counts.contains(&(WayState::Gone, 1))
        })
        .await;
}
