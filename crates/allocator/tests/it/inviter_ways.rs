//! Inviters have join ways of their own: visitors whom nothing names are whose page's they came by, and so is whoever scans a
//! code that was passed on.

use std::sync::Arc;
use std::time::Duration;

use allocation::CampaignId;
use allocator::{
    app::App,
    fission::{
        asking::{self, Hold, Shown},
        join_ways,
    },
    people,
    reception::visits::{Visitor, VisitorKind},
};
use ledger::PlanLimits;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wecom_sim::GroupPerson;

use crate::{fission_stage::Stage, inviters::Invited};

/// What lasts minutes or hours, in the time of a test.
const FAST: &str = "[visits]\npoll_ms = 20\nask_lease_ms = 6000\nunknown_for_ms = 300\nbackoff_min_ms = 20\nslot_rest_ms = 300\n";
const PLAN: PlanLimits = PlanLimits {
    ways: 100,
    batch: 100,
    rest_ms: 300,
};

struct Own {
    it: Invited,
    stop: CancellationToken,
}

impl Drop for Own {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Own {
    /// A campaign whose inviters have ways of their own, over the group `g1`.
    async fn new(config: &str) -> Self {
        let stage = Stage::configured(0, &format!("{FAST}{config}")).await;
        let it = Invited::on(stage, json!({}), 200).await;
        let own = Self {
            it,
            stop: CancellationToken::new(),
        };
        own.campaign(json!({"ways": "inviter"})).await;
        own
    }

    async fn campaign(&self, more: Value) {
        let mut body = json!({"name": "x", "group_pool": "p1", "fission": {}});
        let fields = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        let stage = &self.it.stage;
        stage.console.put("/campaigns/spring", body).await.ok();
        people::refresh(stage.app(), stage.corp()).await.unwrap();
    }

    /// Ways are made from now on, by this process.
    fn provision(&self, app: &Arc<App>) {
        let corp = Arc::clone(app.corps.values().next().unwrap());
        tokio::spawn(join_ways::run(Arc::clone(app), corp, self.stop.clone()));
    }

    /// By this one, and by the one that the console speaks to.
    fn provision_all(&self) {
        self.provision(self.it.stage.app());
        self.provision(self.it.stage.world.app());
    }

    /// So many can be shown, and none is on its way.
    async fn ready(&self, n: u64) {
        self.until(|ways| ways["own_ready"] == n && ways["own_coming"] == 0)
            .await;
    }

    /// This process has heard of a way of the inviter's.
    async fn shows(&self, inviter: &str) {
        let state = self.it.of(inviter).await["state"].clone();
        let via = state.as_str().unwrap().parse().unwrap();
        let limit = tokio::time::Instant::now() + Duration::from_secs(30);
        while !self.it.stage.corp().join_ways.has_own(&via) {
            assert!(tokio::time::Instant::now() < limit);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn until(&self, holds: impl Fn(&Value) -> bool) {
        let limit = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let path = "/campaigns/spring/join-ways";
            let ways = self.it.stage.console.get(path).await.ok();
            if holds(&ways) {
                return;
            }
            assert!(tokio::time::Instant::now() < limit, "{ways}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// He opens the page of an inviter.
    async fn visit(&self, who: &str, inviter: &str) -> Hold {
        let stage = &self.it.stage;
        let (app, corp) = (stage.app(), stage.corp());
        // The page's code was looked up.
        let campaign = CampaignId::new("spring").unwrap();
        let named = allocator::fission::inviters::named(app, corp, &campaign, inviter);
        let inviter = named.await.unwrap();
        let visitor = Visitor {
            kind: VisitorKind::Cookie,
            id: who.to_owned(),
        };
        let shown = asking::ask(app, corp, &campaign, &visitor, Vec::new(), inviter).await;
        match shown.unwrap() {
            Shown::Held(hold) => hold,
            other => panic!("{other:?}"),
        }
    }

    /// Whoever sees it scans it; WeCom tells no unionid of him.
    async fn scans(&self, hold: &Hold, who: &str) {
        let way = hold.way.clone().unwrap();
        self.scans_code(&self.config_id(&way).await, who).await;
    }

    async fn scans_code(&self, config_id: &str, who: &str) {
        self.it.stage.scan(config_id, &[GroupPerson::new(who)]);
        self.it.hear().await;
    }

    async fn config_id(&self, way: &str) -> String {
        self.row("SELECT config_id FROM join_ways WHERE way = $1", way)
            .await
    }

    /// The inviter whose way it is; empty: the campaign's.
    async fn whose(&self, hold: &Hold) -> String {
        let way = hold.way.as_deref().unwrap();
        self.row(
            "SELECT coalesce(inviter_id, '') FROM join_ways WHERE way = $1",
            way,
        )
        .await
    }

    async fn row(&self, query: &'static str, id: &str) -> String {
        sqlx::query_scalar(query)
            .bind(id.to_owned())
            .fetch_one(self.it.stage.app().ledger.pool())
            .await
            .unwrap()
    }

    /// Those of inviters that WeCom has.
    fn at_wecom(&self) -> usize {
        let corp = self.it.stage.world.corp.as_str();
        let state = self.it.stage.sim.state(Some(corp)).unwrap();
        let ways = state.corps[corp].join_ways.iter();
        ways.filter(|way| {
            way["state"]
                .as_str()
                .is_some_and(|state| state.starts_with("pi."))
        })
        .count()
    }
}

/// Nothing names them, they scan in another order than they asked, and one code is passed on: each counts for whose it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comes_by_an_inviters_way_was_brought_by_him() {
    let own = Own::new("").await;
    let (anna, ben) = (
        own.it.inviter("other", "anna").await,
        own.it.inviter("other", "ben").await,
    );
    own.provision_all();
    // The first visitors find one.
    own.shows(&anna).await;
    own.shows(&ben).await;
    let mut holds = Vec::new();
    for (visitor, inviter) in [("a1", &anna), ("b1", &ben), ("a2", &anna), ("b2", &ben)] {
        let hold = own.visit(visitor, inviter).await;
        assert_eq!(own.whose(&hold).await, **inviter, "{visitor}");
        assert_eq!(own.visit(visitor, inviter).await, hold, "a reload");
        holds.push(hold);
    }
    own.scans(&holds[3], "wmb2").await;
    own.scans(&holds[1], "wmb1").await;
    assert_eq!(own.it.counts(&ben).await, [2, 0, 2, 0, 0]);
    assert_eq!(own.it.counts(&anna).await, [0, 0, 0, 0, 0]);
    own.scans(&holds[2], "wma2").await;
    assert_eq!(own.it.counts(&anna).await, [1, 0, 1, 0, 0]);
    // No seat is held for these.
    own.scans(&holds[1], "wmb3").await;
    own.scans(&holds[0], "wma1").await;
    own.scans(&holds[0], "wma3").await;
    assert_eq!(own.it.counts(&ben).await, [3, 0, 3, 0, 0]);
    assert_eq!(own.it.counts(&anna).await, [3, 0, 3, 0, 0]);
    let (_, held, ..) = own.it.stage.count("g1").await;
    assert_eq!(
        held, 0,
        "every hold was confirmed by one who came by its way"
    );
}

/// Nobody waits for a way: until there is one of the inviter's the campaign's is shown, and it stays the one that this visitor sees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn until_there_is_one_the_campaigns_is_shown() {
    let own = Own::new("").await;
    let anna = own.it.inviter("other", "anna").await;
    let early = own.visit("early", &anna).await;
    assert_eq!(own.whose(&early).await, "");
    // Whoever wrote it down dies; another process makes it.
    let (app, corp) = (own.it.stage.app(), own.it.stage.corp());
    assert!(!join_ways::wishes::write(app, corp, PLAN).await.unwrap());
    own.until(|ways| ways["own_coming"] == 1).await;
    let other = own.it.stage.process().await;
    own.provision(&other);
    own.provision(app);
    own.shows(&anna).await;
    let late = own.visit("late", &anna).await;
    assert_eq!(own.whose(&late).await, anna);
    assert_eq!(own.visit("early", &anna).await.way, early.way);
    own.scans(&late, "wmlate").await;
    assert_eq!(own.it.counts(&anna).await, [1, 0, 1, 0, 0]);
}

/// Beyond what is allowed nobody gets one, and with the campaign's setting they end at WeCom too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_bounded_and_end() {
    let own = Own::new("[fission]\ninviter_ways = 2\n").await;
    for name in ["anna", "ben", "carl"] {
        own.it.inviter("other", name).await;
    }
    own.provision_all();
    own.ready(2).await;
    assert_eq!(own.at_wecom(), 2);
    let with_one =
        "SELECT inviter_id FROM join_ways WHERE inviter_id IS NOT NULL AND corp_id = $1 LIMIT 1";
    let one = own.row(with_one, own.it.stage.world.corp.as_str()).await;
    own.shows(&one).await;
    let hold = own.visit("v0", &one).await;
    assert_eq!(own.whose(&hold).await, one);
    let with_none =
        "SELECT i.inviter_id FROM inviters AS i LEFT JOIN join_ways AS w USING (inviter_id)
        WHERE w.way IS NULL AND i.corp_id = $1";
    let none = own.row(with_none, own.it.stage.world.corp.as_str()).await;
    let hold = own.visit("v1", &none).await;
    assert_eq!(own.whose(&hold).await, "", "the campaign's is shown");
    own.campaign(json!({"ways": "campaign"})).await;
    own.until(|ways| ways["own_ready"] == 0).await;
    let limit = tokio::time::Instant::now() + Duration::from_secs(30);
    while own.at_wecom() > 0 {
        assert!(tokio::time::Instant::now() < limit);
        own.it.stage.pass(1_000).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let again = own.visit("v0", &one).await;
    assert_eq!(own.whose(&again).await, "", "his seat is as good as before");
}
