//! Somebody brings others into groups: what counts, what does not, and what it comes to.

use allocation::{GroupPoolId, GroupTags, ReserveSeat, SeatId};
use allocator::{
    app::App,
    fission::inviters,
    payload::{Context, Payload},
    people,
};
use ledger::InviterPage;
use serde_json::{Value, json};
use uuid::Uuid;
use wecom_sim::GroupPerson;

use crate::fission_stage::{LAG_MS, Stage, person};

const CAMPAIGN: &str = "/campaigns/spring";
const MINUTE_MS: u64 = 60_000;

/// The stage, with a campaign that rewards, one group `g1` and a way into it.
pub(crate) struct Invited {
    pub(crate) stage: Stage,
    pub(crate) way: String,
}

impl Invited {
    pub(crate) async fn new(fission: Value) -> Self {
        Self::with(fission, 200).await
    }

    pub(crate) async fn with(fission: Value, cap: u32) -> Self {
        Self::on(Stage::new().await, fission, cap).await
    }

    pub(crate) async fn on(stage: Stage, fission: Value, cap: u32) -> Self {
        let pool = json!({"name": "x", "scan_cap": cap, "hard_cap": cap.max(20), "buffer": 1});
        stage.console.put("/group-pools/p1", pool).await.ok();
        let this = Self {
            way: String::new(),
            stage,
        };
        this.rules(fission).await;
        let stage = &this.stage;
        stage.group("g1").await;
        let way = stage.way("g1", None).await;
        this.write().await;
        Self { way, ..this }
    }

    pub(crate) async fn rules(&self, fission: Value) {
        let campaign = json!({"name": "x", "group_pool": "p1", "fission": fission});
        self.stage.console.put(CAMPAIGN, campaign).await.ok();
        people::refresh(self.stage.app(), self.stage.corp())
            .await
            .unwrap();
    }

    /// Answers the inviter's id.
    pub(crate) async fn inviter(&self, kind: &str, id: &str) -> String {
        let body = json!({"inviter": {"kind": kind, "id": id}});
        let path = format!("{CAMPAIGN}/inviters");
        let made = self.stage.console.post(&path, body);
        made.await.ok()["id"].as_str().unwrap().to_owned()
    }

    /// By his unionid, as a landing page would, for whom this inviter brought.
    pub(crate) async fn asks(&self, id: &str, inviter: &str) {
        self.asks_of(self.stage.app(), id, inviter).await;
    }

    pub(crate) async fn asks_of(&self, app: &App, id: &str, inviter: &str) {
        let corp = app.corps.values().next().unwrap();
        let name = self.stage.name("unionid", &format!("o{id}"));
        let asked = ReserveSeat {
            seat: SeatId(Uuid::now_v7()),
            campaign: name.campaign,
            pool: GroupPoolId::new("p1").unwrap(),
            subject: name.subject,
            anonymous: false,
            via: None,
            tags: GroupTags::any(),
            hold_ms: 600_000,
            wait_ms: 60_000,
        };
        let context = Context {
            source: "seat".to_owned(),
            subject_kind: "unionid".to_owned(),
            subject_id: format!("o{id}"),
            inviter: Some(inviter.to_owned()),
            ..Context::default()
        };
        let payload = Payload {
            contexts: vec![context],
            ..Payload::default()
        };
        let text = payload.text();
        let told = corp.roster.reserve_seats(vec![asked], &text, None);
        told.await.unwrap();
    }

    /// He asks, scans, and is heard of.
    pub(crate) async fn comes(&self, id: &str, inviter: &str) {
        self.asks(id, inviter).await;
        self.stage.scan(&self.way, &[person(id)]);
        self.hear().await;
    }

    /// He comes without any seat.
    pub(crate) async fn scans(&self, way: &str, id: &str) {
        self.stage.scan(way, &[GroupPerson::new(id)]);
        self.hear().await;
    }

    pub(crate) async fn leaves(&self, id: &str) {
        self.stage.leaves("g1", id);
        self.hear().await;
    }

    pub(crate) async fn hear(&self) {
        self.stage.hear().await;
        self.write().await;
    }

    /// The ledger has what the log has.
    pub(crate) async fn write(&self) {
        self.stage.world.written().await;
    }

    /// Whoever stayed is looked for until nothing is due.
    pub(crate) async fn look(&self) {
        let (app, corp) = (self.stage.app(), self.stage.corp());
        while inviters::turn(app, corp).await.unwrap() > 0 {}
    }

    pub(crate) async fn of(&self, inviter: &str) -> Value {
        let path = format!("{CAMPAIGN}/inviters/{inviter}");
        self.stage.console.get(&path).await.ok()
    }

    /// joined, pending, qualified, revoked, refused
    pub(crate) async fn counts(&self, inviter: &str) -> [u64; 5] {
        let counts = self.of(inviter).await["counts"].clone();
        ["joined", "pending", "qualified", "revoked", "refused"]
            .map(|name| counts[name].as_u64().unwrap())
    }

    /// States and reasons of all edges of an inviter, the latest first.
    pub(crate) async fn edges(&self, inviter: &str) -> Vec<String> {
        let path = format!("{CAMPAIGN}/edges?inviter={inviter}");
        let edges = self.stage.console.get(&path).await.ok();
        let edges = edges["data"].as_array().unwrap().iter();
        let edge = |edge: &Value| match edge["reason"].as_str() {
            Some(reason) => format!("{} {reason}", edge["state"].as_str().unwrap()),
            None => edge["state"].as_str().unwrap().to_owned(),
        };
        edges.map(edge).collect()
    }

    /// What the outbox was asked for.
    pub(crate) async fn effects(&self, kind: &str) -> Vec<String> {
        let keys =
            sqlx::query_scalar("SELECT effect_key FROM outbox WHERE kind = $1 ORDER BY effect_key");
        let pool = self.stage.app().ledger.pool();
        keys.bind(kind.to_owned()).fetch_all(pool).await.unwrap()
    }
}

#[tokio::test]
async fn an_inviter_keeps_his_code_and_whom_he_brought_counts_once() {
    let it = Invited::new(json!({"goals": [{"count": 2, "name": "two"}]})).await;
    let path = format!("{CAMPAIGN}/inviters");
    let body = json!({"inviter": {"kind": "unionid", "id": "owmanna"}, "name": "Anna"});
    let console = &it.stage.console;
    let made = console.post(&path, body.clone()).await.ok();
    let again = console.post(&path, body).await.ok();
    assert_eq!(made, again);
    let code = made["public_code"].as_str().unwrap();
    assert_eq!(code.len(), 22);
    assert_eq!(made["public_url"].as_str().unwrap(), format!("/g/{code}"));
    assert_eq!(made["state"], format!("pi.{code}"));
    let (anna, bert) = (
        made["id"].as_str().unwrap(),
        it.inviter("member", "LiSi").await,
    );
    it.comes("wmc1", anna).await;
    assert_eq!(it.counts(anna).await, [1, 0, 1, 0, 0]);
    // Whoever asks by another code afterwards stays hers, as does whoever is in the group.
    it.asks("wmc2", anna).await;
    it.comes("wmc2", &bert).await;
    it.comes("wmc1", &bert).await;
    assert_eq!(it.counts(anna).await, [2, 0, 2, 0, 0]);
    assert_eq!(it.counts(&bert).await, [0; 5]);
    let goals = it.of(anna).await["goals"].clone();
    assert_eq!(goals[0]["name"], "two");
    // Written twice is written once.
    it.write().await;
    assert_eq!(it.edges(anna).await, ["qualified", "qualified"]);
}

#[tokio::test]
async fn whoever_leaves_does_not_count_and_coming_back_earns_nothing() {
    let it = Invited::new(json!({"goals": [{"count": 1, "name": "one", "event": true}]})).await;
    let anna = it.inviter("unionid", "owmanna").await;
    it.comes("wmc1", &anna).await;
    it.leaves("wmc1").await;
    assert_eq!(it.counts(&anna).await, [1, 0, 0, 1, 0]);
    assert_eq!(it.edges(&anna).await, ["revoked left"]);
    // Redis' clock says when somebody came, and goes on by itself.
    sqlx::query("UPDATE edges SET changed_at = changed_at - interval '11 minutes'")
        .execute(it.stage.app().ledger.pool())
        .await
        .unwrap();
    it.comes("wmc1", &anna).await;
    assert_eq!(it.counts(&anna).await, [1, 0, 0, 1, 0]);
    let path = format!("{CAMPAIGN}/edges?state=revoked");
    let edges = it.stage.console.get(&path);
    let edge = edges.await.ok()["data"][0].clone();
    assert_eq!(
        (&edge["rejoins"], &edge["chat_id"]),
        (&json!(1), &json!("g1"))
    );
    // Soon does not help him who was away for long.
    it.leaves("wmc1").await;
    it.comes("wmc1", &anna).await;
    assert_eq!(it.edges(&anna).await, ["revoked left"]);
    // What was reached stays, and is not reached again.
    it.comes("wmc2", &anna).await;
    assert_eq!(it.effects("event").await.len(), 1);
    let there: i64 = sqlx::query_scalar("SELECT count(*) FROM goals_reached")
        .fetch_one(it.stage.app().ledger.pool())
        .await
        .unwrap();
    assert_eq!(there, 1);
}

#[tokio::test]
async fn whoever_is_moved_never_left() {
    let it = Invited::new(json!({"stay_seconds": 0})).await;
    it.stage.group("g2").await;
    let into_two = it.stage.way("g2", None).await;
    let anna = it.inviter("unionid", "owmanna").await;
    it.comes("wmc1", &anna).await;
    it.leaves("wmc1").await;
    assert_eq!(it.counts(&anna).await, [1, 0, 0, 1, 0]);
    it.stage.pass(MINUTE_MS).await;
    it.stage.scan(&into_two, &[person("wmc1")]);
    it.hear().await;
    assert_eq!(it.counts(&anna).await, [1, 0, 1, 0, 0]);
    // First in, then out: nothing happens at all.
    it.comes("wmc2", &anna).await;
    it.stage.scan(&into_two, &[person("wmc2")]);
    it.hear().await;
    it.leaves("wmc2").await;
    assert_eq!(it.counts(&anna).await, [2, 0, 2, 0, 0]);
    // A group that is taken out of the pool was left by nobody.
    it.stage.put("g2", json!({"group_pool": null})).await;
    it.stage.tell().await;
    it.write().await;
    assert_eq!(it.counts(&anna).await, [2, 0, 2, 0, 0]);
}

#[tokio::test]
async fn nobody_brings_himself_nor_who_brought_him() {
    let it = Invited::new(json!({})).await;
    let mut ids = Vec::new();
    for name in ["wmanna", "wmbert", "wmcleo"] {
        ids.push(it.inviter("unionid", &format!("o{name}")).await);
    }
    let [anna, bert, cleo] = [&ids[0], &ids[1], &ids[2]];
    it.comes("wmbert", anna).await;
    it.comes("wmcleo", bert).await;
    it.comes("wmanna", cleo).await;
    assert_eq!(it.edges(cleo).await, ["refused circle"]);
    assert_eq!(it.counts(cleo).await, [0, 0, 0, 0, 1]);
    assert_eq!(it.counts(anna).await, [1, 0, 1, 0, 0]);
    let dora = it.inviter("external_id", "wmdora").await;
    it.comes("wmdora", &dora).await;
    assert_eq!(it.edges(&dora).await, ["refused self_invite"]);
    // By each other's codes, known in one batch: one of the two counts.
    let [emil, fred] = [
        it.inviter("external_id", "wmemil").await,
        it.inviter("external_id", "wmfred").await,
    ];
    it.asks("wmemil", &fred).await;
    it.asks("wmfred", &emil).await;
    it.stage
        .scan(&it.way, &[person("wmemil"), person("wmfred")]);
    it.hear().await;
    let counts = [it.counts(&emil).await, it.counts(&fred).await];
    assert_eq!(counts.iter().map(|count| count[2]).sum::<u64>(), 1);
    assert_eq!(counts.iter().map(|count| count[4]).sum::<u64>(), 1);
}

#[tokio::test]
async fn whoever_was_there_before_is_not_new() {
    let it = Invited::new(json!({"max_per_inviter": 1})).await;
    let anna = it.inviter("unionid", "owmanna").await;
    // Nobody brought him.
    it.stage.scan(&it.way, &[person("wmc1")]);
    it.hear().await;
    it.leaves("wmc1").await;
    it.stage.pass(LAG_MS).await;
    it.comes("wmc1", &anna).await;
    assert_eq!(it.edges(&anna).await, ["refused already_member"]);
    it.comes("wmc2", &anna).await;
    it.comes("wmc3", &anna).await;
    assert_eq!(it.counts(&anna).await, [1, 0, 1, 0, 2]);
    let path = format!("{CAMPAIGN}/inviters/{anna}");
    let body = json!({"blocked": "sells places"});
    let blocked = it.stage.console.put(&path, body).await.ok();
    assert_eq!(blocked["blocked"], "sells places");
    it.comes("wmc4", &anna).await;
    assert_eq!(it.edges(&anna).await[0], "refused blocked_inviter");
    let freed = it.stage.console.put(&path, json!({"blocked": null}));
    assert_eq!(freed.await.ok()["blocked"], Value::Null);
}

/// Whoever is new to the pool need not be new to the corp.
#[tokio::test]
async fn new_to_whom() {
    let it = Invited::new(json!({"new_to": "group_pool"})).await;
    let pool = json!({"name": "x", "scan_cap": 10, "hard_cap": 20, "buffer": 1});
    it.stage.console.put("/group-pools/p2", pool).await.ok();
    it.stage.make("g9");
    it.stage.put("g9", json!({"group_pool": "p2"})).await;
    it.stage.tell().await;
    let elsewhere = it.stage.way("g9", None).await;
    it.stage.scan(&elsewhere, &[person("wmc1"), person("wmc2")]);
    it.stage.events().await;
    it.stage.pass(LAG_MS).await;
    it.stage.mark("g9").await;
    it.hear().await;
    let anna = it.inviter("unionid", "owmanna").await;
    it.comes("wmc1", &anna).await;
    it.rules(json!({"new_to": "corp"})).await;
    it.comes("wmc2", &anna).await;
    it.comes("wmc3", &anna).await;
    assert_eq!(
        it.edges(&anna).await,
        ["qualified", "refused already_member", "qualified"]
    );
}

/// A late join is a join.
#[tokio::test]
async fn whoever_comes_late_counts() {
    let it = Invited::new(json!({})).await;
    let anna = it.inviter("unionid", "owmanna").await;
    it.asks("wmc1", &anna).await;
    it.stage.pass(11 * MINUTE_MS).await;
    it.stage.release().await;
    it.stage.read_all().await;
    it.stage.release().await;
    assert_eq!(it.stage.is("unionid", "owmc1").await, "expired");
    it.stage.scan(&it.way, &[person("wmc1")]);
    it.hear().await;
    assert_eq!(it.stage.is("unionid", "owmc1").await, "late");
    assert_eq!(it.edges(&anna).await, ["qualified"]);
}

/// Whom no seat explains, and who has the State of an inviter.
#[tokio::test]
async fn a_state_names_the_inviter() {
    let it = Invited::new(json!({})).await;
    let anna = it.inviter("other", "blogger-7").await;
    let state = it.of(&anna).await["state"].as_str().unwrap().to_owned();
    let way = it.stage.way("g1", Some(&state)).await;
    it.scans(&way, "wmc1").await;
    let unknown = it.stage.way("g1", Some("pi.nobody")).await;
    it.scans(&unknown, "wmc2").await;
    assert_eq!(it.edges(&anna).await, ["qualified"]);
}

#[tokio::test]
async fn only_who_stays_counts() {
    let it = Invited::new(json!({"stay_seconds": 3600})).await;
    let anna = it.inviter("unionid", "owmanna").await;
    it.comes("wmc1", &anna).await;
    it.comes("wmc2", &anna).await;
    assert_eq!(it.counts(&anna).await, [2, 2, 0, 0, 0]);
    it.stage.pass(59 * MINUTE_MS).await;
    it.look().await;
    assert_eq!(it.counts(&anna).await, [2, 2, 0, 0, 0]);
    // He leaves and nobody hears of it: it is found out by the read that is asked for.
    it.stage.leaves("g1", "wmc2");
    it.stage.events().await;
    it.stage.pass(2 * MINUTE_MS).await;
    it.look().await;
    assert_eq!(it.counts(&anna).await, [2, 2, 0, 0, 0]);
    it.stage.read_all().await;
    it.write().await;
    it.stage.pass(MINUTE_MS).await;
    it.look().await;
    assert_eq!(it.counts(&anna).await, [2, 0, 1, 1, 0]);
}

/// A group that cannot be read makes nobody count, and keeps nobody waiting for ever.
#[tokio::test]
async fn of_whom_nobody_can_say_it_is_given_up() {
    let it = Invited::new(json!({"stay_seconds": 60})).await;
    let anna = it.inviter("unionid", "owmanna").await;
    it.comes("wmc1", &anna).await;
    for _ in 0..3 {
        it.stage.pass(7 * 60 * MINUTE_MS).await;
        it.look().await;
        assert_eq!(it.counts(&anna).await, [1, 1, 0, 0, 0]);
    }
    it.stage.pass(4 * 60 * MINUTE_MS).await;
    it.look().await;
    assert_eq!(it.edges(&anna).await, ["revoked unread"]);
}

/// Codes are found without Postgres once they were looked up, and guessing is bounded.
#[tokio::test]
async fn whose_page_it_is() {
    let it = Invited::new(json!({})).await;
    let anna = it.inviter("unionid", "owmanna").await;
    let code = it.of(&anna).await["public_code"]
        .as_str()
        .unwrap()
        .to_owned();
    let app = it.stage.process().await;
    let page = inviters::by_code(&app, &code).await.unwrap().unwrap();
    let InviterPage { inviter, .. } = (*page).clone();
    assert_eq!(inviter.to_string(), anna);
    let corp = app.corps.values().next().unwrap();
    let campaign = "spring".parse().unwrap();
    for name in [&anna, &code] {
        let named = inviters::named(&app, corp, &campaign, name).await.unwrap();
        assert_eq!(named.unwrap().to_string(), anna);
    }
    let other = "summer".parse().unwrap();
    let named = inviters::named(&app, corp, &other, &code).await.unwrap();
    assert!(named.is_none());
    // From now on nothing is asked of Postgres for these.
    let guessed = "aaaaaaaaaaaaaaaaaaaaaa";
    assert!(inviters::by_code(&app, guessed).await.unwrap().is_none());
    app.ledger.close().await;
    assert!(inviters::by_code(&app, &code).await.unwrap().is_some());
    assert!(inviters::by_code(&app, guessed).await.unwrap().is_none());
    assert!(
        inviters::by_code(&app, "too short")
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        inviters::by_code(&app, "baaaaaaaaaaaaaaaaaaaaa")
            .await
            .is_err()
    );
}
