//! A full group whose code may open a room, on the stage of the customer groups.

use allocation::CampaignId;
use allocator::{
    app::App,
    fission::{
        asking::{self, Shown},
        join_ways::change,
    },
    people,
    reception::visits::{Visitor, VisitorKind},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wecom_sim::JoinRequest;

use crate::{
    fission_stage::{Stage, person},
    supply_stage::{corp, turn},
};

pub(crate) const UPDATE: &str = "externalcontact/groupchat/update_join_way";
/// Five seconds after somebody was shown the code.
pub(crate) const LOOKED_MS: u64 = 5_001;

pub(crate) fn auto_rooms(sources: &[&str]) -> Value {
    json!({"min_free": 0, "ahead_seconds": 0, "sources": sources, "deadline_seconds": 900})
}

/// One group, `c1`, that nobody is given a seat in: so many lack until WeCom lets nobody in. The pool has these sources.
pub(crate) async fn full_but_for(lacking: u32, sources: &[&str]) -> Stage {
    let stage = Stage::configured(0, "[fission]\nwait_ms = 0\n").await;
    stage.same_clock().await;
    let rules = json!({"groups": {"scan_cap": 10}});
    stage.sim.patch_config(&rules).unwrap();
    stage.group("c1").await;
    let config_id = stage.way("c1", Some("pg.x")).await;
    sqlx::query("UPDATE join_ways SET config_id = $1 WHERE way = 'pj.c1'")
        .bind(config_id)
        .execute(stage.app().ledger.pool())
        .await
        .unwrap();
    stage.invite("c1", 9 - lacking);
    stage.hear().await;
    assert_eq!(stage.count("c1").await, (10 - lacking, 0, 0, 0));
    stage.supply(auto_rooms(sources)).await;
    stage
}

/// WeCom is told what it does not know.
pub(crate) async fn change(app: &App) {
    let stop = CancellationToken::new();
    change::run(app, corp(app), &stop).await.unwrap();
}

/// This process knows of all that is written.
pub(crate) async fn sees(app: &App) {
    while !people::look_again(app, corp(app)).await {
        tokio::task::yield_now().await;
    }
}

/// Somebody who waits: whether he is shown the code of a full group.
pub(crate) async fn opens(app: &App, who: &str) -> Option<String> {
    sees(app).await;
    let visitor = Visitor {
        kind: VisitorKind::Unionid,
        id: who.to_owned(),
    };
    let campaign = CampaignId::new("spring").unwrap();
    let shown = asking::ask(app, corp(app), &campaign, &visitor, Vec::new(), None).await;
    match shown.unwrap() {
        Shown::Waiting { opens, .. } => opens,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn code() -> Option<String> {
    Some("pj.c1".to_owned())
}

impl Stage {
    /// As WeCom has it.
    pub(crate) fn way_of(&self, chat: &str) -> Value {
        let corp = self.world.corp.as_str();
        let state = self.sim.state(Some(corp)).unwrap();
        let ways = state.corps[corp].join_ways.iter();
        let mut ways = ways.filter(|way| way["chat_id_list"][0] == chat);
        ways.next().unwrap().clone()
    }

    /// Ways that open rooms, by WeCom.
    pub(crate) fn opening(&self) -> usize {
        let corp = self.world.corp.as_str();
        let state = self.sim.state(Some(corp)).unwrap();
        let ways = state.corps[corp].join_ways.iter();
        ways.filter(|way| way["auto_create_room"] == 1).count()
    }

    /// Somebody waits, and WeCom knows that it is to open a room.
    pub(crate) async fn armed(&self) {
        assert_eq!(opens(self.app(), "oa").await, None);
        self.world.written().await;
        turn(self.app()).await;
        change(self.app()).await;
        turn(self.app()).await;
        assert_eq!(self.task().await["state"], "asked");
        assert_eq!(self.opening(), 1);
    }

    /// The first.
    pub(crate) async fn task(&self) -> Value {
        self.tasks().await.remove(0)
    }

    /// He scans the code of `c1`: into which group he comes.
    pub(crate) fn scans(&self, who: &str) -> String {
        let config_id = self.way_of("c1")["config_id"].as_str().unwrap().to_owned();
        let scan = JoinRequest::way(&config_id).person(person(who));
        let mut reply = self.sim.join(&scan).unwrap();
        reply.joins.remove(0).chat_id.expect("he gets in")
    }

    /// The last place and a room.
    pub(crate) async fn room(&self) -> String {
        assert_eq!(opens(self.app(), "oa").await, code());
        assert_eq!(self.scans("a"), "c1");
        let room = self.scans("b");
        assert_ne!(room, "c1");
        room
    }

    /// The room is the pool's, and WeCom is told to open no more.
    pub(crate) async fn is_adopted(&self, room: &str) {
        let task = self.task().await;
        assert_eq!(
            (&task["state"], &task["chat_ids"]),
            (&json!("done"), &json!([room]))
        );
        let group = self.console.get(&format!("/groups/{room}")).await.ok();
        assert_eq!(
            (&group["group_pool"], &group["state"], &group["source"]),
            (&json!("p1"), &json!("open"), &json!("auto_room"))
        );
        let before = self.console.get("/groups/c1").await.ok();
        assert!(group["rank"].as_u64() > before["rank"].as_u64(), "{group}");
        turn(self.app()).await;
        change(self.app()).await;
        self.is_disarmed().await;
    }

    pub(crate) async fn is_disarmed(&self) {
        assert_eq!(self.opening(), 0);
        assert_eq!(self.way_of("c1")["chat_id_list"], json!(["c1"]));
        let left = "SELECT count(*) FROM join_ways WHERE rooms_for IS NOT NULL OR told_rooms IS DISTINCT FROM false
                        OR state = 'ready' AND next_try_at IS NOT NULL";
        let left: i64 = sqlx::query_scalar(left)
            .fetch_one(self.app().ledger.pool())
            .await
            .unwrap();
        assert_eq!(left, 0);
        assert_eq!(opens(self.app(), "oz").await, None);
    }
}
