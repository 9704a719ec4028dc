//! Pools that lack groups, on the stage of the customer groups.

use std::{sync::Arc, time::Duration};

use allocation::GroupPoolId;
use allocator::{
    app::{App, CorpApp},
    fission::supply::{self, Supplier, Turned},
};
use serde_json::{Value, json};

use crate::fission_stage::{LAG_MS, Stage};

pub(crate) const SEND: &str = "message/send";
/// Where the fake WeCom's clock begins.
const SIM_START_MS: u64 = 1_792_000_000_000;

pub(crate) fn corp(app: &App) -> &Arc<CorpApp> {
    app.corps.values().next().unwrap()
}

pub(crate) fn pool() -> GroupPoolId {
    GroupPoolId::new("p1").unwrap()
}

/// What was done about the stock; people and WeCom are asked, too.
pub(crate) async fn turn(app: &App) -> Turned {
    let turned = Supplier::default().turn(app, corp(app)).await.unwrap();
    supply::people(app, corp(app)).await.unwrap();
    supply::rooms(app, corp(app)).await.unwrap();
    turned
}

impl Stage {
    pub(crate) async fn supply(&self, supply: Value) {
        let pool = json!({"name": "读书会", "scan_cap": 10, "hard_cap": 20, "buffer": 1, "supply": supply});
        self.console.put("/group-pools/p1", pool).await.ok();
        self.tell().await;
    }

    /// A group of the pool that everything is known of, in stock.
    pub(crate) async fn stock(&self, chat: &str) {
        self.make(chat);
        self.pass(LAG_MS).await;
        let spare = json!({"group_pool": "p1", "state": "spare"});
        self.put(chat, spare).await;
        self.tell().await;
        self.read_all().await;
        self.events().await;
    }

    /// What WeCom told is heard, and new groups are read when WeCom knows them.
    pub(crate) async fn hear_of_groups(&self) {
        let events = self.events().await;
        self.deliver(&events).await;
        self.pass(LAG_MS).await;
        self.read_all().await;
    }

    pub(crate) async fn state(&self, chat: &str) -> String {
        let group = self.console.get(&format!("/groups/{chat}")).await.ok();
        group["state"].as_str().unwrap().to_owned()
    }

    /// The oldest first.
    pub(crate) async fn tasks(&self) -> Vec<Value> {
        let mut tasks = self.console.all("/supply-tasks").await;
        tasks.reverse();
        tasks
    }

    pub(crate) async fn free(&self) -> u64 {
        let view = self.corp().roster.group_pool(&pool()).await.unwrap();
        view.unwrap().free
    }

    pub(crate) async fn wait_for(&self, who: &str) {
        self.asks("unionid", who, None, 3_600_000).await;
        assert_eq!(self.is("unionid", who).await, "waiting");
    }

    pub(crate) fn messages(&self) -> u64 {
        let counters = self.sim.counters();
        let corp = counters.corps.get(self.world.corp.as_str());
        corp.map_or(0, |corp| corp.messages.values().sum())
    }

    pub(crate) fn sends(&self) -> u64 {
        self.calls(SEND)
    }

    pub(crate) fn calls(&self, api: &str) -> u64 {
        let counters = self.sim.counters();
        let corp = counters.corps.get(self.world.corp.as_str());
        corp.and_then(|corp| corp.apis.get(api))
            .map_or(0, |one| one.calls)
    }

    /// From now on the fake WeCom's clock is ours.
    pub(crate) async fn same_clock(&self) {
        let behind_ms = self.app().now_ms() - SIM_START_MS;
        self.sim.advance(Duration::from_millis(behind_ms)).await;
    }
}
