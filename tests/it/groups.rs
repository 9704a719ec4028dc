//! Customer groups from the callback to the seat: everybody comes at once, events come twice, overtake each other or get lost, an
//! allocator is killed; nobody is shown a group that does not take him, and in the end Redis has whom WeCom has.

use std::{collections::BTreeMap, sync::Arc};

use allocation::{
    CampaignId, ChatId, FillStrategy, GroupPoolId, GroupTags, ReserveSeat, Reserved, SeatId,
    SeatName, SubjectKey, model::SeatPlace,
};
use allocator::app::CorpApp;
use e2e::{Options, World, eventually};
use ledger::{
    GroupCaps, GroupState, NewCampaign, NewGroup, NewGroupPool, OwnCaps, Precondition, Supply,
    Trail, WaysOf,
};
use tokio::task::JoinSet;
use uuid::Uuid;
use wecom::client::JoinWay;
use wecom_sim::{GroupPerson, GroupRequest, InviteRequest, JoinOutcome, JoinRequest};

const CAPS: GroupCaps = GroupCaps {
    scan_cap: 20,
    hard_cap: 40,
    buffer: 2,
};
const N_GROUPS: usize = 6;
/// Without those that are kept and the owner.
const SEATS: u32 = CAPS.scan_cap - CAPS.buffer - 1;
const HOLD_MS: u64 = 4_000;

fn pool() -> GroupPoolId {
    GroupPoolId::new("g").expect("a pool")
}

fn campaign() -> CampaignId {
    CampaignId::new("spring").expect("a campaign")
}

fn chats() -> Vec<ChatId> {
    let chats = (0..N_GROUPS).map(|n| ChatId::new(format!("wr{n}")));
    chats.collect::<Result<_, _>>().expect("ids")
}

/// Groups that there are at WeCom, in one pool that one campaign fills.
async fn configure(world: &World) {
    let trail = Trail::system(world.app.now_ms(), "test");
    let ledger = &world.app.ledger;
    let new = NewGroupPool {
        name: "g".to_owned(),
        strategy: FillStrategy::Spread,
        caps: CAPS,
        any_group: true,
        supply: Supply::default(),
    };
    let pools = ledger.group_pools();
    let id = pool();
    let put = pools.put(&world.corp, &id, &new, Precondition::None, &trail);
    put.await.expect("a group pool");
    let new = NewCampaign {
        name: "spring".to_owned(),
        pool: pool(),
        hold_seconds: 600,
        title: String::new(),
        open: true,
        starts_ms: None,
        ends_ms: None,
        ways: WaysOf::Campaign,
        groups_per_way: 1,
        fission: None,
    };
    let campaigns = ledger.campaigns();
    let id = campaign();
    let put = campaigns.put(&world.corp, &id, &new, Precondition::None, &trail);
    put.await.expect("a campaign");
    for chat in chats() {
        let made = GroupRequest::new("desk").chat_id(chat.as_str());
        world.sim.make_groups(&made).expect("a group");
        let new = NewGroup {
            pool: Some(pool()),
            rank: 0,
            caps: OwnCaps::default(),
            tags: Vec::new(),
            state: GroupState::Open,
        };
        let groups = ledger.groups();
        let put = groups.put(&world.corp, &chat, &new, Precondition::None, &trail);
        put.await.expect("a group");
    }
    let all = u64::from(SEATS) * N_GROUPS as u64;
    eventually("all groups are read", || async {
        let view = world.corp_app().roster.group_pool(&pool()).await.ok()??;
        (view.free == all && view.available == N_GROUPS as u32).then_some(())
    })
    .await;
}

fn name(corp: &CorpApp, unionid: &str) -> SeatName {
    SeatName {
        campaign: campaign(),
        subject: SubjectKey::new(&corp.id, "unionid", unionid),
    }
}

/// A visitor asks until he is shown a group.
async fn shown(corp: &CorpApp, unionid: &str) -> ChatId {
    let SeatName { campaign, subject } = name(corp, unionid);
    eventually("he is shown a group", || async {
        let asked = ReserveSeat {
            seat: SeatId(Uuid::now_v7()),
            campaign: campaign.clone(),
            pool: pool(),
            subject,
            anonymous: false,
            via: None,
            tags: GroupTags::any(),
            hold_ms: HOLD_MS,
            wait_ms: 60_000,
        };
        let told = corp
            .roster
            .reserve_seats(vec![asked], "", None)
            .await
            .ok()?;
        match told.answer.into_iter().next()? {
            Reserved::Held { chat, .. } | Reserved::Again { chat, .. } => Some(chat),
            _ => None,
        }
    })
    .await
}

/// Redis has whom WeCom has, and knows who they are.
async fn is_exact(world: &World, chat: &ChatId) -> Option<()> {
    let view = world.corp_app().roster.group(chat).await.ok()??;
    let there = world.sim.group(None, chat.as_str()).ok()?;
    let is_same = view.seen?.as_str() == there.member_version
        && view.people.len() == there.size
        && view.people.iter().all(|person| !person.pending);
    (is_same && view.count.held == 0).then_some(())
}

async fn place(world: &World, n: usize) -> Option<SeatPlace> {
    let corp = world.corp_app();
    let seat = corp.roster.seat(&name(corp, &format!("o{n}"))).await.ok()?;
    seat.map(|seat| seat.place)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_shown_a_group_gets_in_and_is_counted_once() {
    let mut world = World::start(Options {
        gateways: 2,
        allocators: 2,
        allocator: "[fission]\nread_after_ms = 50\nread_lag_ms = 300\npoll_ms = 20\n".to_owned(),
        sim: "[groups]\nscan_cap = 20\nhard_cap = 40\nread_lag_ms = 200\n[callbacks]\nduplicate_rate = 0.2\n\
              reorder_rate = 0.3\nreorder_within_ms = 300\nloss_rate = 0.15\n"
            .to_owned(),
        ..Options::default()
    })
    .await;
    configure(&world).await;
    let corp = Arc::clone(world.corp_app());
    let mut ways = BTreeMap::new();
    for chat in chats() {
        let way = JoinWay::into_groups([chat.as_str()]);
        let added = corp.client.add_join_way(&way).await.expect("a join way");
        ways.insert(chat, added.config_id);
    }
    let mut coming = JoinSet::new();
    for n in 0..70 {
        let corp = Arc::clone(&corp);
        coming.spawn(async move { (n, shown(&corp, &format!("o{n}")).await) });
    }
    let mut n_scanned = 0;
    while let Some(came) = coming.join_next().await {
        let (n, chat) = came.expect("a visitor");
        let person = GroupPerson::new(format!("wm{n}")).unionid(format!("o{n}"));
        let scan = JoinRequest::way(&ways[&chat]).person(person);
        let joins = world.sim.join(&scan).expect("a scan").joins;
        assert_eq!(joins[0].outcome, JoinOutcome::Joined, "{chat} takes him");
        n_scanned += 1;
        if n_scanned == 30 {
            world.kill_allocator(0);
        }
    }
    // These were shown a group and never come.
    for n in 70..80 {
        shown(&corp, &format!("o{n}")).await;
    }
    world.start_allocator().await;
    for chat in chats() {
        eventually("Redis has whom WeCom has", || is_exact(&world, &chat)).await;
    }
    for n in 0..70 {
        let place = place(&world, n).await;
        let confirmed = matches!(place, Some(SeatPlace::Taken { late: false, .. }));
        assert!(confirmed, "o{n}: {place:?}");
    }
    for n in 70..80 {
        let place = place(&world, n).await;
        assert!(
            matches!(place, Some(SeatPlace::Expired { .. })),
            "{place:?}"
        );
    }
    // Whoever comes past us takes room, too, and all at once more than there is.
    let invited = InviteRequest::new("wr0").count(25);
    world
        .sim
        .patch_config(&serde_json::json!({"callbacks": {"loss_rate": 0.0}}))
        .expect("rules");
    world.sim.invite(&invited).expect("an invitation");
    let chat = chats().remove(0);
    eventually("they are counted", || async {
        is_exact(&world, &chat).await?;
        let view = corp.roster.group(&chat).await.ok()??;
        (view.count.oversold > 0 && view.count.free == 0).then_some(())
    })
    .await;
    world.close().await;
}
