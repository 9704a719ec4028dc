//! Members for whom WeCom makes no contact ways: visitors are given to the others, and to nobody to whom they could not go.

use std::collections::BTreeMap;
use std::sync::Arc;

use allocation::{ChannelId, MemberId, PoolId, PresenceChange, model::Corp};
use allocator::people::refresh;
use allocator::reception::slots;
use allocator::reception::visits::{Visited, Visitor, VisitorKind, Wanted, visit, way_of};
use e2e::{Options, World, eventually};
use ledger::{NewChannel, Precondition, Trail, Visits};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What lasts hours, in the time of a test.
const FAST: &str = "[visits]\npoll_ms = 50\nfailed_ms = 3600000\nfull_pause_ms = 1000\n";

/// A world in which the bystander does as an allocator does, so that its visits are those of one.
struct Stage {
    world: World,
    stop: CancellationToken,
    slots: JoinHandle<()>,
}

impl Stage {
    async fn new(options: Options) -> Self {
        let options = Options {
            allocator: FAST.to_owned(),
            ..options
        };
        let world = World::start(options).await;
        let stop = CancellationToken::new();
        let (app, corp) = (Arc::clone(&world.app), Arc::clone(world.corp_app()));
        let slots = tokio::spawn(slots::run(app, corp, stop.clone()));
        Self { world, stop, slots }
    }

    fn verified(&self, member: &str, verified: bool) {
        let patch = serde_json::json!({ "verified": verified });
        let corp = Some(self.world.corp.as_str());
        let patched = self.world.sim.patch_member(corp, member, &patch);
        patched.expect("a member");
    }

    /// The channel `page` over the pool `sales`.
    async fn page(&self, slots_per_member: u32) {
        let new = NewChannel {
            name: "page".to_owned(),
            pool: PoolId::new("sales").expect("a pool"),
            states: Vec::new(),
            welcome: None,
            card: false,
            needs: Vec::new(),
            limits: ledger::ChannelLimits::default(),
            visits: Some(Visits {
                slots_per_member,
                hold_seconds: 600,
                title: String::new(),
            }),
        };
        let (world, id) = (&self.world, channel());
        let trail = Trail::system(world.app.now_ms(), "test");
        let channels = world.app.ledger.channels();
        let put = channels.put(&world.corp, &id, &new, Precondition::None, &trail);
        put.await.expect("a channel");
        let routes = refresh(&world.app, world.corp_app()).await;
        routes.expect("routes");
    }

    /// Waits until visits pass over these and no others.
    async fn passes_over(&self, wanted: &[&str]) {
        let corp = self.world.corp_app();
        eventually("visits pass over whom they should", || async {
            let passed_over = corp.wayless.of(&channel());
            let passed_over: Vec<&str> = passed_over.iter().map(MemberId::as_str).collect();
            (passed_over == wanted).then_some(())
        })
        .await;
    }

    /// Waits until these have a plain way.
    async fn can_be_shown(&self, members: &[&str]) {
        let corp = self.world.corp_app();
        for member in members {
            let member = MemberId::new(*member).expect("a member");
            eventually("he can be shown", || async {
                corp.ways.plain(&channel(), &member)
            })
            .await;
        }
    }

    /// So many slots of his are told to Redis.
    async fn can_be_lent(&self, member: &str, n: i64) {
        let ledger = &self.world.app.ledger;
        eventually("slots of his can be lent", || async {
            let told: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM contact_ways
                 WHERE member = $1 AND kind = 'slot' AND state = 'ready' AND roster_generation > 0",
            )
            .bind(member)
            .fetch_one(ledger.pool())
            .await
            .expect("the ledger");
            (told >= n).then_some(())
        })
        .await;
    }

    /// So many new visitors; whom they see.
    async fn come(&self, prefix: &str, n: usize) -> BTreeMap<String, usize> {
        let mut got = BTreeMap::new();
        for i in 0..n {
            let (member, _) = self.comes(&format!("{prefix}{i}")).await;
            *got.entry(member.to_string()).or_default() += 1;
        }
        got
    }

    /// The member, and the way that is shown of him.
    async fn comes(&self, id: &str) -> (MemberId, Option<String>) {
        match self.sees(id).await {
            Visited::Held(hold) => {
                let (app, corp) = (&self.world.app, self.world.corp_app());
                let way = way_of(app, corp, &channel(), &hold).await;
                (hold.member, way)
            }
            other => panic!("{other:?}"),
        }
    }

    async fn sees(&self, id: &str) -> Visited {
        let visitor = Visitor {
            kind: VisitorKind::Cookie,
            id: id.to_owned(),
        };
        let (app, corp) = (&self.world.app, self.world.corp_app());
        let visited = visit(app, corp, &channel(), &visitor, Wanted::default()).await;
        visited.expect("a visit")
    }

    async fn off(&self, member: &str) {
        let change = PresenceChange {
            member: MemberId::new(member).expect("a member"),
            lease_until_ms: 0,
        };
        let roster = &self.world.corp_app().roster;
        let off = roster.presence(vec![change], "", None).await;
        off.expect("Redis answers");
    }

    async fn credit(&self, member: &str) -> f64 {
        let dump = self.world.corp_app().roster.dump().await.expect("a dump");
        let state = Corp::from_dump(&dump).expect("a state");
        let pool = PoolId::new("sales").expect("a pool");
        let shares = state.shares(&pool).expect("the pool");
        let mut shares = shares.iter();
        let his = shares.find(|share| share.member.as_str() == member);
        his.expect("a member").credit
    }

    async fn close(self) {
        self.stop.cancel();
        self.slots.await.expect("the loop ends");
        self.world.close().await;
    }
}

fn channel() -> ChannelId {
    ChannelId::new("page").expect("a channel")
}

fn shares(of: &[(&str, usize)]) -> BTreeMap<String, usize> {
    let shares = of.iter();
    shares.map(|(name, n)| ((*name).to_owned(), *n)).collect()
}

/// Thirty visitors, none for the one whom WeCom refuses; the others share them, his credit stays where it was. When he has
/// a way he has his share again, and nothing is made up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whom_wecom_refuses_is_given_nobody() {
    let stage = Stage::new(Options::default()).await;
    stage.verified("mb", false);
    stage.page(2).await;
    stage.passes_over(&["mb"]).await;
    stage.can_be_shown(&["ma", "mc"]).await;
    // More than there are slots: a plain way is enough.
    let got = stage.come("v", 30).await;
    assert_eq!(got, shares(&[("ma", 15), ("mc", 15)]));
    let (member, way) = stage.comes("v7").await;
    assert!(way.is_some(), "{member} can be added");
    assert!(stage.credit("mb").await.abs() < 1e-9);
    stage.verified("mb", true);
    // Ways that were not asked for yet are asked for at once; his plain one is not made yet, so he gets visitors by slots alone.
    stage.page(14).await;
    stage.passes_over(&[]).await;
    stage.can_be_lent("mb", 12).await;
    let got = stage.come("w", 30).await;
    assert!((10..=11).contains(&got["mb"]), "{got:?}");
    stage.close().await;
}

/// Nobody else is there: a visitor waits rather than see nothing, and is given him when he can be shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_is_given_him_when_he_can_be_shown() {
    let stage = Stage::new(Options::default()).await;
    stage.verified("mb", false);
    stage.page(2).await;
    stage.passes_over(&["mb"]).await;
    for member in ["ma", "mc"] {
        stage.off(member).await;
    }
    for _ in 0..2 {
        assert!(matches!(stage.sees("v1").await, Visited::Waiting { .. }));
    }
    stage.verified("mb", true);
    stage.page(3).await;
    stage.passes_over(&[]).await;
    // His plain way was refused; a slot is asked for anew.
    stage.can_be_lent("mb", 1).await;
    let (member, way) = stage.comes("v1").await;
    assert_eq!((member.as_str(), way.is_some()), ("mb", true));
    stage.close().await;
}

/// The corp has as many ways as WeCom allows: who came too late is passed over until there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_came_after_the_corp_was_full() {
    let stage = Stage::new(Options {
        sim: "[limits]\ncontact_ways = 2\n".to_owned(),
        ..Options::default()
    })
    .await;
    stage.page(0).await;
    let corp = stage.world.corp_app();
    let late = eventually("one is left", || async {
        let passed_over = corp.wayless.of(&channel());
        (passed_over.len() == 1).then(|| passed_over[0].to_string())
    })
    .await;
    let got = stage.come("v", 20).await;
    assert_eq!(got.len(), 2, "{got:?}");
    assert!(!got.contains_key(&late) && got.values().all(|n| *n == 10));
    let room = serde_json::json!({"limits": {"contact_ways": 500_000}});
    stage.world.sim.patch_config(&room).expect("room");
    stage.passes_over(&[]).await;
    let got = stage.come("w", 30).await;
    assert!((10..=11).contains(&got[&late]), "{got:?}");
    stage.close().await;
}

/// Nobody is left: as if nobody was refused, and each sees that his code is being prepared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_all_are_refused_nobody_is_passed_over() {
    let stage = Stage::new(Options::default()).await;
    for member in ["ma", "mb", "mc"] {
        stage.verified(member, false);
    }
    stage.page(1).await;
    let ways = stage.world.app.ledger.contact_ways();
    eventually("all are refused", || async {
        let found = ways.passed_over(&stage.world.corp, false).await.ok()?;
        (found.len() == 1 && !found[0].others).then_some(())
    })
    .await;
    let got = stage.come("v", 30).await;
    assert_eq!(got, shares(&[("ma", 10), ("mb", 10), ("mc", 10)]));
    assert_eq!(stage.comes("v7").await.1, None);
    // One of them can be shown again: all who come go to him.
    stage.verified("mc", true);
    stage.page(2).await;
    stage.passes_over(&["ma", "mb"]).await;
    assert_eq!(stage.come("w", 5).await, shares(&[("mc", 5)]));
    stage.close().await;
}
